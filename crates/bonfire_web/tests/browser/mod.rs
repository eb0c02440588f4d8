//! What a page does: frames, and stores that answer when the browser does.
#![allow(dead_code, clippy::allow_attributes, reason = "each test uses a part of this")]

use std::ops::Range;

use bonfire_store::backend::StoreFuture;
use bonfire_store::engine::Promise;
use bonfire_store::{Batch, BlobHead, MemoryStore, Store, Version};
use bytes::Bytes;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, js_sys, spawn_local};

#[wasm_bindgen(
    inline_js = "export function next_task() { return new Promise(done => setTimeout(done, 0)); }"
)]
extern "C" {
    fn next_task() -> js_sys::Promise;
}

/// Lets the browser do everything else that waits, as between two frames.
pub(crate) async fn next_frame() {
    JsFuture::from(next_task()).await.expect("a timer cannot fail");
}

/// A store in memory that answers when a task of the page has run. Its futures may leave their thread, although what they wait
/// for may not.
#[derive(Clone, Default)]
pub(crate) struct TimerStore(MemoryStore);

impl TimerStore {
    fn later<'a, T: 'a>(
        &'a self,
        call: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        let (promise, answered) = Promise::new();
        spawn_local(async move {
            next_frame().await;
            promise.complete(Ok(()));
        });
        Box::pin(async move {
            answered.await?;
            call().await
        })
    }
}

impl Store for TimerStore {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        self.later(move || self.0.change(batch))
    }
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        self.later(move || self.0.get(name))
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        self.later(move || self.0.get_range(name, range))
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        self.later(move || self.0.head(name))
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.later(move || self.0.list(prefix))
    }
}
