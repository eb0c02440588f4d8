//! Deleting, locking, renaming and copying saves.

use bonfire::{Error, Result};

use super::keep::SaveHealth;
use super::recovery::pending;
use super::write::SaveContent;
use super::{Slots, WrittenSave};
use crate::portable_name::{check_case, check_slot};
use crate::save_name::{SaveKind, SaveName};
use crate::store::{Payload, Precondition, missing};

impl Slots {
    /// Deletes a slot with all its saves; false if there was none. A slot with a locked save is refused.
    pub async fn delete_slot(&self, slot: &str) -> Result<bool> {
        let saves = self.saves_of(slot).await?;
        if let Some(locked) = saves.iter().find(|save| save.kind == SaveKind::Locked) {
            return Err(is_locked(locked));
        }
        // The newest last: until then the slot means what it meant.
        for save in saves.iter().rev() {
            self.delete_save(save).await?;
        }
        Ok(!saves.is_empty())
    }

    /// Deletes all saves of a slot that are not locked, also those for after a crash, and returns how many.
    pub async fn delete_saves(&self, slot: &str) -> Result<u64> {
        let mut deleted = 0;
        // The newest last: until then the slot means what it meant.
        for save in self.saves_of(slot).await?.iter().rev().filter(|save| save.kind != SaveKind::Locked) {
            deleted += u64::from(self.delete_save(save).await?);
        }
        Ok(deleted)
    }

