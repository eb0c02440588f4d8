//! Requests of front ends: they wait for the end of a frame in the same queue as everything else.

use bonfire_store::engine::{
    NextRequest, Promise, RefusedRequest, RequestScope, SaveTurn, next_request, request, request_count,
    request_save, submit_delete, submit_load,
};
use bonfire_store::{Details, Phase, SaveHandle, Saver};

use crate::common::{number, world};
use crate::gate::held;

/// The options of a save: the number of the world that the front end captures.
struct Capture(u64);
/// Another request.
#[derive(Debug, PartialEq)]
struct Other(&'static str);

fn save(saver: &Saver, slot: &str, number: u64) -> SaveHandle {
    let (promise, handle) = Promise::new();
    request_save(saver, slot.into(), Capture(number), promise);
    handle
}

fn other(saver: &Saver, what: &'static str, scope: RequestScope) {
    request(saver, what, scope, Other(what)).unwrap();
}

fn next(saver: &Saver) -> Option<NextRequest<Capture, Other>> {
    next_request(saver)
}

fn next_save(saver: &Saver) -> SaveTurn<Capture> {
    match next(saver) {
        Some(NextRequest::Save(turn)) => turn,
        _ => panic!("a save is next"),
    }
}

fn capture(turn: SaveTurn<Capture>) {
    let snapshot = world(turn.options.0);
    turn.save(snapshot, Details::new(), None);
}

/// Does the part of the front end. Returns what was next, in its order.
fn end_frame(saver: &Saver) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(next) = next(saver) {
        order.push(match next {
            NextRequest::Save(turn) => {
                let text = format!("{} {}", turn.target(), turn.options.0);
                capture(turn);
                text
            }
            NextRequest::Other(Other(what)) => what.to_owned(),
        });
    }
    order
}

#[test]
fn requests_are_taken_in_their_order_and_newer_saves_take_the_place_of_older_ones() {
    let (saver, gate, _) = held();
    let first = [save(&saver, "a", 1), save(&saver, "b", 2), save(&saver, "a", 3)];
    other(&saver, "delete a", RequestScope::Target("a".into()));
    let second = [save(&saver, "b", 4), save(&saver, "a", 5), save(&saver, "a", 6)];
    other(&saver, "load", RequestScope::Everything);
    let last = save(&saver, "b", 7);
    assert_eq!((request_count(&saver), saver.status().requested, saver.status().coalesced), (6, 6, 3));
    let expected = ["slot `a` 3", "slot `b` 4", "delete a", "slot `a` 6", "load", "slot `b` 7"];
    assert_eq!(end_frame(&saver), expected);
    // The thread has not begun with any of them, so captured saves take the place of older ones, too.
    assert_eq!((request_count(&saver), saver.status().queued, saver.status().coalesced), (0, 2, 5));
    gate.open();
    let coalesced = |handle: &SaveHandle| handle.wait().unwrap().coalesced;
    assert_eq!(first.each_ref().map(coalesced), [true; 3]);
    assert_eq!(second.each_ref().map(coalesced), [true, true, false]);
    assert!(!last.wait().unwrap().coalesced);
    let loaded = |slot: &str| number(&saver.load(slot).wait().unwrap().snapshot);
    assert_eq!((loaded("a"), loaded("b")), (6, 7));
}

