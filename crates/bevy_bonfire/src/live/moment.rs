//! Parts of the game that are saved apart, such as a chunk world, and are of the same moment as the saves in slots.
//!
//! | when | call |
//! |---|---|
//! | a save is captured | [`MomentKeeper::begin_save`]: the other part is captured at the same tick, and gets a name |
//! | the thread is about to write the save | it waits until the other part is durable |
//! | the save is durable, or has failed | [`MomentKeeper::end_save`] |
//! | a save was loaded off the thread, and is about to be committed | [`BegunReturn`]: the other part goes to the moment |
//! | the load is over | [`MomentKeeper::finish_load`] or [`MomentKeeper::undo_load`] |

use std::sync::Arc;

use bevy_ecs::world::World;
use bonfire::{Result, Snapshot};
use bonfire_store::engine::Requirement;
use bonfire_store::{SaveHandle, SaveTarget, Saver, Slots};

use super::Saves;

/// The other part of the game.
pub(crate) trait MomentKeeper: Send + Sync + 'static {
    /// Captures the other part for a save in a slot. `base`: the save is appended to the journal of the save of this moment.
    fn begin_save(
        &self,
        world: &mut World,
        slots: &Slots,
        slot: &str,
        base: Option<&str>,
    ) -> Result<BegunMoment>;

    /// The save of a moment is durable, or has failed.
    fn end_save(&self, moment: &str);

    /// Removes the moments that no save names. It is called on the thread of the saver.
    fn collect(&self, slots: &Slots) -> Result<()>;

    /// Stops the other part, before a load. The result goes to the moment of the loaded save, on the thread of the saver.
    fn begin_load(&self, world: &mut World) -> Result<BegunReturn>;

    /// The rest of the game was loaded: goes on from the moment.
    fn finish_load(&self, world: &mut World, saver: &Saver, returned: ReturnedMoment);

    /// The load has failed: goes on where it was. `returned`: the other part was taken to the moment already.
    fn undo_load(&self, world: &mut World, saver: &Saver, returned: Option<ReturnedMoment>);

    /// Begins the other part again, on the thread of the saver, before a new beginning.
    fn start_over(&self, world: &mut World) -> Result<BegunNewWorld>;

    /// Returns true if the other part has something that a save would have.
    fn has_content(&self, world: &World) -> bool;
}

/// A moment of the other part that is being made durable.
pub(crate) struct BegunMoment {
    pub(crate) name: String,
    /// Waits until it is durable.
    pub(crate) is_durable: Arc<dyn Fn() -> Result<()> + Send + Sync>,
}

/// Takes the other part to the moment of a save. `None`: the save names none, and the other part stays as it is.
pub(crate) type BegunReturn = Box<dyn FnOnce(&Snapshot) -> Result<Option<ReturnedMoment>> + Send>;

/// The other part is at the moment of a save, and can still be taken back.
pub(crate) type ReturnedMoment = Box<dyn ReturnedPart>;

/// The end of a return of a part: it is kept or undone. Both calls wait for the disk.
pub(crate) trait ReturnedPart: Send + Sync {
    fn keep(self: Box<Self>) -> Result<()>;
    fn undo(self: Box<Self>) -> Result<()>;
}

/// A part that was emptied: there is no way back, and nothing to forget.
pub(super) struct NothingLeft;

impl ReturnedPart for NothingLeft {
    fn keep(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn undo(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Empties the other part.
pub(crate) type BegunNewWorld = Box<dyn FnOnce() -> Result<()> + Send>;

/// The moments of saves that are not over.
#[derive(Default)]
pub(super) struct Moments {
    pub(super) keeper: Option<Arc<dyn MomentKeeper>>,
    /// Of the capture that is being made.
    pub(super) begun: Option<BegunMoment>,
    /// Moments of saves that are on their way.
    saving: Vec<(String, SaveHandle)>,
    /// The moment of the whole save that a journal continues.
    pub(super) base: Option<String>,
}

/// The choice between a whole save and an append to the open journal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Appends {
    Yes,
    No,
}

/// Captures the other part, if there is one and the save goes into a slot.
pub(super) fn begin(
    world: &mut World,
    target: Option<&SaveTarget>,
    appends: Appends,
) -> Result<Option<String>> {
    let Some(SaveTarget::Slot(slot)) = target else { return Ok(None) };
    let Some(saves) = world.get_resource::<Saves>() else { return Ok(None) };
    let Some(keeper) = saves.moments.keeper.clone() else { return Ok(None) };
    let base = saves.moments.base.clone().filter(|_| appends == Appends::Yes);
    let slots = saves.saver.slots().clone();
    let begun = keeper.begin_save(world, &slots, slot, base.as_deref())?;
    let name = begun.name.clone();
    if let Some(mut saves) = world.get_resource_mut::<Saves>() {
        saves.moments.begun = Some(begun);
    }
    Ok(Some(name))
}

impl Saves {
    /// Sets the part that is saved apart.
    pub(crate) fn keep_moments(&mut self, keeper: Arc<dyn MomentKeeper>) {
        self.moments.keeper = Some(keeper);
        self.collect_moments();
    }

    /// Takes the moment of a capture. The save must wait until it is durable.
    pub(super) fn take_moment(&mut self, save: Option<SaveHandle>) -> Option<Requirement> {
        let BegunMoment { name, is_durable } = self.moments.begun.take()?;
        match save {
            Some(save) => self.moments.saving.push((name, save)),
            None => self.end_moment(&name),
        }
        Some(Box::new(move || is_durable()))
    }

    /// Forgets the moment of a capture that has failed.
    pub(super) fn drop_moment(&mut self) {
        if let Some(begun) = self.moments.begun.take() {
            self.end_moment(&begun.name);
        }
    }

    fn end_moment(&self, name: &str) {
        if let Some(keeper) = &self.moments.keeper {
            keeper.end_save(name);
        }
    }

    /// Ends the moments of saves that are over, and has those removed that no save names.
    pub(super) fn finish_moments(&mut self) {
        let is_over = |(_, save): &mut (String, SaveHandle)| save.is_complete();
        let over: Vec<_> = self.moments.saving.extract_if(.., is_over).collect();
        over.iter().for_each(|(name, _)| self.end_moment(name));
        if !over.is_empty() {
            self.collect_moments();
        }
    }

    /// Has the thread remove the moments that no save names.
    pub(super) fn collect_moments(&mut self) {
        let Some(keeper) = self.moments.keeper.clone() else { return };
        // If too many requests wait, the next save does it.
        let _ = self.saver.run(move |slots| {
            keeper
                .collect(slots)
                .inspect_err(|error| log::warn!("moments of deleted saves stay until the next save: {error}"))
        });
    }
}
