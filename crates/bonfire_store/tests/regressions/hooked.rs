//! A store that lets a test do something, or fail, before each call.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bonfire::{Error, Result};
use bonfire_store::backend::StoreFuture;
use bonfire_store::{BlobHead, MemoryStore, Payload, Precondition, Store, Version};
use bytes::Bytes;

type Hook = Box<dyn FnMut(&str, &str) -> Option<Error> + Send>;
/// Calls a hook before each call.
#[derive(Clone)]
pub(crate) struct Hooked {
    inner: MemoryStore,
    hook: Arc<Mutex<Hook>>,
}
impl Hooked {
    pub(crate) fn new(
        inner: &MemoryStore,
        hook: impl FnMut(&str, &str) -> Option<Error> + Send + 'static,
    ) -> Self {
        Self { inner: inner.clone(), hook: Arc::new(Mutex::new(Box::new(hook))) }
    }
    fn call(&self, what: &str, name: &str) -> Result<()> {
        match (self.hook.lock().unwrap())(what, name) {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }
}
impl Store for Hooked {
    fn put<'a>(&'a self, name: &'a str, payload: Payload, when: Precondition) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            self.call("put", name)?;
            self.inner.put(name, payload, when).await
        })
    }
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        Box::pin(async move {
            self.call("get", name)?;
            self.inner.get(name).await
        })
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move {
            self.call("get_range", name)?;
            self.inner.get_range(name, range).await
        })
    }
    fn append<'a>(&'a self, name: &'a str, n: u64, payload: Payload) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            self.call("append", name)?;
            self.inner.append(name, n, payload).await
        })
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        Box::pin(async move {
            self.call("head", name)?;
            self.inner.head(name).await
        })
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            self.call("list", prefix)?;
            self.inner.list(prefix).await
        })
    }
    fn remove<'a>(&'a self, name: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            self.call("remove", name)?;
            self.inner.remove(name).await
        })
    }
    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.call("rename", from)?;
            self.inner.rename(from, to).await
        })
    }
}
