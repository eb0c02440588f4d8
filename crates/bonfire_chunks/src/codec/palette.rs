//! Chunks of few different cells: the palette, and an index into it per cell.

use bonfire::{Error, Result};

use super::block::{self, BlockCodec};
use super::varint;

/// The most cells in a palette: indices have at most 16 bits.
const PALETTE_MAX: usize = 1 << 16;

/// Appends a payload, if what goes into its block is smaller than the cells. `indices` are as a survey leaves them, of so
/// many cells; `raw` and `room` are for the work.
pub(super) fn encode(
    packer: BlockCodec,
    palette: &[u8],
    cell_bytes: usize,
    (indices, count): (&[u8], usize),
    [raw, room]: [&mut Vec<u8>; 2],
    out: &mut Vec<u8>,
) -> bool {
    let size = palette.len() / cell_bytes;
    let bits = bits_for(size);
    if palette.len() + packed_bytes(count, bits) >= count * cell_bytes {
        return false;
    }
    varint::put_count(count, out);
    varint::put_count(size, out);
    out.push(bits);
    raw.clear();
    raw.extend_from_slice(palette);
    match bits {
        0 => {}
        1 => pack_bits::<8>(&indices[..count], raw),
        2 => pack_bits::<4>(&indices[..count], raw),
        4 => pack_bits::<2>(&indices[..count], raw),
        8 => raw.extend_from_slice(&indices[..count]),
        _ => raw.extend_from_slice(&indices[..2 * count]),
    }
    block::pack(packer, raw, room, out);
    true
}

/// The fewest bits for indices into a palette of this many cells. Fewer bits were never larger once packed.
fn bits_for(size: usize) -> u8 {
    match size {
        0..=1 => 0,
        2 => 1,
        3..=4 => 2,
        5..=16 => 4,
        17..=256 => 8,
        _ => 16,
    }
}

fn packed_bytes(count: usize, bits: u8) -> usize {
    (count * usize::from(bits)).div_ceil(8)
}

/// Puts `P` indices into each byte, the first into its lowest bits.
fn pack_bits<const P: usize>(indices: &[u8], raw: &mut Vec<u8>) {
    let together = |indices: &[u8]| {
        indices.iter().enumerate().fold(0, |byte, (at, index)| byte | index << (at * (8 / P)))
    };
    let (whole, rest) = indices.as_chunks::<P>();
    raw.extend(whole.iter().map(|indices| together(indices)));
    if !rest.is_empty() {
        raw.push(together(rest));
    }
}

/// Fills `out` with the cells of a payload.
pub(super) fn decode(
    packer: BlockCodec,
    mut payload: &[u8],
    cell_bytes: usize,
    raw: &mut Vec<u8>,
    out: &mut [u8],
) -> Result<()> {
    let count = out.len() / cell_bytes;
    let stored = varint::take(&mut payload)?;
    if stored as usize != count {
        return Err(Error::corrupt(format_args!("a chunk of {stored} cells instead of {count}")));
    }
    let size = varint::take(&mut payload)? as usize;
    let Some((&bits, block)) = payload.split_first() else {
        return Err(Error::corrupt("a palette is cut short"));
    };
    if ![0, 1, 2, 4, 8, 16].contains(&bits) || size == 0 || size > PALETTE_MAX.min(1 << bits) {
        return Err(Error::corrupt(format_args!("a palette of {size} cells has indices of {bits} bits")));
    }
    let raw_bytes = size * cell_bytes + packed_bytes(count, bits);
    if raw_bytes >= out.len() {
        return Err(Error::corrupt(format_args!("a palette of {size} cells for a chunk of {count}")));
    }
    block::check_claim(packer, block, raw_bytes)?;
    let raw = block::slice(raw, raw_bytes);
    block::unpack(packer, block, raw)?;
    let (palette, packed) = raw.split_at(size * cell_bytes);
    if bits == 0 {
        super::runs::fill(out, palette);
        return Ok(());
    }
    if bits == 16 {
        return expand_planes(palette, packed.split_at(count), cell_bytes, out);
    }
    check_indices(packed, count, bits, size)?;
    match cell_bytes {
        1 => expand_by_bits::<1>(palette, packed, bits, out),
        2 => expand_by_bits::<2>(palette, packed, bits, out),
        3 => expand_by_bits::<3>(palette, packed, bits, out),
        4 => expand_by_bits::<4>(palette, packed, bits, out),
        8 => expand_by_bits::<8>(palette, packed, bits, out),
        _ => expand_wide(palette, packed, bits, cell_bytes, out),
    }
    Ok(())
}

