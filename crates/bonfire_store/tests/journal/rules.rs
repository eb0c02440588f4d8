//! When a journal goes on, and when the caller must save the world as a whole.

use bonfire_store::{
    Details, JournalBase, MemoryStore, Payload, Precondition, SealKey, Sealed, Slots, Store, TrustedCounter,
    Wait,
};

use super::common::{delta, world};
use super::{append, loads, save, slots, stores};

/// The error of an append after which only a whole save helps.
fn refused(slots: &Slots, base: &JournalBase, from: u64, to: u64) -> String {
    let error = slots.append(base, &delta(from, to)).wait().unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(error.to_string().contains("save as a whole"), "{error}");
    error.to_string()
}

#[test]
fn a_delta_follows_the_save_or_the_one_before() {
    for (what, store) in stores() {
        let slots = slots(store);
        let base = save(&slots, "auto", 10);
        refused(&slots, &base, 9, 11);
        refused(&slots, &base, 11, 12);
        append(&slots, &base, 11..=12);
        refused(&slots, &base, 13, 14);
        assert_eq!(loads(&slots, "auto"), 12, "{what}");
        let why = refused(&slots, &base, 12, 13);
        assert!(why.contains("cannot go on"), "{what}, after an error: {why}");
        assert_eq!(loads(&slots, "auto"), 12, "{what}");
        let base = save(&slots, "auto", 14);
        append(&slots, &base, 15..=15);
        assert_eq!(loads(&slots, "auto"), 15, "{what}: a whole save helps");
    }
}

#[test]
fn only_the_newest_save_that_is_not_locked_gets_deltas() {
    for (what, store) in stores() {
        let slots = slots(store);
        let base = save(&slots, "auto", 1);
        let missing = JournalBase::new("auto", 77, 1);
        refused(&slots, &missing, 1, 2);
        refused(&slots, &JournalBase::new("none", 1, 1), 1, 2);

        append(&slots, &base, 2..=2);
        slots.lock("auto", base.generation).wait().unwrap();
        refused(&slots, &base, 2, 3);
        let locked = slots.load("auto").wait().unwrap();
        assert_eq!(super::number(&locked.snapshot), 2, "{what}: locked with what it had");

        let base = save(&slots, "auto", 5);
        append(&slots, &base, 6..=6);
        save(&slots, "auto", 8);
        let why = refused(&slots, &base, 6, 7);
        assert!(why.contains("not the newest"), "{what}: {why}");
        assert_eq!(loads(&slots, "auto"), 8, "{what}");

        let base = save(&slots, "auto", 10);
        append(&slots, &base, 11..=11);
        slots.delete_generation("auto", base.generation).wait().unwrap();
        refused(&slots, &base, 11, 12);
        assert_eq!(loads(&slots, "auto"), 8, "{what}");
    }
}

#[test]
fn nobody_goes_on_with_a_journal_that_another_process_began() {
    for (what, store) in stores() {
        let store = std::sync::Arc::new(store);
        let first = slots(store.clone());
        let base = save(&first, "auto", 1);
        append(&first, &base, 2..=3);
        let second = slots(store.clone());
        let why = refused(&second, &base, 3, 4);
        assert!(why.contains("cannot go on"), "{what}: {why}");
        assert_eq!(loads(&second, "auto"), 3, "{what}");
        append(&first, &base, 4..=4);
        assert_eq!(loads(&second, "auto"), 4, "{what}: who began it goes on");
        // Clones are one process.
        append(&first.clone(), &base, 5..=5);
        assert_eq!(loads(&first, "auto"), 5, "{what}");
    }
}

#[test]
fn a_save_for_after_a_crash_is_needless_after_a_delta() {
    let slots = slots(MemoryStore::new());
    let base = save(&slots, "auto", 1);
    slots.save_recovery("auto", &world(9), &Details::new()).wait().unwrap();
    assert!(slots.recovery("auto").wait().unwrap().is_some());
    append(&slots, &base, 2..=2);
    assert!(slots.recovery("auto").wait().unwrap().is_none());
    assert_eq!(loads(&slots, "auto"), 2);
}

