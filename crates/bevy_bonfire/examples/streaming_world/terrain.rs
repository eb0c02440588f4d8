//! The ground: materials, hills, caves and trees of a seed, and the cells of the chunks that are active.

use bevy_bonfire::chunks::{
    ChunkAt, ChunkCells, ChunkOptions, ChunkPos, ChunkWorld, Chunks, Layer, Layers, Persistence, WorldShape,
};
use bevy_ecs::prelude::*;
use bevy_ecs::system::SystemParam;

/// Cells along an edge of a chunk. A cell is one unit of the world.
pub(crate) const SIZE: u32 = 32;

/// The default of the layer. Bodies are drawn over it only.
pub(crate) const AIR: u8 = 0;
pub(crate) const STONE: u8 = 1;
pub(crate) const DIRT: u8 = 2;
pub(crate) const SAND: u8 = 3;
pub(crate) const WOOD: u8 = 4;
pub(crate) const LEAVES: u8 = 5;
pub(crate) const PLANK: u8 = 6;
pub(crate) const GOLD: u8 = 7;
pub(crate) const NAMES: [&str; 8] = ["air", "stone", "dirt", "sand", "wood", "leaves", "plank", "gold"];

/// The game moves these and never destroys them. So their sum is the same in every file, also after a crash.
pub(crate) const KEPT: [u8; 2] = [SAND, WOOD];

/// Cells by material.
pub(crate) type Counts = [u64; NAMES.len()];

pub(crate) fn count(cells: &[u8]) -> Counts {
    let mut counts = Counts::default();
    cells.iter().for_each(|material| counts[usize::from(*material)] += 1);
    counts
}

/// Opens the world of chunks, or makes it.
pub(crate) fn open(path: &std::path::Path, seed: u64) -> bevy_bonfire::Result<ChunkWorld> {
    let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    ChunkOptions::new(layers).chunk_size(SIZE as u16).new_world_seed(seed).generator(generate).open(path)
}

/// Fills a chunk as it is before any change.
pub(crate) fn generate(world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
    let corner = [pos.x, pos.y].map(|along| along * SIZE as i32);
    for x in 0..SIZE {
        let column = Column::new(world.seed, corner[0] + x as i32);
        for y in 0..SIZE {
            cells[(y * SIZE + x) as usize] = column.material(corner[1] + y as i32);
        }
    }
}

/// A number that depends on the seed and a place alone.
pub(crate) fn hash(seed: u64, place: [i32; 2]) -> u64 {
    let [x, y] = place.map(|along| u64::from(along.cast_unsigned()));
    let mut mixed = seed ^ (x << 32 | y).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for factor in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        mixed = (mixed ^ (mixed >> 31)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 29)
}

/// A smooth number from 0 to 1, with a hill every `width` cells.
fn noise(seed: u64, [x, y]: [i32; 2], width: i32) -> f32 {
    let at = |dx, dy| {
        let number = hash(seed ^ width as u64, [x.div_euclid(width) + dx, y.div_euclid(width) + dy]);
        (number % 1024) as f32 / 1023.0
    };
    let [along, up] = [x, y].map(|cell| cell.rem_euclid(width) as f32 / width as f32);
    let [along, up] = [along, up].map(|part| part * part * (3.0 - 2.0 * part));
    let row = |dy| at(0, dy) + (at(1, dy) - at(0, dy)) * along;
    row(0) + (row(1) - row(0)) * up
}

/// The lowest cell of air above a column of ground.
pub(crate) fn ground(seed: u64, x: i32) -> i32 {
    (noise(seed, [x, 0], 50) * 24.0 + noise(seed, [x, 0], 14) * 6.0) as i32 - 4
}

/// A tree: its left column, the lowest cell, and the height of the trunk.
#[derive(Clone, Copy)]
pub(crate) struct Tree {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) height: i32,
}