#[test]
fn all_that_waits_counts_whatever_it_waits_for() {
    let (saver, _gate, _) = held();
    drop(saver.clone().queue_max(3));
    let captured = saver.save("a", world(1), Details::new());
    let _waiting = [save(&saver, "b", 2), save(&saver, "c", 3)];
    let refused = save(&saver, "d", 4);
    assert!(refused.result().expect("at once").unwrap_err().is_limit());
    assert!(saver.save("e", world(5), Details::new()).result().expect("at once").unwrap_err().is_limit());
    let RefusedRequest { request, error } =
        request(&saver, "load everything", RequestScope::Everything, Other("load")).unwrap_err();
    assert_eq!(request, Other("load"));
    assert!(error.is_limit() && error.to_string().contains("cannot load everything: 3 jobs wait"), "{error}");
    assert_eq!(saver.status().refused, 3);
    // A save that takes a place needs none, and what was taken comes back whatever came in between.
    let replaced = save(&saver, "b", 6);
    let turn = next_save(&saver);
    let in_between = save(&saver, "f", 7);
    capture(turn);
    assert_eq!((saver.status().queued, request_count(&saver)), (2, 2));
    assert!([captured, replaced, in_between].iter().all(|handle| !handle.is_complete()));
}

#[test]
fn later_steps_of_a_request_are_never_refused() {
    let (saver, gate, _) = held();
    drop(saver.clone().queue_max(2));
    other(&saver, "load", RequestScope::Everything);
    other(&saver, "delete", RequestScope::Target("b".into()));
    assert!(matches!(next(&saver), Some(NextRequest::Other(Other("load")))));
    assert!(matches!(next(&saver), Some(NextRequest::Other(Other("delete")))));
    // Others have taken the room meanwhile.
    let _waiting = [save(&saver, "c", 3), save(&saver, "d", 4)];
    assert!(saver.load("first").result().expect("at once").unwrap_err().is_limit(), "a request is");
    let load = submit_load(&saver, "first".into(), bonfire::Snapshot::options(), |_, _| Ok(7));
    let (promise, deletion) = Promise::new();
    submit_delete(&saver, "b", promise);
    gate.open();
    assert_eq!((load.wait().unwrap(), deletion.wait().unwrap()), (7, 0));
}

#[test]
fn a_request_that_was_not_taken_cannot_be_waited_for() {
    let (saver, gate, first) = held();
    gate.open();
    first.wait().unwrap();
    let waiting = save(&saver, "a", 1);
    assert!(waiting.wait().unwrap_err().is_misuse(), "the frame cannot end while it waits");
    assert_eq!(waiting.progress().phase, Phase::Waiting);
    // The thread does not wait for the front end.
    assert!(saver.is_idle() && saver.run(|_| Ok(7)).wait().unwrap() == 7);
    capture(next_save(&saver));
    assert_eq!(waiting.wait().unwrap().generation, Some(2));
}

#[test]
fn a_turn_can_be_cancelled_failed_and_dropped() {
    let (saver, gate, first) = held();
    gate.open();
    first.wait().unwrap();
    let (older, newer) = (save(&saver, "a", 1), save(&saver, "a", 2));
    newer.cancel();
    let turn = next_save(&saver);
    assert!(!turn.is_cancelled(), "the older request still wants it");
    older.cancel();
    assert!(turn.is_cancelled());
    turn.fail(&bonfire::Error::cancelled("by the game"));
    assert!([older, newer].iter().all(|handle| handle.wait().unwrap_err().is_cancelled()));
    let dropped = save(&saver, "a", 3);
    drop(next_save(&saver));
    assert!(dropped.wait().unwrap_err().to_string().contains("given up"));
    let never_taken = save(&saver, "a", 4);
    drop(saver);
    assert!(never_taken.wait().is_err(), "the saver is gone");
}

#[test]
fn two_front_ends_take_their_own_requests() {
    let (saver, _gate, _) = held();
    let mine = save(&saver, "a", 1);
    request(&saver, "theirs", RequestScope::Everything, 7_u32).unwrap();
    assert!(matches!(next_request::<(), u32>(&saver), Some(NextRequest::Other(7))));
    assert!(next_request::<(), u32>(&saver).is_none());
    // The type of one front end's other requests may be that of another one's saves.
    assert!(next_request::<(), Capture>(&saver).is_none());
    assert_eq!(end_frame(&saver), ["slot `a` 1"]);
    assert!(!mine.is_complete());
}
