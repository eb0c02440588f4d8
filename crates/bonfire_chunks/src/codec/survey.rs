//! Which cells a chunk has.

use super::block;

/// Slots of a lookup for indices of one byte: few, so that they stay in the first cache.
const SMALL: usize = 1 << 10;

/// Slots of a lookup for indices of two bytes.
const LARGE: usize = 1 << 14;

const FREE: u16 = u16::MAX;

/// What one look at all cells of a chunk tells.
pub(super) struct Survey {
    /// The different cells in the order of their first appearance, joined. `None` if there are more than 4096, or more
    /// than 256 so small ones that indices would not be smaller.
    pub(super) palette: Option<Vec<u8>>,
    /// How often a cell is not as the one in front of it, and one more for the first.
    pub(super) runs: usize,
}

/// Looks at all cells. If there is a palette, `indices` are the index of each cell: one byte if there are at most 256, and
/// otherwise the low bytes of all, then the high bytes of all.
pub(super) fn survey(cells: &[u8], cell_bytes: usize, indices: &mut Vec<u8>) -> Survey {
    let count = cells.len() / cell_bytes;
    let (low, high) = block::slice(indices, 2 * count).split_at_mut(count);
    let small = survey_with::<SMALL>(cells, cell_bytes, low, high);
    if small.palette.is_some() || cell_bytes <= 2 {
        return small;
    }
    Survey { runs: small.runs, ..survey_with::<LARGE>(cells, cell_bytes, low, high) }
}

fn survey_with<const SLOTS: usize>(
    cells: &[u8],
    cell_bytes: usize,
    low: &mut [u8],
    high: &mut [u8],
) -> Survey {
    match cell_bytes {
        1 => survey_narrow::<1, SLOTS>(cells, low, high),
        2 => survey_narrow::<2, SLOTS>(cells, low, high),
        3 => survey_narrow::<3, SLOTS>(cells, low, high),
        4 => survey_narrow::<4, SLOTS>(cells, low, high),
        5 => survey_narrow::<5, SLOTS>(cells, low, high),
        6 => survey_narrow::<6, SLOTS>(cells, low, high),
        7 => survey_narrow::<7, SLOTS>(cells, low, high),
        8 => survey_narrow::<8, SLOTS>(cells, low, high),
        _ => survey_wide::<SLOTS>(cells, cell_bytes, low, high),
    }
}

/// Which index a cell has. At most a quarter of the slots are taken.
struct Lookup<const SLOTS: usize> {
    keys: Box<[u64; SLOTS]>,
    indices: Box<[u16; SLOTS]>,
    palette: Vec<u8>,
    len: u16,
}

impl<const SLOTS: usize> Lookup<SLOTS> {
    fn new() -> Self {
        let keys = vec![0; SLOTS].try_into().expect("as many as there are slots");
        let indices = vec![FREE; SLOTS].try_into().expect("as many as there are slots");
        Self { keys, indices, palette: Vec::new(), len: 0 }
    }

    /// The index of the cell with this key, which is new if need be. `None` if there are too many.
    #[inline(always)]
    fn index(&mut self, key: u64, cell: &[u8]) -> Option<u16> {
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = (hash >> (64 - SLOTS.trailing_zeros())) as usize % SLOTS;
        if self.keys[slot] == key && self.indices[slot] != FREE {
            return Some(self.indices[slot]);
        }
        self.index_elsewhere(slot, key, cell)
    }

    fn index_elsewhere(&mut self, mut slot: usize, key: u64, cell: &[u8]) -> Option<u16> {
        while self.indices[slot] != FREE {
            if self.keys[slot] == key {
                return Some(self.indices[slot]);
            }
            slot = (slot + 1) % SLOTS;
        }
        if usize::from(self.len) == SLOTS / 4 {
            return None;
        }
        let index = self.len;
        self.keys[slot] = key;
        self.indices[slot] = index;
        self.palette.extend_from_slice(cell);
        self.len += 1;
        Some(index)
    }
}

