//! What reading a world found.

use std::fmt;

use bonfire::Error;

use super::PixelPayload;
use crate::{BodyId, ChunkPos};

/// Damage that the format cannot show, so that no reader can.
pub const NOT_CHECKED: &str = "the format has no checksum over payloads, cells of bodies, their velocities and the header: a \
     changed cell, seed or date is not noticed, and one in 256 damaged entries passes";

/// What was missing in a world, and what was repaired.
#[derive(Debug, Default)]
pub struct ImportReport {
    /// The first damage that was met; `None` if the world is whole as far as anyone can tell ([`NOT_CHECKED`]).
    pub damage: Option<Error>,
    /// What is in the world only because it was searched for.
    pub repaired: Vec<RepairedPart>,
    /// What should be in the world and is not. Empty bodies are here as well: they are not damage.
    pub skipped: Vec<SkippedPart>,
    /// Payloads of chunks that are sound, but nobody knows where they belong. Some may be older versions of chunks that have
    /// their place. Sorted by their offsets: later ones are newer.
    pub unplaced: Vec<PixelPayload>,
}

impl ImportReport {
    /// Whether nothing was damaged.
    pub fn is_whole(&self) -> bool {
        self.damage.is_none()
    }
}

/// A part of a world that only a search brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairedPart {
    /// A chunk whose entry was found elsewhere than the header says.
    EntryFound {
        /// The place of the chunk.
        pos: ChunkPos,
        /// Where the entry is in the file.
        at: u64,
    },
    /// A chunk whose entry was damaged, and whose place is certain all the same.
    EntryRepaired {
        /// The place of the chunk.
        pos: ChunkPos,
        /// Where the entry is in the file.
        at: u64,
    },
    /// A chunk whose place an older copy of the world knows.
    ByOlderCopy {
        /// The place of the chunk.
        pos: ChunkPos,
    },
    /// A body whose entry in the index was damaged or not where the header says.
    Body {
        /// Which one.
        id: BodyId,
    },
}

impl fmt::Display for RepairedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EntryFound { pos, at } => write!(f, "chunk {pos}: its entry was found at {at}"),
            Self::EntryRepaired { pos, at } => {
                write!(f, "chunk {pos}: its damaged entry at {at} was repaired")
            }
            Self::ByOlderCopy { pos } => write!(f, "chunk {pos}: an older copy of the world knows its place"),
            Self::Body { id } => write!(f, "body {id} was found by searching"),
        }
    }
}

/// A part of a world that is missing.
#[derive(Clone, Debug)]
pub enum SkippedPart {
    /// A chunk whose entry is sound and whose payload is not.
    Chunk {
        /// The place of the chunk.
        pos: ChunkPos,
        /// Where the payload should be.
        offset: u64,
        /// Why.
        reason: String,
    },
    /// Entries of the page table that are damaged, or not in the file any more. Their chunks may be among the unplaced.
    Entries {
        /// How many.
        count: u64,
    },
    /// A body whose record cannot be read.
    Body {
        /// Which one, as the index says.
        id: BodyId,
        /// Where the record should be.
        offset: u64,
        /// Why.
        reason: String,
    },
    /// A body without a solid cell, which the game removes as well.
    EmptyBody {
        /// Which one.
        id: BodyId,
    },
    /// The index of bodies.
    Index {
        /// Why.
        reason: String,
    },
    /// The rest of the file was not searched: it is made to take forever.
    Search {
        /// Where the search ended.
        at: u64,
    },
}

impl fmt::Display for SkippedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunk { pos, offset, reason } => write!(f, "chunk {pos}, payload at {offset}: {reason}"),
            Self::Entries { count: 1 } => write!(f, "the entry of 1 chunk is lost"),
            Self::Entries { count } => write!(f, "the entries of {count} chunks are lost"),
            Self::Body { id, offset, reason } => write!(f, "body {id}, record at {offset}: {reason}"),
            Self::EmptyBody { id } => write!(f, "body {id} is empty"),
            Self::Index { reason } => write!(f, "the index of bodies: {reason}"),
            Self::Search { at } => {
                write!(f, "the file was searched up to byte {at} only: too much in it looks like a world")
            }
        }
    }
}
