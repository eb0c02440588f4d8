//! Worlds that stream over damage and faults: an area that cannot be read fails and nothing takes its place, what cannot be
//! written stays in memory, and the game is told.
#![cfg(feature = "chunks")]

mod streaming_support;

use bevy_bonfire::chunks::{
    ChangeReason, ChunkChanged, ChunkPhase, ChunkProblem, ChunkRect, ChunkStreamPlugin, Chunks,
};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots};
use bevy_ecs::prelude::*;
use bonfire_chunks::MemoryDisk;
use bonfire_testkit::disk::{Call, CrashDisk, Fault, FaultyDisk, Plan, Repeat};
use streaming_support::{Creature, EDGE, Game, SIZE, open};

fn forever(fault: Fault, call: Call) -> Plan {
    Plan { fault, nth: 1, of: Some(call), repeat: Repeat::Forever }
}

/// A game whose file has the creature 7 in chunk (0, 0), and one flipped bit of what `choose` finds.
fn damaged(choose: impl Fn(&[u8]) -> usize) -> Game {
    let disk = CrashDisk::new();
    let mut game = Game::start(disk.clone(), None, |plugin| plugin);
    let player = game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    for cell in 0..SIZE {
        game.dig([0, 0], [cell, cell], 100 + cell as u8 * 7);
    }
    game.frame();
    game.move_to(player, [50.0 * EDGE, 0.0]);
    drop(game);
    let mut files = disk.files();
    let (_, bytes) = files.iter_mut().find(|(name, _)| name == "world.save").unwrap();
    let at = choose(bytes);
    bytes[at] ^= 1;
    Game::start(FaultyDisk::new(MemoryDisk::with_files(files)), None, ChunkStreamPlugin::populate)
}

/// The data of the frame of a kind at a place in the flat part of dimension 0.
fn frame_of(bytes: &[u8], kind: u8) -> usize {
    let is_trailer = |at: &usize| {
        let trailer = &bytes[*at..];
        trailer.len() >= 32
            && trailer[..4] == [0x9b, 0x42, 0x4e, 0x46]
            && trailer[4] == kind
            && trailer[8..16] == [0; 8]
    };
    let trailer = (0..bytes.len()).rev().find(is_trailer).unwrap();
    let len = u32::from_le_bytes(bytes[trailer + 16..trailer + 20].try_into().unwrap()) as usize;
    trailer - len / 2
}

#[test]
fn a_damaged_chunk_fails_and_the_rest_streams_on() {
    // Cells, and entities.
    for kind in [1, 6] {
        let mut game = damaged(|bytes| frame_of(bytes, kind));
        let errors = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = errors.clone();
        game.world().add_observer(move |changed: On<ChunkChanged>| {
            if let (Some(ChunkPhase::Failed), ChangeReason::Error(error)) = (changed.to, &changed.reason) {
                told.lock().unwrap().push((changed.pos, error.clone()));
            }
        });
        let player = game.player([0.0, 0.0]);
        game.settle();
        assert_eq!((game.chunks().status().active, game.chunks().status().failed), (8, 1), "kind {kind}");
        let errors = errors.lock().unwrap().clone();
        assert!(errors.len() == 1 && errors[0].0 == (0, 0).into() && errors[0].1.is_corrupt(), "{errors:?}");
        assert!(!game.chunks().is_ready(ChunkRect::around((0, 0), 1)));
        assert_eq!(game.find(7), None);
        assert_eq!(game.ids().len(), 8, "nobody is generated there");
        // A creature that walks there stops, and goes on where it was.
        let creature = game.spawn(9, [EDGE + 1.0, 1.0]);
        game.frame();
        game.place(creature, [1.0, 1.0]);
        game.settle();
        assert_eq!(game.home(9), Some((1, 0).into()));
        let stopped = |problem: &ChunkProblem| matches!(problem, ChunkProblem::Stopped { pos, .. } if *pos == (0, 0).into());
        assert_eq!(game.problems().iter().filter(|problem| stopped(problem)).count(), 1);
        game.place(creature, [EDGE + 2.0, 1.0]);
        game.settle();
        game.move_to(player, [50.0 * EDGE, 0.0]);
        let world = game.chunks().world().clone();
        let still =
            if kind == 1 { world.read((0, 0)).is_err() } else { world.read_entities((0, 0)).is_err() };
        assert!(still, "nothing was put in its place");
    }
}

#[test]
fn a_full_disk_keeps_what_leaves_in_memory_until_it_is_durable() {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    game.dig([0, 0], [3, 3], 99);
    game.frame();
    game.disk.fail(forever(Fault::Full, Call::Write));
    game.place(player, [50.0 * EDGE, 0.0]);
    game.harness.until(|app| app.world().resource::<Chunks>().status().is_failing);
    assert_eq!((game.find(7), game.chunks().phase((0, 0))), (None, Some(ChunkPhase::Saving)));
    let failed = |problem: &ChunkProblem| matches!(problem, ChunkProblem::SaveFailed(error) if error.is_io());
    assert!(game.problems().iter().any(failed));
    // It comes back from memory, and leaves again.
    game.place(player, [0.0, 0.0]);
    game.harness.until(|app| app.world().resource::<Chunks>().is_active((0, 0)));
    assert_eq!((game.home(7), game.cell([0, 0], [3, 3])), (Some((0, 0).into()), 99));
    game.place(player, [50.0 * EDGE, 0.0]);
    game.harness.until(|app| app.world().resource::<Chunks>().phase((0, 0)) == Some(ChunkPhase::Saving));
    game.disk.heal();
    game.settle();
    assert_eq!(game.chunks().phase((0, 0)), None);
    let mut game = game.restart();
    game.player([0.0, 0.0]);
    game.settle();
    assert_eq!((game.home(7), game.cell([0, 0], [3, 3])), (Some((0, 0).into()), 99));
}

