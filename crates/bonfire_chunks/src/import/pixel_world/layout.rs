//! The header, the entries of the page table and those of the index of bodies.

use bonfire::{Error, Result};

use super::payload::PixelStorage;
use super::{CHUNK_SIZE, PIXEL_SIZE, TILE_SIZE};
use crate::format::crc8;
use crate::{BodyId, ChunkPos};

pub(super) const HEADER_BYTES: u64 = 64;
pub(super) const ENTRY_BYTES: u64 = 24;
pub(super) const INDEX_HEADER_BYTES: u64 = 8;
pub(super) const INDEX_ENTRY_BYTES: u64 = 28;
/// The size word in front of a payload.
pub(super) const PREFIX_BYTES: u64 = 4;

const MAGIC: [u8; 4] = *b"WXSP";
const VERSION: u16 = 1;

/// A field of some bytes, which has to be inside.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

#[derive(Clone, Debug)]
pub(super) struct Header {
    magic: [u8; 4],
    version: u16,
    flags: u16,
    pub(super) seed: u64,
    pub(super) created: u64,
    pub(super) modified: u64,
    pub(super) chunk_count: u32,
    pub(super) table_bytes: u32,
    pub(super) table_at: u64,
    chunk_size: u16,
    tile_size: u16,
    pixel_size: u8,
    /// 0 without bodies.
    pub(super) index_at: u64,
}

impl Header {
    pub(super) fn parse(bytes: &[u8; 64]) -> Self {
        let u16_at = |at| u16::from_le_bytes(field(bytes, at));
        let u32_at = |at| u32::from_le_bytes(field(bytes, at));
        let u64_at = |at| u64::from_le_bytes(field(bytes, at));
        Self {
            magic: field(bytes, 0),
            version: u16_at(4),
            flags: u16_at(6),
            seed: u64_at(8),
            created: u64_at(16),
            modified: u64_at(24),
            chunk_count: u32_at(32),
            table_bytes: u32_at(36),
            table_at: u64_at(40),
            chunk_size: u16_at(48),
            tile_size: u16_at(50),
            pixel_size: bytes[52],
            index_at: u64_at(53),
        }
    }

    /// Whether it is the header of such a world, apart from what it says about the file.
    pub(super) fn check_format(&self) -> Result<()> {
        if self.magic != MAGIC {
            return Err(Error::corrupt(format!(
                "not a world of bevy_pixel_world: it begins with {:02x?} instead of {MAGIC:02x?} (\"WXSP\")",
                self.magic
            )));
        }
        if self.version != VERSION {
            let message =
                format!("version {} of a pixel world, and this build reads {VERSION}", self.version);
            return Err(if self.version > VERSION {
                Error::newer_format(message)
            } else {
                Error::corrupt(message)
            });
        }
        if self.flags != 0 {
            return Err(Error::corrupt(format!(
                "flags {:#06x} in the header, which the game never sets",
                self.flags
            )));
        }
        for (what, has, wants) in [
            ("chunk size", self.chunk_size, CHUNK_SIZE),
            ("tile size", self.tile_size, TILE_SIZE),
            ("pixel size", u16::from(self.pixel_size), u16::from(PIXEL_SIZE)),
        ] {
            if has != wants {
                return Err(Error::corrupt(format!("{what} {has} in the header, and the game has {wants}")));
            }
        }
        Ok(())
    }

    /// Whether what it says about the file can be.
    pub(super) fn check_places(&self, file_bytes: u64) -> Result<()> {
        let (count, bytes) = (self.chunk_count, self.table_bytes);
        if u64::from(count) * ENTRY_BYTES != u64::from(bytes) {
            return Err(Error::corrupt(format!("a page table of {bytes} bytes for {count} chunks")));
        }
        let end = self.table_at.checked_add(u64::from(bytes)).filter(|end| *end <= file_bytes);
        if end.is_none() || self.table_at < HEADER_BYTES {
            return Err(Error::corrupt(format!(
                "the page table should be {bytes} bytes at {}, and the file has {file_bytes}",
                self.table_at
            )));
        }
        let index_end = self.index_at.checked_add(INDEX_HEADER_BYTES);
        if self.index_at != 0
            && (self.index_at < HEADER_BYTES || index_end.is_none_or(|end| end > file_bytes))
        {
            return Err(Error::corrupt(format!(
                "the index of bodies should be at {}, and the file has {file_bytes} bytes",
                self.index_at
            )));
        }
        Ok(())
    }

    /// How many chunks there should be, as far as a damaged header tells.
    pub(super) fn chunks_expected(&self, file_bytes: u64) -> u64 {
        let (count, by_bytes) = (u64::from(self.chunk_count), u64::from(self.table_bytes) / ENTRY_BYTES);
        let fits = |count: u64| {
            let end = self.table_at.checked_add(count * ENTRY_BYTES);
            end.is_some_and(|end| end == file_bytes || end == self.index_at)
        };
        if count == by_bytes || fits(count) {
            count
        } else if fits(by_bytes) {
            by_bytes
        } else {
            count.max(by_bytes).min(file_bytes / ENTRY_BYTES)
        }
    }
}

/// An entry of the page table whose checksum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pos: ChunkPos,
    /// Of the payload, behind its size word.
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) storage: PixelStorage,
}

impl Entry {
    pub(super) fn parse(bytes: &[u8; 24]) -> Option<Self> {
        let sound = bytes[22..] == [0, 0] && crc8(&bytes[..21]) == bytes[21];
        sound.then(|| Self::parse_unchecked(bytes)).flatten()
    }

    /// The fields as they are, whatever the checksum says.
    pub(super) fn parse_unchecked(bytes: &[u8; 24]) -> Option<Self> {
        Some(Self {
            pos: ChunkPos::new(i32::from_le_bytes(field(bytes, 0)), i32::from_le_bytes(field(bytes, 4))),
            offset: u64::from_le_bytes(field(bytes, 8)),
            len: u32::from_le_bytes(field(bytes, 16)),
            storage: PixelStorage::from_byte(bytes[20])?,
        })
    }

    /// From the size word to the end of the payload, if both can be in a file.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        let start = self.offset.checked_sub(PREFIX_BYTES).filter(|start| *start >= HEADER_BYTES)?;
        Some((start, self.offset.checked_add(u64::from(self.len))?))
    }
}

/// An entry of the index of bodies. Nothing protects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) id: BodyId,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl IndexEntry {
    pub(super) fn parse(bytes: &[u8; 28]) -> Self {
        Self {
            id: BodyId(u64::from_le_bytes(field(bytes, 0))),
            offset: u64::from_le_bytes(field(bytes, 8)),
            len: u32::from_le_bytes(field(bytes, 16)),
        }
    }

    /// Where the record is, if it can be in a file.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        let end = self.offset.checked_add(u64::from(self.len))?;
        (self.offset >= HEADER_BYTES && self.len > 0).then_some((self.offset, end))
    }
}
