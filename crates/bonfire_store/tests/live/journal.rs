//! Deltas go to the journal of a save in the order of the requests, and their handles are complete when they are durable.

use bonfire_store::engine::{
    NextRequest, Promise, RequestedSave, SaveTurn, next_request, request_save, submit_append_after,
};
use bonfire_store::{Details, JournalBase, MemoryStore, SaveHandle, SaveTarget, Saver, Slots, Wait};

use crate::common::{delta, number, world};
use crate::gate::{At, gated, held};

/// Saves the world of this number, which is its tick too, and waits for it.
fn base(saver: &Saver, slot: &str, tick: u64) -> JournalBase {
    let report = saver.save(slot, world(tick), Details::new()).wait().unwrap();
    report.journal_base(tick).expect("it is in a slot")
}

#[test]
fn a_load_finds_the_deltas_that_were_asked_for_before_it() {
    let saver = Saver::new(Slots::new(MemoryStore::new()));
    let base = base(&saver, "auto", 1);
    let first = saver.append(base.clone(), delta(1, 2));
    let found = saver.load("auto");
    let second = saver.append(base.clone(), delta(2, 3));
    let third = saver.append(base, delta(3, 4));
    let last = saver.load("auto");
    assert_eq!(number(&found.wait().unwrap().snapshot), 2);
    assert_eq!(number(&last.wait().unwrap().snapshot), 4);
    let appended = [first, second, third].map(|handle| handle.wait().unwrap());
    assert_eq!(appended.each_ref().map(|appended| (appended.record, appended.now)), [(1, 2), (2, 3), (3, 4)]);
    let status = saver.status();
    assert_eq!((status.saves, status.appends, status.failures), (1, 3, 0));
    assert!(status.last_durable.is_some());
}

#[test]
fn a_handle_is_complete_when_the_delta_is_durable() {
    for at in [At::Write, At::Sync, At::SyncDir] {
        let (saver, gate) = gated();
        let base = base(&saver, "auto", 1);
        gate.close(at);
        let handle = saver.append(base, delta(1, 2));
        gate.reached();
        assert!(!handle.is_complete(), "{at:?}");
        gate.open();
        assert_eq!(handle.wait().unwrap().now, 2, "{at:?}");
    }
}

#[test]
fn no_save_takes_the_place_of_one_that_a_delta_comes_after() {
    let (saver, gate, _) = held();
    let first = saver.save("auto", world(1), Details::new());
    // The save that the disk is held in has the number 1. So this one will be 2.
    let appended = saver.append(JournalBase::new("auto", 2, 1), delta(1, 2));
    let second = saver.save("auto", world(5), Details::new());
    gate.open();
    assert!(!first.wait().unwrap().coalesced);
    assert_eq!(appended.wait().unwrap().record, 1);
    assert_eq!(second.wait().unwrap().generation, Some(3));
    assert_eq!(number(&saver.load("auto").wait().unwrap().snapshot), 5);
}

#[test]
fn what_cannot_go_on_says_so_and_so_does_all_that_follows() {
    let saver = Saver::new(Slots::new(MemoryStore::new()));
    let old = base(&saver, "auto", 1);
    saver.append(old.clone(), delta(1, 2)).wait().unwrap();
    saver.save("auto", world(7), Details::new());
    let errors = [saver.append(old.clone(), delta(2, 3)), saver.append(old, delta(3, 4))];
    for error in errors.map(|handle| handle.wait().unwrap_err()) {
        assert!(error.is_conflict(), "{error}");
    }
    assert_eq!(saver.status().failures, 2);
    assert!(saver.status().last_error.is_some());
    let fresh = base(&saver, "auto", 9);
    saver.append(fresh, delta(9, 10)).wait().unwrap();
    assert_eq!(number(&saver.load("auto").wait().unwrap().snapshot), 10);
}

