//! A chunk in memory, which knows whether it must be saved.

mod drawn;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bonfire::{Error, Result};

use self::drawn::DrawnCells;
pub(crate) use self::drawn::EmptyCell;
use crate::ChunkPos;

/// What is to be done with a chunk when the game lets go of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkState {
    /// As the generator made it: nothing to save.
    Clean,
    /// Changed since it was made, loaded or saved: to be saved.
    Dirty,
    /// As it is in the file: nothing to save.
    Persisted,
}

impl ChunkState {
    /// Whether letting go of the chunk would lose something.
    pub fn needs_save(self) -> bool {
        self == Self::Dirty
    }
}

/// A chunk in memory. It is dirty only once a cell is really different: sand that lies still is not a change.
#[derive(Clone, Debug)]
pub struct Chunk {
    pos: ChunkPos,
    size: u32,
    /// Cells along `z`.
    depth: u32,
    cell_bytes: usize,
    /// Shared with saves that are under way: a change copies them then.
    cells: Arc<Vec<u8>>,
    state: ChunkState,
    /// Another one after each change, so that a save knows whether there was one since.
    revision: u64,
    empty: Arc<EmptyCell>,
    drawn: DrawnCells,
}

/// What was handed to a save: see [`Chunk::saved`]. No two changes of any chunks have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRevision(u64);

/// A chunk that was let go and loaded again is not to be taken for the one that a save under way has been given.
fn next_revision() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The sizes of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct ChunkShape {
    /// Cells along `x` and `y`.
    pub(crate) size: u32,
    /// Cells along `z`.
    pub(crate) depth: u32,
    /// Bytes of a cell.
    pub(crate) cell_bytes: usize,
    pub(crate) empty: Arc<EmptyCell>,
}

impl Chunk {
    pub(crate) fn new(pos: ChunkPos, shape: ChunkShape, cells: Vec<u8>, state: ChunkState) -> Self {
        let ChunkShape { size, depth, cell_bytes, empty } = shape;
        let (cells, revision) = (Arc::new(cells), next_revision());
        Self { pos, size, depth, cell_bytes, cells, state, revision, empty, drawn: DrawnCells::default() }
    }

    /// Where it is.
    pub fn pos(&self) -> ChunkPos {
        self.pos
    }

    /// Whether it must be saved.
    pub fn state(&self) -> ChunkState {
        self.state
    }

    /// All cells, row by row.
    pub fn cells(&self) -> &[u8] {
        &self.cells
    }

    /// The cells, without the rest.
    pub fn into_cells(self) -> Vec<u8> {
        Arc::unwrap_or_clone(self.cells)
    }

    fn range(&self, [x, y, z]: [u32; 3]) -> Option<std::ops::Range<usize>> {
        let row = z as usize * self.size as usize + y as usize;
        let start = (row * self.size as usize + x as usize) * self.cell_bytes;
        (x < self.size && y < self.size && z < self.depth).then_some(start..start + self.cell_bytes)
    }

    /// A cell; `None` outside of the chunk.
    pub fn get(&self, x: u32, y: u32) -> Option<&[u8]> {
        self.get_3d(x, y, 0)
    }

    /// A cell of a chunk with three coordinates; `None` outside of the chunk.
    pub fn get_3d(&self, x: u32, y: u32, z: u32) -> Option<&[u8]> {
        self.cells.get(self.range([x, y, z])?)
    }

    /// Sets a cell, and tells whether it was different before. An error outside of the chunk, and for a cell of another size.
    pub fn set(&mut self, x: u32, y: u32, cell: &[u8]) -> Result<bool> {
        self.set_3d(x, y, 0, cell)
    }

    /// Sets a cell of a chunk with three coordinates: see [`set`](Self::set).
    pub fn set_3d(&mut self, x: u32, y: u32, z: u32, cell: &[u8]) -> Result<bool> {
        let range = self.checked_range([x, y, z], cell)?;
        let is_change = self.cells[range.clone()] != *cell;
        if is_change {
            Arc::make_mut(&mut self.cells)[range.clone()].copy_from_slice(cell);
            if self.overwrite(range) {
                self.touch();
            }
        }
        Ok(is_change)
    }

    fn checked_range(&self, [x, y, z]: [u32; 3], cell: &[u8]) -> Result<std::ops::Range<usize>> {
        let (size, bytes) = (self.size, self.cell_bytes);
        if cell.len() != bytes {
            return Err(Error::misuse(format!("a cell has {bytes} bytes and not {}", cell.len())));
        }
        let range = self.range([x, y, z]);
        range.ok_or_else(|| Error::misuse(format!("there is no cell ({x}, {y}, {z}) in a chunk of {size}")))
    }

