//! Reads and saves off the game's thread.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bonfire_chunks::{ChunkPos, ChunkWorker, ChunkWorld, Durability, Priority};
use bonfire_store::disk::{Access, MemoryDisk};
use support::*;

const NAME: &str = "world.save";
const LONG: Duration = Duration::from_secs(60);

/// A generator that lets nobody pass until it is opened, and notes who came by.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Default)]
struct Passage {
    is_open: bool,
    passed: Vec<ChunkPos>,
}

impl Gate {
    fn open(&self) {
        self.0.0.lock().unwrap().is_open = true;
        self.0.1.notify_all();
    }
    fn passed(&self) -> Vec<ChunkPos> {
        self.0.0.lock().unwrap().passed.clone()
    }
}

impl bonfire_chunks::Generator for Gate {
    fn generate(&self, pos: ChunkPos, _: &mut [u8]) {
        let mut state = self.0.0.lock().unwrap();
        state.passed.push(pos);
        drop(self.0.1.wait_while(state, |state| !state.is_open).unwrap());
    }
}

/// A world with some chunks that are deltas, whose reads wait at the gate.
fn gated(chunks: i32) -> (ChunkWorld, Gate) {
    let gate = Gate::default();
    gate.open();
    let disk = MemoryDisk::new();
    let world = options().generator(gate.clone()).threads(1).open_on(disk, NAME, Access::Write).unwrap();
    for x in 0..chunks {
        world
            .edit()
            .put((x, 0), cells(|cx, cy| if (cx, cy) == (0, 0) { [x as u8 + 1, 0, 0, 0] } else { [0; 4] }))
            .commit(Durability::Synced)
            .unwrap();
    }
    *gate.0.0.lock().unwrap() = Passage::default();
    (world, gate)
}

#[test]
fn a_handle_is_complete_when_the_save_is_durable() {
    let disk = MemoryDisk::new();
    let world = options().open_on(disk, NAME, Access::Write).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let mut edit = world.edit();
    edit.put((3, 4), noise(1)).put_bodies((3, 4), vec![body(1, [50.0, 70.0])]);
    let saved = worker.save(edit);
    let report = saved.wait().unwrap();
    assert!(saved.is_complete() && report.generation > 1 && report.full == 1, "{report:?}");
    assert_eq!(worker.read((3, 4), Priority::Normal).wait().unwrap().as_deref(), Some(&noise(1)[..]));
    assert_eq!(worker.read((9, 9), Priority::Normal).wait().unwrap(), None);
    assert!(worker.finish(LONG) && worker.is_idle() && worker.waiting() == 0);
}

#[test]
fn the_most_urgent_comes_first_and_equals_in_their_order() {
    let (world, gate) = gated(6);
    let worker = ChunkWorker::new(world);
    let first = worker.read((0, 0), Priority::Low);
    while gate.passed().is_empty() {
        std::thread::yield_now();
    }
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
fn a_read_sees_the_save_that_was_asked_for_before_it() {
    let (world, gate) = gated(2);
    let worker = ChunkWorker::new(world.clone());
    let blocking = worker.read((0, 0), Priority::High);
    while gate.passed().is_empty() {
        std::thread::yield_now();
    }
    let mut edit = world.edit();
    edit.put((1, 0), noise(5));
    let saved = worker.save(edit);
    let urgent = worker.read((1, 0), Priority::High);
    gate.open();
    assert_eq!(urgent.wait().unwrap().as_deref(), Some(&noise(5)[..]));
    assert!(saved.is_complete());
    blocking.wait().unwrap();
}

#[test]
fn a_wide_view_is_asked_for_at_once() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::new(world.clone());
    let blocking = worker.read((0, 0), Priority::High);
    while gate.passed().is_empty() {
        std::thread::yield_now();
    }
    let view: Vec<_> = (100..163)
        .flat_map(|x| (0..63).map(move |y| (x, y)))
        .map(|pos| worker.read(pos, Priority::Low))
        .collect();
    assert_eq!(worker.waiting(), 63 * 63);
    // Saves have cells, so fewer of them wait.
    let edit = |x| {
        let mut edit = world.edit();
        edit.put((x, 0), noise(5));
        edit
    };
    let saves: Vec<_> = (0..64).map(|x| worker.save(edit(x))).collect();
    let error = worker.save(edit(64)).result().unwrap().unwrap_err();
    assert!(error.is_limit() && error.to_string().contains("64 saves"), "{error}");
    gate.open();
    blocking.wait().unwrap();
    view.iter().for_each(|read| _ = read.wait().unwrap());
    saves.iter().for_each(|save| _ = save.wait().unwrap());
}

