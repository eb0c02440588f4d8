//! Pending entities become part of the world, or are taken back.

use bevy_ecs::archetype::Archetype;
use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::world::World;

use super::commit;
use crate::pending::{AbandonedIds, Pending, PendingEntities};
use crate::registry::SaveRegistry;
use crate::selection::EntitySet;
use crate::stable_id::StableIds;

/// Frees the ids and despawns the entities of loads that were given up. A world that is cleared loses its queue, and the
/// ids in it mean nothing any more.
pub(crate) fn reclaim(world: &mut World) {
    let Some(pending) = world.get_resource::<PendingEntities>() else { return };
    for AbandonedIds { entities, spawned } in pending.take_abandoned() {
        let (spawned, unused) = entities.split_at(spawned);
        world.entity_allocator_mut().free_many(unused);
        if let Ok(registry) = SaveRegistry::of(world)
            && !spawned.is_empty()
        {
            commit::undo(world, &registry, spawned);
        }
    }
}

/// The components that a pending entity has beside its own, sorted. `Disabled` may be its own as well.
pub(super) fn pending_tags(world: &mut World) -> [ComponentId; 2] {
    let mut tags = [world.register_component::<Pending>(), world.register_component::<Disabled>()];
    tags.sort();
    tags
}

/// Returns true if [`activate`] runs no code of the game.
pub(super) fn activation_is_silent(world: &World) -> bool {
    let Some(pending) = world.components().component_id::<Pending>() else { return true };
    let is_heard = |archetype: &Archetype| {
        archetype.has_remove_hook()
            || archetype.has_remove_observer()
            || archetype.has_discard_hook()
            || archetype.has_discard_observer()
    };
    !world
        .archetypes()
        .iter()
        .any(|archetype| archetype.contains(pending) && !archetype.is_empty() && is_heard(archetype))
}

/// Makes pending entities part of the world, except those that the game has despawned. Some stay disabled.
pub(super) fn activate(world: &mut World, entities: &[Entity], stay_disabled: &EntitySet) {
    world.resource_mut::<StableIds>().activate(entities);
    // In the order of the save, which is then the order of rows.
    for &entity in entities {
        let Ok(mut pending) = world.get_entity_mut(entity) else { continue };
        if stay_disabled.contains(entity) {
            pending.remove::<Pending>();
        } else {
            pending.remove::<(Pending, Disabled)>();
        }
    }
    for listener in world.resource::<PendingEntities>().listeners() {
        listener(world, entities);
    }
}
