//! Saves to and from a path. A file is replaced as a whole or not at all: the bytes go to a temporary file beside it,
//! are made durable, and take its name.

use std::path::Path;

use bonfire::engine::{AlignedBuf, Rope};
use bonfire::{Error, Limits, Result, Snapshot};
use bytes::Bytes;

use crate::disk::{OsDisk, publish_part};

pub(crate) fn failed<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |error| Error::io(format_args!("cannot {what} `{}`", path.display()), error)
}

fn write_failed<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |error| Error::io_write(format_args!("cannot {what} `{}`", path.display()), error)
}

/// Puts the bytes at `path`.
pub fn write(path: &Path, rope: &Rope) -> Result<()> {
    replace(path, rope.parts(), &|_| {})
}

/// Puts bytes that come in parts at `path`. `written` hears of every piece.
pub(crate) fn replace(path: &Path, parts: &[impl AsRef<[u8]>], written: &dyn Fn(u64)) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        let nameless =
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "it has no file name of Unicode");
        failed("save to", path)(nameless)
    })?;
    let disk = OsDisk::at(path.parent().unwrap_or(Path::new("")));
    let part = disk.create_part(name).map_err(write_failed("create a file for", path))?;
    let published = publish_part(&disk, part, name, parts, written);
    published.map_err(|failure| write_failed(failure.doing, path)(failure.error))
}

/// Reads and checks the save at `path`.
pub fn read(path: &Path, limits: &Limits) -> Result<Snapshot> {
    let options = Snapshot::options().limits(limits.clone());
    let bytes = read_bytes(path, options.file_bytes_max())?;
    options.open_shared(bytes).map_err(|error| error.in_place(path.display()))
}

/// All bytes of the file at `path`, if there are not too many.
pub(crate) fn read_bytes(path: &Path, bytes_max: u64) -> Result<Bytes> {
    if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
        OsDisk::at(path.parent().unwrap_or(Path::new(""))).remove_abandoned_parts(name);
    }
    let mut file = std::fs::File::open(path).map_err(failed("open", path))?;
    let len = file.metadata().map_err(failed("look at", path))?.len();
    let len = usize::try_from(len).ok().filter(|&len| len as u64 <= bytes_max).ok_or_else(|| {
        Error::limit(format!("`{}` has {len} bytes, more than the limits allow", path.display()))
    })?;
    let mut memory = AlignedBuf::zeroed(len);
    std::io::Read::read_exact(&mut file, memory.as_mut()).map_err(failed("read", path))?;
    Ok(memory.share())
}
