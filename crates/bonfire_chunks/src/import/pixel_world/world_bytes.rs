//! The bytes of a world, in memory or in a file.

use std::fmt;

use bonfire::{Error, Result};
use bonfire_store::disk::DiskFile;
use bytes::Bytes;

/// Bytes that are looked at one by one are read this many at a time.
const WINDOW_BYTES: u64 = 256 << 10;

pub(super) struct WorldBytes {
    medium: ByteSource,
    len: u64,
}

enum ByteSource {
    Bytes(Bytes),
    File(Box<dyn DiskFile>),
}

impl WorldBytes {
    pub(super) fn bytes(bytes: Bytes) -> Self {
        Self { len: bytes.len() as u64, medium: ByteSource::Bytes(bytes) }
    }

    pub(super) fn file(file: Box<dyn DiskFile>) -> Result<Self> {
        let len = file.len().map_err(|error| Error::io("the length of the world", error))?;
        Ok(Self { len, medium: ByteSource::File(file) })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes of a range; `None` if it is not wholly inside. Nothing is allocated before that is known.
    pub(super) fn read(&self, offset: u64, len: u64) -> Result<Option<Bytes>> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let (Ok(at), Ok(size)) = (usize::try_from(offset), usize::try_from(len)) else {
            return Err(Error::limit(format!("{len} bytes are more than this machine can hold")));
        };
        match &self.medium {
            ByteSource::Bytes(bytes) => Ok(Some(bytes.slice(at..at + size))),
            ByteSource::File(file) => {
                let mut bytes = vec![0; size];
                file.read_exact_at(&mut bytes, offset)
                    .map_err(|error| Error::io("reading the world", error))?;
                Ok(Some(bytes.into()))
            }
        }
    }
}

impl fmt::Debug for WorldBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorldBytes({} bytes)", self.len)
    }
}

/// Looks at small pieces of a source in ascending order.
pub(super) struct ReadWindow<'s> {
    source: &'s WorldBytes,
    start: u64,
    bytes: Bytes,
}

impl<'s> ReadWindow<'s> {
    pub(super) fn new(source: &'s WorldBytes) -> Self {
        Self { source, start: 0, bytes: Bytes::new() }
    }

    /// Some bytes at an offset; `None` if they are not all there.
    pub(super) fn get<const N: usize>(&mut self, offset: u64) -> Result<Option<&[u8; N]>> {
        let inside = |window: &Self| {
            let at = usize::try_from(offset.checked_sub(window.start)?).ok()?;
            (at.checked_add(N)? <= window.bytes.len()).then_some(at)
        };
        if inside(self).is_none() {
            let left = self.source.len.saturating_sub(offset);
            let Some(bytes) = self.source.read(offset, left.min(WINDOW_BYTES))? else { return Ok(None) };
            (self.start, self.bytes) = (offset, bytes);
        }
        Ok(inside(self).and_then(|at| self.bytes[at..].first_chunk()))
    }
}
