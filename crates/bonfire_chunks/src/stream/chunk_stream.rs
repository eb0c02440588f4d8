//! The stream: the table of chunks, and the calls of a game.

use std::collections::BTreeSet;
use std::sync::Arc;

use bonfire::{Error, Result};

use super::saving::{Saving, UnsavedChunk};
use super::window::{Urgency, Window};
use super::window_chunk::{State, WindowChunk};
use super::{ChunkPhase, Focus, StreamOptions, StreamStatus};
use crate::position::PosMap;
use crate::{ChunkPos, ChunkRect, ChunkWorker, ChunkWorld};

/// One of those that vote before a chunk is active: collision, a mesh. See [`ChunkStream::add_vote`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkVote(u8);

/// Streams the chunks of a world around the players, with their entities.
///
/// Call [`update`](Self::update) once per frame. `P` are the entities of a chunk, decoded for the front end's ECS.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use bonfire::{Result, Snapshot};
/// use bonfire_chunks::stream::{ChunkStream, Decoder, Focus, StreamedWorld};
/// use bonfire_chunks::{Chunk, ChunkOptions, ChunkPos, ChunkRevision, ChunkWorker, Layer, Layers, Persistence};
///
/// /// A game that has cells and no entities.
/// #[derive(Default)]
/// struct Game(HashMap<ChunkPos, Chunk>);
///
/// impl StreamedWorld for Game {
///     type Prepared = Snapshot;
///
///     fn decoder(&mut self) -> Result<Decoder<Snapshot>> {
///         Ok(Arc::new(|_, snapshot| Ok(snapshot)))
///     }
///     fn stage(&mut self, chunk: Chunk) {
///         self.0.insert(chunk.pos(), chunk);
///     }
///     fn activate(&mut self, _: ChunkPos, _: Option<Snapshot>) -> Result<()> {
///         Ok(())
///     }
///     fn chunk(&self, pos: ChunkPos) -> Option<&Chunk> {
///         self.0.get(&pos)
///     }
///     fn saved(&mut self, pos: ChunkPos, revision: ChunkRevision) {
///         self.0.entry(pos).and_modify(|chunk| chunk.saved(revision));
///     }
///     fn is_changed(&mut self, _: ChunkPos) -> bool {
///         false
///     }
///     fn capture(&mut self, _: &[ChunkPos]) -> Result<Vec<(ChunkPos, Snapshot)>> {
///         Ok(Vec::new())
///     }
///     fn remove(&mut self, pos: ChunkPos) {
///         self.0.remove(&pos);
///     }
/// }
///
/// # let directory = tempfile::tempdir()?;
/// let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
/// let world = ChunkOptions::new(layers).chunk_size(16).open(directory.path().join("world.save"))?;
/// let (mut game, mut stream) = (Game::default(), ChunkStream::new(ChunkWorker::new(world)));
/// stream.set_focus(1, Focus::new((0, 0), 2)); // where the player is
/// while stream.status().active < 25 {
///     stream.update(&mut game, Duration::from_millis(2))?; // once per frame
/// }
/// game.0.get_mut(&ChunkPos::new(1, 0)).expect("it is near").set(3, 4, &[9])?;
/// stream.set_focus(1, Focus::new((50, 0), 2)); // far away: the chunk leaves, and is saved
/// stream.update(&mut game, Duration::from_millis(2))?;
/// while !stream.is_settled() || !stream.is_saved() {
///     stream.update(&mut game, Duration::from_millis(2))?;
/// }
/// assert_eq!(stream.world().read((1, 0))?.expect("it was saved")[4 * 16 + 3], 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChunkStream<P> {
    pub(super) worker: Arc<ChunkWorker>,
    pub(super) options: StreamOptions,
    pub(super) window: Window,
    pub(super) chunks: PosMap<WindowChunk<P>>,
    /// Chunks whose turn has not come.
    pub(super) queued: BTreeSet<(Urgency, ChunkPos)>,
    pub(super) loading: BTreeSet<ChunkPos>,
    /// Chunks that wait for votes, or for time.
    pub(super) staged: BTreeSet<(Urgency, ChunkPos)>,
    /// Chunks that nothing wants any more.
    pub(super) leaving: BTreeSet<ChunkPos>,
    pub(super) saving: Saving,
    votes: Vec<String>,
    pub(super) is_paused: bool,
    pub(super) is_enabled: bool,
    /// The world is on its way to another moment: nothing is loaded and nothing is saved.
    pub(super) is_frozen: bool,
    active: usize,
    failed: usize,
    pub(super) last_error: Option<Error>,
}

