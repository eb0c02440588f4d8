//! Pictures of the world around a place, and a strip of several of them.

use std::io::BufWriter;
use std::path::Path;

use bevy_bonfire::chunks::{ChunkCells, Chunks};
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;

use super::books::Books;
use super::creatures::Firefly;
use super::script::Player;
use super::terrain::{AIR, DIRT, NAMES, ground, hash, split};

/// Cells from side to side and from bottom to top, and pixels along an edge of a cell.
const WIDTH: i32 = 88;
const HEIGHT: i32 = 60;
const SCALE: usize = 4;
/// Pixels between the pictures of a strip.
const GAP: usize = 6;

const UNLOADED: u8 = 0;
const CAVE: u8 = 1;
const GRASS: u8 = 2;
const GLOW: u8 = 3;
const LIGHT: u8 = 4;
const COAT: u8 = 5;
const FACE: u8 = 6;
const SKY: u8 = 7;
const SHADES_OF_SKY: usize = 8;
/// Two shades of each material, for the ground and then for bodies.
const GROUND: u8 = SKY + SHADES_OF_SKY as u8;
const BODY: u8 = GROUND + 2 * NAMES.len() as u8;
const EDGE: u8 = BODY + 2 * NAMES.len() as u8;

const FIRST: [u32; 7] = [0x12141A, 0x2B2420, 0x6FA84B, 0x8F9A54, 0xFBFFA8, 0xD8434E, 0xF6D7B8];
const DUSK: [u32; SHADES_OF_SKY] =
    [0xE79A6B, 0xC9807A, 0xA66E85, 0x84608A, 0x665489, 0x4D4880, 0x393C72, 0x2A3161];
/// In the order of `NAMES`.
const OF_GROUND: [u32; NAMES.len()] =
    [0, 0x666B78, 0x7B5238, 0xDDBE6C, 0x83562C, 0x3C8A4C, 0xB98248, 0xF2C230];
const OF_BODIES: [u32; NAMES.len()] =
    [0, 0xB4BCCB, 0x9A6B4A, 0xEBD08A, 0xB3763B, 0x62B96B, 0xDFA05C, 0xFFDC4E];

const OF_EDGES: [u32; NAMES.len()] =
    [0, 0x3E434E, 0x4A3020, 0x8A7234, 0x6B3F18, 0x26592F, 0x5E3714, 0x8F6A0C];

/// A picture with a palette.
pub(crate) struct Picture {
    width: usize,
    pixels: Vec<u8>,
}

fn palette() -> Vec<u8> {
    let shades = |color: u32| {
        let darker = |part: u32| (part * 15 / 16) & 0xFF;
        let dark = darker(color >> 16 & 0xFF) << 16 | darker(color >> 8 & 0xFF) << 8 | darker(color & 0xFF);
        [color, dark]
    };
    let materials = OF_GROUND.into_iter().chain(OF_BODIES).flat_map(shades);
    let colors = FIRST.into_iter().chain(DUSK).chain(materials).chain(OF_EDGES);
    colors.flat_map(|color| [(color >> 16) as u8, (color >> 8) as u8, color as u8]).collect()
}

impl Picture {
    /// Draws the world around a place.
    pub(crate) fn of(world: &mut World, [x, y]: [i32; 2]) -> Self {
        let (left, bottom) = (x - WIDTH / 2, y - HEIGHT / 2);
        let mut cells = vec![UNLOADED; (WIDTH * HEIGHT) as usize];
        let mut set = |[x, y]: [i32; 2], color: u8| {
            if (0..WIDTH).contains(&(x - left)) && (0..HEIGHT).contains(&(y - bottom)) {
                cells[((HEIGHT - 1 - y + bottom) * WIDTH + x - left) as usize] = color;
            }
        };
        for at in (bottom..bottom + HEIGHT).flat_map(|y| (left..left + WIDTH).map(move |x| [x, y])) {
            set(at, color(world, at));
        }
        let mut fireflies = world.query_filtered::<&Transform, With<Firefly>>();
        for place in fireflies.iter(world) {
            let [x, y] = [place.translation.x, place.translation.y].map(|along| along.floor() as i32);
            for at in [[x - 1, y], [x + 1, y], [x, y - 1], [x, y + 1]] {
                set(at, GLOW);
            }
            set([x, y], LIGHT);
        }
        let mut players = world.query_filtered::<&Transform, With<Player>>();
        for place in players.iter(world) {
            let [x, y] = [place.translation.x, place.translation.y].map(|along| along.floor() as i32);
            for (dx, dy) in (0..5).flat_map(|dy| (0..2).map(move |dx| (dx, dy - 2))) {
                set([x + dx, y + dy], if dy > 0 { FACE } else { COAT });
            }
        }
        let width = WIDTH as usize * SCALE;
        let pixel = |at: usize| cells[at / width / SCALE * WIDTH as usize + at % width / SCALE];
        Self { width, pixels: (0..cells.len() * SCALE * SCALE).map(pixel).collect() }
    }

    /// Puts pictures of one height side by side.
    pub(crate) fn strip(pictures: &[Self]) -> Self {
        let gaps = GAP * (pictures.len() - 1);
        let width = pictures.iter().map(|picture| picture.width).sum::<usize>() + gaps;
        let mut pixels = Vec::new();
        for row in 0..HEIGHT as usize * SCALE {
            for (number, picture) in pictures.iter().enumerate() {
                pixels.extend(vec![UNLOADED; if number == 0 { 0 } else { GAP }]);
                pixels.extend(&picture.pixels[row * picture.width..(row + 1) * picture.width]);
            }
        }
        Self { width, pixels }
    }

    /// Writes a PNG.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let file = BufWriter::new(std::fs::File::create(path)?);
        let height = (self.pixels.len() / self.width) as u32;
        let mut encoder = png::Encoder::new(file, self.width as u32, height);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_palette(palette());
        encoder.set_compression(png::Compression::High);
        encoder.write_header()?.write_image_data(&self.pixels)?;
        Ok(())
    }
}

/// The color of a cell.
fn color(world: &World, at: [i32; 2]) -> u8 {
    let Some((material, is_drawn)) = cell(world, at) else { return UNLOADED };
    let [x, y] = at;
    let shade = u8::from(hash(0, at).is_multiple_of(4));
    let seed = world.resource::<Books>().seed;
    let is = |dx, dy, wanted| cell(world, [x + dx, y + dy]).is_some_and(|found| found == wanted);
    let is_inside = [(-1, 0), (1, 0), (0, -1), (0, 1)]
        .iter()
        .all(|(dx, dy)| cell(world, [x + dx, y + dy]).is_none_or(|(_, is_drawn)| is_drawn));
    match material {
        AIR if y < ground(seed, x) => CAVE,
        AIR => SKY + ((y - 8) / 5).clamp(0, SHADES_OF_SKY as i32 - 1) as u8,
        _ if is_drawn && !is_inside => EDGE + material,
        _ if is_drawn => BODY + 2 * material + shade,
        DIRT if is(0, 1, (AIR, false)) && y + 1 >= ground(seed, x) => GRASS,
        _ => GROUND + 2 * material + shade,
    }
}

/// The material of a cell, and whether a body has drawn it. `None`: its chunk is not active.
fn cell(world: &World, at: [i32; 2]) -> Option<(u8, bool)> {
    let (pos, [x, y]) = split(at);
    let chunks = world.resource::<Chunks>();
    let chunk = chunks.entity(pos).filter(|_| chunks.is_active(pos))?;
    let cells = world.get::<ChunkCells>(chunk)?;
    Some((cells.get(x, y)?[0], cells.is_drawn(x, y)))
}
