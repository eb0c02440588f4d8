//! What is done to a save is done to its journal.

use bonfire_store::{Keep, MemoryStore, Payload, Precondition, Slots, Store, Wait};

use super::{append, loads, save, slots, stores};

/// No journal is left without its save.
fn journals(store: &dyn Store) -> Vec<String> {
    let mut names = store.list("").wait().unwrap();
    names.retain(|name| name.ends_with(".journal"));
    names
}

#[test]
fn pruned_and_removed_saves_take_their_journals_along() {
    for (what, store) in stores() {
        let store = std::sync::Arc::new(store);
        let slots = Slots::new(store.clone()).keep(Keep::newest(2));
        for number in [10, 20, 30] {
            let base = save(&slots, "auto", number);
            append(&slots, &base, number + 1..=number + 2);
        }
        assert_eq!(journals(&store), ["auto.00000002.journal", "auto.00000003.journal"], "{what}");
        assert_eq!(loads(&slots, "auto"), 32, "{what}");
        assert!(slots.delete_generation("auto", 3).wait().unwrap(), "{what}");
        assert_eq!(loads(&slots, "auto"), 22, "{what}");
        assert!(slots.delete_slot("auto").wait().unwrap(), "{what}");
        // The number of the newest is not given again.
        assert_eq!(store.list("").wait().unwrap(), ["last-number.00000003"], "{what}");
        assert_eq!(save(&slots, "auto", 40).generation, 4, "{what}");
    }
}

#[test]
fn a_locked_save_keeps_its_journal_and_so_does_an_unlocked_one() {
    for (what, store) in stores() {
        let slots = slots(store);
        let base = save(&slots, "auto", 1);
        append(&slots, &base, 2..=3);
        slots.lock("auto", 1).wait().unwrap();
        save(&slots, "auto", 50);
        assert_eq!(loads(&slots, "auto"), 50, "{what}");
        let locked = slots.load_generation("auto", 1, &Default::default()).wait().unwrap();
        super::assert_is(&locked, 3, what);
        slots.unlock("auto", 1).wait().unwrap();
        slots.delete_generation("auto", 2).wait().unwrap();
        assert_eq!(loads(&slots, "auto"), 3, "{what}");
    }
}

#[test]
fn renamed_slots_have_their_journals() {
    for (what, store) in stores() {
        let store = std::sync::Arc::new(store);
        let slots = slots(store.clone());
        for number in [10, 20] {
            let base = save(&slots, "auto", number);
            append(&slots, &base, number + 1..=number + 2);
        }
        slots.rename("auto", "old").wait().unwrap();
        assert!(slots.load("auto").wait().unwrap_err().is_not_found(), "{what}");
        assert_eq!(loads(&slots, "old"), 22, "{what}");
        let first = slots.load_generation("old", 1, &Default::default()).wait().unwrap();
        super::assert_is(&first, 12, what);
        assert_eq!(journals(&store), ["old.00000001.journal", "old.00000002.journal"], "{what}");
        assert!(store.list("auto").wait().unwrap().is_empty(), "{what}");
    }
}

#[test]
fn copies_and_restored_saves_have_the_journal_too() {
    for (what, store) in stores() {
        let slots = slots(store);
        let base = save(&slots, "auto", 1);
        append(&slots, &base, 2..=4);
        slots.copy("auto", "quick").wait().unwrap();
        assert_eq!(loads(&slots, "quick"), 4, "{what}");
        save(&slots, "auto", 50);
        let restored = slots.restore("auto", base.generation).wait().unwrap();
        assert_eq!((restored.generation, loads(&slots, "auto")), (4, 4), "{what}");
        // The original is what it was.
        let first = slots.load_generation("auto", 1, &Default::default()).wait().unwrap();
        super::assert_is(&first, 4, what);
    }
}

/// Copies a blob by hand.
fn leave(store: &MemoryStore, from: &str, to: &str) {
    store.put(to, Payload::from(store.get(from).wait().unwrap()), Precondition::Absent).wait().unwrap();
}

#[test]
fn of_a_save_with_two_names_one_may_go() {
    let store = MemoryStore::new();
    let slots = slots(store.clone());
    let base = save(&slots, "auto", 1);
    append(&slots, &base, 2..=4);
    // A player has copied the file.
    leave(&store, "auto.00000001.bonfire", "auto.00000001.locked");
    assert!(slots.lock("auto", 1).wait().is_ok(), "it is locked already");
    leave(&store, "auto.00000001.locked", "auto.00000001.recovery");
    slots.reject_recovery("auto").wait().unwrap();
    slots.delete_saves("auto").wait().unwrap();
    assert_eq!(store.list("").wait().unwrap(), ["auto.00000001.journal", "auto.00000001.locked"]);
    assert_eq!(loads(&slots, "auto"), 4, "the journal is of the one that is left");
}

#[test]
fn a_slot_with_a_save_under_two_names_is_renamed_and_deleted() {
    let store = MemoryStore::new();
    let slots = slots(store.clone());
    let base = save(&slots, "auto", 1);
    append(&slots, &base, 2..=4);
    leave(&store, "auto.00000001.bonfire", "auto.00000001.recovery");
    slots.rename("auto", "old").wait().unwrap();
    assert_eq!(loads(&slots, "old"), 4);
    assert!(slots.delete_slot("old").wait().unwrap());
    assert_eq!(store.list("").wait().unwrap(), ["last-number.00000001"]);
}

#[test]
fn journals_without_saves_go_with_the_next_save() {
    for (what, store) in stores() {
        let store = std::sync::Arc::new(store);
        let slots = slots(store.clone());
        for number in [10, 20] {
            let base = save(&slots, "auto", number);
            append(&slots, &base, number + 1..=number + 2);
        }
        // A player has removed the file.
        store.remove("auto.00000001.bonfire").wait().unwrap();
        let base = save(&slots, "auto", 30);
        assert_eq!(journals(&store), ["auto.00000002.journal"], "{what}");
        append(&slots, &base, 31..=31);
        assert_eq!(loads(&slots, "auto"), 31, "{what}");
    }
}
