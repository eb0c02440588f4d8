//! Requests: what waits in the queue, and the ends of it that the game holds.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bonfire::engine::catch_panic;
use bonfire::{Error, Result};
use bonfire_store::engine::{HandleFuture, Promise};
use bonfire_store::{Handle, Phase, Progress};

use super::statistics::{Outcome, RequestKind};
use crate::{Body, Chunk, ChunkPos, ChunkWorld, CommitReport, Durability, Edit, WholeChunk};

/// The beginning of the error of a request whose work panicked.
pub(super) const PANICKED: &str = "this request panicked";

/// How urgent a load is. The most urgent comes first. Loads that are equally urgent come in the order of their requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Not needed yet: chunks far ahead.
    Low,
    /// Needed soon.
    #[default]
    Normal,
    /// Needed now: the player looks at the place.
    High,
}

/// Follows a read of cells. It gives `None` for a chunk that is as the generator makes it.
pub type ReadHandle = Handle<Option<Arc<[u8]>>>;

/// Follows the load of a chunk, which comes from the file or from the generator.
pub type ChunkLoadHandle = Handle<Chunk>;

/// Follows the load of a chunk with its bodies and entities.
pub type WholeChunkHandle = Handle<WholeChunk>;

/// Follows a read of the bodies of a chunk.
pub type BodiesHandle = Handle<Vec<Body>>;

/// Follows a read of the entities of a chunk: the bytes of a snapshot, or `None` if there are none.
pub type EntitiesHandle = Handle<Option<Arc<[u8]>>>;

/// Follows a save. It is complete when the save is durable, or has failed. Only then it is safe to exit.
///
/// It has all calls of a [`Handle`]. A save that has failed keeps its edit: see [`take_edit`](Self::take_edit).
#[derive(Clone, Debug)]
pub struct CommitHandle {
    handle: Handle<CommitReport>,
    kept: KeptEdit,
}

/// The edit of a save that has failed.
type KeptEdit = Arc<Mutex<Option<Edit>>>;

impl CommitHandle {
    /// Takes the edit of a save that has failed or was cancelled, to save it again or elsewhere. `None` if the save is not
    /// complete or was made, and for all further calls. An edit that is not taken goes with the last clone of the handle. A save
    /// that panicked keeps its edit, too.
    pub fn take_edit(&self) -> Option<Edit> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Deref for CommitHandle {
    type Target = Handle<CommitReport>;

    fn deref(&self) -> &Handle<CommitReport> {
        &self.handle
    }
}

impl IntoFuture for CommitHandle {
    type Output = Result<CommitReport>;
    type IntoFuture = HandleFuture<CommitReport>;

    fn into_future(self) -> HandleFuture<CommitReport> {
        self.handle.into_future()
    }
}

impl IntoFuture for &CommitHandle {
    type Output = Result<CommitReport>;
    type IntoFuture = HandleFuture<CommitReport>;

    fn into_future(self) -> HandleFuture<CommitReport> {
        (&self.handle).into_future()
    }
}

/// A save that was not accepted, with its edit: nothing is lost.
pub struct RefusedSave {
    error: Error,
    edit: Box<Edit>,
}

impl RefusedSave {
    pub(super) fn new(error: Error, edit: Box<Edit>) -> Self {
        Self { error, edit }
    }

    /// Why it was refused. [`is_limit`](Error::is_limit) if too many saves wait: save the edit later.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The edit, as it was.
    pub fn into_edit(self) -> Edit {
        *self.edit
    }
}

impl fmt::Debug for RefusedSave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusedSave").field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Display for RefusedSave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this save was refused: {}", self.error)
    }
}

impl std::error::Error for RefusedSave {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The result of a request, before the game hears of it.
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    pub(super) error: Option<Error>,
    /// Bytes that were appended to the file.
    pub(super) bytes: u64,
    complete: Box<dyn FnOnce()>,
}

impl Finished {
    fn new<T: 'static>(promise: Promise<T>, result: Result<T>) -> Self {
        let error = result.as_ref().err().cloned();
        let outcome = match &error {
            None => Outcome::Done,
            Some(error) if error.is_cancelled() => Outcome::Cancelled,
            Some(_) => Outcome::Failed,
        };
        Self { outcome, error, bytes: 0, complete: Box::new(move || promise.complete(result)) }
    }

    /// Completes the handles. Wakers are code of the game, so no lock may be held.
    pub(super) fn complete(self) {
        let complete = self.complete;
        if let Err(error) = catch_panic("a waker panicked", || {
            complete();
            Ok(())
        }) {
            tracing::error!(%error, "after a request of a chunk world");
        }
    }
}

/// A read of one chunk.
pub(super) struct LoadRequest {
    pub(super) kind: RequestKind,
    pub(super) pos: ChunkPos,
    pub(super) priority: Priority,
    pub(super) since: Instant,
    work: Box<dyn LoadWork>,
}

trait LoadWork: Send {
    fn is_cancelled(&self) -> bool;
    fn finish(self: Box<Self>, read: Result<&ChunkWorld>, pos: ChunkPos) -> Finished;
}

struct Load<T, F> {
    promise: Promise<T>,
    read: F,
}

