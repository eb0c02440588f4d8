//! Chunks with everything in them, as of one moment.

use bonfire::Result;

use super::{ChunkWorld, World};
use crate::format::{FrameKey, FrameKind, FramePlace};
use crate::{Body, Chunk, ChunkPos};

/// Reads that a save of the same chunk may disturb. The next one keeps saves out.
const ATTEMPTS_MAX: usize = 8;

/// A chunk with its bodies and entities, as of one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WholeChunk {
    /// The cells, from the file or from the generator.
    pub chunk: Chunk,
    /// The bodies whose centre lies in the chunk.
    pub bodies: Vec<Body>,
    /// The snapshot of its entities, byte for byte as it was saved; `None` if there is none.
    pub entities: Option<Vec<u8>>,
}

impl ChunkWorld {
    /// Loads a chunk with its bodies and entities. All three are of one moment: a save is in all of them or in none. If a part
    /// cannot be read, the whole is an error, and the other calls read the rest.
    pub fn load_whole(&self, pos: impl Into<ChunkPos>) -> Result<WholeChunk> {
        let pos = pos.into();
        self.at_one_moment(pos, || {
            let (chunk, bodies) = (self.load(pos)?, self.read_bodies(pos)?);
            Ok(WholeChunk { chunk, bodies, entities: self.read_entities(pos)? })
        })
    }

    /// Reads several parts of a chunk, so that no save comes between them. Saves of other chunks do not disturb it.
    pub(crate) fn at_one_moment<T>(&self, pos: ChunkPos, read: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 0..ATTEMPTS_MAX {
            let before = self.inner.parts(pos);
            let result = read();
            if self.inner.parts(pos) == before {
                return result;
            }
        }
        let _turn = self.inner.commit_turn();
        read()
    }
}

/// The places of the parts of a chunk, and the number of times that the file was laid out anew. In a store that is no file: the
/// number of the last save.
type Parts = (u64, [Option<FramePlace>; 3]);

impl World {
    fn parts(&self, pos: ChunkPos) -> Parts {
        let Some(file) = self.frames.file() else {
            return (self.frames.store().stats().generation, [None; 3]);
        };
        let state = file.state();
        let place = |kind| state.indices.get(FrameKey::new(kind, pos));
        (state.moves, [FrameKind::Chunk, FrameKind::Bodies, FrameKind::Snapshot].map(place))
    }
}
