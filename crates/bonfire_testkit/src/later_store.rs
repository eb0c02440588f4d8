//! A store that answers later, as the stores of browsers do.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bonfire_store::backend::StoreFuture;
use bonfire_store::{Batch, BlobHead, MemoryStore, Store, Version};
use bytes::Bytes;

/// A store in memory whose calls are pending until a test [answers](Self::answer) them. Clones share it.
#[derive(Clone, Default)]
pub struct LaterStore {
    blobs: MemoryStore,
    calls: Arc<Mutex<Calls>>,
}

#[derive(Default)]
struct Calls {
    asked: u64,
    answered: u64,
    polls: u64,
    wakers: Vec<Waker>,
}

impl LaterStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same blobs, in a store that answers at once.
    pub fn blobs(&self) -> &MemoryStore {
        &self.blobs
    }

    /// Answers the calls that wait, and wakes their futures. Returns true if there were any.
    pub fn answer(&self) -> bool {
        let mut calls = self.calls();
        let waited = calls.answered < calls.asked;
        calls.answered = calls.asked;
        let wakers = std::mem::take(&mut calls.wakers);
        drop(calls);
        wakers.into_iter().for_each(Waker::wake);
        waited
    }

    /// Returns true if a call waits for its answer.
    pub fn is_waiting(&self) -> bool {
        let calls = self.calls();
        calls.answered < calls.asked
    }

    /// How often futures of this store were polled.
    pub fn polls(&self) -> u64 {
        self.calls().polls
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the test answers.
    async fn answered(&self) {
        let mut number = None;
        std::future::poll_fn(|context| {
            let mut calls = self.calls();
            calls.polls += 1;
            let number = *number.get_or_insert_with(|| {
                calls.asked += 1;
                calls.asked
            });
            if number <= calls.answered {
                return Poll::Ready(());
            }
            calls.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn later<'a, T: 'a>(
        &'a self,
        call: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.answered().await;
            call().await
        })
    }
}

impl Store for LaterStore {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        self.later(move || self.blobs.change(batch))
    }
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        self.later(move || self.blobs.get(name))
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        self.later(move || self.blobs.get_range(name, range))
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        self.later(move || self.blobs.head(name))
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.later(move || self.blobs.list(prefix))
    }
}
