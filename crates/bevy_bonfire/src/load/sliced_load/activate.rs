//! The switch of a load in slices: pending entities become part of the world.

use bevy_ecs::archetype::Archetype;
use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::world::World;

use crate::pending::{Pending, PendingEntities};
use crate::selection::EntitySet;
use crate::stable_id::{StableIds, StandIn};

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

/// Makes pending entities part of the world, except those that the game has despawned. Those that have `taken` the places of
/// stand-ins are none any more. Some stay disabled.
pub(super) fn activate(
    world: &mut World,
    entities: &[Entity],
    taken: &EntityHashSet,
    stay_disabled: &EntitySet,
) {
    for &entity in taken {
        if world.get::<StandIn>(entity).is_some() {
            world.entity_mut(entity).remove::<StandIn>();
        }
    }
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
