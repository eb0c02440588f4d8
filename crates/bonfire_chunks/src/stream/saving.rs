//! Saves of a stream: one after the other, and nothing is lost when one fails.
//!
//! An edit is handed to the worker when the one before it is done. What comes meanwhile is added to the next one, so that a
//! busy disk makes saves larger and not more. An edit that names a moment is closed, and handed on at once: what comes later is
//! in another one. Each depends on the one before it. Edits that have failed become the first part of the next one. So the file
//! always has all edits up to some moment, and none of those after it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bonfire::{Error, Snapshot};
use bonfire_store::engine::Promise;

use crate::position::PosMap;
use crate::{
    Body, Chunk, ChunkPos, ChunkRevision, ChunkWorker, ChunkWorld, CommitHandle, CommitReport, Edit,
};

/// Between two tries of an edit that has failed.
const RETRY_AFTER: Duration = Duration::from_millis(500);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// How long a stream that ends waits for a place in a full queue.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// An edit of live chunks, and facts about them.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) edit: Option<Edit>,
    /// The cells that it has of chunks in memory.
    pub(super) revisions: Vec<(ChunkPos, ChunkRevision)>,
    /// The parts of each chunk that a load must take from here.
    pub(super) unsaved: Vec<(ChunkPos, UnsavedChunk)>,
}

/// The newest state of a chunk in an edit that is not durable. A load of the chunk takes it from here, and not from the file.
#[derive(Default)]
pub(super) struct UnsavedChunk {
    /// Cells of a chunk that has left. A chunk in the world has them itself, until they are durable.
    pub(super) chunk: Option<Chunk>,
    /// Captured entities, also of a chunk in the world: it may leave without another capture.
    pub(super) entities: Option<Snapshot>,
    /// Captured bodies, likewise.
    pub(super) bodies: Option<Vec<Body>>,
    /// The save that makes it durable.
    number: u64,
}

impl UnsavedChunk {
    pub(super) fn is_empty(&self) -> bool {
        self.chunk.is_none() && self.entities.is_none() && self.bodies.is_none()
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> u64 {
        let cells = self.chunk.as_ref().map_or(0, |chunk| chunk.cells().len());
        let bodies = self.bodies.iter().flatten().map(|body| body.cells.len() as u64).sum::<u64>();
        let entities = self.entities.as_ref().map_or(0, |entities| entities.entity_count() as u64 * 64);
        cells as u64 + bodies + entities
    }
}

/// A moment that is to be pinned.
pub(super) struct Pin {
    pub(super) name: String,
    pub(super) metadata: Vec<u8>,
}

/// The part of a save that waits for its outcome.
#[derive(Default)]
struct Outcome {
    number: u64,
    revisions: Vec<(ChunkPos, ChunkRevision)>,
}

/// A save that waits for its turn.
struct WaitingSave {
    edit: Edit,
    /// It names a moment, so nothing is added to it.
    is_closed: bool,
    outcome: Outcome,
    /// The worker completes it, so that a caller may wait without another frame.
    promise: Option<Promise<CommitReport>>,
}

/// The outcome of a save.
pub(super) enum SaveNews {
    /// These cells are durable, and these chunks are nowhere but in the file.
    Saved {
        revisions: Vec<(ChunkPos, ChunkRevision)>,
        gone: Vec<ChunkPos>,
    },
    Failed(Error),
}

/// The saves of a stream.
#[derive(Default)]
pub(super) struct Saving {
    in_flight: VecDeque<(CommitHandle, Outcome)>,
    waiting: VecDeque<WaitingSave>,
    unsaved: PosMap<UnsavedChunk>,
    numbers: u64,
    failures: u32,
    retry_at: Option<Instant>,
    /// Outcomes that nothing has been told of.
    news: VecDeque<SaveNews>,
}

impl Saving {
    /// Adds a batch to what is to be saved.
    pub(super) fn add(&mut self, batch: Batch) {
        let Batch { edit, revisions, unsaved } = batch;
        let Some(edit) = edit.filter(|edit| !edit.is_empty()) else { return };
        let number = self.push(edit, revisions, None, false);
        self.note_unsaved(unsaved, number);
    }

