//! Blobs as files of one directory.

mod change;
mod pending;

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bonfire::engine::AlignedBuf;
use bonfire::{Error, Result};
use bytes::Bytes;

use self::change::WriterState;
use self::pending::Pending;
use super::{Batch, BlobHead, Store, StoreFuture, Version, in_store};
use crate::disk::{Access, Disk, DiskFile, WriteCheck};
use crate::portable_name::check_name;

/// The writer holds a lock on this file. It stays in the directory: a lock file that is removed locks nobody out.
const LOCK: &str = ".bonfire-lock";

/// Blobs as files of one directory, under their own names.
///
/// A file is replaced as a whole or not at all: the bytes go to a temporary file in the same directory, are made
/// durable, take the name, and the name is made durable. Processes that use the same directory take turns in writing;
/// reading never waits. Links in the directory are not followed.
///
/// [Several changes](Store::change) are written down first, in one file that is made durable, and then made. Readers see
/// their result from then on. If the program stops on the way, the next one that opens the directory finishes.
///
/// If the very last step fails, the sync of the directory, the call reports it: the name then holds the old bytes or the
/// new ones, both whole, and nobody knows which until the next start.
///
/// ```
/// # use bonfire_store::DirStore;
/// # use bonfire_store::disk::MemoryDisk;
/// use bonfire_store::{Payload, Precondition, Store, Wait};
///
/// # let _ = || DirStore::for_app("Moon Studio", "Comet");
/// # let open = |_: &str| DirStore::on(MemoryDisk::new());
/// let store = open("saves")?; // DirStore::open, or DirStore::for_app("Moon Studio", "Comet")
/// store.put("settings", Payload::from(b"loud".to_vec()), Precondition::None).wait()?;
/// assert_eq!(store.list("").wait()?, ["settings"]);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone)]
pub struct DirStore(Arc<Inner>);

struct Inner {
    disk: Box<dyn Disk>,
    check: WriteCheck,
    /// Locked during every change.
    state: Mutex<WriterState>,
}

/// How often a read starts again because other programs change the directory meanwhile.
const READ_TRIES_MAX: usize = 100;

impl DirStore {
    /// The directory at `path`, which is created if it is not there. What a crash left of unfinished changes is finished or
    /// removed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl Into<std::path::PathBuf>) -> Result<Self> {
        let path = path.into();
        let disk = crate::disk::OsDisk::create(&path);
        let failed = |error| Error::io_write(format_args!("cannot create `{}`", path.display()), error);
        Self::on(disk.map_err(failed)?)
    }

    /// Where this system keeps the saves of a game, for the player who is logged in. See [`app_directory`](crate::app_directory()).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn for_app(studio: &str, game: &str) -> Result<Self> {
        Self::open(crate::app_directory::app_directory(studio, game)?)
    }

    /// The files of any [`Disk`].
    pub fn on(disk: impl Disk + 'static) -> Result<Self> {
        let inner = Inner { disk: Box::new(disk), check: WriteCheck::Sync, state: Mutex::default() };
        inner.clean_up()?;
        Ok(Self(Arc::new(inner)))
    }

    /// Reads every blob back from the disk and compares it before it takes its name. Costs about a read; default: off.
    ///
    /// # Panics
    /// If the store has been cloned already.
    pub fn read_back(mut self) -> Self {
        Arc::get_mut(&mut self.0).expect("set options before cloning").check = WriteCheck::ReadBack;
        self
    }
}

fn version(stamp: u64) -> Version {
    Version::new(format!("{stamp:016x}"))
}

fn version_of(file: &dyn DiskFile) -> io::Result<Version> {
    file.stamp().map(version)
}

impl Inner {
    /// A blob as people find it; the directory for an empty name.
    fn path_of(&self, name: &str) -> String {
        match self.disk.path() {
            Some(path) if name.is_empty() => path.display().to_string(),
            Some(path) => path.join(name).display().to_string(),
            None if name.is_empty() => "the disk".to_owned(),
            None => name.to_owned(),
        }
    }

