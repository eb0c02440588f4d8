//! The rows of live saving: captures over the one before, checkpoints, loads in slices.

use std::hint::black_box;
use std::time::Duration;

use bevy_bonfire::store::{Keep, MemoryStore, Slots};
use bevy_bonfire::{
    Autosave, BonfirePlugin, Checkpoints, IncrementalCapture, LoadMode, PersistExt, SaveOptions, Saves,
    SlicedLoad, Snapshot, Ticks, WorldSaveExt,
};
use bevy_ecs::archetype::{Archetype, ArchetypeEntity};
use bevy_ecs::component::Component;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::Persist;

use crate::bevy_plain;
use crate::measure::{Row, against, note, rounds, seconds, turns};
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
    add("autosave_frame_cost_1m", Some(0.45), || autosave(1_000_000));
    add("checkpoint_memory_100", Some(3.0), || checkpoint_memory(100_000, Spread::Run));
    add("checkpoint_memory_100_in_4_archetypes", None, || checkpoint_memory(100_000, Spread::Spawned));
    add("checkpoint_rewind_100k", Some(1.2), || rewind(100_000));
    add("sliced_commit_worst_frame_x_budget", Some(1.5), || sliced(20_000, Duration::from_millis(16)));
    add("sliced_commit_worst_frame_100k", None, || sliced(100_000, Duration::from_millis(16)));
    add("commit_in_one_frame_100k", None, || one_frame(100_000, Duration::from_millis(16)));
    rows
}

/// Which entities change between two captures.
#[derive(Clone, Copy)]
pub(crate) enum Spread {
    /// One in a hundred, which lie together.
    Run,
    /// One in a hundred, which were spawned together: some rows in each archetype.
    Spawned,
    /// One in a hundred, anywhere.
    Scattered,
    All,
}

/// All entities of the set, archetype by archetype, in the order of their rows.
pub(crate) fn by_row(world: &World) -> Vec<Entity> {
    let archetypes = world.archetypes().iter().flat_map(Archetype::entities);
    archetypes.map(ArchetypeEntity::id).filter(|&entity| world.get::<Color>(entity).is_some()).collect()
}

/// What the next turn changes: all three components of each entity.
pub(crate) fn change(world: &mut World, entities: &[Entity], spread: Spread, turn: usize) {
    let count = entities.len() / 100;
    let chosen: Vec<Entity> = match spread {
        Spread::Run => {
            let start = (turn * 7919) % (entities.len() - count);
            entities[start..start + count].to_vec()
        }
        Spread::Spawned => {
            let (quarter, count) = (entities.len() / 4, count / 4);
            let start = (turn * 7919) % (quarter - count);
            (0..4).flat_map(|archetype| &entities[archetype * quarter + start..][..count]).copied().collect()
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

/// The time of the main thread of an app that saves a million entities of which one in a hundred has changed: the whole of
/// the tick that captures. Everything else is done by another thread.
fn autosave(entities: usize) -> (f64, String) {
    let mut app = bevy_plain::app_with(
        BonfirePlugin::new()
            .slots(Slots::new(MemoryStore::new()).keep(Keep::newest(1)))
            .autosave(Autosave::off()),
    );
    bevy_plain::fill(app.world_mut(), entities);
    let mut memcpy = plain::World::new(entities).memcpy();
    let all = by_row(app.world());
    let mut turn = 0;
    let mut bytes = 0;
    let work = || {
        change(app.world_mut(), &all, Spread::Run, turn);
        turn += 1;
        let save = app.world_mut().resource_mut::<Saves>().save("auto");
        let time = seconds(&mut || app.update());
        bytes = save.wait().expect("a store in memory").bytes as usize;
        // Observers are told, and the pages of the save before go back to the pool.
        app.update();
        time
    };
    let (ours, theirs) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// The memory of a hundred checkpoints over that of one.
fn checkpoint_memory(entities: usize, spread: Spread) -> (f64, String) {
    let mut world = bevy_plain::filled(entities);
    let all = by_row(&world);
    let mut checkpoints = Checkpoints::new(100);
    let mut take = |world: &mut World, turn: usize| {
        checkpoints.take(world, turn as u64).expect("a world that can be saved");
        checkpoints.memory_bytes()
    };
    let one = take(&mut world, 0);
    let mut memory = one;
    for turn in 1..100 {
        change(&mut world, &all, spread, turn);
        memory = take(&mut world, turn);
    }
    let note = format!("{:.1} MB for 100, {:.1} MB for one", memory as f64 / 1e6, one as f64 / 1e6);
    (memory as f64 / one as f64, note)
}

/// Going back to a checkpoint, times a restore in place of a capture that stands alone.
fn rewind(entities: usize) -> (f64, String) {
    let mut world = bevy_plain::filled(entities);
    let all = by_row(&world);
    let mut checkpoints = Checkpoints::new(100).changed(Ticks::All);
    for turn in 0..100 {
        change(&mut world, &all, Spread::Run, turn);
        checkpoints.take(&mut world, turn as u64).expect("a world that can be saved");
    }
    let alone = crate::bevy_rows::captured(&world);
    let bytes = alone.column_bytes();
    let world = std::cell::RefCell::new(world);
    let rewind = || {
        drop(black_box(checkpoints.rewind(&mut world.borrow_mut(), 99).expect("it is kept")));
    };
    let restore = || {
        let mode = LoadMode::Restore(Ticks::All);
        drop(black_box(world.borrow_mut().load(&alone, mode).expect("it was just captured")));
    };
    let (ours, theirs) = against(rounds(entities), rewind, restore);
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// A load in slices in the place of as many entities: the longest frame over the time that was asked for.
fn sliced(entities: usize, budget: Duration) -> (f64, String) {
    let mut world = bevy_plain::filled(entities);
    let snapshot = crate::bevy_rows::captured(&world);
    let mut worst: Vec<(f64, f64, usize)> = Vec::new();
    for _ in 0..7 {
        let mut load =
            SlicedLoad::new(&world, snapshot.clone(), LoadMode::Replace).expect("it was just captured");
        let mut frames = Vec::new();
        loop {
            let mut done = false;
            let step = || done = load.step(&mut world, budget).expect("it was just captured").is_some();
            frames.push(seconds(&mut { step }));
            if done {
                break;
            }
        }
        let last = frames.last().copied().unwrap_or_default();
        worst.push((frames.iter().copied().fold(0.0, f64::max), last, frames.len()));
    }
    worst.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (time, last, frames) = worst[worst.len() / 2];
    let note = format!(
        "{:.1} ms of {:.1}, the last of {frames} frames {:.1} ms, {:.0} ns per entity",
        time * 1e3,
        budget.as_secs_f64() * 1e3,
        last * 1e3,
        last * 1e9 / entities as f64
    );
    (time / budget.as_secs_f64(), note)
}

/// The same in one frame, from rows that were decoded before: the frame over the same time.
fn one_frame(entities: usize, budget: Duration) -> (f64, String) {
    let mut world = bevy_plain::filled(entities);
    let snapshot = crate::bevy_rows::captured(&world);
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            seconds(&mut || {
                drop(black_box(world.load(&snapshot, LoadMode::Replace).expect("it was just captured")));
            })
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let time = times[3];
    let note = format!("{:.1} ms, {:.0} ns per entity", time * 1e3, time * 1e9 / entities as f64);
    (time / budget.as_secs_f64(), note)
}
