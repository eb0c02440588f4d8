//! What a review of saving in the background found.

use std::sync::mpsc::channel;
use std::time::Duration;

use bonfire::engine::SnapshotWriter;
use bonfire::{Registry, Snapshot};
use bonfire_store::engine::{CapturedSave, submit_save};
use bonfire_store::{Details, MemoryStore, Saver, Slots, Wait};

fn snapshot() -> Snapshot {
    SnapshotWriter::new(&Registry::new()).finish().unwrap()
}

#[test]
fn a_deadline_that_passed_long_ago_does_not_lose_later_saves() {
    let slots = Slots::new(MemoryStore::new());
    let saver = Saver::new(slots.clone());
    let (open, closed) = channel::<()>();
    let held = saver.run(move |_| {
        let _ = closed.recv();
        Ok(())
    });
    // The game looks whether it is done, as before a dialog, and goes on.
    assert!(!saver.finish(Duration::from_millis(10)));
    drop(open);
    held.wait().unwrap();
    assert!(saver.is_idle());
    // Much later.
    saver.run(|_| {
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    });
    saver.save("last", snapshot(), Details::new());
    drop(saver);
    assert!(slots.load("last").wait().is_ok(), "the drop did not wait");
}

#[test]
fn a_save_that_nobody_follows_is_made() {
    let saver = Saver::new(Slots::new(MemoryStore::new()));
    let (target, details) = ("quick".into(), Details::new());
    drop(submit_save(&saver, CapturedSave { target, snapshot: snapshot(), details, encode: None }));
    assert!(saver.load("quick").wait().is_ok(), "{:?}", saver.status());
}

#[test]
fn waiting_with_a_time_inside_of_a_job_says_that_it_is_hopeless() {
    let saver = Saver::new(Slots::new(MemoryStore::new()));
    let inner = saver.clone();
    let job = saver.run(move |_| {
        let later = inner.save("quick", snapshot(), Details::new());
        Ok(later.wait_timeout(Duration::MAX).is_none())
    });
    assert!(job.wait().unwrap());
}
