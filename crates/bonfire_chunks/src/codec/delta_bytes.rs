//! Changed cells as bytes.

use bonfire::{Error, Result};

use super::block::{self, BlockCodec, Scratch};
use super::candidates::Candidates;
use super::full::{pack_with_size, size_and_block};
use super::{CELLS_MAX, Choice, Codec, Delta, check_cells, varint};

/// Bytes in front of the entries of codecs 0 and 1, and in front of the cell of each.
const COUNT_BYTES: usize = 4;
const POSITION_BYTES: usize = 3;

/// Up to here LZ4 over single entries is tried: with more of them the planes are always smaller.
const ENTRIES_TRIED_MAX: usize = 256;

/// The most bytes of a gap and a length below 2^24.
const RUN_BYTES_MAX: usize = 8;

/// Appends changed cells in the smallest way that `choice` allows, and says in which.
///
/// # Panics
///
/// If a cell has no or more than 64 bytes, or [`Delta::check`] would refuse the runs in a chunk of 2^24 cells.
pub fn encode_delta(delta: &Delta, cell_bytes: usize, choice: Choice, out: &mut Vec<u8>) -> Codec {
    check_cells(delta.cells.len(), cell_bytes).expect("cells are complete");
    delta.check(cell_bytes, CELLS_MAX).expect("runs are in order");
    let count = delta.count();
    let entries_bytes = COUNT_BYTES + count * (POSITION_BYTES + cell_bytes);
    Scratch::with(|scratch| {
        let Scratch { room, raw, best, trial, .. } = scratch;
        let mut candidates = Candidates::new(choice, entries_bytes, best, trial);
        if choice.allows_any(&[Codec::RunsPlanesLz4, Codec::RunsPlanesZstd]) {
            let run_bytes = put_runs_and_planes(delta, cell_bytes, raw);
            for (codec, packer) in
                [(Codec::RunsPlanesLz4, BlockCodec::Lz4), (Codec::RunsPlanesZstd, BlockCodec::Zstd)]
            {
                candidates.offer(codec, |trial| {
                    for number in [delta.runs.len(), count, run_bytes] {
                        varint::put_count(number, trial);
                    }
                    block::pack(packer, raw, room, trial);
                    true
                });
            }
        }
        if candidates.is_none() || count <= ENTRIES_TRIED_MAX {
            candidates.offer(Codec::Lz4, |trial| {
                raw.clear();
                put_entries(delta, cell_bytes, raw);
                pack_with_size(raw, room, trial)
            });
        }
        candidates.finish(out, |out| put_entries(delta, cell_bytes, out))
    })
}

/// Appends the entries of codecs 0 and 1.
fn put_entries(delta: &Delta, cell_bytes: usize, out: &mut Vec<u8>) {
    let count = delta.cells.len() / cell_bytes;
    out.reserve(COUNT_BYTES + count * (POSITION_BYTES + cell_bytes));
    out.extend_from_slice(&u32::try_from(count).expect("at most 2^24 cells").to_le_bytes());
    for (position, cell) in delta.iter(cell_bytes) {
        out.extend_from_slice(&position.to_le_bytes()[..POSITION_BYTES]);
        out.extend_from_slice(cell);
    }
}

/// Sets `raw` to the runs and the planes of codecs 6 and 7, and returns how many bytes the runs take.
fn put_runs_and_planes(delta: &Delta, cell_bytes: usize, raw: &mut Vec<u8>) -> usize {
    raw.clear();
    let mut end = 0;
    for &(start, len) in &delta.runs {
        varint::put(start - end, raw);
        varint::put(len, raw);
        end = start + len;
    }
    let run_bytes = raw.len();
    raw.reserve(delta.cells.len());
    for plane in 0..cell_bytes {
        raw.extend(delta.cells.iter().skip(plane).step_by(cell_bytes));
    }
    run_bytes
}

/// Reads changed cells that [`encode_delta`] has written, of a chunk of so many cells.
///
/// Cells that are out of place, out of order or outside the chunk are corrupt, and so is a payload with bytes left over.
/// No more memory is used than the positions and the cells of the whole chunk need.
pub fn decode_delta(codec: Codec, payload: &[u8], cell_bytes: usize, cell_count: u32) -> Result<Delta> {
    let cell_count = cell_count as usize;
    check_cells(cell_count.saturating_mul(cell_bytes), cell_bytes)?;
    match codec {
        Codec::Lz4 => {
            let (size, block) = size_and_block(payload)?;
            if size > COUNT_BYTES + cell_count * (POSITION_BYTES + cell_bytes) {
                return Err(Error::corrupt(format_args!("{size} bytes of changes to {cell_count} cells")));
            }
            block::check_claim(BlockCodec::Lz4, block, size)?;
            Scratch::with(|scratch| {
                let raw = block::slice(&mut scratch.raw, size);
                block::unpack(BlockCodec::Lz4, block, raw)?;
                take_entries(raw, cell_bytes, cell_count)
            })
        }
        Codec::Raw => take_entries(payload, cell_bytes, cell_count),
        Codec::RunsPlanesLz4 => take_planes(BlockCodec::Lz4, payload, cell_bytes, cell_count),
        Codec::RunsPlanesZstd => take_planes(BlockCodec::Zstd, payload, cell_bytes, cell_count),
        Codec::PaletteLz4 | Codec::RunsLz4 | Codec::Zstd | Codec::PaletteZstd => {
            Err(Error::corrupt(format_args!("codec {} is not one of changed cells", codec.number())))
        }
    }
}

