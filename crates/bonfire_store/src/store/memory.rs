//! Blobs in memory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bonfire::engine::AlignedBuf;
use bonfire::{Error, Result};
use bytes::Bytes;

use super::{BlobHead, Payload, Precondition, Store, StoreFuture, Version};
use crate::portable_name::{check_case, check_name};

/// Blobs in memory: for tests, servers and tools. Clones are the same store.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Blobs>>);

#[derive(Default)]
struct Blobs {
    named: BTreeMap<String, Blob>,
    changes: u64,
}

struct Blob {
    bytes: Bytes,
    version: Version,
}

impl Blobs {
    fn find(&self, name: &str) -> Result<&Blob> {
        check_name(name)?;
        self.named.get(name).ok_or_else(|| {
            Error::io(format_args!("cannot open `{name}`"), std::io::Error::from(ErrorKind::NotFound))
        })
    }

    /// Puts the bytes of `parts`, one after the other.
    fn set(&mut self, name: &str, parts: &[Bytes]) -> Result<Version> {
        check_case(name, self.named.keys().map(String::as_str))?;
        let mut memory = AlignedBuf::try_zeroed(parts.iter().map(|part| part.len() as u64).sum())?;
        let mut rest = memory.as_mut();
        for part in parts {
            let (here, behind) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = behind;
        }
        self.changes += 1;
        let version = Version::new(self.changes.to_string());
        self.named.insert(name.to_owned(), Blob { bytes: memory.share(), version: version.clone() });
        Ok(version)
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn blobs(&self) -> MutexGuard<'_, Blobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_now(&self, name: &str, payload: &Payload, when: &Precondition) -> Result<Version> {
        check_name(name)?;
        let mut blobs = self.blobs();
        let there = blobs.named.get(name).map(|blob| &blob.version);
        let allowed = match when {
            Precondition::None => true,
            Precondition::Absent => there.is_none(),
            Precondition::Version(wanted) => there == Some(wanted),
        };
        if !allowed {
            return Err(Error::conflict(format!(
                "`{name}` is not what it was: somebody else has changed it"
            )));
        }
        let version = blobs.set(name, payload.parts())?;
        payload.add_written(payload.len());
        Ok(version)
    }

    fn append_now(&self, name: &str, expected_len: u64, payload: &Payload) -> Result<u64> {
        check_name(name)?;
        let mut blobs = self.blobs();
        let before = blobs.named.get(name).map(|blob| blob.bytes.clone()).unwrap_or_default();
        if before.len() as u64 != expected_len {
            let len = before.len();
            return Err(Error::conflict(format!("`{name}` has {len} bytes and not {expected_len}")));
        }
        let parts: Vec<Bytes> = std::iter::once(before).chain(payload.parts().iter().cloned()).collect();
        blobs.set(name, &parts)?;
        payload.add_written(payload.len());
        Ok(expected_len + payload.len())
    }

    fn rename_now(&self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        let mut blobs = self.blobs();
        blobs.find(from)?;
        if blobs.named.contains_key(to) {
            return Err(Error::conflict(format!("`{to}` is there already")));
        }
        check_case(to, blobs.named.keys().map(String::as_str))?;
        if let Some(blob) = blobs.named.remove(from) {
            blobs.named.insert(to.to_owned(), blob);
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn put<'a>(&'a self, name: &'a str, payload: Payload, when: Precondition) -> StoreFuture<'a, Version> {
        Box::pin(async move { self.put_now(name, &payload, &when) })
    }

    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { Ok(self.blobs().find(name)?.bytes.clone()) })
    }

    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move {
            let bytes = self.blobs().find(name)?.bytes.clone();
            let clamp = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let (start, end) = (clamp(range.start), clamp(range.end));
            Ok(bytes.slice(start..end.max(start)))
        })
    }

    fn append<'a>(&'a self, name: &'a str, expected_len: u64, payload: Payload) -> StoreFuture<'a, u64> {
        Box::pin(async move { self.append_now(name, expected_len, &payload) })
    }

    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        Box::pin(async move {
            check_name(name)?;
            let head = |blob: &Blob| {
                let len = blob.bytes.len() as u64;
                BlobHead { len, readable: len, version: blob.version.clone() }
            };
            Ok(self.blobs().named.get(name).map(head))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            let blobs = self.blobs();
            Ok(blobs.named.keys().filter(|name| name.starts_with(prefix)).cloned().collect())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            check_name(name)?;
            Ok(self.blobs().named.remove(name).is_some())
        })
    }

    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.rename_now(from, to) })
    }
}