impl Tree {
    /// The tree in the middle of a strip of 32 columns, on the border of two chunks. Some strips have none.
    pub(crate) fn of(seed: u64, strip: i32) -> Option<Self> {
        let number = hash(seed ^ 77, [strip, 0]);
        let x = strip * 32 + 31;
        let y = ground(seed, x).min(ground(seed, x + 1));
        (!number.is_multiple_of(4)).then_some(Self { x, y, height: 11 + (number >> 8) as i32 % 4 })
    }

    /// The strip of a column.
    pub(crate) fn strip(x: i32) -> i32 {
        (x - 16).div_euclid(32)
    }

    /// The corners of everything that may belong to it.
    pub(crate) fn bounds(&self) -> ([i32; 2], [i32; 2]) {
        ([self.x - 4, self.y], [self.x + 5, self.y + self.height + 4])
    }

    fn material(&self, x: i32, y: i32) -> u8 {
        let (dx, dy) = (2 * (x - self.x) - 1, 2 * (y - self.y - self.height));
        match () {
            () if (self.x..self.x + 2).contains(&x) && (0..self.height).contains(&(y - self.y)) => WOOD,
            () if dx * dx + dy * dy <= 64 => LEAVES,
            () => AIR,
        }
    }
}

/// A column of the generated world.
struct Column {
    seed: u64,
    x: i32,
    ground: i32,
    tree: Option<Tree>,
}

impl Column {
    fn new(seed: u64, x: i32) -> Self {
        Self { seed, x, ground: ground(seed, x), tree: Tree::of(seed, Tree::strip(x)) }
    }

    fn material(&self, y: i32) -> u8 {
        let (x, depth) = (self.x, self.ground - y);
        let part = |salt, width| noise(self.seed ^ salt, [x, y], width);
        match () {
            () if depth <= 0 => self.tree.map_or(AIR, |tree| tree.material(x, y)),
            () if part(1, 16) > 0.68 => SAND,
            () if depth <= 3 => DIRT,
            () if part(2, 14) > 0.66 => AIR,
            () if part(3, 6) > 0.8 => GOLD,
            () => STONE,
        }
    }
}

/// A cell of an active chunk.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) material: u8,
    /// It belongs to a body that was drawn here.
    pub(crate) is_drawn: bool,
}

/// The cells of all chunks that are active, by their place in the world.
#[derive(SystemParam)]
pub(crate) struct Ground<'w, 's> {
    pub(crate) chunks: ResMut<'w, Chunks>,
    pub(crate) cells: Query<'w, 's, (&'static ChunkAt, &'static mut ChunkCells)>,
}

/// The chunk of a cell, and the place of the cell in it.
pub(crate) fn split(cell: [i32; 2]) -> (ChunkPos, [u32; 2]) {
    let [x, y] = cell.map(|along| along.div_euclid(SIZE as i32));
    (ChunkPos::new(x, y), cell.map(|along| along.rem_euclid(SIZE as i32).cast_unsigned()))
}

impl Ground<'_, '_> {
    /// Returns a cell. `None`: its chunk is not active.
    pub(crate) fn cell(&self, cell: [i32; 2]) -> Option<Cell> {
        let (pos, [x, y]) = split(cell);
        let entity = self.chunks.entity(pos).filter(|_| self.chunks.is_active(pos))?;
        let (_, chunk) = self.cells.get(entity).ok()?;
        Some(Cell { material: chunk.get(x, y)?[0], is_drawn: chunk.is_drawn(x, y) })
    }

    pub(crate) fn is_free(&self, cell: [i32; 2]) -> bool {
        self.cell(cell).is_some_and(|cell| cell.material == AIR)
    }

    pub(crate) fn set(&mut self, cell: [i32; 2], material: u8) {
        let (pos, [x, y]) = split(cell);
        if let Some((_, mut chunk)) =
            self.chunks.entity(pos).and_then(|entity| self.cells.get_mut(entity).ok())
        {
            chunk.set(x, y, &[material]).expect("cells of one byte, in a chunk of this size");
        }
    }
}
