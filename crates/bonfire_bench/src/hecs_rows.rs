//! The rows of the hecs front end: captures, loads and restores of whole worlds, captures over the one before, checkpoints.

use std::hint::black_box;

use bonfire::engine::AlignedBuf;
use bonfire::{OpenOptions, Snapshot};
use bonfire_hecs::{Bonfire, Checkpoints, IncrementalCapture, LoadMode, SaveOptions};
use hecs::{Entity, World};

use crate::core_rows::encoded;
use crate::hecs_plain;
use crate::measure::{Row, against, note, rounds, seconds, turns, warm_memory};
use crate::plain::{self, Circle, Color, Transform};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target: Some(target), measure: Box::new(measure) });
    };
    add("hecs_capture_10k", 2.4, || capture(10_000));
    add("hecs_capture_100k", 1.4, || capture(100_000));
    add("hecs_capture_1m", 1.4, || capture(1_000_000));
    add("hecs_load_new_10k", 5.5, || load_new(10_000));
    add("hecs_load_new_100k", 2.5, || load_new(100_000));
    add("hecs_load_new_1m", 4.5, || load_new(1_000_000));
    add("hecs_load_same_10k", 12.5, || load_same(10_000));
    add("hecs_load_same_100k", 5.6, || load_same(100_000));
    add("hecs_load_same_1m", 6.3, || load_same(1_000_000));
    add("hecs_restore_10k", 1.3, || restore(10_000));
    add("hecs_restore_100k", 1.15, || restore(100_000));
    add("hecs_restore_1m", 1.2, || restore(1_000_000));
    add("hecs_load_same_holes_1m_over_100k", 1.5, || holes(100_000, 1_000_000));
    add("hecs_capture_over_100k", 2.3, || capture_over(100_000));
    add("hecs_capture_over_1m", 2.3, || capture_over(1_000_000));
    add("hecs_checkpoint_take_100k", 2.3, || checkpoint_take(100_000));
    add("hecs_checkpoint_rewind_100k", 3.6, || checkpoint_rewind(100_000));
    add("hecs_checkpoint_memory_100", 3.0, || checkpoint_memory(100_000));
    rows
}

pub(crate) fn captured(bonfire: &Bonfire, world: &World) -> Snapshot {
    bonfire.capture(world, &SaveOptions::new()).expect("a world that can be saved")
}

fn load_into(bonfire: &mut Bonfire, world: &mut World, snapshot: &Snapshot, mode: &LoadMode) {
    drop(black_box(bonfire.load(world, snapshot, mode.clone()).expect("it was just saved")));
}

