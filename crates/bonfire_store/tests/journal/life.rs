//! Saves, deltas, compaction: what a game does all day.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bonfire_store::{Compaction, Details, JournalBase, Keep, MemoryStore, Slots, Store, Wait};

use super::common::{delta, sized_delta, sized_world, world};
use super::{append, assert_is, loads, save, slots, stores};

#[test]
fn a_load_leads_to_the_last_delta_in_every_store() {
    for (what, store) in stores() {
        let slots = slots(store);
        let base = save(&slots, "auto", 10);
        for to in 11..=20 {
            let appended = slots.append(&base, &delta(to - 1, to)).wait().unwrap();
            assert_eq!(
                (appended.record, appended.now, appended.full_save_due),
                (to - 10, to, false),
                "{what}"
            );
            let loaded = slots.load("auto").wait().unwrap();
            assert_is(&loaded, to, what);
            let journal = loaded.journal.unwrap();
            assert_eq!((journal.records, journal.now), (to - 10, Some(to)), "{what}");
            assert!(journal.lost.is_none(), "{what}");
            assert_eq!(loaded.info.label.as_deref(), Some("base"), "{what}");
        }
        assert_eq!(slots.count("auto").wait().unwrap(), 1, "{what}: a journal is no save");
        assert_eq!(slots.list().wait().unwrap().len(), 1, "{what}: nor a slot");
        // Another process sees the same.
        let by_number = slots.load_generation("auto", base.generation, &Default::default()).wait().unwrap();
        assert_is(&by_number, 20, what);
    }
}

#[test]
fn a_whole_save_begins_a_new_journal_and_the_old_pair_is_kept() {
    for (what, store) in stores() {
        let slots = slots(store);
        let first = save(&slots, "auto", 1);
        append(&slots, &first, 2..=4);
        let second = save(&slots, "auto", 5);
        assert_eq!(loads(&slots, "auto"), 5, "{what}");
        append(&slots, &second, 6..=7);
        assert_eq!(loads(&slots, "auto"), 7, "{what}");
        let old = slots.load_generation("auto", first.generation, &Default::default()).wait().unwrap();
        assert_is(&old, 4, what);
    }
}

#[test]
fn what_is_appended_costs_what_has_changed() {
    let slots = slots(MemoryStore::new());
    let saved = slots.save("auto", &sized_world(0, 50_000), &Details::new()).wait().unwrap();
    let base = JournalBase::new("auto", saved.generation, 0);
    // One entity more in fifty thousand.
    let (before, after) = (sized_delta(0, 0, 50_000), sized_delta(0, 1, 20));
    let empty = slots.append(&base, &before).wait().unwrap();
    let small = slots.append(&base, &after).wait().unwrap();
    assert!(empty.bytes < 2000 && small.bytes < 2000, "{} {}", empty.bytes, small.bytes);
    assert_eq!(small.journal_bytes, empty.bytes + small.bytes);
    assert!(saved.bytes > 500_000);
}

#[test]
fn a_journal_says_when_it_is_large_enough() {
    let slots = slots(MemoryStore::new()).compaction(Compaction::default().records(3));
    let base = save(&slots, "auto", 1);
    let due: Vec<bool> =
        (2..=5).map(|to| slots.append(&base, &delta(to - 1, to)).wait().unwrap().full_save_due).collect();
    assert_eq!(due, [false, false, true, true], "it is advice: nothing is refused");
    assert_eq!(loads(&slots, "auto"), 5);
}

#[test]
fn folding_makes_one_save_of_a_save_and_its_journal() {
    for (what, store) in stores() {
        let slots = Slots::new(store).keep(Keep::newest(1)).clock(|| Some(Duration::from_secs(5)));
        let base = save(&slots, "auto", 1);
        assert!(slots.merge_journal("auto").wait().unwrap().is_none(), "{what}: there is nothing to merge");
        append(&slots, &base, 2..=9);
        let saved = slots.merge_journal("auto").wait().unwrap().expect("there is a journal");
        assert_eq!(saved.generation, base.generation + 1, "{what}");
        let loaded = slots.load("auto").wait().unwrap();
        assert_is(&loaded, 9, what);
        assert!(loaded.journal.is_none(), "{what}");
        assert_eq!(
            (loaded.info.label.as_deref(), loaded.info.generation),
            (Some("base"), saved.generation),
            "{what}"
        );
        assert_eq!(loaded.info.saved_at, Some(Duration::from_secs(5)), "{what}");
    }
    let slots = slots(MemoryStore::new());
    assert!(slots.merge_journal("none").wait().unwrap_err().is_not_found());
}

/// Hours, for a clock that does not depend on anything.
static HOUR: AtomicU64 = AtomicU64::new(0);

fn clock() -> Option<Duration> {
    Some(Duration::from_secs(3600 * HOUR.load(Ordering::Relaxed)))
}

#[test]
fn a_menu_knows_when_the_last_delta_was_appended() {
    for (what, store) in stores() {
        let slots = slots(store).clock(clock);
        HOUR.store(1, Ordering::Relaxed);
        let base = save(&slots, "auto", 1);
        HOUR.store(2, Ordering::Relaxed);
        save(&slots, "quick", 1);
        assert_eq!(slots.newest().wait().unwrap().unwrap().name, "quick", "{what}");
        HOUR.store(3, Ordering::Relaxed);
        append(&slots, &base, 2..=3);
        let newest = slots.newest().wait().unwrap().unwrap();
        assert_eq!(newest.name, "auto", "{what}: played last");
        assert_eq!(newest.newest.saved_at, Some(Duration::from_secs(3 * 3600)), "{what}");
        let journal = newest.newest.journal.unwrap();
        assert_eq!((journal.records, journal.now), (2, 3), "{what}");
        let replay = slots.load("auto").wait().unwrap().journal.unwrap();
        assert_eq!(replay.saved_at, Some(Duration::from_secs(3 * 3600)), "{what}");
    }
}

#[test]
fn deltas_may_change_what_the_game_wrote_beside_the_world_but_not_the_details() {
    let slots = slots(MemoryStore::new());
    let base = save(&slots, "auto", 1);
    let (before, mut after) = (world(1), world(2));
    after.set_metadata("difficulty", "hard");
    let schema = bonfire::engine::DeltaSchema::new(&super::common::registry());
    let delta = bonfire::Delta::between(&schema, &before, &after, 1, 2).unwrap();
    slots.append(&base, &delta).wait().unwrap();
    let loaded = slots.load("auto").wait().unwrap();
    let find = |name: &str| loaded.snapshot.metadata().iter().find(|(found, _)| found == name).is_some();
    assert!(find("difficulty") && find("bonfire.label") && find("bonfire.saved_at"));
}

#[test]
fn profiles_have_journals_of_their_own() {
    let store = MemoryStore::new();
    let game = slots(store.clone());
    let (alice, bob) = (game.profile("alice").unwrap(), game.profile("bob").unwrap());
    let bases = [&game, &alice, &bob].map(|slots| save(slots, "auto", 1));
    append(&alice, &bases[1], 2..=5);
    append(&bob, &bases[2], 2..=3);
    append(&alice, &bases[1], 6..=6);
    assert_eq!([&game, &alice, &bob].map(|slots| loads(slots, "auto")), [1, 6, 3]);
    assert_eq!(game.profiles().wait().unwrap(), ["alice", "bob"]);
    assert!(store.list("alice.auto.00000002.journal").wait().unwrap().len() == 1);
}
