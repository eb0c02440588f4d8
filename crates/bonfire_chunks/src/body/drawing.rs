//! Bodies drawn into chunks: which cells of the world a body covers, and which of them it has.
//!
//! A cell of the world shows the cell of the body that its middle lies in. So a body that is turned has no holes, and some of its
//! cells may cover two cells of the world, or none. At whole positions, and not turned, each covers one. Terrain is never drawn over: a body that lies in it is hidden there.

use bonfire::{Error, Result};

use super::Body;
use crate::{Chunk, ChunkPos, ChunkRect};

/// The chunks that bodies are drawn into.
pub trait Canvas {
    /// Calls `draw` with a chunk, if it is in the world. It returns true if it has changed a cell.
    fn draw_in(&mut self, pos: ChunkPos, draw: &mut dyn FnMut(&mut Chunk) -> bool);
}

impl<S: std::hash::BuildHasher> Canvas for std::collections::HashMap<ChunkPos, Chunk, S> {
    fn draw_in(&mut self, pos: ChunkPos, draw: &mut dyn FnMut(&mut Chunk) -> bool) {
        self.get_mut(&pos).map(draw);
    }
}

impl Canvas for std::collections::BTreeMap<ChunkPos, Chunk> {
    fn draw_in(&mut self, pos: ChunkPos, draw: &mut dyn FnMut(&mut Chunk) -> bool) {
        self.get_mut(&pos).map(draw);
    }
}

/// The cells that a body has drawn. Without it nobody could take them away again.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use bonfire_chunks::{Body, BodyDrawing, BodyId, ChunkOptions, ChunkPos, Layer, Layers, Persistence};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("world.save");
///
/// let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// let world = ChunkOptions::new(layers).chunk_size(16).open(&path)?;
/// let mut chunks = BTreeMap::from([(ChunkPos::new(0, 0), world.load((0, 0))?)]);
///
/// let mut crate_of_wood = Body::new(BodyId(7), [2, 2], vec![5; 4]); // four cells
/// crate_of_wood.position = [3.0, 4.0];
/// let drawing = BodyDrawing::draw(&crate_of_wood, 0, 16, &mut chunks)?;
/// assert_eq!(chunks[&ChunkPos::new(0, 0)].get(2, 3), Some(&[5][..]));
/// assert_eq!(chunks[&ChunkPos::new(0, 0)].saved_cells()[3 * 16 + 2], 0, "the body has it, not the chunk");
/// drawing.erase(&mut chunks);
/// assert_eq!(chunks[&ChunkPos::new(0, 0)].get(2, 3), Some(&[0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyDrawing {
    chunks: Vec<DrawnPart>,
    hidden: usize,
}

/// The part of a drawing that is in one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DrawnPart {
    pos: ChunkPos,
    cells: Vec<DrawnCell>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DrawnCell {
    /// In the chunk.
    at: [u32; 2],
    /// In the body.
    of: [u32; 2],
}

impl BodyDrawing {
    /// Draws a body at its position, into the chunks that are there. `dimension` and `chunk_size` are those of the chunks.
    pub fn draw(body: &Body, dimension: u32, chunk_size: u32, canvas: &mut impl Canvas) -> Result<Self> {
        let cell_bytes = body.cell_bytes()?;
        let Some(bounds) = Bounds::of(body) else { return Ok(Self::default()) };
        let Some(rect) = bounds.chunks(dimension, chunk_size) else { return Ok(Self::default()) };
        let (mut chunks, mut hidden, mut result) = (Vec::new(), 0, Ok(()));
        for pos in rect.iter() {
            canvas.draw_in(pos, &mut |chunk| {
                let mut cells = Vec::new();
                for (at, world) in bounds.cells_in(pos, chunk_size) {
                    let middle = world.map(|along| along as f64 + 0.5);
                    let Some(of) = body.cell_at(middle) else { continue };
                    // A body and its chunk are in memory, so the numbers fit.
                    let start = (of[1] as usize * body.width as usize + of[0] as usize) * cell_bytes;
                    match chunk.draw(at[0], at[1], &body.cells[start..start + cell_bytes]) {
                        Ok(true) => cells.push(DrawnCell { at, of }),
                        Ok(false) => hidden += 1,
                        Err(error) => result = Err(error),
                    }
                }
                let is_seen = !cells.is_empty();
                chunks.push(DrawnPart { pos, cells });
                is_seen
            });
        }
        result.map(|()| Self { chunks, hidden })
    }

