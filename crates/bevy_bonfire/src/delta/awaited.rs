//! Entities that mirrors have heard of and do not have.
//!
//! A value may refer to an entity before mirrors have it: its id was allocated and not spawned yet, or it is not replicated
//! yet. The reference is null on mirrors then. When the entity comes, such references are sent again.

use std::collections::HashSet;

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::{Delta, Result};

use super::entity_tracker::EntityTracker;

/// Below this many ids, those that can never come are kept.
const KEPT_MIN: usize = 1024;

/// The entities that told values refer to and that no delta has spawned.
#[derive(Default)]
pub(super) struct AwaitedEntities {
    ids: HashSet<Entity>,
    /// How many were left when those that can never come were removed last.
    kept: usize,
}

impl AwaitedEntities {
    /// Removes an entity that a delta spawns. Returns true if a told value may refer to it.
    pub(super) fn take(&mut self, entity: Entity) -> bool {
        !self.ids.is_empty() && self.ids.remove(&entity)
    }

    /// Adds the entities that a delta refers to and that the tracker does not know. `left` are entities that mirrors lose
    /// with it; told values may refer to them, and those that are alive may come back.
    pub(super) fn note(
        &mut self,
        delta: &Delta,
        left: &[Entity],
        tracker: &EntityTracker,
        world: &World,
    ) -> Result<()> {
        self.ids.extend(left.iter().filter(|entity| world.entities().contains(**entity)));
        delta.for_each_reference(|id| {
            let entity: Entity = id.into();
            if entity != Entity::PLACEHOLDER && !tracker.contains(entity) {
                self.ids.insert(entity);
            }
        })?;
        if self.ids.len() > KEPT_MIN.max(2 * self.kept) {
            // Generations only rise: an id of the past is never spawned.
            self.ids.retain(|entity| world.entities().contains(*entity));
            self.kept = self.ids.len();
        }
        Ok(())
    }
}
