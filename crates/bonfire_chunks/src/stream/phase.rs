//! The life of a chunk in a window, and the messages about it.

use std::fmt;

use bonfire::Error;

use crate::ChunkPos;

/// How far a chunk is.
///
/// | phase | the cells are | the entities are |
/// |---|---|---|
/// | `Queued`, `Loading` | in the file | in the file |
/// | `Staged` | in the world | decoded, and not in the world |
/// | `Active` | in the world | in the world |
/// | `Saving` | in memory, until they are durable | in memory, until they are durable |
/// | `Failed` | in the file, damaged perhaps | in the file, damaged perhaps |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkPhase {
    /// It is wanted, and its turn has not come.
    Queued,
    /// A thread reads it, or generates it.
    Loading,
    /// Its cells are there, and those that vote are asked.
    Staged,
    /// It is part of the game.
    Active,
    /// It has left the game, and its save is not durable. If it returns now, it comes from memory.
    Saving,
    /// It could not be loaded. Nothing is generated in its place.
    Failed,
}

impl ChunkPhase {
    /// All phases, in the order of a life.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Loading, Self::Staged, Self::Active, Self::Saving, Self::Failed];

    /// The name of the phase, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Loading => "loading",
            Self::Staged => "staged",
            Self::Active => "active",
            Self::Saving => "saving",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for ChunkPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a chunk has changed its phase.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChangeReason {
    /// A focus has come near, or a ticket was added.
    Wanted,
    /// Its turn came, a thread has finished, or all votes are there.
    Ready,
    /// Nothing wants it any more.
    Left,
    /// It was wanted for a moment, so that an entity could enter it.
    Visit,
    /// It was saved.
    Saved,
    /// The whole window was emptied, for a load or a new beginning.
    Reset,
    /// Something is wrong with it.
    Error(Error),
}

/// A chunk has changed its phase.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PhaseChange {
    /// The chunk.
    pub pos: ChunkPos,
    /// The phase before. `None`: the window did not have the chunk.
    pub from: Option<ChunkPhase>,
    /// The phase now. `None`: the window has let go of the chunk.
    pub to: Option<ChunkPhase>,
    /// Why.
    pub reason: ChangeReason,
}

/// Something has happened to a stream of chunks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A chunk has changed its phase.
    Phase(PhaseChange),
    /// A save has failed. Nothing is lost: all of it is in memory, and is tried again with the next save.
    SaveFailed(Error),
    /// The entities of a chunk could not be captured, so the chunk stays.
    CaptureFailed(ChunkPos, Error),
}

/// How a stream is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamStatus {
    /// Chunks that wait for their turn.
    pub queued: usize,
    /// Chunks that are being read or generated.
    pub loading: usize,
    /// Chunks that wait for votes, or for time in a frame.
    pub staged: usize,
    /// Chunks that are part of the game.
    pub active: usize,
    /// Chunks that are about to leave.
    pub leaving: usize,
    /// Chunks that have left and are not durable.
    pub saving: usize,
    /// Bytes of these, about.
    pub saving_bytes: u64,
    /// Chunks that could not be loaded.
    pub failed: usize,
    /// The last save has failed, and is tried again.
    pub is_failing: bool,
}
