//! Unchanged chunks are not stored: the game can make them again.

use crate::{ChunkPos, Layers};

/// The world that a generator makes chunks of.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WorldShape<'w> {
    /// The seed of the world, as the file has it.
    pub seed: u64,
    /// Cells along an edge of a chunk.
    pub chunk_size: u32,
    /// The layers of a cell, as the game has them.
    pub layers: &'w Layers,
    /// The number of the dimension.
    pub dimension: u32,
    /// Chunks are cubes, whose cells come layer by layer (`z`), each row by row.
    pub is_three_dimensional: bool,
}

impl<'w> WorldShape<'w> {
    /// The shape of a world, to call a generator without one.
    pub fn new(seed: u64, chunk_size: u32, layers: &'w Layers) -> Self {
        Self { seed, chunk_size, layers, dimension: 0, is_three_dimensional: false }
    }
}

/// Makes the unchanged chunks of a world. The same world and the same position must always give the same cells.
///
/// With a generator, a chunk that was changed is stored as its difference, if that is smaller. Such a chunk can only be read
/// with the generator that it was saved with. So the file keeps the seed, the [`name`](Self::name) and the
/// [`version`](Self::version), and refuses others.
///
/// ```
/// use bonfire_chunks::{ChunkPos, Generator, WorldShape};
///
/// struct Plains;
///
/// impl Generator for Plains {
///     fn generate(&self, world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
///         let height = (world.seed % 7) as i32;
///         cells.fill(u8::from(pos.y < height));
///     }
///     fn name(&self) -> &str {
///         "game.plains"
///     }
///     fn version(&self) -> u32 {
///         1
///     }
/// }
/// ```
pub trait Generator: Send + Sync {
    /// Fills `cells`, row by row. They come with the default of every layer.
    fn generate(&self, world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]);

    /// The name of this generator among those of the game, 255 bytes at most. A world refuses a generator with another name. One
    /// without a stored name takes the name with its next save. Default: empty, for a game with one generator.
    fn name(&self) -> &str {
        ""
    }

    /// The version of this generator. Raise it whenever the generator would make other cells than before. Default: 0.
    fn version(&self) -> u32 {
        0
    }

    /// Fills `cells` as an earlier version did, for chunks that were saved with it. False if it cannot: then such chunks cannot be
    /// read, and stay as they are. Default: false.
    fn generate_as(&self, version: u32, world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) -> bool {
        let _ = (version, world, pos, cells);
        false
    }
}

impl<F: Fn(&WorldShape<'_>, ChunkPos, &mut [u8]) + Send + Sync> Generator for F {
    fn generate(&self, world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
        self(world, pos, cells);
    }
}
