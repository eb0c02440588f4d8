//! Chunks that have left the world of a game are never lost, however often saves fail, and the file never has a part of them.

mod stream_support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bonfire_chunks::stream::{ChunkPhase, Focus, StreamEvent};
use bonfire_chunks::{ChunkPos, ChunkWorker, Handle, Priority, WorldShape};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use bonfire_testkit::disk::{Call, Fault, FaultyDisk, Plan, Repeat};
use stream_support::{Session, creatures_in, open, options};

fn full(of: Call) -> Plan {
    Plan { fault: Fault::Full, nth: 1, of: Some(of), repeat: Repeat::Forever }
}

fn with_tickets(disk: &(impl Disk + Clone + 'static), tickets: &[(i32, i32)]) -> Session {
    let mut session = Session::start(disk);
    tickets.iter().for_each(|pos| session.stream.add_ticket(*pos));
    session.settle();
    session
}

/// Opens the file again, as a game does after a sync that has failed.
fn reopen(session: &mut Session, disk: &(impl Disk + Clone + 'static)) {
    let _ = session.stream.world().close();
    session.stream.reopen(ChunkWorker::options().reading_threads(2).start(open(disk).unwrap()));
}

#[test]
fn entities_of_a_moment_that_failed_come_from_memory() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_tickets(&disk, &[(0, 0)]);
    session.game.spawn(7, (3, 3));
    disk.fail(full(Call::Write));
    let saved = session.stream.save(&mut session.game);
    session.until(|session| session.stream.status().is_failing);
    assert!(saved.result().unwrap().is_err());
    // Nothing has changed since the capture, so the chunk leaves without another one.
    session.stream.remove_ticket((0, 0));
    session.until(|session| !session.stream.is_active((0, 0)));
    assert_eq!(session.stream.phase((0, 0)), Some(ChunkPhase::Saving));
    session.stream.add_ticket((0, 0));
    session.until(|session| session.stream.is_active((0, 0)));
    assert_eq!(session.game.home(7), Some((0, 0).into()));
    disk.heal();
    session.settle();
    assert_eq!(creatures_in(session.stream.world(), (0, 0)), [(7, (3, 3))]);
}

#[test]
fn both_chunks_of_a_move_that_leave_in_one_frame_come_from_memory() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_tickets(&disk, &[(0, 0), (1, 0)]);
    session.game.spawn(7, (3, 3));
    session.stream.save(&mut session.game);
    session.settle();
    session.game.walk(&mut session.stream, 7, (11, 3));
    disk.fail(full(Call::Write));
    for pos in [(0, 0), (1, 0)] {
        session.stream.remove_ticket(pos);
    }
    session.until(|session| session.stream.status().is_failing);
    assert_eq!(session.stream.status().saving, 2);
    for pos in [(0, 0), (1, 0)] {
        session.stream.add_ticket(pos);
    }
    session.until(|session| session.stream.status().active == 2);
    assert_eq!(session.game.home(7), Some((1, 0).into()));
}

#[test]
fn a_failed_edit_is_the_first_part_of_the_next_one() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_tickets(&disk, &[(0, 0), (1, 0)]);
    session.game.spawn(7, (3, 3));
    session.game.spawn(8, (9, 3));
    disk.fail(full(Call::Write));
    session.stream.remove_ticket((0, 0));
    session.until(|session| session.stream.status().is_failing);
    disk.heal();
    // A save that is waited for does not wait for the next try.
    let before = session.stream.world().info().generation;
    let saved = session.stream.save(&mut session.game);
    session.until(|_| saved.is_complete());
    assert_eq!(saved.result().unwrap().unwrap().generation, before + 1, "one edit has both");
    assert_eq!(creatures_in(session.stream.world(), (0, 0)), [(7, (3, 3))]);
    assert_eq!(creatures_in(session.stream.world(), (1, 0)), [(8, (9, 3))]);
    session.settle();
    assert!(!session.stream.status().is_failing && session.stream.last_error().is_none());
}

