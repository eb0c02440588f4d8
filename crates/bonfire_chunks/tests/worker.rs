//! Reads and saves off the game's thread: order, bounds, cancelling, panics, the end.

mod support;
mod worker_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bonfire_chunks::{ChunkPos, ChunkWorker, Layer, Persistence, Priority, RequestKind};
use bonfire_chunks::{Durability, Layers};
use bonfire_store::disk::{Access, MemoryDisk};
use support::*;
use worker_support::*;

#[test]
fn a_chunk_goes_and_comes_back_with_all_that_is_in_it() {
    let world = options().open_on(MemoryDisk::new(), NAME, Access::Write).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let (boulder, wolf) = (body(1, [50.0, 70.0]), snapshot(7));
    let mut edit = world.edit();
    edit.put((3, 4), noise(1)).put_bodies((3, 4), vec![boulder.clone()]).put_entities((3, 4), wolf.clone());
    let saved = worker.save(edit).unwrap();
    let whole = worker.load_whole((3, 4), Priority::Normal).wait().unwrap();
    assert_eq!((whole.chunk.cells(), &*whole.bodies), (&noise(1)[..], &[boulder.clone()][..]));
    assert_eq!(whole.entities.as_ref(), Some(&wolf));
    let report = saved.wait().unwrap();
    assert!(saved.is_complete() && report.generation > 1 && report.full == 1, "{report:?}");
    assert!(saved.take_edit().is_none(), "it was saved");
    assert_eq!(worker.read((3, 4), Priority::Normal).wait().unwrap().as_deref(), Some(&noise(1)[..]));
    assert_eq!(worker.load((3, 4), Priority::Normal).wait().unwrap().cells(), &noise(1)[..]);
    assert_eq!(worker.read_bodies((3, 4), Priority::Normal).wait().unwrap(), [boulder]);
    assert_eq!(worker.read_entities((3, 4), Priority::Normal).wait().unwrap().as_deref(), Some(&wolf[..]));

    assert_eq!(worker.read((9, 9), Priority::Normal).wait().unwrap(), None);
    let nothing = worker.load_whole((9, 9), Priority::Normal).wait().unwrap();
    assert!(nothing.bodies.is_empty() && nothing.entities.is_none() && !nothing.chunk.state().needs_save());
    assert!(worker.finish(LONG) && worker.is_idle() && worker.waiting() == 0);
}

#[test]
fn the_most_urgent_comes_first_and_equals_in_their_order() {
    let (world, gate) = gated(6);
    let worker = ChunkWorker::options().reading_threads(1).start(world);
    let _opens = gate.opens_at_the_end();
    let first = worker.read((0, 0), Priority::Low);
    gate.wait_for(1);
    let handles = [
        worker.read((1, 0), Priority::Low),
        worker.read((2, 0), Priority::Normal),
        worker.read((3, 0), Priority::High),
        worker.read((4, 0), Priority::Normal),
        worker.read((5, 0), Priority::High),
    ];
    gate.open();
    for handle in handles.into_iter().chain([first]) {
        assert!(handle.wait().unwrap().is_some());
    }
    assert_eq!(gate.passed().iter().map(|pos| pos.x).collect::<Vec<_>>(), [0, 3, 5, 2, 4, 1]);
}

#[test]
fn several_threads_read_at_a_time() {
    let (world, gate) = gated(5);
    let worker = ChunkWorker::options().reading_threads(3).start(world);
    let _opens = gate.opens_at_the_end();
    let reads = [0, 1, 2, 3, 4].map(|x| worker.read((x, 0), Priority::Normal));
    gate.wait_for(3);
    assert_eq!(worker.statistics().loads().under_way, 3);
    assert_eq!((worker.waiting(), worker.is_idle()), (2, false));
    gate.open();
    reads.iter().for_each(|read| assert!(read.wait().unwrap().is_some()));
}

#[test]
fn an_urgent_read_sees_the_save_that_was_requested_before_it() {
    let (world, gate) = gated(2);
    let worker = ChunkWorker::options().reading_threads(1).start(world.clone());
    let _opens = gate.opens_at_the_end();
    let blocking = worker.read((0, 0), Priority::High);
    gate.wait_for(1);
    // Not compared with the generator: saves do not wait at the gate.
    let mut edit = world.edit();
    edit.put_stored((1, 0), bonfire_chunks::StoredChunk::Full(noise(5)));
    let saved = worker.save(edit).unwrap();
    let urgent = worker.read((1, 0), Priority::High);
    assert_eq!(saved.wait().unwrap().full, 1, "a save does not wait for loads");
    assert!(!blocking.is_complete());
    gate.open();
    assert_eq!(urgent.wait().unwrap().as_deref(), Some(&noise(5)[..]));
    blocking.wait().unwrap();
}

