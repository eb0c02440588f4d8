//! A protocol that is broken on purpose, below the code that follows it: an explorer that finds nothing wrong here would
//! find nothing anywhere.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bonfire_store::{Access, Disk, DiskFile, DiskLock};

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
}

/// A disk that leaves out a step, or swaps two, and says that all is well.
pub struct BrokenDisk<D> {
    disk: D,
    breakage: Breakage,
    /// Files whose sync has been put off.
    late: Arc<Mutex<Vec<Arc<dyn DiskFile>>>>,
}

impl<D: Disk> BrokenDisk<D> {
    /// Breaks a disk.
    pub fn new(disk: D, breakage: Breakage) -> Self {
        Self { disk, breakage, late: Arc::default() }
    }

    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(BrokenFile { file: file.into(), breakage: self.breakage, late: self.late.clone() })
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
}

impl DiskFile for BrokenFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        match self.breakage {
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
