//! A saver without a thread works in turns of its caller, and does the same as one with a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bonfire_store::{Details, MemoryStore, Saver, Slots, Store, Wait};
use bonfire_testkit::later_store::LaterStore;

use crate::common::{delta, number, sized_world, world};

/// More than the turns of any job of these tests.
const TURNS_MAX: usize = 10_000;

fn polled(store: impl Store + 'static) -> Saver {
    Saver::without_thread(Slots::new(store).clock(|| None))
}

/// Takes single turns, and answers the store in between, until nothing is left to do. Returns how many turns it took.
fn take_turns(saver: &Saver, store: Option<&LaterStore>) -> usize {
    for turns in 0..TURNS_MAX {
        if saver.is_idle() {
            return turns;
        }
        saver.poll(Duration::ZERO);
        store.map(LaterStore::answer);
    }
    panic!("the jobs do not end");
}

#[test]
fn nothing_is_done_until_it_is_polled() {
    let saver = polled(MemoryStore::new());
    assert!(!saver.has_thread());
    let save = saver.save("quick", world(1), Details::new());
    let load = saver.load("quick");
    assert!(!save.is_complete() && !saver.is_idle());
    assert_eq!(saver.status().queued, 2);
    saver.poll(Duration::MAX);
    assert_eq!(save.result().unwrap().unwrap().generation, Some(1));
    assert_eq!(number(&load.result().unwrap().unwrap().snapshot), 1);
    let status = saver.status();
    assert_eq!((status.saves, status.queued, status.running), (1, 0, None));
}

#[test]
fn a_store_that_answers_later_holds_up_its_job_and_nothing_else() {
    let store = LaterStore::new();
    let saver = polled(store.clone());
    let save = saver.save("quick", world(1), Details::new());
    let other = saver.save("other", world(2), Details::new());
    let load = saver.load("quick");
    saver.poll(Duration::MAX);
    assert!(store.is_waiting() && !save.is_complete());
    assert_eq!(saver.status().running.as_deref(), Some("save slot `quick`"));
    // What was not woken is left alone.
    let polls = store.polls();
    saver.poll(Duration::MAX);
    assert_eq!(store.polls(), polls);
    let mut order = Vec::new();
    while !load.is_complete() {
        assert!(store.answer(), "the job waits for nothing else");
        saver.poll(Duration::MAX);
        for (name, done) in [("save", save.is_complete()), ("other", other.is_complete())] {
            if done && !order.contains(&name) {
                order.push(name);
            }
        }
    }
    assert_eq!(order, ["save", "other"]);
    assert_eq!(number(&load.wait().unwrap().snapshot), 1);
}

#[test]
fn a_turn_does_a_slice_of_a_large_world_and_the_bytes_are_the_same() {
    let large = sized_world(7, 300_000);
    for compression in [bonfire::Compression::None, bonfire::Compression::Lz4] {
        let options = bonfire::EncodeOptions { compression, root_hash: true, ..Default::default() };
        let (sliced, whole) = (MemoryStore::new(), MemoryStore::new());
        let slots =
            |store: &MemoryStore| Slots::new(store.clone()).clock(|| None).encode_options(options.clone());
        let saver = Saver::without_thread(slots(&sliced));
        let save = saver.save("large", large.clone(), Details::new());
        // 2.4 MB of rows, which are packed or hashed once: that is nine slices at least.
        assert!(take_turns(&saver, None) >= 9);
        slots(&whole).save("large", &large, &Details::new()).wait().unwrap();
        let name = "large.00000001.bonfire";
        assert_eq!(sliced.get(name).wait().unwrap(), whole.get(name).wait().unwrap());
        assert_eq!(save.result().unwrap().unwrap().bytes, whole.head(name).wait().unwrap().unwrap().len);
        let load = saver.load("large");
        assert!(take_turns(&saver, None) >= 9);
        assert_eq!(number(&load.result().unwrap().unwrap().snapshot), 7);
    }
}

