//! Requests are done in order, and saves that wait are replaced by newer ones where nobody notices.

use bonfire_store::{Details, MemoryStore, SaveHandle, SaveTarget, Saver, Wait};

use crate::common::{number, world};
use crate::gate::{gated, held};

fn save(saver: &Saver, slot: &str, number: u64) -> SaveHandle {
    saver.save(slot, world(number), Details::new())
}

fn loaded(saver: &Saver, slot: &str) -> u64 {
    number(&saver.load(slot).wait().unwrap().snapshot)
}

#[test]
fn a_load_finds_what_was_asked_for_before_it() {
    let (saver, gate, _) = held();
    save(&saver, "quick", 1);
    let first = saver.load("quick");
    save(&saver, "quick", 2);
    let second = saver.load("quick");
    let gone = saver.delete_saves("quick");
    let third = saver.load("quick");
    gate.open();
    assert_eq!(number(&first.wait().unwrap().snapshot), 1);
    assert_eq!(number(&second.wait().unwrap().snapshot), 2);
    assert_eq!(gone.wait().unwrap(), 2);
    assert!(third.wait().unwrap_err().is_not_found());
    assert_eq!(saver.status().coalesced, 0, "a load in between would have noticed");
}

#[test]
fn only_the_newest_of_several_waiting_saves_is_written() {
    let (saver, gate, first) = held();
    let handles = [1, 2, 3].map(|number| save(&saver, "quick", number));
    assert_eq!((saver.status().queued, saver.status().coalesced), (1, 2));
    assert_eq!(saver.status().running.as_deref(), Some("save slot `first`"));
    gate.open();
    let reports = handles.map(|handle| handle.wait().unwrap());
    assert_eq!(reports.each_ref().map(|report| report.coalesced), [true, true, false]);
    for report in reports {
        assert_eq!((report.generation, report.entities), (Some(2), 20));
        assert_eq!(report.target, SaveTarget::from("quick"));
        assert!(report.pruned.is_empty() && report.prune_error.is_none());
    }
    assert_eq!(loaded(&saver, "quick"), 3);
    let first = first.wait().unwrap();
    assert!(!first.coalesced);
    let status = saver.status();
    assert_eq!((status.saves, status.failures, status.coalesced), (2, 0, 2));
    assert!(status.bytes > first.bytes && status.last_durable.is_some());
    assert!(status.bytes_per_second.is_some_and(|speed| speed > 0.0));
}

#[test]
fn a_save_that_is_being_written_is_not_replaced() {
    let (saver, gate, first) = held();
    let second = save(&saver, "first", 2);
    gate.open();
    assert_eq!(first.wait().unwrap().generation, Some(1));
    assert_eq!(second.wait().unwrap().generation, Some(2));
    assert_eq!(saver.status().coalesced, 0);
}

#[test]
fn the_newer_save_has_the_place_of_the_older_one() {
    let (saver, gate, _) = held();
    save(&saver, "a", 1);
    save(&saver, "b", 1);
    saver.load("b");
    save(&saver, "a", 2);
    save(&saver, "b", 2);
    gate.open();
    assert!(saver.finish(std::time::Duration::MAX));
    let expected =
        ["first.00000001.bonfire", "a.00000002.bonfire", "b.00000003.bonfire", "b.00000004.bonfire"];
    assert_eq!(gate.named(), expected);
    assert_eq!((loaded(&saver, "a"), loaded(&saver, "b")), (2, 2));
}

#[test]
fn what_would_notice_keeps_saves_apart() {
    type Ask = fn(&Saver);
    let between: [(&str, Ask); 4] = [
        ("load", |saver| drop(saver.load("quick"))),
        ("delete", |saver| drop(saver.delete_saves("quick"))),
        ("run", |saver| drop(saver.run(|_| Ok(())))),
        ("load of another slot", |saver| drop(saver.load("other"))),
    ];
    for (what, ask) in between {
        let (saver, gate, _) = held();
        save(&saver, "quick", 1);
        ask(&saver);
        save(&saver, "quick", 2);
        gate.open();
        assert!(saver.finish(std::time::Duration::MAX));
        let expected = u64::from(what == "load of another slot");
        assert_eq!(saver.status().coalesced, expected, "{what}");
        assert_eq!(loaded(&saver, "quick"), 2);
    }
}

