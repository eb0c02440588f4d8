//! Frames one after the other, in large pieces.

use bonfire_store::DiskFile;

use crate::format::{Appended, Key, Tag};

/// Buffers are written when they are so long.
pub(super) const WRITE_BYTES: usize = 4 << 20;
/// Where pieces end that are written at once: file systems take those several times faster than others.
const BORDER_BYTES: u64 = 1 << 20;

/// Writes frames one after the other, in large pieces.
pub(super) struct Appender<'f> {
    pub(super) file: &'f dyn DiskFile,
    /// Where the buffer begins.
    pub(super) at: u64,
    pub(super) buffer: Vec<u8>,
    /// Where the next frame begins.
    pub(super) end: u64,
}

impl Appender<'_> {
    pub(super) fn frame(
        &mut self,
        key: Key,
        tag: Tag,
        generation: u64,
        data: &[u8],
    ) -> std::io::Result<Appended> {
        let appended = Appended::new(&mut self.buffer, self.at, key, tag, generation, &[data]);
        self.end = appended.place.end();
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(appended)
    }

    /// A frame as it lies in another file.
    pub(super) fn raw(&mut self, frame: &[u8]) -> std::io::Result<u64> {
        let start = self.end;
        self.buffer.extend_from_slice(frame);
        self.end += frame.len() as u64;
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(start)
    }

    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            let to_border = usize::try_from(BORDER_BYTES - self.at % BORDER_BYTES).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(rest.len().min(to_border));
            self.file.write_all_at(now, self.at)?;
            self.at += now.len() as u64;
            rest = later;
        }
        self.buffer.clear();
        Ok(())
    }
}
