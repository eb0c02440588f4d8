//! A scanner for files of unknown origin: frame by frame along the chain of sizes, and where that is broken from one trailer to the
//! next. Memory does not depend on what the file claims.

use std::io;
use std::ops::Range;

use bonfire_store::disk::DiskFile;
use memchr::memmem;

use crate::format::{FRAME_EXTRA_BYTES, Frame, MAGIC, SIZE_BYTES, TRAILER_BYTES};

const WINDOW_BYTES: u64 = 1 << 18;

/// Finds the whole frames of a file.
pub(super) struct FrameScanner<'f> {
    file: &'f dyn DiskFile,
    len: u64,
    /// What was read last.
    window: Vec<u8>,
    at: u64,
    /// Bytes that may still be read to check frames that turn out not to be any: a hostile file could claim one at every
    /// place.
    patience: u64,
}

impl<'f> FrameScanner<'f> {
    pub(super) fn new(file: &'f dyn DiskFile) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self {
            file,
            len,
            window: Vec::new(),
            at: 0,
            patience: len.saturating_mul(4).saturating_add(1 << 26),
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Some bytes, at most as many as a window has; `None` if the file ends before them.
    fn bytes(&mut self, offset: u64, len: u64) -> io::Result<Option<&[u8]>> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let is_here = self.at <= offset && offset + len <= self.at + self.window.len() as u64;
        if !is_here {
            let here = WINDOW_BYTES.max(len).min(self.len - offset);
            self.window.resize(usize::try_from(here).unwrap_or(0), 0);
            self.at = offset;
            if let Err(error) = self.file.read_exact_at(&mut self.window, offset) {
                self.window.clear();
                return Err(error);
            }
        }
        let start = usize::try_from(offset - self.at).unwrap_or(0);
        Ok(self.window.get(start..start + usize::try_from(len).unwrap_or(0)))
    }

    /// All bytes of a range that lies in the file, in memory of their own.
    pub(super) fn read(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let len =
            usize::try_from(len).ok().filter(|_| offset.checked_add(len).is_some_and(|end| end <= self.len));
        let mut bytes = vec![0; len.ok_or(io::ErrorKind::UnexpectedEof)?];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// The frame that begins at `start`, if there is a whole one.
    pub(super) fn frame_at(&mut self, start: u64) -> io::Result<Option<Frame>> {
        let Some(size) = self.bytes(start, SIZE_BYTES)?.and_then(|bytes| bytes.first_chunk().copied()) else {
            return Ok(None);
        };
        let Some(len) = u64::from(u32::from_le_bytes(size)).checked_sub(TRAILER_BYTES) else {
            return Ok(None);
        };
        self.check(start, len)
    }

    fn check(&mut self, start: u64, len: u64) -> io::Result<Option<Frame>> {
        let data = start + SIZE_BYTES;
        let Some(trailer) = self.bytes(data.saturating_add(len), TRAILER_BYTES)?.map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        let frame = Frame::decode(&trailer, data).filter(|frame| u64::from(frame.place.len) == len);
        let Some(frame) = frame else { return Ok(None) };
        let (mut crc, mut at) = (0, data);
        while at < data + len {
            let piece = (data + len - at).min(WINDOW_BYTES);
            let Some(bytes) = self.bytes(at, piece)? else { return Ok(None) };
            crc = crc32c::crc32c_append(crc, bytes);
            at += piece;
        }
        let is_whole = Frame::is_crc_of(crc, &trailer, frame.crc);
        if !is_whole {
            self.patience = self.patience.saturating_sub(len);
        }
        Ok(is_whole.then_some(frame))
    }

    /// The next whole frame that begins at `from` or later, wherever it is. Its size word may be damaged: the trailer says
    /// the same.
    fn find_frame(&mut self, from: u64) -> io::Result<Option<Frame>> {
        let finder = memmem::Finder::new(&MAGIC);
        let mut at = from + SIZE_BYTES;
        while at.saturating_add(TRAILER_BYTES) <= self.len && self.patience > 0 {
            let piece = WINDOW_BYTES.min(self.len - at);
            let Some(found) = self.bytes(at, piece)?.map(|bytes| finder.find(bytes)) else { return Ok(None) };
            let Some(found) = found else {
                // One may begin in this piece and end in the next.
                at += (piece - (MAGIC.len() as u64 - 1)).max(1);
                continue;
            };
            let trailer = at + found as u64;
            let claimed = self.bytes(trailer, TRAILER_BYTES)?.and_then(Frame::claimed_len).map(u64::from);
            let start =
                claimed.and_then(|len| trailer.checked_sub(len + SIZE_BYTES)).filter(|start| *start >= from);
            if let (Some(start), Some(len)) = (start, claimed)
                && let Some(frame) = self.check(start, len)?
            {
                return Ok(Some(frame));
            }
            at = trailer + 1;
        }
        Ok(None)
    }

    /// All whole frames from `start` on, in order, and what lies between them.
    pub(super) fn scan(&mut self, start: u64) -> io::Result<FrameScan> {
        let mut scan = FrameScan { frames: Vec::new(), gaps: Vec::new() };
        let mut at = start;
        while at + FRAME_EXTRA_BYTES <= self.len {
            let frame = match self.frame_at(at)? {
                Some(frame) => frame,
                None => match self.find_frame(at)? {
                    Some(frame) => {
                        if frame.place.start() > at {
                            scan.gaps.push(at..frame.place.start());
                        }
                        frame
                    }
                    None => break,
                },
            };
            at = frame.place.end();
            scan.frames.push(frame);
        }
        if at < self.len {
            scan.gaps.push(at..self.len);
        }
        Ok(scan)
    }
}

/// All whole frames of a part of a file, and the gaps between them.
pub(super) struct FrameScan {
    pub(super) frames: Vec<Frame>,
    pub(super) gaps: Vec<Range<u64>>,
}
