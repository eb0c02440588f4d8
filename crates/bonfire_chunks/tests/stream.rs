//! Chunks with their creatures come and go around the players, and nothing is ever in two chunks or in none.

mod stream_support;

use bonfire_chunks::stream::{ChangeReason, ChunkPhase, Focus, StreamEvent};
use bonfire_chunks::{ChunkPos, ChunkRect, Durability};
use bonfire_store::disk::MemoryDisk;
use bonfire_testkit::disk::{Call, CrashDisk, Fault, FaultyDisk, Plan, Repeat};
use stream_support::{SIZE, Session, open};

fn focus(x: i32, y: i32) -> Focus {
    Focus::new((x, y), 1).unload_reach(2)
}

#[test]
fn creatures_leave_with_their_chunk_and_come_back_with_it() {
    let disk = MemoryDisk::new();
    let mut session = Session::start(&disk);
    session.stream.set_focus(1, focus(0, 0));
    session.settle();
    assert_eq!(session.stream.status().active, 9);
    session.game.spawn(7, (3, 4));
    session.game.dig((3, 3), 200);
    session.stream.set_focus(1, focus(10, 0));
    session.settle();
    assert_eq!((session.game.home(7), session.stream.status().active), (None, 9));
    session.stream.set_focus(1, focus(1, 0));
    session.settle();
    assert_eq!(session.game.home(7), Some((0, 0).into()));
    drop(session);
    let world = open(&disk).unwrap();
    assert_eq!(world.chunks_with_entities(ChunkRect::ALL), [ChunkPos::new(0, 0)]);
    assert_eq!(world.iter().collect::<Vec<_>>(), [ChunkPos::new(0, 0)]);
}

#[test]
fn the_life_of_a_chunk_is_told_step_by_step() {
    let mut session = Session::start(&MemoryDisk::new());
    session.stream.set_focus(1, focus(0, 0));
    session.settle();
    session.game.spawn(1, (0, 0));
    session.stream.set_focus(1, None);
    session.settle();
    use ChunkPhase::{Active, Loading, Queued, Saving, Staged};
    let life = [Some(Queued), Some(Loading), Some(Staged), Some(Active)];
    assert_eq!(session.game.seen[&(0, 0).into()], [&life[..], &[Some(Saving), None]].concat());
    assert_eq!(session.game.seen[&(1, 0).into()], [&life[..], &[None]].concat(), "nothing was to be saved");
    let reasons: Vec<String> = session.game.events.iter().filter_map(reason_at_origin).collect();
    assert_eq!(reasons, ["Wanted", "Ready", "Ready", "Ready", "Left", "Saved"]);
}

fn reason_at_origin(event: &StreamEvent) -> Option<String> {
    match event {
        StreamEvent::Phase(change) if change.pos == (0, 0).into() => Some(format!("{:?}", change.reason)),
        _ => None,
    }
}

#[test]
fn a_chunk_waits_for_every_vote() {
    let mut session = Session::start(&MemoryDisk::new());
    let collision = session.stream.add_vote("collision").unwrap();
    let mesh = session.stream.add_vote("mesh").unwrap();
    assert_eq!(session.stream.add_vote("mesh").unwrap(), mesh);
    session.stream.add_ticket((5, 5));
    session.until(|session| session.stream.phase((5, 5)) == Some(ChunkPhase::Staged));
    assert!(session.stream.agree((5, 5), mesh) && !session.stream.agree((6, 5), mesh));
    (0..20).for_each(|_| session.frame());
    assert_eq!(session.stream.phase((5, 5)), Some(ChunkPhase::Staged));
    assert!(session.stream.agree((5, 5), collision));
    session.frame();
    assert!(session.stream.is_ready(ChunkRect::new((5, 5), (5, 5))));
}

