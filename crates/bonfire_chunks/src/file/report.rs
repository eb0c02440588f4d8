//! What was found when a file was opened.

use std::collections::BTreeMap;
use std::fmt;

use bonfire::Error;

use crate::format::{FrameKey, FrameKind, FramePlace};
use crate::{ChunkPos, LayerChanges};

/// What had to be done to open a world. All zero after a close.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenReport {
    /// Saves that were replayed because the world had not been closed.
    pub saves_replayed: u64,
    /// Saves of which a part is damaged, or that are missing among later ones. What is left of them counts.
    pub saves_damaged: u64,
    /// Bytes behind the last whole save: of a save that was under way.
    pub bytes_dropped: u64,
    /// The header was damaged, and taken from a copy.
    pub header_rebuilt: bool,
    /// The page table or the side index was damaged, and everything was found by looking at each frame.
    pub table_rebuilt: bool,
    /// What is lost. Reads of it are errors until it is saved again.
    pub damaged: Vec<DamagedFrame>,
    /// How the layers of the game differ from those that the world was saved with last. No damage: it is what evolution is
    /// about.
    pub layers: LayerChanges,
    /// The same of the dimensions beside dimension 0, as far as there are differences.
    pub layers_of_dimensions: BTreeMap<u32, LayerChanges>,
    /// Temporary files that a crash had left.
    pub stale_files_removed: u32,
    /// The world is sealed in an old way, which does not notice chunks that are put back, settings that are changed, or parts
    /// that are taken away. The next save seals it anew.
    pub seal_outdated: bool,
    /// The world is sealed, and does not prove that this is what it held: it was opened with
    /// [`salvage`](crate::ChunkOptions::salvage).
    pub unproven: bool,
}

impl OpenReport {
    /// Whether nothing was damaged and nothing had to be rebuilt. A world that was not closed is fine.
    pub fn is_fine(&self) -> bool {
        let is_whole = !self.header_rebuilt && !self.table_rebuilt && self.saves_damaged == 0;
        is_whole && self.damaged.is_empty() && !self.unproven
    }
}

/// A part of a world that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFrame {
    pub(crate) key: FrameKey,
    pub(crate) place: FramePlace,
}

impl DamagedFrame {
    pub(crate) fn new(key: FrameKey, place: FramePlace) -> Self {
        Self { key, place }
    }

    /// The chunk that it belongs to; `None` if it belongs to the world as a whole.
    pub fn chunk(&self) -> Option<ChunkPos> {
        (!self.key.kind.is_of_world()).then_some(self.key.pos)
    }

    /// The kind of the damaged part: `chunk`, `bodies`, `entities`, `settings`, `schema`, `index of ids`, `pin`,
    /// `difference of a pin` or `return to a pin`.
    pub fn kind_name(&self) -> &'static str {
        match self.key.kind {
            FrameKind::DamagedChunk => FrameKind::Chunk.name(),
            FrameKind::DamagedBodies => FrameKind::Bodies.name(),
            FrameKind::DamagedSnapshot => FrameKind::Snapshot.name(),
            kind => kind.name(),
        }
    }

    /// Returns true if it was found damaged earlier, and set aside.
    pub fn is_set_aside(&self) -> bool {
        self.key.kind.is_set_aside()
    }

    /// Where in the file its data is, or was.
    pub fn offset(&self) -> u64 {
        self.place.offset
    }
}

impl fmt::Display for DamagedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chunk() {
            Some(pos) => write!(f, "{} at {pos}", self.kind_name()),
            None => write!(f, "{}", self.kind_name()),
        }
    }
}

/// A damaged part that only pins have.
#[derive(Debug)]
#[non_exhaustive]
pub struct DamagedInPins {
    /// The part.
    pub frame: DamagedFrame,
    /// The names of the pins that have it, the oldest first: 100 at most.
    pub pins: Vec<String>,
    /// The reason why it cannot be read.
    pub error: Error,
}

impl DamagedInPins {
    pub(super) const NAMES_MAX: usize = 100;
}
