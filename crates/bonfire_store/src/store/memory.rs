//! Blobs in memory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bonfire::engine::AlignedBuf;
use bonfire::{Error, Result};
use bytes::Bytes;

use super::{Batch, BlobHead, Change, Store, StoreFuture, Version, changed, check_expectations, exists};
use crate::portable_name::{check_case, check_name};

/// Blobs in memory: for tests, servers and tools. Clones are the same store.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Blobs>>);

#[derive(Default)]
struct Blobs {
    named: BTreeMap<String, Blob>,
    changes: u64,
}

#[derive(Clone)]
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
        Ok(self.insert(name, memory.share()))
    }

    fn insert(&mut self, name: &str, bytes: Bytes) -> Version {
        self.changes += 1;
        let version = Version::new(self.changes.to_string());
        self.named.insert(name.to_owned(), Blob { bytes, version: version.clone() });
        version
    }

    /// Makes a change, and returns the version of the blob that it made or removed.
    fn make(&mut self, change: &Change) -> Result<Option<Version>> {
        match change {
            Change::Put { name, payload } => self.set(name, payload.parts()).map(Some),
            Change::Append { name, expected_len, payload } => {
                let before = self.named.get(name).map(|blob| blob.bytes.clone()).unwrap_or_default();
                if before.len() as u64 != *expected_len {
                    return Err(changed(name));
                }
                let parts: Vec<Bytes> =
                    std::iter::once(before).chain(payload.parts().iter().cloned()).collect();
                self.set(name, &parts).map(|_| None)
            }
            Change::Copy { from, to } => {
                let bytes = self.find(from)?.bytes.clone();
                self.check_free(to)?;
                Ok(Some(self.insert(to, bytes)))
            }
            Change::Rename { from, to } => {
                let blob = self.find(from)?.clone();
                self.check_free(to)?;
                self.named.remove(from);
                let version = blob.version.clone();
                self.named.insert(to.clone(), blob);
                Ok(Some(version))
            }
            Change::Remove { name } => Ok(self.named.remove(name).map(|blob| blob.version)),
        }
    }

    fn check_free(&self, name: &str) -> Result<()> {
        if self.named.contains_key(name) {
            return Err(exists(name));
        }
        check_case(name, self.named.keys().map(String::as_str))
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

    fn change_now(&self, batch: &Batch) -> Result<Vec<Option<Version>>> {
        batch.check()?;
        let mut blobs = self.blobs();
        let names: Vec<String> = blobs.named.keys().cloned().collect();
        let version = |name: &str| Ok(blobs.named.get(name).map(|blob| blob.version.clone()));
        check_expectations(batch.expectations(), &names, version)?;
        // Until all of them are made, nobody sees any.
        let mut after = Blobs { named: blobs.named.clone(), changes: blobs.changes };
        let versions = batch.changes().iter().map(|change| after.make(change)).collect::<Result<_>>()?;
        *blobs = after;
        for change in batch.changes() {
            if let Change::Put { payload, .. } | Change::Append { payload, .. } = change {
                payload.add_written(payload.len());
            }
        }
        Ok(versions)
    }
}

impl Store for MemoryStore {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        Box::pin(async move { self.change_now(&batch) })
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
}
