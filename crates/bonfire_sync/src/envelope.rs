//! What goes around every message: 64 bytes of head, then the payload.
//!
//! Invariants: a head has one form, every byte of it and of the payload is covered by the checksum, and nothing is
//! allocated before both lengths are known to be allowed. What the payload holds is not decided here.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | magic `BNFM` |
//! | 4 | 2 | version of the protocol |
//! | 6 | 1 | kind |
//! | 7 | 1 | codec of the payload: 0 stored, 1 LZ4, from 128 on one of the game |
//! | 8 | 8 | stream |
//! | 16 | 8 | since |
//! | 24 | 8 | tick |
//! | 32 | 16 | schema |
//! | 48 | 4 | sequence |
//! | 52 | 4 | bytes of the payload |
//! | 56 | 4 | bytes of the payload as it is stored |
//! | 60 | 4 | CRC32C of bytes 0 to 60 and of the stored payload |

use std::borrow::Cow;

use bonfire::engine::{checksum, checksum_append};
use bonfire::schema::Fingerprint;
use bonfire::{Error, Result};
use bytes::Bytes;

use crate::compression::{MessageCodec, MessageCompression, checked_number};
use crate::limits::MessageLimits;

/// Bytes in front of every payload. A multiple of the alignment of columns.
pub(crate) const HEAD_BYTES: usize = 64;
/// The version of the protocol that this build writes.
pub(crate) const VERSION: u16 = 1;
const MAGIC: [u8; 4] = *b"BNFM";
const CHECKED_BYTES: usize = 60;

const CODEC_STORED: u8 = 0;
const CODEC_LZ4: u8 = 1;
/// No byte of LZ4 stands for more bytes than this: a claim beyond it needs no memory to be refused.
const LZ4_RATIO_MAX: u64 = 255;

/// The kinds of messages, with the numbers that stand for them in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WireKind {
    Baseline = 1,
    Delta = 2,
    /// A request of a mirror that has nothing to build on.
    RequestAll = 3,
    /// A request of a mirror that is at a tick.
    RequestSince = 4,
    StructuralLog = 5,
}

impl WireKind {
    fn from_number(number: u8) -> Result<Self> {
        Ok(match number {
            1 => Self::Baseline,
            2 => Self::Delta,
            3 => Self::RequestAll,
            4 => Self::RequestSince,
            5 => Self::StructuralLog,
            _ => return Err(Error::corrupt(format!("kind {number} is not one of this version"))),
        })
    }
}

/// What a head says besides lengths and checksum. What the fields mean depends on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: WireKind,
    pub(crate) stream: u64,
    pub(crate) since: u64,
    pub(crate) tick: u64,
    pub(crate) schema: Fingerprint,
    pub(crate) sequence: u32,
}

impl Head {
    /// The message with this payload, which comes in pieces so that what is captured is copied once.
    pub(crate) fn encode(&self, payload: &[&[u8]], compression: &MessageCompression) -> Result<Bytes> {
        let raw_bytes = payload.iter().map(|part| part.len() as u64).sum::<u64>();
        let Ok(raw_bytes) = u32::try_from(raw_bytes) else {
            return Err(Error::limit(format!("{raw_bytes} bytes are too many for one message")));
        };
        let mut out = vec![0; HEAD_BYTES];
        let codec = match compression {
            MessageCompression::None => CODEC_STORED,
            MessageCompression::Lz4 => pack(payload, raw_bytes as usize, &mut out)?,
            MessageCompression::Game(codec) => pack_with(&**codec, payload, raw_bytes as usize, &mut out)?,
        };
        if codec == CODEC_STORED {
            out.reserve_exact(raw_bytes as usize);
            payload.iter().for_each(|part| out.extend_from_slice(part));
        }
        self.write(&mut out, codec, raw_bytes);
        Ok(out.into())
    }

    fn write(&self, message: &mut [u8], codec: u8, raw_bytes: u32) {
        let (head, payload) = message.split_at_mut(HEAD_BYTES);
        head[0..4].copy_from_slice(&MAGIC);
        head[4..6].copy_from_slice(&VERSION.to_le_bytes());
        head[6] = self.kind as u8;
        head[7] = codec;
        head[8..16].copy_from_slice(&self.stream.to_le_bytes());
        head[16..24].copy_from_slice(&self.since.to_le_bytes());
        head[24..32].copy_from_slice(&self.tick.to_le_bytes());
        head[32..48].copy_from_slice(&self.schema.0);
        head[48..52].copy_from_slice(&self.sequence.to_le_bytes());
        head[52..56].copy_from_slice(&raw_bytes.to_le_bytes());
        head[56..60].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let crc = checksum_append(checksum(&head[..CHECKED_BYTES]), payload);
        head[60..64].copy_from_slice(&crc.to_le_bytes());
    }

