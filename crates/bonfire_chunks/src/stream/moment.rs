//! Saves of one moment, and the way back to one.
//!
//! | step of a return | where | if it fails |
//! |---|---|---|
//! | [`ChunkStream::begin_return`]: the stream stands still | game | |
//! | [`Return::run`]: the file keeps the present under a name, and goes to the pin | any thread | the file is as it was |
//! | the rest of the game is loaded | game | [`ChunkStream::undo_return`] |
//! | [`ChunkStream::finish_return`]: the window is emptied, and fills again from the pin | game | |

use std::path::PathBuf;
use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::Handle;
use bonfire_store::engine::Promise;

use super::leave::SavedParts;
use super::saving::{Batch, Pin};
use super::update::changed;
use super::{ChangeReason, ChunkPhase, ChunkStream, StreamedWorld};
use crate::{ChunkPos, ChunkWorker, CommitHandle, CommitReport};

/// The name of the moment before a return, until the return is over.
pub(super) const BEFORE_RETURN: &str = "bonfire.before_return";

/// A return to a pin that has begun. See [`ChunkStream::begin_return`].
#[must_use = "the stream stands still until the return is over"]
#[derive(Debug)]
pub struct Return {
    worker: Arc<ChunkWorker>,
    in_flight: Option<CommitHandle>,
}

/// The file is at the pin, and can still be taken back to the moment before.
#[must_use = "tell the stream how it went"]
#[derive(Debug)]
pub struct Returned {
    worker: Arc<ChunkWorker>,
}

impl Return {
    /// Waits until the worker has done what was asked for before.
    pub fn wait(self) {
        if let Some(save) = self.in_flight {
            // If it fails, the stream keeps what it has.
            let _ = save.wait();
        }
    }

    /// Takes the file to a pin, and waits for it. Any thread may do that. An error leaves the file as it was.
    pub fn run(self, pin: &str) -> Result<Returned> {
        let Self { worker, in_flight } = self;
        let span = tracing::info_span!("bonfire.chunks.return", pin);
        let _in_span = span.enter();
        if let Some(save) = in_flight {
            // If it fails, the stream keeps what it has.
            let _ = save.wait();
        }
        let world = worker.world();
        match world.pins().iter().find(|known| known.name == pin) {
            None => {
                let message = format!("the chunk world has no moment `{pin}`, which this save belongs to");
                return Err(Error::not_found(message));
            }
            Some(pin) if pin.is_damaged => {
                let message = format!("the moment `{}` of the chunk world is damaged", pin.name);
                return Err(Error::corrupt(message));
            }
            Some(_) => {}
        }
        world.pin(BEFORE_RETURN, [])?;
        if let Err(error) = world.return_to(pin) {
            world.unpin(BEFORE_RETURN)?;
            return Err(error);
        }
        tracing::info!(pin, "a chunk world has gone back to a moment");
        Ok(Returned { worker })
    }
}

impl Returned {
    /// Takes the file back to the moment before the return, and waits for it.
    pub fn undo(self) -> Result<()> {
        let world = self.worker.world();
        world.return_to(BEFORE_RETURN)?;
        tracing::info!("a chunk world has been taken back to the moment before a return");
        world.unpin(BEFORE_RETURN).map(drop)
    }

    /// Forgets the moment before the return, and waits for that.
    pub fn keep(self) -> Result<()> {
        self.worker.world().unpin(BEFORE_RETURN).map(drop)
    }
}

