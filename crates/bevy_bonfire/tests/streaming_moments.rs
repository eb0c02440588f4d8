//! One moment for slots and chunks: a save in a slot has the globals and all chunks of one tick, and a load brings both back.
#![cfg(feature = "chunks")]

mod streaming_support;

use std::time::Duration;

use bevy_bonfire::chunks::Chunks;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{Keep, MemoryStore, Slots, Wait};
use bevy_bonfire::{LoadSource, SavePolicy};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::{Call, Fault, Plan, Repeat};
use streaming_support::{Creature, EDGE, Game};

fn slots() -> Slots {
    Slots::new(MemoryStore::new())
}

/// Saves into a slot, and runs frames until it is durable.
#[track_caller]
fn save(game: &mut Game, slot: &str) -> bevy_bonfire::SaveReport {
    let saved = game.world().resource_mut::<Saves>().save(slot);
    let handle = saved.clone();
    game.harness.until(move |_| handle.is_complete());
    game.frame();
    saved.wait().unwrap()
}

/// Loads, and lets the window settle.
#[track_caller]
fn load(game: &mut Game, source: impl Into<LoadSource>) -> bevy_bonfire::Result<()> {
    let loaded = game.world().resource_mut::<Saves>().load(source);
    let handle = loaded.clone();
    game.harness.until(move |_| handle.is_complete());
    game.settle();
    loaded.wait().map(drop)
}

fn global(game: &mut Game, id: u64, food: f32) -> Entity {
    game.world().spawn((Saved, Creature { id, food })).id()
}

fn pins(game: &Game) -> Vec<String> {
    game.chunks().world().pins().into_iter().map(|pin| pin.name).collect()
}

/// Waits until pins that no save names are removed.
#[track_caller]
fn until_pins(game: &mut Game, count: usize) {
    game.harness.until(|app| app.world().resource::<Chunks>().world().pins().len() == count);
}

#[test]
fn a_slot_has_globals_and_chunks_of_one_moment_and_an_older_one_has_its_own() {
    let mut game = Game::with_slots(slots());
    let player = game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    let gold = global(&mut game, 50, 1.0);
    game.dig([0, 0], [2, 2], 101);
    let first = save(&mut game, "quick");
    // Time goes on, in the world and in what has left it.
    game.world().get_mut::<Creature>(gold).unwrap().food = 2.0;
    game.dig([0, 0], [2, 2], 102);
    let creature = game.find(7).unwrap();
    game.place(creature, [-1.0, 1.0]);
    game.frame();
    game.move_to(player, [50.0 * EDGE, 0.0]);
    let second = save(&mut game, "quick");
    assert_eq!(pins(&game).len(), 2);
    game.world().get_mut::<Creature>(gold).unwrap().food = 3.0;
    game.move_to(player, [0.0, 0.0]);
    let creature = game.find(7).unwrap();
    game.world().despawn(creature);
    game.settle();

    load(&mut game, "quick").unwrap();
    assert_eq!((game.food(50), game.home(7)), (Some(2.0), Some((-1, 0).into())));
    assert_eq!(game.cell([0, 0], [2, 2]), 102);
    load(&mut game, LoadSource::generation("quick", first.generation.unwrap())).unwrap();
    assert_eq!((game.food(50), game.home(7)), (Some(1.0), Some((0, 0).into())));
    assert_eq!(game.cell([0, 0], [2, 2]), 101);
    load(&mut game, LoadSource::generation("quick", second.generation.unwrap())).unwrap();
    assert_eq!((game.food(50), game.home(7)), (Some(2.0), Some((-1, 0).into())));
    assert_eq!(game.count(), 2);
}

