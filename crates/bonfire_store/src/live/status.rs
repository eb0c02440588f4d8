//! The report of one save, and the status of a saver.

use std::time::SystemTime;

use bonfire::{Error, Note, Snapshot};

use super::target::SaveTarget;
use crate::journal::{AppendReport, JournalBase};

/// The report of a save in the background.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SaveReport {
    /// Where it is.
    pub target: SaveTarget,
    /// The number of the save in its slot, if it is in one.
    pub generation: Option<u64>,
    /// Its length in bytes. Of a save that is a journal: the bytes that were appended.
    pub bytes: u64,
    /// How many entities are in it. Of a save that is a journal: 0, if what has changed was appended to it.
    pub entities: usize,
    /// Whether a newer request took the place of the one that was asked for: then this is the report of that one.
    pub coalesced: bool,
    /// The numbers of the saves that were pruned because of it.
    pub pruned: Vec<u64>,
    /// The first error after the save was durable, such as a failed pruning.
    pub prune_error: Option<Error>,
    /// Losses of the capture: values that could not be saved as they are, and what the front end left out without being asked
    /// to. Of an append to a journal: those of its values. The whole save before it had the rest.
    pub notes: Vec<Note>,
    /// The length in bytes of a [thumbnail](crate::Details::thumbnail) that was too large. The save is whole, without it.
    pub dropped_thumbnail: Option<u64>,
    /// The captured world. Only calls that capture and wait have it, such as `save_to` of the front ends.
    pub snapshot: Option<Snapshot>,
}

impl SaveReport {
    /// A save that is not in a slot.
    pub fn new(target: SaveTarget, bytes: u64, entities: usize) -> Self {
        Self {
            target,
            generation: None,
            bytes,
            entities,
            coalesced: false,
            pruned: Vec::new(),
            prune_error: None,
            notes: Vec::new(),
            dropped_thumbnail: None,
            snapshot: None,
        }
    }

    /// Of a delta in the place of a save.
    pub(super) fn of_append(appended: &AppendReport, notes: Vec<Note>) -> Self {
        let target = SaveTarget::Slot(appended.slot.clone());
        Self { generation: Some(appended.generation), notes, ..Self::new(target, appended.bytes, 0) }
    }

    /// The save as one that deltas may be appended to, if it is in a slot: the world was at this tick when it was captured.
    /// Not that of another request which took its place.
    pub fn journal_base(&self, tick: u64) -> Option<JournalBase> {
        let SaveTarget::Slot(slot) = &self.target else { return None };
        let generation = self.generation.filter(|_| !self.coalesced)?;
        Some(JournalBase::new(slot, generation, tick))
    }
}

/// How a [`Saver`](crate::Saver) is doing, since it was made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SaverStatus {
    /// Requests that wait for the thread.
    pub queued: usize,
    /// Requests that wait for a front end: for the end of a frame, or of a load.
    pub requested: usize,
    /// What is being done right now.
    pub running: Option<String>,
    /// Saves that are durable.
    pub saves: u64,
    /// Deltas that are durable in the journals of saves.
    pub appends: u64,
    /// Saves and deltas that failed. Those that were refused or cancelled are not among them.
    pub failures: u64,
    /// Saves that were not written because a newer one took their place.
    pub coalesced: u64,
    /// Requests that were refused because too many waited.
    pub refused: u64,
    /// Requests that were cancelled before their turn came.
    pub cancelled: u64,
    /// The bytes of all saves and deltas that are durable.
    pub bytes: u64,
    /// Of the last save, from the start of its encoding until it was durable. `None` on wasm32.
    pub bytes_per_second: Option<f64>,
    /// When the last save or delta became durable. `None` on wasm32.
    pub last_durable: Option<SystemTime>,
    /// Why the last save or delta that failed did.
    pub last_error: Option<Error>,
}
