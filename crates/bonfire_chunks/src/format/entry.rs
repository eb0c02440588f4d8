//! Entries of frames: those of the page table, as in the document, and those of lists, which have the kind of the frame in the
//! place of the checksum.
//!
//! An entry has 24 bytes. Those of a page table of version 2 have 8 more: `z` and the dimension. An entry of a list has them
//! only if one of the two is not 0, and a bit of its kind says so.

use std::ops::Deref;

use bonfire::{Error, Result};

use super::depth::{DEPTH_BYTES, HAS_DEPTH, decode_depth, encode_depth};
use super::{FrameKey, FrameKind, FramePlace, FrameTag, Version, crc8, crc8_append, take};
use crate::ChunkPos;

const FLAT_BYTES: usize = 24;
const CHECKED_BYTES: usize = 21;

impl Version {
    /// Bytes of an entry of the page table.
    pub(crate) const fn entry_bytes(self) -> usize {
        match self {
            Self::Flat => FLAT_BYTES,
            Self::Deep => FLAT_BYTES + DEPTH_BYTES,
        }
    }
}

/// The bytes of one entry.
#[derive(Clone, Copy)]
pub(crate) struct EncodedEntry {
    bytes: [u8; FLAT_BYTES + DEPTH_BYTES],
    len: usize,
}

impl EncodedEntry {
    /// The entry of a place with 0 in the place of its checksum or kind.
    fn new(pos: ChunkPos, place: &FramePlace, len: usize) -> Self {
        let mut bytes = [0; FLAT_BYTES + DEPTH_BYTES];
        bytes[..4].copy_from_slice(&pos.x.to_le_bytes());
        bytes[4..8].copy_from_slice(&pos.y.to_le_bytes());
        bytes[8..16].copy_from_slice(&place.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&place.len.to_le_bytes());
        bytes[20] = place.tag.storage;
        bytes[22] = place.tag.codec;
        bytes[23] = place.tag.layers;
        bytes[FLAT_BYTES..].copy_from_slice(&encode_depth(pos));
        Self { bytes, len }
    }
}

impl Deref for EncodedEntry {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// An entry of the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pos: ChunkPos,
    pub(crate) place: FramePlace,
}

impl Entry {
    pub(crate) fn encode(&self, version: Version) -> EncodedEntry {
        let mut entry = EncodedEntry::new(self.pos, &self.place, version.entry_bytes());
        entry.bytes[CHECKED_BYTES] = check(&entry);
        entry
    }

    /// The entry, and whether its checksum is right. The length of the bytes is that of the version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, bool)> {
        let (flat, depth) = bytes.split_first_chunk()?;
        let (pos, place, found) = decode(flat);
        let pos = decode_depth(pos, depth).unwrap_or(pos);
        Some((Self { pos, place }, found == check(bytes)))
    }
}

/// The checksum of the fields before it, and of the depth.
fn check(entry: &[u8]) -> u8 {
    crc8_append(crc8(&entry[..CHECKED_BYTES]), &entry[FLAT_BYTES..])
}

