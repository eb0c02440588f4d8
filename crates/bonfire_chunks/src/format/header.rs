//! The first 64 bytes, as in the document. Its last three reserved bytes are a checksum.

use super::take;
use crate::ChunkPos;

pub(crate) const HEADER_BYTES: u64 = 64;
const CHECKED_BYTES: usize = 61;
const MAGIC: [u8; 4] = *b"PXSW";

/// The version of a file: which places its frames may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub(crate) enum Version {
    /// Places with two coordinates, in one dimension.
    #[default]
    Flat = 1,
    /// Places with three coordinates, in any dimension.
    Deep = 2,
}

impl Version {
    fn from_number(number: u16) -> Option<Self> {
        [Self::Flat, Self::Deep].into_iter().find(|version| *version as u16 == number)
    }

    /// Returns the first version that a frame with this place can be in.
    pub(crate) fn of(pos: ChunkPos) -> Self {
        if pos.is_flat() { Self::Flat } else { Self::Deep }
    }
}

/// What is different from the document's plain layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u16);

impl Flags {
    /// Entries of the data region have trailers. Always set.
    pub(crate) const FRAMED: u16 = 1;
    /// Only what the document has: LZ4, plain delta entries, and an entity section after each close.
    pub(crate) const COMPAT: u16 = 2;
    /// The data of frames is sealed.
    pub(crate) const SEALED: u16 = 4;
    /// Commits prove all that a sealed file says. Those of version 1 do not.
    pub(crate) const PROVEN: u16 = 8;
    /// The file has, or had, pinned moments.
    pub(crate) const PINNED: u16 = 16;
    const KNOWN: u16 = Self::FRAMED | Self::COMPAT | Self::SEALED | Self::PROVEN | Self::PINNED;

    pub(crate) fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    /// Returns the flags with one more, or without it.
    pub(crate) fn with(self, flag: u16, is_set: bool) -> Self {
        Self(if is_set { self.0 | flag } else { self.0 & !flag })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) flags: Flags,
    pub(crate) seed: u64,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    /// Entries in the page table.
    pub(crate) count: u32,
    /// Bytes that the page table may grow to.
    pub(crate) table_bytes: u32,
    /// Where the first frame begins.
    pub(crate) data_start: u64,
    pub(crate) chunk_size: u16,
    pub(crate) tile_size: u16,
    /// Bytes per stored cell.
    pub(crate) cell_bytes: u8,
    /// Where the data of the entity section is.
    pub(crate) entities: u64,
}

/// Why 64 bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The checksum is wrong.
    Damaged,
    /// The checksum is right, and something else is not.
    Foreign,
    /// A later version, or flags that this build does not know.
    Newer { version: u16, flags: u16 },
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut rest = &mut bytes[..];
        let mut put = |field: &[u8]| {
            let (here, behind) = std::mem::take(&mut rest).split_at_mut(field.len());
            here.copy_from_slice(field);
            rest = behind;
        };
        put(&MAGIC);
        put(&(self.version as u16).to_le_bytes());
        put(&self.flags.0.to_le_bytes());
        put(&self.seed.to_le_bytes());
        put(&self.created.to_le_bytes());
        put(&self.modified.to_le_bytes());
        put(&self.count.to_le_bytes());
        put(&self.table_bytes.to_le_bytes());
        put(&self.data_start.to_le_bytes());
        put(&self.chunk_size.to_le_bytes());
        put(&self.tile_size.to_le_bytes());
        put(&[self.cell_bytes]);
        put(&self.entities.to_le_bytes());
        let check = check(&bytes);
        bytes[CHECKED_BYTES..].copy_from_slice(&check);
        bytes
    }

    /// The checksum is looked at before anything is believed.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES as usize]) -> Result<Self, HeaderError> {
        if bytes[CHECKED_BYTES..] != check(bytes) {
            return Err(HeaderError::Damaged);
        }
        Self::fields(&bytes[..]).unwrap_or(Err(HeaderError::Foreign))
    }

    fn fields(mut bytes: &[u8]) -> Option<Result<Self, HeaderError>> {
        let bytes = &mut bytes;
        if take(bytes)? != MAGIC {
            return Some(Err(HeaderError::Foreign));
        }
        let (version, flags) = (u16::from_le_bytes(take(bytes)?), u16::from_le_bytes(take(bytes)?));
        if version > Version::Deep as u16 || flags & !Flags::KNOWN != 0 {
            return Some(Err(HeaderError::Newer { version, flags }));
        }
        let version = Version::from_number(version).filter(|_| flags & Flags::FRAMED != 0);
        let Some(version) = version else { return Some(Err(HeaderError::Foreign)) };
        Some(Ok(Self {
            version,
            flags: Flags(flags),
            seed: u64::from_le_bytes(take(bytes)?),
            created: u64::from_le_bytes(take(bytes)?),
            modified: u64::from_le_bytes(take(bytes)?),
            count: u32::from_le_bytes(take(bytes)?),
            table_bytes: u32::from_le_bytes(take(bytes)?),
            data_start: u64::from_le_bytes(take(bytes)?),
            chunk_size: u16::from_le_bytes(take(bytes)?),
            tile_size: u16::from_le_bytes(take(bytes)?),
            cell_bytes: take::<1>(bytes)?[0],
            entities: u64::from_le_bytes(take(bytes)?),
        }))
    }

    /// How many entries the page table has room for.
    pub(crate) fn capacity(&self) -> u32 {
        self.table_bytes / self.version.entry_bytes() as u32
    }

    /// Whether its regions follow each other in a file of this length.
    pub(crate) fn fits(&self, len: u64) -> bool {
        self.count <= self.capacity()
            && HEADER_BYTES + u64::from(self.table_bytes) <= self.data_start
            && self.data_start < self.entities
            && self.data_start <= len
            && self.chunk_size > 0
    }
}

