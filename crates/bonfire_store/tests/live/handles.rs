//! Promises and handles by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bonfire::Error;
use bonfire_store::engine::{HandleFuture, Promise};
use bonfire_store::{Phase, Progress, Saver};

use crate::gate::gated;

#[test]
fn what_nobody_has_begun_is_not_waited_for() {
    let (promise, handle) = Promise::<u32>::new();
    assert!(handle.wait().unwrap_err().is_misuse());
    assert!(handle.wait_timeout(Duration::from_millis(1)).is_none(), "this one ends by itself");
    assert!(handle.result().is_none() && !handle.is_complete());
    promise.start();
    let waiter = std::thread::spawn({
        let handle = handle.clone();
        move || handle.wait()
    });
    promise.complete(Ok(7));
    assert_eq!(waiter.join().unwrap().unwrap(), 7);
    assert_eq!(handle.wait().unwrap(), 7);
    assert_eq!(handle.wait_timeout(Duration::ZERO).unwrap().unwrap(), 7);
}

#[test]
fn what_completes_without_being_begun_is_complete() {
    let (promise, handle) = Promise::<u32>::new();
    promise.complete(Err(Error::custom("no")));
    assert_eq!(handle.wait().unwrap_err().to_string(), "no");
    assert_eq!(handle.progress().phase, Phase::Done);
}

#[test]
fn a_promise_that_is_dropped_is_an_error() {
    let (promise, handle) = Promise::<u32>::new();
    promise.start();
    let waiter = std::thread::spawn({
        let handle = handle.clone();
        move || handle.wait()
    });
    drop(promise);
    assert!(waiter.join().unwrap().unwrap_err().to_string().contains("given up"));
    assert!(handle.result().unwrap().is_err());
}

#[test]
fn a_request_to_cancel_is_seen_by_the_promise() {
    let (promise, handle) = Promise::<u32>::new();
    assert!(!promise.is_cancelled());
    handle.cancel();
    assert!(promise.is_cancelled() && handle.is_cancelled() && !handle.is_complete());
}

#[test]
fn a_handle_is_a_future() {
    let (promise, handle) = Promise::<u32>::new();
    let others: Vec<_> = (0..3)
        .map(|_| {
            let handle = handle.clone();
            std::thread::spawn(move || pollster::block_on(handle))
        })
        .collect();
    promise.start();
    promise.complete(Ok(3));
    for other in others {
        assert_eq!(other.join().unwrap().unwrap(), 3);
    }
    assert_eq!(pollster::block_on(handle).unwrap(), 3);
}

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn each_handle_wakes_whoever_polled_it_last() {
    fn poll(handle: &mut HandleFuture<u32>, counter: &Arc<Counter>) -> Poll<bonfire::Result<u32>> {
        let waker = Waker::from(counter.clone());
        std::pin::Pin::new(handle).poll(&mut Context::from_waker(&waker))
    }
    let (promise, origin) = Promise::<u32>::new();
    let mut handle = origin.clone().into_future();
    let counters: [Arc<Counter>; 4] = Default::default();
    assert!(poll(&mut handle, &counters[0]).is_pending());
    assert!(poll(&mut handle, &counters[1]).is_pending());
    let mut other = origin.clone().into_future();
    assert!(poll(&mut other, &counters[2]).is_pending());
    let mut gone = origin.into_future();
    assert!(poll(&mut gone, &counters[3]).is_pending());
    drop(gone);
    promise.complete(Ok(1));
    let woken = counters.each_ref().map(|counter| counter.0.load(Ordering::Relaxed));
    assert_eq!(woken, [0, 1, 1, 0]);
    assert!(poll(&mut handle, &counters[0]).is_ready());
}

#[test]
fn a_promise_says_how_far_it_is() {
    let (promise, handle) = Promise::<u32>::new();
    assert_eq!(handle.progress(), Progress::default());
    promise.set_progress(Progress::new(Phase::Migrating, 1, 4));
    assert_eq!(handle.progress(), Progress::new(Phase::Migrating, 1, 4));
    let watch = promise.reporter();
    std::thread::spawn(move || watch.set(Progress::new(Phase::Decoding, 3, 4))).join().unwrap();
    assert_eq!(handle.progress(), Progress::new(Phase::Decoding, 3, 4));
    assert!(format!("{handle:?}").contains("pending") && format!("{promise:?}").contains("Decoding"));
    promise.complete(Ok(1));
    assert_eq!((handle.progress().phase, handle.progress().fraction()), (Phase::Done, 1.0));
}

#[test]
fn all_of_it_may_be_used_from_any_thread() {
    fn anywhere<T: Send + Sync + 'static>(_: &T) {}
    let (saver, _) = gated();
    let (promise, handle) = Promise::<u32>::new();
    anywhere::<Saver>(&saver);
    anywhere(&promise);
    anywhere(&handle);
    anywhere(&promise.reporter());
    anywhere(&saver.load("quick"));
    assert!(format!("{saver:?}").contains("queued"));
}
