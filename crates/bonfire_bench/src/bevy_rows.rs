//! The rows of the Bevy front end: captures and loads of whole worlds.

use std::hint::black_box;

use bevy_bonfire::{LoadMode, SaveOptions, WorldSaveExt};
use bevy_ecs::world::World;
use bonfire::engine::{AlignedBuf, Rope};
use bonfire::{OpenOptions, Snapshot};

use crate::bevy_plain::{self, Typed};
use crate::bevy_rpg::{self, ByHand};
use crate::core_rows::encoded;
use crate::measure::{Row, against, note, rounds, seconds, turns};
use crate::plain;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target, measure: fn() -> (f64, String)| {
        rows.push(Row { key, target, measure: Box::new(measure) });
    };
    add("bevy_capture_10k", Some(1.5), || capture(10_000));
    add("bevy_capture_100k", Some(1.1), || capture(100_000));
    add("bevy_capture_1m", Some(1.1), || capture(1_000_000));
    add("bevy_capture_fresh_1m", None, || capture_fresh(1_000_000));
    add("capture_encode_10k", Some(2.5), || capture_encode(10_000));
    add("capture_encode_100k", Some(1.8), || capture_encode(100_000));
    add("capture_encode_1m", Some(1.5), || capture_encode(1_000_000));
    add("bevy_load_10k", Some(1.45), || load(10_000));
    add("bevy_load_100k", Some(1.35), || load(100_000));
    add("bevy_load_1m", Some(1.3), || load(1_000_000));
    add("bevy_load_300arch_100k", Some(1.6), || load_zipf(100_000));
    add("bevy_commit_10k", Some(1.25), || commit(10_000));
    add("bevy_commit_100k", Some(1.15), || commit(100_000));
    add("bevy_commit_1m", Some(1.15), || commit(1_000_000));
    add("rpg_save_10k", Some(1.0), || rpg_save(10_000));
    add("rpg_save_100k", Some(1.0), || rpg_save(100_000));
    add("rpg_save_1m", Some(1.0), || rpg_save(1_000_000));
    add("rpg_load_10k", Some(1.5), || rpg_load(10_000));
    add("rpg_load_100k", Some(1.5), || rpg_load(100_000));
    add("rpg_load_1m", Some(1.5), || rpg_load(1_000_000));
    rows
}

pub(crate) fn captured(world: &World) -> Snapshot {
    world.capture(&SaveOptions::new()).expect("a world that can be saved")
}

/// What a save to a file does before it writes.
pub(crate) fn saved(world: &World) -> Rope {
    let options = SaveOptions::new().with_checksums();
    encoded(&world.capture(&options).expect("a world that can be saved"))
}

/// A save in memory as a file is read into it.
pub(crate) fn aligned(world: &World) -> AlignedBuf {
    AlignedBuf::copy_from(&saved(world).to_vec())
}

pub(crate) fn load_into(world: &mut World, snapshot: &Snapshot) {
    drop(black_box(world.load(snapshot, LoadMode::Replace).expect("it was just saved")));
}