    fn note_unsaved(&mut self, unsaved: Vec<(ChunkPos, UnsavedChunk)>, number: u64) {
        for (pos, newer) in unsaved.into_iter().filter(|(_, newer)| !newer.is_empty()) {
            let known = self.unsaved.entry(pos).or_default();
            known.chunk = newer.chunk.or(known.chunk.take());
            known.entities = newer.entities.or(known.entities.take());
            known.bodies = newer.bodies.or(known.bodies.take());
            known.number = number;
        }
    }

    /// Adds a batch, and hands everything to the worker, which completes the promise when all of it is durable, and all that was
    /// added before. With a pin, the moment gets its name in the same step.
    pub(super) fn add_moment(
        &mut self,
        worker: &ChunkWorker,
        batch: Batch,
        pin: Option<Pin>,
        promise: Promise<CommitReport>,
    ) {
        promise.start();
        self.take_back(worker);
        let mut edit = batch.edit.unwrap_or_else(|| worker.world().edit());
        let is_closed = pin.is_some();
        if let Some(Pin { name, metadata }) = pin {
            edit.pin(name, metadata);
        }
        let number = self.push(edit, batch.revisions, Some(promise), is_closed);
        self.note_unsaved(batch.unsaved, number);
        self.submit(worker);
    }

    fn push(
        &mut self,
        edit: Edit,
        revisions: Vec<(ChunkPos, ChunkRevision)>,
        promise: Option<Promise<CommitReport>>,
        is_closed: bool,
    ) -> u64 {
        self.numbers += 1;
        let outcome = Outcome { number: self.numbers, revisions };
        let later = WaitingSave { edit, is_closed, outcome, promise };
        match self.waiting.back_mut() {
            Some(last) if !last.is_closed => last.append(later),
            _ => self.waiting.push_back(later),
        }
        self.numbers
    }

    /// If an edit has failed, waits for those that depend on it, and takes all of them back.
    fn take_back(&mut self, worker: &ChunkWorker) {
        if self.has_failed() {
            self.in_flight.iter().for_each(|(handle, _)| _ = handle.wait());
            while let Some(news) = self.next_outcome(worker) {
                self.news.push_back(news);
            }
        }
    }

    /// Takes the outcome of the oldest save that is under way. An edit that has failed becomes one of the worker's world.
    pub(super) fn take_outcome(&mut self, worker: &ChunkWorker) -> Option<SaveNews> {
        self.news.pop_front().or_else(|| self.next_outcome(worker))
    }

    fn next_outcome(&mut self, worker: &ChunkWorker) -> Option<SaveNews> {
        let result = self.in_flight.front()?.0.result()?;
        if let Err(error) = result {
            return self.take_failed(error, worker.world());
        }
        let (_, Outcome { number, revisions }) = self.in_flight.pop_front()?;
        (self.failures, self.retry_at) = (0, None);
        let gone = self.unsaved.extract_if(|_, unsaved| unsaved.number <= number);
        Some(SaveNews::Saved { revisions, gone: gone.map(|(pos, _)| pos).collect() })
    }

    /// Takes all edits that are with the worker: they depend on one that has failed. Waits until each of them has its outcome.
    fn take_failed(&mut self, error: Error, world: &ChunkWorld) -> Option<SaveNews> {
        if self.in_flight.iter().any(|(handle, _)| !handle.is_complete()) {
            return None;
        }
        for (handle, outcome) in std::mem::take(&mut self.in_flight).into_iter().rev() {
            if let Some(mut edit) = handle.take_edit() {
                edit.forget_pin();
                // The file may have been opened again since.
                edit.rebind(world);
                self.push_front(WaitingSave { edit, is_closed: false, outcome, promise: None });
            }
        }
        let after = RETRY_AFTER.saturating_mul(1 << self.failures.min(6)).min(RETRY_AFTER_MAX);
        (self.failures, self.retry_at) = (self.failures + 1, Some(Instant::now() + after));
        Some(SaveNews::Failed(error))
    }

    /// Puts a save before those that wait.
    fn push_front(&mut self, mut save: WaitingSave) {
        if let Some(next) = self.waiting.pop_front() {
            save.append(next);
        }
        if !save.edit.is_empty() || save.promise.is_some() {
            self.waiting.push_front(save);
        }
    }

