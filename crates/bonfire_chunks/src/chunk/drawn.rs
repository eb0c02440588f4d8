//! Cells of a chunk that bodies have drawn: the game sees them in the chunk, and saves have them with the body.
//!
//! - A drawn cell lies over an empty one. So a chunk without its drawn cells is what was there before.
//! - A change by the game takes the cell from the body. From then on it is a cell of the chunk.

use std::ops::Range;
use std::sync::Arc;

use bonfire::Result;

use super::Chunk;

/// The cell that a body may be drawn over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmptyCell {
    /// The default of every layer.
    pub(crate) cell: Vec<u8>,
    /// The bits of it that saves have. The others may have any value.
    pub(crate) stored_bits: Vec<u8>,
}

impl EmptyCell {
    fn is_like(&self, cell: &[u8]) -> bool {
        let differs = |((cell, empty), bits): ((&u8, &u8), &u8)| (cell ^ empty) & bits != 0;
        !cell.iter().zip(&self.cell).zip(&self.stored_bits).any(differs)
    }
}

/// The cells of a chunk that are drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct DrawnCells {
    /// A bit for each cell. Without any drawn cell it may have no words.
    bits: Vec<u64>,
    count: usize,
    /// Cells that the game has taken since somebody asked.
    overwritten: Vec<u32>,
}

impl DrawnCells {
    fn has(&self, cell: usize) -> bool {
        self.bits.get(cell / 64).is_some_and(|bits| bits >> (cell % 64) & 1 == 1)
    }

    fn add(&mut self, cell: usize, cells: usize) {
        self.bits.resize(cells.div_ceil(64), 0);
        self.bits[cell / 64] |= 1 << (cell % 64);
        self.count += 1;
    }

    /// Returns false if the cell is not drawn.
    fn remove(&mut self, cell: usize) -> bool {
        let is_drawn = self.has(cell);
        if is_drawn {
            self.bits[cell / 64] &= !(1 << (cell % 64));
            self.count -= 1;
        }
        is_drawn
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let word = |(at, bits): (usize, &u64)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(at * 64 + bit)
            })
        };
        self.bits.iter().enumerate().flat_map(word)
    }
}

impl Chunk {
    /// Draws a cell of a body. Saves of the chunk do not have it. Returns false, and changes nothing, if the cell there is not
    /// empty, or drawn already. A cell is empty if every bit that saves have is the default of its layer.
    pub fn draw(&mut self, x: u32, y: u32, cell: &[u8]) -> Result<bool> {
        let range = self.checked_range([x, y, 0], cell)?;
        let at = range.start / self.cell_bytes;
        if self.drawn.has(at) || !self.empty.is_like(&self.cells[range.clone()]) {
            return Ok(false);
        }
        let count = self.cells.len() / self.cell_bytes;
        self.drawn.add(at, count);
        Arc::make_mut(&mut self.cells)[range].copy_from_slice(cell);
        Ok(true)
    }

    /// Takes the cell of a body away: an empty one is there again. Returns false, and changes nothing, if it is not drawn.
    pub fn erase(&mut self, x: u32, y: u32) -> bool {
        let Some(range) = self.range([x, y, 0]) else { return false };
        let is_drawn = self.drawn.remove(range.start / self.cell_bytes);
        if is_drawn {
            Arc::make_mut(&mut self.cells)[range].copy_from_slice(&self.empty.cell);
        }
        is_drawn
    }

    /// Returns true if a cell belongs to a body that was drawn here.
    pub fn is_drawn(&self, x: u32, y: u32) -> bool {
        self.range([x, y, 0]).is_some_and(|range| self.drawn.has(range.start / self.cell_bytes))
    }

    /// Returns how many cells of bodies are drawn here.
    pub fn drawn_cells(&self) -> usize {
        self.drawn.count
    }

    /// Returns the drawn cells that [`set`](Self::set) or [`update`](Self::update) have changed since the last call. They are
    /// cells of the chunk now, and their bodies have lost them.
    pub fn take_overwritten(&mut self) -> Vec<[u32; 2]> {
        let size = self.size;
        let place = |cell: u32| [cell % size, cell / size];
        std::mem::take(&mut self.drawn.overwritten).into_iter().map(place).collect()
    }

    /// Returns true if [`take_overwritten`](Self::take_overwritten) has something to return.
    pub fn has_overwritten(&self) -> bool {
        !self.drawn.overwritten.is_empty()
    }

    /// Returns the cells as saves have them: drawn cells are empty. Where nothing is drawn, they are shared and not copied.
    pub fn saved_cells(&self) -> Arc<Vec<u8>> {
        if self.drawn.count == 0 {
            return self.cells.clone();
        }
        let mut cells = Vec::clone(&self.cells);
        self.void(&mut cells);
        Arc::new(cells)
    }

    /// Forgets all drawn cells: empty ones are there again.
    #[cfg(any(test, not(target_arch = "wasm32")))]
    pub(crate) fn erase_all(&mut self) {
        self.cells = self.saved_cells();
        self.drawn = DrawnCells::default();
    }

    fn void(&self, cells: &mut [u8]) {
        for cell in self.drawn.iter() {
            let start = cell * self.cell_bytes;
            cells[start..start + self.cell_bytes].copy_from_slice(&self.empty.cell);
        }
    }

