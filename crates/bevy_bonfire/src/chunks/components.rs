//! Components by which a game says what streams, and those that the plugin gives.

use std::time::Duration;

use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_transform::components::Transform;
use bonfire::Persist;
use bonfire_chunks::stream::{ChunkPhase, Reach};
use bonfire_chunks::{Chunk, ChunkPos};

use crate::Saved;

/// A place that chunks are loaded around: a player, a camera. The entity never belongs to a chunk itself.
///
/// ```
/// # use bevy_transform::components::Transform;
/// use bevy_bonfire::chunks::ChunkFocus;
///
/// let player = (ChunkFocus::new(4), Transform::from_xyz(10.0, 0.0, 0.0));
/// ```
#[derive(Component, Clone, Copy, Debug, PartialEq)]
#[require(Roaming, Transform)]
#[non_exhaustive]
pub struct ChunkFocus {
    /// The reach within which chunks are loaded.
    pub load_reach: Reach,
    /// The reach beyond which chunks leave. At least one chunk more than the load reach, whatever is set.
    pub unload_reach: Reach,
    /// The rank of the focus: chunks of a larger number come first. Default: 0.
    pub priority: i32,
    /// The time to look ahead: chunks are loaded where the entity will be then, if it goes on as it does. Default: none.
    pub look_ahead: Duration,
}

impl ChunkFocus {
    /// Returns a focus that loads so many chunks to each side. The unload reach is two chunks more.
    pub fn new(load_reach: impl Into<Reach>) -> Self {
        let load_reach = load_reach.into();
        let Reach { x, y, z } = load_reach;
        let unload_reach = Reach { x: x.saturating_add(2), y: y.saturating_add(2), z: z.saturating_add(2) };
        Self { load_reach, unload_reach, priority: 0, look_ahead: Duration::ZERO }
    }

    /// Sets the reach beyond which chunks leave.
    pub fn unload_reach(mut self, reach: impl Into<Reach>) -> Self {
        self.unload_reach = reach.into();
        self
    }

    /// Sets the rank: chunks of a focus with a larger number come first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Loads chunks where the entity will be after this time.
    pub fn look_ahead(mut self, time: Duration) -> Self {
        self.look_ahead = time;
        self
    }
}

/// Marks an entity that belongs to the chunk that it is in. The chunk takes it along when it unloads, and brings it back.
///
/// Its place is its `Transform`. Children of the entity that are part of saves follow it.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::chunks::Streamed;
///
/// #[derive(Component, Persist)]
/// #[require(Streamed)] // every creature belongs to a chunk
/// #[persist(key = "game.creature")]
/// struct Creature {
///     hunger: f32,
/// }
/// ```
#[derive(Component, Persist, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[require(Saved, Transform)]
#[persist(key = "bonfire.streamed")]
pub struct Streamed;

/// Marks an entity that belongs to no chunk, also if it is [`Streamed`]. It stays loaded, and is saved with the rest of the game.
/// Use it for pets and companions, for as long as they follow a player.
#[derive(Component, Persist, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[persist(key = "bonfire.roaming")]
pub struct Roaming;

/// The chunk that the entity belongs to, wherever its `Transform` is.
#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Eq)]
#[persist(key = "bonfire.anchored_to")]
pub struct AnchoredTo {
    x: i32,
    y: i32,
    z: i32,
    dimension: u32,
}

impl AnchoredTo {
    /// Returns the component for a chunk.
    pub fn new(pos: impl Into<ChunkPos>) -> Self {
        let ChunkPos { x, y, z, dimension } = pos.into();
        Self { x, y, z, dimension }
    }

    /// Returns the chunk.
    pub fn pos(&self) -> ChunkPos {
        ChunkPos::new_3d(self.x, self.y, self.z).in_dimension(self.dimension)
    }
}

/// The plugin has disabled the entity until the chunk is active that it walks into. It is saved with it, so that a load knows.
#[derive(Component, Persist, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[require(Disabled)]
#[persist(key = "bonfire.waits_for_chunk")]
pub(super) struct WaitsForChunk;

/// The dimension that the entity is in. Entities without it are in dimension 0.
#[derive(Component, Persist, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[persist(key = "bonfire.in_dimension")]
pub struct InDimension(pub u32);

/// The chunk that an entity belongs to. The plugin gives it to [`Streamed`] entities and keeps it up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InChunk {
    /// The entity of the chunk.
    pub chunk: Entity,
    /// Its place.
    pub pos: ChunkPos,
}

/// The entities that belong to a chunk.
#[derive(Component, Debug, Default)]
#[relationship_target(relationship = InChunk)]
pub struct ChunkResidents(EntityHashSet);

impl ChunkResidents {
    /// The list of entities whose [`InChunk`] was inserted without its hook.
    pub(super) fn of(entities: Vec<Entity>) -> Self {
        Self(entities.into_iter().collect())
    }

    /// Adds entities whose [`InChunk`] was inserted without its hook.
    pub(super) fn add_all(&mut self, entities: Vec<Entity>) {
        self.0.extend(entities);
    }

    /// Returns the entities, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Entity> + '_ {
        self.0.iter().copied()
    }

    /// Returns the number of entities.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The place of a chunk. Each chunk of the window is an entity that has it.
#[derive(Component, Clone, Copy, Debug, PartialEq, Eq)]
#[component(immutable)]
pub struct ChunkAt(pub ChunkPos);

/// The phase of a chunk. The plugin inserts it again with each change, so that observers of `Insert<ChunkLife>` see them all.
#[derive(Component, Clone, Copy, Debug, PartialEq, Eq)]
#[component(immutable)]
pub struct ChunkLife(pub ChunkPhase);

/// The cells of a chunk that is staged or active. Changes are saved.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::chunks::ChunkCells;
///
/// fn dig(mut chunks: Query<&mut ChunkCells>) -> bevy_ecs::error::Result {
///     for mut chunk in &mut chunks {
///         chunk.set(3, 4, &[0])?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Component, Debug)]
pub struct ChunkCells(pub(super) Chunk);

impl std::ops::Deref for ChunkCells {
    type Target = Chunk;

    fn deref(&self) -> &Chunk {
        &self.0
    }
}

impl std::ops::DerefMut for ChunkCells {
    fn deref_mut(&mut self) -> &mut Chunk {
        &mut self.0
    }
}

/// Disables the entity until the chunk that it is in is active, and all chunks within the reach. So it does not fall through
/// ground that is not there yet. The plugin removes the component then.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitsForGround {
    /// The number of chunks around its own that must be active, too.
    pub reach: u32,
}
