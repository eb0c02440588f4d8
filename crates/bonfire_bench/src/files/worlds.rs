//! Worlds that the files are made of.

use bevy_app::App;
use bevy_bonfire::replication::{ReplicateExt, Replicated};
use bevy_bonfire::{PersistExt, StableId};
use bevy_ecs::entity::Entity;
use bevy_ecs::hierarchy::ChildOf;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::Persist;
use bonfire_hecs::Bonfire;

use super::Result;
use crate::rpg::{Inventory, Mind, Name, Quest, Random, Stats, zipf};
use crate::{bevy_plain, bevy_rpg, hecs_plain, plain};

/// More rows than fit into one block of a file.
pub(super) const PLAIN_ENTITIES: usize = 6_000;
/// Ten per archetype on average; most archetypes are small.
pub(super) const RPG_ENTITIES: usize = 3_000;

/// A value that exists once.
#[derive(Resource, Clone, Persist)]
#[persist(key = "files.weather")]
pub(super) struct Weather {
    pub(super) rain: f32,
    pub(super) names: Vec<String>,
}

impl Weather {
    pub(super) fn new() -> Self {
        Self { rain: 0.25, names: vec!["drizzle".into(), "storm".into()] }
    }
}

/// The parent of an entity in a hecs world.
#[derive(Clone, Copy, Persist)]
#[persist(key = "files.parent")]
struct Parent(hecs::Entity);

/// The plain set in Bevy, with stable ids, a resource, and free entity ids.
pub(super) fn bevy_plain() -> World {
    let mut world = bevy_plain::empty();
    world.persist::<StableId>().persist_resource::<Weather>();
    bevy_plain::fill(&mut world, PLAIN_ENTITIES);
    world.insert_resource(Weather::new());
    for (number, entity) in crate::live_rows::by_row(&world).into_iter().enumerate() {
        match number % 97 {
            3 => drop(world.entity_mut(entity).insert(StableId::from_bits(7 << 32 | number as u64))),
            5 => drop(world.despawn(entity)),
            _ => {}
        }
    }
    world
}

/// The rpg set in Bevy.
pub(super) fn bevy_rpg() -> World {
    bevy_rpg::filled(RPG_ENTITIES)
}

/// Changes some of the rpg set: values, parents, components and entities come and go.
pub(super) fn change_bevy_rpg(world: &mut World, turn: usize) {
    let mut random = Random(100 + turn as u64);
    let mut actors = world.query_filtered::<Entity, bevy_ecs::query::With<bevy_rpg::Actor>>();
    let mut entities: Vec<Entity> = actors.iter(world).collect();
    entities.sort_unstable();
    for (number, &entity) in
        entities.iter().enumerate().filter(|(number, _)| (number + turn).is_multiple_of(29))
    {
        match number % 7 {
            0 => drop(world.despawn(entity)),
            1 => drop(world.spawn((bevy_rpg::Actor, Name::random(&mut random)))),
            2 => drop(world.entity_mut(entity).insert(Inventory::random(&mut random))),
            3 => drop(world.entity_mut(entity).remove::<Stats>()),
            4 => drop(world.entity_mut(entity).insert(Quest::random(&mut random))),
            5 => drop(world.entity_mut(entity).remove::<ChildOf>()),
            _ => drop(world.entity_mut(entity).insert(Mind::random(&mut random))),
        }
    }
}

/// Registers the plain set for saves and for replication.
pub(super) fn replicate_plain(app: &mut App) {
    use plain::{Circle, Color, M1, M2, Transform};
    app.persist::<Transform>().persist::<Circle>().persist::<Color>().persist::<M1>().persist::<M2>();
    app.replicate::<Transform>().replicate::<Circle>().replicate::<Color>();
    app.replicate::<M1>().replicate::<M2>();
}

