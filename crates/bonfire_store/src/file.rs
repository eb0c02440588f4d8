//! Saves to and from a path. A file is replaced as a whole or not at all: the bytes go to a temporary file beside it,
//! are made durable, and take its name.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use bonfire::{AlignedBuf, Error, Limits, Result, Rope, Snapshot};

pub(crate) fn failed<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |error| Error::io(format_args!("cannot {what} `{}`", path.display()), &error)
}

/// Puts the bytes at `path`.
pub fn write(path: &Path, rope: &Rope) -> Result<()> {
    replace(path, rope.parts().iter().map(AsRef::as_ref))
}

/// Puts bytes that come in parts at `path`.
pub(crate) fn replace<'p>(path: &Path, parts: impl IntoIterator<Item = &'p [u8]>) -> Result<()> {
    let temporary = temporary_name(path)?;
    let written = write_durably(&temporary, parts)
        .and_then(|()| fs::rename(&temporary, path).map_err(failed("replace", path)))
        .and_then(|()| sync_directory(path));
    if written.is_err() {
        // The error that matters is the first one.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn temporary_name(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        Error::io(
            format_args!("cannot save to `{}`", path.display()),
            &std::io::Error::new(std::io::ErrorKind::InvalidInput, "it has no file name"),
        )
    })?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

fn write_durably<'p>(path: &Path, parts: impl IntoIterator<Item = &'p [u8]>) -> Result<()> {
    // A leftover of a process that had this number before. What is created next is ours alone, and no link is followed.
    let _ = fs::remove_file(path);
    let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed("create", path))?;
    let mut out = BufWriter::with_capacity(256 << 10, file);
    for part in parts {
        out.write_all(part).map_err(failed("write", path))?;
    }
    out.flush().map_err(failed("write", path))?;
    out.get_ref().sync_all().map_err(failed("make durable", path))
}

/// A new name is durable once its directory is. Windows has no such call and needs none.
fn sync_directory(path: &Path) -> Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(failed("make durable", directory))
}

/// Reads and checks the save at `path`.
pub fn read(path: &Path, limits: &Limits) -> Result<Snapshot> {
    let mut file = File::open(path).map_err(failed("open", path))?;
    let len = file.metadata().map_err(failed("look at", path))?.len();
    // Headers and copies of small sections come on top of what the limits count.
    let max = limits.raw_bytes_max.saturating_mul(2).saturating_add(1 << 20);
    let len = usize::try_from(len).ok().filter(|&len| len as u64 <= max).ok_or_else(|| {
        Error::limit(format!("`{}` has {len} bytes, more than the limits allow", path.display()))
    })?;
    let mut memory = AlignedBuf::zeroed(len);
    file.read_exact(memory.as_mut()).map_err(failed("read", path))?;
    Snapshot::options().limits(limits.clone()).open_shared(memory.share())
}
