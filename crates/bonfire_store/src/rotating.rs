//! The last few states of every blob.

use std::collections::BTreeSet;
use std::ops::Range;

use bonfire::{Error, Result, Snapshot};
use bytes::Bytes;

use crate::generation::{next, numbered, split};
use crate::journal::is_journal;
use crate::portable_name::{check_case, check_name};
use crate::store::{BlobHead, Payload, Precondition, RETRIES, Store, StoreFuture, Version, missing};

/// A store that keeps the last few states of every blob, and reads an older one where the newest is damaged.
///
/// Each [`put`](Store::put) writes a new blob, `name.00000007`; nothing that is there is overwritten. For saves of a game
/// use [`Slots`](crate::Slots), which keep generations of their own; this is for everything else. Put it around a
/// `Sealed` store, not inside of one: only who opens a blob can tell that it is damaged.
///
/// A rename moves the states one by one, the newest last: after a crash on the way the new name has older ones. A removal
/// takes the oldest first.
///
/// [`get_range`](Store::get_range), [`head`](Store::head) and [`append`](Store::append) mean the newest state, unchecked.
///
/// ```
/// # use bonfire_store::{MemoryStore, Payload, Precondition, Rotating, Store, Wait};
/// let store = Rotating::new(MemoryStore::new(), 3);
/// store.put("world", Payload::from(b"day 1".to_vec()), Precondition::None).wait()?;
/// store.put("world", Payload::from(b"day 2".to_vec()), Precondition::None).wait()?;
/// assert_eq!(&store.get("world").wait()?[..], b"day 2");
/// assert_eq!(store.generations("world").wait()?, [2, 1]);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rotating<S> {
    inner: S,
    keep: usize,
    check: fn(&Bytes) -> Result<()>,
}

/// The newest state of a blob that is not damaged.
#[derive(Clone, Debug)]
pub struct IntactBlob {
    /// Its bytes.
    pub bytes: Bytes,
    /// Which state it is.
    pub generation: u64,
    /// Newer states that were passed over, newest first, and why.
    pub skipped: Vec<(u64, Error)>,
}

impl<S: Store> Rotating<S> {
    /// Keeps the newest `keep` states of every blob, at least one.
    pub fn new(inner: S, keep: usize) -> Self {
        Self { inner, keep: keep.max(1), check: |_| Ok(()) }
    }

    /// How to tell whether bytes are whole: an error with [`Error::is_corrupt`] makes [`get`](Store::get) go on to the
    /// state before. By default only what the store inside finds damaged is passed over.
    pub fn check(mut self, check: fn(&Bytes) -> Result<()>) -> Self {
        self.check = check;
        self
    }

    /// Says that all blobs are saves of Bonfire, or their journals, and passes over those that are damaged.
    pub fn only_saves(self) -> Self {
        self.check(|bytes| match is_journal(bytes) {
            // Their own checksums tell which of their records are whole.
            true => Ok(()),
            false => Snapshot::options().open_shared(bytes.clone()).map(drop),
        })
    }

    /// The numbers of all states of a blob, newest first.
    pub async fn generations(&self, name: &str) -> Result<Vec<u64>> {
        check_name(name)?;
        let prefix = format!("{name}.");
        let names = self.inner.list(&prefix).await?;
        let mut numbers: Vec<u64> = names
            .iter()
            .filter_map(|found| split(found))
            .filter(|(stem, _)| *stem == name)
            .map(|(_, n)| n)
            .collect();
        numbers.sort_unstable_by_key(|&number| std::cmp::Reverse(number));
        Ok(numbers)
    }

    /// The newest good state of a blob, and which ones were passed over to find it.
    pub async fn get_intact(&self, name: &str) -> Result<IntactBlob> {
        // Others may remove what was listed a moment ago: then there is something newer.
        for _ in 0..RETRIES {
            let generations = self.generations(name).await?;
            let mut skipped = Vec::new();
            let mut vanished = false;
            for &generation in &generations {
                let read = self.inner.get(&numbered(name, generation)).await;
                match read.and_then(|bytes| (self.check)(&bytes).map(|()| bytes)) {
                    Ok(bytes) => return Ok(IntactBlob { bytes, generation, skipped }),
                    Err(error) if error.is_not_found() => vanished = true,
                    Err(error) if error.is_corrupt() => skipped.push((generation, error)),
                    Err(error) => return Err(error),
                }
            }
            match skipped.into_iter().next() {
                _ if vanished => {}
                Some((_, error)) => return Err(error),
                None => return Err(missing(name)),
            }
        }
        Err(Error::conflict(format!("`{name}` changes faster than it can be read")))
    }