    /// Takes the body away. Cells that the game has changed stay as they are.
    pub fn erase(self, canvas: &mut impl Canvas) {
        for DrawnPart { pos, cells } in self.chunks {
            canvas.draw_in(pos, &mut |chunk| {
                cells.iter().filter(|cell| chunk.erase(cell.at[0], cell.at[1])).count() > 0
            });
        }
    }

    /// Returns the cells of the body of which the game has changed what was drawn, and forgets that they were drawn. `overwritten` are
    /// cells of a chunk: see [`Chunk::take_overwritten`].
    pub fn lose(&mut self, pos: ChunkPos, overwritten: &[[u32; 2]]) -> Vec<[u32; 2]> {
        let mut lost = Vec::new();
        for part in self.chunks.iter_mut().filter(|part| part.pos == pos) {
            let is_lost = |cell: &mut DrawnCell| overwritten.contains(&cell.at);
            lost.extend(part.cells.extract_if(.., is_lost).map(|cell| cell.of));
        }
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    /// Forgets a chunk that has left the world with what was drawn there. Returns false if nothing was.
    pub fn forget(&mut self, pos: ChunkPos) -> bool {
        let before = self.chunks.len();
        self.chunks.retain(|part| part.pos != pos);
        self.chunks.len() < before
    }

    /// Returns the number of cells of the world that show the body.
    pub fn cells(&self) -> usize {
        self.chunks.iter().map(|part| part.cells.len()).sum()
    }

    /// Returns the number of cells of the world that would show the body if nothing else was there.
    pub fn hidden_cells(&self) -> usize {
        self.hidden
    }

    /// Returns the chunks that were there when the body was drawn, and that it touches.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkPos> + '_ {
        self.chunks.iter().map(|part| part.pos)
    }
}

/// A body reaches so far: the first cells, and the last ones.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    min: [i64; 2],
    max: [i64; 2],
}

impl Bounds {
    /// `None` for a body without cells, or at a place that is no number.
    fn of(body: &Body) -> Option<Self> {
        let is_somewhere = body.position.iter().all(|along| along.is_finite()) && body.rotation.is_finite();
        if !is_somewhere || body.width == 0 || body.height == 0 {
            return None;
        }
        let [left, bottom] = body.origin.map(f64::from);
        let (right, top) = (left + f64::from(body.width), bottom + f64::from(body.height));
        let corners = [[left, bottom], [right, bottom], [left, top], [right, top]].map(|c| body.to_world(c));
        let of = |axis: usize, pick: fn(f64, f64) -> f64| {
            corners.iter().map(|corner| corner[axis]).fold(corners[0][axis], pick)
        };
        // Cells whose middle is not covered are left out later.
        let min = [0, 1].map(|axis| of(axis, f64::min).floor() as i64);
        let max = [0, 1].map(|axis| of(axis, f64::max).ceil() as i64 - 1);
        Some(Self { min, max: [max[0].max(min[0]), max[1].max(min[1])] })
    }

    /// `None` if it reaches beyond all chunks.
    fn chunks(&self, dimension: u32, chunk_size: u32) -> Option<ChunkRect> {
        let corner = |cell| Some(ChunkPos::of_cell(cell, chunk_size)?.0.in_dimension(dimension));
        Some(ChunkRect::new(corner(self.min)?, corner(self.max)?))
    }

    /// The cells of a chunk that lie in it: in the chunk, and in the world.
    fn cells_in(&self, pos: ChunkPos, chunk_size: u32) -> impl Iterator<Item = ([u32; 2], [i64; 2])> + use<> {
        let corner = [pos.x, pos.y].map(|along| i64::from(along) * i64::from(chunk_size));
        let along = |axis: usize| {
            let begin = self.min[axis].max(corner[axis]);
            begin..self.max[axis].min(corner[axis] + i64::from(chunk_size) - 1) + 1
        };
        let (columns, rows) = (along(0), along(1));
        let in_chunk = move |world: [i64; 2]| [0, 1].map(|axis| (world[axis] - corner[axis]) as u32);
        rows.flat_map(move |y| columns.clone().map(move |x| (in_chunk([x, y]), [x, y])))
    }
}

