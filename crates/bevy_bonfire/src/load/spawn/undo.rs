//! Removes entities: those that a load replaces, those of a load that failed, and those of loads that were abandoned.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::world::World;

use super::relation::release;
use super::stand_in::{give_up_references, give_up_taken, undo_places};
use crate::pending::{AbandonedIds, LoadPlaces, PendingEntities};
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

/// Despawns what a load has spawned, and puts the stand-ins back that it `ended`. Commands that hooks left behind find their
/// entities before these are despawned; one of them may panic again. A panic while they are despawned is passed on: after one
/// in a `Drop`, Bevy's tables are not sound.
pub(crate) fn undo(
    world: &mut World,
    registry: &ComponentRegistry,
    entities: &[Entity],
    places: &LoadPlaces,
    ended: &EntityHashSet,
) {
    apply_left_commands(world, entities);
    let stays = undo_places(world, places, ended);
    let gone = entities.iter().copied().filter(|entity| !stays.contains(entity) && !ended.contains(entity));
    despawn(world, registry, gone.collect());
    give_up_references(world, places);
}

fn apply_left_commands(world: &mut World, entities: &[Entity]) {
    for &entity in entities {
        // Those that are spawned stay as they are.
        let _ = world.spawn_empty_at(entity);
    }
    let _ = catch_unwind(AssertUnwindSafe(|| world.flush()));
}

/// Frees the ids and despawns the entities of loads that were abandoned. A world that is cleared loses its queue, and the
/// ids in it mean nothing any more.
pub(crate) fn reclaim(world: &mut World) {
    let Some(pending) = world.get_resource::<PendingEntities>() else { return };
    for AbandonedIds { entities, spawned, places } in pending.take_abandoned() {
        let (spawned, unused) = entities.split_at(spawned);
        if let Ok(registry) = SaveRegistry::of(world)
            && !spawned.is_empty()
        {
            apply_left_commands(world, spawned);
            let stays = give_up_taken(world, &places);
            let gone = spawned.iter().copied().filter(|entity| !stays.contains(entity));
            despawn(world, &registry, gone.collect());
            free_unused(world, unused, &stays);
        } else {
            let stays = give_up_taken(world, &places);
            free_unused(world, unused, &stays);
        }
        give_up_references(world, &places);
    }
}

/// Frees ids that are not spawned. Stand-ins that nothing needs any more go.
fn free_unused(world: &mut World, unused: &[Entity], stays: &EntityHashSet) {
    let unused = unused.iter().copied().filter(|entity| !stays.contains(entity));
    let (spawned, free): (Vec<Entity>, Vec<Entity>) =
        unused.partition(|&entity| world.entities().contains_spawned(entity));
    for entity in spawned {
        world.despawn(entity);
    }
    let free: Vec<Entity> = free.into_iter().filter(|&entity| world.entities().contains(entity)).collect();
    world.entity_allocator_mut().free_many(&free);
}
