//! The file as a store of frames.

use bonfire::Result;

use super::chunk_file::ChunkFile;
use crate::format::{FrameKey, FrameKind, FrameTag};
use crate::frames::{Committed, FrameChange, FrameStats, FrameStore};
use crate::{ChunkPos, ChunkRect, Durability};

impl FrameStore for ChunkFile {
    fn read(&self, key: FrameKey, use_it: &mut dyn FnMut(FrameTag, &[u8]) -> Result<()>) -> Result<bool> {
        Ok(self.read(key, use_it)?.is_some())
    }

    fn tag(&self, key: FrameKey) -> Option<FrameTag> {
        self.state().indices.get(key).map(|place| place.tag)
    }

    fn list(&self, kind: FrameKind, rect: &ChunkRect) -> Vec<(ChunkPos, FrameTag)> {
        let found = self.state().indices.of(kind).range(rect);
        found.into_iter().map(|(pos, place)| (pos, place.tag)).collect()
    }

    fn count(&self, kind: FrameKind) -> usize {
        self.state().indices.of(kind).len()
    }

    fn commit(&self, change: FrameChange, durability: Durability) -> Result<Committed> {
        if !change.is_empty() {
            return self.commit(change, durability);
        }
        if durability == Durability::Synced {
            self.flush_buffered()?;
        }
        Ok(Committed { generation: self.state().generation, bytes: 0 })
    }

    fn is_writable(&self) -> bool {
        self.is_writable()
    }

    fn stats(&self) -> FrameStats {
        let state = self.state();
        FrameStats {
            generation: state.generation,
            bytes: state.file_bytes(),
            dead_bytes: state.dead_bytes(),
            index_bytes: state.indices.memory_bytes(),
        }
    }

    fn close(&self) -> Result<()> {
        self.close(None)
    }

    fn refresh(&self) -> Result<()> {
        self.refresh()
    }
}
