//! Tickets keep chunks loaded. Those with a name are part of saves.
#![cfg(feature = "chunks")]

mod streaming_support;

use bevy_bonfire::chunks::{ChunkPos, Chunks};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots};
use streaming_support::{Creature, EDGE, Game};

const FAR: (i32, i32) = (40, 0);
const FARTHER: (i32, i32) = (-60, 7);

fn slots() -> Slots {
    Slots::new(MemoryStore::new())
}

#[track_caller]
fn save(game: &mut Game, slot: &str) {
    let saved = game.world().resource_mut::<Saves>().save(slot);
    let handle = saved.clone();
    game.harness.until(move |_| handle.is_complete());
    saved.wait().unwrap();
}

#[track_caller]
fn load(game: &mut Game, slot: &str) {
    let loaded = game.world().resource_mut::<Saves>().load(slot);
    let handle = loaded.clone();
    game.harness.until(move |_| handle.is_complete());
    game.settle();
    loaded.wait().unwrap();
}

/// Changes the tickets, and lets the window settle.
#[track_caller]
fn change(game: &mut Game, change: impl FnOnce(&mut Chunks)) {
    change(&mut game.world().resource_mut::<Chunks>());
    game.settle();
}

fn named(game: &Game) -> Vec<(String, ChunkPos)> {
    game.chunks().named_tickets().map(|(name, pos)| (name.to_owned(), pos)).collect()
}

fn is_active(game: &Game, pos: (i32, i32)) -> bool {
    game.chunks().is_active(pos)
}

#[test]
fn tickets_are_counted_and_a_name_has_one_for_each_chunk() {
    let mut game = Game::new();
    change(&mut game, |chunks| {
        chunks.add_ticket(FAR);
        chunks.add_named_ticket("base", FAR);
        chunks.add_named_ticket("base", FAR);
        chunks.add_named_ticket("mine", FARTHER);
        chunks.add_named_ticket("base", FARTHER);
    });
    assert!(is_active(&game, FAR) && is_active(&game, FARTHER));
    let expected = [("base", FARTHER), ("base", FAR), ("mine", FARTHER)];
    assert_eq!(named(&game), expected.map(|(name, pos)| (name.to_owned(), pos.into())));
    change(&mut game, |chunks| chunks.remove_named_ticket("base", FAR));
    assert!(is_active(&game, FAR), "the ticket without a name is still there");
    change(&mut game, |chunks| chunks.remove_ticket(FAR));
    assert_eq!((is_active(&game, FAR), is_active(&game, FARTHER)), (false, true));
    change(&mut game, |chunks| chunks.remove_tickets_named("base"));
    assert!(is_active(&game, FARTHER), "`mine` keeps it");
    change(&mut game, |chunks| {
        chunks.remove_tickets_named("mine");
        chunks.remove_tickets_named("nothing has this name");
        chunks.remove_named_ticket("mine", FARTHER);
    });
    assert_eq!((is_active(&game, FARTHER), named(&game).len()), (false, 0));
}

#[test]
fn a_load_brings_back_the_named_tickets_of_the_save_and_no_others() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    change(&mut game, |chunks| chunks.add_named_ticket("base", FAR));
    game.spawn(7, [40.0 * EDGE + 1.0, 1.0]);
    game.settle();
    save(&mut game, "with_a_base");
    change(&mut game, |chunks| {
        chunks.remove_tickets_named("base");
        chunks.add_named_ticket("mine", FARTHER);
    });
    assert_eq!((game.find(7), is_active(&game, FARTHER)), (None, true));
    save(&mut game, "with_a_mine");

    load(&mut game, "with_a_base");
    assert_eq!(named(&game), [("base".to_owned(), FAR.into())]);
    assert_eq!((is_active(&game, FAR), is_active(&game, FARTHER)), (true, false));
    assert_eq!(game.home(7), Some(FAR.into()), "the creature of the base is there without a player");
    load(&mut game, "with_a_mine");
    assert_eq!((is_active(&game, FAR), is_active(&game, FARTHER)), (false, true));
}

#[test]
fn named_tickets_outlive_the_program_and_others_do_not() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    change(&mut game, |chunks| {
        chunks.add_named_ticket("base", FAR);
        chunks.add_ticket(FARTHER);
    });
    save(&mut game, "quick");
    let mut game = game.restart();
    game.player([0.0, 0.0]);
    game.settle();
    assert!(!is_active(&game, FAR), "nothing was loaded");
    load(&mut game, "quick");
    assert_eq!((is_active(&game, FAR), is_active(&game, FARTHER)), (true, false));
}

#[test]
fn a_ticket_of_the_same_frame_is_part_of_the_save() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    game.settle();
    game.world().resource_mut::<Chunks>().add_named_ticket("base", FAR);
    save(&mut game, "quick");
    change(&mut game, |chunks| chunks.remove_tickets_named("base"));
    load(&mut game, "quick");
    assert!(is_active(&game, FAR));
}

#[test]
fn a_new_beginning_has_no_tickets_but_those_of_its_own() {
    let mut game = Game::with_slots(slots());
    game.player([0.0, 0.0]);
    change(&mut game, |chunks| chunks.add_named_ticket("start", FARTHER));
    let beginning = game.world().capture(&SaveOptions::new()).unwrap();
    change(&mut game, |chunks| chunks.add_named_ticket("base", FAR));
    game.world().spawn((Saved, Creature { id: 50, food: 1.0 }));
    save(&mut game, "quick");
    for initial in [None, Some(beginning)] {
        let is_own = initial.is_some();
        game.world().resource_mut::<Saves>().set_initial(initial);
        let over = game.world().resource_mut::<Saves>().start_over("other");
        let handle = over.clone();
        game.harness.until(move |_| handle.is_complete());
        game.settle();
        over.wait().unwrap();
        assert_eq!((is_active(&game, FAR), is_active(&game, FARTHER)), (false, is_own));
        load(&mut game, "quick");
        assert!(is_active(&game, FAR) && is_active(&game, FARTHER), "the slot has its tickets still");
    }
    let over = game.world().resource_mut::<Chunks>().start_over();
    game.settle();
    over.wait().unwrap();
    assert_eq!(named(&game), []);
}