#[test]
fn both_chunks_of_a_move_are_in_one_save() {
    let disk = MemoryDisk::new();
    let mut session = Session::start(&disk);
    session.stream.set_focus(1, focus(0, 0));
    session.settle();
    session.game.spawn(7, (1, 1));
    session.stream.save(&mut session.game);
    session.settle();
    let before = session.stream.world().info().generation;
    session.game.walk(&mut session.stream, 7, (-1, 1));
    // The chunk on the left leaves alone. The one that the creature came from stays, and is saved with it.
    session.stream.set_focus(1, focus(2, 0));
    session.settle();
    assert!(session.stream.is_active((0, 0)) && !session.stream.is_active((-1, 0)));
    assert_eq!(session.stream.world().info().generation, before + 1, "one edit");
    let world = session.stream.world();
    let read = |pos| {
        let bytes = world.read_entities(pos).unwrap().unwrap();
        stream_support::decode(&bonfire::Snapshot::open(&bytes).unwrap()).unwrap()
    };
    assert_eq!((read((0, 0)), read((-1, 0))), (vec![], vec![(7, (-1, 1))]));
}

#[test]
fn a_creature_that_leaves_the_window_is_saved_in_the_chunk_that_it_walks_into() {
    let disk = MemoryDisk::new();
    let mut session = Session::start(&disk);
    session.game.populate = true;
    session.stream.set_focus(1, focus(0, 0));
    session.settle();
    session.game.spawn(7, (1, 1));
    session.game.walk(&mut session.stream, 7, (5 * SIZE, 1));
    assert_eq!(session.game.home(7), Some((0, 0).into()), "until the other chunk is there");
    session.settle();
    assert_eq!((session.game.home(7), session.stream.phase((5, 0))), (None, None));
    session.stream.set_focus(1, focus(5, 0));
    session.settle();
    assert_eq!(session.game.home(7), Some((5, 0).into()));
    assert_eq!(session.game.creatures().len(), 10, "it was populated once");
}

#[test]
fn generated_creatures_come_once_and_removed_ones_stay_removed() {
    let disk = MemoryDisk::new();
    for round in 0..3 {
        let mut session = Session::start(&disk);
        session.game.populate = true;
        session.stream.add_ticket((2, 2));
        session.settle();
        let all: Vec<u64> = session.game.creatures().into_keys().collect();
        assert_eq!(all.len(), usize::from(round == 0));
        all.into_iter().for_each(|id| session.game.kill(id));
        session.stream.remove_ticket((2, 2));
        session.settle();
    }
}

#[test]
fn a_chunk_that_turns_back_comes_from_memory() {
    let disk = FaultyDisk::new(MemoryDisk::new());
    let mut session = Session::start(&disk);
    session.stream.add_ticket((0, 0));
    session.settle();
    session.game.spawn(7, (3, 3));
    session.game.dig((1, 1), 99);
    disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Forever });
    session.stream.remove_ticket((0, 0));
    session.until(|session| session.stream.status().is_failing);
    assert_eq!((session.game.home(7), session.stream.phase((0, 0))), (None, Some(ChunkPhase::Saving)));
    assert!(session.stream.last_error().unwrap().is_io());
    session.stream.add_ticket((0, 0));
    session.until(|session| session.stream.is_active((0, 0)));
    assert_eq!(session.game.home(7), Some((0, 0).into()));
    assert_eq!(session.game.live_cells().next().unwrap().1[9], 99);
    session.game.kill(7);
    session.stream.remove_ticket((0, 0));
    disk.heal();
    session.settle();
    session.stream.add_ticket((0, 0));
    session.settle();
    assert_eq!(session.game.creatures().len(), 0);
}

#[test]
fn a_damaged_chunk_fails_and_the_others_go_on() {
    let disk = CrashDisk::new();
    let world = open(&disk).unwrap();
    let cells: Vec<u8> = (0..SIZE * SIZE).map(|cell| (cell * cell * 37 % 251) as u8).collect();
    world.edit().put((0, 0), cells.clone()).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    drop(world);
    let (name, mut bytes) = disk.files().into_iter().find(|(name, _)| name == "world.save").unwrap();
    let at = bytes.windows(8).position(|window| *window == cells[..8]).unwrap();
    bytes[at] ^= 1;
    let disk = MemoryDisk::with_files([(name, bytes)]);
    let mut session = Session::start(&disk);
    session.stream.set_focus(1, focus(0, 0));
    session.settle();
    assert_eq!((session.stream.status().active, session.stream.status().failed), (8, 1));
    assert!(session.stream.failure((0, 0)).unwrap().is_corrupt());
    let told = session.game.events.iter().any(|event| {
        matches!(event, StreamEvent::Phase(change) if matches!(change.reason, ChangeReason::Error(_)))
    });
    assert!(told && !session.stream.is_ready(ChunkRect::around((0, 0), 1)));
    session.stream.set_focus(1, None);
    session.settle();
    assert!(session.stream.world().read((0, 0)).is_err(), "nothing was put in its place");
}

