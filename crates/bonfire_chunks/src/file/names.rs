//! Names of the files of a world, its lock, and errors that name it.

use bonfire::{Error, Result};
use bonfire_store::disk::{Disk, DiskLock};

/// Returns the name of the lock beside a world.
pub(crate) fn lock_name(name: &str) -> String {
    format!("{name}.lock")
}

/// The name of a file that will replace a world, until it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemporaryName {
    /// Of a file that is written in one go.
    InOneGo,
    /// Of a file that is written in steps, with saves of the world in between.
    InSteps,
}

impl TemporaryName {
    pub(super) const ALL: [Self; 2] = [Self::InOneGo, Self::InSteps];

    /// Returns the name beside a world.
    pub(super) fn beside(self, name: &str) -> String {
        match self {
            Self::InOneGo => format!("{name}.tmp"),
            Self::InSteps => format!("{name}.next"),
        }
    }
}

/// Takes the lock of a world. Fails if another writer holds it.
pub(super) fn take_lock(disk: &dyn Disk, name: &str) -> Result<DiskLock> {
    let lock = disk.lock(&lock_name(name)).map_err(write_error(disk, "lock", name))?;
    lock.ok_or_else(|| {
        Error::conflict(format!("`{name}` is open for writing already, here or in another process"))
    })
}

/// Returns the path of a world for messages, or its name on a disk without paths.
pub(super) fn path_of(disk: &dyn Disk, name: &str) -> String {
    disk.path().map_or_else(|| name.to_owned(), |path| path.join(name).display().to_string())
}

/// Returns a function that makes the error of a read that failed.
pub(super) fn read_error<'n>(
    disk: &'n dyn Disk,
    what: &'n str,
    name: &'n str,
) -> impl Fn(std::io::Error) -> Error + 'n {
    move |error| Error::io(format_args!("cannot {what} `{}`", path_of(disk, name)), error)
}

/// Returns a function that makes the error of a write that failed.
pub(super) fn write_error<'n>(
    disk: &'n dyn Disk,
    what: &'n str,
    name: &'n str,
) -> impl Fn(std::io::Error) -> Error + 'n {
    move |error| Error::io_write(format_args!("cannot {what} `{}`", path_of(disk, name)), error)
}

/// Returns the error of a caller without a key who wants to read what a sealed world hides, or to write to it.
pub(super) fn no_key(name: &str) -> Error {
    Error::wrong_key(format!("`{name}` is sealed, and no key was given"))
}
