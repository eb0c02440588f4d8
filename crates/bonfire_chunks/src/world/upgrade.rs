//! Upgrades of chunks that were saved with other layers, or by another generator.

use bonfire::Result;

use super::ChunkWorld;
use crate::format::{FrameKey, FrameKind};
use crate::{ChunkPos, ChunkRect, Durability};

/// An upgrade of a world in steps: see [`ChunkWorld::upgrade`].
#[derive(Debug)]
pub struct Upgrade {
    world: ChunkWorld,
    /// The frames that are to be saved anew, the next one last.
    left: Vec<FrameKey>,
}

impl ChunkWorld {
    /// Finds every chunk and every list of bodies that was saved with other layers, or by another generator, to save them as the
    /// game has them today, step by step. Without an upgrade that happens whenever a chunk is saved anyway. What a session leaves is
    /// found by the next one.
    pub fn upgrade(&self) -> Upgrade {
        let store = self.inner.frames.store();
        let mut left: Vec<FrameKey> = Vec::new();
        for dimension in self.inner.dimensions.values() {
            let current = self.inner.saving().of(dimension).current;
            for kind in [FrameKind::Chunk, FrameKind::Bodies] {
                let all = store.list(kind, &ChunkRect::of_dimension(dimension.number));
                let old = all.into_iter().filter(|(_, tag)| tag.layers != current);
                left.extend(old.map(|(pos, _)| FrameKey::new(kind, pos)));
            }
        }
        left.reverse();
        Upgrade { world: self.clone(), left }
    }

    /// Does a whole [`upgrade`](Self::upgrade). Returns how many chunks and lists of bodies there were. `progress` hears how
    /// many of how many are done.
    pub fn upgrade_all(&self, mut progress: impl FnMut(u64, u64)) -> Result<usize> {
        const AT_ONCE: usize = 64;
        let mut upgrade = self.upgrade();
        let total = upgrade.left();
        while upgrade.left() > 0 {
            upgrade.step(AT_ONCE)?;
            progress((total - upgrade.left()) as u64, total as u64);
        }
        Ok(total)
    }
}

impl Upgrade {
    /// The number of chunks and lists of bodies that are to be saved anew.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// Saves so many of them anew, at most. What was saved or removed since they were found is left alone. The last step makes
    /// all of them durable, and so does the next synced save. A step that fails may be tried again.
    pub fn step(&mut self, chunks_max: usize) -> Result<()> {
        let rest = self.left.len().saturating_sub(chunks_max.max(1));
        let now = &self.left[rest..];
        let of = |kind: FrameKind| {
            now.iter().rev().filter(move |key| key.kind == kind).map(|key| key.pos).collect::<Vec<ChunkPos>>()
        };
        let (chunks, bodies) = (of(FrameKind::Chunk), of(FrameKind::Bodies));
        let mut edit = self.world.edit();
        edit.is_upgrade = true;
        for (pos, cells) in chunks.iter().zip(self.world.read_many(&chunks)) {
            if let Some(cells) = cells? {
                edit.put(*pos, cells);
            }
        }
        for pos in bodies {
            edit.put_bodies(pos, self.world.read_bodies(pos)?);
        }
        edit.commit(if rest == 0 { Durability::Synced } else { Durability::Buffered })?;
        self.left.truncate(rest);
        Ok(())
    }
}
