//! Components of every kind, and a world that has them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use bevy_bonfire::Snapshot;
use bevy_bonfire::prelude::*;
use bevy_ecs::prelude::*;

/// Plain: one copy per column.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.position")]
pub struct Position {
    pub x: f32,
    pub y: f32,
}

/// Strided: a gap between the fields, and one that is not saved.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.health")]
pub struct Health {
    pub current: u8,
    pub max: u32,
    #[persist(skip)]
    pub flash: u16,
}

/// Rows: text and lists, with a drop.
#[derive(Component, Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.inventory")]
pub struct Inventory {
    pub items: Vec<String>,
    pub gold: Option<u64>,
}

/// A tag.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.enemy")]
pub struct Enemy;

/// In a sparse set.
#[derive(Component, Persist, Clone, Debug, PartialEq, Default)]
#[component(storage = "SparseSet")]
#[persist(key = "test.burning")]
pub struct Burning(pub String);

/// References.
#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.follows")]
pub struct Follows {
    pub leader: Entity,
    pub others: Vec<Entity>,
    pub last: Option<Entity>,
}

/// An enum with data.
#[derive(Component, Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.mood")]
pub enum Mood {
    #[default]
    Calm,
    Angry {
        at: Option<Entity>,
        level: u8,
    },
    Singing(String),
}

/// Never saved.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.hover", transient)]
pub struct Hover(pub u32);

/// Immutable.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[component(immutable)]
#[persist(key = "test.team")]
pub struct Team(pub u8);

/// A relationship of the game's own, with data.
#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[relationship(relationship_target = DockedShips)]
#[persist(key = "test.docked_at")]
pub struct DockedAt {
    #[relationship]
    pub station: Entity,
    pub berth: String,
}

/// Its other side, kept by Bevy.
#[derive(Component, Debug, Default)]
#[relationship_target(relationship = DockedAt)]
pub struct DockedShips(Vec<Entity>);

impl DockedShips {
    pub fn ships(&self) -> &[Entity] {
        &self.0
    }
}

/// Only has serde; says where its references are.
#[derive(Component, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct Quest {
    pub title: String,
    pub stages: std::collections::BTreeMap<String, u32>,
}

#[derive(Resource, Persist, Clone, Debug, PartialEq, Default)]
#[persist(key = "test.score")]
pub struct Score {
    pub points: u64,
    pub best: Option<Entity>,
}

/// A world with everything registered, in this order or the other way round.
pub fn world() -> World {
    let mut world = World::new();
    register(&mut world, false);
    world
}

pub fn register(world: &mut World, reversed: bool) {
    let steps: Vec<fn(&mut World)> = vec![
        |world| drop(world.persist::<Position>()),
        |world| drop(world.persist::<Health>()),
        |world| drop(world.persist::<Inventory>()),
        |world| drop(world.persist::<Enemy>()),
        |world| drop(world.persist::<Burning>()),
        |world| drop(world.persist::<Follows>()),
        |world| drop(world.persist::<Mood>()),
        |world| drop(world.persist::<Hover>()),
        |world| drop(world.persist::<Team>()),
        |world| drop(world.persist_relationship::<DockedAt>()),
        |world| drop(world.persist_serde::<Quest>("test.quest")),
        |world| drop(world.persist_resource::<Score>()),
    ];
    if reversed {
        steps.iter().rev().for_each(|step| step(world));
    } else {
        steps.iter().for_each(|step| step(world));
    }
}

pub fn save(world: &World) -> Snapshot {
    world.capture(&SaveOptions::new()).unwrap()
}

/// Everything that is saved, without the accidents of ids and order of archetypes.
pub fn canonical(world: &World) -> String {
    save(world).canonical().unwrap().to_json().unwrap()
}
