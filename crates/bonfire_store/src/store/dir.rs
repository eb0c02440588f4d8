//! Blobs as files of one directory.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bonfire::engine::AlignedBuf;
use bonfire::{Error, Result};
use bytes::Bytes;

use super::{BlobHead, Payload, Precondition, Store, StoreFuture, Version};
use crate::disk::{Access, Disk, DiskFile, DiskLock, Temporary, WriteCheck, publish, write_parts};
use crate::portable_name::{check_case, check_name};

/// Who holds it is the one that writes. It stays in the directory: a lock file that is removed locks nobody out.
const LOCK: &str = ".bonfire-lock";

/// Blobs as files of one directory, under their own names.
///
/// A file is replaced as a whole or not at all: the bytes go to a temporary file in the same directory, are made
/// durable, take the name, and the name is made durable. Processes that use the same directory take turns in writing;
/// reading never waits. Links in the directory are not followed.
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
    /// The names of files that could not be synced after an append. Their contents are unknown, so appends to them fail.
    /// The mutex is held during every change.
    unsynced: Mutex<HashSet<String>>,
}

impl DirStore {
    /// The directory at `path`, which is created if it is not there. What a crash left of unfinished saves is removed.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl Into<std::path::PathBuf>) -> Result<Self> {
        let path = path.into();
        let disk = crate::disk::OsDisk::create(&path);
        Self::on(disk.map_err(|error| Error::io(format_args!("cannot create `{}`", path.display()), error))?)
    }

    /// Where this system keeps the saves of a game, for the player who is logged in. See [`app_directory`](crate::app_directory()).
    #[cfg(not(target_arch = "wasm32"))]
    pub fn for_app(studio: &str, game: &str) -> Result<Self> {
        Self::open(crate::app_directory::app_directory(studio, game)?)
    }

    /// The files of any [`Disk`].
    pub fn on(disk: impl Disk + 'static) -> Result<Self> {
        let inner = Inner { disk: Box::new(disk), check: WriteCheck::Sync, unsynced: Mutex::default() };
        inner.remove_leftovers()?;
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

fn failed<'a>(doing: &'a str, name: &'a str) -> impl Fn(io::Error) -> Error + 'a {
    move |error| Error::io(format_args!("cannot {doing} `{name}`"), error)
}

/// A read that failed. Bytes that the disk has lost are damage, as wrong ones are; anything else may be right the next
/// time: too many open files, a file that somebody holds.
fn unreadable<'a>(name: &'a str) -> impl Fn(io::Error) -> Error + 'a {
    move |error| {
        let lost = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
            || error.raw_os_error().is_some_and(is_lost);
        match lost {
            true => Error::corrupt(format!("cannot read `{name}`: {error}")),
            false => failed("read", name)(error),
        }
    }
}

/// Numbers of the system for "the disk cannot read this".
fn is_lost(error: i32) -> bool {
    const EIO: i32 = 5;
    // ERROR_CRC, ERROR_SECTOR_NOT_FOUND, ERROR_READ_FAULT, ERROR_IO_DEVICE, ERROR_FILE_CORRUPT, ERROR_DISK_CORRUPT
    const WINDOWS: [i32; 6] = [23, 27, 30, 1117, 1392, 1393];
    if cfg!(windows) { WINDOWS.contains(&error) } else { error == EIO }
}

fn version(stamp: u64) -> Version {
    Version::new(format!("{stamp:016x}"))
}

fn version_of(file: &dyn DiskFile, name: &str) -> Result<Version> {
    Ok(version(file.stamp().map_err(failed("look at", name))?))
}

