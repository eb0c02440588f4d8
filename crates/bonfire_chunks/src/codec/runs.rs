//! Chunks of few, long runs of one cell: how long each is, and its cell.

use bonfire::{Error, Result};

use super::block::{self, BlockCodec};
use super::varint;

/// Appends a payload, if what goes into its block is smaller than the cells. `raw` and `room` are for the work.
pub(super) fn encode(
    packer: BlockCodec,
    cells: &[u8],
    cell_bytes: usize,
    [raw, room]: [&mut Vec<u8>; 2],
    out: &mut Vec<u8>,
) -> bool {
    raw.clear();
    let mut values = Vec::new();
    let mut start = 0;
    let mut runs = 0;
    while start < cells.len() {
        let end = run_end(cells, start, cell_bytes);
        varint::put_count((end - start) / cell_bytes - 1, raw);
        values.extend_from_slice(&cells[start..start + cell_bytes]);
        start = end;
        runs += 1;
    }
    let length_bytes = raw.len();
    raw.append(&mut values);
    if raw.len() >= cells.len() {
        return false;
    }
    varint::put_count(runs, out);
    varint::put_count(length_bytes, out);
    block::pack(packer, raw, room, out);
    true
}

/// Where the run ends that starts at this byte.
fn run_end(cells: &[u8], start: usize, cell_bytes: usize) -> usize {
    /// Compared at once, against the same one cell earlier.
    const STEP: usize = 64;
    let mut at = start + cell_bytes;
    while at + STEP <= cells.len() && cells[at..at + STEP] == cells[at - cell_bytes..at + STEP - cell_bytes] {
        at += STEP;
    }
    let same =
        cells[at..].iter().zip(&cells[at - cell_bytes..]).take_while(|(one, other)| one == other).count();
    // Back to where a cell starts.
    let end = at + same;
    end - (end - start) % cell_bytes
}

/// Fills `out` with the cells of a payload.
pub(super) fn decode(
    packer: BlockCodec,
    mut payload: &[u8],
    cell_bytes: usize,
    raw: &mut Vec<u8>,
    out: &mut [u8],
) -> Result<()> {
    let runs = varint::take(&mut payload)? as usize;
    let length_bytes = varint::take(&mut payload)? as usize;
    let raw_bytes = runs
        .checked_mul(cell_bytes)
        .and_then(|bytes| bytes.checked_add(length_bytes))
        .filter(|bytes| *bytes < out.len())
        .ok_or_else(|| Error::corrupt(format_args!("{runs} runs are larger than their chunk")))?;
    block::check_claim(packer, payload, raw_bytes)?;
    let raw = block::slice(raw, raw_bytes);
    block::unpack(packer, payload, raw)?;
    let (mut lengths, values) = raw.split_at(length_bytes);
    let mut rest = out;
    for cell in values.chunks_exact(cell_bytes) {
        let length = varint::take(&mut lengths)? as usize + 1;
        let run = length
            .checked_mul(cell_bytes)
            .and_then(|bytes| rest.split_off_mut(..bytes))
            .ok_or_else(|| Error::corrupt("runs are longer than their chunk"))?;
        fill(run, cell);
    }
    if !rest.is_empty() || !lengths.is_empty() {
        return Err(Error::corrupt("runs are shorter than their chunk"));
    }
    Ok(())
}

/// Sets all cells of `out` to this one.
pub(crate) fn fill(out: &mut [u8], cell: &[u8]) {
    match *cell {
        [byte] => out.fill(byte),
        [a, b] => out.as_chunks_mut().0.fill([a, b]),
        [a, b, c, d] => out.as_chunks_mut().0.fill([a, b, c, d]),
        [a, b, c, d, e, f, g, h] => out.as_chunks_mut().0.fill([a, b, c, d, e, f, g, h]),
        _ => {
            // From what is filled already, twice as much each time.
            let mut filled = cell.len().min(out.len());
            out[..filled].copy_from_slice(&cell[..filled]);
            while filled < out.len() {
                let more = filled.min(out.len() - filled);
                out.copy_within(..more, filled);
                filled += more;
            }
        }
    }
}