#[test]
fn after_a_sync_that_failed_the_game_opens_the_file_again_and_loses_nothing() {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    game.frame();
    game.disk.fail(Plan { fault: Fault::Io, nth: 1, of: Some(Call::Sync), repeat: Repeat::Once });
    game.place(player, [50.0 * EDGE, 0.0]);
    game.harness.until(|app| app.world().resource::<Chunks>().status().is_failing);
    game.disk.heal();
    game.chunks().world().close().ok();
    let again = open(&game.disk);
    game.world().resource_mut::<Chunks>().reopen(again);
    game.settle();
    game.move_to(player, [0.0, 0.0]);
    assert_eq!(game.home(7), Some((0, 0).into()));
}

#[test]
fn a_save_whose_pin_is_damaged_is_an_error_and_the_game_goes_on() {
    let mut game = Game::with_slots(Slots::new(MemoryStore::new()));
    game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    game.frame();
    let save = game.world().resource_mut::<Saves>().save("quick");
    let handle = save.clone();
    game.harness.until(move |_| handle.is_complete());
    save.wait().unwrap();
    // The chunk file of another game: it has none of the pins.
    let creature = game.find(7).unwrap();
    game.world().get_mut::<Creature>(creature).unwrap().food = 9.0;
    game.save_chunks();
    let slots = game.slots.clone();
    drop(game);
    let mut other = Game::start(FaultyDisk::new(MemoryDisk::new()), slots, |plugin| plugin);
    other.player([0.0, 0.0]);
    other.settle();
    other.spawn(8, [1.0, 1.0]);
    other.frame();
    let load = other.world().resource_mut::<Saves>().load("quick");
    let handle = load.clone();
    other.harness.until(move |_| handle.is_complete());
    assert!(load.wait().unwrap_err().is_not_found());
    other.settle();
    assert_eq!(other.home(8), Some((0, 0).into()));
    other.save_chunks();
}

#[test]
fn saving_that_is_disabled_or_paused_loses_nothing() {
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    game.frame();
    game.world().resource_mut::<Chunks>().disable();
    game.place(player, [50.0 * EDGE, 0.0]);
    (0..30).for_each(|_| game.frame());
    game.harness.until(|app| app.world().resource::<Chunks>().status().active == 10);
    assert_eq!(game.home(7), Some((0, 0).into()), "its chunk stays");
    let refused = game.world().resource_mut::<Chunks>().save();
    game.frame();
    assert!(refused.wait().unwrap_err().is_misuse() && !game.chunks().is_enabled());
    game.world().resource_mut::<Chunks>().enable();
    game.settle();
    assert_eq!(game.find(7), None);
    game.world().resource_mut::<Chunks>().pause();
    game.place(player, [0.0, 0.0]);
    (0..10).for_each(|_| game.frame());
    assert!(game.chunks().is_paused() && game.find(7).is_none());
    game.world().resource_mut::<Chunks>().resume();
    game.settle();
    assert_eq!(game.home(7), Some((0, 0).into()));
}

#[test]
fn a_world_is_written_elsewhere_and_moments_have_names() {
    let home = tempfile::tempdir().unwrap();
    let mut game = Game::new();
    let player = game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    game.frame();
    let pinned = game.world().resource_mut::<Chunks>().pin("before the boss", *b"chapter 3");
    game.frame();
    pinned.wait().unwrap();
    let creature = game.find(7).unwrap();
    game.world().get_mut::<Creature>(creature).unwrap().food = 9.0;
    let path = home.path().join("copy.save");
    let copied = game.world().resource_mut::<Chunks>().save_to(&path);
    game.frame();
    copied.wait().unwrap();
    let copy = streaming_support::options().open_read_only(&path).unwrap();
    assert!(copy.read_entities((0, 0)).unwrap().is_some());
    assert_eq!(copy.pins()[0].name, "before the boss", "a copy has all moments");
    game.move_to(player, [50.0 * EDGE, 0.0]);
    let back = game.world().resource_mut::<Chunks>().return_to("before the boss");
    game.frame();
    back.wait().unwrap();
    game.move_to(player, [0.0, 0.0]);
    assert_eq!(game.food(7), Some(3.0));
    let over = game.world().resource_mut::<Chunks>().start_over();
    game.frame();
    over.wait().unwrap();
    game.settle();
    assert!(game.find(7).is_none() && game.chunks().world().is_empty());
}

#[test]
fn without_slots_chunks_are_saved_now_and_then() {
    let mut game = Game::with(|plugin| plugin.autosave(std::time::Duration::from_millis(1)));
    game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    game.harness.until(|app| {
        let chunks = app.world().resource::<Chunks>();
        chunks.world().read_entities((0, 0)).unwrap().is_some()
    });
    let mut game = Game::with(|plugin| plugin.autosave(None));
    game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    (0..10).for_each(|_| game.frame());
    assert!(game.chunks().world().read_entities((0, 0)).unwrap().is_none());
    game.world().write_message(bevy_app::AppExit::Success);
    game.frame();
    assert!(game.chunks().world().read_entities((0, 0)).unwrap().is_some(), "but when the app exits");
}