#[test]
fn a_delta_that_was_refused_or_cancelled_leaves_no_hole() {
    let (saver, gate, _) = held();
    let saver = saver.queue_max(1);
    let save = saver.save("auto", world(1), Details::new());
    let refused = saver.append(JournalBase::new("auto", 1, 1), delta(1, 2));
    assert!(refused.wait().unwrap_err().is_limit());
    gate.open();
    save.wait().unwrap();
    // What comes next does not begin where the save is.
    let error = saver.append(JournalBase::new("auto", 1, 1), delta(2, 3)).wait().unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(number(&saver.load("auto").wait().unwrap().snapshot), 1);

    let (saver, gate, _) = held();
    saver.save("auto", world(1), Details::new());
    let base = JournalBase::new("auto", 1, 1);
    let cancelled = saver.append(base.clone(), delta(1, 2));
    cancelled.cancel();
    let next = saver.append(base, delta(2, 3));
    gate.open();
    assert!(cancelled.wait().unwrap_err().is_cancelled());
    assert!(next.wait().unwrap_err().is_conflict());
    assert_eq!(number(&saver.load("auto").wait().unwrap().snapshot), 1);
}

#[test]
fn the_last_clone_waits_for_deltas_too() {
    let store = MemoryStore::new();
    let saver = Saver::new(Slots::new(store.clone()));
    let base = base(&saver, "auto", 1);
    for to in 2..=30 {
        saver.append(base.clone(), delta(to - 1, to));
    }
    drop(saver);
    assert_eq!(number(&Slots::new(store).load("auto").wait().unwrap().snapshot), 30);
}

#[test]
fn only_a_save_in_a_slot_that_nobody_replaced_has_a_journal() {
    let (saver, gate, _) = held();
    let first = saver.save("auto", world(1), Details::new());
    let second = saver.save("auto", world(2), Details::new());
    let elsewhere = saver.save(SaveTarget::blob(MemoryStore::new(), "copy"), world(1), Details::new());
    gate.open();
    assert!(first.wait().unwrap().journal_base(1).is_none(), "another world was saved in its place");
    assert_eq!(second.wait().unwrap().journal_base(2), Some(JournalBase::new("auto", 2, 2)));
    assert!(elsewhere.wait().unwrap().journal_base(1).is_none());
}

/// A save that is on its way, as front ends continue it.
fn requested(saver: &Saver, tick: u64) -> RequestedSave {
    let save = saver.save("auto", world(tick), Details::new());
    RequestedSave { slot: "auto".to_owned(), save, tick }
}

/// A save that a game requests, whose turn it is.
fn save_turn(saver: &Saver) -> (SaveTurn<()>, SaveHandle) {
    let (promise, save) = Promise::new();
    request_save(saver, "auto".into(), (), promise);
    match next_request::<(), ()>(saver) {
        Some(NextRequest::Save(turn)) => (turn, save),
        _ => panic!("a save was requested"),
    }
}

#[test]
fn deltas_may_follow_a_save_that_is_on_its_way() {
    let (saver, gate, _) = held();
    let base = requested(&saver, 1);
    let (turn, save) = save_turn(&saver);
    let first = turn.append(base.clone(), delta(1, 2));
    let second = submit_append_after(&saver, base.clone(), delta(2, 3));
    assert!(!first.is_complete());
    gate.open();
    let report = save.wait().unwrap();
    assert_eq!(report.generation, base.save.wait().unwrap().generation);
    assert_eq!(report.bytes, first.wait().unwrap().bytes);
    assert_eq!(second.wait().unwrap().record, 2);
    assert_eq!(number(&saver.load("auto").wait().unwrap().snapshot), 3);
    let status = saver.status();
    assert_eq!((status.saves, status.appends, status.failures), (2, 2, 0), "one save holds the thread up");
}

#[test]
fn a_delta_behind_a_save_that_fails_or_is_replaced_fails_too() {
    let (saver, gate, _) = held();
    let base = requested(&saver, 1);
    base.save.cancel();
    let (turn, save) = save_turn(&saver);
    let behind = turn.append(base, delta(1, 2));
    let replaced = requested(&saver, 3);
    let newer = saver.save("auto", world(5), Details::new());
    let behind_replaced = submit_append_after(&saver, replaced, delta(3, 4));
    gate.open();
    assert!(behind.wait().unwrap_err().is_conflict());
    assert!(save.wait().unwrap_err().to_string().contains("the save that this continues has failed"));
    newer.wait().unwrap();
    assert!(behind_replaced.wait().unwrap_err().is_conflict());
    assert_eq!(number(&saver.load("auto").wait().unwrap().snapshot), 5);
}
