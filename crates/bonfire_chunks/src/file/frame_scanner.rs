//! A scanner for files of unknown origin: frame by frame along the chain of sizes, and where that is broken from one trailer to the
//! next. Memory does not depend on what the file claims, and work not on more than its length.

use bonfire::{Error, Result, Watch};
use bonfire_store::disk::DiskFile;
use memchr::memmem;

use crate::format::{DEPTH_BYTES, FRAME_EXTRA_BYTES, Frame, MAGIC, SIZE_BYTES, TRAILER_BYTES, without_depth};

const WINDOW_BYTES: u64 = 1 << 18;
/// The cost of a read on top of its bytes, in bytes.
const READ_COST: u64 = 256;

/// Finds the whole frames of a file.
pub(super) struct FrameScanner<'f> {
    file: &'f dyn DiskFile,
    len: u64,
    /// The part of the file that is scanned.
    window: Vec<u8>,
    at: u64,
    /// Memory for a frame that does not lie in the window.
    piece: Vec<u8>,
    /// Bytes that may still be read to check frames that turn out not to be any: a hostile file could claim one at every
    /// place.
    patience: u64,
    watch: Option<&'f Watch>,
}

impl<'f> FrameScanner<'f> {
    pub(super) fn new(file: &'f dyn DiskFile, watch: Option<&'f Watch>) -> Result<Self> {
        let len = file.len().map_err(failed)?;
        Ok(Self {
            file,
            len,
            window: Vec::new(),
            at: 0,
            piece: Vec::new(),
            patience: len.saturating_mul(4).saturating_add(1 << 20),
            watch,
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Counts work that is no read. Fails if the caller has cancelled it.
    pub(super) fn step(&self, steps: u64) -> Result<()> {
        self.watch.map_or(Ok(()), |watch| watch.step(steps))
    }

    fn read_into(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.step(bytes.len() as u64 + READ_COST)?;
        self.file.read_exact_at(bytes, offset).map_err(failed)
    }

    fn is_in_file(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Some bytes, if the window has them.
    fn in_window(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        self.window.get(start..)?.get(..usize::try_from(len).ok()?)
    }

    /// Moves the window, so that it begins at `offset`.
    fn move_window(&mut self, offset: u64) -> Result<()> {
        let mut window = std::mem::take(&mut self.window);
        let here = WINDOW_BYTES.min(self.len.saturating_sub(offset));
        window.resize(usize::try_from(here).unwrap_or(0), 0);
        self.read_into(&mut window, offset)?;
        (self.window, self.at) = (window, offset);
        Ok(())
    }

    /// A few bytes from anywhere; `None` if the file ends before them. The window stays where it is.
    fn few<const N: usize>(&self, offset: u64) -> Result<Option<[u8; N]>> {
        if !self.is_in_file(offset, N as u64) {
            return Ok(None);
        }
        if let Some(bytes) = self.in_window(offset, N as u64) {
            return Ok(bytes.first_chunk().copied());
        }
        let mut bytes = [0; N];
        self.read_into(&mut bytes, offset)?;
        Ok(Some(bytes))
    }

    /// All bytes of a range that lies in the file, in memory of their own.
    pub(super) fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let len = usize::try_from(len).ok().filter(|_| self.is_in_file(offset, len));
        let mut bytes = vec![0; len.ok_or_else(|| Error::corrupt("the file ends too early"))?];
        self.read_into(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// The data of a frame that was found whole.
    pub(super) fn data_of(&self, frame: &Frame) -> Result<Vec<u8>> {
        let mut data = self.read(frame.place.offset, u64::from(frame.place.len))?;
        data.truncate(without_depth(frame.key(), &data).len());
        Ok(data)
    }

    /// The frame that begins at `start`, if there is a whole one.
    pub(super) fn frame_at(&mut self, start: u64) -> Result<Option<Frame>> {
        let Some(size) = self.few(start)? else { return Ok(None) };
        let Some(len) = u64::from(u32::from_le_bytes(size)).checked_sub(TRAILER_BYTES) else {
            return Ok(None);
        };
        self.check(start, len)
    }

    fn check(&mut self, start: u64, len: u64) -> Result<Option<Frame>> {
        let data = start + SIZE_BYTES;
        // Something lies before every frame, so that there are bytes before a trailer.
        let before_trailer = data.saturating_add(len).saturating_sub(DEPTH_BYTES as u64);
        let Some(end) = self.few::<{ DEPTH_BYTES + TRAILER_BYTES as usize }>(before_trailer)? else {
            return Ok(None);
        };
        let frame = Frame::decode(&end, data).filter(|frame| u64::from(frame.place.len) == len);
        let Some(frame) = frame.filter(|_| self.patience > 0) else { return Ok(None) };
        let is_whole = Frame::is_crc_of(self.crc_of(data, len)?, &end[DEPTH_BYTES..], frame.crc);
        if !is_whole {
            self.patience = self.patience.saturating_sub(len + READ_COST);
        }
        Ok(is_whole.then_some(frame))
    }

    /// The checksum of bytes that lie in the file.
    fn crc_of(&mut self, data: u64, len: u64) -> Result<u32> {
        if let Some(bytes) = self.in_window(data, len) {
            let crc = crc32c::crc32c(bytes);
            self.step(len)?;
            return Ok(crc);
        }
        let mut piece = std::mem::take(&mut self.piece);
        let (mut crc, mut at) = (0, data);
        while at < data + len {
            let here = (data + len - at).min(WINDOW_BYTES);
            piece.resize(usize::try_from(here).unwrap_or(0), 0);
            self.read_into(&mut piece, at)?;
            crc = crc32c::crc32c_append(crc, &piece);
            at += here;
        }
        self.piece = piece;
        Ok(crc)
    }

    /// The next whole frame that begins at `from` or later, wherever it is. Its size word may be damaged: the trailer says
    /// the same.
    fn find_frame(&mut self, from: u64) -> Result<Option<Frame>> {
        let finder = memmem::Finder::new(&MAGIC);
        let mut at = from + SIZE_BYTES;
        while at.saturating_add(TRAILER_BYTES) <= self.len && self.patience > 0 {
            if self.in_window(at, TRAILER_BYTES).is_none() {
                self.move_window(at)?;
            }
            let here = self.in_window(at, 0).map_or(0, |_| self.at + self.window.len() as u64 - at);
            let found = self.in_window(at, here).and_then(|bytes| finder.find(bytes));
            self.step(found.map_or(here, |found| found as u64 + 1))?;
            let Some(found) = found else {
                // One may begin in this window and end in the next.
                at += (here - (MAGIC.len() as u64 - 1)).max(1);
                continue;
            };
            let trailer = at + found as u64;
            let claimed = self.few::<{ TRAILER_BYTES as usize }>(trailer)?;
            let claimed = claimed.and_then(|bytes| Frame::claimed_len(&bytes)).map(u64::from);
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

    /// All whole frames from `start` on, in order.
    pub(super) fn scan(&mut self, start: u64) -> Result<FrameScan> {
        let mut scan = FrameScan { frames: Vec::new() };
        if let Some(watch) = self.watch {
            watch.expect(self.len.saturating_sub(start));
        }
        let mut at = start;
        while at + FRAME_EXTRA_BYTES <= self.len {
            if self.in_window(at, FRAME_EXTRA_BYTES).is_none() {
                self.move_window(at)?;
            }
            let frame = match self.frame_at(at)? {
                Some(frame) => frame,
                None => match self.find_frame(at)? {
                    Some(frame) => frame,
                    None => break,
                },
            };
            if let Some(watch) = self.watch {
                watch.advance(frame.place.end() - at)?;
            }
            at = frame.place.end();
            scan.frames.push(frame);
        }
        Ok(scan)
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("cannot read a chunk world", error)
}

/// All whole frames of a part of a file.
pub(super) struct FrameScan {
    pub(super) frames: Vec<Frame>,
}
