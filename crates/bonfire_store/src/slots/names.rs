//! The names of all blobs of a store, and changes that are made only while these names hold.
//!
//! Saves of all slots share one line of numbers. A number is given once: a save that is deleted leaves a mark with its number
//! if no other blob has a larger one. So a slot with a larger number was saved later, and no delta, lock or copy that one
//! program means for a save reaches another save that got its number.

use std::cmp::Reverse;

use bonfire::{Error, Result};

use super::Slots;
use crate::generation::{largest, next};
use crate::portable_name::{check_case, check_slot};
use crate::save_name::{JournalName, SaveKind, SaveName, last_number, parse_last_number};
use crate::store::{Batch, Payload, RETRIES, Version};

/// All blobs of a store that belong to slots.
pub(super) struct StoreNames {
    /// All names, as the store lists them.
    all: Vec<String>,
    saves: Vec<SaveName>,
    journals: Vec<JournalName>,
    /// Marks of numbers whose saves were deleted.
    last_numbers: Vec<u64>,
    /// The largest number that a save has or had. Files with larger ones were put there by hand, and are no saves.
    newest: u64,
}

/// All that belongs to a slot.
pub(super) struct SlotNames {
    /// The start of all its names, and the names.
    prefix: String,
    all: Vec<String>,
    /// Newest first.
    pub(super) saves: Vec<SaveName>,
    pub(super) journals: Vec<JournalName>,
}

impl StoreNames {
    fn new(all: Vec<String>) -> Self {
        let mut saves: Vec<SaveName> = all.iter().filter_map(|name| SaveName::parse(name)).collect();
        let mut journals: Vec<JournalName> = all.iter().filter_map(|name| JournalName::parse(name)).collect();
        let mut last_numbers: Vec<u64> = all.iter().filter_map(|name| parse_last_number(name)).collect();
        let of_saves = saves.iter().map(|save| save.generation);
        let of_journals = journals.iter().map(|journal| journal.generation);
        let newest = largest(of_saves.chain(of_journals).chain(last_numbers.iter().copied()));
        saves.retain(|save| save.generation <= newest);
        journals.retain(|journal| journal.generation <= newest);
        last_numbers.retain(|number| *number <= newest);
        Self { all, saves, journals, last_numbers, newest }
    }

    /// All saves whose names begin with `prefix`.
    pub(super) fn saves(self, prefix: &str) -> Vec<SaveName> {
        let mut saves = self.saves;
        saves.retain(|save| save.to_string().starts_with(prefix));
        saves
    }

    /// The names of one slot.
    pub(super) fn of(&self, slots: &Slots, slot: &str) -> SlotNames {
        let prefix = format!("{}{slot}.", slots.prefix());
        let all = self.all.iter().filter(|name| name.starts_with(&prefix)).cloned().collect();
        SlotNames::new(slots, slot, prefix, all, self.newest)
    }

    /// An empty batch that is made only if the store has exactly these names.
    pub(super) fn batch(&self) -> Batch {
        Batch::new().expect_names("", self.all.clone())
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.all == other.all
    }

    /// The largest number that a save has or had.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The number of the next save of a slot, larger than `taken`.
    pub(super) fn next(&self, of_slot: &SlotNames, taken: u64) -> Result<u64> {
        // A file with the last of all numbers must not stop the saves of other slots.
        next(Some(self.newest().max(taken))).or_else(|_| next(Some(of_slot.newest().max(taken))))
    }

    /// Refuses a new save that other systems would take for one of another slot, or of another kind.
    pub(super) fn check_new(&self, slots: &Slots, slot: &str, kind: SaveKind) -> Result<()> {
        let of_profile = || self.saves.iter().filter(|save| save.profile == slots.profile);
        check_case(slot, of_profile().map(|save| save.slot.as_str()))?;
        if let Some(profile) = &slots.profile {
            check_case(profile, self.saves.iter().filter_map(|save| save.profile.as_deref()))?;
        }
        let is_value = |kind| kind == SaveKind::Value;
        if of_profile().any(|save| save.slot == slot && is_value(save.kind) != is_value(kind)) {
            let both = Error::misuse("a slot is for worlds or for values, not for both");
            return Err(slots.in_slot(both, slot));
        }
        Ok(())
    }

    /// Removes saves with their journals, and keeps their numbers from being given again.
    pub(super) fn delete(&self, mut batch: Batch, saves: &[SaveName]) -> Batch {
        let goes = |name: &SaveName| saves.contains(name);
        let stays = || self.saves.iter().filter(|save| !goes(save));
        batch = saves.iter().fold(batch, |batch, save| batch.remove(save.to_string()));
        // A save that was copied by hand may have two kinds, and one of them may stay.
        let is_of_none = |journal: &&JournalName| {
            saves.iter().any(|save| journal.is_of(save)) && !stays().any(|save| journal.is_of(save))
        };
        for journal in self.journals.iter().filter(is_of_none) {
            batch = batch.remove(journal.to_string());
        }
        let newest = saves.iter().map(|save| save.generation).max().unwrap_or(0);
        let is_needed = newest == self.newest() && stays().all(|save| save.generation < newest);
        if is_needed && !self.last_numbers.contains(&newest) {
            batch = batch.put(last_number(newest), Payload::default());
            for older in &self.last_numbers {
                batch = batch.remove(last_number(*older));
            }
        }
        batch
    }
}

