//! The rows of live saving: captures over the one before, checkpoints, loads in slices.

use std::hint::black_box;

use bevy_bonfire::{IncrementalCapture, PersistExt, SaveOptions, Snapshot};
use bevy_ecs::component::Component;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::Persist;

use crate::bevy_plain;
use crate::measure::{Row, note, rounds, seconds, turns};
use crate::plain::{self, Color, M1, M2, Transform};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target, measure: Box::new(measure) });
    };
    add("bevy_capture_unchanged_10k", Some(0.6), || unchanged(10_000));
    add("bevy_capture_unchanged_100k", Some(0.3), || unchanged(100_000));
    add("bevy_capture_unchanged_1m", Some(0.35), || unchanged(1_000_000));
    add("bevy_capture_unchanged_summary_10k", Some(0.3), || unchanged_summary(10_000));
    add("bevy_capture_unchanged_summary_100k", Some(0.2), || unchanged_summary(100_000));
    add("bevy_capture_unchanged_summary_1m", Some(0.2), || unchanged_summary(1_000_000));
    add("bevy_capture_1pct_10k", Some(0.8), || one_percent(10_000, Spread::Run));
    add("bevy_capture_1pct_100k", Some(0.4), || one_percent(100_000, Spread::Run));
    add("bevy_capture_1pct_1m", Some(0.45), || one_percent(1_000_000, Spread::Run));
    add("bevy_capture_1pct_scattered_100k", Some(1.3), || one_percent(100_000, Spread::Scattered));
    add("bevy_capture_all_changed_100k", None, || one_percent(100_000, Spread::All));
    rows
}

/// Which entities change between two captures.
#[derive(Clone, Copy)]
enum Spread {
    /// One in a hundred, which lie together.
    Run,
    /// One in a hundred, anywhere.
    Scattered,
    All,
}

/// All entities of the set, archetype by archetype, in the order of their rows.
fn by_row(world: &World) -> Vec<Entity> {
    let archetypes = world.archetypes().iter().flat_map(|archetype| archetype.entities());
    archetypes.map(|entity| entity.id()).filter(|&entity| world.get::<Color>(entity).is_some()).collect()
}

/// What the next turn changes: all three components of each entity.
fn change(world: &mut World, entities: &[Entity], spread: Spread, turn: usize) {
    let count = entities.len() / 100;
    let chosen: Vec<Entity> = match spread {
        Spread::Run => {
            let start = (turn * 7919) % (entities.len() - count);
            entities[start..start + count].to_vec()
        }
        Spread::Scattered => {
            (0..count).map(|i| entities[(i * 7919 * 13 + turn * 31) % entities.len()]).collect()
        }
        Spread::All => entities.to_vec(),
    };
    for entity in chosen {
        let mut entity = world.entity_mut(entity);
        if let Some(mut transform) = entity.get_mut::<Transform>() {
            transform.translation[0] += 1.0;
        }
        if let Some(mut color) = entity.get_mut::<Color>() {
            color.r += 1.0;
        }
        if let Some(mut circle) = entity.get_mut::<plain::Circle>() {
            circle.grow();
        }
    }
}

fn capture(captures: &mut IncrementalCapture, world: &mut World) -> Snapshot {
    captures.capture(world, &SaveOptions::new()).expect("a world that can be saved")
}

/// Nothing has changed since the last capture.
fn unchanged(entities: usize) -> (f64, String) {
    measure(entities, bevy_plain::filled(entities), |_, _| {})
}

fn one_percent(entities: usize, spread: Spread) -> (f64, String) {
    let world = bevy_plain::filled(entities);
    let all = by_row(&world);
    measure(entities, world, |world, turn| change(world, &all, spread, turn))
}

fn measure(entities: usize, mut world: World, mut change: impl FnMut(&mut World, usize)) -> (f64, String) {
    let mut memcpy = plain::World::new(entities).memcpy();
    let mut captures = IncrementalCapture::new();
    let bytes = capture(&mut captures, &mut world).column_bytes();
    let mut turn = 0;
    // As a game does: the last save is written and gone when the next one is captured.
    let work = || {
        change(&mut world, turn);
        turn += 1;
        let mut snapshot = None;
        let time = seconds(&mut || snapshot = Some(black_box(capture(&mut captures, &mut world))));
        if turn < 3 {
            let right = crate::bevy_rows::captured(&world).to_bytes().expect("a world that can be saved");
            assert!(snapshot.and_then(|snapshot| snapshot.to_bytes().ok()) == Some(right));
        }
        time
    };
    let (ours, theirs) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// The components of the plain set, in columns that know whether anything in them has changed.
macro_rules! summary {
    ($($name:ident($of:ident, $key:literal)),*) => {$(
        #[derive(Component, Clone, Copy, Persist)]
        #[component(summary_tick)]
        #[persist(key = $key)]
        struct $name(plain::$of);
    )*};
}
summary!(
    SummaryTransform(Transform, "bench.summary_transform"),
    SummaryCircle(Circle, "bench.summary_circle"),
    SummaryColor(Color, "bench.summary_color")
);

fn unchanged_summary(entities: usize) -> (f64, String) {
    let mut app = bevy_plain::app();
    app.persist::<SummaryTransform>().persist::<SummaryCircle>().persist::<SummaryColor>();
    app.persist::<M1>().persist::<M2>();
    let mut world = std::mem::take(app.world_mut());
    for i in 0..entities as u32 {
        let row = (
            SummaryTransform(Transform::number(i)),
            SummaryCircle(plain::Circle::number(i)),
            SummaryColor(Color::number(i)),
        );
        match i % 4 {
            0 => world.spawn(row),
            1 => world.spawn((row, M1)),
            2 => world.spawn((row, M2)),
            _ => world.spawn((row, M1, M2)),
        };
    }
    measure(entities, world, |_, _| {})
}
