//! Frames: `[u32 size][data][trailer]`. To a reader of the document a frame is an entry of the data region whose payload
//! is a little longer than the table says.
//!
//! If `z` or the dimension of its place is not 0, both follow the data, and a bit of the kind says so. Its length counts them.

use super::depth::{DEPTH_BYTES, HAS_DEPTH, decode_depth, encode_depth};
use super::{FrameKey, FrameKind, FramePlace, FrameTag, take};
use crate::ChunkPos;

pub(crate) const SIZE_BYTES: u64 = 4;
pub(crate) const TRAILER_BYTES: u64 = 32;
/// What a frame has beside its data.
pub(crate) const FRAME_EXTRA_BYTES: u64 = SIZE_BYTES + TRAILER_BYTES;
const CHECKED_BYTES: usize = 28;

/// The bit of the kind that says that a frame belongs to pinned moments alone.
const PINNED_ONLY: u8 = 0x80;

/// How trailers begin, so that they are found again where the chain of sizes is broken.
pub(crate) const MAGIC: [u8; 4] = [0x9B, b'B', b'N', b'F'];

/// What the trailer of a frame says, and where the frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    /// It was written for pinned moments: the world did not have it when the file was written.
    pub(crate) is_pinned_only: bool,
    pub(crate) pos: ChunkPos,
    /// Of the save that wrote it.
    pub(crate) generation: u64,
    pub(crate) place: FramePlace,
    pub(crate) crc: u32,
}

impl Frame {
    pub(crate) fn key(&self) -> FrameKey {
        FrameKey::new(self.kind, self.pos)
    }

    /// What a trailer says whose data begins at `offset`. `end` ends with the trailer, and has as much of the data before it as
    /// there is at hand, at least `DEPTH_BYTES`. Whether it is true is for [`check`](Self::check) to say.
    pub(crate) fn decode(end: &[u8], offset: u64) -> Option<Self> {
        let (data, mut trailer) = end.split_at_checked(end.len().checked_sub(TRAILER_BYTES as usize)?)?;
        let bytes = &mut trailer;
        if take(bytes)? != MAGIC {
            return None;
        }
        let [kind, storage, codec, layers] = take(bytes)?;
        let mut pos = ChunkPos::new(i32::from_le_bytes(take(bytes)?), i32::from_le_bytes(take(bytes)?));
        let len = u32::from_le_bytes(take(bytes)?);
        if kind & HAS_DEPTH != 0 {
            let depth = data.last_chunk::<DEPTH_BYTES>().filter(|_| len as usize >= DEPTH_BYTES)?;
            // Each place has one form.
            pos = decode_depth(pos, depth).filter(|pos| !pos.is_flat())?;
        }
        Some(Self {
            kind: FrameKind::from_number(kind & !(PINNED_ONLY | HAS_DEPTH))?,
            is_pinned_only: kind & PINNED_ONLY != 0,
            pos,
            generation: u64::from_le_bytes(take(bytes)?),
            place: FramePlace { offset, len, tag: FrameTag { storage, codec, layers } },
            crc: u32::from_le_bytes(take(bytes)?),
        })
    }

    /// The length that a trailer claims.
    pub(crate) fn claimed_len(trailer: &[u8]) -> Option<u32> {
        Some(u32::from_le_bytes(*trailer.get(16..)?.first_chunk()?))
    }

    /// The frame in these bytes, from its size word to its last byte, if it is whole. The size word is made right if it is
    /// not: the trailer says the same, and is checked.
    pub(crate) fn check(bytes: &mut [u8], place: &FramePlace) -> Option<Self> {
        let (size, rest) = bytes.split_first_chunk_mut()?;
        let rest = &*rest;
        let (data, trailer) = rest.split_at_checked(place.len as usize)?;
        let frame = Self::decode(rest, place.offset)?;
        let is_whole = trailer.len() as u64 == TRAILER_BYTES
            && frame.place.len == place.len
            && frame.crc == crc(crc32c::crc32c(data), trailer);
        *size = (place.len + TRAILER_BYTES as u32).to_le_bytes();
        is_whole.then_some(frame)
    }

    /// Says in the trailer of a whole frame whether it belongs to pinned moments alone.
    pub(crate) fn set_pinned_only(bytes: &mut [u8], is_pinned_only: bool) {
        let (frame, trailer) = bytes.split_at_mut(bytes.len() - TRAILER_BYTES as usize);
        let kind = &mut trailer[MAGIC.len()];
        let wanted = *kind & !PINNED_ONLY | if is_pinned_only { PINNED_ONLY } else { 0 };
        if *kind != wanted {
            *kind = wanted;
            let crc = crc(crc32c::crc32c(&frame[SIZE_BYTES as usize..]), trailer);
            trailer[CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
        }
    }

    /// Whether a checksum of the data belongs to this trailer.
    pub(crate) fn is_crc_of(data_crc: u32, trailer: &[u8], wanted: u32) -> bool {
        crc(data_crc, trailer) == wanted
    }
}

fn crc(data: u32, trailer: &[u8]) -> u32 {
    crc32c::crc32c_append(data, &trailer[..CHECKED_BYTES])
}

/// Returns the data of a frame with this key, whose length counts the depth of its place, too.
pub(crate) fn without_depth(key: FrameKey, bytes: &[u8]) -> &[u8] {
    let depth = if key.pos.is_flat() { 0 } else { DEPTH_BYTES };
    &bytes[..bytes.len().saturating_sub(depth)]
}

/// A frame that was written to the end of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenFrame {
    pub(crate) place: FramePlace,
    pub(crate) crc: u32,
}

