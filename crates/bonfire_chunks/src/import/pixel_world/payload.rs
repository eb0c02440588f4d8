//! What is stored of a chunk.

use std::fmt;
use std::sync::Arc;

use bonfire::{Error, Result};

use super::layout::field;
use super::world_bytes::WorldBytes;
use super::{CHUNK_SIZE, PIXEL_SIZE};

const CELLS: usize = CHUNK_SIZE as usize * CHUNK_SIZE as usize;
const FULL_BYTES: usize = CELLS * PIXEL_SIZE as usize;
const DELTA_HEADER_BYTES: usize = 4;
/// A position of three bytes, then a cell.
const DELTA_ENTRY_BYTES: usize = 3 + PIXEL_SIZE as usize;
const RAW_BYTES_MAX: usize = DELTA_HEADER_BYTES + CELLS * DELTA_ENTRY_BYTES;
/// The raw size in front of the block.
const SIZE_BYTES: usize = 4;
/// No block of LZ4 becomes more than this many times its size.
const LZ4_RATIO_MAX: usize = 255;

/// How a chunk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelStorage {
    /// Nothing: every cell is void.
    Empty,
    /// The cells that are not as generated.
    Delta,
    /// All cells.
    Full,
}

impl PixelStorage {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Empty, Self::Delta, Self::Full].get(usize::from(byte)).copied()
    }
}

impl fmt::Display for PixelStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Delta => "Delta",
            Self::Full => "Full",
        })
    }
}

/// What a chunk is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PixelContent {
    /// Every cell is void.
    Empty,
    /// Some cells, on top of what the generator makes.
    Delta {
        /// Where, counted row by row; ascending.
        positions: Vec<u32>,
        /// The cell at each of them.
        cells: Vec<u8>,
    },
    /// All cells, row by row from the bottom.
    Full(Vec<u8>),
}

impl PixelContent {
    /// Turns the generated cells of the chunk into what was saved.
    pub fn apply(&self, generated: &mut [u8]) -> Result<()> {
        if generated.len() != FULL_BYTES {
            return Err(Error::misuse(format!("{} bytes of cells instead of {FULL_BYTES}", generated.len())));
        }
        match self {
            Self::Empty => generated.fill(0),
            Self::Full(cells) if cells.len() == FULL_BYTES => generated.copy_from_slice(cells),
            Self::Full(cells) => return Err(Error::misuse(format!("a full chunk of {} bytes", cells.len()))),
            Self::Delta { positions, cells } => {
                let (base, _) = generated.as_chunks_mut::<{ PIXEL_SIZE as usize }>();
                for (position, cell) in positions.iter().zip(cells.as_chunks().0) {
                    let cell_at = usize::try_from(*position).ok().and_then(|position| base.get_mut(position));
                    *cell_at.ok_or_else(|| Error::misuse(format!("cell {position} is not in a chunk")))? =
                        *cell;
                }
            }
        }
        Ok(())
    }
}

/// The stored bytes of a chunk, still in the file.
#[derive(Clone)]
pub struct PixelPayload {
    source: Arc<WorldBytes>,
    offset: u64,
    len: u32,
    storage: PixelStorage,
    delta_entries: u32,
}

impl PixelPayload {
    /// The payload at a place, if it is what it should be. `scratch` is memory to use again.
    pub(super) fn checked(
        source: &Arc<WorldBytes>,
        offset: u64,
        len: u32,
        storage: PixelStorage,
        scratch: &mut Vec<u8>,
    ) -> Result<Self> {
        let mut payload = Self { source: source.clone(), offset, len, storage, delta_entries: 0 };
        if storage == PixelStorage::Delta {
            payload.delta_entries = delta(payload.raw(scratch)?)?;
        } else if storage == PixelStorage::Full {
            full(payload.raw(scratch)?)?;
        }
        Ok(payload)
    }

    /// The offset in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of stored bytes.
    pub fn stored_bytes(&self) -> u32 {
        self.len
    }

    /// How it is stored.
    pub fn storage(&self) -> PixelStorage {
        self.storage
    }

    /// How many cells a delta has.
    pub fn delta_entries(&self) -> Option<u32> {
        (self.storage == PixelStorage::Delta).then_some(self.delta_entries)
    }

    /// Reads and decodes it.
    pub fn content(&self) -> Result<PixelContent> {
        let mut raw = Vec::new();
        match self.storage {
            PixelStorage::Empty => Ok(PixelContent::Empty),
            PixelStorage::Full => {
                full(self.raw(&mut raw)?)?;
                Ok(PixelContent::Full(raw))
            }
            PixelStorage::Delta => {
                delta(self.raw(&mut raw)?)?;
                let (entries, _) = raw[DELTA_HEADER_BYTES..].as_chunks::<DELTA_ENTRY_BYTES>();
                Ok(PixelContent::Delta {
                    positions: entries.iter().map(position).collect(),
                    cells: entries.iter().flat_map(|entry| &entry[3..]).copied().collect(),
                })
            }
        }
    }

    /// Whether another payload is stored in the same way with the same bytes.
    pub(super) fn is_same(&self, other: &Self) -> Result<bool> {
        if (self.len, self.storage) != (other.len, other.storage) {
            return Ok(false);
        }
        Ok(self.stored()? == other.stored()?)
    }