#[test]
fn a_wide_view_is_asked_for_at_once() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::options().reading_threads(1).start(world.clone());
    let _opens = gate.opens_at_the_end();
    let blocking = worker.read((0, 0), Priority::High);
    gate.wait_for(1);
    let view: Vec<_> = (100..163)
        .flat_map(|x| (0..63).map(move |y| (x, y)))
        .map(|pos| worker.read(pos, Priority::Low))
        .collect();
    assert_eq!(worker.waiting(), 63 * 63);
    gate.open();
    blocking.wait().unwrap();
    view.iter().for_each(|read| _ = read.wait().unwrap());
}

#[test]
fn loads_and_saves_have_their_own_bounds_and_a_refused_save_gives_its_edit_back() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::options().reading_threads(1).loads_max(64).saves_max(3).start(world.clone());
    let _opens = gate.opens_at_the_end();
    let blocking = worker.read((0, 0), Priority::High);
    gate.wait_for(1);
    let save = |x| worker.save(edit_of(&world, (x, 0), noise(x as u64)));
    // Its cells are compared with the generator, so it waits at the gate.
    let writing = save(1).unwrap();
    gate.wait_for(2);
    let loads: Vec<_> = (0..64).map(|x| worker.read((x + 100, 0), Priority::Low)).collect();
    let saves: Vec<_> = (2..5).map(|x| save(x).unwrap()).collect();
    assert_eq!(worker.waiting(), 67);
    let error = worker.load_whole((0, 0), Priority::High).result().unwrap().unwrap_err();
    assert!(error.is_limit() && error.to_string().contains("64 loads"), "{error}");
    let refused = save(5).unwrap_err();
    assert!(refused.error().is_limit() && refused.to_string().contains("3 saves"), "{refused}");
    let copied = std::error::Error::source(&refused).map(ToString::to_string);
    assert_eq!(copied, Some(refused.error().to_string()));
    assert!(worker.compact().result().unwrap().unwrap_err().is_limit());
    assert_eq!((worker.statistics().loads().refused, worker.statistics().saves().refused), (1, 1));
    gate.open();
    loads.iter().chain([&blocking]).for_each(|load| drop(load.wait().unwrap()));
    saves.iter().chain([&writing]).for_each(|save| _ = save.wait().unwrap());
    worker.save(refused.into_edit()).unwrap().wait().unwrap();
    assert_eq!(world.read((5, 0)).unwrap(), Some(noise(5)), "nothing was lost");
}

#[test]
fn what_is_cancelled_gives_up_its_place_at_once() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::options().reading_threads(1).loads_max(2).saves_max(2).start(world.clone());
    let _opens = gate.opens_at_the_end();
    let blocking = worker.read((0, 0), Priority::High);
    gate.wait_for(1);
    let save = |x| worker.save(edit_of(&world, (x, 0), noise(x as u64)));
    let writing = save(1).unwrap();
    gate.wait_for(2);
    let loads = [7, 8].map(|x| worker.load((x, 0), Priority::Low));
    loads[0].cancel();
    let third = worker.load((9, 0), Priority::Low);
    assert!(loads[0].result().unwrap().unwrap_err().is_cancelled(), "it is complete now");
    assert!(third.result().is_none(), "there was a place for it");
    assert!(worker.load((10, 0), Priority::Low).result().unwrap().unwrap_err().is_limit());

    let saves = [2, 3].map(|x| save(x).unwrap());
    saves[0].cancel();
    let last = save(4).unwrap();
    assert!(saves[0].result().unwrap().unwrap_err().is_cancelled());
    let edit = saves[0].take_edit().expect("it was not saved");
    assert!(saves[0].take_edit().is_none());
    gate.open();
    assert!(third.wait().is_ok() && loads[1].wait().is_ok() && blocking.wait().is_ok());
    [writing, saves[1].clone(), last].iter().for_each(|save| _ = save.wait().unwrap());
    assert_eq!(world.read((2, 0)).unwrap(), None, "it was cancelled");
    worker.save(edit).unwrap().wait().unwrap();
    assert_eq!(world.read((2, 0)).unwrap(), Some(noise(2)));
    assert_eq!(worker.statistics().loads().cancelled, 1);
    assert_eq!(worker.statistics().of(RequestKind::Save).cancelled, 1);
}

