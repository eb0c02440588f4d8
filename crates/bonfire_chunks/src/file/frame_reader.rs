//! Reads single frames and checks them.

use bonfire::{Error, Result};
use bonfire_store::disk::DiskFile;

use crate::format::{Frame, FrameKey, FramePlace};

/// Reads the frame that should be at a place, from its size word to its last byte. The tag of the place that is returned is the
/// frame's own: that of a table entry has no checksum.
pub(super) fn read_place(
    file: &dyn DiskFile,
    key: FrameKey,
    place: FramePlace,
    bytes: &mut Vec<u8>,
) -> Result<FramePlace> {
    let len = usize::try_from(place.frame_bytes()).map_err(|_| damaged(key, "it is longer than memory"))?;
    // What a damaged table claims is not believed before the file is known to be so long.
    if len > 1 << 20 && file.len().map_err(|error| failed(key, error))? < place.end() {
        return Err(damaged(key, "the file ends before it"));
    }
    bytes.resize(len, 0);
    file.read_exact_at(bytes, place.start()).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged(key, "the file ends before it"),
        _ => failed(key, error),
    })?;
    let frame = Frame::check(bytes, &place).ok_or_else(|| damaged(key, "its checksum is wrong"))?;
    if frame.key() != key {
        return Err(damaged(key, "something else lies in its place"));
    }
    Ok(frame.place)
}

/// Returns the error for a frame that is not what was written.
pub(super) fn damaged(key: FrameKey, why: &str) -> Error {
    Error::corrupt(format!("the {} is damaged: {why}", key.describe()))
}

fn failed(key: FrameKey, error: std::io::Error) -> Error {
    Error::io(format_args!("cannot read the {}", key.describe()), error)
}
