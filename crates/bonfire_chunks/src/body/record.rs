//! Bodies as bytes.
//!
//! A record is a header of 64 bytes, then cells (LZ4), mask (LZ4) and extension (as it is). Little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | id |
//! | 8 | 8 | position x, y (f32) |
//! | 16 | 4 | rotation (f32) |
//! | 20 | 8 | linear velocity x, y (f32) |
//! | 28 | 4 | angular velocity (f32) |
//! | 32 | 8 | width, height (u32) |
//! | 40 | 8 | origin x, y (i32) |
//! | 48 | 12 | bytes of cells, mask, extension as stored (u32) |
//! | 60 | 1 | CRC-8 of bytes 0 to 59 |
//! | 61 | 3 | 0 |
//!
//! LZ4 is a u32 with the number of raw bytes, then one block. A list of bodies is a u32 with their number, a u32 that is
//! 0, then the records.

use bonfire::{Error, Result};

use super::{Body, BodyId};
use crate::format::{crc8, crc8_append};

const HEADER_BYTES: usize = 64;
const LIST_HEADER_BYTES: usize = 8;
/// No block of LZ4 becomes more than this many times its size.
const LZ4_RATIO_MAX: u64 = 255;

/// How much memory decoded bodies may take.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// The cells of one body, in bytes. 64 MiB.
    pub body_bytes_max: u64,
    /// The cells of all bodies of a list, in bytes. 1 GiB.
    pub bodies_bytes_max: u64,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { body_bytes_max: 64 << 20, bodies_bytes_max: 1 << 30 }
    }
}

/// What the checksum of a header covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// Everything in front of it.
    Whole,
    /// Id, position, rotation and size: what the game bevy_pixel_world writes.
    PixelWorld,
}

/// The header of a record: all that is known before anything is decompressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHeader<'b> {
    bytes: &'b [u8; HEADER_BYTES],
}

impl<'b> RecordHeader<'b> {
    /// The header at the start of some bytes, if there are enough of them.
    pub(crate) fn at(bytes: &'b [u8]) -> Option<Self> {
        bytes.first_chunk().map(|bytes| Self { bytes })
    }

    fn word(&self, at: usize) -> [u8; 4] {
        [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]]
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.word(at))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.word(at))
    }

    fn f32(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.word(at))
    }

    pub(crate) fn id(&self) -> BodyId {
        BodyId(u64::from(self.u32(4)) << 32 | u64::from(self.u32(0)))
    }

    /// The bytes of cells that this many cells have; `None` beyond all numbers.
    pub(crate) fn cells_bytes(&self, cell_bytes: usize) -> Option<u64> {
        (u64::from(self.u32(32)) * u64::from(self.u32(36))).checked_mul(u64::try_from(cell_bytes).ok()?)
    }

    fn mask_bytes(&self) -> u64 {
        (u64::from(self.u32(32)) * u64::from(self.u32(36))).div_ceil(8)
    }

    /// The bytes of the whole record.
    pub(crate) fn record_bytes(&self) -> u64 {
        [48, 52, 56].iter().map(|at| u64::from(self.u32(*at))).sum::<u64>() + HEADER_BYTES as u64
    }

    pub(crate) fn checksum_holds(&self, checksum: Checksum) -> bool {
        let covered = match checksum {
            Checksum::Whole => crc8(&self.bytes[..60]),
            Checksum::PixelWorld => crc8_append(crc8(&self.bytes[..20]), &self.bytes[32..40]),
        };
        covered == self.bytes[60]
    }
}