    /// Lets a simulation write to all cells at once, and tells whether one of them is different now.
    pub fn update(&mut self, work: impl FnOnce(&mut [u8])) -> bool {
        let mut cells = Vec::clone(&self.cells);
        work(&mut cells);
        let is_change = cells.len() == self.cells.len() && cells != *self.cells;
        if is_change {
            let before = std::mem::replace(&mut self.cells, Arc::new(cells));
            if self.overwrite_changed(&before) {
                self.touch();
            }
        }
        is_change
    }

    fn touch(&mut self) {
        self.state = ChunkState::Dirty;
        self.revision = next_revision();
    }

    /// Names what is in the chunk now: take it together with the cells that are saved.
    pub fn revision(&self) -> ChunkRevision {
        ChunkRevision(self.revision)
    }

    /// Notes that a revision is durable. If the chunk has changed since, it stays dirty.
    pub fn saved(&mut self, revision: ChunkRevision) {
        if revision.0 == self.revision && self.state == ChunkState::Dirty {
            self.state = ChunkState::Persisted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(cell_bytes: usize) -> Arc<EmptyCell> {
        Arc::new(EmptyCell { cell: vec![0; cell_bytes], stored_bits: vec![0xFF; cell_bytes] })
    }

    fn chunk(state: ChunkState) -> Chunk {
        let shape = ChunkShape { size: 2, depth: 1, cell_bytes: 2, empty: empty(2) };
        Chunk::new(ChunkPos::default(), shape, vec![0; 8], state)
    }

    #[test]
    fn only_a_cell_that_is_really_different_makes_it_dirty() {
        for start in [ChunkState::Clean, ChunkState::Persisted] {
            let mut chunk = chunk(start);
            assert!(!chunk.set(1, 1, &[0, 0]).unwrap());
            assert!(!chunk.update(|cells| cells.fill(0)));
            assert_eq!(chunk.state(), start);
            assert!(!chunk.state().needs_save());
            assert!(chunk.set(1, 1, &[0, 5]).unwrap());
            assert_eq!((chunk.state(), chunk.get(1, 1)), (ChunkState::Dirty, Some(&[0, 5][..])));
            assert!(chunk.state().needs_save());
        }
    }

    #[test]
    fn a_save_covers_only_what_it_was_given() {
        let mut chunk = chunk(ChunkState::Clean);
        chunk.saved(chunk.revision());
        assert_eq!(chunk.state(), ChunkState::Clean, "it was not dirty");
        chunk.set(0, 0, &[1, 0]).unwrap();
        let under_way = chunk.revision();
        chunk.set(0, 0, &[2, 0]).unwrap();
        chunk.saved(under_way);
        assert_eq!(chunk.state(), ChunkState::Dirty, "there was a change since");
        chunk.saved(chunk.revision());
        assert_eq!(chunk.state(), ChunkState::Persisted);
        assert!(chunk.update(|cells| cells[7] = 9));
        assert_eq!(chunk.state(), ChunkState::Dirty);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut chunk = chunk(ChunkState::Clean);
        assert!(chunk.set(2, 0, &[0, 1]).unwrap_err().is_misuse());
        assert!(chunk.set(0, 0, &[1]).unwrap_err().is_misuse());
        assert_eq!((chunk.get(0, 2), chunk.state()), (None, ChunkState::Clean));
    }

    #[test]
    fn a_save_shares_the_cells_and_a_change_copies_them() {
        let mut chunk = chunk(ChunkState::Clean);
        chunk.set(0, 0, &[1, 2]).unwrap();
        let saving = chunk.saved_cells();
        assert_eq!(saving.as_ptr(), chunk.cells().as_ptr());
        chunk.set(1, 1, &[3, 4]).unwrap();
        assert_eq!(
            (&saving[..], chunk.cells()),
            (&[1, 2, 0, 0, 0, 0, 0, 0][..], &[1, 2, 0, 0, 0, 0, 3, 4][..])
        );
        drop(saving);
        let here = chunk.cells().as_ptr();
        chunk.set(1, 0, &[5, 6]).unwrap();
        assert_eq!(chunk.cells().as_ptr(), here, "nobody shares them any more");
    }

    #[test]
    fn a_cube_has_its_cells_layer_by_layer() {
        let shape = ChunkShape { size: 2, depth: 2, cell_bytes: 1, empty: empty(1) };
        let mut cube = Chunk::new(ChunkPos::default(), shape, vec![0; 8], ChunkState::Clean);
        assert!(cube.set_3d(1, 0, 1, &[7]).unwrap());
        assert_eq!(cube.cells(), [0, 0, 0, 0, 0, 7, 0, 0]);
        assert_eq!(
            (cube.get_3d(1, 0, 1), cube.get(1, 0), cube.get_3d(0, 0, 2)),
            (Some(&[7][..]), Some(&[0][..]), None)
        );
        assert!(cube.set_3d(0, 0, 2, &[1]).unwrap_err().is_misuse());
    }
}
