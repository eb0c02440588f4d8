//! All cells of a chunk as bytes.

use bonfire::{Error, Result};

use super::block::{self, BlockCodec, Scratch};
use super::candidates::Candidates;
use super::survey::survey;
use super::{Choice, Codec, palette, runs};

/// Runs are tried if they are at most this share of the cells before they are packed.
const RUNS_SHARE: usize = 4;

/// Up to here trying one more costs next to nothing.
const ALL_TRIED_BYTES_MAX: usize = 4096;

/// Appends the cells of a chunk in the smallest way that `choice` allows, and says in which. It is [`Codec::Raw`] if the
/// others gain less than 2%, or if none of those that are allowed can hold these cells.
///
/// # Panics
///
/// If a cell has no or more than 64 bytes, the last cell is incomplete, or there are more than 2^24.
///
/// ```
/// use bonfire_chunks::codec::{Choice, Codec, decode_full, encode_full};
///
/// let air = [7, 0, 0, 0].repeat(512 * 512);
/// let mut payload = Vec::new();
/// let codec = encode_full(&air, 4, Choice::fast(), &mut payload);
/// assert_eq!((codec, payload.len()), (Codec::PaletteLz4, 10));
///
/// let mut cells = vec![0; air.len()];
/// decode_full(codec, &payload, 4, &mut cells)?;
/// assert_eq!(cells, air);
/// # Ok::<(), bonfire::Error>(())
/// ```
pub fn encode_full(cells: &[u8], cell_bytes: usize, choice: Choice, out: &mut Vec<u8>) -> Codec {
    super::check_cells(cells.len(), cell_bytes).expect("cells are complete");
    Scratch::with(|scratch| {
        let Scratch { room, indices, raw, best, trial } = scratch;
        let mut candidates = Candidates::new(choice, cells.len(), best, trial);
        let mut work = [raw, room];
        // With indices of up to 8 bits each different cell is packed once, and what repeats in cells repeats in
        // indices too, which are smaller. Those of 16 bits repeat in two places.
        let (mut lz4_may_win, mut zstd_may_win) = (true, true);
        if choice.allows_any(&[Codec::PaletteLz4, Codec::PaletteZstd, Codec::RunsLz4]) && !cells.is_empty() {
            let survey = survey(cells, cell_bytes, indices);
            let indices = (indices.as_slice(), cells.len() / cell_bytes);
            if let Some(colors) = &survey.palette {
                try_palette(colors, cell_bytes, indices, &mut work, &mut candidates);
                lz4_may_win =
                    cell_bytes <= 2 || colors.len() > 256 * cell_bytes || cells.len() <= ALL_TRIED_BYTES_MAX;
                zstd_may_win = lz4_may_win;
            }
            if survey.runs * (1 + cell_bytes) <= cells.len() / RUNS_SHARE {
                candidates.offer(Codec::RunsLz4, |trial| {
                    let [raw, room] = &mut work;
                    runs::encode(BlockCodec::Lz4, cells, cell_bytes, [raw, room], trial)
                });
                lz4_may_win = false;
            }
        }
        let [_, room] = work;
        if lz4_may_win || candidates.is_none() {
            candidates.offer(Codec::Lz4, |trial| pack_with_size(cells, room, trial));
        }
        if zstd_may_win || candidates.is_none() {
            candidates.offer(Codec::Zstd, |trial| {
                block::pack(BlockCodec::Zstd, cells, room, trial);
                true
            });
        }
        candidates.finish(out, |out| out.extend_from_slice(cells))
    })
}

fn try_palette(
    colors: &[u8],
    cell_bytes: usize,
    indices: (&[u8], usize),
    [raw, room]: &mut [&mut Vec<u8>; 2],
    candidates: &mut Candidates<'_>,
) {
    for (codec, packer) in [(Codec::PaletteLz4, BlockCodec::Lz4), (Codec::PaletteZstd, BlockCodec::Zstd)] {
        candidates
            .offer(codec, |trial| palette::encode(packer, colors, cell_bytes, indices, [raw, room], trial));
    }
}

/// Appends the size of `raw` and its LZ4 block: codec 0.
pub(super) fn pack_with_size(raw: &[u8], room: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
    let Ok(size) = u32::try_from(raw.len()) else { return false };
    out.extend_from_slice(&size.to_le_bytes());
    block::pack(BlockCodec::Lz4, raw, room, out);
    true
}

/// The size and the LZ4 block of a payload of codec 0.
pub(super) fn size_and_block(payload: &[u8]) -> Result<(usize, &[u8])> {
    match payload.split_first_chunk() {
        Some((size, block)) => Ok((u32::from_le_bytes(*size) as usize, block)),
        None => Err(Error::corrupt("an LZ4 block is cut short")),
    }
}

/// Fills `out` with the cells of a payload that [`encode_full`] has written.
///
/// A payload that has more or fewer cells than `out` is corrupt, and so is one with bytes left over. What is in `out`
/// after an error means nothing. No more memory is used than `out` has.
pub fn decode_full(codec: Codec, payload: &[u8], cell_bytes: usize, out: &mut [u8]) -> Result<()> {
    super::check_cells(out.len(), cell_bytes)?;
    match codec {
        Codec::Lz4 => {
            let (size, block) = size_and_block(payload)?;
            if size != out.len() {
                let expected = out.len();
                return Err(Error::corrupt(format_args!("a chunk of {size} bytes instead of {expected}")));
            }
            block::unpack(BlockCodec::Lz4, block, out)
        }
        Codec::Raw if payload.len() == out.len() => {
            out.copy_from_slice(payload);
            Ok(())
        }
        Codec::Raw => {
            let (size, expected) = (payload.len(), out.len());
            Err(Error::corrupt(format_args!("a chunk of {size} bytes instead of {expected}")))
        }
        Codec::Zstd => block::unpack(BlockCodec::Zstd, payload, out),
        Codec::PaletteLz4 | Codec::PaletteZstd => {
            let packer = if codec == Codec::PaletteLz4 { BlockCodec::Lz4 } else { BlockCodec::Zstd };
            Scratch::with(|scratch| palette::decode(packer, payload, cell_bytes, &mut scratch.raw, out))
        }
        Codec::RunsLz4 => {
            Scratch::with(|scratch| runs::decode(BlockCodec::Lz4, payload, cell_bytes, &mut scratch.raw, out))
        }
        Codec::RunsPlanesLz4 | Codec::RunsPlanesZstd => {
            Err(Error::corrupt(format_args!("codec {} is not one of whole chunks", codec.number())))
        }
    }
}