impl Inner {
    /// Only who writes may remove: the temporary file of somebody who is writing right now is no leftover. One that
    /// cannot be removed is in nobody's way, and the next start tries again.
    fn remove_leftovers(&self) -> Result<()> {
        let names = self.names()?;
        let leftovers: Vec<_> = names
            .iter()
            .filter(|name| name.starts_with('.') && name.ends_with(Temporary::OfStore.ending()))
            .collect();
        if !leftovers.is_empty()
            && let Ok(Some(_lock)) = self.disk.lock(LOCK)
        {
            leftovers.into_iter().for_each(|name| drop(self.disk.remove(name)));
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        self.disk.list().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Error::io("cannot list the saves", io::Error::other("their directory is gone"))
            }
            _ => Error::io("cannot list the saves", error),
        })
    }

    /// Runs `change` while nobody else writes: no thread, and no process.
    fn exclusively<T>(&self, change: impl FnOnce(&mut HashSet<String>) -> Result<T>) -> Result<T> {
        let mut unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = self.lock()?;
        change(&mut unsynced)
    }

    fn lock(&self) -> Result<DiskLock> {
        for patience in (0..1000).rev() {
            if let Some(lock) = self.disk.lock(LOCK).map_err(failed("lock", LOCK))? {
                return Ok(lock);
            }
            if cfg!(target_arch = "wasm32") || patience == 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err(Error::io(
            "cannot write",
            io::Error::new(ErrorKind::WouldBlock, "another program has been writing here for ten seconds"),
        ))
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn DiskFile>>> {
        match self.disk.open(name, Access::Read) {
            Ok(file) => Ok(Some(file)),
            // A directory that is gone is not an empty one.
            Err(error) if error.kind() == ErrorKind::NotFound => self.names().map(|_| None),
            Err(error) => Err(unreadable(name)(error)),
        }
    }

    fn open_to_read(&self, name: &str) -> Result<Box<dyn DiskFile>> {
        check_name(name)?;
        self.open(name)?.ok_or_else(|| failed("open", name)(ErrorKind::NotFound.into()))
    }

    /// The blob of that name, if there is one; refuses a name that would be another blob's on some systems.
    fn existing(&self, name: &str) -> Result<Option<Box<dyn DiskFile>>> {
        let names = self.names()?;
        check_case(name, names.iter().map(String::as_str))?;
        match self.disk.open(name, Access::Read) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Err(Error::conflict(format!("something that is no file has the name `{name}`")))
            }
            Err(error) => Err(failed("open", name)(error)),
        }
    }

    fn put(&self, name: &str, payload: &Payload, when: &Precondition) -> Result<Version> {
        check_name(name)?;
        self.exclusively(|unsynced| {
            let existing = self.existing(name)?;
            let existing = existing.map(|file| version_of(&*file, name)).transpose()?;
            match (when, existing) {
                (Precondition::None, _) | (Precondition::Absent, None) => {}
                (Precondition::Version(wanted), Some(there)) if *wanted == there => {}
                (Precondition::Absent, Some(_)) => {
                    return Err(Error::conflict(format!("`{name}` is there already")));
                }
                (Precondition::Version(_), _) => {
                    return Err(Error::conflict(format!(
                        "`{name}` is not what it was: somebody else has changed it"
                    )));
                }
            }
            let written = |bytes| payload.add_written(bytes);
            let parts = payload.parts();
            let stamp = publish(&*self.disk, name, parts, Temporary::OfStore, self.check, &written)
                .map_err(|failure| failed(failure.doing, name)(failure.error))?;
            unsynced.remove(name);
            Ok(version(stamp))
        })
    }

    fn get_range(&self, name: &str, range: Option<Range<u64>>) -> Result<Bytes> {
        let file = self.open_to_read(name)?;
        let len = file.len().map_err(unreadable(name))?;
        let range = range.unwrap_or(0..len);
        let (start, end) = (range.start.min(len), range.end.min(len));
        let mut memory = AlignedBuf::try_zeroed(end.saturating_sub(start))?;
        file.read_exact_at(memory.as_mut(), start).map_err(unreadable(name))?;
        Ok(memory.share())
    }

    fn append(&self, name: &str, expected_len: u64, payload: &Payload) -> Result<u64> {
        check_name(name)?;
        self.exclusively(|unsynced| {
            if unsynced.contains(name) {
                return Err(failed("append to", name)(crate::disk::poisoned()));
            }
            let existing = self.existing(name)?.map(|file| file.len()).transpose();
            let existing = existing.map_err(failed("look at", name))?;
            if existing.unwrap_or(0) != expected_len {
                return Err(Error::conflict(format!(
                    "`{name}` has {} bytes and not {expected_len}: somebody else has changed it",
                    existing.unwrap_or(0)
                )));
            }
            let file = match existing {
                Some(_) => self.disk.open(name, Access::Write).map_err(failed("open", name))?,
                None => self.disk.create_new(name).map_err(failed("create", name))?,
            };
            if let Err(error) =
                write_parts(&*file, expected_len, payload.parts(), &|bytes| payload.add_written(bytes))
            {
                // What was there is whole. The rest goes if the disk lets it.
                let _ = file.set_len(expected_len);
                if existing.is_none() {
                    let _ = self.disk.remove(name);
                }
                return Err(failed("append to", name)(error));
            }
            let mut durable = file.sync();
            if existing.is_none() {
                durable = durable.and_then(|()| self.disk.sync_dir());
            }
            if let Err(error) = durable {
                unsynced.insert(name.to_owned());
                // Memory may show the bytes for as long as the machine runs, and the disk not have them: nobody shall
                // find them and go on behind them. The handle refuses, so another one cuts them off.
                let _ = match existing {
                    Some(_) => {
                        self.disk.open(name, Access::Write).and_then(|file| file.set_len(expected_len))
                    }
                    None => self.disk.remove(name),
                };
                return Err(failed("make durable", name)(error));
            }
            Ok(expected_len + payload.len())
        })
    }

    fn head(&self, name: &str) -> Result<Option<BlobHead>> {
        check_name(name)?;
        let Some(file) = self.open(name)? else { return Ok(None) };
        let len = file.len().map_err(failed("look at", name))?;
        Ok(Some(BlobHead { len, readable: len, version: version_of(&*file, name)? }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| name.starts_with(prefix) && check_name(name).is_ok());
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        self.exclusively(|unsynced| {
            match self.disk.remove(name) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                removed => removed.map_err(failed("remove", name))?,
            }
            unsynced.remove(name);
            self.disk.sync_dir().map_err(failed("make the removal durable of", name))?;
            Ok(true)
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.exclusively(|unsynced| {
            let names = self.names()?;
            if !names.iter().any(|name| name == from) {
                return Err(failed("rename", from)(ErrorKind::NotFound.into()));
            }
            if names.iter().any(|name| name == to) {
                return Err(Error::conflict(format!("`{to}` is there already")));
            }
            check_case(to, names.iter().map(String::as_str))?;
            self.disk.rename(from, to).map_err(failed("rename", from))?;
            if unsynced.remove(from) {
                unsynced.insert(to.to_owned());
            }
            self.disk.sync_dir().map_err(failed("make the name durable of", to))
        })
    }
}

impl Store for DirStore {
    fn put<'a>(&'a self, name: &'a str, payload: Payload, when: Precondition) -> StoreFuture<'a, Version> {
        Box::pin(async move { self.0.put(name, &payload, &when) })
    }
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { self.0.get_range(name, None) })
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move { self.0.get_range(name, Some(range)) })
    }
    fn append<'a>(&'a self, name: &'a str, expected_len: u64, payload: Payload) -> StoreFuture<'a, u64> {
        Box::pin(async move { self.0.append(name, expected_len, &payload) })
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        Box::pin(async move { self.0.head(name) })
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move { self.0.list(prefix) })
    }
    fn remove<'a>(&'a self, name: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.0.remove(name) })
    }
    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.0.rename(from, to) })
    }
}