/// Every index has its cell, and the bits behind the last index are zero.
fn check_indices(packed: &[u8], count: usize, bits: u8, size: usize) -> Result<()> {
    let used = (count * usize::from(bits)) % 8;
    if used > 0 && packed.last().is_some_and(|byte| byte >> used != 0) {
        return Err(Error::corrupt("bits behind the last index of a palette"));
    }
    if size == 1 << bits {
        return Ok(());
    }
    let mask = u8::MAX >> (8 - bits);
    let mut largest = 0;
    for shift in (0..8).step_by(usize::from(bits)) {
        largest = packed.iter().fold(largest, |largest, byte| largest.max((byte >> shift) & mask));
    }
    if usize::from(largest) >= size {
        return Err(outside(largest.into(), size));
    }
    Ok(())
}

#[cold]
fn outside(index: usize, size: usize) -> Error {
    Error::corrupt(format_args!("index {index} in a palette of {size} cells"))
}

/// Cells by indices of 16 bits: the low bytes of all, and the high bytes of all.
fn expand_planes(palette: &[u8], planes: (&[u8], &[u8]), cell_bytes: usize, out: &mut [u8]) -> Result<()> {
    fn expand<const N: usize>(palette: &[u8], (low, high): (&[u8], &[u8]), out: &mut [u8]) -> Result<()> {
        let (palette, _) = palette.as_chunks::<N>();
        for (cell, (low, high)) in out.as_chunks_mut::<N>().0.iter_mut().zip(low.iter().zip(high)) {
            let index = usize::from(u16::from_le_bytes([*low, *high]));
            *cell = *palette.get(index).ok_or_else(|| outside(index, palette.len()))?;
        }
        Ok(())
    }
    match cell_bytes {
        3 => expand::<3>(palette, planes, out),
        4 => expand::<4>(palette, planes, out),
        8 => expand::<8>(palette, planes, out),
        _ => {
            let size = palette.len() / cell_bytes;
            let indices = planes.0.iter().zip(planes.1).map(|(low, high)| u16::from_le_bytes([*low, *high]));
            for (cell, index) in out.chunks_exact_mut(cell_bytes).zip(indices.map(usize::from)) {
                let from = palette.get(index * cell_bytes..(index + 1) * cell_bytes);
                cell.copy_from_slice(from.ok_or_else(|| outside(index, size))?);
            }
            Ok(())
        }
    }
}

fn expand_by_bits<const N: usize>(palette: &[u8], packed: &[u8], bits: u8, out: &mut [u8]) {
    let (palette, _) = palette.as_chunks::<N>();
    let (out, _) = out.as_chunks_mut::<N>();
    match bits {
        1 => expand::<N, 8>(palette, packed, out),
        2 => expand::<N, 4>(palette, packed, out),
        4 => expand::<N, 2>(palette, packed, out),
        _ => expand::<N, 1>(palette, packed, out),
    }
}

/// `P` cells per byte of indices, from a table that has them for each of the 256 bytes.
fn expand<const N: usize, const P: usize>(palette: &[[u8; N]], packed: &[u8], out: &mut [[u8; N]]) {
    let bits = 8 / P;
    let mut table = [[[0; N]; P]; 256];
    for (byte, cells) in table.iter_mut().enumerate() {
        for (at, cell) in cells.iter_mut().enumerate() {
            *cell = palette.get(byte >> (at * bits) & ((1 << bits) - 1)).copied().unwrap_or([0; N]);
        }
    }
    let (whole, rest) = out.as_chunks_mut::<P>();
    for (cells, byte) in whole.iter_mut().zip(packed) {
        *cells = table[usize::from(*byte)];
    }
    if let Some(byte) = packed.last()
        && !rest.is_empty()
    {
        rest.copy_from_slice(&table[usize::from(*byte)][..rest.len()]);
    }
}

fn expand_wide(palette: &[u8], packed: &[u8], bits: u8, cell_bytes: usize, out: &mut [u8]) {
    let bits = usize::from(bits);
    let per_byte = 8 / bits;
    for (cells, byte) in out.chunks_mut(per_byte * cell_bytes).zip(packed) {
        for (at, cell) in cells.chunks_exact_mut(cell_bytes).enumerate() {
            let index = usize::from(byte >> (at * bits)) & ((1 << bits) - 1);
            cell.copy_from_slice(&palette[index * cell_bytes..][..cell_bytes]);
        }
    }
}