    async fn newest(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.generations(name).await?.first().copied())
    }

    async fn newest_name(&self, name: &str) -> Result<String> {
        Ok(numbered(name, self.newest(name).await?.ok_or_else(|| missing(name))?))
    }

    async fn version_of(&self, name: &str, generation: u64) -> Result<Option<Version>> {
        let head = self.inner.head(&numbered(name, generation)).await?;
        Ok(head.map(|head| version(generation, &head.version)))
    }

    async fn put_next(&self, name: &str, payload: Payload, when: Precondition) -> Result<Version> {
        check_name(name)?;
        for _ in 0..RETRIES {
            check_case(name, self.list("").await?.iter().map(String::as_str))?;
            let newest = self.newest(name).await?;
            match (&when, newest) {
                (Precondition::None, _) | (Precondition::Absent, None) => {}
                (Precondition::Version(wanted), Some(newest))
                    if self.version_of(name, newest).await?.as_ref() == Some(wanted) => {}
                _ => return Err(Error::conflict(format!("`{name}` is not what it was"))),
            }
            let generation = next(newest)?;
            match self.inner.put(&numbered(name, generation), payload.clone(), Precondition::Absent).await {
                Ok(inner) if self.newest(name).await? == Some(generation) => {
                    self.prune(name).await;
                    return Ok(version(generation, &inner));
                }
                // Others came and went meanwhile, so that the number is an old one: as if this had been put before them.
                Ok(_) => {
                    self.inner.remove(&numbered(name, generation)).await?;
                }
                // Somebody else took the number.
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::conflict(format!("`{name}` changes faster than it can be written")))
    }

    /// What is too old goes. If it does not, nothing is lost, and the next put tries again.
    async fn prune(&self, name: &str) {
        let Ok(generations) = self.generations(name).await else { return };
        for &old in generations.iter().skip(self.keep).rev() {
            let _ = self.inner.remove(&numbered(name, old)).await;
        }
    }

    async fn rename_all(&self, from: &str, to: &str) -> Result<()> {
        check_name(to)?;
        let generations = self.generations(from).await?;
        if generations.is_empty() {
            return Err(missing(from));
        }
        let names = self.list("").await?;
        if names.iter().any(|name| name == to) {
            return Err(Error::conflict(format!("`{to}` is there already")));
        }
        check_case(to, names.iter().map(String::as_str))?;
        // The newest last: until then the old name means what it meant.
        for &generation in generations.iter().rev() {
            self.inner.rename(&numbered(from, generation), &numbered(to, generation)).await?;
        }
        Ok(())
    }
}

fn version(generation: u64, inner: &Version) -> Version {
    Version::new(format!("{generation}-{inner}"))
}

impl<S: Store> Store for Rotating<S> {
    fn put<'a>(&'a self, name: &'a str, payload: Payload, when: Precondition) -> StoreFuture<'a, Version> {
        Box::pin(self.put_next(name, payload, when))
    }

    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { Ok(self.get_intact(name).await?.bytes) })
    }

    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { self.inner.get_range(&self.newest_name(name).await?, range).await })
    }

    fn append<'a>(&'a self, name: &'a str, expected_len: u64, payload: Payload) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            check_case(name, self.list("").await?.iter().map(String::as_str))?;
            let newest = self.newest(name).await?.unwrap_or(1);
            let len = self.inner.append(&numbered(name, newest), expected_len, payload).await?;
            // What was put meanwhile is newer than what was appended to.
            match self.newest(name).await? {
                Some(now) if now == newest => Ok(len),
                _ => {
                    Err(Error::conflict(format!("`{name}` is not what it was: somebody else has changed it")))
                }
            }
        })
    }

    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        Box::pin(async move {
            let Some(newest) = self.newest(name).await? else { return Ok(None) };
            let head = self.inner.head(&numbered(name, newest)).await?;
            Ok(head.map(|head| BlobHead { version: version(newest, &head.version), ..head }))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            let names = self.inner.list(prefix).await?;
            let stems = names.iter().filter_map(|name| split(name)).map(|(stem, _)| stem);
            let stems: BTreeSet<&str> = stems.filter(|stem| stem.starts_with(prefix)).collect();
            Ok(stems.into_iter().map(str::to_owned).collect())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let generations = self.generations(name).await?;
            // The newest last: until then the name means what it meant.
            for &generation in generations.iter().rev() {
                self.inner.remove(&numbered(name, generation)).await?;
            }
            Ok(!generations.is_empty())
        })
    }

    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.rename_all(from, to))
    }
}
