//! A protocol that is broken on purpose, below the code that follows it: an explorer that finds nothing wrong here would
//! find nothing anywhere.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// Nothing: to see that it is the breakage that is found.
    None,
    /// Files are not synced.
    NoFileSync,
    /// The directory is not synced.
    NoDirSync,
    /// A file is synced right after the next rename and not before it.
    RenameBeforeFileSync,
    /// The directory is synced right before a rename and not after it.
    DirSyncBeforeRename,
    /// One sync of a file, the n-th of all from 1, is left out.
    NoSyncNumber(usize),
    /// Files to which something was only added since the last sync are not synced.
    NoSyncOfAppends,
    /// Files in which something was written over since the last sync are not synced.
    NoSyncOfOverwrites,
    /// After something was added to a file, the sync and the write that follows it are swapped.
    AppendsSyncedLate,
    /// After something was written over in a file, the sync and the write that follows it are swapped.
    OverwritesSyncedLate,
}

/// A disk that leaves out a step, or swaps two, and says that all is well.
pub struct BrokenDisk<D> {
    disk: D,
    breakage: Breakage,
    /// Files whose sync has been put off.
    late: Arc<Mutex<Vec<Arc<dyn DiskFile>>>>,
    syncs: Arc<AtomicUsize>,
}

impl<D: Disk> BrokenDisk<D> {
    /// Breaks a disk.
    pub fn new(disk: D, breakage: Breakage) -> Self {
        Self { disk, breakage, late: Arc::default(), syncs: Arc::default() }
    }

    /// How many syncs of files were asked for.
    pub fn sync_count(&self) -> usize {
        self.syncs.load(Ordering::Relaxed)
    }

    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(BrokenFile {
            file: file.into(),
            breakage: self.breakage,
            late: self.late.clone(),
            syncs: self.syncs.clone(),
            pending: Mutex::default(),
        })
    }
}

impl<D: Disk> Disk for BrokenDisk<D> {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.disk.open(name, access)?))
    }

    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.disk.create_new(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.breakage == Breakage::DirSyncBeforeRename {
            self.disk.sync_dir()?;
        }
        self.disk.rename(from, to)?;
        let late = std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner));
        late.iter().try_for_each(|file| file.sync())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        match self.breakage {
            Breakage::NoDirSync | Breakage::DirSyncBeforeRename => Ok(()),
            _ => self.disk.sync_dir(),
        }
    }

    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        self.disk.lock(name)
    }
}

struct BrokenFile {
    file: Arc<dyn DiskFile>,
    breakage: Breakage,
    late: Arc<Mutex<Vec<Arc<dyn DiskFile>>>>,
    syncs: Arc<AtomicUsize>,
    pending: Mutex<Pending>,
}

/// What happened to a file since it was synced last.
#[derive(Default)]
struct Pending {
    appended: bool,
    overwritten: bool,
    /// A sync is to follow the next write.
    sync_is_late: bool,
}

impl DiskFile for BrokenFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let len = self.file.len()?;
        let written = self.file.write_at(bytes, offset)?;
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut pending.sync_is_late) {
            self.file.sync()?;
            *pending = Pending::default();
        } else if offset >= len {
            pending.appended = true;
        } else {
            pending.overwritten = true;
        }
        Ok(written)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let number = self.syncs.fetch_add(1, Ordering::Relaxed) + 1;
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let Pending { appended, overwritten, .. } = std::mem::take(&mut *pending);
        match self.breakage {
            Breakage::NoSyncNumber(skipped) if skipped == number => Ok(()),
            Breakage::NoSyncOfAppends if appended && !overwritten => Ok(()),
            Breakage::NoSyncOfOverwrites if overwritten => Ok(()),
            Breakage::AppendsSyncedLate if appended && !overwritten => {
                pending.sync_is_late = true;
                Ok(())
            }
            Breakage::OverwritesSyncedLate if overwritten => {
                pending.sync_is_late = true;
                Ok(())
            }
            Breakage::NoFileSync => Ok(()),
            Breakage::RenameBeforeFileSync => {
                self.late.lock().unwrap_or_else(PoisonError::into_inner).push(self.file.clone());
                Ok(())
            }
            _ => self.file.sync(),
        }
    }

    fn stamp(&self) -> io::Result<u64> {
        self.file.stamp()
    }
}
