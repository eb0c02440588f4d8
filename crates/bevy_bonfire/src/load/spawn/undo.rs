//! Removes entities: those that a load replaces, those of a load that failed, and those of loads that were abandoned.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;

use super::relation::release;
use crate::pending::{AbandonedIds, PendingEntities};
use crate::registry::{ComponentRegistry, SaveRegistry};

/// Despawns entities that a load leaves no place for.
pub(crate) fn despawn(world: &mut World, registry: &ComponentRegistry, entities: Vec<Entity>) {
    release(world, registry, &entities);
    // From the last row on, so that no row has to be moved into the place of another.
    for entity in entities.into_iter().rev() {
        if let Ok(entity) = world.get_entity_mut(entity) {
            entity.despawn();
        }
    }
    world.flush();
}

/// Despawns what a load has spawned. Commands that hooks left behind find their entities before these are despawned; one
/// of them may panic again. A panic while they are despawned is passed on: after one in a `Drop`, Bevy's tables are not
/// sound.
pub(crate) fn undo(world: &mut World, registry: &ComponentRegistry, entities: &[Entity]) {
    for &entity in entities {
        // Those that are spawned stay as they are.
        let _ = world.spawn_empty_at(entity);
    }
    let _ = catch_unwind(AssertUnwindSafe(|| world.flush()));
    despawn(world, registry, entities.to_vec());
}

/// Frees the ids and despawns the entities of loads that were abandoned. A world that is cleared loses its queue, and the
/// ids in it mean nothing any more.
pub(crate) fn reclaim(world: &mut World) {
    let Some(pending) = world.get_resource::<PendingEntities>() else { return };
    for AbandonedIds { entities, spawned } in pending.take_abandoned() {
        let (spawned, unused) = entities.split_at(spawned);
        world.entity_allocator_mut().free_many(unused);
        if let Ok(registry) = SaveRegistry::of(world)
            && !spawned.is_empty()
        {
            undo(world, &registry, spawned);
        }
    }
}
