//! The state of a stream in a Bevy world: the stream itself, and what is known of each live chunk.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bevy_ecs::change_detection::Tick;
use bevy_ecs::entity::{Entity, EntityHashMap};
use bevy_ecs::resource::Resource;
use bevy_platform::collections::HashMap;
use bonfire_chunks::ChunkPos;
use bonfire_chunks::stream::{ChunkStream, PhaseChange, SlotPins};
use bonfire_store::Handle;

use super::body::BodyChanged;
use super::body::table::LiveBodies;
use super::event::ChunkProblem;
use super::focus::Track;
use super::plugin::AtEdge;
use super::remains::Remains;
use super::tickets::NamedTickets;
use crate::load::PreparedLoad;

/// The entities of a chunk, decoded. `None` once they were taken.
pub(super) type PreparedChunk = PreparedLoad<'static>;

/// Events of a frame, in order.
pub(super) enum News {
    Phase(PhaseChange),
    Problem(ChunkProblem),
    Body(BodyChanged),
}

/// A chunk of the window.
#[derive(Debug)]
pub(super) struct LiveChunk {
    pub(super) entity: Entity,
    /// Entities have come or gone since the last capture.
    pub(super) is_changed: bool,
    /// Bodies have come, gone or changed since the last capture.
    pub(super) has_changed_bodies: bool,
    /// The state of its entities at the last capture or load. Values with a later tick differ from it.
    pub(super) saved: SavedMark,
}

/// The state of a chunk's entities at its last capture or load.
#[derive(Clone, Copy, Debug)]
pub(super) struct SavedMark {
    pub(super) tick: Tick,
    pub(super) epoch: u64,
    /// A sum over the entities and the sets of their components.
    pub(super) shape: u64,
}

/// The stream, and what belongs to it. It is taken out of the world while it works.
#[derive(Resource)]
pub(super) struct StreamState {
    pub(super) stream: ChunkStream<PreparedChunk>,
    pub(super) budget: Duration,
    /// Places and velocities of focuses.
    pub(super) focuses: EntityHashMap<Track>,
    pub(super) live: LiveChunks,
    /// The pins that saves in slots name.
    pub(super) pins: Arc<SlotPins>,
    /// The load of a slot that has failed is being taken back.
    pub(super) undoing: Option<Handle<()>>,
    /// The world begins again: its tickets go, too.
    pub(super) is_starting_over: bool,
    /// The named tickets that the stream has.
    pub(super) tickets: NamedTickets,
    /// The time between two saves, where there are no slots.
    pub(super) autosave: Option<Duration>,
    /// The numbers of the last frame.
    pub(super) times: StreamTimes,
}

/// The state of the chunks that are in the world.
pub(super) struct LiveChunks {
    pub(super) chunks: HashMap<ChunkPos, LiveChunk>,
    /// Entities that wait for a chunk that is not active.
    pub(super) waiting: EntityHashMap<Waiting>,
    /// Chunks that stay loaded for an entity: see [`AtEdge::Load`].
    pub(super) kept_for: HashSet<(Entity, ChunkPos)>,
    /// Chunks that entities have waited for, and do not wait for any more.
    pub(super) ended_visits: Vec<ChunkPos>,
    pub(super) news: Vec<News>,
    pub(super) bodies: LiveBodies,
    pub(super) grid: ChunkGrid,
    pub(super) at_edge: AtEdge,
    /// True if the game generates entities.
    pub(super) populates: bool,
    /// Descendants were looked at in this frame.
    pub(super) has_adopted: bool,
    /// The memory of activated chunks, which reading threads free.
    pub(super) remains: Remains,
    /// Transforms with a later tick were not looked at.
    pub(super) looked: Option<Tick>,
}

/// An entity at the edge of what is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) target: ChunkPos,
    /// The game was told that it has stopped.
    pub(super) is_told: bool,
}

/// The times of the steps of the last frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamTimes {
    /// The time to find entities that have moved.
    pub membership: Duration,
    /// The time for chunks that come and go, and for requests.
    pub update: Duration,
}

/// From places in the world to chunks.
#[derive(Clone, Debug)]
pub(super) struct ChunkGrid {
    /// Units of the world along an edge of a cell.
    pub(super) cell_size: f32,
    pub(super) dimensions: BTreeMap<u32, GridDimension>,
}

/// The sizes of a dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct GridDimension {
    /// Cells along an edge of a chunk.
    pub(super) chunk_size: u32,
    pub(super) is_three_dimensional: bool,
    pub(super) seed: u64,
}

impl ChunkGrid {
    /// The chunk of a place. `None` if the place is no number, or if there is no such dimension.
    pub(super) fn chunk_at(&self, place: [f32; 3], dimension: u32) -> Option<ChunkPos> {
        let GridDimension { chunk_size, is_three_dimensional, .. } = *self.dimensions.get(&dimension)?;
        let [x, y, z] = place.map(|along| along / self.cell_size);
        let place = [x, y, if is_three_dimensional { z } else { 0.0 }];
        Some(ChunkPos::containing_3d(place, chunk_size)?.in_dimension(dimension))
    }

    /// Returns true if chunks of a dimension are cubes.
    pub(super) fn is_deep(&self, dimension: u32) -> bool {
        self.dimensions.get(&dimension).is_some_and(|found| found.is_three_dimensional)
    }

    /// Units of the world along an edge of a chunk.
    pub(super) fn edge(&self, dimension: u32) -> f32 {
        self.dimensions.get(&dimension).map_or(1.0, |found| found.chunk_size as f32 * self.cell_size)
    }
}
