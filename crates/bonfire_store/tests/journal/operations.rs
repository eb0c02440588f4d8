//! What is done to a save is done to its journal.

use bonfire_store::{Keep, Slots, Store, Wait};

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
        assert!(slots.remove_generation("auto", 3).wait().unwrap(), "{what}");
        assert_eq!(loads(&slots, "auto"), 22, "{what}");
        assert!(slots.remove("auto").wait().unwrap(), "{what}");
        assert!(store.list("").wait().unwrap().is_empty(), "{what}: {:?}", store.list("").wait());
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
        slots.remove_generation("auto", 2).wait().unwrap();
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
        assert_eq!((restored.generation, loads(&slots, "auto")), (3, 4), "{what}");
        // The original is what it was.
        let first = slots.load_generation("auto", 1, &Default::default()).wait().unwrap();
        super::assert_is(&first, 4, what);
    }
}
