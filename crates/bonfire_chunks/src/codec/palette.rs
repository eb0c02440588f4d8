//! Chunks of at most 256 different cells: the palette, and an index into it per cell.

use bonfire::{Error, Result};

use super::block::{self, Packer};
use super::varint;

/// The most cells in a palette.
pub(super) const PALETTE_MAX: usize = 256;

const SLOTS: usize = 1024;
const FREE: u16 = u16::MAX;

/// What one look at all cells of a chunk tells.
pub(super) struct Survey {
    /// The different cells in the order of their first appearance, joined. `None` if there are more than 256.
    pub(super) palette: Option<Vec<u8>>,
    /// How often a cell is not as the one in front of it, and one more for the first.
    pub(super) runs: usize,
}

/// Looks at all cells, and sets `indices` to an index per cell if there is a palette.
pub(super) fn survey(cells: &[u8], cell_bytes: usize, indices: &mut Vec<u8>) -> Survey {
    let count = cells.len() / cell_bytes;
    let indices = block::slice(indices, count);
    match cell_bytes {
        1 => survey_narrow::<1>(cells, indices),
        2 => survey_narrow::<2>(cells, indices),
        3 => survey_narrow::<3>(cells, indices),
        4 => survey_narrow::<4>(cells, indices),
        5 => survey_narrow::<5>(cells, indices),
        6 => survey_narrow::<6>(cells, indices),
        7 => survey_narrow::<7>(cells, indices),
        8 => survey_narrow::<8>(cells, indices),
        _ => survey_wide(cells, cell_bytes, indices),
    }
}

/// Which index a cell has. Slots are few and fit the first cache.
struct Lookup {
    keys: [u64; SLOTS],
    indices: [u16; SLOTS],
    palette: Vec<u8>,
    len: usize,
}

impl Lookup {
    fn new() -> Self {
        Self { keys: [0; SLOTS], indices: [FREE; SLOTS], palette: Vec::new(), len: 0 }
    }

    /// The index of the cell with this key, which is new if need be. `None` if there are too many.
    #[inline(always)]
    fn index(&mut self, key: u64, cell: &[u8]) -> Option<u8> {
        let slot = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as usize % SLOTS;
        if self.keys[slot] == key && self.indices[slot] != FREE {
            return Some(self.indices[slot] as u8);
        }
        self.index_elsewhere(slot, key, cell)
    }

    fn index_elsewhere(&mut self, mut slot: usize, key: u64, cell: &[u8]) -> Option<u8> {
        while self.indices[slot] != FREE {
            if self.keys[slot] == key {
                return Some(self.indices[slot] as u8);
            }
            slot = (slot + 1) % SLOTS;
        }
        if self.len == PALETTE_MAX {
            return None;
        }
        let index = self.len as u8;
        self.keys[slot] = key;
        self.indices[slot] = u16::from(index);
        self.palette.extend_from_slice(cell);
        self.len += 1;
        Some(index)
    }
}

/// Cells of up to 8 bytes are numbers.
fn survey_narrow<const N: usize>(cells: &[u8], indices: &mut [u8]) -> Survey {
    /// Of a stretch that is all the same only the first cell is looked up.
    const STRETCH: usize = 32;
    let (cells, _) = cells.as_chunks::<N>();
    let Some(first) = cells.first() else { return Survey { palette: None, runs: 0 } };
    let mut lookup = Box::new(Lookup::new());
    let mut before = lookup.index(key(first), first).unwrap_or(0);
    let mut runs = 1;
    let mut at = 0;
    while at < cells.len() {
        let end = cells.len().min(at + STRETCH);
        let stretch = &cells[at..end];
        if at > 0 && stretch.as_flattened() == cells[at - 1..end - 1].as_flattened() {
            indices[at..end].fill(before);
        } else {
            for (cell, index) in stretch.iter().zip(&mut indices[at..end]) {
                let Some(found) = lookup.index(key(cell), cell) else {
                    return Survey { palette: None, runs: count_runs(cells) };
                };
                *index = found;
                runs += usize::from(found != before);
                before = found;
            }
        }
        at = end;
    }
    Survey { palette: Some(lookup.palette), runs }
}

#[inline(always)]
fn key<const N: usize>(cell: &[u8; N]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(cell);
    u64::from_le_bytes(bytes)
}

fn count_runs<const N: usize>(cells: &[[u8; N]]) -> usize {
    usize::from(!cells.is_empty()) + cells.windows(2).filter(|pair| key(&pair[0]) != key(&pair[1])).count()
}

fn survey_wide(cells: &[u8], cell_bytes: usize, indices: &mut [u8]) -> Survey {
    let mut lookup = Box::new(Lookup::new());
    let mut survey = Survey { palette: None, runs: 0 };
    let mut before: &[u8] = &[];
    let mut index = Some(0);
    for (cell, into) in cells.chunks_exact(cell_bytes).zip(indices) {
        if cell != before {
            survey.runs += 1;
            index = index.and_then(|_| lookup.index(mixed(cell), cell));
            // Two cells with one key are so rare that such a chunk does without a palette.
            index = index.filter(|&index| {
                lookup.palette[usize::from(index) * cell_bytes..].get(..cell_bytes) == Some(cell)
            });
        }
        *into = index.unwrap_or(0);
        before = cell;
    }
    survey.palette = index.map(|_| lookup.palette);
    survey
}

fn mixed(cell: &[u8]) -> u64 {
    let (words, rest) = cell.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).fold(0, |sum: u64, word| {
        (sum.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    })
}

/// Appends a payload, if what goes into its block is smaller than the cells. `raw` and `room` are for the work.
pub(super) fn encode(
    packer: Packer,
    palette: &[u8],
    cell_bytes: usize,
    indices: &[u8],
    [raw, room]: [&mut Vec<u8>; 2],
    out: &mut Vec<u8>,
) -> bool {
    let size = palette.len() / cell_bytes;
    let bits = bits_for(size);
    if palette.len() + packed_bytes(indices.len(), bits) >= indices.len() * cell_bytes {
        return false;
    }
    varint::put(indices.len() as u32, out);
    out.push((size - 1) as u8);
    out.push(bits);
    raw.clear();
    raw.extend_from_slice(palette);
    match bits {
        0 => {}
        1 => pack_bits::<8>(indices, raw),
        2 => pack_bits::<4>(indices, raw),
        4 => pack_bits::<2>(indices, raw),
        _ => raw.extend_from_slice(indices),
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
        _ => 8,
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
    packer: Packer,
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
    let [last, bits, block @ ..] = payload else {
        return Err(Error::corrupt("a palette is cut short"));
    };
    let (last, bits) = (*last, *bits);
    let size = usize::from(last) + 1;
    if ![0, 1, 2, 4, 8].contains(&bits) || size > 1 << bits {
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
    check_indices(packed, count, bits, last)?;
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
fn check_indices(packed: &[u8], count: usize, bits: u8, last: u8) -> Result<()> {
    let used = (count * usize::from(bits)) % 8;
    if used > 0 && packed.last().is_some_and(|byte| byte >> used != 0) {
        return Err(Error::corrupt("bits behind the last index of a palette"));
    }
    let mask = u8::MAX >> (8 - bits);
    if last == mask {
        return Ok(());
    }
    let mut largest = 0;
    for shift in (0..8).step_by(usize::from(bits)) {
        largest = packed.iter().fold(largest, |largest, byte| largest.max((byte >> shift) & mask));
    }
    if largest > last {
        return Err(Error::corrupt(format_args!(
            "index {largest} in a palette of {} cells",
            usize::from(last) + 1
        )));
    }
    Ok(())
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
