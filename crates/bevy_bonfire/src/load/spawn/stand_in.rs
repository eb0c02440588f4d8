//! Stand-ins of loads: spawned for entities that are away, taken over by entities that are loaded, and put back if a load is
//! given up.

use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::relationship::RelationshipAccessor;
use bevy_ecs::world::{EntityRef, World};

use crate::pending::{LoadPlaces, PendingEntities, StandInTable, TakenPlace};
use crate::stable_id::{StableId, StandIn};

fn table(world: &World) -> Option<StandInTable> {
    world.get_resource::<PendingEntities>().map(|pending| pending.stand_ins().clone())
}

fn is_spawned(world: &World, entity: Entity) -> bool {
    world.entities().contains_spawned(entity)
}

/// Turns an entity into a stand-in: it loses all components but the lists of what relates to it. Hooks and observers of these
/// components run as when it is despawned.
pub(crate) fn make_stand_in(world: &mut World, entity: Entity, id: StableId) {
    let Ok(found) = world.get_entity(entity) else { return };
    let going = going_components(world, found);
    let mut entity = world.entity_mut(entity);
    entity.remove_by_ids(&going);
    // A hook may have despawned it.
    if !entity.is_despawned() && !entity.contains::<StandIn>() {
        entity.insert((StandIn::new(id), Disabled));
    } else if !entity.is_despawned() && !entity.contains::<Disabled>() {
        entity.insert(Disabled);
    }
}

fn going_components(world: &World, entity: EntityRef<'_>) -> Vec<ComponentId> {
    let components = world.components();
    let stays = |id: ComponentId| {
        let accessor = components.get_info(id).and_then(|info| info.relationship_accessor());
        matches!(accessor, Some(RelationshipAccessor::RelationshipTarget { .. }))
            || [components.component_id::<StandIn>(), components.component_id::<Disabled>()]
                .contains(&Some(id))
    };
    entity.archetype().iter_components().filter(|&id| !stays(id)).collect()
}

/// Spawns the stand-ins that a load refers to and that are not there yet.
pub(crate) fn spawn_stand_ins(world: &mut World, places: &LoadPlaces) {
    for &(stable_id, entity) in &places.referred {
        if !is_spawned(world, entity) {
            // If the id is not valid any more, the game has despawned the entity.
            let _ = world.spawn_at(entity, (StandIn::new(StableId::from_bits(stable_id)), Disabled));
        }
    }
}

/// The entities of a load that exist already, because they take the places of stand-ins.
pub(crate) fn existing_entities(world: &World, places: &LoadPlaces) -> EntityHashSet {
    places.taken.iter().map(|taken| taken.entity).filter(|&entity| is_spawned(world, entity)).collect()
}

/// Ends stand-ins, before the values of the entities themselves are inserted.
pub(crate) fn end_stand_ins(world: &mut World, existing: &EntityHashSet) {
    for &entity in existing {
        if let Ok(mut entity) = world.get_entity_mut(entity) {
            entity.remove::<(StandIn, Disabled)>();
        }
    }
}

/// A load is complete: its entities are in their places, and its references count.
pub(crate) fn complete_places(world: &mut World, places: LoadPlaces) {
    let Some(table) = table(world) else { return };
    for taken in &places.taken {
        table.remove(taken.stable_id, taken.entity);
    }
    for &(stable_id, entity) in &places.referred {
        table.keep(stable_id, entity);
    }
    free(world, &places.unused);
}

/// A load that had put its values into the places is undone: stand-ins are there again. Returns the entities that stay.
pub(super) fn undo_places(world: &mut World, places: &LoadPlaces, ended: &EntityHashSet) -> EntityHashSet {
    for &TakenPlace { stable_id, entity } in &places.taken {
        if ended.contains(&entity) {
            make_stand_in(world, entity, StableId::from_bits(stable_id));
        }
    }
    give_up_taken(world, places)
}

/// Gives up the places that a load has taken. Returns the entities that stay, as stand-ins.
pub(super) fn give_up_taken(world: &mut World, places: &LoadPlaces) -> EntityHashSet {
    let Some(table) = table(world) else { return EntityHashSet::default() };
    let mut stays = EntityHashSet::default();
    for taken in &places.taken {
        if !table.give_up_taken(taken) && table.get(taken.stable_id) == Some(taken.entity) {
            make_stand_in(world, taken.entity, StableId::from_bits(taken.stable_id));
            stays.insert(taken.entity);
        }
    }
    stays
}

/// Gives up the places that a load refers to. Stand-ins that nothing else needs go. Its own entities are gone.
pub(super) fn give_up_references(world: &mut World, places: &LoadPlaces) {
    let Some(table) = table(world) else { return };
    let gone = places.referred.iter().filter(|(id, entity)| table.give_up_reference(*id, *entity));
    let gone: Vec<Entity> = gone.map(|(_, entity)| *entity).collect();
    let (spawned, unused): (Vec<Entity>, Vec<Entity>) =
        gone.into_iter().chain(places.unused.iter().copied()).partition(|&entity| is_spawned(world, entity));
    for entity in spawned {
        world.despawn(entity);
    }
    free(world, &unused);
}

/// Gives ids back that no entity has.
fn free(world: &mut World, ids: &[Entity]) {
    if ids.is_empty() {
        return;
    }
    // An id that a place has is used when the entity comes.
    let placed = table(world).map(|table| table.entities()).unwrap_or_default();
    let is_free = |entity: &Entity| {
        world.entities().contains(*entity) && !is_spawned(world, *entity) && !placed.contains(entity)
    };
    let free: Vec<Entity> = ids.iter().copied().filter(is_free).collect();
    world.entity_allocator_mut().free_many(&free);
}
