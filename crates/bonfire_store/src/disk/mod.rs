//! One directory of files, and when its changes are durable: all that saves need of an operating system.
//!
//! [`DirStore`](crate::DirStore) and chunk worlds know nothing else of it, so that a disk that forgets, tears or fails can
//! take its place in tests.

mod memory;
#[cfg(not(target_arch = "wasm32"))]
mod os;
mod publish;

use std::any::Any;
use std::io::{self, ErrorKind, IoSlice};
use std::path::Path;

pub use self::memory::MemoryDisk;
#[cfg(not(target_arch = "wasm32"))]
pub use self::os::OsDisk;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use self::publish::publish_part;
pub(crate) use self::publish::{TEMPORARY, WriteCheck, prepare, publish, write_parts};
pub use self::publish::{WRITE_BORDER_BYTES, bytes_to_border};

/// One directory. Names are names of files in it, never paths.
///
/// Nothing is promised to survive a crash until the calls that make it durable have returned: [`DiskFile::sync`] for the
/// bytes and the length of a file, [`Disk::sync_dir`] for names: created, renamed and removed ones.
///
/// A call that a signal interrupts is made again by the disk. Only [`DiskFile::read_at`] and [`DiskFile::write_at`] may
/// return `Interrupted`.
pub trait Disk: Send + Sync {
    /// Opens a file that is there. Links are not followed: what is not a regular file is refused with
    /// `InvalidInput`.
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>>;

    /// Creates a file for reading and writing, and fails with `AlreadyExists` if anything has the name.
    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, in one step. A file that had that name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all regular files, in no order. Links, directories and names that are not Unicode are left out.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes names durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Takes the lock of that name for this process and this handle alone, or returns `None` if another has it. The
    /// file is created if it is not there, and stays. The lock ends when the guard is dropped, or with the process.
    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>>;

    /// Bytes that new files may take. `None` if the disk cannot tell.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// The path of the directory, for messages. `None` for disks that are not part of a file system.
    fn path(&self) -> Option<&Path> {
        None
    }
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// An open file. Calls may be made from several threads.
pub trait DiskFile: Send + Sync {
    /// The number of bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether there are no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads some bytes at an offset; 0 at the end of the file.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes at an offset, and returns how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes of these parts, one part after the other, at an offset, and returns how many. A disk that can
    /// write several parts in one call does so without a copy. Others gather them.
    fn write_parts_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let to_border = bytes_to_border(offset);
        match parts {
            [] => Ok(0),
            [part] => self.write_at(part, offset),
            // What lies before its last border, as it is.
            [part, ..] if part.len() >= to_border => {
                let more = (part.len() - to_border) / WRITE_BORDER_BYTES * WRITE_BORDER_BYTES;
                self.write_at(&part[..to_border + more], offset)
            }
            parts => {
                let mut gathered = Vec::new();
                for part in parts {
                    gathered.extend_from_slice(&part[..part.len().min(to_border - gathered.len())]);
                }
                self.write_at(&gathered, offset)
            }
        }
    }

    /// Cuts the file, or makes it longer with zero bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes bytes and length durable. After a failure nobody knows what the disk has, and the system may say that all is
    /// well when asked again: every later call of `write_at`, `set_len` and `sync` fails.
    fn sync(&self) -> io::Result<()>;

    /// A number that another file under the same name would not have.
    fn stamp(&self) -> io::Result<u64>;

    /// Drops what memory holds of the file, so that the next read asks the disk. A request: not every system has it.
    fn forget_cached(&self) -> io::Result<()> {
        Ok(())
    }

    /// Reads exactly these bytes, however the system cuts them.
    fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.read_at(bytes, offset) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    bytes = &mut bytes[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of these bytes, however the system cuts them.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Holds a lock until it is dropped.
pub struct DiskLock {
    _guard: Box<dyn Any + Send + Sync>,
}

impl DiskLock {
    /// A lock that ends when `guard` is dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl std::fmt::Debug for DiskLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DiskLock")
    }
}
