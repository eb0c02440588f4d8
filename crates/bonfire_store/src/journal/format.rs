//! The bytes of a journal: FORMAT.md, "Journals".

use bonfire::{Error, Result};

const MAGIC: [u8; 8] = *b"\x89BNJ\r\n\x1a\n";
const VERSION: u16 = 1;
pub(crate) const HEAD_BYTES: usize = 40;
const HEAD_CHECKED_BYTES: usize = 36;

pub(crate) const RECORD_MAGIC: [u8; 4] = *b"BREC";
pub(crate) const RECORD_HEADER_BYTES: usize = 68;
const RECORD_CHECKED_BYTES: usize = 64;
/// The length of the record again, so that the last one is found from the end.
pub(crate) const TRAILER_BYTES: usize = 8;
/// What a record has besides its payload.
const RECORD_FRAME_BYTES: u64 = (RECORD_HEADER_BYTES + TRAILER_BYTES) as u64;

/// The payload begins with a table of components.
const FLAG_TABLE: u32 = 1;

/// The bytes of the save that a journal belongs to, as far as it knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) len: u64,
    pub(crate) crc: u32,
}

impl Base {
    pub(crate) fn of(save: &[u8]) -> Self {
        Self { len: save.len() as u64, crc: crc32c::crc32c(save) }
    }
}

/// How a journal begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalHead {
    pub(crate) base: Base,
    /// The tick that the save is at: where the first record begins.
    pub(crate) tick: u64,
}

impl JournalHead {
    /// The bytes, and their checksum: what the first record follows.
    pub(crate) fn encode(&self) -> ([u8; HEAD_BYTES], u32) {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.base.crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.base.len.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.tick.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..HEAD_CHECKED_BYTES]);
        bytes[HEAD_CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// The head at the start of these bytes, and its checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, u32)> {
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Err(Error::corrupt("the journal ends inside its head"));
        };
        if head[..8] != MAGIC {
            return Err(Error::corrupt("this is not a journal"));
        }
        let crc = crc32c::crc32c(&head[..HEAD_CHECKED_BYTES]);
        if head[HEAD_CHECKED_BYTES..] != crc.to_le_bytes() {
            return Err(Error::corrupt("the head of the journal is damaged"));
        }
        match u16_at(head, 8) {
            VERSION => {}
            0 => return Err(Error::corrupt("a journal has no version 0")),
            version => {
                return Err(Error::newer_format(format!(
                    "version {version} of journals is newer than this build ({VERSION})"
                )));
            }
        }
        let flags = u16_at(head, 10);
        if flags != 0 {
            return Err(Error::newer_format(format!("this build does not know the flags {flags:#06x}")));
        }
        if head[32..36] != [0; 4] {
            return Err(Error::corrupt("a field of the journal's head that nobody uses is not zero"));
        }
        let base = Base { crc: u32_at(head, 12), len: u64_at(head, 16) };
        Ok((Self { base, tick: u64_at(head, 24) }, crc))
    }
}

/// Returns true if these bytes begin as a journal, or one of its records, does.
pub fn is_journal(start: &[u8]) -> bool {
    start.starts_with(&MAGIC) || start.starts_with(&RECORD_MAGIC)
}

/// What a record says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) has_table: bool,
    /// From 1.
    pub(crate) sequence: u64,
    pub(crate) since: u64,
    pub(crate) now: u64,
    /// Milliseconds since the start of 1970; 0 if nobody knew.
    pub(crate) time_ms: u64,
    /// The place of this record among all saves and appends of the store: larger is later.
    pub(crate) order: u64,
    pub(crate) payload_len: u64,
    /// The checksum of what comes before: of the header of a record, or of the head.
    pub(crate) link: u32,
    pub(crate) payload_crc: u32,
}

