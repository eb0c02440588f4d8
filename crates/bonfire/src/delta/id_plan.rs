//! The changes that a delta makes to the id map of a mirror.
//!
//! References are mapped while values are staged, so the map must have the new ids before that, and be as it was if staging
//! fails.

use std::collections::HashSet;

use super::Delta;
use crate::entity::{EntityId, EntityMap};
use crate::error::{Error, Result};

/// The entities that a delta spawns and despawns, for front ends that apply it: [plan](Self::plan), reserve an id for each of
/// [`to_spawn`](Self::to_spawn), [assign](Self::assign) them, stage. Then commit, or [revert](Self::revert).
#[derive(Debug)]
pub struct DeltaIds {
    /// Ids of the sender, and of the mirror.
    to_despawn: Vec<(EntityId, EntityId)>,
    to_spawn: Vec<EntityId>,
    /// Entries of the map for entities to spawn: the mirror has despawned those entities itself.
    stale: Vec<(EntityId, EntityId)>,
}

impl DeltaIds {
    /// Finds the entities to spawn and to despawn. `is_here` returns whether an entity of the mirror still exists. A change of an
    /// entity that was never spawned is an error.
    pub fn plan(delta: &Delta, map: &EntityMap, is_here: impl Fn(EntityId) -> bool) -> Result<Self> {
        // An id that goes and comes in one delta is another entity from then on.
        let mut leaving: HashSet<EntityId> = delta.despawned.iter().copied().collect();
        let mut to_despawn: Vec<(EntityId, EntityId)> =
            delta.despawned.iter().filter_map(|id| Some((*id, map.get(*id)?))).collect();
        let is_new = |id: &EntityId| leaving.contains(id) || map.get(*id).is_none_or(|local| !is_here(local));
        let to_spawn: Vec<EntityId> = delta.spawned().filter(is_new).collect();
        if delta.whole {
            let told: HashSet<EntityId> = delta.spawned().collect();
            let untold = map.iter().filter(|(remote, _)| !told.contains(remote) && leaving.insert(*remote));
            to_despawn.extend(untold);
        }
        let distinct: HashSet<EntityId> = to_spawn.iter().copied().collect();
        if distinct.len() < to_spawn.len() {
            return Err(Error::corrupt("an entity has come twice"));
        }
        let changed = delta.groups.iter().filter(|group| !group.spawned).flat_map(|group| &group.ids);
        let is_known = |id: &EntityId| map.get(*id).is_some() && !leaving.contains(id);
        match { changed }.find(|id| !is_known(id)) {
            Some(id) => Err(Error::corrupt(format!("entity {id} has changed, and was never told of"))),
            None => Ok(Self { to_despawn, to_spawn, stale: Vec::new() }),
        }
    }

    /// Entities that need an id of the mirror, in the order of the delta.
    pub fn to_spawn(&self) -> &[EntityId] {
        &self.to_spawn
    }

    /// The mirror's ids of entities to despawn, in the order of the delta.
    pub fn to_despawn(&self) -> impl DoubleEndedIterator<Item = EntityId> + '_ {
        self.to_despawn.iter().map(|(_, local)| *local)
    }

    /// Enters the ids of entities to spawn into the map, and removes those to despawn.
    pub fn assign(&mut self, map: &mut EntityMap, ids: impl IntoIterator<Item = EntityId>) -> Result<()> {
        self.to_despawn.iter().for_each(|(remote, _)| _ = map.remove(*remote));
        for (remote, local) in self.to_spawn.iter().zip(ids) {
            if let Some(before) = map.insert(*remote, local)? {
                self.stale.push((*remote, before));
            }
        }
        Ok(())
    }

    /// Returns the map to its state before [`assign`](Self::assign).
    pub fn revert(self, map: &mut EntityMap) {
        self.to_spawn.iter().for_each(|remote| _ = map.remove(*remote));
        for (remote, local) in self.stale.into_iter().chain(self.to_despawn) {
            // It was in the map, so it is no null.
            let _ = map.insert(remote, local);
        }
    }
}