#[test]
fn what_cannot_be_captured_stays() {
    let mut session = Session::start(&MemoryDisk::new());
    session.stream.add_ticket((0, 0));
    session.settle();
    session.game.spawn(7, (3, 3));
    session.game.refuses_captures = true;
    session.stream.remove_ticket((0, 0));
    (0..10).for_each(|_| session.frame());
    assert!(session.stream.is_active((0, 0)) && session.game.home(7).is_some());
    let failed = |event: &&StreamEvent| matches!(event, StreamEvent::CaptureFailed(..));
    assert_eq!(session.game.events.iter().filter(failed).count(), 1, "it is said once");
    assert!(session.stream.save(&mut session.game).wait().is_err());
    session.game.refuses_captures = false;
    session.stream.set_focus(1, focus(9, 9));
    session.settle();
    assert!(!session.stream.is_active((0, 0)) && session.game.home(7).is_none());
}

#[test]
fn while_it_is_disabled_nothing_is_written_and_nothing_is_lost() {
    let disk = MemoryDisk::new();
    let mut session = Session::start(&disk);
    session.stream.set_focus(1, focus(0, 0));
    session.settle();
    session.game.spawn(7, (3, 3));
    session.stream.disable();
    session.stream.set_focus(1, focus(20, 0));
    session.until(|session| session.stream.status().active == 10 && session.stream.status().queued == 0);
    assert_eq!(session.game.home(7), Some((0, 0).into()));
    assert!(session.stream.save(&mut session.game).wait().unwrap_err().is_misuse());
    session.stream.enable();
    session.settle();
    assert_eq!((session.game.home(7), session.stream.status().active), (None, 9));
    session.stream.pause();
    session.stream.set_focus(1, None);
    (0..10).for_each(|_| session.frame());
    assert_eq!(session.stream.status().active, 9);
    session.stream.resume();
    session.settle();
    assert_eq!(session.stream.status().active, 0);
}

#[test]
fn a_moment_is_pinned_and_the_window_returns_to_it() {
    let disk = MemoryDisk::new();
    let mut session = Session::start(&disk);
    session.stream.set_focus(1, focus(0, 0));
    session.settle();
    session.game.spawn(7, (3, 3));
    session.game.dig((3, 3), 77);
    let pinned = session.stream.pin(&mut session.game, "first", []);
    session.game.walk(&mut session.stream, 7, (9, 3));
    session.game.dig((3, 3), 78);
    session.settle();
    assert!(pinned.result().unwrap().is_ok());
    session.stream.set_focus(1, focus(30, 30));
    session.settle();
    session.stream.set_focus(1, focus(0, 0));
    session.settle();
    assert_eq!(session.game.creatures()[&7], (9, 3));
    session.stream.return_to(&mut session.game, "first").unwrap();
    session.settle();
    assert_eq!((session.game.creatures()[&7], session.game.home(7)), ((3, 3), Some((0, 0).into())));
    let cells = session.game.live_cells().find(|(pos, _)| *pos == (0, 0).into()).unwrap().1;
    assert_eq!(cells[(3 * SIZE + 3) as usize], 77);
    assert!(session.stream.return_to(&mut session.game, "second").unwrap_err().is_not_found());
    assert_eq!(session.game.home(7), Some((0, 0).into()), "the game goes on where it was");
    assert_eq!(session.stream.world().pins().len(), 1);
    session.stream.start_over(&mut session.game).unwrap();
    session.settle();
    assert!(session.game.creatures().is_empty() && session.stream.world().is_empty());
    session.stream.return_to(&mut session.game, "first").unwrap();
    session.settle();
    assert_eq!(session.game.creatures()[&7], (3, 3), "pins outlive a new beginning");
}
