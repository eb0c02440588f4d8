//! Views of a dimension: flat, one layer of cells, or from above.
//!
//! From above, chunks of a column are read from the highest one down, until no cell is open any more. One chunk is in memory
//! at a time, and the picture of its column.

use std::collections::HashSet;

use bonfire_chunks::codec::Delta;
use bonfire_chunks::{ChunkPos, ChunkRect, ChunkWorld, StoredChunk};

use super::drawn::Drawn;
use super::palette::Rgb;
use super::tile::{Content, NEUTRAL, Painter};
use crate::arguments::chunks::MapArguments;
use crate::chunks::dimension::{DimensionFacts, damaged_chunks};

/// The cells of a dimension that a picture shows.
#[derive(Clone, Copy)]
pub(super) enum View {
    /// All of a dimension with two coordinates.
    Flat,
    /// One layer of cells: the place of their chunks, and where in those it is.
    Slice { z: i64, chunk_z: i32, layer: usize },
    /// The highest cell of each column.
    Above { z_down: bool },
}

impl View {
    /// Returns the view that a user asks for, or a message that says why there is none.
    pub(super) fn of(arguments: &MapArguments, dimension: &DimensionFacts) -> Result<Self, String> {
        let asks_for_depth = arguments.slice.is_some() || arguments.above || arguments.z_down;
        if !dimension.is_three_dimensional {
            return match asks_for_depth {
                false => Ok(Self::Flat),
                true => Err(format!(
                    "dimension {} has two coordinates: --slice, --above and --z-down are for three",
                    dimension.number
                )),
            };
        }
        let Some(z) = arguments.slice else { return Ok(Self::Above { z_down: arguments.z_down }) };
        let place = ChunkPos::of_cell_3d([0, 0, z], u32::from(dimension.chunk_size));
        let (chunk, [_, _, layer]) = place.ok_or_else(|| format!("no chunk has a cell of z = {z}"))?;
        Ok(Self::Slice { z, chunk_z: chunk.z, layer: layer as usize })
    }

    /// Returns the third coordinate of the chunks that are drawn, 0 if it may be any.
    pub(super) fn chunk_z(self) -> i32 {
        if let Self::Slice { chunk_z, .. } = self { chunk_z } else { 0 }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Slice { .. } => "slice",
            Self::Above { .. } => "above",
        }
    }

    pub(super) fn slice(self) -> Option<i64> {
        if let Self::Slice { z, .. } = self { Some(z) } else { None }
    }
}

/// Chunks by their row and their column; those of one column from the lowest to the highest `z`.
#[derive(Default)]
pub(super) struct Columns(Vec<ChunkPos>);

impl Columns {
    pub(super) fn new(mut chunks: Vec<ChunkPos>) -> Self {
        chunks.sort_unstable_by_key(|pos| (pos.y, pos.x, pos.z));
        chunks.dedup();
        Self(chunks)
    }

    pub(super) fn row(&self, y: i32) -> &[ChunkPos] {
        let first = self.0.partition_point(|pos| pos.y < y);
        let behind = self.0.partition_point(|pos| pos.y <= y);
        &self.0[first..behind]
    }

    fn column(&self, x: i32, y: i32) -> &[ChunkPos] {
        let first = self.0.partition_point(|pos| (pos.y, pos.x) < (y, x));
        let behind = self.0.partition_point(|pos| (pos.y, pos.x) <= (y, x));
        &self.0[first..behind]
    }
}

/// The contents of a world at a place, without the generator.
pub(super) enum Found {
    /// It is not in the file.
    Missing,
    Damaged,
    /// It needs a key, or code of the game.
    OutOfReach,
    Stored(StoredChunk),
}

/// Reads chunks for a picture.
pub(super) struct Viewer<'w> {
    world: &'w ChunkWorld,
    view: View,
    chunks: ChunkRect,
    /// Chunks that opening found damaged: they are not in the index.
    damaged: HashSet<ChunkPos>,
    /// All chunks of the picture, for a view from above.
    columns: Columns,
}

impl<'w> Viewer<'w> {
    /// Prepares the view of the chunks of a rectangle.
    pub(super) fn new(world: &'w ChunkWorld, rect: ChunkRect, view: View) -> Self {
        let is_above = matches!(view, View::Above { .. });
        let (min, max) = (rect.min(), rect.max());
        let chunks = match is_above {
            true => ChunkRect::new(ChunkPos { z: i32::MIN, ..min }, ChunkPos { z: i32::MAX, ..max }),
            false => rect,
        };
        let damaged: HashSet<ChunkPos> =
            damaged_chunks(world).into_iter().filter(|pos| chunks.contains(*pos)).collect();
        let columns = if is_above {
            Columns::new(world.range(chunks).into_iter().chain(damaged.iter().copied()).collect())
        } else {
            Columns::default()
        };
        Self { world, view, chunks, damaged, columns }
    }

    /// Returns the chunks that are drawn, also those that others hide.
    pub(super) fn chunks(&self) -> ChunkRect {
        self.chunks
    }

