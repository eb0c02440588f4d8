//! Loads of a part of the world, such as a chunk, which other threads prepare one after the other.

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::{Error, Result};

use super::commit::CommittedEntities;
use super::completion::complete_part;
use super::prepare::PreparedLoad;
use super::spawn::{CommonValue, reclaim};

/// The load of a part of the world.
pub(crate) struct LoadedPart {
    /// Its entities, in the order of the save. Code of the game may have despawned some.
    pub(crate) entities: Vec<Entity>,
    /// The stable ids of those that others have, too.
    pub(crate) duplicate_stable_ids: Vec<u64>,
    pub(crate) remains: LoadRemains,
}

/// The memory that a load of a part has used. It belongs to the allocator of the thread that has prepared the load. To free it
/// on another one takes longer than to spawn the entities, if both threads are busy: each waits for the other.
pub(crate) struct LoadRemains {
    _load: PreparedLoad<'static>,
    _committed: CommittedEntities<'static>,
}

impl PreparedLoad<'static> {
    /// Applies the load of a part of the world, such as a chunk. Those of its entities that batches spawn get the common values.
    /// If this fails, the world is as it was.
    pub(crate) fn commit_part(mut self, world: &mut World, common: &[CommonValue<'_>]) -> Result<LoadedPart> {
        world.flush();
        reclaim(world);
        let entities = self.entities.take();
        let committed = match entities {
            Some(entities) => self.commit_staged(world, entities, common),
            None => Err(Error::misuse("a restore is of a whole world")),
        };
        let loaded = committed.map(|mut committed| {
            let entities = std::mem::take(&mut committed.entities);
            let duplicate_stable_ids = complete_part(world, &mut committed.load, &entities);
            let remains = LoadRemains { _load: self, _committed: committed };
            LoadedPart { entities, duplicate_stable_ids, remains }
        });
        reclaim(world);
        loaded
    }
}