impl<P: Send + 'static> ChunkStream<P> {
    /// Saves every chunk that has changed, all of one moment. Cells are shared and not copied. The handle is complete when
    /// all of it is durable.
    pub fn save<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) -> Handle<CommitReport> {
        let (promise, handle) = Promise::new();
        self.save_for(world, None, promise);
        handle
    }

    /// Saves the cells of every chunk that has changed, and neither entities nor bodies: these stay in the file as they are. It
    /// is for editors that change the ground under a game. What bodies and ground have exchanged since the last save of everything
    /// may be doubled or missing after a crash.
    pub fn save_cells_for<W: StreamedWorld<Prepared = P>>(
        &mut self,
        world: &mut W,
        promise: Promise<CommitReport>,
    ) {
        let batch = self.collect_all(world, SavedParts::Cells);
        self.add_moment(world, batch, None, promise);
    }

    /// Saves every chunk that has changed, and gives the moment a name: see [`ChunkWorld::pin`](crate::ChunkWorld::pin). Chunks that
    /// are not in the window are part of it, too.
    pub fn pin<W: StreamedWorld<Prepared = P>>(
        &mut self,
        world: &mut W,
        name: impl Into<String>,
        metadata: impl Into<Vec<u8>>,
    ) -> Handle<CommitReport> {
        let (promise, handle) = Promise::new();
        self.save_for(world, Some((name.into(), metadata.into())), promise);
        handle
    }

    /// Saves every chunk that has changed, for a promise of a front end. With a pin, the moment gets its name and metadata.
    pub fn save_for<W: StreamedWorld<Prepared = P>>(
        &mut self,
        world: &mut W,
        pin: Option<(String, Vec<u8>)>,
        promise: Promise<CommitReport>,
    ) {
        let batch = self.collect_all(world, SavedParts::All);
        self.add_moment(world, batch, pin.map(|(name, metadata)| Pin { name, metadata }), promise);
    }

    fn add_moment<W: StreamedWorld<Prepared = P>>(
        &mut self,
        world: &mut W,
        batch: Result<Batch>,
        pin: Option<Pin>,
        promise: Promise<CommitReport>,
    ) {
        match batch {
            Ok(batch) => {
                self.saving.add_moment(&self.worker, batch, pin, promise);
                self.finish_saves(world);
            }
            Err(error) => {
                promise.start();
                promise.complete(Err(error));
            }
        }
    }

    /// Writes the whole world as it is now to another path ("save as"), and saves every chunk that has changed.
    pub fn save_to<W: StreamedWorld<Prepared = P>>(
        &mut self,
        world: &mut W,
        path: impl Into<PathBuf>,
        promise: Promise<CommitReport>,
    ) {
        let saved = self.save(world);
        if let Some(Err(error)) = saved.result() {
            promise.start();
            return promise.complete(Err(error));
        }
        // The worker writes the copy after the save. If that is refused, the promise says so.
        let _ = self.worker.save_to_for(path, self.worker.world().edit(), promise);
    }

    fn collect_all<W: StreamedWorld<Prepared = P>>(
        &mut self,
        world: &mut W,
        parts: SavedParts,
    ) -> Result<Batch> {
        if !self.is_enabled {
            return Err(Error::misuse("saving is disabled: call `enable` first"));
        }
        if self.is_frozen {
            return Err(Error::conflict(
                "the chunk world is on its way to another moment: save when that is over",
            ));
        }
        let chunks: Vec<ChunkPos> = self.chunks.keys().copied().collect();
        let mut batch = self.collect(world, &chunks, parts)?;
        batch.unsaved.iter_mut().for_each(|(_, unsaved)| unsaved.chunk = None);
        Ok(batch)
    }

    /// Begins a return to a pin: from now on nothing is loaded and nothing is saved. The rest of it is in the
    /// [documentation of `Return`](Return::run).
    pub fn begin_return(&mut self) -> Result<Return> {
        if self.is_frozen {
            return Err(Error::conflict("the chunk world is on its way to another moment already"));
        }
        self.is_frozen = true;
        Ok(Return { worker: self.worker.clone(), in_flight: self.saving.in_flight() })
    }

    /// Ends a return that has failed: the game goes on where it was.
    pub fn undo_return(&mut self) {
        self.is_frozen = false;
    }

    /// Ends a return: the chunks of the moment before leave the world without a save, and the window fills again.
    pub fn finish_return<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) {
        let saving: Vec<ChunkPos> = self.saving.all_unsaved().map(|(pos, _)| pos).collect();
        self.saving.clear(&Error::cancelled("the chunk world has gone to another moment"));
        self.is_frozen = false;
        for pos in saving.into_iter().filter(|pos| !self.chunks.contains_key(pos)) {
            world.notify(changed(pos, Some(ChunkPhase::Saving), None, ChangeReason::Reset));
        }
        self.reset(world);
    }

    /// Returns to a pin, and waits for it.
    pub fn return_to<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W, pin: &str) -> Result<()> {
        match self.begin_return()?.run(pin) {
            Ok(returned) => {
                self.finish_return(world);
                if let Err(error) = returned.keep() {
                    // The next return makes its pin in the place of this one.
                    tracing::warn!(%error, "the moment before a return could not be forgotten");
                }
                Ok(())
            }
            Err(error) => {
                self.undo_return();
                Err(error)
            }
        }
    }

    /// Begins again with the same seed: removes every chunk, and waits for it. Pins stay, and so do slots that name them.
    pub fn start_over<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) -> Result<()> {
        self.begin_return()?.wait();
        if let Err(error) = self.worker.world().clear() {
            self.undo_return();
            return Err(error);
        }
        self.finish_return(world);
        Ok(())
    }

    /// Goes on in a file that was opened again, after a sync that has failed. What is not durable is saved there.
    pub fn reopen(&mut self, worker: impl Into<Arc<ChunkWorker>>) {
        self.finish_in_flight();
        self.worker = worker.into();
        self.saving.rebind(self.worker.world());
    }

    fn finish_in_flight(&mut self) {
        if let Some(save) = self.saving.in_flight() {
            let _ = save.wait();
        }
    }
}