    /// An error of a call that reads.
    fn failed<'a>(&'a self, doing: &'a str, name: &'a str) -> impl Fn(io::Error) -> Error + 'a {
        move |error| Error::io(format_args!("cannot {doing} `{}`", self.path_of(name)), error)
    }

    /// An error of a call that writes. A directory that is gone is not a save that is missing.
    fn failed_write<'a>(&'a self, doing: &'a str, name: &'a str) -> impl Fn(io::Error) -> Error + 'a {
        move |error| {
            let error = match error.kind() {
                ErrorKind::NotFound => io::Error::other("the directory is gone"),
                _ => error,
            };
            Error::io_write(format_args!("cannot {doing} `{}`", self.path_of(name)), error)
        }
    }

    /// The names of all files. A directory that is gone is not an empty one.
    fn files(&self) -> Result<Vec<String>> {
        self.disk.list().map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.failed("list", "")(io::Error::other("the directory is gone")),
            _ => self.failed("list", "")(error),
        })
    }

    /// The names of all blobs on the disk.
    fn blobs(&self) -> Result<Vec<String>> {
        let mut names = self.files()?;
        names.retain(|name| check_name(name).is_ok());
        Ok(names)
    }

    fn pending(&self) -> Result<Option<Pending>> {
        Pending::read(&*self.disk).map_err(self.failed("read pending changes of", ""))
    }

    /// Opens a blob, if there is one, with the changes that are decided and not made yet.
    fn open(&self, name: &str) -> Result<Option<Box<dyn DiskFile>>> {
        check_name(name)?;
        for _ in 0..READ_TRIES_MAX {
            let pending = self.pending()?;
            let opened = match &pending {
                Some(pending) => pending.open(&*self.disk, name),
                None => self.disk.open(name, Access::Read),
            };
            // Names may have got another meaning since the list of changes was read.
            if pending.is_some() && self.pending()? != pending {
                continue;
            }
            return match opened {
                Ok(file) => Ok(Some(file)),
                Err(error) if error.kind() == ErrorKind::NotFound => self.files().map(|_| None),
                Err(error) => Err(self.failed("read", name)(error)),
            };
        }
        Err(Error::conflict(format!("`{}` changes faster than it can be read", self.path_of(""))))
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>> {
        self.open(name)?.ok_or_else(|| self.failed("open", name)(ErrorKind::NotFound.into()))
    }

    fn get_all(&self, name: &str) -> Result<Bytes> {
        self.get_range(name, None)
    }

    fn get_range(&self, name: &str, range: Option<Range<u64>>) -> Result<Bytes> {
        let read = |range: &Option<Range<u64>>| {
            let file = self.open_to_read(name)?;
            let len = file.len().map_err(self.failed("read", name))?;
            let range = range.clone().unwrap_or(0..len);
            let (start, end) = (range.start.min(len), range.end.min(len));
            let mut memory = AlignedBuf::try_zeroed(end.saturating_sub(start))?;
            Ok((file.read_exact_at(memory.as_mut(), start), memory))
        };
        let mut tries = READ_TRIES_MAX;
        loop {
            tries -= 1;
            match read(&range)? {
                (Ok(()), memory) => return Ok(memory.share()),
                // A failed append was cut off between the two calls.
                (Err(error), _) if error.kind() == ErrorKind::UnexpectedEof && tries > 0 => {}
                (Err(error), _) => return Err(self.failed("read", name)(error)),
            }
        }
    }

    fn head(&self, name: &str) -> Result<Option<BlobHead>> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        let look = || Ok((file.len()?, version_of(&*file)?));
        let (len, version) = look().map_err(self.failed("look at", name))?;
        Ok(Some(BlobHead { len, readable: len, version }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        for _ in 0..READ_TRIES_MAX {
            let pending = self.pending()?;
            let mut names = self.files()?;
            if self.pending()? != pending {
                continue;
            }
            if let Some(pending) = pending {
                names = pending.apply_to(names);
            }
            names.retain(|name| name.starts_with(prefix) && check_name(name).is_ok());
            names.sort_unstable();
            return Ok(names);
        }
        Err(Error::conflict(format!("`{}` changes faster than it can be listed", self.path_of(""))))
    }
}

impl Store for DirStore {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        let in_directory = |error: Error| in_store(error, self, "");
        Box::pin(async move { self.0.change(&batch).map_err(in_directory) })
    }
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { self.0.get_all(name) })
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { self.0.get_range(name, Some(range)) })
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        Box::pin(async move { self.0.head(name) })
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move { self.0.list(prefix) })
    }
    fn path_of(&self, name: &str) -> Option<String> {
        self.0.disk.path().map(|_| self.0.path_of(name))
    }
}
