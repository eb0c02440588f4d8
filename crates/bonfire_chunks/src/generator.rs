//! Chunks that nobody has changed are not stored: the game can make them again.

use crate::ChunkPos;

/// Makes the chunks of a world that nobody has changed. The same place must always give the same cells.
///
/// With a generator, a chunk that was changed is stored as what is different, if that is smaller. Such a chunk can only be
/// read by the version of the generator that it was saved with: count [`version`](Self::version) up whenever the
/// generator would make anything else than before.
pub trait Generator: Send + Sync {
    /// Fills `cells`, row by row. They come with the default of every layer.
    fn generate(&self, pos: ChunkPos, cells: &mut [u8]);

    /// Which generator this is. Default: 0.
    fn version(&self) -> u32 {
        0
    }

    /// Fills `cells` as an earlier version did, for chunks that were saved with it. False if it cannot: then such chunks are not
    /// read, and stay as they are. Default: false.
    fn generate_as(&self, version: u32, pos: ChunkPos, cells: &mut [u8]) -> bool {
        let _ = (version, pos, cells);
        false
    }
}

impl<F: Fn(ChunkPos, &mut [u8]) + Send + Sync> Generator for F {
    fn generate(&self, pos: ChunkPos, cells: &mut [u8]) {
        self(pos, cells);
    }
}