    /// Returns what is to be seen at a place.
    pub(super) fn content(&self, place: ChunkPos, painter: &Painter<'_>, drawn: &mut Drawn) -> Content {
        let layer = match self.view {
            View::Flat => 0,
            View::Slice { layer, .. } => layer,
            View::Above { z_down } => return self.highest_cells(place, z_down, painter, drawn),
        };
        match self.find(place, drawn) {
            Found::Missing => Content::Missing,
            Found::Damaged => Content::Damaged,
            Found::OutOfReach => Content::OutOfReach,
            Found::Stored(chunk) => Content::Cells(painter.layer(&chunk, layer)),
        }
    }

    fn find(&self, place: ChunkPos, drawn: &mut Drawn) -> Found {
        let found = match self.world.read_stored(place) {
            _ if self.damaged.contains(&place) => Found::Damaged,
            Ok(Some(chunk)) => Found::Stored(chunk),
            Ok(None) => Found::Missing,
            Err(error) if error.is_corrupt() || error.is_io() => Found::Damaged,
            Err(_) => Found::OutOfReach,
        };
        drawn.note(place, &found);
        found
    }

    /// A damaged chunk, or one out of reach, hides those below it.
    fn highest_cells(
        &self,
        place: ChunkPos,
        z_down: bool,
        painter: &Painter<'_>,
        drawn: &mut Drawn,
    ) -> Content {
        let column = self.columns.column(place.x, place.y);
        let highest_first: &mut dyn Iterator<Item = &ChunkPos> =
            if z_down { &mut column.iter() } else { &mut column.iter().rev() };
        let mut surface: Option<Surface<'_>> = None;
        for pos in highest_first {
            match self.find(*pos, drawn) {
                Found::Missing => {}
                Found::Damaged => return Content::Damaged,
                Found::OutOfReach => return Content::OutOfReach,
                Found::Stored(chunk) => {
                    let surface = surface.get_or_insert_with(|| Surface::new(painter, z_down));
                    surface.add(&chunk);
                    if surface.open == 0 {
                        break;
                    }
                }
            }
        }
        surface.map_or(Content::Missing, |surface| Content::Cells(surface.colours()))
    }
}

/// A column of cells, as far as it is known.
#[derive(Clone, Copy)]
enum Top {
    /// Nothing but empty cells.
    Open,
    /// Nothing but empty cells, and cells that only the generator knows.
    Unknown,
    Seen(Rgb),
}

/// The highest cells of all columns of a chunk.
struct Surface<'p> {
    painter: &'p Painter<'p>,
    z_down: bool,
    /// The value of cells that are looked through.
    nothing: u32,
    tops: Vec<Top>,
    /// Columns of which nothing is seen yet.
    open: usize,
}

impl<'p> Surface<'p> {
    fn new(painter: &'p Painter<'p>, z_down: bool) -> Self {
        let area = painter.size * painter.size;
        let nothing = painter.solid.value(&painter.default);
        Self { painter, z_down, nothing, tops: vec![Top::Open; area], open: area }
    }

    /// Looks at the next chunk below.
    fn add(&mut self, chunk: &StoredChunk) {
        match chunk {
            StoredChunk::Empty => {}
            StoredChunk::Full(stored) => self.add_full(stored),
            StoredChunk::Delta(delta) => {
                self.add_delta(delta);
                self.tops
                    .iter_mut()
                    .filter(|top| matches!(top, Top::Open))
                    .for_each(|top| *top = Top::Unknown);
            }
        }
    }

    fn add_full(&mut self, stored: &[u8]) {
        let bytes = self.painter.cell_bytes;
        let layer_bytes = self.tops.len() * bytes;
        let depth = stored.len() / layer_bytes.max(1);
        for number in 0..depth {
            if self.open == 0 {
                return;
            }
            let layer = if self.z_down { number } else { depth - 1 - number };
            let cells = stored[layer * layer_bytes..][..layer_bytes].chunks_exact(bytes);
            cells.enumerate().for_each(|(column, cell)| self.see(column, cell));
        }
    }

    /// Runs of a delta are in order, and so are their cells.
    fn add_delta(&mut self, delta: &Delta) {
        let cells = delta.cells.chunks_exact(self.painter.cell_bytes);
        let places = || delta.runs.iter().map(|(start, len)| *start..start.saturating_add(*len));
        let area = self.tops.len();
        if self.z_down {
            places().flatten().zip(cells).for_each(|(place, cell)| self.see(place as usize % area, cell));
        } else {
            let places = places().rev().flat_map(Iterator::rev);
            places.zip(cells.rev()).for_each(|(place, cell)| self.see(place as usize % area, cell));
        }
    }

    fn see(&mut self, column: usize, cell: &[u8]) {
        let top = &mut self.tops[column];
        if !matches!(top, Top::Seen(_)) && self.painter.solid.value(cell) != self.nothing {
            *top = Top::Seen(self.painter.colour(cell));
            self.open -= 1;
        }
    }

    fn colours(&self) -> Vec<Rgb> {
        let nothing = self.painter.colour(&self.painter.default);
        let colour = |top: &Top| match top {
            Top::Open => nothing,
            Top::Unknown => NEUTRAL,
            Top::Seen(colour) => *colour,
        };
        self.tops.iter().map(colour).collect()
    }
}