impl SlotNames {
    fn new(slots: &Slots, slot: &str, prefix: String, all: Vec<String>, newest: u64) -> Self {
        let mut saves: Vec<SaveName> = all.iter().filter_map(|name| SaveName::parse(name)).collect();
        saves.retain(|save| save.generation <= newest && save.profile == slots.profile && save.slot == slot);
        saves.sort_by_key(|save| Reverse(save.generation));
        let mut journals: Vec<JournalName> = all.iter().filter_map(|name| JournalName::parse(name)).collect();
        let is_of_slot = |journal: &JournalName| journal.profile == slots.profile && journal.slot == slot;
        journals.retain(|journal| journal.generation <= newest && is_of_slot(journal));
        Self { prefix, all, saves, journals }
    }

    /// An empty batch that is made only if the slot has exactly these names.
    pub(super) fn batch(&self) -> Batch {
        Batch::new().expect_names(self.prefix.clone(), self.all.clone())
    }

    fn newest(&self) -> u64 {
        let saves = self.saves.iter().map(|save| save.generation);
        saves.chain(self.journals.iter().map(|journal| journal.generation)).max().unwrap_or(0)
    }

    /// The blobs of the journal of a save.
    pub(super) fn journal_of<'n>(&'n self, save: &'n SaveName) -> impl Iterator<Item = &'n JournalName> {
        self.journals.iter().filter(|journal| journal.is_of(save))
    }

    /// Journals of saves that are gone. No call leaves one, but players copy and remove files. A number that no save has
    /// reached yet may be that of a save whose file is still to come.
    pub(super) fn orphans(&self) -> impl Iterator<Item = &JournalName> {
        let newest = self.saves.iter().map(|save| save.generation).max();
        let is_orphan = |journal: &&JournalName| !self.saves.iter().any(|save| journal.is_of(save));
        self.journals
            .iter()
            .filter(move |journal| newest.is_some_and(|newest| journal.generation < newest))
            .filter(is_orphan)
    }

    /// Gives all saves another slot, and their journals too.
    pub(super) fn move_all(&self, batch: Batch, to: &str) -> Batch {
        let moved =
            |batch: Batch, save: &SaveName| batch.rename(save.to_string(), save.in_slot(to).to_string());
        let batch = self.saves.iter().fold(batch, moved);
        // By journal: a save that was copied by hand may have two kinds, and one journal.
        let has_save = |journal: &&JournalName| self.saves.iter().any(|save| journal.is_of(save));
        self.journals.iter().filter(has_save).fold(batch, |batch, journal| {
            let new = JournalName { slot: to.to_owned(), ..journal.clone() };
            batch.rename(journal.to_string(), new.to_string())
        })
    }

    /// Copies a save under another name, and its journal too.
    pub(super) fn copy(&self, mut batch: Batch, from: &SaveName, to: &SaveName) -> Batch {
        for blob in self.journal_of(from) {
            let new = JournalName { record: blob.record, ..to.journal() };
            batch = batch.copy(blob.to_string(), new.to_string());
        }
        batch.copy(from.to_string(), to.to_string())
    }
}

impl Slots {
    /// All blobs of the store.
    pub(super) async fn store_names(&self) -> Result<StoreNames> {
        Ok(StoreNames::new(self.store.list("").await?))
    }

    /// The blobs of a slot.
    pub(super) async fn names_of(&self, slot: &str) -> Result<SlotNames> {
        check_slot(slot)?;
        Ok(self.store_names().await?.of(self, slot))
    }

    /// Makes the changes that `plan` wants with the names that there are, and again if other programs change them meanwhile.
    /// Returns the versions that the store gave, or `None` if there was nothing to do.
    pub(super) async fn change(
        &self,
        slot: &str,
        mut plan: impl FnMut(&StoreNames, &SlotNames) -> Result<Batch>,
    ) -> Result<Option<Vec<Option<Version>>>> {
        check_slot(slot)?;
        let mut conflict = None;
        for _ in 0..RETRIES {
            let names = self.store_names().await?;
            let batch = plan(&names, &names.of(self, slot))?;
            if batch.is_empty() {
                return Ok(None);
            }
            match self.store.change(batch).await {
                Err(error) if error.is_conflict() => conflict = Some(error),
                changed => return changed.map(Some),
            }
        }
        let conflict =
            conflict.unwrap_or_else(|| Error::conflict("the slots change faster than they can be written"));
        Err(self.in_slot(conflict, slot))
    }

    /// Deletes those saves of a slot that `choose` names, with their journals, in one step. Returns their numbers.
    pub(super) async fn delete_chosen(
        &self,
        slot: &str,
        mut choose: impl FnMut(&SlotNames) -> Result<Vec<SaveName>>,
    ) -> Result<Vec<u64>> {
        let mut deleted = Vec::new();
        self.change(slot, |names, of_slot| {
            let saves = choose(of_slot)?;
            deleted = saves.iter().map(|save| save.generation).collect();
            Ok(if saves.is_empty() { Batch::new() } else { names.delete(names.batch(), &saves) })
        })
        .await?;
        Ok(deleted)
    }
}
