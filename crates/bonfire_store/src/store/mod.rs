//! Named blobs, wherever they lie.

mod batch;
mod dir;
mod memory;

use std::fmt;
use std::ops::Range;
use std::pin::Pin;

use bonfire::engine::Rope;
use bonfire::{Error, Result, Watch};
use bytes::Bytes;

pub use self::batch::check_expectations;
pub use self::batch::{Batch, Change, Expectation};
pub(crate) use self::batch::{changed, exists};
pub use self::dir::DirStore;
pub use self::memory::MemoryStore;

/// What a call of a store returns. It may be polled on any thread.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A place for named blobs.
///
/// A blob is replaced as a whole or not at all, and a call that has returned is durable. A store checks names with
/// [`check_name`](crate::backend::check_name) before it touches anything. Two names may not differ only in the case of their
/// letters. The feature `conformance` has the tests that every store must pass.
///
/// Backends on a local disk do their work on the thread that polls. [`Wait::wait`](crate::Wait::wait) turns any of
/// these calls into a blocking one.
pub trait Store: Send + Sync {
    /// Makes all changes of a batch, or none if an expectation does not hold or a change is impossible.
    ///
    /// Returns a version for each change: of the blob that it made, or of the one that it removed. An append, and a removal of
    /// a blob that is not there, give `None`. A batch without changes makes earlier changes durable whose call reported an error.
    ///
    /// If the call fails, the store holds the state before or the state after, and nothing in between. An append that
    /// failed, or a crash, may leave a part of the bytes behind the expected length: frame and check them. A backend that
    /// cannot append says so with [`Error::is_unsupported`](bonfire::Error::is_unsupported).
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>>;

    /// All of a blob, in memory that starts at a multiple of 64 if the backend can. [`Error::is_not_found`] if there is
    /// none.
    ///
    /// [`Error::is_not_found`]: bonfire::Error::is_not_found
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes>;

    /// A part of a blob. What lies behind its end is left out.
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes>;

    /// What is known of a blob without reading it; `None` if there is none.
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>>;

    /// All names that begin with `prefix`, in order.
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>>;

    /// The path of a blob, or of the directory of all blobs for an empty name. Messages name it, so that players and their
    /// helpers find the file. `None` where there are no paths.
    fn path_of(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// Puts a blob, if `when` allows: [`Change::Put`].
    fn put<'a>(&'a self, name: &'a str, payload: Payload, when: Precondition) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let versions = self.change(Batch::new().expect(name, when).put(name, payload)).await?;
            versions.into_iter().next().flatten().ok_or_else(|| missing(name))
        })
    }

    /// Adds to the end of a blob that is `expected_len` long, and returns the new length: [`Change::Append`].
    fn append<'a>(&'a self, name: &'a str, expected_len: u64, payload: Payload) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let len = expected_len.saturating_add(payload.len());
            self.change(Batch::new().append(name, expected_len, payload)).await?;
            Ok(len)
        })
    }

    /// Removes a blob; false if there was none.
    fn remove<'a>(&'a self, name: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.change(Batch::new().remove(name)).await?.iter().any(Option::is_some)) })
    }

    /// Puts the same bytes under another name that no blob has.
    fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.change(Batch::new().copy(from, to)).await.map(drop) })
    }

    /// Gives a blob another name that no blob has.
    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.change(Batch::new().rename(from, to)).await.map(drop) })
    }
}

/// How sealed blobs begin. Who cannot open them knows them all the same.
pub(crate) const SEALED_MAGIC: [u8; 8] = *b"\x89BNS\r\n\x1a\n";

/// Whether these bytes begin as a sealed blob does.
pub fn is_sealed(start: &[u8]) -> bool {
    start.starts_with(&SEALED_MAGIC)
}

/// Refuses bytes that are still sealed: the store that returned them has no key.
pub(crate) fn refuse_sealed(name: &str, bytes: &[u8]) -> Result<()> {
    match is_sealed(bytes) {
        true => Err(Error::wrong_key(format!("`{name}` is sealed, and there is no key for it here"))),
        false => Ok(()),
    }
}

/// The number of attempts before a call gives up because other writers were faster.
pub(crate) const RETRIES: usize = 100;

/// The error of a blob or save that does not exist.
pub(crate) fn missing(name: &str) -> Error {
    let nothing = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such save");
    Error::io(format_args!("cannot open `{name}`"), nothing)
}

/// The error with the path of a blob, or of the directory for an empty name, if the store has paths.
pub(crate) fn in_store(error: Error, store: &(impl Store + ?Sized), name: &str) -> Error {
    match store.path_of(name) {
        Some(path) => error.in_place(path),
        None => error,
    }
}

/// What must hold for a blob to be put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing: whatever is there is replaced.
    #[default]
    None,
    /// There is no such blob yet.
    Absent,
    /// The blob is still the one that had this version.
    Version(Version),
}

/// Tells one state of a blob from the next. It means something to the store that gave it, and to no other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// A version as the backend writes it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The facts that a store knows of a blob without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobHead {
    /// The number of bytes.
    pub len: u64,
    /// How many of them, from the start, can be read with what this store was given. Less than `len` only where the
    /// blob is sealed and the key is not at hand.
    pub readable: u64,
    /// Which state of the blob this is.
    pub version: Version,
}

/// Bytes to be stored, in pieces that may be shared with a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    rope: Rope,
    open: u64,
    watch: Option<Watch>,
}

impl Payload {
    /// Lets the first `len` bytes stay readable without a key where the blob is sealed: the head of a save, for lists of
    /// saves. They are authenticated all the same.
    pub fn leave_open(mut self, len: u64) -> Self {
        self.open = len.min(self.len());
        self
    }
    /// How many bytes from the start stay readable without a key.
    pub fn open_len(&self) -> u64 {
        self.open
    }
    /// Counts bytes while they are written: for a bar that moves on another thread. What is written twice counts twice, and
    /// what a seal adds counts too. A write that has begun is not cancelled.
    pub fn watched(mut self, watch: &Watch) -> Self {
        self.watch = Some(watch.clone());
        self
    }
    /// For backends: so many more bytes have been written.
    pub fn add_written(&self, bytes: u64) {
        if let Some(watch) = &self.watch {
            let _ = watch.advance(bytes);
        }
    }
    /// Whoever watches `other` watches this.
    #[cfg(feature = "seal")]
    pub(crate) fn watched_as(mut self, other: &Self) -> Self {
        self.watch.clone_from(&other.watch);
        self
    }
    /// The pieces in order.
    pub fn parts(&self) -> &[Bytes] {
        self.rope.parts()
    }
    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.rope.len() as u64
    }
    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.rope.is_empty()
    }
}

impl From<Rope> for Payload {
    fn from(rope: Rope) -> Self {
        Self { rope, open: 0, watch: None }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::from(Rope::from(bytes))
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<&'static [u8]> for Payload {
    fn from(bytes: &'static [u8]) -> Self {
        Self::from(Bytes::from_static(bytes))
    }
}

/// Calls pass through references and boxes.
macro_rules! pass_on {
    ($($pointer:ty),+) => {$(
        impl<S: Store + ?Sized> Store for $pointer {
            fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
                (**self).change(batch)
            }
            fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
                (**self).get(name)
            }
            fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
                (**self).get_range(name, range)
            }
            fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
                (**self).head(name)
            }
            fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
                (**self).list(prefix)
            }
            fn path_of(&self, name: &str) -> Option<String> {
                (**self).path_of(name)
            }
        }
    )+};
}

pass_on!(&S, Box<S>, std::sync::Arc<S>);
