//! A new beginning of a world.

use bonfire::Result;

use super::ChunkWorld;
use crate::format::FrameKind;
use crate::{ChunkRect, CommitReport, Durability};

impl ChunkWorld {
    /// Removes every chunk, damaged ones too, with all bodies and entities, in one step. The world is as the generator makes it
    /// again. Seed, settings and pins stay.
    pub fn clear(&self) -> Result<CommitReport> {
        const KINDS: [FrameKind; 6] = [
            FrameKind::Chunk,
            FrameKind::Bodies,
            FrameKind::Snapshot,
            FrameKind::DamagedChunk,
            FrameKind::DamagedBodies,
            FrameKind::DamagedSnapshot,
        ];
        let mut edit = self.edit();
        for pos in KINDS.into_iter().flat_map(|kind| self.inner.frames.positions(kind, &ChunkRect::ALL)) {
            edit.remove(pos);
        }
        edit.commit(Durability::Synced)
    }
}
