//! How settings begin: what the header says of the world, in case the header is lost.

use super::{Flags, Header, Version, take};

pub(crate) const SETTINGS_HEAD_BYTES: usize = 24;
const VERSION: u8 = 1;

/// The part of a header that does not change.
pub(crate) fn encode_head(header: &Header) -> [u8; SETTINGS_HEAD_BYTES] {
    let mut bytes = [0; SETTINGS_HEAD_BYTES];
    bytes[0] = VERSION;
    bytes[1] = header.cell_bytes;
    // Pins come and go.
    bytes[2..4].copy_from_slice(&header.flags.with(Flags::PINNED, false).0.to_le_bytes());
    bytes[4..12].copy_from_slice(&header.seed.to_le_bytes());
    bytes[12..20].copy_from_slice(&header.created.to_le_bytes());
    bytes[20..22].copy_from_slice(&header.chunk_size.to_le_bytes());
    bytes[22..24].copy_from_slice(&header.tile_size.to_le_bytes());
    bytes
}

/// A header without places.
pub(crate) fn decode_head(mut data: &[u8]) -> Option<Header> {
    let bytes = &mut data;
    let [version, cell_bytes] = take(bytes)?;
    if version != VERSION {
        return None;
    }
    Some(Header {
        // Whoever writes a file with this header knows which frames it has.
        version: Version::default(),
        cell_bytes,
        flags: Flags(u16::from_le_bytes(take(bytes)?)),
        seed: u64::from_le_bytes(take(bytes)?),
        created: u64::from_le_bytes(take(bytes)?),
        chunk_size: u16::from_le_bytes(take(bytes)?),
        tile_size: u16::from_le_bytes(take(bytes)?),
        modified: 0,
        count: 0,
        table_bytes: 0,
        data_start: super::HEADER_BYTES,
        entities: 0,
    })
}