impl<P: Send + 'static> ChunkStream<P> {
    /// Streams a world with the default options.
    pub fn new(worker: impl Into<Arc<ChunkWorker>>) -> Self {
        Self::with_options(worker, StreamOptions::default())
    }

    /// Streams a world.
    pub fn with_options(worker: impl Into<Arc<ChunkWorker>>, options: StreamOptions) -> Self {
        Self {
            worker: worker.into(),
            options,
            window: Window::default(),
            chunks: PosMap::default(),
            queued: BTreeSet::new(),
            loading: BTreeSet::new(),
            staged: BTreeSet::new(),
            leaving: BTreeSet::new(),
            saving: Saving::default(),
            votes: Vec::new(),
            is_paused: false,
            is_enabled: true,
            is_frozen: false,
            active: 0,
            failed: 0,
            last_error: None,
        }
    }

    /// Returns the world.
    pub fn world(&self) -> &ChunkWorld {
        self.worker.world()
    }

    /// Returns the worker that reads and saves. What is saved with it apart from the stream is not known to the stream.
    pub fn worker(&self) -> &Arc<ChunkWorker> {
        &self.worker
    }

    /// Sets the focus with this number, or removes it. A focus that stays where it is costs nothing.
    pub fn set_focus(&mut self, id: u64, focus: impl Into<Option<Focus>>) {
        self.window.set_focus(id, focus.into());
    }

    /// Returns all focuses.
    pub fn focuses(&self) -> impl Iterator<Item = &Focus> {
        self.window.focuses()
    }

    /// Keeps a chunk loaded until [`remove_ticket`](Self::remove_ticket) was called as often.
    pub fn add_ticket(&mut self, pos: impl Into<ChunkPos>) {
        self.window.add_ticket(pos.into());
    }

    /// Takes a ticket back. Returns false if there is none.
    pub fn remove_ticket(&mut self, pos: impl Into<ChunkPos>) -> bool {
        self.window.remove_ticket(pos.into())
    }

    /// Returns all tickets: a chunk, and how many it has.
    pub fn tickets(&self) -> impl Iterator<Item = (ChunkPos, u32)> {
        self.window.tickets()
    }

    /// Loads a chunk for a moment, so that an entity can [enter](super::StreamedWorld::admit) it, and saves it at once. If
    /// something else keeps the chunk loaded, it stays.
    pub fn visit(&mut self, pos: impl Into<ChunkPos>) {
        self.window.visit(pos.into());
    }

    /// Ends a visit that is not needed any more.
    pub fn end_visit(&mut self, pos: impl Into<ChunkPos>) {
        self.window.end_visit(pos.into());
    }

    /// Keeps a chunk loaded because something reaches into it, such as a body of the chunk beside it. It ends with as many calls of
    /// [`let_loose`](Self::let_loose). Unlike a ticket, it is no reason to hold further chunks: see
    /// [`is_kept`](Self::is_kept).
    pub fn hold(&mut self, pos: impl Into<ChunkPos>) {
        self.window.hold(pos.into());
    }

    /// Ends a [`hold`](Self::hold).
    pub fn let_loose(&mut self, pos: impl Into<ChunkPos>) {
        self.window.let_loose(pos.into());
    }

    /// Returns true if a focus or a ticket keeps a chunk loaded. What lives in other chunks holds nothing: otherwise one body after
    /// the other would load the whole world.
    pub fn is_kept(&self, pos: impl Into<ChunkPos>) -> bool {
        self.window.keeps_itself(pos.into())
    }

    /// Adds one that votes before a chunk is active: a chunk stays [`Staged`](ChunkPhase::Staged) until
    /// [`agree`](Self::agree) was called for it. 64 at most. Asking again for the same name returns the same vote.
    pub fn add_vote(&mut self, name: impl Into<String>) -> Result<ChunkVote> {
        let name = name.into();
        let known = self.votes.iter().position(|known| *known == name);
        let number = known.unwrap_or(self.votes.len());
        let vote = u8::try_from(number).ok().filter(|number| *number < 64);
        let vote =
            vote.ok_or_else(|| Error::misuse(format!("`{name}` is one vote too many: 64 may vote")))?;
        if known.is_none() {
            self.votes.push(name);
        }
        Ok(ChunkVote(vote))
    }

    /// Agrees that a staged chunk becomes active. Returns false if the chunk is not staged.
    pub fn agree(&mut self, pos: impl Into<ChunkPos>, vote: ChunkVote) -> bool {
        match self.chunks.get_mut(&pos.into()).map(|chunk| &mut chunk.state) {
            Some(State::Staged { votes, .. }) => {
                *votes |= 1 << vote.0;
                true
            }
            _ => false,
        }
    }

    pub(super) fn all_votes(&self) -> u64 {
        u64::MAX.checked_shr(64 - self.votes.len() as u32).unwrap_or(0)
    }

    /// Returns how far a chunk is. `None` if it is not in the window and not on its way to the file.
    pub fn phase(&self, pos: impl Into<ChunkPos>) -> Option<ChunkPhase> {
        let pos = pos.into();
        let in_window = self.chunks.get(&pos).map(|chunk| chunk.state.phase());
        in_window.or_else(|| self.saving.unsaved(pos).map(|_| ChunkPhase::Saving))
    }

    /// Returns why a chunk has [failed](ChunkPhase::Failed).
    pub fn failure(&self, pos: impl Into<ChunkPos>) -> Option<&Error> {
        match &self.chunks.get(&pos.into())?.state {
            State::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Loads a chunk again that has failed, after the game or the player has mended something.
    pub fn retry(&mut self, pos: impl Into<ChunkPos>) {
        let pos = pos.into();
        if self.failure(pos).is_some() {
            self.chunks.remove(&pos);
            self.failed -= 1;
            self.window.change();
        }
    }

    /// Returns true if a chunk is active.
    pub fn is_active(&self, pos: impl Into<ChunkPos>) -> bool {
        self.chunks.get(&pos.into()).is_some_and(|chunk| matches!(chunk.state, State::Active))
    }

    /// Returns true if every chunk of an area is active.
    pub fn is_ready(&self, area: ChunkRect) -> bool {
        area.area() <= self.active as u128 && area.iter().all(|pos| self.is_active(pos))
    }

    /// Returns true if everything that is wanted is active or has failed, and everything else has left.
    pub fn is_settled(&self) -> bool {
        let is_quiet = self.queued.is_empty() && self.loading.is_empty() && self.staged.is_empty();
        is_quiet && self.leaving.is_empty()
    }

    /// Returns all chunks of the window, with their phases, in no order. Those that have left and are not durable are
    /// [`Saving`](ChunkPhase::Saving).
    pub fn phases(&self) -> impl Iterator<Item = (ChunkPos, ChunkPhase)> {
        let in_window = self.chunks.iter().map(|(pos, chunk)| (*pos, chunk.state.phase()));
        in_window.chain(self.departed().map(|(pos, _)| (pos, ChunkPhase::Saving)))
    }

    /// Returns the chunks that have left and are not durable.
    fn departed(&self) -> impl Iterator<Item = (ChunkPos, &UnsavedChunk)> {
        self.saving.all_unsaved().filter(|(pos, _)| !self.chunks.contains_key(pos))
    }

    /// Returns about how many bytes the chunks have that have left and are not durable.
    pub(super) fn departed_bytes(&self) -> u64 {
        self.departed().map(|(_, unsaved)| unsaved.bytes()).sum()
    }

    /// Notes that an entity has moved between two active chunks: they are saved in one step from now on.
    pub fn exchanged(&mut self, one: ChunkPos, other: ChunkPos) {
        if one == other {
            return;
        }
        for (here, there) in [(one, other), (other, one)] {
            if let Some(chunk) = self.chunks.get_mut(&here) {
                chunk.exchanged.insert(there);
            }
        }
    }

    /// Stops loading and letting go, until [`resume`](Self::resume). Saves go on.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Goes on after a [`pause`](Self::pause).
    pub fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Returns true while it is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Forbids to save, for editors and replays: chunks that have changed stay in the world, and requests for saves fail.
    pub fn disable(&mut self) {
        self.is_enabled = false;
    }

    /// Permits to save again.
    pub fn enable(&mut self) {
        self.is_enabled = true;
    }

    /// Returns true if saving is permitted.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Returns counts of chunks by phase, and how saving is doing.
    pub fn status(&self) -> StreamStatus {
        StreamStatus {
            queued: self.queued.len(),
            loading: self.loading.len(),
            staged: self.staged.len(),
            active: self.active,
            leaving: self.leaving.len(),
            saving: self.departed().count(),
            saving_bytes: self.departed_bytes(),
            failed: self.failed,
            is_failing: self.saving.is_failing(),
        }
    }

    /// Returns true while the world is on its way to another moment: nothing is loaded, and nothing can be saved.
    pub fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Returns true if the last save has failed, and none since was durable. It is tried again.
    pub fn is_failing(&self) -> bool {
        self.saving.is_failing()
    }

    /// Returns why the last save has failed, if it has.
    pub fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    /// Returns true if every change that has left the world is durable.
    pub fn is_saved(&self) -> bool {
        self.saving.is_idle()
    }

    /// Puts a state in the place of another one, and keeps the counts. Returns the phase before.
    pub(super) fn set_state(&mut self, pos: ChunkPos, state: State<P>) -> Option<ChunkPhase> {
        let chunk = self.chunks.get_mut(&pos)?;
        let before = std::mem::replace(&mut chunk.state, state);
        self.count(before.phase(), false);
        let after = self.chunks[&pos].state.phase();
        self.count(after, true);
        Some(before.phase())
    }

    pub(super) fn count(&mut self, phase: ChunkPhase, is_more: bool) {
        let count = match phase {
            ChunkPhase::Active => &mut self.active,
            ChunkPhase::Failed => &mut self.failed,
            _ => return,
        };
        if is_more { *count += 1 } else { *count -= 1 }
    }
}

/// Hands all that has left the world to the worker. Chunks in the world are not saved: call [`save`](ChunkStream::save) before.
impl<P> Drop for ChunkStream<P> {
    fn drop(&mut self) {
        self.saving.submit_all(&self.worker);
    }
}

impl<P> std::fmt::Debug for ChunkStream<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkStream").field("chunks", &self.chunks.len()).finish_non_exhaustive()
    }
}
