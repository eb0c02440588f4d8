//! The world returns to a moment as a whole, or stays where it is.

mod stream_support;

use std::time::{Duration, Instant};

use bonfire_chunks::stream::{ChangeReason, ChunkPhase, StreamEvent};
use bonfire_chunks::{ChunkPos, ChunkRect};
use bonfire_store::disk::{Disk, MemoryDisk};
use bonfire_testkit::disk::{Call, Fault, FaultyDisk, Plan, Repeat};
use stream_support::{Session, creatures_in, open};

fn with_pin(disk: &(impl Disk + Clone + 'static)) -> Session {
    let mut session = Session::start(disk);
    (0..2).for_each(|x| session.stream.add_ticket((x, 0)));
    session.settle();
    session.game.spawn(7, (3, 3));
    session.stream.pin(&mut session.game, "first", []);
    session.settle();
    session.game.walk(&mut session.stream, 7, (11, 3));
    session
}

fn let_time_pass(session: &mut Session, time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        session.frame();
    }
}

#[test]
fn while_the_world_returns_nothing_of_the_moment_before_is_saved() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_pin(&disk);
    // An edit that has failed waits for its next try.
    disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Once });
    session.stream.save(&mut session.game);
    session.until(|session| session.stream.status().is_failing);
    let started = session.stream.begin_return().unwrap();
    assert!(session.stream.begin_return().unwrap_err().is_conflict());
    assert!(session.stream.save(&mut session.game).wait().unwrap_err().is_conflict());
    let returned = started.run("first").unwrap();
    let_time_pass(&mut session, Duration::from_millis(700));
    let world = session.stream.world();
    assert_eq!(creatures_in(world, (0, 0)), [(7, (3, 3))]);
    assert_eq!(creatures_in(world, (1, 0)), []);
    assert_eq!(session.game.home(7), Some((1, 0).into()), "the game is where it was");
    session.stream.finish_return(&mut session.game);
    returned.keep().unwrap();
    session.settle();
    assert_eq!(session.game.creatures()[&7], (3, 3));
    assert_eq!(session.stream.world().pins().len(), 1);
}

#[test]
fn a_return_that_is_undone_loses_nothing() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_pin(&disk);
    disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Once });
    session.stream.remove_ticket((1, 0));
    session.until(|session| session.stream.status().is_failing);
    assert_eq!(session.game.home(7), None);
    let returned = session.stream.begin_return().unwrap().run("first").unwrap();
    session.frame();
    returned.undo().unwrap();
    session.stream.undo_return();
    session.settle();
    assert_eq!(creatures_in(session.stream.world(), (0, 0)), []);
    assert_eq!(creatures_in(session.stream.world(), (1, 0)), [(7, (11, 3))]);
    assert_eq!(session.stream.world().pins().len(), 1);
}

#[test]
fn a_save_that_is_durable_when_the_return_is_over_was_made() {
    let mut session = with_pin(&MemoryDisk::new());
    let saved = session.stream.pin(&mut session.game, "second", []);
    session.stream.return_to(&mut session.game, "first").unwrap();
    assert!(saved.result().unwrap().is_ok());
    session.stream.return_to(&mut session.game, "second").unwrap();
    session.settle();
    assert_eq!(session.game.creatures()[&7], (11, 3));
}

#[test]
fn a_return_that_fails_leaves_the_game_and_the_file_as_they_were() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_pin(&disk);
    session.stream.save(&mut session.game);
    session.settle();
    let mut failures = 0;
    for nth in 1..10 {
        disk.fail(Plan { fault: Fault::Full, nth, of: Some(Call::Write), repeat: Repeat::Once });
        let result = session.stream.return_to(&mut session.game, "first");
        disk.heal();
        session.settle();
        let home = if result.is_ok() { 0 } else { 1 };
        assert_eq!(session.game.home(7), Some((home, 0).into()), "write {nth}: {result:?}");
        assert_eq!(creatures_in(session.stream.world(), (home, 0)).len(), 1);
        assert_eq!(creatures_in(session.stream.world(), (1 - home, 0)).len(), 0);
        failures += usize::from(result.is_err());
        if result.is_ok() {
            session.game.walk(&mut session.stream, 7, (11, 3));
            session.stream.save(&mut session.game);
            session.settle();
        }
    }
    assert!(failures > 1, "{failures}");
}

#[test]
fn a_window_that_is_emptied_says_so_and_loads_that_are_under_way_bring_nothing() {
    let mut session = with_pin(&MemoryDisk::new());
    (10..40).for_each(|x| session.stream.add_ticket((x, 0)));
    session.stream.update(&mut session.game, Duration::ZERO).unwrap();
    assert!(session.stream.status().loading > 0);
    session.game.events.clear();
    session.stream.return_to(&mut session.game, "first").unwrap();
    let resets = session.game.events.iter().filter(
        |event| matches!(event, StreamEvent::Phase(change) if matches!(change.reason, ChangeReason::Reset)),
    );
    assert_eq!(resets.count(), 32);
    assert!(session.game.creatures().is_empty() && session.stream.phases().next().is_none());
    session.settle();
    assert_eq!((session.stream.status().active, session.game.home(7)), (32, Some((0, 0).into())));
}

#[test]
fn what_an_interrupted_return_has_left_is_forgotten() {
    let disk = MemoryDisk::new();
    let mut session = with_pin(&disk);
    let returned = session.stream.begin_return().unwrap().run("first").unwrap();
    // The program ends here.
    drop((session, returned));
    let world = open(&disk).unwrap();
    assert_eq!(creatures_in(&world, (0, 0)), [(7, (3, 3))]);
    assert_eq!(world.pins().len(), 2);
    let pins = bonfire_chunks::stream::SlotPins::new(world.clone());
    assert!(pins.forget_interrupted_return().unwrap() && !pins.forget_interrupted_return().unwrap());
    assert_eq!(world.pins().into_iter().map(|pin| pin.name).collect::<Vec<_>>(), ["first"]);
}

#[test]
fn a_new_beginning_waits_for_saves_and_forgets_those_that_come_after() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_pin(&disk);
    session.game.populate = true;
    session.game.dig((1, 1), 50);
    disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Once });
    let saved = session.stream.save(&mut session.game);
    session.until(|session| session.stream.status().is_failing);
    assert!(saved.result().unwrap().is_err());
    session.stream.start_over(&mut session.game).unwrap();
    let_time_pass(&mut session, Duration::from_millis(700));
    let world = session.stream.world();
    assert!(world.is_empty() && world.chunks_with_entities(ChunkRect::ALL).is_empty());
    assert!(!session.stream.status().is_failing);
    assert_eq!(session.game.creatures().len(), 2, "each chunk is populated again");
    let then = world.at("first").unwrap();
    assert_eq!(creatures_in(&then, ChunkPos::new(0, 0)), [(7, (3, 3))]);
}

#[test]
fn chunks_that_are_being_saved_are_let_go_of_when_the_world_has_returned() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = with_pin(&disk);
    disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Once });
    session.stream.remove_ticket((1, 0));
    session.until(|session| session.stream.phase((1, 0)) == Some(ChunkPhase::Saving));
    session.until(|session| session.stream.status().is_failing);
    session.stream.return_to(&mut session.game, "first").unwrap();
    session.settle();
    assert_eq!(session.stream.phase((1, 0)), None);
    assert_eq!(session.game.seen[&(1, 0).into()].last(), Some(&None), "the game is told");
    assert_eq!(session.game.creatures()[&7], (3, 3));
}
