//! A picture of the window: one square per chunk, coloured by its phase.

use super::{ChunkPhase, ChunkStream};
use crate::ChunkPos;

/// Pixels along an edge of a square, of which the last row and column are a gap.
const SQUARE: u32 = 9;
const GAP: u32 = 1;
/// Chunks farther than this from the middle are not drawn.
const REACH_MAX: u32 = 128;

/// A picture of a window, for overlays and bug reports: one square per chunk, coloured by its [phase](ChunkPhase).
///
/// | mark | meaning |
/// |---|---|
/// | white dot in the middle | a focus |
/// | yellow edge | a ticket |
///
/// The top row of squares has the largest `y`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowPicture {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
    /// Three bytes for each pixel (red, green, blue), row by row from the top.
    pub pixels: Vec<u8>,
    /// The chunk of the square at the top left.
    pub corner: ChunkPos,
}

impl WindowPicture {
    /// The colour between the squares, and of places without a chunk.
    pub const BACKGROUND: [u8; 3] = [24, 24, 28];
    /// The colour of a focus.
    pub const FOCUS: [u8; 3] = [255, 255, 255];
    /// The colour of a ticket.
    pub const TICKET: [u8; 3] = [255, 220, 60];

    /// Returns the colour of a phase.
    pub fn color(phase: ChunkPhase) -> [u8; 3] {
        match phase {
            ChunkPhase::Queued => [70, 74, 84],
            ChunkPhase::Loading => [40, 104, 190],
            ChunkPhase::Staged => [110, 190, 230],
            ChunkPhase::Active => [60, 160, 80],
            ChunkPhase::Saving => [220, 140, 50],
            ChunkPhase::Failed => [210, 50, 50],
        }
    }

    /// Returns the pixel of a column and a row. `None` outside of the picture.
    pub fn pixel(&self, x: u32, y: u32) -> Option<[u8; 3]> {
        let at = (x < self.width && y < self.height).then(|| self.offset(x, y))?;
        self.pixels.get(at..)?.first_chunk().copied()
    }

    /// Returns the pixel in the middle of a chunk's square. `None`: the picture does not show the chunk.
    pub fn middle_of(&self, pos: impl Into<ChunkPos>) -> Option<(u32, u32)> {
        let (left, top) = self.square(pos.into())?;
        Some((left + (SQUARE - GAP) / 2, top + (SQUARE - GAP) / 2))
    }

    fn empty(min: ChunkPos, max: ChunkPos) -> Self {
        let (columns, rows) = (max.x.abs_diff(min.x) + 1, max.y.abs_diff(min.y) + 1);
        let (width, height) = (columns * SQUARE + GAP, rows * SQUARE + GAP);
        let pixels = Self::BACKGROUND.repeat(width as usize * height as usize);
        Self { width, height, pixels, corner: ChunkPos { y: max.y, ..min } }
    }

    /// The pixel at the top left of a chunk's square.
    fn square(&self, pos: ChunkPos) -> Option<(u32, u32)> {
        let is_here = pos.dimension == self.corner.dimension && pos.z == self.corner.z;
        if !is_here || pos.x < self.corner.x || pos.y > self.corner.y {
            return None;
        }
        let place = |along: u32| along.checked_mul(SQUARE)?.checked_add(GAP);
        let (left, top) = (place(pos.x.abs_diff(self.corner.x))?, place(pos.y.abs_diff(self.corner.y))?);
        (left < self.width && top < self.height).then_some((left, top))
    }

    fn offset(&self, x: u32, y: u32) -> usize {
        (y as usize * self.width as usize + x as usize) * 3
    }

    /// Draws a square of a colour, so many pixels inside of a chunk's square.
    fn fill(&mut self, pos: ChunkPos, inside: u32, color: [u8; 3]) {
        let Some((left, top)) = self.square(pos) else { return };
        for y in inside..SQUARE - GAP - inside {
            for x in inside..SQUARE - GAP - inside {
                let at = self.offset(left + x, top + y);
                self.pixels[at..at + 3].copy_from_slice(&color);
            }
        }
    }
}

impl<P: Send + 'static> ChunkStream<P> {
    /// Draws the window of a dimension. With three coordinates it is the layer of the first focus there, or of the lowest
    /// chunk. `None`: the dimension has no chunk in the window.
    pub fn picture(&self, dimension: u32) -> Option<WindowPicture> {
        let focus = self.focuses().map(|focus| focus.chunk).find(|pos| pos.dimension == dimension);
        let is_near = |pos: ChunkPos, middle: ChunkPos| {
            pos.x.abs_diff(middle.x) <= REACH_MAX && pos.y.abs_diff(middle.y) <= REACH_MAX
        };
        let here = || self.phases().filter(|(pos, _)| pos.dimension == dimension);
        let middle = focus.or_else(|| here().map(|(pos, _)| pos).min_by_key(|pos| (pos.z, pos.y, pos.x)))?;
        let mut shown: Vec<(ChunkPos, ChunkPhase)> =
            here().filter(|(pos, _)| pos.z == middle.z && is_near(*pos, middle)).collect();
        shown.sort_unstable_by_key(|(pos, _)| *pos);
        let (min, max) = bounds(shown.iter().map(|(pos, _)| *pos))?;
        let mut picture = WindowPicture::empty(min, max);
        for (pos, phase) in &shown {
            picture.fill(*pos, 0, WindowPicture::color(*phase));
        }
        for (pos, _) in self.tickets() {
            if let Some((_, phase)) = shown.iter().find(|(known, _)| *known == pos) {
                picture.fill(pos, 0, WindowPicture::TICKET);
                picture.fill(pos, 1, WindowPicture::color(*phase));
            }
        }
        for focus in self.focuses() {
            picture.fill(focus.chunk, 3, WindowPicture::FOCUS);
        }
        Some(picture)
    }
}

/// The smallest rectangle around some chunks of one layer.
fn bounds(mut places: impl Iterator<Item = ChunkPos>) -> Option<(ChunkPos, ChunkPos)> {
    let first = places.next()?;
    let grow = |(min, max): (ChunkPos, ChunkPos), pos: ChunkPos| {
        let low = ChunkPos { x: min.x.min(pos.x), y: min.y.min(pos.y), ..min };
        let high = ChunkPos { x: max.x.max(pos.x), y: max.y.max(pos.y), ..max };
        (low, high)
    };
    Some(places.fold((first, first), grow))
}
