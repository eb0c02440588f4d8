//! The bytes of a sealed blob: FORMAT.md, "Sealed blobs".

use std::ops::Range;

use bonfire::{Error, Result};

use super::key::{PassphraseCosts, PassphraseParameters};
use super::suite::{Position, Suite};
use crate::store::SEALED_MAGIC as MAGIC;

/// How saves begin that are not sealed.
const PLAIN_MAGIC: [u8; 8] = *b"\x89BNF\r\n\x1a\n";
const VERSION: u16 = 1;
pub(super) const HEADER_BYTES: usize = 104;
const CHECKED_BYTES: usize = 100;
pub(super) const SEGMENT_BYTES: usize = 65_536;
pub(super) const TAG_BYTES: usize = 32;
pub(super) const SIGNATURE_BYTES: usize = 64;

const FLAG_BOUND: u8 = 1;
const FLAG_SIGNED: u8 = 2;
const FLAG_PASSPHRASE: u8 = 4;

pub(super) type KeyId = [u8; 8];
pub(super) type SaveId = [u8; 24];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) suite: Suite,
    /// The blob's name is authenticated.
    pub(super) bound: bool,
    pub(super) signed: bool,
    pub(super) key: KeyId,
    pub(super) save: SaveId,
    pub(super) stretch: Option<PassphraseParameters>,
    pub(super) counter: u64,
    pub(super) open: u64,
    pub(super) body: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut flags = 0;
        for (set, flag) in
            [(self.bound, FLAG_BOUND), (self.signed, FLAG_SIGNED), (self.stretch.is_some(), FLAG_PASSPHRASE)]
        {
            flags |= if set { flag } else { 0 };
        }
        let (salt, costs) = self.stretch.map_or(([0; 16], [0; 3]), |PassphraseParameters { salt, costs }| {
            (salt, [costs.memory_kib, costs.passes, costs.lanes])
        });
        let mut bytes = [0; HEADER_BYTES];
        let mut rest = &mut bytes[..];
        let mut put = |field: &[u8]| {
            let (here, behind) = std::mem::take(&mut rest).split_at_mut(field.len());
            here.copy_from_slice(field);
            rest = behind;
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&[self.suite.number(), flags]);
        put(&self.key);
        put(&self.save);
        put(&salt);
        costs.iter().for_each(|cost| put(&cost.to_le_bytes()));
        put(&self.counter.to_le_bytes());
        put(&(SEGMENT_BYTES as u32).to_le_bytes());
        put(&self.open.to_le_bytes());
        put(&self.body.to_le_bytes());
        let check = check(&bytes);
        bytes[CHECKED_BYTES..].copy_from_slice(&check);
        bytes
    }

    /// The header at the start of these bytes. What it says is not to be trusted before its tag is checked.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let magic: [u8; 8] = take(&mut rest)?;
        if magic == PLAIN_MAGIC {
            // Not damage: a build without keys has written it, and there may be progress in it.
            return Err(Error::wrong_key("this save is not sealed: somebody without a key has written it"));
        }
        if magic != MAGIC {
            return Err(Error::corrupt("this is not a sealed save"));
        }
        let header: [u8; HEADER_BYTES] = take(&mut &*bytes)?;
        if header[CHECKED_BYTES..] != check(&header) {
            return Err(Error::corrupt("the header of a sealed save is damaged"));
        }
        match u16::from_le_bytes(take(&mut rest)?) {
            VERSION => {}
            0 => return Err(Error::corrupt("a sealed save has no version 0")),
            version => {
                return Err(Error::newer_format(format!(
                    "version {version} of sealed saves is newer than this build ({VERSION})"
                )));
            }
        }
        let [suite, flags] = take(&mut rest)?;
        let suite = Suite::from_number(suite)
            .ok_or_else(|| Error::newer_format(format!("this build does not know suite {suite}")))?;
        if flags & !(FLAG_BOUND | FLAG_SIGNED | FLAG_PASSPHRASE) != 0 {
            return Err(Error::newer_format(format!("this build does not know all flags of {flags:#04x}")));
        }
        let (key, save, salt) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
        let costs = PassphraseCosts {
            memory_kib: u32::from_le_bytes(take(&mut rest)?),
            passes: u32::from_le_bytes(take(&mut rest)?),
            lanes: u32::from_le_bytes(take(&mut rest)?),
        };
        let stretch = (flags & FLAG_PASSPHRASE != 0).then_some(PassphraseParameters { salt, costs });
        let counter = u64::from_le_bytes(take(&mut rest)?);
        let segment_bytes = u32::from_le_bytes(take(&mut rest)?);
        if segment_bytes != SEGMENT_BYTES as u32 {
            return Err(Error::corrupt(format!(
                "segments have {SEGMENT_BYTES} bytes and not {segment_bytes}"
            )));
        }
        let open = u64::from_le_bytes(take(&mut rest)?);
        let body = u64::from_le_bytes(take(&mut rest)?);
        let (bound, signed) = (flags & FLAG_BOUND != 0, flags & FLAG_SIGNED != 0);
        let decoded = Self { suite, bound, signed, key, save, stretch, counter, open, body };
        if suite == Suite::Signed && (!signed || stretch.is_some()) {
            return Err(Error::corrupt("a save that is sealed by its signature alone has no signature"));
        }
        // One meaning has one form: fields without a meaning are zero.
        if decoded.encode() != header {
            return Err(Error::corrupt("a field that nobody uses is not zero"));
        }
        Ok(decoded)
    }
}

