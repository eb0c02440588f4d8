//! A chunk in the window, and how far it is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bonfire::{Error, Result};
use bonfire_store::Handle;

use super::ChunkPhase;
use super::window::Urgency;
use crate::{Chunk, ChunkPos, DecodedBodies};

/// A chunk that was read, with its entities decoded.
pub(super) struct LoadedChunk<P> {
    pub(super) chunk: Chunk,
    pub(super) entities: Option<P>,
    pub(super) bodies: DecodedBodies,
}

/// Follows a load. The thread puts the chunk there, or why it cannot be read, and the stream takes it. An error of the handle
/// itself is one of the worker: the load has not begun.
pub(super) type LoadSlot<P> = Handle<Arc<Mutex<Option<Result<LoadedChunk<P>>>>>>;

pub(super) enum State<P> {
    Queued,
    Loading(LoadSlot<P>),
    /// `None` for entities: none were ever saved.
    Staged {
        entities: Option<P>,
        bodies: DecodedBodies,
        votes: u64,
    },
    Active,
    Failed(Error),
}

impl<P> State<P> {
    pub(super) fn phase(&self) -> ChunkPhase {
        match self {
            Self::Queued => ChunkPhase::Queued,
            Self::Loading(_) => ChunkPhase::Loading,
            Self::Staged { .. } => ChunkPhase::Staged,
            Self::Active => ChunkPhase::Active,
            Self::Failed(_) => ChunkPhase::Failed,
        }
    }
}

/// A chunk in the window.
pub(super) struct WindowChunk<P> {
    pub(super) state: State<P>,
    pub(super) urgency: Option<Urgency>,
    /// Chunks that it has exchanged entities with since its last save.
    pub(super) exchanged: BTreeSet<ChunkPos>,
}
