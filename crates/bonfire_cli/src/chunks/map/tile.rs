//! The picture of one chunk.

use bonfire_chunks::{StoredChunk, StoredLayer};

use super::palette::{Palette, Rgb};

/// Under cells that nobody has changed: only the game knows what they are.
pub(super) const NEUTRAL: Rgb = [0x3b, 0x3d, 0x45];
const CHECKER: [Rgb; 2] = [[0x1f, 0x21, 0x27], [0x24, 0x26, 0x2d]];
pub(super) const CROSS: Rgb = [0xff, 0x3b, 0x30];
const WRECK: Rgb = [0x3a, 0x12, 0x16];
const HATCH: Rgb = [0x6a, 0x5a, 0x2c];

/// The contents of a square of the picture.
pub(super) enum Content {
    /// Nothing of it is in the file.
    Missing,
    Damaged,
    /// It needs a key, or code of the game.
    OutOfReach,
    /// The colour of every cell, row by row.
    Cells(Vec<Rgb>),
}

/// Where in a stored cell a layer lies.
#[derive(Clone, Copy)]
pub(super) struct Span {
    start: usize,
    bytes: usize,
}

impl Span {
    pub(super) fn of(layers: &[StoredLayer], name: &str) -> Option<Self> {
        let at = layers.iter().position(|layer| layer.name() == name)?;
        let start = layers[..at].iter().map(StoredLayer::bytes).sum();
        Some(Self { start, bytes: layers[at].bytes() })
    }

    /// The value in a cell. Of more than four bytes the first four count.
    pub(super) fn value(self, cell: &[u8]) -> u32 {
        let bytes = &cell[self.start..][..self.bytes.min(4)];
        bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
    }
}

/// How chunks become pixels.
pub(super) struct Painter<'p> {
    pub(super) palette: &'p Palette,
    pub(super) material: Span,
    /// The layer that says which cells are nothing, and looked through from above: those with its default.
    pub(super) solid: Span,
    pub(super) shade: Option<Span>,
    /// Bytes of a stored cell.
    pub(super) cell_bytes: usize,
    /// Cells along an edge.
    pub(super) size: usize,
    /// Pixels along an edge.
    pub(super) pixels: usize,
    /// The first row of cells is the highest.
    pub(super) y_down: bool,
    /// A stored cell whose layers all have their defaults.
    pub(super) default: Vec<u8>,
}

impl Painter<'_> {
    /// Paints a chunk into rows of `stride` bytes, from the top.
    pub(super) fn paint(&self, content: &Content, target: &mut [u8], left: usize, stride: usize) {
        let mut put = |x: usize, y: usize, colour: Rgb| {
            let at = y * stride + (left + x) * 3;
            target[at..at + 3].copy_from_slice(&colour);
        };
        let all = (0..self.pixels).flat_map(|y| (0..self.pixels).map(move |x| (x, y)));
        match content {
            Content::Missing => {
                let field = (self.pixels / 8).max(1);
                all.for_each(|(x, y)| put(x, y, CHECKER[(x / field + y / field) % 2]));
            }
            Content::Damaged => {
                let (last, thick) = (self.pixels.saturating_sub(1), self.pixels / 12);
                let is_on = |x: usize, y: usize| x.abs_diff(y) <= thick || x.abs_diff(last - y) <= thick;
                all.for_each(|(x, y)| put(x, y, if is_on(x, y) { CROSS } else { WRECK }));
            }
            Content::OutOfReach => {
                let field = (self.pixels / 8).max(2);
                all.for_each(|(x, y)| put(x, y, if (x + y) % field == 0 { HATCH } else { NEUTRAL }));
            }
            Content::Cells(colours) => all.for_each(|(x, y)| put(x, y, self.pixel(colours, x, y))),
        }
    }

    /// Returns the colour of every cell of one layer of cells; a chunk with two coordinates has layer 0 alone.
    pub(super) fn layer(&self, chunk: &StoredChunk, layer: usize) -> Vec<Rgb> {
        let cells = self.size * self.size;
        match chunk {
            StoredChunk::Empty => vec![self.colour(&self.default); cells],
            StoredChunk::Full(stored) => {
                let stored = stored.chunks_exact(self.cell_bytes).skip(layer * cells).take(cells);
                stored.map(|cell| self.colour(cell)).collect()
            }
            StoredChunk::Delta(delta) => {
                let mut colours = vec![NEUTRAL; cells];
                let places = delta.runs.iter().flat_map(|(start, len)| *start..start.saturating_add(*len));
                for (place, cell) in places.zip(delta.cells.chunks_exact(self.cell_bytes)) {
                    let at = usize::try_from(place).ok().and_then(|place| place.checked_sub(layer * cells));
                    if let Some(colour) = at.and_then(|at| colours.get_mut(at)) {
                        *colour = self.colour(cell);
                    }
                }
                colours
            }
        }
    }

    pub(super) fn colour(&self, cell: &[u8]) -> Rgb {
        let colour = self.palette.colour(self.material.value(cell));
        let Some(shade) = self.shade else { return colour };
        // From 7/8 to 9/8 of the brightness, by the lowest byte.
        let shade = shade.value(cell) & 0xFF;
        colour.map(|channel| u8::try_from(u32::from(channel) * (896 + shade) / 1024).unwrap_or(u8::MAX))
    }

    /// A pixel: one cell, or the mean of all cells that it covers.
    fn pixel(&self, colours: &[Rgb], x: usize, y: usize) -> Rgb {
        let (size, pixels) = (self.size, self.pixels);
        let covered = |pixel: usize| {
            let start = pixel * size / pixels;
            start..((pixel + 1) * size / pixels).clamp(start + 1, size.max(start + 1))
        };
        let row = if self.y_down { y } else { pixels - 1 - y };
        let (columns, rows) = (covered(x), covered(row));
        let cell = |x: usize, y: usize| colours.get(y * size + x).copied().unwrap_or(NEUTRAL);
        if columns.len() == 1 && rows.len() == 1 {
            return cell(columns.start, rows.start);
        }
        // Light adds up in squares, more or less.
        let mut sums = [0_u64; 3];
        for y in rows.clone() {
            for x in columns.clone() {
                let colour = cell(x, y);
                sums.iter_mut().zip(colour).for_each(|(sum, channel)| *sum += u64::from(channel).pow(2));
            }
        }
        let count = (columns.len() * rows.len()) as u64;
        sums.map(|sum| u8::try_from((sum / count).isqrt()).unwrap_or(u8::MAX))
    }
}
