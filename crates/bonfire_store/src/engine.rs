//! Requests of front ends: a [`Saver`] that is driven by an engine instead of a game.
//!
//! A game calls [`Saver::save`] and gets a handle. A front end gives handles to the game before it can capture anything:
//! at the end of the frame, or after a load. It creates a [`Promise`] with its handle, keeps the promise, and submits it
//! with the request.
//!
//! | step | call |
//! |---|---|
//! | the game requests a save | [`Promise::new`]: the game gets the [`Handle`], the front end keeps the promise |
//! | the front end captures the world, and submits it | [`submit_save`] |
//! | several requests wait for one capture | all their promises in [`SaveRequest::promises`], oldest first |
//! | only changes are written | [`submit_append_after`], which continues a [`RequestedSave`] |
//! | the game requests a load | [`submit_load`]: its closure decodes on the thread of the saver |
//! | a long step reports progress | [`ProgressReporter::set`] |
//! | the game cancels | [`Promise::is_cancelled`]: the front end looks before it begins, the saver before each job |
//!
//! A promise that is dropped completes its handle with an error. A promise that no job holds must be
//! [started](Promise::start) before a caller may block on its handle.
//!
//! ```
//! # use bonfire::{Registry, Snapshot};
//! # use bonfire::engine::SnapshotWriter;
//! use bonfire_store::engine::{Promise, SaveRequest, submit_load, submit_save};
//! use bonfire_store::{Details, MemoryStore, Phase, Progress, Saver, Slots};
//!
//! # let registry = Registry::new();
//! # let capture = || SnapshotWriter::new(&registry).finish();
//! let saver = Saver::new(Slots::new(MemoryStore::new()));
//!
//! // During the frame: the game requests a save and gets a handle.
//! let (promise, save) = Promise::new();
//!
//! // At the end of the frame: the front end captures the world.
//! submit_save(&saver, SaveRequest {
//!     target: "quick".into(),
//!     snapshot: capture()?,
//!     details: Details::new(),
//!     encode: None,
//!     promises: vec![promise],
//! });
//! assert_eq!(save.wait()?.generation, Some(1));
//!
//! // A load decodes off the game's thread, and reports progress.
//! let (promise, load) = Promise::new();
//! submit_load(&saver, "quick".into(), Snapshot::options(), promise, |loaded, reporter| {
//!     reporter.set(Progress::new(Phase::Decoding, 0, 1));
//!     Ok(loaded.snapshot.entity_count())
//! });
//! assert_eq!(load.wait()?, 0);
//! # Ok::<(), bonfire::Error>(())
//! ```

use bonfire::{Delta, OpenOptions, Result};

use crate::journal::{AppendReport, JournalBase};
use crate::live::{Handle, LoadSource, SaveReport, Saver};
pub use crate::live::{HandleFuture, Promise, RequestedSave, SaveRequest};
pub use crate::progress::ProgressReporter;
#[cfg(feature = "seal")]
pub use crate::sealed::FrameSealer;
use crate::slots::LoadedSave;

/// Saves a captured world. The save completes all promises of the request.
pub fn submit_save(saver: &Saver, request: SaveRequest) {
    saver.submit_save(request);
}

/// Appends a delta to the journal of a save that is durable: [`Saver::append`] for an existing promise.
pub fn submit_append(saver: &Saver, base: JournalBase, delta: Delta, promise: Promise<AppendReport>) {
    saver.submit_append(base, delta, promise);
}

/// Appends a delta to the journal of a save that need not be durable yet. If that save fails, the append fails too.
///
/// The append also completes the promises in `saves`. They belong to requests for saves for which the delta is enough.
pub fn submit_append_after(
    saver: &Saver,
    base: RequestedSave,
    delta: Delta,
    saves: Vec<Promise<SaveReport>>,
) -> Handle<AppendReport> {
    saver.submit_append_after(base, delta, saves)
}

/// Opens and checks a save, then calls `then` on the same thread, to migrate and decode it.
pub fn submit_load<T: Clone + Send + 'static>(
    saver: &Saver,
    source: LoadSource,
    options: OpenOptions<'static>,
    promise: Promise<T>,
    then: impl FnOnce(LoadedSave, &ProgressReporter) -> Result<T> + Send + 'static,
) {
    saver.submit_load(source, options, promise, then);
}

/// Deletes all saves of a slot that are not locked: [`Saver::delete_saves`] for an existing promise.
pub fn submit_delete(saver: &Saver, slot: &str, promise: Promise<u64>) {
    saver.submit_delete(slot, promise);
}