    fn stored(&self) -> Result<bytes::Bytes> {
        let stored = self.source.read(self.offset, self.len.into())?;
        stored.ok_or_else(|| Error::corrupt(format!("the payload at {} is not in the file", self.offset)))
    }

    fn raw<'r>(&self, raw: &'r mut Vec<u8>) -> Result<&'r [u8]> {
        if usize::try_from(self.len).is_ok_and(|len| len <= stored_bytes_max(RAW_BYTES_MAX)) {
            decompress(&self.stored()?, raw)
        } else {
            Err(Error::corrupt(format!("{} bytes are more than a chunk can have", self.len)))
        }
    }
}

impl fmt::Debug for PixelPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes at {}", self.storage, self.len, self.offset)?;
        self.delta_entries().map_or(Ok(()), |entries| write!(f, " with {entries} cells"))
    }
}

impl fmt::Display for PixelPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The most that so many raw bytes become, with their size in front.
fn stored_bytes_max(raw_bytes: usize) -> usize {
    SIZE_BYTES + lz4_flex::block::get_maximum_output_size(raw_bytes)
}

/// Whether a payload of this length may begin with these bytes: cheap, and hardly ever true by accident.
pub(super) fn may_begin_with(len: u32, size: [u8; 4]) -> bool {
    let (Ok(len), Ok(raw)) = (usize::try_from(len), usize::try_from(u32::from_le_bytes(size))) else {
        return false;
    };
    raw_size_is_possible(raw)
        && len > SIZE_BYTES
        && len <= stored_bytes_max(raw)
        && raw / LZ4_RATIO_MAX <= len - SIZE_BYTES
}

fn raw_size_is_possible(raw: usize) -> bool {
    let is_delta =
        raw.checked_sub(DELTA_HEADER_BYTES).is_some_and(|entries| entries.is_multiple_of(DELTA_ENTRY_BYTES));
    raw == FULL_BYTES || (is_delta && raw <= RAW_BYTES_MAX)
}

/// What a payload is, found out by decoding it; `None` if it is none. A delta of 149,796 cells has as many raw bytes as a
/// full chunk, but full chunks do not look like ascending positions.
pub(super) fn storage_of(stored: &[u8], scratch: &mut Vec<u8>) -> Option<PixelStorage> {
    let raw = decompress(stored, scratch).ok()?;
    if delta(raw).is_ok() {
        Some(PixelStorage::Delta)
    } else {
        full(raw).is_ok().then_some(PixelStorage::Full)
    }
}

/// Decompresses a payload, after its sizes were held against each other.
fn decompress<'r>(stored: &[u8], raw: &'r mut Vec<u8>) -> Result<&'r [u8]> {
    let Some((size, block)) = stored.split_first_chunk() else {
        return Err(Error::corrupt(format!("{} bytes cannot be a payload", stored.len())));
    };
    let size = u32::from_le_bytes(*size);
    let raw_bytes = usize::try_from(size).ok().filter(|raw| raw_size_is_possible(*raw));
    let Some(raw_bytes) = raw_bytes.filter(|raw| raw / LZ4_RATIO_MAX <= block.len()) else {
        return Err(Error::corrupt(format!("{size} bytes cannot come out of a block of {}", block.len())));
    };
    raw.clear();
    raw.resize(raw_bytes, 0);
    match lz4_flex::block::decompress_into(block, raw) {
        Ok(decoded) if decoded == raw_bytes => Ok(raw),
        Ok(decoded) => Err(Error::corrupt(format!("{decoded} bytes came out instead of {raw_bytes}"))),
        Err(error) => Err(Error::corrupt(format!("the block cannot be decompressed: {error}"))),
    }
}

fn full(raw: &[u8]) -> Result<()> {
    let is_full = raw.len() == FULL_BYTES;
    is_full
        .then_some(())
        .ok_or_else(|| Error::corrupt(format!("{} bytes instead of {FULL_BYTES}", raw.len())))
}

fn position(entry: &[u8; DELTA_ENTRY_BYTES]) -> u32 {
    u32::from_le_bytes([entry[0], entry[1], entry[2], 0])
}

/// Checks a delta and counts its cells.
fn delta(raw: &[u8]) -> Result<u32> {
    if raw.len() < DELTA_HEADER_BYTES {
        return Err(Error::corrupt("a delta without a number of cells"));
    }
    let count = u32::from_le_bytes(field(raw, 0));
    let (entries, rest) = raw[DELTA_HEADER_BYTES..].as_chunks::<DELTA_ENTRY_BYTES>();
    if !rest.is_empty() || u32::try_from(entries.len()) != Ok(count) {
        return Err(Error::corrupt(format!("a delta of {count} cells with {} bytes", raw.len())));
    }
    let ascending = entries.is_sorted_by(|a, b| position(a) < position(b));
    let inside =
        entries.last().is_none_or(|last| usize::try_from(position(last)).is_ok_and(|last| last < CELLS));
    if ascending && inside {
        Ok(count)
    } else {
        Err(Error::corrupt(if inside {
            "the cells of a delta do not ascend"
        } else {
            "a cell of a delta is outside"
        }))
    }
}
