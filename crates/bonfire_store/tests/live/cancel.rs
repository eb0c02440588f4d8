//! A request that is cancelled while it is under way.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use bonfire_store::backend::StoreFuture;
use bonfire_store::{Batch, BlobHead, Details, MemoryStore, Saver, Slots, Store, Version, Wait};
use bytes::Bytes;

use crate::common::{number, world};
use crate::gate::{At, gated};

/// Stops before a whole blob is read, until the test lets it go on.
#[derive(Clone)]
struct Stopped {
    inner: MemoryStore,
    reached: Sender<()>,
    go_on: Arc<Mutex<Receiver<()>>>,
}

impl Store for Stopped {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        self.inner.change(batch)
    }
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        self.reached.send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        self.inner.get(name)
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        self.inner.get_range(name, range)
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        self.inner.head(name)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.inner.list(prefix)
    }
}

#[test]
fn a_load_that_has_begun_ends_when_it_is_cancelled() {
    let inner = MemoryStore::new();
    Slots::new(inner.clone()).save("quick", &world(7), &Details::new()).wait().unwrap();
    let ((reached, is_reached), (let_go, go_on)) = (channel(), channel());
    let store = Stopped { inner, reached, go_on: Arc::new(Mutex::new(go_on)) };
    let saver = Saver::new(Slots::new(store));

    let cancelled = saver.load("quick");
    is_reached.recv().unwrap();
    cancelled.clone().cancel();
    let_go.send(()).unwrap();
    assert!(cancelled.wait().unwrap_err().is_cancelled());

    // The next load has a watch of its own.
    let next = saver.load("quick");
    let_go.send(()).unwrap();
    assert_eq!(number(&next.wait().unwrap().snapshot), 7);
}

#[test]
fn a_save_that_has_begun_is_finished() {
    let (saver, gate) = gated();
    gate.close(At::Sync);
    let handle = saver.save("quick", world(3), Details::new());
    gate.reached();
    handle.cancel();
    gate.open();
    handle.wait().unwrap();
    assert_eq!(number(&saver.load("quick").wait().unwrap().snapshot), 3);
}
