//! A part of the index of ids: which chunk a body, or an entity with a stable id, belongs to.

use bonfire::{Error, Result};

use super::depth::{DEPTH_BYTES, HAS_DEPTH, decode_depth, encode_depth};
use super::{FrameKind, take};
use crate::ChunkPos;

/// Something that belongs to one chunk at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resident {
    /// A body, by the bits of its id.
    Body(u64),
    /// An entity, by the bits of its stable id.
    Entity(u64),
}

const ENTRY_BYTES: usize = 17;

impl Resident {
    fn parts(self) -> (u8, u64) {
        match self {
            Self::Body(id) => (0, id),
            Self::Entity(id) => (1, id),
        }
    }

    fn of_parts(kind: u8, id: u64) -> Option<Self> {
        match kind {
            0 => Some(Self::Body(id)),
            1 => Some(Self::Entity(id)),
            _ => None,
        }
    }

    /// Returns the kind of the frames that list such residents.
    pub(crate) fn kind(self) -> FrameKind {
        match self {
            Self::Body(_) => FrameKind::Bodies,
            Self::Entity(_) => FrameKind::Snapshot,
        }
    }

    /// Mixes all bits, so that ids which count up are spread over the parts of the index.
    pub(crate) fn hash(self) -> u32 {
        let (kind, id) = self.parts();
        let mixed = (id ^ u64::from(kind) << 63).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
    }
}

/// The entries of one part of the index, sorted.
pub(crate) fn encode_residents(entries: impl ExactSizeIterator<Item = (Resident, ChunkPos)>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + entries.len() * ENTRY_BYTES);
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for (resident, pos) in entries {
        let (kind, id) = resident.parts();
        bytes.push(if pos.is_flat() { kind } else { kind | HAS_DEPTH });
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&pos.x.to_le_bytes());
        bytes.extend_from_slice(&pos.y.to_le_bytes());
        if !pos.is_flat() {
            bytes.extend_from_slice(&encode_depth(pos));
        }
    }
    bytes
}

pub(crate) fn decode_residents(mut data: &[u8]) -> Result<Vec<(Resident, ChunkPos)>> {
    let corrupt = || Error::corrupt("a part of the index of ids is not one");
    let bytes = &mut data;
    let count = u32::from_le_bytes(take(bytes).ok_or_else(corrupt)?) as usize;
    if count.checked_mul(ENTRY_BYTES).is_none_or(|needed| needed > bytes.len()) {
        return Err(corrupt());
    }
    let entry = |bytes: &mut &[u8]| {
        let kind = u8::from_le_bytes(take(bytes)?);
        let resident = Resident::of_parts(kind & !HAS_DEPTH, u64::from_le_bytes(take(bytes)?))?;
        let pos = ChunkPos::new(i32::from_le_bytes(take(bytes)?), i32::from_le_bytes(take(bytes)?));
        if kind & HAS_DEPTH == 0 {
            return Some((resident, pos));
        }
        let pos = decode_depth(pos, &take::<DEPTH_BYTES>(bytes)?).filter(|pos| !pos.is_flat())?;
        Some((resident, pos))
    };
    let entries: Option<Vec<_>> = (0..count).map(|_| entry(bytes)).collect();
    let entries = entries.filter(|_| bytes.is_empty());
    let entries = entries.ok_or_else(corrupt)?;
    if entries.is_sorted_by(|one, next| one.0 < next.0) { Ok(entries) } else { Err(corrupt()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_others_are_refused() {
        let entries = [
            (Resident::Body(1), ChunkPos::new(-1, 2)),
            (Resident::Body(u64::MAX), ChunkPos::new(i32::MIN, i32::MAX)),
            (Resident::Entity(1), ChunkPos::new(0, 0)),
            (Resident::Entity(2), ChunkPos::new_3d(0, 0, -9).in_dimension(7)),
        ];
        let bytes = encode_residents(entries.into_iter());
        assert_eq!(decode_residents(&bytes).unwrap(), entries);
        for len in 0..bytes.len() {
            assert!(decode_residents(&bytes[..len]).unwrap_err().is_corrupt());
        }
        let twice = encode_residents([entries[0], entries[0]].into_iter());
        assert!(decode_residents(&twice).unwrap_err().is_corrupt(), "an id is in one chunk");
        let mut other = bytes.clone();
        other[4] = 9;
        assert!(decode_residents(&other).unwrap_err().is_corrupt());
        let last = bytes.len() - DEPTH_BYTES;
        let mut flat = bytes.clone();
        flat[last..].fill(0);
        assert!(decode_residents(&flat).unwrap_err().is_corrupt(), "a flat place in the long form");
        assert!(decode_residents(&u32::MAX.to_le_bytes()).unwrap_err().is_corrupt());
    }

    #[test]
    fn ids_that_count_up_are_spread() {
        let mut parts = [0; 16];
        (0..16_000).for_each(|id| parts[Resident::Body(id).hash() as usize % 16] += 1);
        assert!(parts.iter().all(|count| (800..1200).contains(count)), "{parts:?}");
    }
}