/// A world to a snapshot in warm memory, times a memcpy of the same bytes.
fn capture(entities: usize) -> (f64, String) {
    let (mut bonfire, world) = (hecs_plain::bonfire(), hecs_plain::filled(entities));
    let mut memcpy = plain::World::new(entities).memcpy();
    let bytes = encoded(&captured(&bonfire, &world)).len();
    let mut loaded = World::new();
    let snapshot = captured(&bonfire, &world);
    load_into(&mut bonfire, &mut loaded, &snapshot, &LoadMode::Replace);
    hecs_plain::check(&loaded, &world);
    drop((snapshot, loaded));
    let work = || drop(black_box(captured(&bonfire, &world)));
    let (ours, theirs) = against(rounds(entities), work, || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// Loads from bytes into worlds that are made and dropped outside of the time.
pub(crate) struct Loads {
    bonfire: Bonfire,
    open: Box<dyn Fn() -> Snapshot>,
    bytes: usize,
    mode: LoadMode,
}

impl Loads {
    /// The loads of a world, of which the first is compared with it.
    pub(crate) fn new(source: &World, mode: LoadMode, check: fn(&World, &World)) -> Self {
        let bonfire = hecs_plain::bonfire();
        let bytes = AlignedBuf::copy_from(&encoded(&captured(&bonfire, source)).to_vec()).share();
        let len = bytes.len();
        let open = move || OpenOptions::new().open_shared(bytes.clone()).expect("it was just saved");
        let mut loads = Self { bonfire, open: Box::new(open), bytes: len, mode };
        let mut world = World::new();
        loads.load(&mut world);
        check(&world, source);
        loads
    }

    /// Checksums and id map included.
    fn load(&mut self, world: &mut World) {
        load_into(&mut self.bonfire, world, &(self.open)(), &self.mode);
    }

    pub(crate) fn seconds(&mut self) -> f64 {
        let mut world = World::new();
        seconds(&mut || self.load(&mut world))
    }
}

/// Bytes to a world, as new entities, times a memcpy.
fn load_new(entities: usize) -> (f64, String) {
    let loads = Loads::new(&hecs_plain::filled(entities), LoadMode::Replace, hecs_plain::check);
    load(loads, entities)
}

/// Bytes to a world, with the ids that entities had, times a memcpy.
fn load_same(entities: usize) -> (f64, String) {
    let loads = Loads::new(&hecs_plain::filled(entities), LoadMode::SameIds, hecs_plain::check_same_ids);
    load(loads, entities)
}

fn load(mut loads: Loads, entities: usize) -> (f64, String) {
    let mut memcpy = plain::World::new(entities).memcpy();
    let (bytes, _warm) = (loads.bytes, warm_memory());
    let (ours, theirs) = turns(rounds(entities), || loads.seconds(), || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// A capture back over the world that it is of, whose values have all changed, times a memcpy.
fn restore(entities: usize) -> (f64, String) {
    let (mut bonfire, mut world) = (hecs_plain::bonfire(), hecs_plain::filled(entities));
    let mut memcpy = plain::World::new(entities).memcpy();
    let bytes = encoded(&captured(&bonfire, &world)).len();
    let snapshot = captured(&bonfire, &world);
    let mut restore = |world: &mut World| {
        change(world);
        seconds(&mut || load_into(&mut bonfire, world, &snapshot, &LoadMode::Restore))
    };
    restore(&mut world);
    hecs_plain::check_same_ids(&world, &hecs_plain::filled(entities));
    let work = || restore(&mut world);
    let (ours, theirs) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}

fn change(world: &mut World) {
    for (transform, circle, color) in world.query_mut::<(&mut Transform, &mut Circle, &mut Color)>() {
        (*transform, *circle, *color) = (Transform::number(7), Circle::number(7), Color::number(7));
    }
}

/// One entity in a hundred, one after the other, so that most pages stay as they are.
fn one_percent(world: &World, entities: usize) -> Vec<Entity> {
    world.query::<Entity>().with::<&Transform>().iter().skip(entities / 3).take(entities / 100).collect()
}

fn change_some(world: &World, entities: &[Entity], turn: usize) {
    for &entity in entities {
        *world.get::<&mut Transform>(entity).expect("it is alive") = Transform::number(turn as u32);
    }
}

/// A capture over the one before, after a change of one entity in a hundred, times a memcpy of all bytes.
fn capture_over(entities: usize) -> (f64, String) {
    let (bonfire, world) = (hecs_plain::bonfire(), hecs_plain::filled(entities));
    let mut memcpy = plain::World::new(entities).memcpy();
    let (bytes, some) = (encoded(&captured(&bonfire, &world)).len(), one_percent(&world, entities));
    let (mut captures, options) = (IncrementalCapture::new(), SaveOptions::new());
    let mut capture = || captures.capture(&bonfire, &world, &options).expect("a world that can be saved");
    let (mut last, mut turn) = (capture(), 0);
    let work = || {
        turn += 1;
        change_some(&world, &some, turn);
        // The one before goes when there is a new one, as in a game that keeps one.
        seconds(&mut || last = capture())
    };
    let (ours, theirs) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    assert!(encoded(&last).to_vec() == encoded(&captured(&bonfire, &world)).to_vec());
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// A world, its ring, and what changes from tick to tick.
struct Ring {
    bonfire: Bonfire,
    world: World,
    some: Vec<Entity>,
    checkpoints: Checkpoints,
    tick: u64,
}

impl Ring {
    fn new(entities: usize, max: usize) -> Self {
        let (bonfire, world) = (hecs_plain::bonfire(), hecs_plain::filled(entities));
        let some = one_percent(&world, entities);
        Self { bonfire, world, some, checkpoints: Checkpoints::new(max), tick: 0 }
    }

    /// A tick of the game, and the seconds that its checkpoint took.
    fn tick(&mut self) -> f64 {
        self.tick += 1;
        change_some(&self.world, &self.some, self.tick as usize);
        let Self { bonfire, world, checkpoints, tick, .. } = self;
        seconds(&mut || checkpoints.take(bonfire, world, *tick).expect("a world that can be saved"))
    }
}

/// A checkpoint of a ring that is full, with a hundredth changed, times a memcpy of all bytes.
fn checkpoint_take(entities: usize) -> (f64, String) {
    let mut ring = Ring::new(entities, 60);
    let mut memcpy = plain::World::new(entities).memcpy();
    let bytes = encoded(&captured(&ring.bonfire, &ring.world)).len();
    (0..60).for_each(|_| _ = ring.tick());
    let (ours, theirs) = turns(rounds(entities), || ring.tick(), || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// A world ten ticks back, a hundredth of it changed in each of them and another despawned, times a memcpy of all bytes.
fn checkpoint_rewind(entities: usize) -> (f64, String) {
    let mut ring = Ring::new(entities, 60);
    let mut memcpy = plain::World::new(entities).memcpy();
    let bytes = encoded(&captured(&ring.bonfire, &ring.world)).len();
    let doomed: Vec<Entity> =
        ring.world.query::<Entity>().with::<&Transform>().iter().take(entities / 100).collect();
    let work = || {
        (0..10).for_each(|_| _ = ring.tick());
        let first = captured(&ring.bonfire, &ring.world);
        (0..10).for_each(|_| _ = ring.tick());
        doomed.iter().for_each(|&entity| _ = ring.world.despawn(entity));
        let Ring { bonfire, world, checkpoints, tick, .. } = &mut ring;
        *tick -= 10;
        let time = seconds(&mut || drop(checkpoints.rewind(bonfire, world, *tick).expect("it is kept")));
        assert!(doomed.iter().all(|&entity| world.contains(entity)));
        assert_eq!(captured(bonfire, world).entity_count(), first.entity_count());
        time
    };
    let (ours, theirs) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// The memory of a hundred checkpoints over that of one, a hundredth changed between them.
fn checkpoint_memory(entities: usize) -> (f64, String) {
    let mut ring = Ring::new(entities, 100);
    ring.tick();
    let one = ring.checkpoints.memory_bytes();
    (0..99).for_each(|_| _ = ring.tick());
    let all = ring.checkpoints.memory_bytes();
    assert_eq!(ring.checkpoints.len(), 100);
    (all as f64 / one as f64, format!("{} KiB, one has {}", all / 1024, one / 1024))
}

/// How much longer an entity takes in a large load with same ids than in a small one, of saves with many holes. Memory has
/// a part in it: a free list in scattered order meets the table of slots all over.
fn holes(small: usize, large: usize) -> (f64, String) {
    let loads = |entities| {
        Loads::new(&hecs_plain::filled_with_holes(entities), LoadMode::SameIds, hecs_plain::check_same_ids)
    };
    let (mut small_loads, mut large_loads) = (loads(small), loads(large));
    let memcpy = |entities| plain::World::new(entities).memcpy();
    let (mut small_memcpy, mut large_memcpy) = (memcpy(small), memcpy(large));
    let _warm = warm_memory();
    let rounds = rounds(large) * 2;
    let per_entity = |(large_seconds, small_seconds): (f64, f64)| {
        (large_seconds * 1e9 / large as f64, small_seconds * 1e9 / small as f64)
    };
    let ours = per_entity(turns(rounds, || large_loads.seconds(), || small_loads.seconds()));
    let theirs = per_entity(against(rounds, || large_memcpy.run(), || small_memcpy.run()));
    let growth = theirs.0 / theirs.1;
    let note = format!(
        "{:.2} ns per entity over {:.2}, not related to the growth of a memcpy, {growth:.2}",
        ours.0, ours.1
    );
    (ours.0 / ours.1, note)
}
