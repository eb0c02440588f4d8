//! The part of a place that files of version 1 do not have: `z` and the dimension.

use super::take;
use crate::ChunkPos;

/// Bytes of `z` and dimension.
pub(crate) const DEPTH_BYTES: usize = 8;

/// The bit of a kind that says that `z` and dimension follow: one of them is not 0.
pub(crate) const HAS_DEPTH: u8 = 0x40;

pub(crate) fn encode_depth(pos: ChunkPos) -> [u8; DEPTH_BYTES] {
    let mut bytes = [0; DEPTH_BYTES];
    bytes[..4].copy_from_slice(&pos.z.to_le_bytes());
    bytes[4..].copy_from_slice(&pos.dimension.to_le_bytes());
    bytes
}

/// Returns the place with the depth in these bytes. `None` if they are of another length.
pub(crate) fn decode_depth(pos: ChunkPos, mut depth: &[u8]) -> Option<ChunkPos> {
    let bytes = &mut depth;
    let (z, dimension) = (i32::from_le_bytes(take(bytes)?), u32::from_le_bytes(take(bytes)?));
    bytes.is_empty().then_some(ChunkPos { z, dimension, ..pos })
}
