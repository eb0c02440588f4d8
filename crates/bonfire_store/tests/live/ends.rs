//! Cancelling, finishing, dropping.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use bonfire_store::{Details, MemoryStore, Saver, Slots, Wait};

use crate::common::{number, world};
use crate::gate::{At, gated, held};

#[test]
fn what_waits_can_be_cancelled() {
    let (saver, gate, first) = held();
    let save = saver.save("quick", world(1), Details::new());
    let load = saver.load("first");
    let run = saver.run(|slots| slots.save_value("ran", &true));
    save.cancel();
    load.clone().cancel();
    run.cancel();
    first.cancel();
    assert!(save.is_cancelled() && load.is_cancelled());
    assert!(!save.is_complete(), "its turn has not come");
    gate.open();
    assert!(save.wait().unwrap_err().is_cancelled());
    assert!(load.wait().unwrap_err().is_cancelled());
    assert!(run.wait().unwrap_err().is_cancelled());
    assert_eq!(first.wait().unwrap().generation, Some(1), "what is being written is finished");
    assert!(saver.load("quick").wait().unwrap_err().is_not_found());
    assert_eq!(saver.slots().load_value::<bool>("ran").unwrap(), None);
    let status = saver.status();
    assert_eq!((status.cancelled, status.failures, status.saves), (3, 0, 1));
}

#[test]
fn a_save_that_an_older_request_waits_for_is_not_cancelled() {
    for (cancel_old, cancel_new) in [(false, true), (true, false), (true, true)] {
        let (saver, gate, _) = held();
        let old = saver.save("quick", world(1), Details::new());
        let new = saver.save("quick", world(2), Details::new());
        if cancel_old {
            old.cancel();
        }
        if cancel_new {
            new.cancel();
        }
        gate.open();
        let (old, new) = (old.wait(), new.wait());
        if cancel_old && cancel_new {
            assert!(old.unwrap_err().is_cancelled() && new.unwrap_err().is_cancelled());
            assert!(saver.load("quick").wait().unwrap_err().is_not_found());
        } else {
            assert!(old.unwrap().coalesced && !new.unwrap().coalesced);
            assert_eq!(number(&saver.load("quick").wait().unwrap().snapshot), 2);
        }
    }
}

#[test]
fn the_drop_of_the_last_clone_waits() {
    let (saver, gate, first) = held();
    let last = saver.save("quick", world(7), Details::new());
    let slots = saver.slots().clone();
    drop(saver.clone());
    assert!(!first.is_complete(), "not the last");
    let (dropping, seen) = channel();
    let opener = std::thread::spawn(move || {
        seen.recv().unwrap();
        // If the drop does not wait, what is asserted below comes first.
        std::thread::sleep(Duration::from_millis(30));
        gate.open();
    });
    dropping.send(()).unwrap();
    drop(saver);
    assert!(first.is_complete() && last.is_complete());
    assert_eq!(number(&slots.load("quick").wait().unwrap().snapshot), 7);
    opener.join().unwrap();
}

#[test]
fn the_thread_ends_with_the_last_clone_and_keeps_nothing() {
    let store = Arc::new(MemoryStore::new());
    let saver = Saver::new(Slots::new(store.clone()));
    saver.save("quick", world(1), Details::new()).wait().unwrap();
    drop(saver);
    assert_eq!(Arc::strong_count(&store), 1);
}

#[test]
fn a_saver_that_was_never_used_ends_too() {
    let (saver, _) = gated();
    assert!(saver.is_idle() && saver.finish(Duration::ZERO));
}

#[test]
fn finish_waits_until_everything_is_durable() {
    let (saver, gate, first) = held();
    let last = saver.save("quick", world(1), Details::new());
    assert!(!saver.is_idle());
    let opener = std::thread::spawn(move || gate.open());
    assert!(saver.finish(Duration::MAX));
    assert!(saver.is_idle() && first.is_complete() && last.is_complete());
    opener.join().unwrap();
}

#[test]
fn after_a_deadline_has_passed_the_drop_does_not_wait() {
    let (saver, gate, first) = held();
    let last = saver.save("quick", world(1), Details::new());
    let slots = saver.slots().clone();
    assert!(!saver.finish(Duration::from_millis(1)));
    drop(saver);
    assert!(!first.is_complete(), "the gate is closed");
    // What was asked for is done all the same, if the process lives.
    gate.open();
    last.wait().unwrap();
    assert_eq!(number(&slots.load("quick").wait().unwrap().snapshot), 1);
}

#[test]
fn after_a_later_finish_in_time_the_drop_waits_again() {
    let (saver, gate, _) = held();
    assert!(!saver.finish(Duration::ZERO));
    gate.open();
    assert!(saver.finish(Duration::MAX));
    gate.close(At::Sync);
    let last = saver.save("quick", world(1), Details::new());
    gate.reached();
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        gate.open();
    });
    drop(saver);
    assert!(last.is_complete());
    opener.join().unwrap();
}

#[test]
fn a_job_may_hold_the_last_clone() {
    let (saver, gate, first) = held();
    let (clone, slots) = (saver.clone(), saver.slots().clone());
    let (dropped, wait) = channel();
    let job = saver.run(move |_| {
        wait.recv().unwrap();
        assert!(!clone.finish(Duration::MAX), "it would wait for itself");
        clone.save("last", world(5), Details::new());
        drop(clone);
        Ok(())
    });
    drop(saver);
    dropped.send(()).unwrap();
    gate.open();
    first.wait().unwrap();
    job.wait().unwrap();
    // Nobody can wait for that one but by looking.
    while !slots.exists("last").wait().unwrap() {
        std::thread::yield_now();
    }
}

#[test]
fn a_job_cannot_wait_for_a_later_one() {
    let (saver, _) = gated();
    let inner = saver.clone();
    let job = saver.run(move |_| {
        let handle = inner.save("quick", world(1), Details::new());
        assert!(handle.wait().unwrap_err().is_misuse());
        Ok(handle)
    });
    job.wait().unwrap().wait().unwrap();
    // Of another saver it can.
    let (other, _) = gated();
    let job = saver.run(move |_| other.save("quick", world(1), Details::new()).wait());
    job.wait().unwrap();
}
