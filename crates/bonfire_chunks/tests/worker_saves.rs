//! Saves of the worker: durable when their handle is complete, in order, with their edit if they fail.

mod support;
mod worker_support;

use bonfire_chunks::{ChunkPos, ChunkWorker, ChunkWorld, CommitHandle, Priority, RequestKind};
use bonfire_store::disk::Access;
use support::*;
use worker_support::*;

fn open(disk: &GatedDisk) -> ChunkWorld {
    options().open_on(disk.clone(), NAME, Access::Write).unwrap()
}

/// Waits until a save has come to its sync, or is wrongly complete.
fn wait_for_sync(disk: &GatedDisk, save: &CommitHandle) {
    wait_until(|| disk.syncs_waiting() > 0 || save.is_complete());
    assert!(!save.is_complete(), "it is complete before it is durable");
}

#[test]
fn a_handle_is_complete_only_when_the_save_is_durable() {
    let disk = GatedDisk::default();
    let world = open(&disk);
    let worker = ChunkWorker::new(world.clone());
    let _opens = disk.close();
    let before = disk.syncs_returned();
    let save = worker.save(edit_of(&world, (0, 0), noise(1))).unwrap();
    wait_for_sync(&disk, &save);
    assert_eq!((worker.statistics().saves().under_way, worker.is_idle()), (1, false));
    disk.open();
    save.wait().unwrap();
    assert!(disk.syncs_returned() > before);
    assert_eq!(worker.statistics().bytes_written(), save.wait().unwrap().bytes);
}

#[test]
fn loads_of_other_chunks_do_not_wait_for_a_save_and_those_of_its_chunks_do() {
    let disk = GatedDisk::default();
    let world = open(&disk);
    let mut edit = world.edit();
    edit.put((5, 5), noise(5))
        .put_bodies((5, 5), vec![body(1, [81.0, 81.0])])
        .put_entities((5, 5), snapshot(5));
    edit.commit(bonfire_chunks::Durability::Synced).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let _opens = disk.close();
    let save = worker.save(edit_of(&world, (0, 0), noise(1))).unwrap();
    let later = worker.save(edit_of(&world, (1, 0), noise(2))).unwrap();
    wait_for_sync(&disk, &save);
    let (own, next) = (worker.read((0, 0), Priority::High), worker.load_whole((1, 0), Priority::High));
    let other = worker.load_whole((5, 5), Priority::Low).wait().unwrap();
    assert_eq!((other.chunk.cells(), other.bodies.len()), (&noise(5)[..], 1));
    assert_eq!(worker.read_bodies((5, 5), Priority::Low).wait().unwrap().len(), 1);
    assert!(worker.read_entities((5, 5), Priority::Low).wait().unwrap().is_some());
    assert_eq!(worker.read((9, 9), Priority::Low).wait().unwrap(), None);
    assert!(!own.is_complete() && !next.is_complete() && !save.is_complete());
    assert_eq!(worker.statistics().loads().waiting, 2);
    disk.open();
    assert_eq!(own.wait().unwrap().as_deref(), Some(&noise(1)[..]));
    assert!(save.is_complete());
    assert_eq!(next.wait().unwrap().chunk.cells(), &noise(2)[..]);
    assert!(later.is_complete());
}

#[test]
fn bodies_wait_for_every_earlier_save_with_bodies() {
    let disk = GatedDisk::default();
    let world = open(&disk);
    let mut edit = world.edit();
    edit.put_bodies((0, 0), vec![body(1, [3.0, 3.0])]);
    edit.commit(bonfire_chunks::Durability::Synced).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let _opens = disk.close();
    // The body leaves the chunk (0, 0), which the edit does not name.
    let mut edit = world.edit();
    edit.put_bodies((1, 0), vec![body(1, [17.0, 3.0])]);
    let save = worker.save(edit).unwrap();
    wait_for_sync(&disk, &save);
    let left = worker.read_bodies((0, 0), Priority::High);
    let whole = worker.load_whole((0, 0), Priority::High);
    let far = worker.read_bodies((-9, 9), Priority::High);
    let cells = worker.read((0, 0), Priority::High);
    assert_eq!(cells.wait().unwrap(), None, "cells of other chunks do not wait");
    assert!(!left.is_complete() && !whole.is_complete() && !far.is_complete());
    disk.open();
    assert!(left.wait().unwrap().is_empty() && whole.wait().unwrap().bodies.is_empty());
    assert!(save.is_complete() && far.wait().unwrap().is_empty());
    assert_eq!(worker.read_bodies((1, 0), Priority::High).wait().unwrap().len(), 1);
}

