//! Entities that leave the world and may come back: they become stand-ins, so that references to them last.

use bevy_ecs::bundle::Bundle;
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::world::{EntityWorldMut, World};
use bonfire::Result;

use crate::capture;
use crate::load::reclaim;
use crate::load::spawn::{despawn, has_sources, make_stand_in, release_sources, with_dependants};
use crate::pending::{Pending, PendingEntities};
use crate::registry::SaveRegistry;
use crate::stable_id::{StableId, StandIn, stand_in};

/// Removes entities from a world, and leaves stand-ins for those with a stable id.
pub(crate) fn unload(world: &mut World, entities: impl IntoIterator<Item = Entity>) -> Result<()> {
    world.flush();
    reclaim(world);
    let registry = SaveRegistry::of(world)?;
    let is_there = |entity: &Entity| {
        let entity = world.get_entity(*entity);
        entity.is_ok_and(|entity| !entity.contains::<StandIn>() && !entity.contains::<Pending>())
    };
    let mut seen = EntityHashSet::default();
    let is_new = |entity: &Entity| seen.insert(*entity);
    let listed: Vec<Entity> = entities.into_iter().filter(is_there).filter(is_new).collect();
    let saved = capture::SavedEntities::new(world, &registry)?;
    let stays = |entity: Entity| saved.contains(entity) || world.get::<StandIn>(entity).is_some();
    let going = with_dependants(world, &registry, &listed, stays);
    let mut gone: Vec<Entity> = Vec::new();
    for entity in listed {
        match world.get::<StableId>(entity).copied() {
            Some(id) if stand_in(world, id).is_none() => make_stand_in(world, entity, id),
            _ => gone.push(entity),
        }
    }
    world.flush();
    let listed: EntityHashSet = gone.iter().copied().collect();
    gone.extend(
        going
            .into_iter()
            .filter(|entity| world.get::<StandIn>(*entity).is_none() && !listed.contains(entity)),
    );
    // Entities of other chunks stay, without a parent that cannot come back.
    release_sources(world, &registry, &gone);
    despawn(world, &registry, gone);
    Ok(())
}

/// Spawns an entity where references to it lead already, if there is a stand-in for it.
pub(crate) fn spawn_stable(world: &mut World, id: StableId, bundle: impl Bundle) -> EntityWorldMut<'_> {
    match stand_in(world, id) {
        None => world.spawn((id, bundle)),
        Some(entity) => {
            let mut entity = world.entity_mut(entity);
            entity.remove::<(StandIn, Disabled)>();
            entity.insert((id, bundle));
            entity
        }
    }
}

/// Despawns the stand-ins that nothing refers to. Returns their number.
pub(crate) fn sweep(world: &mut World) -> Result<usize> {
    world.flush();
    reclaim(world);
    let registry = SaveRegistry::of(world)?;
    let kept = world.resource::<PendingEntities>().stand_ins().kept();
    if kept.is_empty() {
        return Ok(0);
    }
    let mut unused: EntityHashSet = kept.iter().map(|(_, entity)| *entity).collect();
    unused.retain(|&entity| !has_sources(world, entity));
    capture::for_each_reference(world, &registry, |target| _ = unused.remove(&target))?;
    let unused: Vec<Entity> =
        kept.iter().map(|(_, entity)| *entity).filter(|entity| unused.contains(entity)).collect();
    let count = unused.len();
    despawn(world, &registry, unused);
    Ok(count)
}
