//! A store that lets a test do something, or fail, before each call.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bonfire::{Error, Result};
use bonfire_store::backend::{Change, StoreFuture};
use bonfire_store::{Batch, BlobHead, MemoryStore, Store, Version};
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
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        Box::pin(async move {
            for change in batch.changes() {
                match change {
                    Change::Put { name, .. } => self.call("put", name)?,
                    Change::Append { name, .. } => self.call("append", name)?,
                    Change::Copy { from, .. } => self.call("copy", from)?,
                    Change::Rename { from, .. } => self.call("rename", from)?,
                    Change::Remove { name } => self.call("remove", name)?,
                }
            }
            self.inner.change(batch).await
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
}
