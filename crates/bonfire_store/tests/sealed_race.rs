//! A blob that is replaced while parts of it are read: readers get one state of it or the other.
#![cfg(feature = "seal")]

mod sealed_support;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bonfire_store::backend::StoreFuture;
use bonfire_store::{Batch, BlobHead, MemoryStore, Payload, Sealed, Store, Suite, Version, Wait};
use bytes::Bytes;
use sealed_support::*;

/// Replaces the blob before one of the calls that read it.
struct Meddling {
    store: MemoryStore,
    other: Vec<u8>,
    calls: AtomicUsize,
    meddles_at: usize,
}

impl Meddling {
    fn meddle(&self, name: &str) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.meddles_at {
            put(&self.store, name, self.other.clone());
        }
    }
}

impl Store for Meddling {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        self.store.change(batch)
    }
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        self.meddle(name);
        self.store.get(name)
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        self.meddle(name);
        self.store.get_range(name, range)
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        self.meddle(name);
        self.store.head(name)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.store.list(prefix)
    }
}

/// A store with `old` in it that becomes `new` before its `meddles_at`-th read.
fn meddling(old: &[u8], new: Payload, meddles_at: usize) -> Sealed<Meddling> {
    let store = MemoryStore::new();
    put(&sealed(&store, Suite::XChaCha20Poly1305), "a", new);
    let other = raw(&store, "a");
    put(&sealed(&store, Suite::XChaCha20Poly1305), "a", old.to_vec());
    Sealed::new(Meddling { store, other, calls: AtomicUsize::new(0), meddles_at }, key(1))
}

#[test]
fn a_blob_may_be_replaced_between_any_two_reads() {
    let old = text(140_000);
    for (len, open) in [(140_000, 0), (140_000, 30_000), (1000, 10), (140_001, 0)] {
        let new = text(len);
        for meddles_at in 0..5 {
            for (start, end) in [(0, 10), (900, 100_000)] {
                let store = meddling(&old, open_payload(&new, open), meddles_at);
                let part = range(&store, "a", start..end).unwrap();
                let states = [&old, &new].map(|plain| &plain[start..end.min(plain.len())]);
                assert!(states.contains(&&part[..]), "{len} {open} {meddles_at}");
            }
            let head = meddling(&old, open_payload(&new, open), meddles_at).head("a").wait();
            let head = head.unwrap().unwrap();
            assert!([old.len(), new.len()].contains(&(head.len as usize)));
            assert_eq!(head.len, head.readable);
        }
    }
}

#[test]
fn a_blob_that_is_replaced_while_it_is_sealed_again_stays() {
    let store = meddling(&text(100), open_payload(&text(200), 0), 1);
    assert!(store.reseal("a").wait().unwrap_err().is_conflict());
    assert!(get(&store, "a").unwrap() == text(200));
}

#[test]
fn readers_never_see_half_of_a_replaced_blob() {
    let memory = MemoryStore::new();
    let store = sealed(&memory, Suite::XChaCha20Poly1305);
    let plain = |number: u8| vec![number; 1000 + 30_000 * usize::from(number)];
    put(&store, "a", plain(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..50 * bonfire_testkit::scale() {
                put(&store, "a", open_payload(&plain((number % 5) as u8), (number % 3) as usize * 400));
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let part = range(&store, "a", 700..200_000).unwrap();
            let number = part[0];
            assert!(part == plain(number)[700..], "{number}");
            let len = store.head("a").wait().unwrap().unwrap().len as usize;
            assert!((0..5).any(|number| plain(number).len() == len));
        }
    });
}