/// The plain set in Bevy, with every entity replicated.
pub(super) fn bevy_replicated(entities: usize) -> World {
    let mut app = App::new();
    replicate_plain(&mut app);
    bevy_plain::fill(app.world_mut(), entities);
    for entity in crate::live_rows::by_row(app.world()) {
        app.world_mut().entity_mut(entity).insert(Replicated);
    }
    std::mem::take(app.world_mut())
}

/// The plain set in hecs, with free entity ids.
pub(super) fn hecs_plain() -> Result<(Bonfire, hecs::World)> {
    let mut bonfire = hecs_plain::bonfire();
    bonfire.persist::<Weather>()?;
    Ok((bonfire, hecs_plain::filled_with_holes(PLAIN_ENTITIES)))
}

/// The rpg set in hecs.
pub(super) fn hecs_rpg() -> Result<(Bonfire, hecs::World)> {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Name>()?.persist::<Stats>()?.persist::<Inventory>()?;
    bonfire.persist::<Mind>()?.persist::<Quest>()?.persist::<Parent>()?;
    bonfire.replicate::<Name>()?.replicate::<Stats>()?.replicate::<Inventory>()?;
    bonfire.replicate::<Mind>()?.replicate::<Quest>()?.replicate::<Parent>()?;
    let mut world = hecs::World::new();
    let mut random = Random(1);
    let mut last = None;
    for (archetype, count) in zipf(RPG_ENTITIES).into_iter().enumerate() {
        for _ in 0..count {
            let entity = world.spawn(());
            let has = |bit: usize| (archetype % 62 + 1) >> bit & 1 == 1;
            if has(0) {
                world.insert_one(entity, Name::random(&mut random))?;
            }
            if has(1) {
                world.insert_one(entity, Stats::random(&mut random))?;
            }
            if has(2) {
                world.insert_one(entity, Inventory::random(&mut random))?;
            }
            if has(3) {
                world.insert_one(entity, Mind::random(&mut random))?;
            }
            if has(4) {
                world.insert_one(entity, Quest::random(&mut random))?;
            }
            if let Some(parent) = last.filter(|_| has(5)) {
                world.insert_one(entity, Parent(parent))?;
            }
            last = Some(entity);
        }
    }
    Ok((bonfire, world))
}

/// Changes some of the rpg set in hecs: values, components and entities come and go.
pub(super) fn change_hecs_rpg(world: &mut hecs::World, turn: usize) -> Result {
    let mut random = Random(200 + turn as u64);
    let mut entities: Vec<hecs::Entity> = world.iter().map(|entity| entity.entity()).collect();
    entities.sort_unstable();
    for (number, &entity) in
        entities.iter().enumerate().filter(|(number, _)| (number + turn).is_multiple_of(31))
    {
        match number % 5 {
            0 => world.despawn(entity)?,
            1 => drop(world.spawn((Name::random(&mut random), Stats::random(&mut random)))),
            2 => drop(world.remove_one::<Stats>(entity)),
            3 => world.insert_one(entity, Mind::random(&mut random))?,
            _ => world.insert_one(entity, Inventory::random(&mut random))?,
        }
    }
    Ok(())
}

/// Changes some of the plain set in hecs: values, components and entities come and go.
pub(super) fn change_hecs_plain(world: &mut hecs::World, turn: usize) -> Result {
    let mut entities: Vec<hecs::Entity> = world.iter().map(|entity| entity.entity()).collect();
    entities.sort_unstable();
    for (number, &entity) in
        entities.iter().enumerate().filter(|(number, _)| (number + turn).is_multiple_of(31))
    {
        let value = (number + turn * 1000) as u32;
        match number % 5 {
            0 => world.despawn(entity)?,
            1 => drop(world.spawn((plain::Transform::number(value), plain::Color::number(value)))),
            2 => drop(world.remove_one::<plain::Circle>(entity)),
            3 => world.insert_one(entity, plain::M1)?,
            _ => world.insert_one(entity, plain::Color::number(value))?,
        }
    }
    Ok(())
}
