//! The last few states of every blob.

use std::collections::BTreeSet;
use std::ops::Range;

use bonfire::{Error, Result, Snapshot};
use bytes::Bytes;

use crate::generation::{largest, next, numbered, split};
use crate::journal::is_journal;
use crate::portable_name::{check_case, check_name};
use crate::store::{
    Batch, BlobHead, Change, Expectation, Precondition, RETRIES, Store, StoreFuture, Version, changed,
    exists, missing,
};

/// A store that keeps the last few states of every blob, and reads an older one where the newest is damaged.
///
/// Each [`put`](Store::put) writes a new blob, `name.00000007`; nothing that is there is overwritten. For saves of a game
/// use [`Slots`](crate::Slots), which keep generations of their own; this is for everything else. Put it around a
/// `Sealed` store, not inside of one: only who opens a blob can tell that it is damaged.
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
        let newest = largest(numbers.iter().copied());
        numbers.retain(|number| *number <= newest);
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

    /// Makes a batch with the states that there are, and again if other programs change them meanwhile.
    async fn change_states(&self, batch: Batch) -> Result<Vec<Option<Version>>> {
        batch.check()?;
        let mut conflict = None;
        for _ in 0..RETRIES {
            let inner = self.inner.list("").await?;
            let (states, numbers) = self.plan(&batch, &inner).await?;
            match self.inner.change(states).await {
                // The plan has checked what the caller expects. So this is about the states.
                Err(error) if error.is_conflict() => conflict = Some(error),
                Err(error) => return Err(error),
                Ok(versions) => {
                    for change in batch.changes() {
                        if let Change::Put { name, .. } = change {
                            self.prune(name).await;
                        }
                    }
                    let mut versions = versions.into_iter();
                    let outcome = |(count, number): (usize, u64)| {
                        // Of the newest state, which comes last.
                        let last = versions.by_ref().take(count).last();
                        last.flatten().map(|inner| version(number, &inner))
                    };
                    return Ok(numbers.into_iter().map(outcome).collect());
                }
            }
        }
        Err(conflict.unwrap_or_else(|| Error::conflict("blobs change faster than they can be written")))
    }

    /// The batch for the store inside, and for each change how many changes it became and the number of its newest state.
    async fn plan(&self, batch: &Batch, inner: &[String]) -> Result<(Batch, Vec<(usize, u64)>)> {
        let names = names_of(inner);
        let states_of = |name: &str| -> Vec<u64> {
            let states = inner.iter().filter_map(|found| split(found)).filter(|(stem, _)| *stem == name);
            let mut numbers: Vec<u64> = states.map(|(_, number)| number).collect();
            let newest = largest(numbers.iter().copied());
            numbers.retain(|number| *number <= newest);
            numbers.sort_unstable();
            numbers
        };
        let newest = |name: &str| states_of(name).last().copied();
        let mut states = Batch::new().expect_names("", inner.to_vec());
        for expectation in batch.expectations() {
            states = match expectation {
                Expectation::Names { prefix, names: expected } => {
                    if !names.iter().filter(|name| name.starts_with(prefix)).eq(expected) {
                        return Err(Error::conflict("blobs were added or removed meanwhile"));
                    }
                    states
                }
                Expectation::Blob { name, state: Precondition::Absent } if newest(name).is_some() => {
                    return Err(exists(name));
                }
                Expectation::Blob { name, state: Precondition::Version(wanted) } => {
                    let found = match newest(name) {
                        Some(newest) => {
                            self.inner.head(&numbered(name, newest)).await?.map(|head| (newest, head))
                        }
                        None => None,
                    };
                    let found = found.filter(|(newest, head)| version(*newest, &head.version) == *wanted);
                    let (newest, head) = found.ok_or_else(|| changed(name))?;
                    states.expect(numbered(name, newest), Precondition::Version(head.version))
                }
                Expectation::Blob { .. } => states,
            };
        }
        let mut numbers = Vec::new();
        for change in batch.changes() {
            if let Some(target) = change.target() {
                check_case(target, names.iter().map(String::as_str))?;
            }
            if let Change::Copy { from, to } | Change::Rename { from, to } = change {
                newest(from).ok_or_else(|| missing(from))?;
                if newest(to).is_some() {
                    return Err(exists(to));
                }
            }
            let before = states.changes().len();
            let number = match change {
                Change::Put { name, payload } => {
                    let number = next(newest(name))?;
                    states = states.put(numbered(name, number), payload.clone());
                    number
                }
                Change::Append { name, expected_len, payload } => {
                    let number = newest(name).unwrap_or(1);
                    states = states.append(numbered(name, number), *expected_len, payload.clone());
                    number
                }
                Change::Copy { from, to } => {
                    let IntactBlob { generation, .. } = self.get_intact(from).await?;
                    states = states.copy(numbered(from, generation), numbered(to, 1));
                    1
                }
                Change::Rename { from, to } => {
                    let all = states_of(from);
                    for number in &all {
                        states = states.rename(numbered(from, *number), numbered(to, *number));
                    }
                    all.last().copied().unwrap_or(0)
                }
                Change::Remove { name } => {
                    let all = states_of(name);
                    for number in &all {
                        states = states.remove(numbered(name, *number));
                    }
                    all.last().copied().unwrap_or(0)
                }
            };
            numbers.push((states.changes().len() - before, number));
        }
        Ok((states, numbers))
    }

    /// What is too old goes. If it does not, nothing is lost, and the next put tries again.
    async fn prune(&self, name: &str) {
        let Ok(generations) = self.generations(name).await else { return };
        for &old in generations.iter().skip(self.keep).rev() {
            let _ = self.inner.remove(&numbered(name, old)).await;
        }
    }
}

/// The names of blobs, without the numbers of their states.
fn names_of(inner: &[String]) -> Vec<String> {
    let stems: BTreeSet<&str> = inner.iter().filter_map(|name| split(name)).map(|(stem, _)| stem).collect();
    stems.into_iter().map(str::to_owned).collect()
}

fn version(generation: u64, inner: &Version) -> Version {
    Version::new(format!("{generation}-{inner}"))
}

impl<S: Store> Store for Rotating<S> {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        Box::pin(self.change_states(batch))
    }

    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { Ok(self.get_intact(name).await?.bytes) })
    }

    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { self.inner.get_range(&self.newest_name(name).await?, range).await })
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
            let mut names = names_of(&self.inner.list(prefix).await?);
            names.retain(|name| name.starts_with(prefix));
            Ok(names)
        })
    }

    /// The directory: which state of a blob a message is about, only its caller knows.
    fn path_of(&self, _: &str) -> Option<String> {
        self.inner.path_of("")
    }
}
