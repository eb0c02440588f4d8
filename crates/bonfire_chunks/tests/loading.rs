//! A worker gives chunks as a game needs them: out of the file, or generated, and never older than a save.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bonfire_chunks::{ChunkPos, ChunkState, ChunkWorker, Priority, WorldShape};
use bonfire_store::disk::{Access, MemoryDisk};
use support::*;

#[test]
fn a_chunk_that_is_not_in_the_file_is_generated() {
    let world = options().generator(Hills { version: 1 });
    let world = world.open_on(MemoryDisk::new(), "world.save", Access::Write).unwrap();
    let chunk = ChunkWorker::new(world.clone()).load((0, 0), Priority::High).wait().unwrap();
    assert_eq!((chunk.pos(), chunk.state()), (ChunkPos::new(0, 0), ChunkState::Clean));
    assert_eq!(chunk.cells(), world.load((0, 0)).unwrap().cells());
    assert_eq!(chunk.get(0, 0).unwrap()[0], 3, "there is ground");
}

#[test]
fn a_load_sees_the_save_that_was_asked_for_before_it() {
    // The worker is busy with a chunk at (9, 9) until the gate opens, so that all requests wait.
    let (gate, generated) = (Arc::new((Mutex::new(false), Condvar::new())), Arc::new(AtomicUsize::new(0)));
    let (door, count) = (gate.clone(), generated.clone());
    let slow = move |_: &WorldShape<'_>, pos: ChunkPos, _: &mut [u8]| {
        count.fetch_add(1, Ordering::Relaxed);
        if pos == ChunkPos::new(9, 9) {
            let open = door.1.wait_while(door.0.lock().unwrap(), |open| !*open);
            drop(open.unwrap());
        }
    };
    let world = options().generator(slow).open_on(MemoryDisk::new(), "world.save", Access::Write).unwrap();
    let worker = ChunkWorker::options().reading_threads(1).start(world.clone());
    let first = worker.load((9, 9), Priority::High);
    let mut edit = world.edit();
    edit.put((0, 0), noise(3));
    let save = worker.save(edit).unwrap();
    let load = worker.load((0, 0), Priority::High);
    let unwanted = worker.load((5, 5), Priority::Low);
    unwanted.cancel();
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();

    let chunk = load.wait().unwrap();
    assert_eq!((chunk.state(), chunk.cells()), (ChunkState::Persisted, &noise(3)[..]));
    assert!(save.wait().is_ok() && first.wait().is_ok());
    assert!(unwanted.wait().unwrap_err().is_cancelled());
    // The first chunk, and the base of the one that was saved.
    assert_eq!(generated.load(Ordering::Relaxed), 2);
}
