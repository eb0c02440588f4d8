//! The order in which chunks come, and their number in a frame.

mod stream_support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bonfire_chunks::stream::{ChunkPhase, Focus};
use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkRect, ChunkWorker, Dimension, WorldShape};
use bonfire_store::disk::{Access, MemoryDisk};
use bonfire_testkit::disk::{Call, Fault, FaultyDisk, Plan, Repeat};
use stream_support::{SIZE, Session, creatures_in, layers, options};

/// The chunks that the generator was asked for, in order.
type Asked = Arc<Mutex<Vec<ChunkPos>>>;

/// A session with one thread that reads and one load at a time.
fn one_by_one(set: impl FnOnce(ChunkOptions) -> ChunkOptions) -> (Session, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let generator = move |_: &WorldShape<'_>, pos, cells: &mut [u8]| {
        noted.lock().unwrap().push(pos);
        cells.fill(1);
    };
    let options = set(options().generator(generator));
    let world = options.open_on(MemoryDisk::new(), "world.save", Access::Write).unwrap();
    let mut session = Session::with(ChunkWorker::options().reading_threads(1).start(world));
    session.stream = session.stream_with(|options| options.loads_in_flight = 1);
    (session, asked)
}

fn asked(asked: &Asked) -> Vec<ChunkPos> {
    std::mem::take(&mut asked.lock().unwrap())
}

#[test]
fn the_nearest_chunks_come_first_then_those_farther_away_then_those_ahead() {
    let (mut session, noted) = one_by_one(|options| options);
    session.stream.set_focus(1, Focus::new((0, 0), 2).ahead([4, 0, 0]));
    session.settle();
    let order = asked(&noted);
    assert_eq!(order.len(), 45);
    assert_eq!(order[0], (0, 0).into());
    let distance = |pos: &ChunkPos| pos.x * pos.x + pos.y * pos.y;
    assert!(order[..25].is_sorted_by_key(distance), "{order:?}");
    assert!(order[..25].iter().all(|pos| pos.x <= 2) && order[25..].iter().all(|pos| pos.x > 2));
    assert!(order[25..].is_sorted_by_key(distance));
}

#[test]
fn the_focus_with_the_larger_number_comes_first() {
    let (mut session, noted) = one_by_one(|options| options);
    session.stream.set_focus(1, Focus::new((0, 0), 1));
    session.stream.set_focus(2, Focus::new((20, 0), 1).priority(1));
    session.settle();
    let order = asked(&noted);
    assert!(order[..9].iter().all(|pos| pos.x > 10) && order[9..].iter().all(|pos| pos.x < 10));
}

#[test]
fn who_turns_around_gets_the_chunks_there_before_those_that_wait() {
    let (mut session, noted) = one_by_one(|options| options);
    session.stream.set_focus(1, Focus::new((0, 0), 3));
    session.frame();
    session.stream.set_focus(1, Focus::new((40, 0), 1));
    session.settle();
    let order = asked(&noted);
    let before = order.iter().filter(|pos| pos.x < 10).count();
    assert!(before <= 2, "one or two were under way: {order:?}");
    assert_eq!((order.len() - before, session.stream.status().active), (9, 9));
    assert!(session.stream.phases().all(|(pos, _)| pos.x > 10));
}

#[test]
fn a_frame_without_time_does_one_chunk_and_one_with_time_does_more() {
    let (mut session, _) = one_by_one(|options| options);
    session.stream = session.stream_with(|options| options.loads_in_flight = 100);
    session.stream.set_focus(1, Focus::new((0, 0), 2));
    // All are read and none is active.
    let vote = session.stream.add_vote("mesh").unwrap();
    session.until(|session| session.stream.status().staged == 25);
    let all: Vec<ChunkPos> = session.stream.phases().map(|(pos, _)| pos).collect();
    all.iter().for_each(|pos| assert!(session.stream.agree(*pos, vote)));
    for frame in 1..=5 {
        session.stream.update(&mut session.game, Duration::ZERO).unwrap();
        assert_eq!(session.stream.status().active, frame, "one in each frame, however short");
    }
    assert!(session.stream.is_active((0, 0)) && session.stream.is_active((-1, 0)), "the nearest first");
    // Each takes 3 ms of 10.
    session.game.slow = Duration::from_millis(3);
    session.stream.update(&mut session.game, Duration::from_millis(10)).unwrap();
    let done = session.stream.status().active - 5;
    assert!((1..=4).contains(&done), "{done}");
    session.stream.set_focus(1, None);
    session.stream.update(&mut session.game, Duration::ZERO).unwrap();
    assert_eq!((session.stream.status().active, session.stream.status().leaving), (5 + done - 1, 4 + done));
}

#[test]
fn sixty_four_may_vote() {
    let (mut session, _) = one_by_one(|options| options);
    let votes: Vec<_> = (0..64).map(|n| session.stream.add_vote(n.to_string()).unwrap()).collect();
    assert!(session.stream.add_vote("one more").unwrap_err().is_misuse());
    assert_eq!(session.stream.add_vote("63").unwrap(), votes[63]);
    session.stream.add_ticket((0, 0));
    session.until(|session| session.stream.phase((0, 0)) == Some(ChunkPhase::Staged));
    for vote in &votes {
        session.frame();
        assert!(!session.stream.is_active((0, 0)));
        assert!(session.stream.agree((0, 0), *vote));
    }
    session.frame();
    assert!(session.stream.is_active((0, 0)));
}

