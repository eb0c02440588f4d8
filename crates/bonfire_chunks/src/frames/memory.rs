//! Frames in memory: for tests, and for worlds that are not to be kept.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bonfire::{Error, Result};

use super::{Committed, FrameChange, FrameKey, FrameKind, FrameStats, FrameStore, FrameTag, NewFrame};
use crate::{ChunkPos, ChunkRect, Durability};

/// Frames in memory. Clones share their frames, and each may be closed by itself.
#[derive(Debug, Default)]
pub struct MemoryFrames {
    shared: Arc<RwLock<Shared>>,
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Shared {
    frames: BTreeMap<FrameKey, (FrameTag, Arc<[u8]>)>,
    generation: u64,
    bytes: u64,
}

impl MemoryFrames {
    /// A store without frames.
    pub fn new() -> Self {
        Self::default()
    }

    fn shared(&self) -> RwLockReadGuard<'_, Shared> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same frames, opened once more.
impl Clone for MemoryFrames {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), is_closed: false.into() }
    }
}

impl FrameStore for MemoryFrames {
    fn read(&self, key: FrameKey, use_it: &mut dyn FnMut(FrameTag, &[u8]) -> Result<()>) -> Result<bool> {
        // `use_it` may read, too.
        let found = self.shared().frames.get(&key).cloned();
        match found {
            Some((tag, data)) => use_it(tag, &data).map(|()| true),
            None => Ok(false),
        }
    }

    fn tag(&self, key: FrameKey) -> Option<FrameTag> {
        self.shared().frames.get(&key).map(|(tag, _)| *tag)
    }

    fn list(&self, kind: FrameKind, rect: &ChunkRect) -> Vec<(ChunkPos, FrameTag)> {
        let range = FrameKey::new(kind, rect.min())..=FrameKey::new(kind, rect.max());
        let shared = self.shared();
        let inside = shared.frames.range(range).filter(|(key, _)| rect.contains(key.pos));
        inside.map(|(key, (tag, _))| (key.pos, *tag)).collect()
    }

    fn commit(&self, change: FrameChange, _: Durability) -> Result<Committed> {
        change.check()?;
        if !self.is_writable() {
            return Err(Error::misuse("this store of frames is closed"));
        }
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if change.is_empty() {
            return Ok(Committed { generation: shared.generation, bytes: 0 });
        }
        let mut bytes = 0;
        for key in change.removed {
            let gone = shared.frames.remove(&key);
            shared.bytes -= gone.map_or(0, |(_, data)| data.len() as u64);
        }
        for NewFrame { key, tag, data } in change.frames {
            bytes += data.len() as u64;
            let before = shared.frames.insert(key, (tag, data.into()));
            shared.bytes -= before.map_or(0, |(_, data)| data.len() as u64);
        }
        shared.bytes += bytes;
        shared.generation += 1;
        Ok(Committed { generation: shared.generation, bytes })
    }

    fn is_writable(&self) -> bool {
        !self.is_closed.load(Ordering::Acquire)
    }

    fn stats(&self) -> FrameStats {
        let shared = self.shared();
        let index_bytes = shared.frames.len() * size_of::<(FrameKey, FrameTag, usize)>();
        FrameStats { generation: shared.generation, bytes: shared.bytes, dead_bytes: 0, index_bytes }
    }

    fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        Ok(())
    }
}
