//! Two releases of a game: one dimension, and three of them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use bonfire_chunks::{
    ChunkOptions, ChunkPos, ChunkWorld, Dimension, Durability, Layer, Layers, MemoryDisk, OpenReport,
    Persistence,
};
use bonfire_store::disk::{Access, Disk};
use bonfire_testkit::disk::Random;

use crate::support::{self, layers};

pub const NAME: &str = "world.save";
pub const CUBES: u32 = 3;
pub const CUBE_BYTES: usize = 4 * 4 * 4;
pub const SQUARES: u32 = 4;

pub fn gas() -> Layers {
    Layers::new().with(Layer::new("gas", 1).persistence(Persistence::Always))
}

/// A game of one dimension, and the next release of it.
pub fn first_release() -> ChunkOptions {
    support::options()
}

pub fn next_release() -> ChunkOptions {
    let cubes = Dimension::new(gas()).chunk_size(4).tile_size(2).three_dimensional().new_world_seed(666);
    first_release().dimension(CUBES, cubes).dimension(SQUARES, Dimension::new(layers()).chunk_size(16))
}

pub fn open(options: &ChunkOptions, disk: &MemoryDisk, access: Access) -> ChunkWorld {
    let world = options.open_on(disk.clone(), NAME, access).unwrap();
    assert_eq!(world.report(), &OpenReport::default());
    world
}

pub fn bytes(disk: &MemoryDisk) -> Vec<u8> {
    let file = disk.open(NAME, Access::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub fn version(disk: &MemoryDisk) -> u8 {
    bytes(disk)[4]
}

pub fn cube(x: i32, y: i32, z: i32) -> ChunkPos {
    ChunkPos::new_3d(x, y, z).in_dimension(CUBES)
}

pub fn gas_of(age: u64) -> Vec<u8> {
    Random::new(age).bytes(CUBE_BYTES)
}

pub fn put(world: &ChunkWorld, pos: impl Into<ChunkPos>, cells: Vec<u8>) {
    world.edit().put(pos, cells).commit(Durability::Synced).unwrap();
}
