//! Named tickets: chunks that stay loaded, saved with the game.
//!
//! The resource is what counts. Each frame compares it with what the stream has, so a load changes the tickets by changing the
//! resource.

use std::collections::{BTreeMap, BTreeSet};

use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::Persist;
use bonfire_chunks::ChunkPos;

use super::resource::Chunks;
use super::state::StreamState;

/// The named tickets of the app.
#[derive(Resource, Persist, Clone, Debug, Default, PartialEq, Eq)]
#[persist(key = "bonfire.chunk_tickets")]
pub(super) struct NamedTickets {
    by_name: BTreeMap<String, BTreeSet<TicketPos>>,
}

/// The place of a chunk.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TicketPos {
    dimension: u32,
    x: i32,
    y: i32,
    z: i32,
}

impl From<ChunkPos> for TicketPos {
    fn from(ChunkPos { x, y, z, dimension }: ChunkPos) -> Self {
        Self { dimension, x, y, z }
    }
}

impl TicketPos {
    fn pos(self) -> ChunkPos {
        ChunkPos::new_3d(self.x, self.y, self.z).in_dimension(self.dimension)
    }
}

impl NamedTickets {
    pub(super) fn add(&mut self, name: String, pos: ChunkPos) {
        self.by_name.entry(name).or_default().insert(pos.into());
    }

    pub(super) fn remove(&mut self, name: &str, pos: ChunkPos) {
        if let Some(places) = self.by_name.get_mut(name) {
            places.remove(&pos.into());
            if places.is_empty() {
                self.by_name.remove(name);
            }
        }
    }

    pub(super) fn remove_all(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    pub(super) fn clear(&mut self) {
        self.by_name.clear();
    }

    /// Returns all tickets, by name and then by place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, ChunkPos)> {
        self.by_name.iter().flat_map(|(name, places)| places.iter().map(|place| (&**name, place.pos())))
    }

    fn has(&self, name: &str, pos: ChunkPos) -> bool {
        self.by_name.get(name).is_some_and(|places| places.contains(&pos.into()))
    }
}

/// Changes the tickets of the app.
pub(super) fn edit(world: &mut World, edit: impl FnOnce(&mut NamedTickets)) {
    edit(&mut world.get_resource_or_init::<NamedTickets>());
}

/// Gives the stream the tickets that the app has now: requests and loads have changed them.
pub(super) fn update(world: &mut World, state: &mut StreamState) {
    let no_tickets = NamedTickets::default();
    let now = world.get_resource::<NamedTickets>().unwrap_or(&no_tickets);
    if *now == state.tickets {
        return;
    }
    let now = now.clone();
    for (_, pos) in now.iter().filter(|(name, pos)| !state.tickets.has(name, *pos)) {
        state.stream.add_ticket(pos);
    }
    for (_, pos) in state.tickets.iter().filter(|(name, pos)| !now.has(name, *pos)) {
        state.stream.remove_ticket(pos);
    }
    state.tickets = now.clone();
    if let Some(mut chunks) = world.get_resource_mut::<Chunks>() {
        chunks.tickets = now;
    }
}