#[test]
fn moments_fail_together_and_a_later_one_never_comes_before_an_earlier_one() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    // A save of cells asks the generator, so it stands still while the gate is closed.
    let gate = Arc::new(Mutex::new(()));
    let generator = {
        let gate = gate.clone();
        move |_: &WorldShape<'_>, _, cells: &mut [u8]| {
            drop(gate.lock().unwrap());
            cells.fill(1);
        }
    };
    let world = options().generator(generator).open_on(disk.clone(), "world.save", Access::Write).unwrap();
    let mut session = Session::new(world);
    session.stream.add_ticket((0, 0));
    session.settle();
    session.game.spawn(7, (0, 0));
    let closed = gate.lock().unwrap();
    // The first write of all three fails, and none after it.
    disk.fail(Plan { repeat: Repeat::Once, ..full(Call::Write) });
    let moments: Vec<_> = (0..3)
        .map(|x| {
            session.game.walk(&mut session.stream, 7, (x, 0));
            session.game.dig((x, 0), 90);
            session.stream.pin(&mut session.game, format!("pin {x}"), [])
        })
        .collect();
    assert!(moments.iter().all(|moment| moment.result().is_none()));
    drop(closed);
    session.until(|_| moments.iter().all(Handle::is_complete));
    assert!(moments.iter().all(|moment| moment.result().unwrap().is_err()));
    session.settle();
    assert!(session.stream.world().pins().is_empty(), "their moments are over");
    assert_eq!(creatures_in(session.stream.world(), (0, 0)), [(7, (2, 0))]);
    assert_eq!(session.stream.world().read((0, 0)).unwrap().unwrap()[..4], [90, 90, 90, 1]);
    let failed = session.game.events.iter().filter(|event| matches!(event, StreamEvent::SaveFailed(_)));
    assert_eq!(failed.count(), 1, "one failure, and not three");
}

#[test]
fn moments_under_way_are_apart() {
    let disk = MemoryDisk::new();
    let mut session = with_tickets(&disk, &[(0, 0)]);
    session.game.spawn(7, (0, 0));
    for x in 0..4 {
        session.game.walk(&mut session.stream, 7, (x, 0));
        session.stream.pin(&mut session.game, format!("pin {x}"), [x as u8]);
    }
    session.settle();
    for x in 0..4 {
        let then = session.stream.world().at(&format!("pin {x}")).unwrap();
        assert_eq!(creatures_in(&then, (0, 0)), [(7, (x, 0))]);
    }
}

#[test]
fn a_full_queue_of_saves_loses_nothing() {
    let disk = MemoryDisk::new();
    let worker = ChunkWorker::options().saves_max(1).start(open(&disk).unwrap());
    let mut session = Session::with(worker);
    session.stream.add_ticket((0, 0));
    session.settle();
    session.game.spawn(7, (0, 0));
    let mut done = 0;
    for round in 0..30 {
        session.game.walk(&mut session.stream, 7, (round % 8, 0));
        let pinned = session.stream.pin(&mut session.game, format!("pin {round}"), []);
        match pinned.result() {
            Some(Err(error)) => assert!(error.is_limit(), "{error}"),
            _ => done += 1,
        }
    }
    session.settle();
    assert_eq!(session.stream.world().pins().len(), done);
    assert!(done > 0);
    assert_eq!(creatures_in(session.stream.world(), (0, 0)), [(7, (5, 0))]);
}

#[test]
fn a_full_queue_of_loads_fails_no_chunk() {
    let disk = MemoryDisk::new();
    let worker = ChunkWorker::options().reading_threads(1).loads_max(1).start(open(&disk).unwrap());
    let mut session = Session::with(worker);
    session.stream.set_focus(1, Focus::new((0, 0), 5));
    session.frame();
    // All that was accepted is done before the next frame looks.
    std::thread::sleep(Duration::from_millis(30));
    session.settle();
    assert_eq!((session.stream.status().active, session.stream.status().failed), (121, 0));
}

#[test]
fn after_a_sync_that_failed_everything_is_saved_in_the_file_that_was_opened_again() {
    for waits in [false, true] {
        let disk = FaultyDisk::new(MemoryDisk::new());
        let mut session = with_tickets(&disk, &[(0, 0), (1, 0), (2, 0)]);
        for (id, x) in [(7, 3), (8, 9), (9, 17)] {
            session.game.spawn(id, (x, 3));
        }
        disk.fail(Plan { fault: Fault::Io, repeat: Repeat::Once, ..full(Call::Sync) });
        session.stream.remove_ticket((0, 0));
        if waits {
            session.until(|session| session.stream.status().is_failing);
            assert!(session.stream.last_error().unwrap().is_io());
        } else {
            // The outcome is not known when the file is opened again.
            session.frame();
            session.frame();
        }
        session.stream.remove_ticket((1, 0));
        session.frame();
        session.frame();
        reopen(&mut session, &disk);
        let saved = session.stream.save(&mut session.game);
        session.settle();
        assert!(saved.result().unwrap().is_ok() || !waits);
        let all = [(0, 0), (1, 0), (2, 0)].map(|pos| creatures_in(session.stream.world(), pos));
        assert_eq!(all, [vec![(7, (3, 3))], vec![(8, (9, 3))], vec![(9, (17, 3))]]);
    }
}