#[test]
fn pruned_and_deleted_saves_give_their_pins_back_and_others_keep_theirs() {
    let mut game = Game::with_slots(slots().keep(Keep::newest(2)));
    game.player([0.0, 0.0]);
    game.settle();
    global(&mut game, 50, 1.0);
    for _ in 0..5 {
        save(&mut game, "quick");
    }
    save(&mut game, "other");
    until_pins(&mut game, 3);
    let deleted = game.world().resource_mut::<Saves>().delete_saves("quick");
    game.frame();
    assert_eq!(deleted.wait().unwrap(), 2);
    until_pins(&mut game, 1);
    load(&mut game, "other").unwrap();
    assert_eq!(game.count(), 1);
}

#[test]
fn a_pin_that_no_save_names_is_removed_when_the_game_starts() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    game.settle();
    global(&mut game, 50, 1.0);
    save(&mut game, "quick");
    let world = game.chunks().world().clone();
    world.pin("slot quick 0.99", b"\nquick\n".to_vec()).unwrap();
    world.pin("the game's own", []).unwrap();
    drop(world);
    let mut game = game.restart();
    until_pins(&mut game, 2);
    assert!(pins(&game).contains(&"the game's own".to_owned()));
}

#[test]
fn a_game_that_was_killed_goes_on_at_a_moment_that_both_have() {
    let mut game = Game::with_slots(slots());
    let player = game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    global(&mut game, 50, 1.0);
    save(&mut game, "quick");
    // The chunk file goes on alone: a chunk leaves, and is saved.
    let creature = game.find(7).unwrap();
    game.world().get_mut::<Creature>(creature).unwrap().food = 9.0;
    game.move_to(player, [50.0 * EDGE, 0.0]);
    let mut game = game.restart();
    game.player([0.0, 0.0]);
    game.settle();
    assert_eq!(game.food(7), Some(9.0), "the present of the file");
    load(&mut game, "quick").unwrap();
    assert_eq!((game.food(7), game.food(50)), (Some(3.0), Some(1.0)));
}

#[test]
fn a_load_that_fails_leaves_globals_and_chunks_as_they_were() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    global(&mut game, 50, 1.0);
    save(&mut game, "quick");
    let pin = pins(&game).remove(0);
    game.chunks().world().unpin(&pin).unwrap();
    let creature = game.find(7).unwrap();
    game.world().get_mut::<Creature>(creature).unwrap().food = 9.0;
    assert!(load(&mut game, "quick").unwrap_err().is_not_found());
    assert!(load(&mut game, "missing").unwrap_err().is_not_found());
    assert_eq!((game.food(7), game.food(50)), (Some(9.0), Some(1.0)));
    game.save_chunks();
    // An observer that panics while the globals come: the file has gone to the moment, and comes back.
    save(&mut game, "quick");
    game.world().get_mut::<Creature>(creature).unwrap().food = 10.0;
    let observer = game.world().add_observer(|_: On<Insert<Creature>>| panic!("a bug of the game")).id();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    assert!(load(&mut game, "quick").is_err());
    std::panic::set_hook(quiet);
    game.world().despawn(observer);
    assert_eq!((game.food(7), game.food(50)), (Some(10.0), Some(1.0)));
    game.save_chunks();
    let mut game = game.restart();
    game.player([0.0, 0.0]);
    game.settle();
    assert_eq!(game.food(7), Some(10.0));
    assert_eq!(game.chunks().world().pins().len(), 1, "nothing is left of the load");
}

#[test]
fn a_save_whose_chunks_cannot_be_written_fails_as_a_whole() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    global(&mut game, 50, 1.0);
    save(&mut game, "quick");
    game.dig([0, 0], [1, 1], 77);
    game.disk.fail(Plan { fault: Fault::Full, nth: 1, of: Some(Call::Write), repeat: Repeat::Forever });
    let saved = game.world().resource_mut::<Saves>().save("quick");
    let handle = saved.clone();
    game.harness.until(move |_| handle.is_complete());
    assert!(saved.wait().unwrap_err().is_io());
    game.disk.heal();
    let slots = game.slots.clone().unwrap();
    assert_eq!(slots.saves("quick").wait().unwrap().len(), 1);
    save(&mut game, "quick");
    load(&mut game, "quick").unwrap();
    assert_eq!(game.cell([0, 0], [1, 1]), 77, "what had failed was in the next save");
}