/// The low 24 bits of the CRC32C of the first 61 bytes.
fn check(bytes: &[u8; HEADER_BYTES as usize]) -> [u8; 3] {
    let [first, second, third, _] = crc32c::crc32c(&bytes[..CHECKED_BYTES]).to_le_bytes();
    [first, second, third]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            version: Version::Flat,
            flags: Flags(Flags::FRAMED),
            seed: 0x0102_0304_0506_0708,
            created: 11,
            modified: 12,
            count: 13,
            table_bytes: 24 * 14,
            data_start: 1000,
            chunk_size: 512,
            tile_size: 32,
            cell_bytes: 4,
            entities: 2000,
        }
    }

    #[test]
    fn fields_are_where_the_document_has_them() {
        let bytes = header().encode();
        assert_eq!(&bytes[..4], b"PXSW");
        let number = |at: usize, len: usize| {
            bytes[at..at + len].iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))
        };
        let fields = [
            (4, 2),
            (6, 2),
            (8, 8),
            (16, 8),
            (24, 8),
            (32, 4),
            (36, 4),
            (40, 8),
            (48, 2),
            (50, 2),
            (52, 1),
            (53, 8),
        ];
        let values = fields.map(|(at, len)| number(at, len));
        assert_eq!(values, [1, 1, 0x0102_0304_0506_0708, 11, 12, 13, 336, 1000, 512, 32, 4, 2000]);
        assert_eq!(Header::decode(&bytes), Ok(header()));
    }

    #[test]
    fn every_damaged_byte_is_seen() {
        let bytes = header().encode();
        for at in 0..bytes.len() {
            for mask in [1, 0x80, 0xFF] {
                let mut damaged = bytes;
                damaged[at] ^= mask;
                assert_eq!(Header::decode(&damaged), Err(HeaderError::Damaged), "byte {at}");
            }
        }
    }

    #[test]
    fn other_formats_and_later_versions_are_told_apart() {
        let changed = |at: usize, value: u8| {
            let mut bytes = header().encode();
            bytes[at] = value;
            let check = check(&bytes);
            bytes[61..].copy_from_slice(&check);
            Header::decode(&bytes)
        };
        assert_eq!(changed(0, b'Q'), Err(HeaderError::Foreign));
        assert_eq!(changed(4, 2), Ok(Header { version: Version::Deep, ..header() }));
        assert_eq!(changed(4, 0), Err(HeaderError::Foreign));
        assert_eq!(changed(4, 3), Err(HeaderError::Newer { version: 3, flags: 1 }));
        assert_eq!(changed(7, 1), Err(HeaderError::Newer { version: 1, flags: 257 }));
        assert_eq!(changed(6, 0), Err(HeaderError::Foreign));
    }
}
