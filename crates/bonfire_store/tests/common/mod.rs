//! A small world with a number in it, by which tests tell saves apart.
#![allow(dead_code, clippy::allow_attributes, reason = "each test uses a part of this")]

use std::time::Duration;

use bonfire::engine::{DeltaSchema, SnapshotWriter};
use bonfire::{Delta, EntityId, Persist, Registry, Snapshot};

#[derive(Clone, Copy, Persist)]
#[persist(key = "test.position")]
struct Position {
    x: f32,
    y: f32,
}

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register::<Position>().unwrap();
    registry
}

/// What leads from one world of a few entities to another; their numbers are the ticks.
pub(crate) fn delta(from: u64, to: u64) -> Delta {
    sized_delta(from, to, 20)
}

/// What leads from one world of `entities` entities to another.
pub(crate) fn sized_delta(from: u64, to: u64, entities: u32) -> Delta {
    let (before, after) = (sized_world(from, entities), sized_world(to, entities));
    Delta::between(&DeltaSchema::new(&registry()), &before, &after, from, to).unwrap()
}

/// A world of a few entities, with `number` in it.
pub(crate) fn world(number: u64) -> Snapshot {
    sized_world(number, 20)
}

/// A world of `entities` entities, with `number` in it.
pub(crate) fn sized_world(number: u64, entities: u32) -> Snapshot {
    let registry = registry();
    let mut writer = SnapshotWriter::new(&registry);
    let ids: Vec<EntityId> = (0..entities).map(|id| EntityId::new(id, 1)).collect();
    let rows: Vec<Position> = (0..entities).map(|row| Position { x: row as f32, y: number as f32 }).collect();
    writer.archetype(&ids).unwrap().column(&rows).unwrap();
    writer.data("number", &number).unwrap();
    writer.finish().unwrap()
}

/// The number of a world.
pub(crate) fn number(snapshot: &Snapshot) -> u64 {
    let entry = snapshot.data().iter().find(|entry| entry.key() == "number").expect("a world of these tests");
    entry.get().unwrap()
}

/// Whether entities and components are those of this world. What is written beside them is not compared.
pub(crate) fn is_world(found: &Snapshot, number: u64) -> bool {
    let mut rows = Vec::new();
    for archetype in found.archetypes() {
        let column = archetype.column("test.position").expect("all of them have one");
        let positions = column.as_slice::<Position>().expect("raw rows of this build");
        rows.extend(archetype.ids().iter().copied().zip(positions.iter().copied()));
    }
    rows.sort_by_key(|(id, _)| id.index());
    let is_row = |(index, (id, position)): (usize, &(EntityId, Position))| {
        *id == EntityId::new(index as u32, 1) && position.x == index as f32 && position.y == number as f32
    };
    rows.len() == 20 && rows.iter().enumerate().all(is_row)
}

/// Noon of a day.
pub(crate) fn day(day: u64) -> Duration {
    Duration::from_secs(day * 86_400 + 43_200)
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}