    /// Takes a drawn cell that the game has changed from its body. Returns true if saves of the chunk have another cell now.
    pub(super) fn overwrite(&mut self, range: Range<usize>) -> bool {
        let cell = range.start / self.cell_bytes;
        if !self.drawn.remove(cell) {
            return true;
        }
        // A chunk has at most 2^32 cells.
        self.drawn.overwritten.extend(u32::try_from(cell));
        self.cells[range] != self.empty.cell[..]
    }

    /// Takes all drawn cells that differ from those of before from their bodies. Returns true if saves of the chunk have other cells
    /// now.
    pub(super) fn overwrite_changed(&mut self, before: &Arc<Vec<u8>>) -> bool {
        if self.drawn.count == 0 {
            return true;
        }
        let mut saved_before = Vec::clone(before);
        self.void(&mut saved_before);
        let range = |cell: usize| cell * self.cell_bytes..(cell + 1) * self.cell_bytes;
        let is_changed = |range: &Range<usize>| self.cells[range.clone()] != before[range.clone()];
        let changed: Vec<Range<usize>> = self.drawn.iter().map(range).filter(is_changed).collect();
        for range in changed {
            self.overwrite(range);
        }
        *self.saved_cells() != saved_before
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChunkShape, ChunkState};
    use super::*;
    use crate::ChunkPos;

    /// Two cells of two bytes to a row. The low half of the second byte is not saved.
    fn chunk() -> Chunk {
        let empty = EmptyCell { cell: vec![9, 0], stored_bits: vec![0xFF, 0xF0] };
        let shape = ChunkShape { size: 2, depth: 1, cell_bytes: 2, empty: Arc::new(empty) };
        Chunk::new(ChunkPos::default(), shape, vec![9, 0, 9, 3, 9, 0x10, 1, 0], ChunkState::Clean)
    }

    #[test]
    fn a_body_is_drawn_over_empty_cells_and_saves_do_not_have_it() {
        let mut chunk = chunk();
        let before = chunk.cells().to_vec();
        assert!(chunk.draw(0, 0, &[5, 5]).unwrap());
        assert!(!chunk.draw(0, 0, &[6, 6]).unwrap(), "another body is there");
        assert!(chunk.draw(1, 0, &[5, 5]).unwrap(), "what is not saved does not count");
        assert!(!chunk.draw(0, 1, &[5, 5]).unwrap() && !chunk.draw(1, 1, &[5, 5]).unwrap(), "terrain stays");
        assert_eq!((chunk.state(), chunk.drawn_cells()), (ChunkState::Clean, 2));
        assert_eq!(chunk.cells()[..4], [5, 5, 5, 5]);
        assert_eq!(chunk.saved_cells()[..], [9, 0, 9, 0, 9, 0x10, 1, 0]);
        assert!(chunk.erase(0, 0) && !chunk.erase(0, 0) && !chunk.erase(1, 1) && !chunk.erase(7, 7));
        assert_eq!((chunk.get(0, 0), chunk.drawn_cells()), (Some(&before[..2]), 1));
        chunk.erase_all();
        assert_eq!((chunk.cells()[2..4].to_vec(), chunk.drawn_cells()), (vec![9, 0], 0));
        assert_eq!(chunk.state(), ChunkState::Clean);
        assert!(chunk.draw(2, 0, &[5, 5]).unwrap_err().is_misuse());
        assert!(chunk.draw(0, 0, &[5]).unwrap_err().is_misuse());
    }

    #[test]
    fn a_cell_that_the_game_changes_is_the_chunks_own() {
        let mut chunk = chunk();
        chunk.draw(0, 0, &[5, 5]).unwrap();
        chunk.draw(1, 0, &[5, 5]).unwrap();
        assert!(!chunk.set(0, 0, &[5, 5]).unwrap() && chunk.is_drawn(0, 0), "it is no change");
        assert!(chunk.set(0, 0, &[9, 0]).unwrap(), "a hole in the body");
        assert_eq!(chunk.state(), ChunkState::Clean, "the chunk has an empty cell there as before");
        assert!(chunk.set(1, 0, &[7, 0]).unwrap());
        assert_eq!(chunk.state(), ChunkState::Dirty);
        assert!(chunk.has_overwritten());
        assert_eq!(chunk.take_overwritten(), [[0, 0], [1, 0]]);
        assert!(!chunk.has_overwritten() && chunk.drawn_cells() == 0 && !chunk.erase(1, 0));
        assert_eq!(chunk.saved_cells()[..4], [9, 0, 7, 0]);
    }

    #[test]
    fn a_simulation_takes_cells_from_bodies_too() {
        let mut chunk = chunk();
        chunk.draw(0, 0, &[5, 5]).unwrap();
        chunk.draw(1, 0, &[5, 5]).unwrap();
        assert!(chunk.update(|cells| cells[..2].copy_from_slice(&[9, 0])));
        assert_eq!((chunk.state(), chunk.take_overwritten()), (ChunkState::Clean, vec![[0, 0]]));
        assert!(chunk.update(|cells| cells[3] = 6));
        assert_eq!((chunk.state(), chunk.take_overwritten()), (ChunkState::Dirty, vec![[1, 0]]));
        assert!(chunk.draw(0, 0, &[5, 5]).unwrap());
        let revision = chunk.revision();
        assert!(chunk.update(|cells| cells[6] = 2));
        assert!(chunk.take_overwritten().is_empty() && chunk.is_drawn(0, 0) && chunk.revision() != revision);
    }
}