#[test]
fn a_caller_that_waits_does_the_jobs_itself() {
    let saver = polled(MemoryStore::new());
    let save = saver.save("quick", world(1), Details::new());
    let base = save.wait().unwrap().journal_base(1).unwrap();
    saver.append(base, delta(1, 2));
    let load = saver.load("quick");
    assert_eq!(number(&load.wait_timeout(Duration::MAX).unwrap().unwrap().snapshot), 2);
    let last = saver.save("last", world(3), Details::new());
    assert!(saver.finish(Duration::MAX) && last.is_complete());
    let slots = saver.slots().clone();
    saver.save("dropped", world(4), Details::new());
    drop(saver);
    assert_eq!(number(&slots.load("dropped").wait().unwrap().snapshot), 4);
}

#[test]
fn a_caller_that_waits_is_woken_by_the_store() {
    let store = LaterStore::new();
    let saver = polled(store.clone());
    let save = saver.save("quick", world(1), Details::new());
    assert!(save.wait_timeout(Duration::from_millis(1)).is_none());
    assert!(!saver.finish(Duration::ZERO));
    let answers = std::thread::spawn({
        let (store, save) = (store.clone(), save.clone());
        move || {
            while !save.is_complete() {
                store.answer();
                std::thread::yield_now();
            }
        }
    });
    // Two callers share the work, and neither misses the end.
    let other = std::thread::spawn({
        let save = save.clone();
        move || save.wait().map(|report| report.generation)
    });
    assert_eq!(save.wait().unwrap().generation, Some(1));
    assert_eq!(other.join().unwrap().unwrap(), Some(1));
    answers.join().unwrap();
}

#[test]
fn what_is_left_when_somebody_has_given_up_fails() {
    let store = LaterStore::new();
    let saver = polled(store);
    let save = saver.save("quick", world(1), Details::new());
    assert!(!saver.finish(Duration::ZERO));
    drop(saver);
    assert!(save.result().unwrap().is_err(), "nobody will do it");
}

#[test]
fn a_handle_that_is_awaited_is_woken_by_a_poll() {
    #[derive(Default)]
    struct Wakes(AtomicUsize);
    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let saver = polled(MemoryStore::new());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut future = Box::pin(saver.save("quick", world(1), Details::new()).into_future());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    saver.poll(Duration::MAX);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(matches!(future.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(_))));
}

#[test]
fn jobs_of_jobs_come_after_them_and_their_panics_are_errors() {
    let saver = polled(MemoryStore::new());
    let inner = saver.clone();
    let outer = saver.run(move |_| {
        let save = inner.save("inner", world(1), Details::new());
        inner.poll(Duration::MAX);
        assert!(!inner.finish(Duration::ZERO), "this job is not over");
        assert!(save.wait().is_err(), "it would wait for itself");
        Ok(save)
    });
    let failed = saver.run_async(async |_| -> bonfire::Result<()> { panic!("a bug of the game") });
    let list = saver.run_async(async |slots| slots.list().await);
    saver.poll(Duration::MAX);
    assert_eq!(outer.wait().unwrap().wait().unwrap().generation, Some(1));
    assert!(failed.wait().unwrap_err().to_string().contains("a bug of the game"));
    assert!(list.wait().unwrap().is_empty(), "it was asked for before the save of the first job");
}

#[test]
fn a_load_in_slices_can_be_cancelled() {
    let saver = polled(MemoryStore::new());
    saver.save("large", sized_world(7, 300_000), Details::new()).wait().unwrap();
    let load = saver.load("large");
    for _ in 0..3 {
        saver.poll(Duration::ZERO);
    }
    assert!(!load.is_complete());
    load.cancel();
    saver.poll(Duration::MAX);
    assert!(load.result().unwrap().unwrap_err().is_cancelled());
}

#[test]
fn a_saver_with_a_thread_need_not_be_polled() {
    let saver = Saver::new(Slots::new(MemoryStore::new()));
    assert!(saver.has_thread());
    saver.poll(Duration::MAX);
    assert_eq!(saver.save("quick", world(1), Details::new()).wait().unwrap().generation, Some(1));
}