/// Cells of up to 8 bytes are numbers.
fn survey_narrow<const N: usize, const SLOTS: usize>(
    cells: &[u8],
    low: &mut [u8],
    high: &mut [u8],
) -> Survey {
    /// Of a stretch that is all the same only the first cell is looked up.
    const STRETCH: usize = 32;
    let (cells, _) = cells.as_chunks::<N>();
    let Some(first) = cells.first() else { return Survey { palette: None, runs: 0 } };
    let mut lookup = Lookup::<SLOTS>::new();
    let mut before = lookup.index(key(first), first).unwrap_or(0);
    let mut runs = 1;
    let mut at = 0;
    while at < cells.len() {
        let end = cells.len().min(at + STRETCH);
        let stretch = &cells[at..end];
        let (low, high) = (&mut low[at..end], &mut high[at..end]);
        if at > 0 && stretch.as_flattened() == cells[at - 1..end - 1].as_flattened() {
            let [low_byte, high_byte] = before.to_le_bytes();
            low.fill(low_byte);
            if SLOTS > SMALL {
                high.fill(high_byte);
            }
        } else {
            for (cell, (low, high)) in stretch.iter().zip(low.iter_mut().zip(high)) {
                let Some(found) = lookup.index(key(cell), cell) else {
                    return Survey { palette: None, runs: count_runs(cells) };
                };
                let [low_byte, high_byte] = found.to_le_bytes();
                *low = low_byte;
                if SLOTS > SMALL {
                    *high = high_byte;
                }
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

fn survey_wide<const SLOTS: usize>(
    cells: &[u8],
    cell_bytes: usize,
    low: &mut [u8],
    high: &mut [u8],
) -> Survey {
    let mut lookup = Lookup::<SLOTS>::new();
    let mut survey = Survey { palette: None, runs: 0 };
    let mut before: &[u8] = &[];
    let mut index = Some(0);
    for (cell, (low, high)) in cells.chunks_exact(cell_bytes).zip(low.iter_mut().zip(high)) {
        if cell != before {
            survey.runs += 1;
            index = index.and_then(|_| lookup.index(mixed(cell), cell));
            // Two cells with one key are so rare that such a chunk does without a palette.
            index = index.filter(|&index| {
                lookup.palette[usize::from(index) * cell_bytes..].get(..cell_bytes) == Some(cell)
            });
        }
        [*low, *high] = index.unwrap_or(0).to_le_bytes();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_different_cells_are_counted() {
        for cell_bytes in [1, 2, 3, 4, 8, 9, 64] {
            let numbers = [vec![1; 100], vec![2; 3], vec![1], vec![3; 70]].concat();
            let cells: Vec<u8> = numbers.iter().flat_map(|number| vec![*number; cell_bytes]).collect();
            let mut indices = Vec::new();
            let survey = survey(&cells, cell_bytes, &mut indices);
            assert_eq!(survey.runs, 4);
            assert_eq!(survey.palette, Some([1, 2, 3].map(|number| vec![number; cell_bytes]).concat()));
            assert!(indices.iter().zip(&numbers).all(|(index, number)| index + 1 == *number));
        }
    }

    #[test]
    fn there_is_a_palette_of_up_to_4096_cells() {
        for (cell_bytes, different, has_palette) in [
            (2, 256, true),
            (2, 257, false),
            (4, 4096, true),
            (4, 4097, false),
            (12, 4096, true),
            (12, 4097, false),
        ] {
            let cells: Vec<u8> = (0..different + 50_u32)
                .flat_map(|at| {
                    let mut cell = vec![7; cell_bytes];
                    cell[..2].copy_from_slice(&((at % different) as u16).to_le_bytes());
                    cell
                })
                .collect();
            let mut indices = Vec::new();
            let survey = survey(&cells, cell_bytes, &mut indices);
            assert_eq!(survey.palette.is_some(), has_palette, "{cell_bytes} {different}");
            assert_eq!(survey.runs, different as usize + 50);
            if different > 256 && has_palette {
                let count = cells.len() / cell_bytes;
                assert_eq!((indices[4095], indices[count + 4095], indices[count - 1]), (0xFF, 0x0F, 49));
            }
        }
    }

    #[test]
    fn a_long_run_has_its_index_all_along() {
        for cell_bytes in [4, 12] {
            let numbers = (0..300_u16).chain([290; 200]);
            let cells: Vec<u8> = numbers
                .flat_map(|number| {
                    let mut cell = vec![7; cell_bytes];
                    cell[..2].copy_from_slice(&number.to_le_bytes());
                    cell
                })
                .collect();
            let mut indices = Vec::new();
            assert_eq!(survey(&cells, cell_bytes, &mut indices).runs, 301);
            let (low, high) = indices.split_at(500);
            assert!(low[300..].iter().all(|byte| *byte == 34) && high[300..].iter().all(|byte| *byte == 1));
        }
    }
}