impl Body {
    /// Returns the chunks that a body may touch at its position. `None` for a body without cells, or beyond all chunks.
    pub fn touched_chunks(&self, dimension: u32, chunk_size: u32) -> Option<ChunkRect> {
        Bounds::of(self)?.chunks(dimension, chunk_size)
    }

    /// Returns the solid cell of the body that a point of the world lies in, in cells of the world.
    pub fn cell_at(&self, point: [f64; 2]) -> Option<[u32; 2]> {
        let [dx, dy] = [0, 1].map(|axis: usize| point[axis] - f64::from(self.position[axis]));
        let (sin, cos) = f64::from(self.rotation).sin_cos();
        let local = [dx * cos + dy * sin, dy * cos - dx * sin];
        let cell = [0, 1].map(|axis| (local[axis] - f64::from(self.origin[axis])).floor());
        let [x, y] = cell;
        let is_inside = x >= 0.0 && y >= 0.0 && x < f64::from(self.width) && y < f64::from(self.height);
        let cell = [x as u32, y as u32];
        (is_inside && self.solid(cell[0], cell[1])).then_some(cell)
    }

    /// From the body's own coordinates, seen from its centre, to the world.
    pub(super) fn to_world(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let (sin, cos) = f64::from(self.rotation).sin_cos();
        [f64::from(self.position[0]) + x * cos - y * sin, f64::from(self.position[1]) + x * sin + y * cos]
    }