impl WrittenFrame {
    /// Puts the frame of `parts` at the end of `out`, whose first byte is at `start` of the file. The caller has checked that
    /// the data is shorter than 4 GiB.
    pub(crate) fn new(
        out: &mut Vec<u8>,
        start: u64,
        key: FrameKey,
        tag: FrameTag,
        generation: u64,
        parts: &[&[u8]],
    ) -> Self {
        let (depth, bit) = match key.pos.is_flat() {
            true => (None, 0),
            false => (Some(encode_depth(key.pos)), HAS_DEPTH),
        };
        let depth = depth.as_ref().map_or(&[][..], |depth| &depth[..]);
        let len: usize = parts.iter().map(|part| part.len()).sum::<usize>() + depth.len();
        let offset = start + out.len() as u64 + SIZE_BYTES;
        let len = u32::try_from(len).unwrap_or_else(|_| unreachable!("the caller has checked the length"));
        out.reserve(len as usize + FRAME_EXTRA_BYTES as usize);
        out.extend_from_slice(&(len + TRAILER_BYTES as u32).to_le_bytes());
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.extend_from_slice(depth);
        let data_crc = crc32c::crc32c(&out[out.len() - len as usize..]);
        let (place, trailer) = (FramePlace { offset, len, tag }, out.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[key.kind as u8 | bit, tag.storage, tag.codec, tag.layers]);
        out.extend_from_slice(&key.pos.x.to_le_bytes());
        out.extend_from_slice(&key.pos.y.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&generation.to_le_bytes());
        let crc = crc(data_crc, &out[trailer..]);
        out.extend_from_slice(&crc.to_le_bytes());
        Self { place, crc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_and_every_damaged_byte_is_seen() {
        let mut bytes = vec![0xEE; 3];
        let key = FrameKey::new(FrameKind::Bodies, ChunkPos::new(-7, 9));
        let tag = FrameTag { storage: 1, codec: 2, layers: 3 };
        let appended = WrittenFrame::new(&mut bytes, 100, key, tag, 42, &[b"hello ", b"there"]);
        assert_eq!((appended.place.offset, appended.place.len), (107, 11));
        let bytes = &mut bytes[3..];
        let frame = Frame::check(bytes, &appended.place).unwrap();
        assert_eq!(
            (frame.key(), frame.generation, frame.place, frame.crc),
            (key, 42, appended.place, appended.crc)
        );
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x40;
            match Frame::check(&mut damaged, &appended.place) {
                // The size word is there twice.
                Some(again) => assert_eq!((again, &damaged[..]), (frame, &bytes[..]), "byte {at}"),
                None => assert!(at >= 4, "byte {at}"),
            }
        }
        let cut = bytes.len() - 1;
        assert_eq!(Frame::check(&mut bytes[..cut], &appended.place), None);
        let whole = bytes.to_vec();
        Frame::set_pinned_only(bytes, true);
        let pinned = Frame::check(bytes, &appended.place).unwrap();
        assert_eq!((pinned.key(), pinned.is_pinned_only, frame.is_pinned_only), (key, true, false));
        Frame::set_pinned_only(bytes, false);
        assert_eq!(bytes, whole);
    }

    #[test]
    fn a_place_with_depth_is_behind_the_data_and_every_damaged_byte_is_seen() {
        let mut bytes = Vec::new();
        let key = FrameKey::new(FrameKind::Chunk, ChunkPos::new_3d(-7, 9, -1).in_dimension(3));
        let appended = WrittenFrame::new(&mut bytes, 100, key, FrameTag::default(), 42, &[b"hello"]);
        assert_eq!((appended.place.len, appended.place.frame_bytes()), (13, bytes.len() as u64));
        let frame = Frame::check(&mut bytes, &appended.place).unwrap();
        assert_eq!(frame.key(), key);
        let data = &bytes[SIZE_BYTES as usize..][..13];
        assert_eq!(
            (without_depth(key, data), &data[5..]),
            (&b"hello"[..], &[255, 255, 255, 255, 3, 0, 0, 0][..])
        );
        for at in SIZE_BYTES as usize..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert_eq!(Frame::check(&mut damaged, &appended.place), None, "byte {at}");
        }
        let trailer = bytes.len() - TRAILER_BYTES as usize;
        assert_eq!(Frame::decode(&bytes[trailer..], 104), None, "the depth is not at hand");
        bytes[trailer - DEPTH_BYTES..trailer].fill(0);
        assert_eq!(Frame::decode(&bytes, 104), None, "a flat place in the long form");
    }
}