/// A read that began before the save shows the chunk before it or behind it, and a body in its old place or in its new one.
#[test]
fn a_body_that_is_being_saved_elsewhere_is_where_it_was_until_then() {
    let disk = GatedDisk::default();
    let world = open(&disk);
    let mut edit = world.edit();
    edit.put_bodies((0, 0), vec![body(1, [3.0, 3.0])]);
    edit.commit(bonfire_chunks::Durability::Synced).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let _opens = disk.close();
    let mut edit = world.edit();
    edit.put_bodies((1, 0), vec![body(1, [17.0, 3.0])]);
    let save = worker.save(edit).unwrap();
    wait_for_sync(&disk, &save);
    let bodies = |x| world.load_whole((x, 0)).unwrap().bodies.len();
    assert_eq!((bodies(0), bodies(1)), (1, 0), "the save is not in the file yet");
    disk.open();
    save.wait().unwrap();
    assert_eq!((bodies(0), bodies(1)), (0, 1));
}

/// The save is in the file, and the checkpoint behind it is not.
#[test]
fn a_body_has_moved_as_soon_as_its_save_is_in_the_file() {
    let disk = GatedDisk::default();
    let world = options().eager().open_on(disk.clone(), NAME, Access::Write).unwrap();
    let mut edit = world.edit();
    edit.put_bodies((0, 0), vec![body(1, [3.0, 3.0])]).put_bodies((2, 0), vec![body(2, [33.0, 3.0])]);
    edit.commit(bonfire_chunks::Durability::Synced).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let before = disk.syncs_returned();
    let _opens = disk.close();
    disk.let_one_pass();
    let mut edit = world.edit();
    edit.put((7, 7), noise(1)).put_bodies((1, 0), vec![body(1, [17.0, 3.0])]);
    let save = worker.save(edit).unwrap();
    wait_until(|| (disk.syncs_returned() > before && disk.syncs_waiting() > 0) || save.is_complete());
    assert!(!save.is_complete(), "a checkpoint has a sync of its own");
    let bodies = |x| world.load_whole((x, 0)).unwrap().bodies.len();
    assert_eq!((bodies(0), bodies(1), bodies(2)), (0, 1, 1));
    disk.open();
    save.wait().unwrap();
    assert_eq!((bodies(0), bodies(1), bodies(2)), (0, 1, 1));
}

#[test]
fn saves_are_written_in_the_order_of_their_requests() {
    let disk = GatedDisk::default();
    let world = open(&disk);
    let worker = ChunkWorker::new(world.clone());
    let _opens = disk.close();
    let saves: Vec<_> =
        (0..20).map(|round| worker.save(edit_of(&world, (0, 0), noise(round))).unwrap()).collect();
    wait_for_sync(&disk, &saves[0]);
    disk.open();
    let generations: Vec<u64> = saves.iter().map(|save| save.wait().unwrap().generation).collect();
    assert!(generations.is_sorted_by(|one, next| one < next), "{generations:?}");
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(19)));
}

#[test]
fn a_save_that_fails_gives_its_edit_back() {
    let disk = GatedDisk::default();
    let world = open(&disk);
    let worker = ChunkWorker::new(world.clone());
    let mut edit = edit_of(&world, (0, 0), noise(1));
    edit.put_bodies((0, 0), vec![body(1, [3.0, 3.0])]).put_entities((0, 0), snapshot(1)).remove((4, 4));
    disk.set_full(true);
    let save = worker.save(edit).unwrap();
    let error = save.wait().unwrap_err();
    assert!(error.is_io(), "{error}");
    assert_eq!(worker.statistics().of(RequestKind::Save).failed, 1);
    let untouched = world.load_whole((0, 0)).unwrap();
    assert!(untouched.bodies.is_empty() && world.read((0, 0)).unwrap().is_none());
    disk.set_full(false);
    let edit = save.take_edit().expect("it was not saved");
    worker.save(edit).unwrap().wait().unwrap();
    let whole = world.load_whole((0, 0)).unwrap();
    assert_eq!((whole.chunk.cells(), whole.bodies.len()), (&noise(1)[..], 1));
    assert_eq!(whole.entities, Some(snapshot(1)));
}

#[test]
fn an_edit_that_fails_to_commit_keeps_what_it_has() {
    let disk = GatedDisk::default();
    let world = open(&disk);
    let mut edit = edit_of(&world, (0, 0), noise(1));
    edit.put_bodies((0, 0), vec![body(1, [3.0, 3.0])]);
    disk.set_full(true);
    assert!(edit.commit(bonfire_chunks::Durability::Synced).is_err() && !edit.is_empty());
    disk.set_full(false);
    let elsewhere = GatedDisk::default();
    elsewhere.set_full(true);
    assert!(world.save_on(&elsewhere, NAME, &mut edit).is_err() && !edit.is_empty());
    assert_eq!(edit.commit(bonfire_chunks::Durability::Synced).unwrap().full, 1);
    assert!(edit.is_empty());
    assert_eq!(world.read_bodies(ChunkPos::new(0, 0)).unwrap().len(), 1);
}