/// A world to a snapshot in warm memory, times a memcpy of the same bytes.
fn capture(entities: usize) -> (f64, String) {
    let (world, mut memcpy) = (bevy_plain::filled(entities), plain::World::new(entities).memcpy());
    let bytes = saved(&world).len();
    assert_eq!(captured(&world).entity_count(), entities);
    let work = || drop(black_box(captured(&world)));
    let (ours, theirs) = against(rounds(entities), work, || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// The first capture of a world, into memory that is fresh from the system: the pool goes with its world.
fn capture_fresh(entities: usize) -> (f64, String) {
    let mut memcpy = plain::World::new(entities).memcpy();
    let mut bytes = 0;
    let work = || {
        let world = bevy_plain::filled(entities);
        let mut snapshot = None;
        let time = seconds(&mut || snapshot = Some(captured(&world)));
        bytes = snapshot.as_ref().map_or(0, |snapshot| encoded(snapshot).len());
        time
    };
    let (ours, theirs) = turns(rounds(entities), work, || seconds(&mut || memcpy.run()));
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// A world to bytes with checksums, times a memcpy of the same bytes.
fn capture_encode(entities: usize) -> (f64, String) {
    let (world, mut memcpy) = (bevy_plain::filled(entities), plain::World::new(entities).memcpy());
    let bytes = saved(&world).len();
    let work = || drop(black_box(saved(&world)));
    let (ours, theirs) = against(rounds(entities), work, || memcpy.run());
    (ours / theirs, note(ours, theirs, entities, bytes))
}

/// Spawns typed rows into a world that is made and dropped outside of the time.
fn spawn_typed(typed: &Typed) -> f64 {
    let mut world = Typed::world();
    seconds(&mut || typed.spawn(&mut world))
}

/// Bytes to a world, checksums and id map included, times a spawn of typed rows.
fn load(entities: usize) -> (f64, String) {
    load_of(&bevy_plain::filled(entities), entities, true)
}

/// The same from 300 archetypes, of which most are small.
fn load_zipf(entities: usize) -> (f64, String) {
    load_of(&bevy_plain::filled_zipf(entities), entities, false)
}

fn load_of(source: &World, entities: usize, tagged: bool) -> (f64, String) {
    let bytes = aligned(source).share();
    let (options, typed) = (OpenOptions::new(), Typed::new(entities));
    let open = || options.open_shared(bytes.clone()).expect("it was just saved");
    let mut world = bevy_plain::empty();
    load_into(&mut world, &open());
    bevy_plain::check(&mut world, entities, tagged);
    drop(world);
    let work = || {
        let mut world = bevy_plain::empty();
        seconds(&mut || load_into(&mut world, &open()))
    };
    let (ours, theirs) = turns(rounds(entities), work, || spawn_typed(&typed));
    (ours / theirs, note(ours, theirs, entities, bytes.len()))
}

/// A load of what is opened and checked already. There is no call for the commit alone: the plan, the id map and the
/// staging, which moves no bytes of this set, are in it.
fn commit(entities: usize) -> (f64, String) {
    let bytes = aligned(&bevy_plain::filled(entities)).share();
    let snapshot = OpenOptions::new().open_shared(bytes.clone()).expect("it was just saved");
    let typed = Typed::new(entities);
    let mut world = Typed::world();
    typed.spawn(&mut world);
    bevy_plain::check(&mut world, entities, true);
    drop(world);
    let work = || {
        let mut world = bevy_plain::empty();
        seconds(&mut || load_into(&mut world, &snapshot))
    };
    let (ours, theirs) = turns(rounds(entities), work, || spawn_typed(&typed));
    let note = note(ours, theirs, entities, bytes.len());
    (ours / theirs, format!("{note}; with plan, staging and id map"))
}

/// The rpg set to bytes with checksums, times hand-written serde + postcard columns.
fn rpg_save(entities: usize) -> (f64, String) {
    let mut world = bevy_rpg::filled(entities);
    let mut by_hand = ByHand::new(&mut world);
    let bytes = saved(&world).len();
    let theirs_bytes = by_hand.save(&world, Vec::new()).len();
    let work = || drop(black_box(saved(&world)));
    let mut buffer = Vec::new();
    let baseline = || {
        buffer.clear();
        buffer = black_box(by_hand.save(&world, std::mem::take(&mut buffer)));
    };
    let (ours, theirs) = against(rounds(entities) / 2, work, baseline);
    let note = note(ours, theirs, entities, bytes);
    (ours / theirs, format!("{note}, baseline {:.1}", theirs_bytes as f64 / entities as f64))
}

/// Bytes to a world of the rpg set, order of siblings included, times postcard and one batch per component. The
/// baseline checks nothing and leaves siblings in any order.
fn rpg_load(entities: usize) -> (f64, String) {
    let mut source = bevy_rpg::filled(entities);
    let expected = bevy_rpg::digest(&mut source);
    let bytes = aligned(&source).share();
    let postcard = ByHand::new(&mut source).save(&source, Vec::new());
    drop(source);
    let options = OpenOptions::new();
    let load = |world: &mut World| {
        load_into(world, &options.open_shared(bytes.clone()).expect("it was just saved"));
    };
    let (mut ours, mut theirs) = (bevy_rpg::empty(), bevy_rpg::empty());
    load(&mut ours);
    ByHand::load(&mut theirs, &postcard);
    assert_eq!(bevy_rpg::digest(&mut ours), expected);
    assert_eq!(bevy_rpg::digest(&mut theirs), expected);
    drop((ours, theirs));
    let work = || {
        let mut world = bevy_rpg::empty();
        seconds(&mut || load(&mut world))
    };
    let baseline = || {
        let mut world = bevy_rpg::empty();
        seconds(&mut || ByHand::load(&mut world, &postcard))
    };
    let (ours, theirs) = turns(rounds(entities) / 2, work, baseline);
    let note = note(ours, theirs, entities, bytes.len());
    (ours / theirs, format!("{note}, baseline {:.1}", postcard.len() as f64 / entities as f64))
}