    /// Hands saves to the worker: all of them, if one is waited for.
    pub(super) fn submit(&mut self, worker: &ChunkWorker) {
        let mut is_too_early =
            self.retry_at.is_some_and(|at| Instant::now() < at) || !self.in_flight.is_empty();
        // A save that has failed comes first, and nothing is handed on before it is back.
        if self.has_failed() {
            return;
        }
        while !is_too_early || self.waiting.iter().any(|save| save.promise.is_some()) {
            let Some(save) = self.waiting.pop_front() else { return };
            if let Err(save) = self.hand_over(worker, save) {
                // The worker is busy: the next frame tries again.
                return self.push_front(*save);
            }
            is_too_early = true;
        }
    }

    /// Hands a save to the worker. If that is busy, the save comes back; a promise has failed then, and its moment has no name.
    fn hand_over(&mut self, worker: &ChunkWorker, save: WaitingSave) -> Result<(), Box<WaitingSave>> {
        let WaitingSave { edit, is_closed: _, outcome, promise } = save;
        let last = self.in_flight.back().map(|(last, _)| last.clone());
        let promise = promise.unwrap_or_else(|| Promise::new().0);
        match worker.save_for(edit, last, promise) {
            Ok(handle) => {
                self.in_flight.push_back((handle, outcome));
                Ok(())
            }
            Err(refused) => {
                let mut edit = refused.into_edit();
                edit.forget_pin();
                Err(Box::new(WaitingSave { edit, is_closed: false, outcome, promise: None }))
            }
        }
    }

    fn has_failed(&self) -> bool {
        self.in_flight.iter().any(|(handle, _)| handle.result().is_some_and(|result| result.is_err()))
    }

    /// Hands everything to the worker: the stream ends. Waits for it only if an edit has failed, or if too many saves wait.
    pub(super) fn submit_all(&mut self, worker: &ChunkWorker) {
        self.take_back(worker);
        while let Some(save) = self.waiting.pop_front() {
            let submitted = self.hand_over(worker, save).or_else(|save| {
                worker.finish(END_PATIENCE);
                self.hand_over(worker, *save)
            });
            if submitted.is_err() {
                tracing::error!("the last save of a stream was refused: too many saves wait");
            }
        }
    }

    /// Returns what the file does not have yet of a chunk.
    pub(super) fn unsaved(&self, pos: ChunkPos) -> Option<&UnsavedChunk> {
        self.unsaved.get(&pos)
    }

    /// Returns all chunks of which the file does not have everything, also those in the world.
    pub(super) fn all_unsaved(&self) -> impl Iterator<Item = (ChunkPos, &UnsavedChunk)> {
        self.unsaved.iter().map(|(pos, unsaved)| (*pos, unsaved))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.waiting.is_empty()
    }

    /// Returns true if the last save has failed, and none since was durable.
    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Returns the newest save that is with the worker.
    pub(super) fn in_flight(&self) -> Option<CommitHandle> {
        self.in_flight.back().map(|(handle, _)| handle.clone())
    }

    /// Forgets everything that is not with the worker: the world goes to another moment. Requests fail.
    pub(super) fn clear(&mut self, error: &Error) {
        for promise in self.waiting.drain(..).filter_map(|save| save.promise) {
            promise.complete(Err(error.clone()));
        }
        // They were before the return, or have failed.
        self.in_flight.clear();
        self.news.clear();
        self.unsaved.clear();
        (self.failures, self.retry_at) = (0, None);
    }

    /// Goes on in a file that was opened again. A save that is with the old worker must have an outcome. If it has failed,
    /// [`take_outcome`](Self::take_outcome) takes it to the new one.
    pub(super) fn rebind(&mut self, world: &ChunkWorld) {
        self.waiting.iter_mut().for_each(|save| save.edit.rebind(world));
        self.retry_at = None;
    }
}

impl WaitingSave {
    fn append(&mut self, later: Self) {
        self.edit.append(later.edit);
        self.is_closed = later.is_closed;
        self.outcome.number = later.outcome.number;
        self.outcome.revisions.extend(later.outcome.revisions);
        self.promise = later.promise.or(self.promise.take());
    }
}
