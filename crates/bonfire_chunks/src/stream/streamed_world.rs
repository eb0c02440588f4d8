//! The calls that a stream makes to the game's world.

use std::sync::Arc;

use bonfire::{Result, Snapshot};

use super::StreamEvent;
use crate::{Body, Chunk, ChunkPos, ChunkRevision, DecodedBodies};

/// Decodes the entities of a chunk on a reading thread.
pub type Decoder<P> = Arc<dyn Fn(ChunkPos, Snapshot) -> Result<P> + Send + Sync>;

/// The world of a game, as a [`ChunkStream`](super::ChunkStream) changes it. A front end implements it for its ECS.
///
/// Each entity of a chunk is in one place only: in the world from [`activate`](Self::activate) to [`remove`](Self::remove), and in
/// the stream or the file at all other times.
pub trait StreamedWorld {
    /// The entities of a chunk, decoded and not in the world.
    type Prepared: Send + 'static;

    /// Returns the function that decodes entities. It is called on other threads.
    fn decoder(&mut self) -> Result<Decoder<Self::Prepared>>;

    /// Takes the cells of a chunk. It is not active, but those that vote may look at it.
    fn stage(&mut self, chunk: Chunk);

    /// Spawns the entities of a chunk. `None`: entities were never saved there, so a game that generates some does it now. After
    /// an error the chunk has [failed](super::ChunkPhase::Failed), and the world has nothing of it.
    fn activate(&mut self, pos: ChunkPos, entities: Option<Self::Prepared>) -> Result<()>;

    /// Returns true if the world has bodies. Otherwise they stay in the file as they are.
    fn has_bodies(&self) -> bool {
        false
    }

    /// Spawns the bodies of a chunk, right after [`activate`](Self::activate). Those that could not be read are told of, and gone with
    /// the next save of bodies there. After an error the chunk has [failed](super::ChunkPhase::Failed), and the world has nothing of
    /// it.
    fn spawn_bodies(&mut self, pos: ChunkPos, bodies: DecodedBodies) -> Result<()> {
        let _ = (pos, bodies);
        Ok(())
    }

    /// Moves the entities into a chunk that wait for it, and returns the chunks that they come from. It is called for an
    /// active chunk with a [visit](super::ChunkStream::visit), right after [`activate`](Self::activate) if it was loaded for that.
    fn admit(&mut self, pos: ChunkPos) -> Vec<ChunkPos> {
        let _ = pos;
        Vec::new()
    }

    /// Returns a chunk that is staged or active.
    fn chunk(&self, pos: ChunkPos) -> Option<&Chunk>;

    /// Tells a chunk that some of its cells are durable, if it is staged or active: see [`Chunk::saved`].
    fn saved(&mut self, pos: ChunkPos, revision: ChunkRevision);

    /// Returns true if the entities or bodies of an active chunk differ from those that were loaded or captured last.
    fn is_changed(&mut self, pos: ChunkPos) -> bool;

    /// Captures the entities of those of the active chunks in which they have changed, and takes them as captured. An error changes
    /// nothing.
    fn capture(&mut self, chunks: &[ChunkPos]) -> Result<Vec<(ChunkPos, Snapshot)>>;

    /// Returns all bodies of those of the active chunks whose bodies have changed, and takes them as captured. It comes after
    /// [`capture`](Self::capture), and cannot fail.
    fn capture_bodies(&mut self, chunks: &[ChunkPos]) -> Vec<(ChunkPos, Vec<Body>)> {
        let _ = chunks;
        Vec::new()
    }

    /// Takes a chunk with all of its entities and bodies out of the world.
    fn remove(&mut self, pos: ChunkPos);

    /// Hears what happens.
    fn notify(&mut self, event: StreamEvent) {
        let _ = event;
    }
}
