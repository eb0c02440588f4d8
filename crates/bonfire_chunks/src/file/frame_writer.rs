//! A buffered writer of frames, which writes large pieces.

use bonfire_store::disk::{DiskFile, bytes_to_border};

use crate::format::{Frame, FrameKey, FrameTag, SIZE_BYTES, WrittenFrame};

/// Buffers are written when they are so long.
pub(super) const WRITE_BYTES: usize = 4 << 20;

/// Writes frames one after the other, in large pieces.
pub(super) struct FrameWriter<'f> {
    pub(super) file: &'f dyn DiskFile,
    /// Where the buffer begins.
    at: u64,
    pub(super) buffer: Vec<u8>,
    /// Where the next frame begins.
    pub(super) end: u64,
}

impl<'f> FrameWriter<'f> {
    /// Writes frames to `file` from `start` on. What `buffer` holds is dropped; its memory is used.
    pub(super) fn new(file: &'f dyn DiskFile, start: u64, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { file, at: start, buffer, end: start }
    }

    pub(super) fn frame(
        &mut self,
        key: FrameKey,
        tag: FrameTag,
        generation: u64,
        data: &[u8],
    ) -> std::io::Result<WrittenFrame> {
        self.append(key, tag, generation, data, |_| {})
    }

    /// A frame that belongs to pinned moments alone.
    pub(super) fn pinned_frame(
        &mut self,
        key: FrameKey,
        tag: FrameTag,
        generation: u64,
        data: &[u8],
    ) -> std::io::Result<WrittenFrame> {
        self.append(key, tag, generation, data, |bytes| Frame::set_pinned_only(bytes, true))
    }

    fn append(
        &mut self,
        key: FrameKey,
        tag: FrameTag,
        generation: u64,
        data: &[u8],
        finish: impl FnOnce(&mut [u8]),
    ) -> std::io::Result<WrittenFrame> {
        let start = self.buffer.len();
        let mut appended = WrittenFrame::new(&mut self.buffer, self.at, key, tag, generation, &[data]);
        finish(&mut self.buffer[start..]);
        // A frame ends with its checksum.
        if let Some(crc) = self.buffer.last_chunk() {
            appended.crc = u32::from_le_bytes(*crc);
        }
        self.end = appended.place.end();
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(appended)
    }

    /// Returns where the data of the next frame will be.
    pub(super) fn next_offset(&self) -> u64 {
        self.end + SIZE_BYTES
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
            let (now, later) = rest.split_at(rest.len().min(bytes_to_border(self.at)));
            self.file.write_all_at(now, self.at)?;
            self.at += now.len() as u64;
            rest = later;
        }
        self.buffer.clear();
        Ok(())
    }
}
