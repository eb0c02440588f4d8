//! Saves of which only what has changed is written: the whole world now and then, and deltas that are appended to it.
//!
//! | state | the next save into the slot is |
//! |---|---|
//! | nothing is known, or the world was loaded, or something failed | whole |
//! | the whole save and all deltas after it are durable, or on their way | a delta |
//! | the journal is large enough | whole |
//!
//! What is on its way may fail: then all that was asked for after it does too, and says so.

use bevy_ecs::world::World;
use bonfire::{Delta, Result};
use bonfire_store::engine::{RequestedSave, SaveTurn};
use bonfire_store::{AppendReport, Handle, SaveHandle, SaveTarget};

use super::capture_with_events::changes_with_events;
use super::{SavePolicy, Saves};
use crate::capture::SaveOptions;
use crate::delta::DeltaCapture;

/// What has been written into the slot of the autosave.
#[derive(Default)]
pub(super) struct Journal {
    deltas: Option<DeltaCapture>,
    /// The save of the whole world that deltas are appended to.
    base: Option<RequestedSave>,
    /// The delta that was appended last.
    last: Option<Handle<AppendReport>>,
}

impl Journal {
    /// The next save is whole.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The saves of a slot are going to be removed: there is nothing to append to.
    pub(super) fn forget_slot(&mut self, slot: &str) {
        if self.base.as_ref().is_some_and(|base| base.slot == slot) {
            self.forget();
        }
    }

    /// Follows the world from its next capture on.
    pub(super) fn deltas(&mut self) -> &mut DeltaCapture {
        self.deltas.get_or_insert_with(DeltaCapture::of_saves)
    }

    /// A capture of the whole world goes into the slot.
    pub(super) fn begin(&mut self, target: &SaveTarget, save: SaveHandle) {
        let tick = self.deltas().tick();
        self.last = None;
        self.base = match target {
            SaveTarget::Slot(slot) => Some(RequestedSave { slot: slot.clone(), save, tick }),
            _ => None,
        };
    }

    /// Appends changes in the place of a save.
    pub(super) fn append(&mut self, turn: SaveTurn<SaveOptions>, changes: Changes) {
        let Changes { base, delta, deltas } = changes;
        self.deltas = Some(deltas);
        self.last = Some(turn.append(base, delta));
    }

    /// What deltas may be appended to.
    fn open(&self, target: &SaveTarget) -> Option<RequestedSave> {
        let base = self.base.as_ref().filter(|base| *target == SaveTarget::Slot(base.slot.clone()))?;
        let has_failed = base.save.result().is_some_and(|saved| saved.is_err());
        let goes_on = match self.last.as_ref().and_then(Handle::result) {
            Some(Ok(appended)) => !appended.full_save_due,
            Some(Err(_)) => false,
            None => true,
        };
        (goes_on && !has_failed).then(|| base.clone())
    }
}

impl Saves {
    /// Whether saves to a target are a journal.
    pub(super) fn begins_journal(&self, target: &SaveTarget) -> bool {
        self.policy == SavePolicy::Journal
            && matches!(target, SaveTarget::Slot(_))
            && *target == self.autosave.target
    }
}

/// The changes of a world since the last save of its journal, for the next record.
pub(super) struct Changes {
    base: RequestedSave,
    delta: Delta,
    deltas: DeltaCapture,
}

/// Captures what has changed since the last save of the journal. Returns `None` if the whole world must be saved.
pub(super) fn capture_changes(
    world: &mut World,
    target: &SaveTarget,
    options: &SaveOptions,
) -> Result<Option<Changes>> {
    let mut saves = world.resource_mut::<Saves>();
    let base = saves.begins_journal(target).then(|| saves.journal.open(target)).flatten();
    let open = base.and_then(|base| Some((base, saves.journal.deltas.take()?)));
    let Some((base, mut deltas)) = open else { return Ok(None) };
    // If the changes cannot be told or captured, the next save is whole.
    let delta = changes_with_events(world, options, target, &mut deltas);
    let delta = delta.map(|delta| (!delta.is_whole()).then_some(delta));
    if !matches!(delta, Ok(Some(_)))
        && let Some(mut saves) = world.get_resource_mut::<Saves>()
    {
        saves.journal.forget();
    }
    Ok(delta?.map(|delta| Changes { base, delta, deltas }))
}
