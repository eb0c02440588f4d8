//! The seam below a world: a store of frames, found by their key, whose changes are there as a whole or not at all.
//!
//! [`ChunkWorld`](crate::ChunkWorld) knows cells, bodies, entities, layers and generators. A [`FrameStore`] knows keys and bytes. The
//! chunk file is one, [`MemoryFrames`] is one, and a game may bring its own, such as a database: see
//! [`ChunkOptions::open_in`](crate::ChunkOptions::open_in). The bytes of a frame are the same everywhere.
//!
//! The feature `conformance` has the tests that every store must pass.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod memory;

use bonfire::{Error, Result};

pub use self::memory::MemoryFrames;
use crate::format::Version;
pub use crate::format::{FrameKey, FrameKind, FrameTag};
use crate::{ChunkPos, ChunkRect, Durability};

/// Longer data has no size word in a file.
pub(crate) const DATA_BYTES_MAX: usize = (u32::MAX - 4096) as usize;

/// A frame that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFrame {
    /// The key under which it is found.
    pub key: FrameKey,
    /// How its data is to be read.
    pub tag: FrameTag,
    /// Its content.
    pub data: Vec<u8>,
}

/// The changes of a save. No key is there twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameChange {
    /// Frames that are new, or that replace those of the same key.
    pub frames: Vec<NewFrame>,
    /// Keys of frames that are removed.
    pub removed: Vec<FrameKey>,
}

impl FrameChange {
    /// Returns true if nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.removed.is_empty()
    }

    /// Returns the first version of the format that has all places of its frames.
    pub(crate) fn version(&self) -> Version {
        let keys = self.frames.iter().map(|frame| &frame.key).chain(&self.removed);
        keys.map(|key| Version::of(key.pos)).max().unwrap_or_default()
    }

    /// Refuses data that no frame can hold.
    pub fn check(&self) -> Result<()> {
        match self.frames.iter().find(|frame| frame.data.len() > DATA_BYTES_MAX) {
            Some(frame) => Err(Error::limit(format!(
                "the {} at {} has {} bytes, more than a frame can hold",
                frame.key.kind.name(),
                frame.key.pos,
                frame.data.len()
            ))),
            None => Ok(()),
        }
    }
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The number of the save. Numbers of later commits are larger, and some may be left out.
    pub generation: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Counts of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameStats {
    /// The number of the last save.
    pub generation: u64,
    /// Bytes that the store takes.
    pub bytes: u64,
    /// Bytes of those that nothing needs any more.
    pub dead_bytes: u64,
    /// Bytes of memory that know where everything is.
    pub index_bytes: usize,
}

/// A store of frames. Calls may be made from several threads.
///
/// A store sees the kinds of [`FrameKind::CONTENT`] and no others. It knows at any time which frames there are, so that asking
/// for that costs no access: a store elsewhere reads its keys when it is opened.
pub trait FrameStore: Send + Sync {
    /// Hands a frame to `use_it`. Returns false if there is none. A frame that is there and cannot be read is an error with
    /// [`is_corrupt`](Error::is_corrupt). An error of `use_it` is returned as it is.
    ///
    /// A read sees every commit that returned before the read began, and never a part of one frame.
    fn read(&self, key: FrameKey, use_it: &mut dyn FnMut(FrameTag, &[u8]) -> Result<()>) -> Result<bool>;

    /// Returns the tag of a frame; `None` if there is none.
    fn tag(&self, key: FrameKey) -> Option<FrameTag>;

    /// Returns all frames of a kind in a rectangle, in the order of their positions.
    fn list(&self, kind: FrameKind, rect: &ChunkRect) -> Vec<(ChunkPos, FrameTag)>;

    /// Returns the number of frames of a kind.
    fn count(&self, kind: FrameKind) -> usize {
        self.list(kind, &ChunkRect::ALL).len()
    }

    /// Makes a change: all of it or nothing, also if the machine stops in the middle of it. Keys that are removed and are not
    /// there are ignored.
    ///
    /// With [`Durability::Synced`] it survives a crash when the call returns, and so do all changes before it; also if the
    /// change is empty. After an error the store is as it was, or refuses every later change with
    /// [`is_poisoned`](Error::is_poisoned).
    fn commit(&self, change: FrameChange, durability: Durability) -> Result<Committed>;

    /// Returns false if the store is open for reading only, or closed.
    fn is_writable(&self) -> bool {
        true
    }

    /// Returns what the store holds.
    fn stats(&self) -> FrameStats;

    /// Makes everything durable and lets go of the store. Later commits are refused.
    fn close(&self) -> Result<()>;

    /// Looks at what another process has saved since: in a store that is open for reading only.
    fn refresh(&self) -> Result<()> {
        Ok(())
    }
}
