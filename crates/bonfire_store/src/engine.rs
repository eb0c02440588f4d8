//! Requests of front ends: a [`Saver`] that is driven by an engine instead of a game.
//!
//! A game calls [`Saver::save`] with a captured world. A front end gives handles to the game before it can capture anything:
//! at the end of the frame, or after a load. Its requests wait in the queue of the saver, too. There is one order, one bound,
//! and one place where a save takes the place of an older one.
//!
//! | step | call |
//! |---|---|
//! | the game requests a save | [`Promise::new`]: the game gets the [`Handle`]; [`request_save`] takes the promise |
//! | the game requests anything else | [`request`], with a request type of the front end |
//! | the frame ends | [`next_request`], until there is none, or until a load is going on |
//! | the front end captures the world | [`SaveTurn::save`] hands it to the thread |
//! | only changes are written | [`SaveTurn::append`], which continues a [`RequestedSave`] |
//! | a load begins | [`submit_load`]: its closure decodes on the thread of the saver |
//! | a long step reports progress | [`ProgressReporter::set`] |
//! | the game cancels | [`SaveTurn::is_cancelled`]: the front end looks before it begins, the saver before each job |
//!
//! A promise that is dropped completes its handle with an error, and so does a [`SaveTurn`]. A promise that is not in a queue
//! must be [started](Promise::start) before a caller may block on its handle.
//!
//! ```
//! # use bonfire::{Registry, Snapshot};
//! # use bonfire::engine::SnapshotWriter;
//! use bonfire_store::engine::{NextRequest, Promise, RequestScope, next_request, request, request_save, submit_load};
//! use bonfire_store::{Details, LoadSource, MemoryStore, Phase, Progress, Saver, Slots};
//!
//! # let registry = Registry::new();
//! # let capture = || SnapshotWriter::new(&registry).finish();
//! /// The front end's own types.
//! struct Options;
//! struct Load(LoadSource, Promise<usize>);
//!
//! let saver = Saver::new(Slots::new(MemoryStore::new()));
//!
//! // During the frame: the game requests a save and a load, and gets handles.
//! let (promise, save) = Promise::new();
//! request_save(&saver, "quick".into(), Options, promise);
//! let (promise, load) = Promise::new();
//! if let Err(refused) = request(&saver, "load", RequestScope::Everything, Load("quick".into(), promise)) {
//!     refused.request.1.complete(Err(refused.error));
//! }
//!
//! // At the end of the frame: the front end does its part.
//! while let Some(next) = next_request::<Options, Load>(&saver) {
//!     match next {
//!         NextRequest::Save(turn) => turn.save(capture()?, Details::new(), None),
//!         NextRequest::Other(Load(source, promise)) => {
//!             // The thread decodes, and reports progress.
//!             let decoded = submit_load(&saver, source, Snapshot::options(), |loaded, reporter| {
//!                 reporter.set(Progress::new(Phase::Decoding, 0, 1));
//!                 Ok(loaded.snapshot.entity_count())
//!             });
//!             // The front end commits when that is done. No later request is taken before.
//!             promise.complete(decoded.wait());
//!         }
//!     }
//! }
//! assert_eq!(save.wait()?.generation, Some(1));
//! assert_eq!(load.wait()?, 0);
//! # Ok::<(), bonfire::Error>(())
//! ```

pub use crate::journal::is_journal;
pub use crate::live::{
    CapturedSave, HandleFuture, NextRequest, Promise, RefusedRequest, RequestScope, RequestedSave,
    Requirement, SaveTurn, next_request, request, request_count, request_save, submit_append_after,
    submit_delete, submit_load, submit_save,
};
#[cfg(doc)]
use crate::live::{Handle, Saver};
pub use crate::progress::ProgressReporter;
#[cfg(feature = "seal")]
pub use crate::sealed::{FrameSealer, FrameSum};
pub use crate::slots::{JournalFile, journal_name, replay_journal, saves_of_journal};
