//! Events and messages about chunks.

use bevy_ecs::entity::Entity;
use bevy_ecs::event::{EntityEvent, Event};
use bevy_ecs::message::Message;
use bonfire::Error;
use bonfire_chunks::stream::{ChangeReason, ChunkPhase};
use bonfire_chunks::{BodyId, ChunkPos};

/// A change of a chunk's phase. Observers of the chunk's entity receive it, and global observers. Systems read it as a message.
#[derive(EntityEvent, Message, Clone, Debug)]
#[non_exhaustive]
pub struct ChunkChanged {
    /// The entity of the chunk. It is despawned after the event if the window has let go of the chunk.
    #[event_target]
    pub entity: Entity,
    /// The place of the chunk.
    pub pos: ChunkPos,
    /// The phase before. `None`: the window did not have the chunk.
    pub from: Option<ChunkPhase>,
    /// The phase now. `None`: the window has let go of the chunk.
    pub to: Option<ChunkPhase>,
    /// The reason.
    pub reason: ChangeReason,
}

/// A request to generate the entities of a chunk, in which none were ever saved. The game spawns them now, with
/// [`Streamed`](super::Streamed). It happens once in the life of a world, so removed entities stay removed.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_transform::components::Transform;
/// use bevy_bonfire::chunks::{PopulateChunk, Streamed};
///
/// fn populate(chunk: On<PopulateChunk>, mut commands: Commands) {
///     let corner = chunk.corner;
///     commands.spawn((Streamed, Transform::from_xyz(corner[0] + 3.0, corner[1] + 3.0, 0.0)));
/// }
/// ```
#[derive(EntityEvent, Clone, Debug)]
#[non_exhaustive]
pub struct PopulateChunk {
    /// The entity of the chunk.
    #[event_target]
    pub entity: Entity,
    /// The place of the chunk.
    pub pos: ChunkPos,
    /// The smallest coordinates in the chunk.
    pub corner: [f32; 3],
    /// The edge of the chunk, in units of the world.
    pub edge: f32,
    /// The seed of the dimension.
    pub seed: u64,
}

/// A problem of the stream of chunks. Nothing is lost, except where it says so.
#[derive(Event, Message, Clone, Debug)]
#[non_exhaustive]
pub enum ChunkProblem {
    /// A save has failed. All of it is in memory, and is tried again.
    SaveFailed(Error),
    /// The entities of a chunk could not be captured, so the chunk stays.
    CaptureFailed(ChunkPos, Error),
    /// An entity came with a chunk, and its stable id is on an entity of the world already. The one of the chunk was removed.
    DuplicateId {
        /// The chunk.
        pos: ChunkPos,
        /// The bits of the stable id.
        stable_id: u64,
    },
    /// Bodies of a chunk cannot be read, or lie elsewhere than their chunk says. The next save of bodies there leaves them out.
    BodyLost {
        /// The chunk.
        pos: ChunkPos,
        /// The number of bodies.
        count: u32,
        /// The reason.
        error: Error,
    },
    /// A body has the id of another one that is in the world. It waits, disabled and unsaved, until the other one is gone.
    DuplicateBody {
        /// The chunk that it is in.
        pos: ChunkPos,
        /// The id.
        id: BodyId,
    },
    /// An entity has stopped at the edge of what is loaded, because the chunk there has failed, or because the game wants it so.
    Stopped {
        /// The entity.
        entity: Entity,
        /// The chunk that it would enter.
        pos: ChunkPos,
    },
    /// A request of the game has failed.
    RequestFailed(Error),
}