    /// Deletes one save; false if there was none. A locked one is refused.
    pub async fn delete_generation(&self, slot: &str, generation: u64) -> Result<bool> {
        match self.find(slot, generation).await {
            Ok(save) if save.kind == SaveKind::Locked => Err(is_locked(&save)),
            Ok(save) => self.delete_save(&save).await,
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Keeps a save from being deleted, and from being loaded by the name of its slot, until it is unlocked.
    pub async fn lock(&self, slot: &str, generation: u64) -> Result<()> {
        self.set_kind(slot, generation, SaveKind::Locked).await
    }

    /// Makes a locked save one like the others.
    pub async fn unlock(&self, slot: &str, generation: u64) -> Result<()> {
        self.set_kind(slot, generation, SaveKind::Free).await
    }

    async fn set_kind(&self, slot: &str, generation: u64, kind: SaveKind) -> Result<()> {
        let saves = self.saves_of(slot).await?;
        let of_kind = |kind| saves.iter().find(|save| save.generation == generation && save.kind == kind);
        let other = if kind == SaveKind::Locked { SaveKind::Free } else { SaveKind::Locked };
        match (of_kind(kind), of_kind(other)) {
            (None, Some(save)) => {
                self.store.rename(&save.to_string(), &save.with_kind(kind).to_string()).await
            }
            (Some(_), None) => Ok(()),
            // A store that renames in two steps was stopped between them.
            (Some(done), Some(left)) => self.remove_copy(&left.to_string(), &done.to_string()).await,
            (None, None) if of_kind(SaveKind::Value).is_some() => {
                Err(Error::misuse("a value cannot be locked").in_key(slot))
            }
            (None, None) => Err(missing(&self.name(slot, generation, SaveKind::Free).to_string())),
        }
    }

    async fn remove_copy(&self, copy: &str, of: &str) -> Result<()> {
        if self.store.get(copy).await? != self.store.get(of).await? {
            return Err(Error::conflict(format!(
                "`{copy}` and `{of}` have the same number and are not the same"
            )));
        }
        self.store.remove(copy).await.map(drop)
    }

    /// Gives a slot another name that no slot has yet, with all its saves. They move one by one, the newest last: after a
    /// crash on the way both names have saves, the old one still has the newest, and calling it again finishes.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_slot(to)?;
        let saves = self.saves_of(from).await?;
        // Says that what is in the new slot is ours. No slot has such a name.
        let mark = format!("{}{from}.{to}.renaming", self.prefix());
        let begun = self.store.head(&mark).await?.is_some();
        if saves.is_empty() && !begun {
            return Err(missing(from));
        }
        let all = self.list_names(&self.prefix()).await?;
        let slots = || all.iter().filter(|save| save.profile == self.profile).map(|save| save.slot.as_str());
        check_case(to, slots())?;
        if !begun {
            if slots().any(|slot| slot == to) {
                return Err(Error::conflict(format!("there is a slot `{to}` already")));
            }
            self.store.put(&mark, Payload::default(), Precondition::Absent).await?;
        }
        let mut moved = begun;
        for save in saves.iter().rev() {
            let renamed = self.move_save(save, &save.in_slot(to)).await;
            if renamed.is_err() && !moved {
                // As if it had never begun.
                let _ = self.store.remove(&mark).await;
            }
            renamed?;
            moved = true;
        }
        // What a crash on the way has left: the saves of these are in the new slot.
        for journal in self.names_of(from).await?.journals {
            self.store.remove(&journal.to_string()).await?;
        }
        self.store.remove(&mark).await.map(drop)
    }

    /// Copies the save that a load would take into another slot, which may have saves already. Where that one is damaged,
    /// this is an error: a copy of an older one is [`copy_generation`](Self::copy_generation).
    pub async fn copy(&self, from: &str, to: &str) -> Result<WrittenSave> {
        check_slot(to)?;
        let loaded = self.load(from).await?;
        match loaded.skipped.first() {
            Some(skipped) => Err(Error::corrupt(skipped).in_key(from)),
            None => match loaded.journal.and_then(|journal| journal.lost).filter(|lost| !lost.is_tail()) {
                Some(lost) => Err(Error::corrupt(lost).in_key(from)),
                None => self.copy_generation(from, loaded.info.generation, to).await,
            },
        }
    }

    /// Makes an older save the newest of its slot: a copy of it, under the next number.
    pub async fn restore(&self, slot: &str, generation: u64) -> Result<WrittenSave> {
        self.copy_generation(slot, generation, slot).await
    }

    /// Copies one save into another slot, or into its own.
    pub async fn copy_generation(&self, from: &str, generation: u64, to: &str) -> Result<WrittenSave> {
        let save = self.find(from, generation).await?;
        let kind = if save.kind == SaveKind::Value { SaveKind::Value } else { SaveKind::Free };
        // Only what is whole is worth a copy.
        let (_, info, _) = self.open(&save, &self.open_options()).await?;
        let waiting = pending(&self.saves_of(to).await?).cloned();
        let mut placed = self.put_next(to, SaveContent::CopyOf(&save), kind).await?;
        if let Some(recovery) = waiting {
            // The player has not played on: what waits is still newer than anything that was.
            let newer = recovery.with_generation(placed.generation + 1);
            if let Err(error) = self.move_save(&recovery, &newer).await {
                placed.later_error.get_or_insert(error);
            }
        }
        Ok(self.finish_with_pruning(to, placed, info.bytes).await)
    }

    /// Deletes the saves of a slot that are not to be kept, and returns their numbers. Every save does this.
    pub async fn prune(&self, slot: &str) -> Result<Vec<u64>> {
        let names = self.names_of(slot).await?;
        self.remove_orphans(&names).await?;
        let mut saves = names.saves;
        saves.retain(|save| save.kind == SaveKind::Free || save.kind == SaveKind::Value);
        if saves.len() <= self.keep.count() {
            return Ok(Vec::new());
        }
        let mut conditions = Vec::with_capacity(saves.len());
        for save in &saves {
            conditions.push(self.condition(save).await?);
        }
        let mut pruned = Vec::new();
        // The oldest first: whatever stops this, the newest are there.
        for place in self.keep.too_old(&conditions).into_iter().rev() {
            if self.delete_save(&saves[place]).await? {
                pruned.push(saves[place].generation);
            }
        }
        Ok(pruned)
    }

    async fn condition(&self, save: &SaveName) -> Result<SaveHealth> {
        if self.damaged().contains(&save.to_string()) {
            return Ok(SaveHealth::Damaged);
        }
        // Gone already, or good, or at least not known to be bad.
        let Some(info) = self.info(save).await? else { return Ok(SaveHealth::Unknown) };
        Ok(match info.problem {
            // Of another key: whoever has it may want it.
            _ if info.sealed => SaveHealth::Unknown,
            None => SaveHealth::Good(info.saved_at),
            Some(problem) if problem.is_corrupt() => SaveHealth::Damaged,
            Some(_) => SaveHealth::Unknown,
        })
    }
}

fn is_locked(save: &SaveName) -> Error {
    Error::misuse(format!("save {} is locked: unlock it first", save.generation)).in_key(&save.slot)
}
