//! The blobs of a journal: what is done to a save is done to its journal.
//!
//! | what happens to the save | order | if the machine stops in between |
//! |---|---|---|
//! | locked, unlocked, accepted | one step: the journal has the same name | |
//! | deleted, pruned | save, journal | a journal without a save, which the next save of the slot removes |
//! | copied | journal, save | the same; no save gets the number of such a journal |
//! | another slot or number | copy of the journal, save, old journal | the same, at the old name or the new one |

use std::collections::BTreeSet;

use bonfire::{Error, Result};

use super::Slots;
use crate::portable_name::check_slot;
use crate::save_name::{JournalName, SaveName};
use crate::store::{Payload, Precondition};

/// All that belongs to a slot.
pub(super) struct SlotNames {
    /// Newest first.
    pub(super) saves: Vec<SaveName>,
    pub(super) journals: Vec<JournalName>,
}

impl SlotNames {
    /// Journals of saves that are gone. A number that no save has reached yet may be that of a copy which is being made, or
    /// of a save that is on its way from another slot, the oldest first.
    pub(super) fn orphans(&self) -> impl Iterator<Item = &JournalName> {
        let newest = self.saves.iter().map(|save| save.generation).max();
        let is_orphan = |journal: &&JournalName| !self.saves.iter().any(|save| journal.is_of(save));
        self.journals
            .iter()
            .filter(move |journal| newest.is_some_and(|newest| journal.generation < newest))
            .filter(is_orphan)
    }
}

impl Slots {
    pub(super) async fn names_of(&self, slot: &str) -> Result<SlotNames> {
        check_slot(slot)?;
        let names = self.store.list(&format!("{}{slot}.", self.prefix())).await?;
        let mut saves: Vec<SaveName> = names.iter().filter_map(|name| SaveName::parse(name)).collect();
        saves.retain(|save| save.profile == self.profile && save.slot == slot);
        saves.sort_by_key(|save| std::cmp::Reverse(save.generation));
        let mut journals: Vec<JournalName> =
            names.iter().filter_map(|name| JournalName::parse(name)).collect();
        journals.retain(|journal| journal.profile == self.profile && journal.slot == slot);
        Ok(SlotNames { saves, journals })
    }

    /// The blobs of the journal of a save, the head first.
    async fn journal_of(&self, save: &SaveName) -> Result<Vec<JournalName>> {
        let names = self.store.list(&save.journal().to_string()).await?;
        let mut blobs: Vec<JournalName> = names.iter().filter_map(|name| JournalName::parse(name)).collect();
        blobs.retain(|blob| blob.is_of(save));
        blobs.sort_by_key(|blob| blob.record);
        Ok(blobs)
    }

    /// Deletes a save, then its journal; false if there was no save.
    pub(super) async fn delete_save(&self, save: &SaveName) -> Result<bool> {
        let removed = self.store.remove(&save.to_string()).await?;
        let left = self.saves_of(&save.slot).await?;
        // A lock that was stopped half-way: the save has two names, and one of them is left.
        if !left.iter().any(|other| other.generation == save.generation) {
            self.remove_journal(save).await?;
        }
        Ok(removed)
    }

    pub(super) async fn remove_journal(&self, save: &SaveName) -> Result<()> {
        // The head last: records without one are found by their names alone.
        for blob in self.journal_of(save).await?.iter().rev() {
            self.store.remove(&blob.to_string()).await?;
        }
        Ok(())
    }

    /// Removes the journals of saves that are gone.
    pub(super) async fn remove_orphans(&self, names: &SlotNames) -> Result<()> {
        for orphan in names.orphans() {
            self.store.remove(&orphan.to_string()).await?;
        }
        Ok(())
    }

    /// Copies the journal of a save for another that is about to be there. Whatever has its place is no journal of a save.
    pub(super) async fn copy_journal(&self, from: &SaveName, to: &SaveName) -> Result<()> {
        self.remove_journal(to).await?;
        for blob in self.journal_of(from).await? {
            let JournalName { record, .. } = blob;
            let name = JournalName { record, ..to.journal() };
            self.store.copy(&blob.to_string(), &name.to_string()).await?;
        }
        Ok(())
    }

    /// Gives a save another slot or number, and takes its journal along.
    pub(super) async fn move_save(&self, from: &SaveName, to: &SaveName) -> Result<()> {
        let (old, new) = (from.to_string(), to.to_string());
        if self.journal_of(from).await?.is_empty() {
            return self.store.rename(&old, &new).await;
        }
        if self.store.head(&new).await?.is_some() {
            return Err(Error::conflict(format!("`{new}` is there already")));
        }
        let before = self.journal_state(from).await?;
        self.copy_journal(from, to).await?;
        if let Err(error) = self.store.rename(&old, &new).await {
            // If the save is there all the same, so is what belongs to it.
            if self.store.head(&new).await.is_ok_and(|head| head.is_none()) {
                let _ = self.remove_journal(to).await;
            }
            return Err(error);
        }
        if self.journal_state(from).await? != before {
            // Somebody has appended since it was copied.
            self.copy_again(from, to).await?;
        }
        self.remove_journal(from).await
    }

    /// Copies what was appended to the journal of a save that has moved away from it.
    async fn copy_again(&self, from: &SaveName, to: &SaveName) -> Result<()> {
        for blob in self.journal_of(from).await? {
            let JournalName { record, .. } = blob;
            let name = JournalName { record, ..to.journal() };
            let bytes = self.store.get(&blob.to_string()).await?;
            self.store.put(&name.to_string(), Payload::from(bytes), Precondition::None).await?;
        }
        Ok(())
    }

    /// The names and lengths of all blobs of a journal.
    async fn journal_state(&self, save: &SaveName) -> Result<BTreeSet<(String, u64)>> {
        let mut state = BTreeSet::new();
        for blob in self.journal_of(save).await? {
            let name = blob.to_string();
            let len = self.store.head(&name).await?.map_or(0, |head| head.len);
            state.insert((name, len));
        }
        Ok(state)
    }
}
