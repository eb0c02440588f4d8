//! The plain set in hecs worlds.

use bonfire_hecs::Bonfire;
use hecs::{Entity, World};

use crate::plain::{Circle, Color, M1, M2, Transform};

pub(crate) fn bonfire() -> Bonfire {
    let mut bonfire = Bonfire::new();
    bonfire
        .persist::<Transform>()
        .and_then(Bonfire::persist::<Circle>)
        .and_then(Bonfire::persist::<Color>)
        .and_then(Bonfire::persist::<M1>)
        .and_then(Bonfire::persist::<M2>)
        .expect("fresh keys");
    bonfire
}

/// The set, spawned as a game does: archetypes in turns.
pub(crate) fn filled(entities: usize) -> World {
    let mut world = World::new();
    for i in 0..entities as u32 {
        let (transform, circle, color) = (Transform::number(i), Circle::number(i), Color::number(i));
        match i % 4 {
            0 => world.spawn((transform, circle, color)),
            1 => world.spawn((transform, circle, color, M1)),
            2 => world.spawn((transform, circle, color, M2)),
            _ => world.spawn((transform, circle, color, M1, M2)),
        };
    }
    world
}

/// As many entities, and half as many ids that are free: every third entity is gone, in scattered order.
pub(crate) fn filled_with_holes(entities: usize) -> World {
    let mut world = filled(entities + entities / 2);
    let mut gone: Vec<Entity> = world.iter().map(|entity| entity.entity()).collect();
    gone.retain(|entity| entity.id() % 3 == 2);
    // A stride that is a prime and no divisor of any count here meets each of them once.
    for i in 0..gone.len() {
        world.despawn(gone[i * 7_919 % gone.len()]).expect("each goes once");
    }
    assert_eq!(world.len() as usize, entities);
    world
}

/// All rows of a world with their ids, by number.
fn rows(world: &World) -> Vec<(Entity, Transform, Circle, Color, bool, bool)> {
    let mut query = world.query::<(Entity, &Transform, &Circle, &Color, Option<&M1>, Option<&M2>)>();
    let row =
        |(id, transform, circle, color, m1, m2): (_, &Transform, &Circle, &Color, Option<_>, Option<_>)| {
            (id, *transform, *circle, *color, m1.is_some(), m2.is_some())
        };
    let mut rows: Vec<_> = query.iter().map(row).collect();
    rows.sort_by_key(|row| row.3.r as u32);
    rows
}

/// Panics unless a world has the rows of another, whatever their ids.
pub(crate) fn check(world: &World, expected: &World) {
    let (rows, expected_rows) = (rows(world), rows(expected));
    assert_eq!((world.len(), rows.len()), (expected.len(), expected_rows.len()), "all entities are there");
    for (row, expected) in rows.iter().zip(&expected_rows) {
        let same = (row.1, row.2, row.3, row.4, row.5)
            == (expected.1, expected.2, expected.3, expected.4, expected.5);
        assert!(same, "row {} has its values", expected.3.r);
    }
}

/// Panics unless a world has the rows of another with their ids, and will give out the same ids next.
pub(crate) fn check_same_ids(world: &World, expected: &World) {
    check(world, expected);
    assert!(rows(world).iter().map(|row| row.0).eq(rows(expected).iter().map(|row| row.0)), "ids are kept");
    assert!(world.freelist().eq(expected.freelist()), "the same ids are free, in the same order");
}