#[test]
fn paths_and_blobs_are_replaced_too() {
    let directory = tempfile::tempdir().unwrap();
    let store = MemoryStore::new();
    let path = SaveTarget::from(directory.path().join("a.save"));
    for target in [path, SaveTarget::blob(store.clone(), "a")] {
        let (saver, gate, _) = held();
        let old = saver.save(target.clone(), world(1), Details::new());
        let new = saver.save(target.clone(), world(2), Details::new());
        let apart = saver.save(SaveTarget::blob(store.clone(), "b"), world(3), Details::new());
        gate.open();
        assert!(old.wait().unwrap().coalesced && !new.wait().unwrap().coalesced);
        assert!(!apart.wait().unwrap().coalesced);
        assert_eq!(number(&saver.load(target).wait().unwrap().snapshot), 2);
    }
}

#[test]
fn the_handles_of_replaced_saves_share_a_failure() {
    let (saver, gate, _) = held();
    let old = save(&saver, "no such / name", 1);
    let new = save(&saver, "no such / name", 2);
    gate.open();
    let (old, new) = (old.wait().unwrap_err(), new.wait().unwrap_err());
    assert_eq!(old.to_string(), new.to_string());
    let status = saver.status();
    assert_eq!((status.failures, status.coalesced), (1, 1), "one save failed");
    assert_eq!(status.last_error.unwrap().to_string(), new.to_string());
}

#[test]
fn what_is_too_much_is_refused_at_once() {
    let (saver, gate, first) = held();
    drop(saver.clone().queue_max(2));
    let waiting = [save(&saver, "a", 1), save(&saver, "b", 1)];
    let refused = [
        save(&saver, "c", 1).result(),
        saver.delete_saves("a").result().map(|result| result.map(|_| unreachable())),
    ];
    for result in refused {
        let error = result.expect("complete at once").unwrap_err();
        assert!(error.is_limit() && error.to_string().contains("2 jobs wait"), "{error}");
    }
    let replacement = save(&saver, "a", 2);
    assert_eq!(replacement.result().map(drop), None, "it needs no room");
    let status = saver.status();
    assert_eq!((status.refused, status.queued, status.failures), (2, 2, 0));
    gate.open();
    for handle in waiting.into_iter().chain([first, replacement]) {
        handle.wait().unwrap();
    }
    assert_eq!(loaded(&saver, "a"), 2);
    assert!(saver.load("c").wait().unwrap_err().is_not_found());
    save(&saver, "c", 3).wait().unwrap();
}

fn unreachable() -> bonfire_store::SaveReport {
    panic!("it is refused")
}

#[test]
fn one_at_a_time_is_possible() {
    let (saver, gate) = gated();
    drop(saver.clone().queue_max(0));
    for number in 1..50 {
        save(&saver, "quick", number).wait().unwrap();
    }
    gate.close(crate::gate::At::Sync);
    let running = save(&saver, "quick", 50);
    gate.reached();
    assert!(save(&saver, "other", 1).result().expect("at once").unwrap_err().is_limit());
    gate.open();
    running.wait().unwrap();
}

#[test]
fn anything_else_is_done_in_order() {
    let (saver, gate, _) = held();
    save(&saver, "quick", 1);
    let list = saver.run(|slots| slots.list().wait());
    let renamed = saver.run(|slots| slots.rename("quick", "slow").wait());
    let load = saver.load("slow");
    gate.open();
    let names: Vec<String> = list.wait().unwrap().into_iter().map(|slot| slot.name).collect();
    assert_eq!(names, ["first", "quick"]);
    renamed.wait().unwrap();
    assert_eq!(number(&load.wait().unwrap().snapshot), 1);
}
