//! A disk in memory that records what is asked of it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock};

use super::history::CrashPoints;

/// A disk that records every change and every sync, and tells what a crash after any of them may leave. Clones are the
/// same disk. The model is in the [module's docs](super).
///
/// ```
/// use bonfire_store::{DirStore, Payload, Precondition, Store, Wait};
/// use bonfire_testkit::disk::{CrashDisk, Explorer};
///
/// let disk = CrashDisk::new();
/// let store = DirStore::on(disk.clone())?;
/// store.put("slot", Payload::from(b"saved".to_vec()), Precondition::None).wait()?;
///
/// let mut explorer = Explorer::new(1);
/// for point in disk.crash_points() {
///     for state in explorer.states(&point, 100) {
///         let after_the_crash = DirStore::on(state.disk())?;
///         if let Some(head) = after_the_crash.head("slot").wait()? {
///             assert_eq!(head.len, 5);
///         }
///     }
/// }
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct CrashDisk(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    start: Vec<(String, Arc<Vec<u8>>)>,
    names: BTreeMap<String, usize>,
    /// What programs see, by the number of the file.
    files: Vec<Vec<u8>>,
    operations: Vec<Operation>,
    locks: HashSet<String>,
    syncs_to_fail: usize,
}

/// Something that was asked of the disk. Files are numbered in the order in which they came to be.
#[derive(Clone, PartialEq, Eq)]
pub enum Operation {
    /// A new, empty file.
    Create {
        /// Its name.
        name: String,
        /// Its number.
        file: usize,
    },
    /// Bytes were written.
    Write {
        /// To this file.
        file: usize,
        /// From here.
        offset: usize,
        /// These.
        bytes: Arc<[u8]>,
    },
    /// A file was cut or made longer.
    SetLen {
        /// This file.
        file: usize,
        /// To so many bytes.
        len: usize,
    },
    /// A file was synced.
    Sync {
        /// This file.
        file: usize,
    },
    /// A sync reported an error: what was not durable never will be, although programs see it.
    SyncFailed {
        /// Of this file.
        file: usize,
    },
    /// A file got another name.
    Rename {
        /// Its old name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// A name was removed.
    Remove {
        /// This name.
        name: String,
    },
    /// The directory was synced.
    SyncDir,
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, file } => write!(f, "create {name} as #{file}"),
            Self::Write { file, offset, bytes } => {
                write!(f, "write {} bytes to #{file} at {offset}", bytes.len())
            }
            Self::SetLen { file, len } => write!(f, "set the length of #{file} to {len}"),
            Self::Sync { file } => write!(f, "sync #{file}"),
            Self::SyncFailed { file } => write!(f, "fail to sync #{file}"),
            Self::Rename { from, to } => write!(f, "rename {from} to {to}"),
            Self::Remove { name } => write!(f, "remove {name}"),
            Self::SyncDir => f.write_str("sync the directory"),
        }
    }
}

impl CrashDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk on which these files are durable.
    pub fn with_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let mut inner = Inner::default();
        for (file, (name, bytes)) in files.into_iter().enumerate() {
            inner.names.insert(name.clone(), file);
            inner.start.push((name, Arc::new(bytes.clone())));
            inner.files.push(bytes);
        }
        Self(Arc::new(Mutex::new(inner)))
    }

    /// The files as programs see them.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let inner = self.inner();
        inner.names.iter().map(|(name, file)| (name.clone(), inner.files[*file].clone())).collect()
    }

    /// What was asked of the disk so far. Reading is not recorded.
    pub fn operations(&self) -> Vec<Operation> {
        self.inner().operations.clone()
    }

    /// How much was asked of the disk so far.
    pub fn operation_count(&self) -> usize {
        self.inner().operations.len()
    }

    /// Every point at which the disk can crash: before the first operation, and after each of them.
    pub fn crash_points(&self) -> CrashPoints {
        let inner = self.inner();
        CrashPoints::new(&inner.start, inner.operations.clone())
    }

    /// Lets the next syncs of files fail as they do on Linux: the bytes are lost, programs go on to see them, and the
    /// next sync says that all is well.
    pub fn fail_syncs(&self, count: usize) {
        self.inner().syncs_to_fail = count;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, file: usize, access: Access) -> Box<dyn DiskFile> {
        Box::new(CrashFile { disk: self.clone(), file, access })
    }
}

impl Inner {
    fn create(&mut self, name: &str) -> usize {
        let file = self.files.len();
        self.files.push(Vec::new());
        self.names.insert(name.to_owned(), file);
        self.operations.push(Operation::Create { name: name.to_owned(), file });
        file
    }
}

impl Disk for CrashDisk {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let file = *self.inner().names.get(name).ok_or(ErrorKind::NotFound)?;
        Ok(self.file(file, access))
    }

    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.inner();
        if inner.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let file = inner.create(name);
        Ok(self.file(file, Access::Write))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner();
        let file = inner.names.remove(from).ok_or(ErrorKind::NotFound)?;
        inner.names.insert(to.to_owned(), file);
        inner.operations.push(Operation::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.names.remove(name).ok_or(ErrorKind::NotFound)?;
        inner.operations.push(Operation::Remove { name: name.to_owned() });
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.inner().names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner().operations.push(Operation::SyncDir);
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        let mut inner = self.inner();
        if !inner.locks.insert(name.to_owned()) {
            return Ok(None);
        }
        if !inner.names.contains_key(name) {
            inner.create(name);
        }
        Ok(Some(DiskLock::new(Held { disk: self.clone(), name: name.to_owned() })))
    }
}

struct Held {
    disk: CrashDisk,
    name: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.disk.inner().locks.remove(&self.name);
    }
}

struct CrashFile {
    disk: CrashDisk,
    file: usize,
    access: Access,
}

impl CrashFile {
    fn for_writing(&self) -> io::Result<MutexGuard<'_, Inner>> {
        if self.access == Access::Read {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "the file is open for reading only"));
        }
        Ok(self.disk.inner())
    }
}

fn as_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| ErrorKind::StorageFull.into())
}

impl DiskFile for CrashFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.inner().files[self.file].len() as u64)
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let inner = self.disk.inner();
        let bytes = &inner.files[self.file];
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let len = out.len().min(bytes.len() - start);
        out[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }

    fn write_at(&self, new: &[u8], offset: u64) -> io::Result<usize> {
        let (mut inner, offset) = (self.for_writing()?, as_usize(offset)?);
        let change = Change::Write { offset, bytes: new.into() };
        change.apply(&mut inner.files[self.file]);
        inner.operations.push(Operation::Write { file: self.file, offset, bytes: new.into() });
        Ok(new.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut inner, len) = (self.for_writing()?, as_usize(len)?);
        Change::SetLen(len).apply(&mut inner.files[self.file]);
        inner.operations.push(Operation::SetLen { file: self.file, len });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.inner();
        if inner.syncs_to_fail > 0 {
            inner.syncs_to_fail -= 1;
            inner.operations.push(Operation::SyncFailed { file: self.file });
            return Err(io::Error::other("the disk has lost what was written"));
        }
        inner.operations.push(Operation::Sync { file: self.file });
        Ok(())
    }

    fn stamp(&self) -> io::Result<u64> {
        Ok(self.file as u64)
    }
}

/// A change of a file's bytes.
#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Arc<[u8]> },
    SetLen(usize),
}

impl Change {
    pub(super) fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Write { bytes, .. } if bytes.is_empty() => {}
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[*offset..end].copy_from_slice(bytes);
            }
            Self::SetLen(len) => file.resize(*len, 0),
        }
    }
}
