//! Marks of bodies and entities over the picture of a chunk.

use bonfire_chunks::{ChunkPos, ChunkWorld};

use super::palette::Rgb;

pub(super) const BODY: Rgb = [0xff, 0x4f, 0xd8];
pub(super) const ENTITIES: Rgb = [0xff, 0xe0, 0x3b];

/// Pixels along an edge of a chunk below which marks would hide it.
const PIXELS_MIN: usize = 4;

/// Bodies and entities of a picture.
#[derive(Default)]
pub(super) struct Marks {
    pub(super) bodies: usize,
    pub(super) chunks_with_entities: usize,
    /// Chunks whose bodies are damaged.
    pub(super) damaged: Vec<ChunkPos>,
    pub(super) out_of_reach: usize,
}

/// The place of a chunk in rows of pixels.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) left: usize,
    /// Bytes of a row.
    pub(super) stride: usize,
    /// Pixels along an edge.
    pub(super) pixels: usize,
    /// Cells along an edge.
    pub(super) size: u32,
    pub(super) y_down: bool,
}

impl Tile {
    fn put(&self, target: &mut [u8], x: usize, y: usize, colour: Rgb) {
        if x < self.pixels && y < self.pixels {
            let at = y * self.stride + (self.left + x) * 3;
            target[at..at + 3].copy_from_slice(&colour);
        }
    }

    /// The pixel of a place in the world.
    fn pixel(&self, pos: ChunkPos, position: [f32; 2]) -> (usize, usize) {
        let local = |at: f32, chunk: i32| {
            let cells = f64::from(at) - f64::from(chunk) * f64::from(self.size);
            let pixel = cells * self.pixels as f64 / f64::from(self.size);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a pixel of the chunk"
            )]
            let pixel = pixel.clamp(0.0, (self.pixels - 1) as f64) as usize;
            pixel
        };
        let (x, y) = (local(position[0], pos.x), local(position[1], pos.y));
        (x, if self.y_down { y } else { self.pixels - 1 - y })
    }
}

impl Marks {
    /// Draws a plus at each body.
    pub(super) fn draw_bodies(&mut self, world: &ChunkWorld, pos: ChunkPos, tile: Tile, target: &mut [u8]) {
        let bodies = match world.read_bodies(pos) {
            Ok(bodies) => bodies,
            Err(error) if error.is_corrupt() || error.is_io() => return self.damaged.push(pos),
            Err(_) => {
                self.out_of_reach += 1;
                return;
            }
        };
        self.bodies += bodies.len();
        for body in bodies.iter().filter(|_| tile.pixels >= PIXELS_MIN) {
            let (x, y) = tile.pixel(pos, body.position);
            let around = [(x.wrapping_sub(1), y), (x + 1, y), (x, y.wrapping_sub(1)), (x, y + 1)];
            tile.put(target, x, y, BODY);
            // A plus needs room.
            for (x, y) in around.into_iter().filter(|_| tile.pixels >= 4 * PIXELS_MIN) {
                tile.put(target, x, y, BODY);
            }
        }
    }

    /// Draws a square in the lower right corner of a chunk with entities: only the game knows where they are in it.
    pub(super) fn draw_entities(&mut self, tile: Tile, target: &mut [u8]) {
        self.chunks_with_entities += 1;
        if tile.pixels < PIXELS_MIN {
            return;
        }
        let edge = (tile.pixels / 8).clamp(1, 6);
        let corner = tile.pixels - edge..tile.pixels;
        for (x, y) in corner.clone().flat_map(|y| corner.clone().map(move |x| (x, y))) {
            tile.put(target, x, y, ENTITIES);
        }
    }
}