impl RecordHeader {
    /// The bytes, and their checksum: what the next record follows.
    pub(crate) fn encode(&self) -> ([u8; RECORD_HEADER_BYTES], u32) {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..4].copy_from_slice(&RECORD_MAGIC);
        let flags = if self.has_table { FLAG_TABLE } else { 0 };
        bytes[4..8].copy_from_slice(&flags.to_le_bytes());
        let numbers = [self.sequence, self.since, self.now, self.time_ms, self.order, self.payload_len];
        for (place, number) in bytes[8..56].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[56..60].copy_from_slice(&self.link.to_le_bytes());
        bytes[60..64].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..RECORD_CHECKED_BYTES]);
        bytes[RECORD_CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// The header at the start of these bytes, and its checksum.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, u32)> {
        let Some(header) = bytes.first_chunk::<RECORD_HEADER_BYTES>() else {
            return Err(Error::corrupt("it ends inside its header"));
        };
        if header[..4] != RECORD_MAGIC {
            return Err(Error::corrupt("there is something else in its place"));
        }
        let crc = crc32c::crc32c(&header[..RECORD_CHECKED_BYTES]);
        if header[RECORD_CHECKED_BYTES..] != crc.to_le_bytes() {
            return Err(Error::corrupt("its header is damaged"));
        }
        let flags = u32_at(header, 4);
        if flags & !FLAG_TABLE != 0 {
            return Err(Error::newer_format(format!(
                "this build does not know all flags of {flags:#010x} of a journal's record"
            )));
        }
        let decoded = Self {
            has_table: flags & FLAG_TABLE != 0,
            sequence: u64_at(header, 8),
            since: u64_at(header, 16),
            now: u64_at(header, 24),
            time_ms: u64_at(header, 32),
            order: u64_at(header, 40),
            payload_len: u64_at(header, 48),
            link: u32_at(header, 56),
            payload_crc: u32_at(header, 60),
        };
        Ok((decoded, crc))
    }

    /// The length of the whole record, if there can be one.
    pub(crate) fn record_len(&self) -> Result<u64> {
        let len = self.payload_len.checked_add(RECORD_FRAME_BYTES);
        len.ok_or_else(|| Error::corrupt("it says that it is longer than any file"))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Only for offsets that are known to be inside.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: JournalHead = JournalHead { base: Base { len: 1088, crc: 7 }, tick: 100 };
    const HEADER: RecordHeader = RecordHeader {
        has_table: true,
        sequence: 7,
        since: 100,
        now: 160,
        time_ms: 1_700_000_000_000,
        order: 9,
        payload_len: 5,
        link: 0x1234_5678,
        payload_crc: 0x9ABC_DEF0,
    };

    #[test]
    fn heads_and_headers_are_what_was_written_and_every_flipped_bit_is_noticed() {
        let (head, crc) = HEAD.encode();
        assert_eq!(JournalHead::decode(&head).unwrap(), (HEAD, crc));
        for at in 0..HEAD_BYTES * 8 {
            let mut changed = head;
            changed[at / 8] ^= 1 << (at % 8);
            assert!(JournalHead::decode(&changed).unwrap_err().is_corrupt(), "bit {at}");
        }
        let (bytes, crc) = HEADER.encode();
        assert_eq!(RecordHeader::decode(&bytes).unwrap(), (HEADER, crc));
        for at in 0..RECORD_HEADER_BYTES * 8 {
            let mut changed = bytes;
            changed[at / 8] ^= 1 << (at % 8);
            assert!(RecordHeader::decode(&changed).unwrap_err().is_corrupt(), "bit {at}");
        }
    }

    #[test]
    fn what_a_later_build_writes_is_newer_and_not_damaged() {
        let (head, _) = HEAD.encode();
        for at in [8, 10] {
            let mut newer = head;
            newer[at] = 2;
            let crc = crc32c::crc32c(&newer[..HEAD_CHECKED_BYTES]);
            newer[HEAD_CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
            assert!(JournalHead::decode(&newer).unwrap_err().is_newer_format(), "byte {at}");
        }
        let (mut newer, _) = HEADER.encode();
        newer[4] |= 2;
        let crc = crc32c::crc32c(&newer[..RECORD_CHECKED_BYTES]);
        newer[RECORD_CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
        assert!(RecordHeader::decode(&newer).unwrap_err().is_newer_format());
    }
}