#[test]
fn a_stream_that_is_dropped_saves_what_has_failed_before() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_tickets(&disk, &[(0, 0), (1, 0)]);
    session.game.spawn(7, (0, 0));
    session.game.spawn(8, (8, 0));
    disk.fail(Plan { repeat: Repeat::Once, ..full(Call::Write) });
    session.stream.remove_ticket((0, 0));
    session.frame();
    session.frame();
    // The outcome is there, and the stream does not know it.
    while !session.stream.worker().is_idle() {
        std::thread::yield_now();
    }
    let worker = session.stream.worker().clone();
    drop(session.stream);
    assert!(worker.finish(Duration::from_secs(20)));
    assert_eq!(disk.fired().len(), 1);
    assert_eq!(creatures_in(worker.world(), (0, 0)), [(7, (0, 0))]);
    assert_eq!(creatures_in(worker.world(), (1, 0)), [], "what is in the world is the game's to save");
}

#[test]
fn a_stream_that_is_dropped_waits_for_room_in_a_full_queue() {
    for _ in 0..20 {
        let worker = ChunkWorker::options().saves_max(1).start(open(&MemoryDisk::new()).unwrap());
        let mut session = Session::with(worker);
        (0..6).for_each(|x| session.stream.add_ticket((x, 0)));
        session.settle();
        (0..6).for_each(|x| session.game.spawn(x as u64, (x * 8, 0)));
        for x in 0..6 {
            session.stream.remove_ticket((x, 0));
            session.frame();
            session.stream.save(&mut session.game);
        }
        session.frame();
        let worker = session.stream.worker().clone();
        drop(session.stream);
        assert!(worker.finish(Duration::from_secs(20)));
        let world = worker.world();
        (0..6).for_each(|x| assert_eq!(creatures_in(world, (x, 0)), [(x as u64, (x * 8, 0))], "chunk {x}"));
    }
}

#[test]
fn while_too_much_is_not_durable_nothing_leaves() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = Session::start(&disk);
    session.stream = session.stream_with(|options| options.unsaved_bytes_max = 100);
    (0..8).for_each(|x| session.stream.add_ticket((x, 0)));
    session.settle();
    (0..8).for_each(|x| session.game.spawn(x as u64, (x * 8, 0)));
    (0..8).for_each(|x| session.game.dig((x * 8, 1), 200 + x as u8));
    disk.fail(full(Call::Write));
    (0..8).for_each(|x| _ = session.stream.remove_ticket((x, 0)));
    session.until(|session| session.stream.status().is_failing);
    (0..20).for_each(|_| session.frame());
    let status = session.stream.status();
    assert_eq!((status.saving, status.active, status.leaving), (2, 6, 6), "64 bytes are not more than 100");
    assert!(status.saving_bytes >= 100);
    assert_eq!(session.game.creatures().len(), 6);
    disk.heal();
    session.settle();
    assert_eq!((session.stream.status().active, session.stream.status().saving_bytes), (0, 0));
    for x in 0..8 {
        assert_eq!(creatures_in(session.stream.world(), (x, 0)), [(x as u64, (x * 8, 0))]);
        assert_eq!(session.stream.world().read((x, 0)).unwrap().unwrap()[8], 200 + x as u8);
    }
}

#[test]
fn a_retry_waits_longer_each_time() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_tickets(&disk, &[(0, 0)]);
    session.game.spawn(7, (3, 3));
    disk.fail(full(Call::Write));
    session.stream.remove_ticket((0, 0));
    session.until(|session| session.stream.status().is_failing);
    let (begin, tries) = (Instant::now(), disk.fired().len());
    while begin.elapsed() < Duration::from_millis(300) {
        session.frame();
    }
    assert_eq!(disk.fired().len(), tries, "a full disk is not asked in each frame");
    disk.heal();
    session.settle();
    let read = session.stream.worker().read_entities((0, 0), Priority::High);
    assert!(read.wait().unwrap().is_some());
    assert_eq!(session.stream.phase(ChunkPos::new(0, 0)), None);
}