/// Appends the record of a body.
pub(crate) fn encode_record(body: &Body, cell_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
    let cells = u64::from(body.width) * u64::from(body.height);
    let wrong = |what, has: usize| {
        Error::misuse(format!("body {}: {has} bytes of {what} for {cells} cells", body.id))
    };
    if Some(body.cells.len() as u64) != cells.checked_mul(cell_bytes as u64) {
        return Err(wrong("cells", body.cells.len()));
    }
    if body.mask.len() as u64 != cells.div_ceil(8) {
        return Err(wrong("mask", body.mask.len()));
    }
    let too_large = |_| Error::limit(format!("body {} is too large for a record", body.id));
    u32::try_from(body.cells.len()).map_err(too_large)?;
    let stored_cells = lz4_flex::block::compress_prepend_size(&body.cells);
    let stored_mask = lz4_flex::block::compress_prepend_size(&body.mask);
    let mut header = [0; HEADER_BYTES];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        header[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&body.id.0.to_le_bytes());
    let [x, y] = body.position;
    let [speed_x, speed_y] = body.linear_velocity;
    for number in [x, y, body.rotation, speed_x, speed_y, body.angular_velocity] {
        put(&number.to_le_bytes());
    }
    put(&body.width.to_le_bytes());
    put(&body.height.to_le_bytes());
    body.origin.iter().for_each(|number| put(&number.to_le_bytes()));
    for part in [&stored_cells, &stored_mask, &body.extension] {
        put(&u32::try_from(part.len()).map_err(too_large)?.to_le_bytes());
    }
    header[60] = crc8(&header[..60]);
    out.extend_from_slice(&header);
    out.extend_from_slice(&stored_cells);
    out.extend_from_slice(&stored_mask);
    out.extend_from_slice(&body.extension);
    Ok(())
}

/// The body whose record is at the start of some bytes, and how many of them are the record.
pub(crate) fn decode_record(bytes: &[u8], cell_bytes: usize, limits: BodyLimits) -> Result<(Body, usize)> {
    decode_record_with(bytes, cell_bytes, limits, Checksum::Whole)
}

/// [`decode_record`] for a record whose checksum covers what `checksum` says.
pub(crate) fn decode_record_with(
    bytes: &[u8],
    cell_bytes: usize,
    limits: BodyLimits,
    checksum: Checksum,
) -> Result<(Body, usize)> {
    let Some(header) = RecordHeader::at(bytes) else {
        return Err(Error::corrupt("a body is cut short in its header"));
    };
    if !header.checksum_holds(checksum) {
        return Err(Error::corrupt("the header of a body does not match its checksum"));
    }
    let id = header.id();
    let used = usize::try_from(header.record_bytes()).ok().filter(|used| *used <= bytes.len());
    let Some(used) = used else {
        return Err(Error::corrupt(format!(
            "body {id} has {} bytes, and {} are there",
            header.record_bytes(),
            bytes.len()
        )));
    };
    let cells_bytes = header.cells_bytes(cell_bytes).filter(|bytes| *bytes <= limits.body_bytes_max);
    let Some(cells_bytes) = cells_bytes else {
        return Err(Error::limit(format!(
            "body {id} has {} x {} cells, more than {} bytes",
            header.u32(32),
            header.u32(36),
            limits.body_bytes_max
        )));
    };
    // All three sizes are below the length of the bytes.
    let part = |at: usize| usize::try_from(header.u32(at)).unwrap_or(usize::MAX);
    let (stored_cells, rest) = bytes[HEADER_BYTES..used].split_at(part(48));
    let (stored_mask, extension) = rest.split_at(part(52));
    let body = Body {
        id,
        position: [header.f32(8), header.f32(12)],
        rotation: header.f32(16),
        linear_velocity: [header.f32(20), header.f32(24)],
        angular_velocity: header.f32(28),
        width: header.u32(32),
        height: header.u32(36),
        origin: [header.i32(40), header.i32(44)],
        cells: decompress(stored_cells, cells_bytes).map_err(|why| part_error(id, "cells", why))?,
        mask: decompress(stored_mask, header.mask_bytes()).map_err(|why| part_error(id, "mask", why))?,
        extension: extension.to_vec(),
    };
    Ok((body, used))
}

fn part_error(id: BodyId, part: &str, why: String) -> Error {
    Error::corrupt(format!("the {part} of body {id}: {why}"))
}