#[test]
fn a_chunk_that_has_failed_is_loaded_again_when_it_is_asked_for() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = Session::start(&disk);
    session.stream.add_ticket((0, 0));
    session.settle();
    session.game.dig((1, 1), 80);
    session.stream.remove_ticket((0, 0));
    session.settle();
    disk.fail(Plan { fault: Fault::Io, nth: 1, of: Some(Call::Read), repeat: Repeat::Forever });
    session.stream.add_ticket((0, 0));
    session.settle();
    assert!(session.stream.failure((0, 0)).unwrap().is_io());
    session.stream.retry((5, 5));
    disk.heal();
    (0..10).for_each(|_| session.frame());
    assert_eq!((session.stream.status().failed, session.stream.status().active), (1, 0), "not by itself");
    session.stream.retry((0, 0));
    session.settle();
    assert_eq!((session.stream.status().failed, session.stream.status().active), (0, 1));
    assert_eq!(session.game.live_cells().next().unwrap().1[9], 80);
}

#[test]
fn who_walks_to_the_edge_of_what_is_kept_enters_and_stays() {
    let mut session = Session::start(&MemoryDisk::new());
    session.stream.set_focus(1, Focus::new((0, 0), 1).unload_reach(3));
    session.settle();
    session.game.spawn(7, (1, 1));
    // This chunk is not loaded, but would be kept.
    session.game.walk(&mut session.stream, 7, (2 * SIZE, 1));
    session.settle();
    assert_eq!(session.game.home(7), Some((2, 0).into()));
    assert!(session.stream.is_active((2, 0)));
    session.stream.set_focus(1, None);
    session.settle();
    assert_eq!(session.stream.status().active, 0, "the visit is over");
    assert_eq!(creatures_in(session.stream.world(), (2, 0)), [(7, (2 * SIZE, 1))]);
}

#[test]
fn a_player_who_follows_a_creature_into_a_chunk_does_not_keep_it_forever() {
    let mut session = Session::start(&MemoryDisk::new());
    session.stream.set_focus(1, Focus::new((0, 0), 1).unload_reach(2));
    session.settle();
    session.game.spawn(7, (1, 1));
    session.game.walk(&mut session.stream, 7, (5 * SIZE, 1));
    session.stream.set_focus(2, Focus::new((5, 0), 1));
    session.settle();
    assert_eq!(session.game.home(7), Some((5, 0).into()));
    session.stream.set_focus(2, None);
    session.settle();
    assert!(!session.stream.is_active((5, 0)));
}

#[test]
fn while_saving_is_disabled_a_visit_writes_nothing() {
    let mut session = Session::start(&MemoryDisk::new());
    session.stream.add_ticket((0, 0));
    session.settle();
    session.game.spawn(7, (1, 1));
    session.stream.disable();
    let before = session.stream.world().info().generation;
    session.game.walk(&mut session.stream, 7, (5 * SIZE, 1));
    session.until(|session| session.stream.is_active((5, 0)));
    (0..10).for_each(|_| session.frame());
    assert_eq!(session.game.home(7), Some((5, 0).into()));
    assert_eq!(session.stream.world().info().generation, before);
    session.stream.enable();
    session.settle();
    assert!(!session.stream.is_active((5, 0)));
    assert_eq!(creatures_in(session.stream.world(), (5, 0)), [(7, (5 * SIZE, 1))]);
}

#[test]
fn dimensions_and_cubes_stream_side_by_side() {
    let cubes = Dimension::new(layers()).chunk_size(4).tile_size(1).three_dimensional();
    let (mut session, _) = one_by_one(|options| options.dimension(1, cubes));
    let deep = |x, y, z| ChunkPos { x, y, z, dimension: 1 };
    session.stream.set_focus(1, Focus::new((0, 0), 1));
    session.stream.set_focus(2, Focus::new(deep(0, 0, 0), 1));
    session.stream.set_focus(3, Focus::new(deep(0, 0, 0).in_dimension(9), 1));
    session.settle();
    assert_eq!(session.stream.status().active, 9 + 27, "a world has no dimension 9");
    assert!(session.stream.is_ready(ChunkRect::new(deep(-1, -1, -1), deep(1, 1, 1))));
    session.game.spawn_in(7, deep(0, 0, 1));
    session.game.spawn_in(8, (0, 0).into());
    session.stream.pin(&mut session.game, "both", []);
    session.settle();
    session.game.kill(7);
    session.game.kill(8);
    session.stream.set_focus(2, Focus::new(deep(0, 0, 3), 1).unload_reach(0));
    session.settle();
    assert!(session.stream.is_active(deep(0, 0, 4)) && session.stream.phase(deep(0, 0, 0)).is_none());
    session.stream.set_focus(2, Focus::new(deep(0, 0, 0), 1));
    session.stream.return_to(&mut session.game, "both").unwrap();
    session.settle();
    assert_eq!((session.game.home(7), session.game.home(8)), (Some(deep(0, 0, 1)), Some((0, 0).into())));
}

#[test]
fn a_ticket_is_taken_back_as_often_as_it_was_given() {
    let mut session = Session::start(&MemoryDisk::new());
    (0..2).for_each(|_| session.stream.add_ticket((3, 3)));
    assert_eq!(session.stream.tickets().collect::<Vec<_>>(), [((3, 3).into(), 2)]);
    session.settle();
    assert!(session.stream.remove_ticket((3, 3)));
    session.settle();
    assert!(session.stream.is_active((3, 3)));
    assert!(session.stream.remove_ticket((3, 3)) && !session.stream.remove_ticket((3, 3)));
    session.settle();
    assert!(session.stream.phase((3, 3)).is_none());
}