fn take_entries(raw: &[u8], cell_bytes: usize, cell_count: usize) -> Result<Delta> {
    let Some((count, entries)) = raw.split_first_chunk() else {
        return Err(Error::corrupt("changed cells are cut short"));
    };
    let count = u32::from_le_bytes(*count) as usize;
    let entry_bytes = POSITION_BYTES + cell_bytes;
    if count > cell_count || count * entry_bytes != entries.len() {
        return Err(Error::corrupt(format_args!("{count} changed cells in {} bytes", entries.len())));
    }
    let mut delta = Delta { runs: Vec::new(), cells: Vec::with_capacity(count * cell_bytes) };
    let mut next = 0;
    for entry in entries.chunks_exact(entry_bytes) {
        let (position, cell) = entry.split_at(POSITION_BYTES);
        let position = u32::from_le_bytes([position[0], position[1], position[2], 0]);
        if position < next || position as usize >= cell_count {
            return Err(misplaced(position, next, cell_count));
        }
        next = position + 1;
        delta.push_run(position, 1);
        delta.cells.extend_from_slice(cell);
    }
    Ok(delta)
}

#[cold]
fn misplaced(position: u32, next: u32, cell_count: usize) -> Error {
    Error::corrupt(format_args!("changed cell {position} is not between {next} and {cell_count}"))
}

fn take_planes(
    packer: BlockCodec,
    mut payload: &[u8],
    cell_bytes: usize,
    cell_count: usize,
) -> Result<Delta> {
    let [runs, count, run_bytes] = [(); 3].map(|()| varint::take(&mut payload));
    let (runs, count, run_bytes) = (runs? as usize, count? as usize, run_bytes? as usize);
    if count > cell_count || runs > count || run_bytes > runs * RUN_BYTES_MAX {
        return Err(Error::corrupt(format_args!(
            "{count} changed cells in {runs} runs of {run_bytes} bytes, of a chunk of {cell_count}"
        )));
    }
    let raw_bytes = run_bytes + count * cell_bytes;
    block::check_claim(packer, payload, raw_bytes)?;
    Scratch::with(|scratch| {
        let raw = block::slice(&mut scratch.raw, raw_bytes);
        block::unpack(packer, payload, raw)?;
        let (run_bytes, planes) = raw.split_at(run_bytes);
        let runs = take_runs(run_bytes, runs, count, cell_count)?;
        Ok(Delta { runs, cells: join_planes(planes, cell_bytes, count) })
    })
}

fn take_runs(mut bytes: &[u8], runs: usize, count: usize, cell_count: usize) -> Result<Vec<(u32, u32)>> {
    let mut taken = Vec::with_capacity(runs.min(bytes.len() / 2));
    let mut end = 0_usize;
    let mut cells = 0;
    for run in 0..runs {
        let gap = varint::take(&mut bytes)?;
        let len = varint::take(&mut bytes)?;
        let start = end + gap as usize;
        if len == 0 || (gap == 0 && run > 0) || start + len as usize > cell_count {
            return Err(Error::corrupt(format_args!(
                "a run of {len} changed cells, {gap} behind {end} of {cell_count}"
            )));
        }
        end = start + len as usize;
        cells += len as usize;
        taken.push((u32::try_from(start).map_err(Error::corrupt)?, len));
    }
    if cells != count || !bytes.is_empty() {
        return Err(Error::corrupt(format_args!("runs of {cells} changed cells instead of {count}")));
    }
    Ok(taken)
}

fn join_planes(planes: &[u8], cell_bytes: usize, count: usize) -> Vec<u8> {
    let mut cells = vec![0; planes.len()];
    match cell_bytes {
        1 => cells.copy_from_slice(planes),
        2 => join::<2>(planes, count, &mut cells),
        4 => join::<4>(planes, count, &mut cells),
        8 => join::<8>(planes, count, &mut cells),
        _ if count > 0 => {
            for (at, plane) in planes.chunks_exact(count).enumerate() {
                for (into, byte) in cells[at..].iter_mut().step_by(cell_bytes).zip(plane) {
                    *into = *byte;
                }
            }
        }
        _ => {}
    }
    cells
}

fn join<const N: usize>(planes: &[u8], count: usize, cells: &mut [u8]) {
    let planes: [&[u8]; N] = std::array::from_fn(|plane| &planes[plane * count..][..count]);
    for (at, cell) in cells.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        *cell = std::array::from_fn(|plane| planes[plane][at]);
    }
}