fn decode(bytes: &[u8; FLAT_BYTES]) -> (ChunkPos, FramePlace, u8) {
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
        out.reserve(entries.len() * FLAT_BYTES);
        for (key, place) in entries {
            out.extend_from_slice(&Self::encode_one(*key, place));
        }
    }

    pub(crate) fn encode_one(key: FrameKey, place: &FramePlace) -> EncodedEntry {
        let (len, bit) =
            if key.pos.is_flat() { (FLAT_BYTES, 0) } else { (FLAT_BYTES + DEPTH_BYTES, HAS_DEPTH) };
        let mut entry = EncodedEntry::new(key.pos, place, len);
        entry.bytes[CHECKED_BYTES] = key.kind as u8 | bit;
        entry
    }

    /// `count` entries; the bytes must be there before memory for them is.
    pub(crate) fn decode(bytes: &mut &[u8], count: u32) -> Result<Vec<(FrameKey, FramePlace)>> {
        let needed = (count as usize).checked_mul(FLAT_BYTES);
        if needed.is_none_or(|needed| bytes.len() < needed) {
            return Err(Error::corrupt("a list of frames is longer than what it lies in"));
        }
        let mut entries = Vec::with_capacity(count as usize);
        for _ in 0..count {
            entries.push(Self::decode_one(bytes)?);
        }
        Ok(entries)
    }

    fn decode_one(bytes: &mut &[u8]) -> Result<(FrameKey, FramePlace)> {
        let cut = || Error::corrupt("a list of frames is cut");
        let (mut pos, place, kind) = decode(&take(bytes).ok_or_else(cut)?);
        if kind & HAS_DEPTH != 0 {
            let depth: [u8; DEPTH_BYTES] = take(bytes).ok_or_else(cut)?;
            // Each entry has one form.
            pos = decode_depth(pos, &depth)
                .filter(|pos| !pos.is_flat())
                .ok_or_else(|| Error::corrupt("a list names a place in a way that nobody writes it"))?;
        }
        let kind = FrameKind::from_number(kind & !HAS_DEPTH).filter(|kind| kind.is_indexed());
        let kind = kind.ok_or_else(|| Error::corrupt("a list names a frame that holds nothing"))?;
        Ok((FrameKey::new(kind, pos), place))
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
        let bytes = Entry { pos: ChunkPos::new(-2, 3), place: place() }.encode(Version::Flat);
        assert_eq!(bytes[..8], [0xFE, 0xFF, 0xFF, 0xFF, 3, 0, 0, 0]);
        assert_eq!(bytes[8..16], [6, 5, 4, 3, 2, 1, 0, 0]);
        assert_eq!(bytes[16..21], [77, 0, 0, 0, 2]);
        assert_eq!(bytes[21], crc8(&bytes[..21]));
        assert_eq!(bytes[22..], [3, 4]);
        assert_eq!(Entry::decode(&bytes), Some((Entry { pos: ChunkPos::new(-2, 3), place: place() }, true)));
    }

    #[test]
    fn an_entry_of_version_2_goes_on_with_z_and_dimension() {
        let pos = ChunkPos::new_3d(-2, 3, -4).in_dimension(5);
        let bytes = Entry { pos, place: place() }.encode(Version::Deep);
        let flat = Entry { pos: ChunkPos::new(-2, 3), place: place() }.encode(Version::Flat);
        assert_eq!((&bytes[..21], &bytes[22..24]), (&flat[..21], &flat[22..]));
        assert_eq!(bytes[24..], [0xFC, 0xFF, 0xFF, 0xFF, 5, 0, 0, 0]);
        assert_eq!(bytes[21], crc8(&[&bytes[..21], &bytes[24..]].concat()));
        assert_eq!(Entry::decode(&bytes), Some((Entry { pos, place: place() }, true)));
        for at in (0..22).chain(24..32) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x10;
            assert!(!Entry::decode(&damaged).unwrap().1, "byte {at}");
        }
    }

    #[test]
    fn damage_of_what_is_checked_is_seen() {
        let bytes = Entry { pos: ChunkPos::new(-2, 3), place: place() }.encode(Version::Flat);
        for at in 0..22 {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x10;
            assert!(!Entry::decode(&damaged).unwrap().1, "byte {at}");
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

    #[test]
    fn a_list_has_the_long_form_where_it_is_needed_and_nowhere_else() {
        let deep = ChunkPos::new_3d(1, 2, 3).in_dimension(4);
        let entries = vec![
            (FrameKey::new(FrameKind::Bodies, ChunkPos::new(1, -1)), place()),
            (FrameKey::new(FrameKind::Chunk, deep), place()),
            (FrameKey::new(FrameKind::Chunk, ChunkPos::new(5, 5).in_dimension(1)), FramePlace::NOWHERE),
        ];
        let mut bytes = Vec::new();
        EntryList::encode(&entries, &mut bytes);
        assert_eq!(bytes.len(), 24 + 32 + 32);
        assert_eq!(EntryList::decode(&mut &bytes[..], 3).unwrap(), entries);
        for len in 0..bytes.len() {
            assert!(EntryList::decode(&mut &bytes[..len], 3).unwrap_err().is_corrupt(), "{len} bytes");
        }
        let second = &mut bytes[24..];
        second[24..32].fill(0);
        assert!(
            EntryList::decode(&mut &bytes[..], 3).unwrap_err().is_corrupt(),
            "a flat place in the long form"
        );
    }
}
