//! Names of the files of a world, its lock, and errors that name it.

use bonfire::{Error, Result};
use bonfire_store::disk::{Disk, DiskLock};

/// Returns the name of the lock beside a world.
pub(crate) fn lock_name(name: &str) -> String {
    format!("{name}.lock")
}

/// Returns the name of the file that will replace a world.
pub(super) fn temporary_name(name: &str) -> String {
    format!("{name}.tmp")
}

/// Takes the lock of a world. Fails if another writer holds it.
pub(super) fn take_lock(disk: &dyn Disk, name: &str) -> Result<DiskLock> {
    let lock = disk.lock(&lock_name(name)).map_err(io_error("lock", name))?;
    lock.ok_or_else(|| {
        Error::conflict(format!("`{name}` is open for writing already, here or in another process"))
    })
}

/// Returns a function that says what could not be done with a world.
pub(super) fn io_error<'n>(what: &'n str, name: &'n str) -> impl Fn(std::io::Error) -> Error + 'n {
    move |error| Error::io(format_args!("cannot {what} `{name}`"), error)
}

/// Returns the error of a caller that reads or writes a sealed world without a key.
pub(super) fn no_key(name: &str) -> Error {
    Error::wrong_key(format!("`{name}` is sealed, and no key was given"))
}