#[test]
fn autosaves_by_journal_name_a_moment_each() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    game.settle();
    game.world().resource_mut::<Saves>().policy = SavePolicy::Journal;
    game.world().resource_mut::<Saves>().autosave = Autosave::every(Duration::from_secs(3600));
    game.spawn(7, [1.0, 1.0]);
    let gold = global(&mut game, 50, 0.0);
    for round in 1..=4 {
        game.world().get_mut::<Creature>(gold).unwrap().food = round as f32;
        let creature = game.find(7).unwrap();
        game.world().get_mut::<Creature>(creature).unwrap().food = 10.0 * round as f32;
        save(&mut game, "autosave");
    }
    let info = game.slots.clone().unwrap().saves("autosave").wait().unwrap();
    assert_eq!((info.len(), info[0].journal.as_ref().map(|journal| journal.records)), (1, Some(3)));
    let gold = game.find(50).unwrap();
    game.world().get_mut::<Creature>(gold).unwrap().food = 99.0;
    let creature = game.find(7).unwrap();
    game.world().despawn(creature);
    game.settle();
    load(&mut game, "autosave").unwrap();
    assert_eq!((game.food(50), game.food(7)), (Some(4.0), Some(40.0)));
    // The next one is whole, and the moments of the journal go with their save.
    game.slots = None;
    save(&mut game, "autosave");
    assert!(!pins(&game).is_empty());
}

#[test]
fn starting_over_empties_the_chunks_and_other_slots_keep_theirs() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    game.dig([0, 0], [1, 1], 77);
    global(&mut game, 50, 1.0);
    save(&mut game, "kept");
    save(&mut game, "quick");
    let over = game.world().resource_mut::<Saves>().start_over("quick");
    let handle = over.clone();
    game.harness.until(move |_| handle.is_complete());
    game.settle();
    assert_eq!((over.wait().unwrap(), game.count(), game.find(7)), (1, 0, None));
    assert_eq!((game.cell([0, 0], [1, 1]), game.chunks().world().seed()), (0, 77));
    until_pins(&mut game, 1);
    load(&mut game, "kept").unwrap();
    assert_eq!((game.count(), game.cell([0, 0], [1, 1])), (2, 77));
}

#[test]
fn what_the_worlds_parts_refer_to_in_each_other_is_found_again() {
    let mut game = Game::with_slots(slots());
    let player = game.player([0.0, 0.0]);
    game.settle();
    let creature = game.spawn(7, [1.0, 1.0]);
    game.world().entity_mut(creature).insert(StableId::new());
    let gold = global(&mut game, 50, 1.0);
    game.world().entity_mut(gold).insert((StableId::new(), streaming_support::Owner { of: Some(creature) }));
    game.world().entity_mut(creature).insert(streaming_support::Owner { of: Some(gold) });
    game.frame();
    save(&mut game, "quick");
    game.move_to(player, [50.0 * EDGE, 0.0]);
    load(&mut game, "quick").unwrap();
    let gold = game.find(50).unwrap();
    let awaited = game.world().get::<streaming_support::Owner>(gold).unwrap().of.unwrap();
    assert_eq!(game.find(7), None);
    game.move_to(player, [0.0, 0.0]);
    let creature = game.find(7).unwrap();
    assert_eq!(creature, awaited);
    assert_eq!(game.world().get::<streaming_support::Owner>(creature).unwrap().of, Some(gold));
}