    /// Bytes of a cell, by the number of bytes that there are.
    pub(super) fn cell_bytes(&self) -> Result<usize> {
        let cells = self.width as usize * self.height as usize;
        let bytes = self.cells.len().checked_div(cells).unwrap_or(0);
        if bytes * cells != self.cells.len() || self.mask.len() != cells.div_ceil(8) {
            return Err(Error::misuse(format!(
                "body {} has {} bytes of cells and {} of mask for {cells} cells",
                self.id,
                self.cells.len(),
                self.mask.len()
            )));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::BodyId;
    use crate::ChunkState;
    use crate::chunk::{ChunkShape, EmptyCell};

    const SIZE: u32 = 4;

    fn chunks(all: impl IntoIterator<Item = (i32, i32)>) -> BTreeMap<ChunkPos, Chunk> {
        let empty = Arc::new(EmptyCell { cell: vec![0], stored_bits: vec![0xFF] });
        let shape = || ChunkShape { size: SIZE, depth: 1, cell_bytes: 1, empty: empty.clone() };
        let chunk = |pos: ChunkPos| (pos, Chunk::new(pos, shape(), vec![0; 16], ChunkState::Clean));
        all.into_iter().map(|pos| chunk(pos.into())).collect()
    }

    fn seen(chunks: &BTreeMap<ChunkPos, Chunk>) -> Vec<(i32, i32, u8)> {
        let mut seen = Vec::new();
        for (pos, chunk) in chunks {
            let drawn = (0..SIZE).flat_map(|y| (0..SIZE).map(move |x| (x, y)));
            for (x, y) in drawn.filter(|(x, y)| chunk.is_drawn(*x, *y)) {
                let world = (pos.x * 4 + x as i32, pos.y * 4 + y as i32);
                seen.push((world.0, world.1, chunk.get(x, y).unwrap()[0]));
            }
        }
        seen.sort_unstable();
        seen
    }

    fn bar() -> Body {
        Body::new(BodyId(1), [3, 1], vec![1, 2, 3])
    }

    #[test]
    fn a_body_over_a_border_is_drawn_in_both_chunks_and_taken_away_again() {
        let mut canvas = chunks([(0, 0), (-1, 0)]);
        let mut bar = bar();
        let drawing = BodyDrawing::draw(&bar, 0, SIZE, &mut canvas).unwrap();
        assert_eq!(seen(&canvas), [(-1, 0, 1), (0, 0, 2), (1, 0, 3)]);
        assert_eq!(drawing.chunks().collect::<Vec<_>>(), [(-1, 0).into(), (0, 0).into()]);
        drawing.erase(&mut canvas);
        assert!(seen(&canvas).is_empty());
        bar.rotation = std::f32::consts::FRAC_PI_2;
        bar.position = [1.0, 1.0];
        let drawing = BodyDrawing::draw(&bar, 0, SIZE, &mut canvas).unwrap();
        assert_eq!(seen(&canvas), [(0, 0, 1), (0, 1, 2), (0, 2, 3)]);
        assert_eq!((drawing.cells(), drawing.hidden_cells()), (3, 0));
        let behind = BodyDrawing::draw(&bar, 0, SIZE, &mut canvas).unwrap();
        assert_eq!((behind.cells(), behind.hidden_cells()), (0, 3));
    }

    #[test]
    fn chunks_that_are_not_there_are_left_out() {
        let mut canvas = chunks([(0, 0)]);
        let mut drawing = BodyDrawing::draw(&bar(), 0, SIZE, &mut canvas).unwrap();
        assert_eq!(seen(&canvas), [(0, 0, 2), (1, 0, 3)]);
        assert_eq!(drawing.chunks().collect::<Vec<_>>(), [(0, 0).into()]);
        assert!(drawing.forget((0, 0).into()) && !drawing.forget((0, 0).into()));
        assert_eq!(drawing.cells(), 0);
    }

    #[test]
    fn a_turned_body_has_no_holes() {
        let mut canvas = chunks((-3..4).flat_map(|x| (-3..4).map(move |y| (x, y))));
        let mut slab = Body::new(BodyId(1), [9, 7], vec![1; 63]);
        slab.position = [1.3, -0.8];
        for turn in 0..32 {
            slab.rotation = turn as f32 * 0.2;
            let drawing = BodyDrawing::draw(&slab, 0, SIZE, &mut canvas).unwrap();
            let cells = drawing.cells() as i64;
            assert!((cells - 63).abs() <= 16, "about as many cells: {cells}");
            let seen = seen(&canvas);
            for &(x, y, _) in &seen {
                let is_drawn = |x, y| seen.contains(&(x, y, 1));
                let is_hole = |x: i32, y: i32| {
                    !is_drawn(x, y)
                        && is_drawn(x - 1, y)
                        && is_drawn(x + 1, y)
                        && is_drawn(x, y - 1)
                        && is_drawn(x, y + 1)
                };
                assert!(!is_hole(x + 1, y) && !is_hole(x, y + 1), "turn {turn}");
            }
            drawing.erase(&mut canvas);
        }
    }

    #[test]
    fn what_the_game_changes_is_lost_to_the_body() {
        let mut canvas = chunks([(0, 0), (-1, 0)]);
        let mut drawing = BodyDrawing::draw(&bar(), 0, SIZE, &mut canvas).unwrap();
        let chunk = canvas.get_mut(&(0, 0).into()).unwrap();
        chunk.set(1, 0, &[9]).unwrap();
        let overwritten = chunk.take_overwritten();
        assert!(drawing.lose((-1, 0).into(), &overwritten).is_empty());
        assert_eq!(drawing.lose((0, 0).into(), &overwritten), [[2, 0]]);
        assert!(drawing.lose((0, 0).into(), &overwritten).is_empty());
        drawing.erase(&mut canvas);
        assert_eq!(canvas[&(0, 0).into()].cells()[..2], [0, 9], "terrain stays");
    }

    #[test]
    fn a_body_that_is_nowhere_is_not_drawn() {
        let mut canvas = chunks([(0, 0)]);
        for position in [[f32::NAN, 0.0], [f32::INFINITY, 0.0], [1e38, 0.0]] {
            let nowhere = Body { position, ..bar() };
            assert_eq!(BodyDrawing::draw(&nowhere, 0, SIZE, &mut canvas).unwrap(), BodyDrawing::default());
        }
        let broken = Body { cells: vec![1; 4], ..bar() };
        assert!(BodyDrawing::draw(&broken, 0, SIZE, &mut canvas).unwrap_err().is_misuse());
    }
}