fn check(header: &[u8; HEADER_BYTES]) -> [u8; HEADER_BYTES - CHECKED_BYTES] {
    let [a, b, c, d, ..] = *blake3::hash(&header[..CHECKED_BYTES]).as_bytes();
    [a, b, c, d]
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (field, behind) =
        rest.split_first_chunk().ok_or_else(|| Error::corrupt("a sealed save ends inside its header"))?;
    *rest = behind;
    Ok(*field)
}

/// Where everything lies. All sums were checked when it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Plaintext that is not encrypted.
    pub(super) open: u64,
    /// Plaintext behind it.
    pub(super) body: u64,
    /// Bytes before the segments.
    pub(super) front: u64,
    pub(super) segments: u64,
    /// Bytes of a segment's tag.
    tag: u64,
    /// Bytes of the signature at the end.
    pub(super) signature: u64,
    /// Bytes of the blob.
    pub(super) blob: u64,
}

impl Layout {
    pub(super) fn of(header: &Header) -> Result<Self> {
        let (open, body) = (header.open, header.body);
        let signature = if header.signed { SIGNATURE_BYTES as u64 } else { 0 };
        let segments = body.div_ceil(SEGMENT_BYTES as u64).max(1);
        let tag = header.suite.tag_bytes() as u64;
        let sum = |numbers: [u64; 4]| numbers.into_iter().try_fold(0, u64::checked_add);
        let front = sum([HEADER_BYTES as u64, open, TAG_BYTES as u64, signature]);
        let blob = front
            .and_then(|front| sum([front, body, segments.checked_mul(tag)?, signature]))
            .ok_or_else(|| Error::corrupt("a sealed save says that it is longer than any file"))?;
        let front = blob - signature - segments * tag - body;
        Ok(Self { open, body, front, segments, tag, signature, blob })
    }

    /// The number of plaintext bytes.
    pub(super) fn len(&self) -> u64 {
        self.open + self.body
    }

    /// A blob that has this many bytes is whole.
    pub(super) fn check_len(&self, blob: u64) -> Result<()> {
        if blob != self.blob {
            return Err(Error::corrupt(format!("a sealed save has {blob} bytes and not {}", self.blob)));
        }
        Ok(())
    }

    pub(super) fn position(&self, index: u64) -> Position {
        Position { index, last: index + 1 == self.segments }
    }

    /// Where a segment's plaintext lies in the body.
    pub(super) fn text(&self, index: u64) -> Range<u64> {
        let start = index * SEGMENT_BYTES as u64;
        start..self.body.min(start + SEGMENT_BYTES as u64)
    }

    /// Where a segment and its tag lie in the blob.
    pub(super) fn sealed(&self, index: u64) -> Range<u64> {
        let text = self.text(index);
        let start = self.front + text.start + index * self.tag;
        start..start + (text.end - text.start) + self.tag
    }
}