    /// The head and the payload of a message. A payload that is stored shares the memory of the message.
    pub(crate) fn decode(message: &Bytes, limits: &MessageLimits) -> Result<(Self, Bytes)> {
        let Some((head, stored)) = message.split_first_chunk::<HEAD_BYTES>() else {
            return Err(Error::corrupt(format!("{} bytes are no message", message.len())));
        };
        if head[0..4] != MAGIC {
            return Err(Error::corrupt("not a Bonfire message"));
        }
        match u16::from_le_bytes(at(head, 4)) {
            VERSION => {}
            0 => return Err(Error::corrupt("a message has version 0, which never was")),
            version => {
                let text = format!("a message has version {version}, this build knows up to {VERSION}");
                return Err(Error::newer_format(text));
            }
        }
        let raw_bytes = u32::from_le_bytes(at(head, 52));
        let stored_bytes = u32::from_le_bytes(at(head, 56));
        if stored_bytes as usize != stored.len() {
            let text = format!("a message promises {stored_bytes} bytes of payload and has {}", stored.len());
            return Err(Error::corrupt(text));
        }
        if raw_bytes > limits.payload_bytes_max || stored_bytes > limits.payload_bytes_max {
            let (bytes, bytes_max) = (raw_bytes.max(stored_bytes), limits.payload_bytes_max);
            return Err(Error::limit(format!("a payload of {bytes} bytes, at most {bytes_max} are allowed")));
        }
        let crc = checksum_append(checksum(&head[..CHECKED_BYTES]), stored);
        if crc != u32::from_le_bytes(at(head, 60)) {
            return Err(Error::corrupt("a message does not have its checksum"));
        }
        let payload = match head[7] {
            CODEC_STORED if raw_bytes != stored_bytes => {
                return Err(Error::corrupt("a payload that is stored has two lengths"));
            }
            CODEC_STORED => message.slice(HEAD_BYTES..),
            CODEC_LZ4 => unpack(stored, raw_bytes)?,
            number => unpack_with(limits.codecs.find(number)?, stored, raw_bytes as usize)?,
        };
        let head = Self {
            kind: WireKind::from_number(head[6])?,
            stream: u64::from_le_bytes(at(head, 8)),
            since: u64::from_le_bytes(at(head, 16)),
            tick: u64::from_le_bytes(at(head, 24)),
            schema: Fingerprint(at(head, 32)),
            sequence: u32::from_le_bytes(at(head, 48)),
        };
        Ok((head, payload))
    }
}

fn at<const N: usize>(head: &[u8; HEAD_BYTES], start: usize) -> [u8; N] {
    std::array::from_fn(|i| head[start + i])
}

fn join<'a>(payload: &[&'a [u8]]) -> Cow<'a, [u8]> {
    match payload {
        [part] => Cow::Borrowed(part),
        parts => Cow::Owned(parts.concat()),
    }
}

/// As [`pack`], with a codec of the game.
fn pack_with(codec: &dyn MessageCodec, payload: &[&[u8]], raw_bytes: usize, out: &mut Vec<u8>) -> Result<u8> {
    let number = checked_number(codec)?;
    codec.compress(&join(payload), out)?;
    if out.len() < HEAD_BYTES {
        return Err(Error::misuse(format!("codec {number} took bytes away that were not its own")));
    }
    let pays = out.len() - HEAD_BYTES < raw_bytes;
    if !pays {
        out.truncate(HEAD_BYTES);
    }
    Ok(if pays { number } else { CODEC_STORED })
}

fn unpack_with(codec: &dyn MessageCodec, stored: &[u8], raw_bytes: usize) -> Result<Bytes> {
    check_smaller(stored, raw_bytes)?;
    let mut raw = vec![0; raw_bytes];
    codec.decompress(stored, &mut raw)?;
    Ok(raw.into())
}

/// The other side stores what does not become smaller, so a message where this fails is none of ours.
fn check_smaller(stored: &[u8], raw_bytes: usize) -> Result<()> {
    match stored.len() < raw_bytes {
        true => Ok(()),
        false => Err(Error::corrupt("a compressed payload is not smaller than its contents")),
    }
}

/// Appends the payload to `out` if compression makes it smaller, and says which codec it has.
#[cfg(feature = "lz4")]
fn pack(payload: &[&[u8]], raw_bytes: usize, out: &mut Vec<u8>) -> Result<u8> {
    let raw = &*join(payload);
    out.resize(HEAD_BYTES + lz4_flex::block::get_maximum_output_size(raw_bytes), 0);
    let packed = lz4_flex::block::compress_into(raw, &mut out[HEAD_BYTES..])
        .map_err(|error| Error::custom(format!("LZ4 failed: {error}")))?;
    let pays = packed < raw_bytes;
    out.truncate(HEAD_BYTES + if pays { packed } else { 0 });
    Ok(if pays { CODEC_LZ4 } else { CODEC_STORED })
}

#[cfg(not(feature = "lz4"))]
fn pack(_: &[&[u8]], _: usize, _: &mut Vec<u8>) -> Result<u8> {
    Err(Error::unsupported("messages with LZ4 need the feature `lz4`"))
}

fn unpack(stored: &[u8], raw_bytes: u32) -> Result<Bytes> {
    check_smaller(stored, raw_bytes as usize)?;
    if u64::from(raw_bytes) > stored.len() as u64 * LZ4_RATIO_MAX {
        let text = format!("{} bytes of LZ4 cannot hold {raw_bytes}", stored.len());
        return Err(Error::corrupt(text));
    }
    inflate(stored, raw_bytes as usize)
}

#[cfg(feature = "lz4")]
fn inflate(stored: &[u8], raw_bytes: usize) -> Result<Bytes> {
    let mut raw = vec![0; raw_bytes];
    match lz4_flex::block::decompress_into(stored, &mut raw) {
        Ok(bytes) if bytes == raw_bytes => Ok(raw.into()),
        Ok(bytes) => Err(Error::corrupt(format!("a payload has {bytes} bytes and promised {raw_bytes}"))),
        Err(error) => Err(Error::corrupt(format!("a payload is not LZ4: {error}"))),
    }
}

#[cfg(not(feature = "lz4"))]
fn inflate(_: &[u8], _: usize) -> Result<Bytes> {
    Err(Error::unsupported("a message is compressed with LZ4: build with the feature `lz4`"))
}