impl<T, F> LoadWork for Load<T, F>
where
    T: Send + 'static,
    F: FnOnce(&ChunkWorld, ChunkPos) -> Result<T> + Send,
{
    fn is_cancelled(&self) -> bool {
        self.promise.is_cancelled()
    }

    fn finish(self: Box<Self>, world: Result<&ChunkWorld>, pos: ChunkPos) -> Finished {
        // A generator or an upgrader of the game may panic. Then this request fails, and the others go on.
        let Self { promise, read } = *self;
        let result = world.and_then(|world| catch_panic(PANICKED, || read(world, pos)));
        Finished::new(promise, result)
    }
}

impl LoadRequest {
    pub(super) fn new<T: Send + 'static>(
        kind: RequestKind,
        pos: ChunkPos,
        priority: Priority,
        read: impl FnOnce(&ChunkWorld, ChunkPos) -> Result<T> + Send + 'static,
    ) -> (Self, Handle<T>) {
        let (promise, handle) = Promise::new();
        promise.start();
        let work = Box::new(Load { promise, read });
        (Self { kind, pos, priority, since: Instant::now(), work }, handle)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    pub(super) fn run(self, world: &ChunkWorld) -> Finished {
        let world = if self.is_cancelled() { Err(cancelled()) } else { Ok(world) };
        self.work.finish(world, self.pos)
    }

    pub(super) fn fail(self, error: Error) -> Finished {
        self.work.finish(Err(error), self.pos)
    }
}

/// Work for the writing thread.
pub(super) struct WriteRequest {
    pub(super) kind: RequestKind,
    pub(super) since: Instant,
    /// Chunks that it changes.
    pub(super) touched: BTreeSet<ChunkPos>,
    /// It may change the bodies of other chunks.
    pub(super) has_bodies: bool,
    work: WriteWork,
}

enum WriteWork {
    Save {
        edit: Box<Edit>,
        to: Option<PathBuf>,
        /// It is not written if this one was not.
        after: Option<CommitHandle>,
        promise: Promise<CommitReport>,
        kept: KeptEdit,
    },
    Compact {
        promise: Promise<()>,
    },
}

impl WriteRequest {
    pub(super) fn save(edit: Edit, to: Option<PathBuf>, after: Option<CommitHandle>) -> (Self, CommitHandle) {
        Self::save_for(edit, to, after, Promise::new().0)
    }

    /// The same, for a promise whose handle the game has already.
    pub(super) fn save_for(
        edit: Edit,
        to: Option<PathBuf>,
        after: Option<CommitHandle>,
        promise: Promise<CommitReport>,
    ) -> (Self, CommitHandle) {
        let handle = promise.handle();
        promise.start();
        let kept = KeptEdit::default();
        // A copy elsewhere changes nothing that reads could see.
        let (kind, touched, has_bodies) = match &to {
            None => (RequestKind::Save, edit.touched(), edit.has_bodies()),
            Some(_) => (RequestKind::SaveTo, BTreeSet::new(), false),
        };
        let work = WriteWork::Save { edit: Box::new(edit), to, after, promise, kept: kept.clone() };
        (Self { kind, since: Instant::now(), touched, has_bodies, work }, CommitHandle { handle, kept })
    }

    pub(super) fn compact() -> (Self, Handle<()>) {
        let (promise, handle) = Promise::new();
        promise.start();
        let work = WriteWork::Compact { promise };
        let (kind, touched) = (RequestKind::Compact, BTreeSet::new());
        (Self { kind, since: Instant::now(), touched, has_bodies: false, work }, handle)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        match &self.work {
            WriteWork::Save { promise, .. } => promise.is_cancelled(),
            WriteWork::Compact { promise } => promise.is_cancelled(),
        }
    }

    pub(super) fn is_compaction(&self) -> bool {
        matches!(self.work, WriteWork::Compact { .. })
    }

    /// The edit of a save that is refused; `None` for a compaction, which fails.
    pub(super) fn into_edit(self, error: &Error) -> Option<Box<Edit>> {
        match self.work {
            WriteWork::Save { edit, promise, .. } => {
                promise.complete(Err(error.clone()));
                Some(edit)
            }
            WriteWork::Compact { .. } => None,
        }
    }

    pub(super) fn run(self, world: &ChunkWorld) -> Finished {
        if self.is_cancelled() {
            return self.fail(cancelled());
        }
        match self.work {
            WriteWork::Save { mut edit, to, after, promise, kept } => {
                let before = after.and_then(|before| before.result()?.err());
                let result = catch_panic(PANICKED, || match (before, to) {
                    // Writes come in the order of their requests, so the one before has its outcome.
                    (Some(error), _) => Err(error),
                    (None, None) => edit.commit_only(Durability::Synced),
                    (None, Some(path)) => world.save_to(path, &mut edit),
                });
                let bytes = result.as_ref().map_or(0, |report| report.bytes);
                if result.is_err() {
                    keep(&kept, *edit);
                }
                Finished { bytes, ..Finished::new(promise, result) }
            }
            WriteWork::Compact { promise } => {
                let watch = |done, total| promise.set_progress(Progress::new(Phase::Writing, done, total));
                let result = catch_panic(PANICKED, || world.compact(watch));
                Finished::new(promise, result)
            }
        }
    }

    pub(super) fn fail(self, error: Error) -> Finished {
        match self.work {
            WriteWork::Save { edit, promise, kept, .. } => {
                keep(&kept, *edit);
                Finished::new(promise, Err(error))
            }
            WriteWork::Compact { promise } => Finished::new(promise, Err(error)),
        }
    }
}

fn keep(kept: &KeptEdit, edit: Edit) {
    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(edit);
}

pub(super) fn cancelled() -> Error {
    Error::cancelled("this request was cancelled before its turn")
}
