//! Components of every kind, and a world that has them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod script;
pub mod simulation;

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
    let steps: [fn(&mut World); 12] = [
        |world| _ = world.persist::<Position>(),
        |world| _ = world.persist::<Health>(),
        |world| _ = world.persist::<Inventory>(),
        |world| _ = world.persist::<Enemy>(),
        |world| _ = world.persist::<Burning>(),
        |world| _ = world.persist::<Follows>(),
        |world| _ = world.persist::<Mood>(),
        |world| _ = world.persist::<Hover>(),
        |world| _ = world.persist::<Team>(),
        |world| _ = world.persist_relationship::<DockedAt>(),
        |world| _ = world.persist_serde::<Quest>("test.quest"),
        |world| _ = world.persist_resource::<Score>(),
    ];
    let ordered: Vec<_> = if reversed { steps.into_iter().rev().collect() } else { steps.to_vec() };
    ordered.into_iter().for_each(|step| step(world));
}

pub fn save(world: &World) -> Snapshot {
    world.capture(&SaveOptions::new()).unwrap()
}

/// Everything that is saved, without the accidents of ids and of the order of rows, which Bevy changes when it gives an
/// entity its `Children`. The order of siblings is part of it.
pub fn canonical(world: &World) -> String {
    let json: serde_json::Value =
        serde_json::from_str(&save(world).canonical_sorted().unwrap().to_json().unwrap()).unwrap();
    let mut families: Vec<String> = Vec::new();
    for archetype in world.archetypes().iter() {
        for entity in archetype.entities() {
            let entity = world.entity(entity.id());
            let label = |entity: Entity| {
                let entity = world.entity(entity);
                format!(
                    "{:?} {:?} {:?}",
                    entity.get::<Name>(),
                    entity.get::<Team>(),
                    entity.get::<Position>()
                )
            };
            let children = entity.get::<Children>().map(|children| children.to_vec());
            let ships = entity.get::<DockedShips>().map(|ships| ships.ships().to_vec());
            for sources in [children, ships].into_iter().flatten() {
                let saved = sources.into_iter().filter(|&source| world.entity(source).contains::<Saved>());
                let sources: Vec<String> = saved.map(label).collect();
                if sources.is_empty() {
                    continue;
                }
                families.push(format!("{}: {sources:?}", label(entity.id())));
            }
        }
    }
    families.sort();
    let part = |name: &str| serde_json::to_string(&json[name]).unwrap();
    format!("{}\n{}\n{}\n{families:#?}", part("componentTable"), part("archetypes"), part("resources"))
}
