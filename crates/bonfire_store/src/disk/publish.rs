//! Atomic file replacement, which all files of this crate are written with.
//!
//! | step | why |
//! |---|---|
//! | create a temporary file beside it, exclusively | nobody reads it, and no link or leftover is written through |
//! | write | |
//! | sync the file | or the new name could point to bytes that never reached the disk |
//! | read it back, if asked for | a disk, a cable or memory that lies is found while the old save is still there |
//! | rename | readers see the old file or the new one |
//! | sync the directory | or the old name could be back after a crash |
//!
//! An error before the rename leaves the old file and nothing else.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Disk, DiskFile};

/// How the names of temporary files of a store end. They begin with a dot, which no name of a blob does. Their writer holds
/// the lock of the store, so the next one that holds it removes what a crash has left.
pub(crate) const TEMPORARY: &str = ".bonfire-tmp";

/// The check of a written file before it takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteCheck {
    /// A sync that succeeds is trusted.
    Sync,
    /// The file is also read back from the disk and compared.
    ReadBack,
}

/// Writes should end at multiples of this many bytes: file systems take such writes several times faster than others.
pub const WRITE_BORDER_BYTES: usize = 1 << 20;

/// Returns the number of bytes from `offset` to the next border, from 1 to [`WRITE_BORDER_BYTES`].
pub fn bytes_to_border(offset: u64) -> usize {
    WRITE_BORDER_BYTES - (offset % WRITE_BORDER_BYTES as u64) as usize
}

/// The longest single write. Progress does not move during a write.
const PIECE_BYTES_MAX: usize = 8 * WRITE_BORDER_BYTES;

/// Puts `parts` into the file `name`, and returns the stamp of the new file. Calls `written` with the length of every piece.
pub(crate) fn publish(
    disk: &dyn Disk,
    name: &str,
    parts: &[impl AsRef<[u8]>],
    check: WriteCheck,
    written: &dyn Fn(u64),
) -> Result<u64, PublishError> {
    let Prepared { temporary, stamp } = prepare(disk, parts, check, written)?;
    take_name(disk, &temporary, name)?;
    Ok(stamp)
}

/// Puts `parts` into a temporary file that its creator has locked, and gives it the name `name`. The lock ends after that.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn publish_part(
    disk: &dyn Disk,
    (temporary, file): (String, Box<dyn DiskFile>),
    name: &str,
    parts: &[impl AsRef<[u8]>],
    written: &dyn Fn(u64),
) -> Result<(), PublishError> {
    fill(&*file, parts, WriteCheck::Sync, written).inspect_err(|_| drop(disk.remove(&temporary)))?;
    take_name(disk, &temporary, name)
}

fn take_name(disk: &dyn Disk, temporary: &str, name: &str) -> Result<(), PublishError> {
    disk.rename(temporary, name).map_err(|error| {
        // The error that matters is the first one.
        let _ = disk.remove(temporary);
        PublishError::at("replace")(error)
    })?;
    disk.sync_dir().map_err(|error| PublishError {
        has_replaced: true,
        ..PublishError::at("make the name durable of")(error)
    })
}

/// A durable file that has its contents and not its name.
pub(crate) struct Prepared {
    pub(crate) temporary: String,
    pub(crate) stamp: u64,
}

/// Writes `parts` to a temporary file and makes it durable. An error leaves nothing.
pub(crate) fn prepare(
    disk: &dyn Disk,
    parts: &[impl AsRef<[u8]>],
    check: WriteCheck,
    written: &dyn Fn(u64),
) -> Result<Prepared, PublishError> {
    let (temporary, file) = create_temporary(disk)?;
    let filled =
        fill(&*file, parts, check, written).and_then(|()| file.stamp().map_err(PublishError::at("look at")));
    drop(file);
    match filled {
        Ok(stamp) => Ok(Prepared { temporary, stamp }),
        Err(error) => {
            let _ = disk.remove(&temporary);
            Err(error)
        }
    }
}