#[test]
fn more_requests_than_may_wait_are_refused_and_nothing_waits_for_ever() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::new(world.clone()).queue_max(64);
    let blocking = worker.read((0, 0), Priority::High);
    while gate.passed().is_empty() {
        std::thread::yield_now();
    }
    let waiting: Vec<_> = (0..64).map(|x| worker.read((x + 100, 0), Priority::Low)).collect();
    assert_eq!(worker.waiting(), 64);
    let refused = worker.read((0, 0), Priority::High);
    assert!(refused.result().unwrap().unwrap_err().is_limit());
    let mut edit = world.edit();
    edit.put((1, 0), noise(5));
    assert!(worker.save(edit).result().unwrap().unwrap_err().is_limit());
    waiting[3].cancel();
    gate.open();
    blocking.wait().unwrap();
    for (number, handle) in waiting.iter().enumerate() {
        match handle.wait() {
            Err(error) => assert!(number == 3 && error.is_cancelled(), "{number}: {error}"),
            Ok(cells) => assert!(number != 3 && cells.is_none()),
        }
    }
}

#[test]
fn a_cancelled_save_is_not_done_and_a_dropped_worker_finishes_the_rest() {
    let (world, gate) = gated(1);
    let worker = ChunkWorker::new(world.clone());
    let blocking = worker.read((0, 0), Priority::High);
    while gate.passed().is_empty() {
        std::thread::yield_now();
    }
    let save = |x: i32| {
        let mut edit = world.edit();
        edit.put((x, 5), noise(x as u64));
        worker.save(edit)
    };
    let (one, two) = (save(1), save(2));
    one.cancel();
    gate.open();
    drop(worker);
    assert!(one.result().unwrap().unwrap_err().is_cancelled());
    assert!(two.result().unwrap().is_ok() && blocking.is_complete());
    assert_eq!((world.read((1, 5)).unwrap(), world.read((2, 5)).unwrap()), (None, Some(noise(2))));
}

#[test]
fn a_generator_that_panics_fails_its_request_alone() {
    struct Bomb(Arc<AtomicBool>);
    impl bonfire_chunks::Generator for Bomb {
        fn generate(&self, pos: ChunkPos, _: &mut [u8]) {
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
    let mut edit = world.edit();
    edit.put((0, 0), noise(1));
    let (read, save) = (worker.read((0, 0), Priority::Normal), worker.save(edit));
    assert!(read.wait().unwrap_err().to_string().contains("boom") && save.wait().is_err());
    assert_eq!(worker.read((1, 0), Priority::Normal).wait().unwrap().as_deref(), Some(&one[..]));
    assert!(worker.finish(LONG) && worker.is_autosave_due(Duration::ZERO));
    is_armed.store(false, Ordering::Relaxed);
    assert_eq!(world.read((0, 0)).unwrap(), Some(one), "what was not saved is as it was");
}

#[test]
fn autosave_is_due_after_a_time_without_saves() {
    let world = options().open_on(MemoryDisk::new(), NAME, Access::Write).unwrap();
    let worker = ChunkWorker::new(world.clone());
    assert!(worker.is_autosave_due(Duration::ZERO) && !worker.is_autosave_due(LONG));
    let mut edit = world.edit();
    edit.put((0, 0), noise(1));
    worker.save(edit).wait().unwrap();
    assert!(!worker.is_autosave_due(LONG), "any save starts the time again");
}

#[test]
fn save_to_writes_another_file_and_leaves_the_world() {
    let directory = tempfile::tempdir().unwrap();
    let world = options().open(directory.path().join(NAME)).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    let worker = ChunkWorker::new(world.clone());
    let mut edit = world.edit();
    edit.put((1, 0), noise(2));
    let other = directory.path().join("other.save");
    worker.save_to(&other, edit).wait().unwrap();
    assert_eq!(world.read((1, 0)).unwrap(), None);
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
        worker.save(edit).wait().unwrap();
    }
    assert!(worker.finish(LONG));
    let info = world.info();
    assert!(info.dead_bytes <= info.file_bytes / 4 || info.dead_bytes <= 4096, "{info:?}");
    worker.compact().wait().unwrap();
    assert!(world.info().dead_bytes < 1000);
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(29)));
}