/// Decompresses into exactly `raw_bytes`, which is within the limits.
fn decompress(stored: &[u8], raw_bytes: u64) -> Result<Vec<u8>, String> {
    let Some((size, block)) = stored.split_first_chunk() else {
        return Err("cut short".to_owned());
    };
    let size = u32::from_le_bytes(*size);
    if u64::from(size) != raw_bytes {
        return Err(format!("{size} bytes instead of {raw_bytes}"));
    }
    if raw_bytes / LZ4_RATIO_MAX > block.len() as u64 {
        return Err(format!("{raw_bytes} bytes cannot come out of {}", block.len()));
    }
    let mut raw = vec![0; usize::try_from(raw_bytes).map_err(|error| error.to_string())?];
    match lz4_flex::block::decompress_into(block, &mut raw) {
        Ok(decoded) if decoded == raw.len() => Ok(raw),
        Ok(decoded) => Err(format!("{decoded} bytes came out instead of {raw_bytes}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Bodies out of a list, and what could not be read of it.
#[derive(Debug, Default)]
pub struct DecodedBodies {
    /// The ones that are sound, in the order of the list.
    pub bodies: Vec<Body>,
    /// The ones that are not.
    pub lost: Vec<LostBody>,
}

/// A body that a list should have had.
#[derive(Clone, Debug)]
pub struct LostBody {
    /// Which one of the list it is, counted from 0.
    pub index: u32,
    /// How many are lost from there on: more than one if nobody knows where the next begins.
    pub count: u32,
    /// Why.
    pub error: Error,
}

/// A list of bodies as bytes. Bodies that are empty are left out, as the game removes them.
pub fn encode_bodies(bodies: &[Body], cell_bytes: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; LIST_HEADER_BYTES];
    let mut count = 0_u32;
    for body in bodies.iter().filter(|body| !body.is_empty()) {
        encode_record(body, cell_bytes, &mut out)?;
        count = count.checked_add(1).ok_or_else(|| Error::limit("too many bodies for one list"))?;
    }
    out[..4].copy_from_slice(&count.to_le_bytes());
    Ok(out)
}

/// The ids in a list, as far as its headers can be read. Nothing is decompressed.
pub(crate) fn stored_ids(bytes: &[u8]) -> Vec<BodyId> {
    let mut rest = bytes.get(LIST_HEADER_BYTES..).unwrap_or_default();
    let mut ids = Vec::new();
    while let Some(header) = RecordHeader::at(rest).filter(|header| header.checksum_holds(Checksum::Whole)) {
        ids.push(header.id());
        let next = usize::try_from(header.record_bytes()).ok().and_then(|next| rest.get(next..));
        rest = next.unwrap_or_default();
    }
    ids
}

/// The bodies of a list that [`encode_bodies`] made. One that is damaged costs only itself, unless the damage is in its
/// header: then nobody knows where the next one begins. Bytes behind the list are an error.
pub fn decode_bodies(bytes: &[u8], cell_bytes: usize, limits: BodyLimits) -> Result<DecodedBodies> {
    let Some((header, mut rest)) = bytes.split_first_chunk::<LIST_HEADER_BYTES>() else {
        return Err(Error::corrupt("a list of bodies is cut short in its header"));
    };
    let [a, b, c, d, reserved @ ..] = *header;
    let count = u32::from_le_bytes([a, b, c, d]);
    if reserved != [0; 4] {
        return Err(Error::newer_format("a list of bodies has something that this build does not know"));
    }
    if u64::from(count) * HEADER_BYTES as u64 > rest.len() as u64 {
        return Err(Error::corrupt(format!("{count} bodies cannot be in {} bytes", rest.len())));
    }
    let mut list = DecodedBodies::default();
    let mut total = 0_u64;
    for index in 0..count {
        let header = RecordHeader::at(rest).filter(|header| header.checksum_holds(Checksum::Whole));
        let room = BodyLimits {
            body_bytes_max: limits.body_bytes_max.min(limits.bodies_bytes_max.saturating_sub(total)),
            ..limits
        };
        let decoded = decode_record(rest, cell_bytes, room);
        let next = header.and_then(|header| usize::try_from(header.record_bytes()).ok());
        match decoded {
            Ok((body, used)) => {
                total += body.cells.len() as u64;
                list.bodies.push(body);
                rest = &rest[used..];
            }
            Err(error) => match next.and_then(|next| rest.get(next..)) {
                Some(behind) => {
                    list.lost.push(LostBody { index, count: 1, error });
                    rest = behind;
                }
                None => {
                    list.lost.push(LostBody { index, count: count - index, error });
                    return Ok(list);
                }
            },
        }
    }
    if rest.is_empty() {
        Ok(list)
    } else {
        Err(Error::corrupt(format!("{} bytes lie behind the last body", rest.len())))
    }
}