/// A file that nobody else writes to: a name that is taken, by another process or as a leftover, is not touched.
fn create_temporary(disk: &dyn Disk) -> Result<(String, Box<dyn DiskFile>), PublishError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    #[cfg(not(target_arch = "wasm32"))]
    let process = std::process::id();
    #[cfg(target_arch = "wasm32")]
    let process = 0;
    loop {
        let name = format!(".{process}-{}{TEMPORARY}", NEXT.fetch_add(1, Ordering::Relaxed));
        match disk.create_new(&name) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(PublishError::at("create a file for")(error)),
        }
    }
}

fn fill(
    file: &dyn DiskFile,
    parts: &[impl AsRef<[u8]>],
    check: WriteCheck,
    written: &dyn Fn(u64),
) -> Result<(), PublishError> {
    write_parts(file, 0, parts, written).map_err(PublishError::at("write"))?;
    file.sync().map_err(PublishError::at("make durable"))?;
    if check == WriteCheck::ReadBack {
        check_contents(file, parts).map_err(PublishError::at("read back"))?;
    }
    Ok(())
}

/// Writes `parts` one after the other, from `offset`, in large pieces that end at [borders](WRITE_BORDER_BYTES).
pub(crate) fn write_parts(
    file: &dyn DiskFile,
    mut offset: u64,
    parts: &[impl AsRef<[u8]>],
    written: &dyn Fn(u64),
) -> io::Result<()> {
    let mut piece: Vec<IoSlice<'_>> = Vec::new();
    let (mut bytes, mut bytes_max) = (0, piece_bytes_max(offset));
    let mut write = |piece: &mut Vec<IoSlice<'_>>, bytes: usize| -> io::Result<()> {
        write_piece(file, piece, offset, written)?;
        offset += bytes as u64;
        piece.clear();
        Ok(())
    };
    for mut part in parts.iter().map(AsRef::as_ref) {
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(bytes_max - bytes));
            piece.push(IoSlice::new(now));
            (part, bytes) = (later, bytes + now.len());
            if bytes == bytes_max {
                write(&mut piece, bytes)?;
                (bytes, bytes_max) = (0, PIECE_BYTES_MAX);
            }
        }
    }
    write(&mut piece, bytes)
}

/// Writes all bytes of a piece, however the system cuts it.
fn write_piece(
    file: &dyn DiskFile,
    mut parts: &mut [IoSlice<'_>],
    mut offset: u64,
    written: &dyn Fn(u64),
) -> io::Result<()> {
    while !parts.is_empty() {
        match file.write_parts_at(parts, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => {
                IoSlice::advance_slices(&mut parts, bytes);
                offset += bytes as u64;
                written(bytes as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the bytes of the longest piece that begins at `offset` and ends at a border.
fn piece_bytes_max(offset: u64) -> usize {
    bytes_to_border(offset) + PIECE_BYTES_MAX - WRITE_BORDER_BYTES
}

fn check_contents(file: &dyn DiskFile, parts: &[impl AsRef<[u8]>]) -> io::Result<()> {
    file.forget_cached()?;
    let mut buffer = vec![0; WRITE_BORDER_BYTES];
    let mut offset = 0;
    for part in parts.iter().map(AsRef::as_ref) {
        for expected in part.chunks(WRITE_BORDER_BYTES) {
            let found = &mut buffer[..expected.len()];
            file.read_exact_at(found, offset)?;
            if found != expected {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the disk does not hold what was written",
                ));
            }
            offset += expected.len() as u64;
        }
    }
    if file.len()? != offset {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is not as long as what was written",
        ));
    }
    Ok(())
}

/// Which step failed.
#[derive(Debug)]
pub(crate) struct PublishError {
    pub(crate) doing: &'static str,
    pub(crate) error: io::Error,
    /// The new file has the name already.
    pub(crate) has_replaced: bool,
}

impl PublishError {
    fn at(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self { doing, error, has_replaced: false }
    }
}
