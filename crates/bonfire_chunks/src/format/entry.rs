//! Entries of 24 bytes: those of the page table, as in the document, and those of commits and side indices, which have
//! the kind of the frame in the place of the checksum.

use bonfire::{Error, Result};

use super::{FrameKey, FrameKind, FramePlace, FrameTag, crc8, take};
use crate::ChunkPos;

pub(crate) const ENTRY_BYTES: usize = 24;
const CHECKED_BYTES: usize = 21;

/// An entry of the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pos: ChunkPos,
    pub(crate) place: FramePlace,
}

impl Entry {
    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = encode(self.pos, &self.place);
        bytes[CHECKED_BYTES] = crc8(&bytes[..CHECKED_BYTES]);
        bytes
    }

    /// The entry, and whether its checksum is right.
    pub(crate) fn decode(bytes: &[u8; ENTRY_BYTES]) -> (Self, bool) {
        let (pos, place, check) = decode(bytes);
        (Self { pos, place }, check == crc8(&bytes[..CHECKED_BYTES]))
    }
}

fn encode(pos: ChunkPos, place: &FramePlace) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..4].copy_from_slice(&pos.x.to_le_bytes());
    bytes[4..8].copy_from_slice(&pos.y.to_le_bytes());
    bytes[8..16].copy_from_slice(&place.offset.to_le_bytes());
    bytes[16..20].copy_from_slice(&place.len.to_le_bytes());
    bytes[20] = place.tag.storage;
    bytes[22] = place.tag.codec;
    bytes[23] = place.tag.layers;
    bytes
}

fn decode(bytes: &[u8; ENTRY_BYTES]) -> (ChunkPos, FramePlace, u8) {
    let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let pos = ChunkPos::new(i32::from_le_bytes(word(0)), i32::from_le_bytes(word(4)));
    let offset = u64::from(u32::from_le_bytes(word(8))) | u64::from(u32::from_le_bytes(word(12))) << 32;
    let tag = FrameTag { storage: bytes[20], codec: bytes[22], layers: bytes[23] };
    (pos, FramePlace { offset, len: u32::from_le_bytes(word(16)), tag }, bytes[21])
}

/// Entries of frames of any content, in commits and side indices. What was removed is nowhere.
pub(crate) struct EntryList;

impl EntryList {
    pub(crate) fn encode(entries: &[(FrameKey, FramePlace)], out: &mut Vec<u8>) {
        out.reserve(entries.len() * ENTRY_BYTES);
        for (key, place) in entries {
            out.extend_from_slice(&Self::encode_one(*key, place));
        }
    }

    pub(crate) fn encode_one(key: FrameKey, place: &FramePlace) -> [u8; ENTRY_BYTES] {
        let mut bytes = encode(key.pos, place);
        bytes[CHECKED_BYTES] = key.kind as u8;
        bytes
    }

    /// `count` entries; the bytes must be there before memory for them is.
    pub(crate) fn decode(bytes: &mut &[u8], count: u32) -> Result<Vec<(FrameKey, FramePlace)>> {
        let needed = (count as usize).checked_mul(ENTRY_BYTES);
        if needed.is_none_or(|needed| bytes.len() < needed) {
            return Err(Error::corrupt("a list of frames is longer than what it lies in"));
        }
        let mut entries = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let entry = take(bytes).map(|entry| decode(&entry));
            let (pos, place, kind) = entry.ok_or_else(|| Error::corrupt("a list of frames is cut"))?;
            let kind = FrameKind::from_number(kind).filter(|kind| kind.is_indexed());
            let kind = kind.ok_or_else(|| Error::corrupt("a list names a frame that holds nothing"))?;
            entries.push((FrameKey::new(kind, pos), place));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> FramePlace {
        FramePlace { offset: 0x0102_0304_0506, len: 77, tag: FrameTag { storage: 2, codec: 3, layers: 4 } }
    }

    #[test]
    fn fields_are_where_the_document_has_them() {
        let bytes = Entry { pos: ChunkPos::new(-2, 3), place: place() }.encode();
        assert_eq!(bytes[..8], [0xFE, 0xFF, 0xFF, 0xFF, 3, 0, 0, 0]);
        assert_eq!(bytes[8..16], [6, 5, 4, 3, 2, 1, 0, 0]);
        assert_eq!(bytes[16..21], [77, 0, 0, 0, 2]);
        assert_eq!(bytes[21], crc8(&bytes[..21]));
        assert_eq!(bytes[22..], [3, 4]);
        assert_eq!(Entry::decode(&bytes), (Entry { pos: ChunkPos::new(-2, 3), place: place() }, true));
    }

    #[test]
    fn damage_of_what_is_checked_is_seen() {
        let bytes = Entry { pos: ChunkPos::new(-2, 3), place: place() }.encode();
        for at in 0..22 {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert!(!Entry::decode(&damaged).1, "byte {at}");
        }
    }

    #[test]
    fn a_list_comes_back_and_a_cut_one_is_refused() {
        let entries = vec![
            (FrameKey::new(FrameKind::Bodies, ChunkPos::new(1, -1)), place()),
            (FrameKey::new(FrameKind::Chunk, ChunkPos::new(5, 5)), FramePlace::NOWHERE),
        ];
        let mut bytes = Vec::new();
        EntryList::encode(&entries, &mut bytes);
        assert_eq!(EntryList::decode(&mut &bytes[..], 2).unwrap(), entries);
        assert!(EntryList::decode(&mut &bytes[..47], 2).unwrap_err().is_corrupt());
        assert!(EntryList::decode(&mut &bytes[..], u32::MAX).unwrap_err().is_corrupt());
        bytes[21] = FrameKind::Commit as u8;
        assert!(EntryList::decode(&mut &bytes[..], 2).unwrap_err().is_corrupt());
    }
}
