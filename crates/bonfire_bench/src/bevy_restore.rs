//! The rows of restores: a running Bevy world back to a capture of its own past.

use std::hint::black_box;

use bevy_bonfire::core::RowOrder;
use bevy_bonfire::{LoadMode, LoadOptions, Snapshot, Ticks, WorldSaveExt};
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;

use crate::bevy_plain;
use crate::bevy_rows::captured;
use crate::measure::{Row, against, note, rounds, seconds, turns};
use crate::plain::{self, Circle, Color, M1, M2, Transform};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target, measure: Box::new(measure) });
    };
    add("bevy_restore_10k", Some(1.3), || restore(10_000, Ticks::All));
    add("bevy_restore_100k", Some(1.15), || restore(100_000, Ticks::All));
    add("bevy_restore_1m", Some(1.2), || restore(1_000_000, Ticks::All));
    add("bevy_restore_differing_100k", None, || restore(100_000, Ticks::Differing));
    add("bevy_restore_1pct_churn_100k", Some(3.0), || churn(100_000));
    add("bevy_restore_row_order_x_restore_100k", Some(8.0), || row_order(100_000, 100));
    add("bevy_restore_row_order_all_x_restore_100k", None, || row_order(100_000, 1));
    rows
}

fn go_back(world: &mut World, snapshot: &Snapshot, ticks: Ticks) {
    drop(black_box(world.load(snapshot, LoadMode::Restore(ticks)).expect("it was just captured")));
}

/// Moves one entity of `part` to another archetype and back, so that rows are exchanged. Then the world goes back with the
/// order of its rows, times the same without it.
fn row_order(entities: usize, part: usize) -> (f64, String) {
    let mut world = bevy_plain::filled(entities);
    let snapshot = captured(&world);
    let moved: Vec<Entity> = world.query::<Entity>().iter(&world).step_by(part).collect();
    let mut go_back_from = |order: RowOrder| {
        for &entity in &moved {
            let color = world.entity_mut(entity).take::<Color>();
            color.into_iter().for_each(|color| _ = world.entity_mut(entity).insert(color));
        }
        let options = LoadOptions::from(LoadMode::Restore(Ticks::All)).row_order(order);
        seconds(&mut || drop(black_box(world.load(&snapshot, options.clone()).expect("of its own past"))))
    };
    let times = std::cell::RefCell::new(&mut go_back_from);
    let time = |order| (times.borrow_mut())(order);
    let (ours, theirs) = turns(rounds(entities), || time(RowOrder::Restore), || time(RowOrder::Keep));
    (ours / theirs, note(ours, theirs, entities, snapshot.column_bytes()))
}

/// All values in place, ticks included, times a memcpy of the same bytes.
fn restore(entities: usize, ticks: Ticks) -> (f64, String) {
    let (mut world, mut memcpy) = (bevy_plain::filled(entities), plain::World::new(entities).memcpy());
    let snapshot = captured(&world);
    world.query::<&mut Transform>().iter_mut(&mut world).for_each(|mut value| *value = Transform::number(0));
    world.query::<&mut Color>().iter_mut(&mut world).for_each(|mut value| *value = Color::number(0));
    go_back(&mut world, &snapshot, ticks);
    bevy_plain::check(&mut world, entities, true);
    let work = || go_back(&mut world, &snapshot, ticks);
    let (ours, theirs) = against(rounds(entities), work, || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, snapshot.column_bytes()))
}

/// One entity of a hundred is despawned and another one spawned, then the world goes back.
fn churn(entities: usize) -> (f64, String) {
    let (mut world, mut memcpy) = (bevy_plain::filled(entities), plain::World::new(entities).memcpy());
    let mut turn = 0;
    let mut bytes = 0;
    let work = || {
        let snapshot = captured(&world);
        bytes = snapshot.column_bytes();
        let all: Vec<Entity> =
            world.query::<Entity>().iter(&world).filter(|&e| world.get::<Color>(e).is_some()).collect();
        for number in 0..entities / 100 {
            // Scattered, and others in each turn.
            let entity = all[(number * 7919 * 13 + turn * 31) % all.len()];
            world.despawn(entity);
        }
        for i in 0..(entities / 100) as u32 {
            let row = (Transform::number(i), Circle::number(i), Color::number(i));
            match i % 4 {
                0 => world.spawn(row),
                1 => world.spawn((row, M1)),
                2 => world.spawn((row, M2)),
                _ => world.spawn((row, M1, M2)),
            };
        }
        turn += 1;
        let time = seconds(&mut || go_back(&mut world, &snapshot, Ticks::All));
        if turn < 3 {
            bevy_plain::check(&mut world, entities, true);
        }
        time
    };
    let (ours, theirs) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}