#[test]
fn the_number_of_a_journal_without_a_save_is_not_given_again() {
    let store = MemoryStore::new();
    let slots = slots(store.clone());
    let base = save(&slots, "auto", 1);
    append(&slots, &base, 2..=3);
    // What a crash leaves in the middle of a removal.
    store.remove("auto.00000001.bonfire").wait().unwrap();
    assert!(slots.load("auto").wait().unwrap_err().is_not_found());
    assert!(slots.list().wait().unwrap().is_empty());
    let base = save(&slots, "auto", 1);
    assert_eq!(
        (base.generation, loads(&slots, "auto")),
        (2, 1),
        "not what the journal of another makes of it"
    );
    assert_eq!(store.list("").wait().unwrap(), ["auto.00000002.bonfire"], "and it is gone");
}

#[test]
fn a_journal_of_another_save_is_refused_and_named() {
    let store = MemoryStore::new();
    let slots = slots(store.clone());
    let first = save(&slots, "auto", 1);
    append(&slots, &first, 2..=2);
    save(&slots, "quick", 50);
    let journal = store.get("auto.00000001.journal").wait().unwrap();
    store.put("quick.00000002.journal", Payload::from(journal), Precondition::Absent).wait().unwrap();
    let loaded = slots.load("quick").wait().unwrap();
    super::assert_is(&loaded, 50, "the save alone");
    let journal = loaded.journal.unwrap();
    let lost = journal.lost.unwrap();
    assert_eq!((journal.records, lost.record, lost.is_tail()), (0, 1, false));
    assert!(lost.to_string().contains("belongs to another save"), "{lost}");
}

/// Counts nothing: what matters is that there is one.
struct Counter;

impl TrustedCounter for Counter {
    fn newest(&self, _: &str) -> bonfire::Result<u64> {
        Ok(0)
    }
    fn advance(&self, _: &str, _: u64) -> bonfire::Result<()> {
        Ok(())
    }
}

#[test]
fn where_older_saves_are_refused_there_are_no_journals() {
    let store = Sealed::new(MemoryStore::new(), SealKey::from_bytes([7; 32])).counter(Counter);
    let slots = slots(store);
    let base = save(&slots, "auto", 1);
    let error = slots.append(&base, &delta(1, 2)).wait().unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    assert_eq!(loads(&slots, "auto"), 1);
}

#[test]
fn what_is_appended_to_a_sealed_save_is_sealed() {
    let inside = MemoryStore::new();
    let sealed = slots(Sealed::new(inside.clone(), SealKey::from_bytes([7; 32])));
    let base = save(&sealed, "auto", 1);
    append(&sealed, &base, 2..=4);
    let names = inside.list("auto.00000001.journal").wait().unwrap();
    assert_eq!(names.len(), 4, "a head and three records: {names:?}");
    for name in names {
        let bytes = inside.get(&name).wait().unwrap();
        assert!(bonfire_store::backend::is_sealed(&bytes), "{name}");
        assert!(!bytes.windows(4).any(|window| window == b"BREC" || window == b"test"), "{name}");
    }
    let thief = slots(Sealed::new(inside.clone(), SealKey::from_bytes([8; 32])));
    assert!(thief.load("auto").wait().unwrap_err().is_wrong_key());
    let nobody = slots(inside);
    assert!(nobody.load("auto").wait().unwrap_err().is_wrong_key());
}

#[test]
fn no_number_comes_again_and_no_delta_reaches_another_save() {
    for (what, store) in stores() {
        let slots = slots(store);
        let before = save(&slots, "auto", 1);
        append(&slots, &before, 2..=3);
        slots.delete_slot("auto").wait().unwrap();
        let base = save(&slots, "auto", 1);
        assert!(base.generation > before.generation, "{what}");
        assert!(slots.append(&before, &delta(3, 4)).wait().unwrap_err().is_conflict(), "{what}");
        append(&slots, &base, 2..=2);
        assert_eq!(loads(&slots, "auto"), 2, "{what}");
    }
}
