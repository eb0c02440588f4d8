//! The resource by which a game asks about chunks, and asks for things.

use std::path::PathBuf;

use bevy_ecs::entity::Entity;
use bevy_ecs::resource::Resource;
use bevy_platform::collections::HashMap;
use bonfire_chunks::stream::{
    ChunkPhase, ChunkVote, StreamStatus, UpgradePace, UpgradeReport, WindowPicture,
};
use bonfire_chunks::{ChunkPos, ChunkRect, ChunkWorld, CommitReport};
use bonfire_store::Handle;
use bonfire_store::engine::Promise;

use super::state::StreamTimes;
use super::tickets::NamedTickets;

/// The chunks of the app. Requests are done at the end of the frame, in their order.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::chunks::{ChunkPos, Chunks};
///
/// fn open_portal(mut chunks: ResMut<Chunks>) {
///     let target = ChunkPos::new(100, 0);
///     chunks.add_ticket(target); // stays loaded until the ticket is removed
///     if chunks.is_active(target) {
///         // the player may go through
///     }
/// }
/// ```
#[derive(Resource)]
pub struct Chunks {
    world: ChunkWorld,
    pub(super) known: HashMap<ChunkPos, KnownChunk>,
    pub(super) requests: Vec<ChunkRequest>,
    pub(super) status: StreamStatus,
    pub(super) times: StreamTimes,
    pub(super) is_paused: bool,
    pub(super) is_enabled: bool,
    pub(super) is_saved: bool,
    pub(super) waiting: usize,
    pub(super) tickets: NamedTickets,
}

/// The entity and the phase of a chunk of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownChunk {
    pub(super) entity: Entity,
    pub(super) phase: ChunkPhase,
}

pub(super) enum ChunkRequest {
    AddTicket(ChunkPos),
    RemoveTicket(ChunkPos),
    AddNamedTicket(String, ChunkPos),
    RemoveNamedTicket(String, ChunkPos),
    RemoveTicketsNamed(String),
    Agree(ChunkPos, ChunkVote),
    Retry(ChunkPos),
    Pause(bool),
    Enable(bool),
    Together(ChunkPos, ChunkPos),
    Save(Promise<CommitReport>),
    SaveCells(Promise<CommitReport>),
    Pin(String, Vec<u8>, Promise<CommitReport>),
    SaveTo(PathBuf, Promise<CommitReport>),
    ReturnTo(String, Promise<()>),
    StartOver(Promise<()>),
    Reopen(ChunkWorld),
    Upgrade(UpgradePace, Promise<UpgradeReport>),
    Picture(u32, Promise<Option<WindowPicture>>),
}

impl Chunks {
    pub(super) fn new(world: ChunkWorld) -> Self {
        Self {
            world,
            known: HashMap::new(),
            requests: Vec::new(),
            status: StreamStatus::default(),
            times: StreamTimes::default(),
            is_paused: false,
            is_enabled: true,
            is_saved: true,
            waiting: 0,
            tickets: NamedTickets::default(),
        }
    }

    /// Returns the world that streams.
    pub fn world(&self) -> &ChunkWorld {
        &self.world
    }

    /// Returns the phase of a chunk. `None`: it is not in the window.
    pub fn phase(&self, pos: impl Into<ChunkPos>) -> Option<ChunkPhase> {
        self.known.get(&pos.into()).map(|chunk| chunk.phase)
    }

    /// Returns the entity of a chunk of the window.
    pub fn entity(&self, pos: impl Into<ChunkPos>) -> Option<Entity> {
        self.known.get(&pos.into()).map(|chunk| chunk.entity)
    }

    /// Returns true if a chunk is active.
    pub fn is_active(&self, pos: impl Into<ChunkPos>) -> bool {
        self.phase(pos) == Some(ChunkPhase::Active)
    }

    /// Returns true if every chunk of an area is active.
    pub fn is_ready(&self, area: ChunkRect) -> bool {
        area.area() <= self.known.len() as u128 && area.iter().all(|pos| self.is_active(pos))
    }