/// The last save of a chunk was cancelled and taken out: a read still sees the one before it.
#[test]
fn a_cancelled_save_does_not_hide_an_older_one() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::options().saves_max(2).start(world.clone());
    let _opens = gate.opens_at_the_end();
    let writing = worker.save(edit_of(&world, (1, 0), noise(1))).unwrap();
    gate.wait_for(1);
    let older = worker.save(edit_of(&world, (2, 0), noise(2))).unwrap();
    let newer = worker.save(edit_of(&world, (2, 0), noise(3))).unwrap();
    newer.cancel();
    let other = worker.save(edit_of(&world, (3, 0), noise(4))).unwrap();
    assert!(newer.is_complete(), "it gave up its place");
    let read = worker.read((2, 0), Priority::High);
    gate.open();
    assert_eq!(read.wait().unwrap().as_deref(), Some(&noise(2)[..]));
    assert!(older.is_complete());
    assert!(writing.wait().is_ok() && other.wait().is_ok());
}

#[test]
fn a_dropped_worker_finishes_the_saves_and_fails_the_loads_that_wait() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::options().reading_threads(1).start(world.clone());
    let _opens = gate.opens_at_the_end();
    let blocking = worker.read((0, 0), Priority::High);
    gate.wait_for(1);
    let save = |x: i32| worker.save(edit_of(&world, (x, 5), noise(x as u64))).unwrap();
    let (zero, one, two) = (save(0), save(1), save(2));
    gate.wait_for(2);
    let (waiting, held) = (worker.load((7, 7), Priority::High), worker.read((2, 5), Priority::High));
    let compaction = worker.compact();
    one.cancel();
    worker.end();
    for error in [waiting.wait().unwrap_err(), held.wait().unwrap_err(), compaction.wait().unwrap_err()] {
        assert!(error.is_cancelled() && error.to_string().contains("worker has ended"), "{error}");
    }
    let error = worker.load((1, 1), Priority::High).wait().unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("has ended"), "{error}");
    assert!(worker.save(edit_of(&world, (9, 9), noise(1))).unwrap_err().error().is_misuse());
    assert!(worker.compact().wait().unwrap_err().is_misuse());
    gate.open();
    drop(worker);
    assert!(one.result().unwrap().unwrap_err().is_cancelled());
    assert!(zero.result().unwrap().is_ok() && two.result().unwrap().is_ok() && blocking.is_complete());
    assert_eq!((world.read((1, 5)).unwrap(), world.read((2, 5)).unwrap()), (None, Some(noise(2))));
}

#[test]
fn an_edit_of_another_world_is_refused() {
    let open = || options().open_on(MemoryDisk::new(), NAME, Access::Write).unwrap();
    let (world, other) = (open(), open());
    let worker = ChunkWorker::new(world);
    let refused = worker.save(edit_of(&other, (0, 0), noise(1))).unwrap_err();
    assert!(refused.error().is_misuse());
    refused.into_edit().commit(Durability::Synced).unwrap();
    assert_eq!(other.read((0, 0)).unwrap(), Some(noise(1)));
}

#[test]
fn a_generator_that_panics_fails_its_request_alone() {
    struct Bomb(Arc<AtomicBool>);
    impl bonfire_chunks::Generator for Bomb {
        fn generate(&self, _: &bonfire_chunks::WorldShape<'_>, pos: ChunkPos, _: &mut [u8]) {
            assert!(!self.0.load(Ordering::Relaxed) || pos.x != 0, "boom");
        }
    }
    let is_armed = Arc::new(AtomicBool::new(false));
    let generator = Bomb(is_armed.clone());
    let world = options().generator(generator).open_on(MemoryDisk::new(), NAME, Access::Write).unwrap();
    let one = cells(|x, _| [u8::from(x == 0), 0, 0, 0]);
    world.edit().put((0, 0), one.clone()).put((1, 0), one.clone()).commit(Durability::Synced).unwrap();
    is_armed.store(true, Ordering::Relaxed);
    let worker = ChunkWorker::new(world.clone());
    let save = worker.save(edit_of(&world, (0, 0), noise(1))).unwrap();
    let (read, whole) = (worker.read((0, 0), Priority::Normal), worker.load_whole((0, 7), Priority::Normal));
    assert!(read.wait().unwrap_err().to_string().contains("boom") && save.wait().is_err());
    assert!(whole.wait().unwrap_err().to_string().contains("boom"));
    assert_eq!(worker.read((1, 0), Priority::Normal).wait().unwrap().as_deref(), Some(&one[..]));
    assert!(worker.finish(LONG) && worker.is_autosave_due(Duration::ZERO));
    assert_eq!((worker.statistics().loads().failed, worker.statistics().saves().failed), (2, 1));
    is_armed.store(false, Ordering::Relaxed);
    assert_eq!(world.read((0, 0)).unwrap(), Some(one), "what was not saved is as it was");
    worker.save(save.take_edit().unwrap()).unwrap().wait().unwrap();
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(1)), "and the edit was not lost");
}

