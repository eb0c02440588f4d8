//! A directory in memory: for tests, tools and saves that need not outlive the program.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::{Access, Disk, DiskFile, DiskLock};

/// A directory whose files are in memory. Clones are the same directory.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    files: Arc<Mutex<BTreeMap<String, Arc<Contents>>>>,
    locks: Arc<Mutex<HashSet<String>>>,
}

struct Contents {
    bytes: RwLock<Vec<u8>>,
    stamp: u64,
}

/// No two files of a program have the same.
fn next_stamp() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl MemoryDisk {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// A directory with these files.
    pub fn with_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let contents = |bytes| Arc::new(Contents { bytes: RwLock::new(bytes), stamp: next_stamp() });
        let files = files.into_iter().map(|(name, bytes)| (name, contents(bytes))).collect();
        Self { files: Arc::new(Mutex::new(files)), locks: Arc::default() }
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Contents>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemoryDisk {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let contents = self.files().get(name).cloned().ok_or(ErrorKind::NotFound)?;
        Ok(Box::new(MemoryFile { contents, access }))
    }

    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut files = self.files();
        if files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let contents = Arc::new(Contents { bytes: RwLock::default(), stamp: next_stamp() });
        files.insert(name.to_owned(), contents.clone());
        Ok(Box::new(MemoryFile { contents, access: Access::Write }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or(ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name).map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        if !self.locks.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
            return Ok(None);
        }
        Ok(Some(DiskLock::new(MemoryLock { locks: self.locks.clone(), name: name.to_owned() })))
    }
}

struct MemoryLock {
    locks: Arc<Mutex<HashSet<String>>>,
    name: String,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

struct MemoryFile {
    contents: Arc<Contents>,
    access: Access,
}

impl MemoryFile {
    fn change<T>(&self, change: impl FnOnce(&mut Vec<u8>) -> io::Result<T>) -> io::Result<T> {
        if self.access == Access::Read {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "the file is open for reading only"));
        }
        change(&mut self.contents.bytes.write().unwrap_or_else(PoisonError::into_inner))
    }
    fn read<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(&self.contents.bytes.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn as_len(len: u64) -> io::Result<usize> {
    usize::try_from(len).ok().filter(|&len| len <= isize::MAX as usize).ok_or(ErrorKind::StorageFull.into())
}

/// Makes the file longer with zero bytes, or says that there is no memory for it.
fn grow(bytes: &mut Vec<u8>, len: usize) -> io::Result<()> {
    bytes.try_reserve(len.saturating_sub(bytes.len())).map_err(|_| ErrorKind::StorageFull)?;
    if bytes.len() < len {
        bytes.resize(len, 0);
    }
    Ok(())
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.read(|bytes| bytes.len() as u64))
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.read(|bytes| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let len = out.len().min(bytes.len() - start);
            out[..len].copy_from_slice(&bytes[start..start + len]);
            len
        }))
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<usize> {
        let end = as_len(offset.saturating_add(new.len() as u64))?;
        self.change(|bytes| {
            grow(bytes, end)?;
            bytes[end - new.len()..end].copy_from_slice(new);
            Ok(new.len())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = as_len(len)?;
        self.change(|bytes| {
            grow(bytes, len)?;
            bytes.truncate(len);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn stamp(&self) -> io::Result<u64> {
        Ok(self.contents.stamp)
    }
}