    /// Returns all chunks of the window with their phases, in no order.
    pub fn phases(&self) -> impl Iterator<Item = (ChunkPos, ChunkPhase)> + '_ {
        self.known.iter().map(|(pos, chunk)| (*pos, chunk.phase))
    }

    /// Returns counts by phase, and the state of saving, as of the last frame.
    pub fn status(&self) -> &StreamStatus {
        &self.status
    }

    /// Returns the times of the last frame.
    pub fn times(&self) -> StreamTimes {
        self.times
    }

    /// Returns true if everything that is wanted is active or has failed, everything else has left, and no entity waits for a
    /// chunk.
    pub fn is_settled(&self) -> bool {
        let StreamStatus { queued, loading, staged, leaving, .. } = &self.status;
        self.requests.is_empty() && queued + loading + staged + leaving + self.waiting == 0
    }

    /// Returns how many entities wait for a chunk that they walk into. Those that have stopped are not counted.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns true if everything that has left the world is durable.
    pub fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// Keeps a chunk loaded until [`remove_ticket`](Self::remove_ticket) was called as often.
    pub fn add_ticket(&mut self, pos: impl Into<ChunkPos>) {
        self.requests.push(ChunkRequest::AddTicket(pos.into()));
    }

    /// Removes a ticket.
    pub fn remove_ticket(&mut self, pos: impl Into<ChunkPos>) {
        self.requests.push(ChunkRequest::RemoveTicket(pos.into()));
    }

    /// Keeps a chunk loaded under a name, and saves that with the game: a load of a slot brings the ticket back, and the chunk
    /// is loaded again. The same chunk twice under one name is one ticket.
    ///
    /// ```
    /// # use bevy_ecs::prelude::*;
    /// use bevy_bonfire::chunks::Chunks;
    ///
    /// fn build_base(mut chunks: ResMut<Chunks>) {
    ///     chunks.add_named_ticket("base", (4, 0)); // it works on while the player is away
    ///     chunks.add_named_ticket("base", (5, 0));
    /// }
    /// fn leave_base(mut chunks: ResMut<Chunks>) {
    ///     chunks.remove_tickets_named("base");
    /// }
    /// ```
    pub fn add_named_ticket(&mut self, name: impl Into<String>, pos: impl Into<ChunkPos>) {
        self.requests.push(ChunkRequest::AddNamedTicket(name.into(), pos.into()));
    }

    /// Removes the ticket of a chunk under a name.
    pub fn remove_named_ticket(&mut self, name: impl Into<String>, pos: impl Into<ChunkPos>) {
        self.requests.push(ChunkRequest::RemoveNamedTicket(name.into(), pos.into()));
    }

    /// Removes all tickets under a name.
    pub fn remove_tickets_named(&mut self, name: impl Into<String>) {
        self.requests.push(ChunkRequest::RemoveTicketsNamed(name.into()));
    }

    /// Returns all named tickets as of the last frame, by name and then by chunk.
    pub fn named_tickets(&self) -> impl Iterator<Item = (&str, ChunkPos)> {
        self.tickets.iter()
    }

    /// Agrees that a staged chunk becomes active: see [`ChunkStreamPlugin::vote`](super::ChunkStreamPlugin::vote).
    pub fn agree(&mut self, pos: impl Into<ChunkPos>, vote: ChunkVote) {
        self.requests.push(ChunkRequest::Agree(pos.into(), vote));
    }

    /// Loads a chunk again that has failed.
    pub fn retry(&mut self, pos: impl Into<ChunkPos>) {
        self.requests.push(ChunkRequest::Retry(pos.into()));
    }

    /// Stops loading and unloading, until [`resume`](Self::resume). Saves go on.
    pub fn pause(&mut self) {
        self.requests.push(ChunkRequest::Pause(true));
    }

    /// Continues after a [`pause`](Self::pause).
    pub fn resume(&mut self) {
        self.requests.push(ChunkRequest::Pause(false));
    }

    /// Returns true while it is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Forbids to save, for editors and replays: chunks that have changed stay in the world, and saves fail.
    pub fn disable(&mut self) {
        self.requests.push(ChunkRequest::Enable(false));
    }

    /// Permits to save again.
    pub fn enable(&mut self) {
        self.requests.push(ChunkRequest::Enable(true));
    }

    /// Returns true if saving is permitted.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Saves every chunk that has changed at the end of this frame. The handle is complete when all of it is durable. A game
    /// with slots calls `commands.save(..)`, which includes this.
    pub fn save(&mut self) -> Handle<CommitReport> {
        self.request(ChunkRequest::Save)
    }

    /// Saves the cells of every chunk that has changed, and neither entities nor bodies: these stay in the file as they are. It is for
    /// editors that change the ground under a game. What bodies and ground have exchanged since the last [`save`](Self::save)
    /// may be doubled or missing after a crash.
    pub fn save_cells(&mut self) -> Handle<CommitReport> {
        self.request(ChunkRequest::SaveCells)
    }

    /// Notes that the game has moved something from one chunk to another, such as sand that falls over the border. Both are saved
    /// in one step from now on, so that a crash neither doubles nor loses it. Entities and bodies need no such call.
    pub fn save_together(&mut self, one: impl Into<ChunkPos>, other: impl Into<ChunkPos>) {
        self.requests.push(ChunkRequest::Together(one.into(), other.into()));
    }

    /// Saves every chunk that has changed, and gives the moment a name: see [`ChunkWorld::pin`].
    pub fn pin(&mut self, name: impl Into<String>, metadata: impl Into<Vec<u8>>) -> Handle<CommitReport> {
        let (name, metadata) = (name.into(), metadata.into());
        self.request(|promise| ChunkRequest::Pin(name, metadata, promise))
    }

    /// Writes the world as it is at the end of this frame to another path ("save as"). The game goes on in its own file.
    pub fn save_to(&mut self, path: impl Into<PathBuf>) -> Handle<CommitReport> {
        let path = path.into();
        self.request(|promise| ChunkRequest::SaveTo(path, promise))
    }

    /// Takes the chunks back to a pin, and waits for the disk. What is not pinned is gone then. A game with slots calls
    /// `commands.load(..)`, which includes this.
    pub fn return_to(&mut self, pin: impl Into<String>) -> Handle<()> {
        let pin = pin.into();
        self.request(|promise| ChunkRequest::ReturnTo(pin, promise))
    }

    /// Removes every chunk and begins again with the same seed, and waits for the disk. Pins stay, named tickets go. A game with slots calls
    /// `commands.start_over(..)`, which includes this.
    pub fn start_over(&mut self) -> Handle<()> {
        self.request(ChunkRequest::StartOver)
    }

    /// Saves all chunks as the game has them today: layers, and the schemas of entities. It happens beside the game, step by
    /// step, and the next session goes on where this one ends.
    pub fn upgrade(&mut self, pace: UpgradePace) -> Handle<UpgradeReport> {
        self.request(|promise| ChunkRequest::Upgrade(pace, promise))
    }

    /// Continues in a file that was opened again, after a sync that has failed. Everything that is not durable is saved there.
    pub fn reopen(&mut self, world: ChunkWorld) {
        self.world = world.clone();
        self.requests.push(ChunkRequest::Reopen(world));
    }

    /// Draws the window of a dimension at the end of this frame, for overlays and bug reports: see [`WindowPicture`]. `None`:
    /// no chunk of the dimension is in the window.
    pub fn picture(&mut self, dimension: u32) -> Handle<Option<WindowPicture>> {
        self.request(|promise| ChunkRequest::Picture(dimension, promise))
    }

    fn request<T: Clone + Send + 'static>(
        &mut self,
        request: impl FnOnce(Promise<T>) -> ChunkRequest,
    ) -> Handle<T> {
        let (promise, handle) = Promise::new();
        self.requests.push(request(promise));
        handle
    }
}