#[test]
fn an_upgrader_that_panics_fails_its_request_alone() {
    let disk = MemoryDisk::new();
    let world = options().open_on(disk.clone(), NAME, Access::Write).unwrap();
    world
        .edit()
        .put((0, 0), noise(1))
        .put((1, 0), vec![0; noise(1).len()])
        .commit(Durability::Synced)
        .unwrap();
    world.close().unwrap();
    let layers = Layers::new()
        .with(Layer::new("material", 1).version(2).persistence(Persistence::Always))
        .upgrade("material", 1, |old: &[u8]| {
            assert!(old[0] == 0, "boom");
            [old[0]]
        });
    let options = bonfire_chunks::ChunkOptions::new(layers).chunk_size(SIZE as u16).tile_size(4).seed(7);
    let worker = ChunkWorker::new(options.open_on(disk, NAME, Access::Write).unwrap());
    let (bad, good) = (worker.load((0, 0), Priority::Normal), worker.load((1, 0), Priority::Normal));
    assert!(bad.wait().unwrap_err().to_string().contains("boom"));
    assert!(good.wait().is_ok());
}

#[test]
fn autosave_is_due_after_a_time_without_saves() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::new(world.clone());
    let _opens = gate.opens_at_the_end();
    assert!(worker.is_autosave_due(Duration::ZERO) && !worker.is_autosave_due(LONG));
    std::thread::sleep(Duration::from_millis(20));
    let before = Instant::now();
    let save = worker.save(edit_of(&world, (0, 0), noise(1))).unwrap();
    assert!(!worker.is_autosave_due(Duration::ZERO), "one waits or is being done");
    gate.open();
    save.wait().unwrap();
    let since = worker.since_last_save();
    assert!(since <= before.elapsed(), "any save starts the time again");
    assert!(worker.is_autosave_due(Duration::ZERO) && !worker.is_autosave_due(LONG));
}

#[test]
fn save_to_writes_another_file_and_leaves_the_world() {
    let directory = tempfile::tempdir().unwrap();
    let world = options().open(directory.path().join(NAME)).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let first = worker.save(edit_of(&world, (0, 0), noise(1))).unwrap();
    let other = directory.path().join("other.save");
    worker.save_to(&other, edit_of(&world, (1, 0), noise(2))).unwrap().wait().unwrap();
    assert!(first.is_complete(), "it was requested before");
    assert_eq!(world.read((1, 0)).unwrap(), None);
    let nowhere =
        worker.save_to(directory.path().join("no/such"), edit_of(&world, (1, 0), noise(3))).unwrap();
    assert!(nowhere.wait().is_err());
    worker.save(nowhere.take_edit().unwrap()).unwrap().wait().unwrap();
    assert_eq!(world.read((1, 0)).unwrap(), Some(noise(3)));
    let other = options().open(&other).unwrap();
    assert_eq!((other.read((0, 0)).unwrap(), other.read((1, 0)).unwrap()), (Some(noise(1)), Some(noise(2))));
}

#[test]
fn the_file_is_compacted_while_nothing_else_waits() {
    let world = options().compact_at_least(4096).open_on(MemoryDisk::new(), NAME, Access::Write).unwrap();
    let worker = ChunkWorker::new(world.clone());
    for round in 0..30 {
        let mut edit = world.edit();
        edit.put((0, 0), noise(round)).put((1, 0), noise(round + 100));
        worker.save(edit).unwrap().wait().unwrap();
    }
    assert!(worker.finish(LONG));
    let info = world.info();
    assert!(info.dead_bytes <= info.file_bytes / 4 || info.dead_bytes <= 4096, "{info:?}");
    worker.compact().wait().unwrap();
    assert!(world.info().dead_bytes < 1000);
    assert_eq!(worker.statistics().of(RequestKind::Compact).done, 1);
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(29)));
}