#[test]
fn the_end_of_the_app_waits_for_a_save_of_both_parts() {
    let slots = slots();
    let mut game = Game::with_slots(slots.clone());
    game.player([0.0, 0.0]);
    game.settle();
    game.world().resource_mut::<Saves>().on_exit = ExitOptions::save("exit");
    game.spawn(7, [1.0, 1.0]);
    global(&mut game, 50, 1.0);
    game.frame();
    game.world().write_message(bevy_app::AppExit::Success);
    game.frame();
    let loaded = slots.load("exit").wait().unwrap();
    assert!(loaded.info.moment.is_some());
    assert_eq!(pins(&game), [loaded.info.moment.unwrap()]);
}

#[test]
fn slots_go_on_in_a_file_that_was_opened_again() {
    let mut game = Game::with_slots(slots().keep(Keep::newest(1)));
    game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    global(&mut game, 50, 1.0);
    save(&mut game, "quick");
    game.chunks().world().close().unwrap();
    let world = streaming_support::open(&game.disk);
    game.world().resource_mut::<Chunks>().reopen(world);
    game.frame();
    game.dig([0, 0], [1, 1], 77);
    save(&mut game, "quick");
    until_pins(&mut game, 1);
    game.dig([0, 0], [1, 1], 78);
    save(&mut game, "quick");
    until_pins(&mut game, 1);
    game.dig([0, 0], [1, 1], 79);
    load(&mut game, "quick").unwrap();
    assert_eq!((game.cell([0, 0], [1, 1]), game.count()), (78, 2));
    let over = game.world().resource_mut::<Saves>().start_over("quick");
    let handle = over.clone();
    game.harness.until(move |_| handle.is_complete());
    over.wait().unwrap();
    until_pins(&mut game, 0);
}

#[test]
fn two_players_have_moments_of_their_own_in_one_chunk_world() {
    let slots = slots();
    let mut game = Game::with_slots(slots.profile("ann").unwrap());
    game.player([0.0, 0.0]);
    game.settle();
    game.spawn(7, [1.0, 1.0]);
    global(&mut game, 50, 1.0);
    save(&mut game, "quick");
    let choose = |game: &mut Game, player: &str| {
        game.harness.until(|app| !app.world().resource::<Saves>().is_busy());
        game.world().resource_mut::<Saves>().set_slots(slots.profile(player).unwrap()).unwrap();
    };
    choose(&mut game, "bob");
    let over = game.world().resource_mut::<Saves>().start_over("quick");
    let handle = over.clone();
    game.harness.until(move |_| handle.is_complete());
    game.settle();
    assert_eq!(game.count(), 0);
    game.spawn(8, [2.0, 2.0]);
    game.frame();
    save(&mut game, "quick");
    assert_eq!(pins(&game).len(), 2, "Ann's moment stays, though Bob's slots do not name it");
    choose(&mut game, "ann");
    load(&mut game, "quick").unwrap();
    assert_eq!((game.count(), game.home(7), game.find(8)), (2, Some((0, 0).into()), None));
}

#[test]
fn an_app_that_exits_while_it_loads_mixes_no_moments() {
    for frames in 0..12 {
        let mut game = Game::with_slots(slots());
        game.player([0.0, 0.0]);
        game.settle();
        game.world().resource_mut::<Saves>().on_exit.deadline = Duration::ZERO;
        game.spawn(7, [1.0, 1.0]);
        game.frame();
        save(&mut game, "quick");
        let creature = game.find(7).unwrap();
        game.world().get_mut::<Creature>(creature).unwrap().food = 9.0;
        game.dig([0, 0], [1, 1], 77);
        game.frame();
        let load = game.world().resource_mut::<Saves>().load("quick");
        (0..frames).for_each(|_| game.frame());
        game.world().write_message(bevy_app::AppExit::Success);
        game.frame();
        drop(load);
        let mut game = game.restart();
        game.player([0.0, 0.0]);
        game.settle();
        let found = (game.food(7).unwrap(), game.cell([0, 0], [1, 1]));
        assert!(found == (9.0, 77) || found == (3.0, 0), "after {frames} frames: {found:?}");
    }
}
