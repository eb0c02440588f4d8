//! One moment for slots and chunks: a save in a slot names a pin of the chunk world.

use std::sync::Arc;

use bevy_ecs::world::World;
use bonfire::{Error, Result, Snapshot};
use bonfire_chunks::stream::{Return, Returned, SlotPins};
use bonfire_store::{Saver, Slots};

use super::components::InChunk;
use super::state::StreamState;
use super::step::with_stream;
use super::streamed_world::BevyWorld;
use super::tickets::{self, NamedTickets};
use crate::live::{BegunMoment, BegunNewWorld, BegunReturn, MomentKeeper, ReturnedMoment, ReturnedPart};

/// Keeps the moments of the chunk world.
pub(super) struct ChunkMoments {
    pub(super) pins: Arc<SlotPins>,
}

impl ReturnedPart for Returned {
    fn keep(self: Box<Self>) -> Result<()> {
        Returned::keep(*self)
    }

    fn undo(self: Box<Self>) -> Result<()> {
        Returned::undo(*self)
    }
}

fn no_stream() -> Error {
    Error::misuse(
        "the chunks of this world have no stream: add `ChunkStreamPlugin` once, and do not remove what it inserts",
    )
}

impl MomentKeeper for ChunkMoments {
    fn begin_save(
        &self,
        world: &mut World,
        slots: &Slots,
        slot: &str,
        base: Option<&str>,
    ) -> Result<BegunMoment> {
        let name = self.pins.begin(slot);
        let metadata = self.pins.metadata(slots, slot, base);
        let saved = with_stream(world, |world, state| {
            let StreamState { stream, live, .. } = state;
            stream.pin(&mut BevyWorld { world, live }, &*name, metadata)
        });
        // A save that has failed already, because its entities could not be captured, ends here.
        let saved = saved.ok_or_else(no_stream);
        let saved = saved.and_then(|save| match save.result() {
            Some(Err(error)) => Err(error),
            _ => Ok(save),
        });
        match saved {
            Ok(save) => Ok(BegunMoment { name, is_durable: Arc::new(move || save.wait().map(drop)) }),
            Err(error) => {
                self.pins.end(&name);
                Err(error)
            }
        }
    }

    fn end_save(&self, moment: &str) {
        self.pins.end(moment);
    }

    fn collect(&self, slots: &Slots) -> Result<()> {
        self.pins.collect(slots).map(drop)
    }

    fn begin_load(&self, world: &mut World) -> Result<BegunReturn> {
        let begun = with_stream(world, |_, state| {
            if state.undoing.is_some() {
                return Err(Error::conflict("a load that has failed is being taken back: load again later"));
            }
            state.stream.begin_return()
        });
        let begun: Return = begun.unwrap_or_else(|| Err(no_stream()))?;
        Ok(Box::new(move |snapshot: &Snapshot| match SlotPins::of_save(snapshot)? {
            None => {
                log::warn!("the save names no moment of the chunk world, so the chunks stay as they are");
                Ok(None)
            }
            Some(pin) => begun.run(&pin).map(|returned| Some(Box::new(returned) as ReturnedMoment)),
        }))
    }

    fn finish_load(&self, world: &mut World, saver: &Saver, returned: ReturnedMoment) {
        with_stream(world, |world, state| {
            let StreamState { stream, live, is_starting_over, .. } = state;
            stream.finish_return(&mut BevyWorld { world, live });
            if std::mem::take(is_starting_over) {
                // The beginning of the game may have some, and is loaded after this.
                tickets::edit(world, NamedTickets::clear);
            }
        });
        // It takes room in the file until then, and no harm comes of it.
        let _ = saver.run(move |_| returned.keep());
    }

    fn undo_load(&self, world: &mut World, saver: &Saver, returned: Option<ReturnedMoment>) {
        with_stream(world, |_, state| match returned {
            None => {
                state.is_starting_over = false;
                state.stream.undo_return();
            }
            Some(returned) => {
                let returned = std::sync::Mutex::new(Some(returned));
                state.undoing = Some(saver.run(move |_| {
                    let taken = returned.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                    taken.map_or(Ok(()), ReturnedPart::undo)
                }));
            }
        });
    }

    fn start_over(&self, world: &mut World) -> Result<BegunNewWorld> {
        let chunks = with_stream(world, |_, state| {
            let begun = state.stream.begin_return()?;
            state.is_starting_over = true;
            Ok((begun, state.stream.world().clone()))
        });
        let (begun, chunks) = chunks.unwrap_or_else(|| Err(no_stream()))?;
        Ok(Box::new(move || {
            begun.wait();
            chunks.clear().map(drop)
        }))
    }

    fn has_content(&self, world: &World) -> bool {
        let has_members =
            world.try_query::<&InChunk>().is_some_and(|mut query| query.iter(world).next().is_some());
        has_members || world.get_resource::<super::Chunks>().is_some_and(|chunks| !chunks.known.is_empty())
    }
}

/// Ends the return of a load that has failed, when the file is back where it was.
pub(super) fn end_undo(state: &mut StreamState) {
    let Some(result) = state.undoing.as_ref().and_then(bonfire_store::Handle::result) else { return };
    state.undoing = None;
    if let Err(error) = result {
        log::error!("the chunk world could not be taken back after a load that failed: {error}");
    }
    state.stream.undo_return();
}
