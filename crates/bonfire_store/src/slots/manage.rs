//! Deleting, locking, renaming and copying saves.

use bonfire::{Error, Result};

use super::keep::SaveHealth;
use super::write::SaveContent;
use super::{Slots, WrittenSave};
use crate::portable_name::check_slot;
use crate::save_name::{SaveKind, SaveName};
use crate::store::{Batch, in_store};

impl Slots {
    /// Deletes a slot with all its saves, in one step; false if there was none. A slot with a locked save is refused.
    pub async fn delete_slot(&self, slot: &str) -> Result<bool> {
        let deleted = self.delete_chosen(slot, |names| {
            match names.saves.iter().find(|save| save.kind == SaveKind::Locked) {
                Some(locked) => Err(self.is_locked(locked)),
                None => Ok(names.saves.clone()),
            }
        });
        Ok(!deleted.await?.is_empty())
    }

    /// Deletes all saves of a slot that are not locked, also those for after a crash, in one step. Returns how many.
    pub async fn delete_saves(&self, slot: &str) -> Result<u64> {
        let free = |save: &&SaveName| save.kind != SaveKind::Locked;
        let deleted =
            self.delete_chosen(slot, |names| Ok(names.saves.iter().filter(free).cloned().collect()));
        Ok(deleted.await?.len() as u64)
    }

    /// Deletes one save; false if there was none. A locked one is refused.
    pub async fn delete_generation(&self, slot: &str, generation: u64) -> Result<bool> {
        let deleted = self.delete_chosen(slot, |names| {
            let is_meant =
                |save: &&SaveName| save.generation == generation && save.kind != SaveKind::Recovery;
            match names.saves.iter().find(is_meant) {
                Some(save) if save.kind == SaveKind::Locked => Err(self.is_locked(save)),
                save => Ok(save.into_iter().cloned().collect()),
            }
        });
        Ok(!deleted.await?.is_empty())
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
        let changed = self.change(slot, |_, names| {
            let of_kind =
                |kind| names.saves.iter().find(|save| save.generation == generation && save.kind == kind);
            let other = if kind == SaveKind::Locked { SaveKind::Free } else { SaveKind::Locked };
            match (of_kind(kind), of_kind(other)) {
                (Some(_), _) => Ok(Batch::new()),
                (None, Some(save)) => {
                    Ok(names.batch().rename(save.to_string(), save.with_kind(kind).to_string()))
                }
                (None, None) if of_kind(SaveKind::Value).is_some() => {
                    Err(self.in_slot(Error::misuse("a value cannot be locked"), slot))
                }
                (None, None) => Err(self.missing_save(slot, generation)),
            }
        });
        if changed.await?.is_none() {
            // It is so already. An earlier call may have failed to make it durable.
            self.store.change(Batch::new()).await?;
        }
        Ok(())
    }

    /// Gives a slot another name that no slot has yet, with all its saves and their journals, in one step. If the call
    /// fails, or the machine stops, all of them have the old name or all of them have the new one.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_slot(to)?;
        let renamed = self.change(from, |names, of_slot| {
            if of_slot.saves.is_empty() {
                return Err(self.missing_slot(from));
            }
            if !names.of(self, to).saves.is_empty() {
                let taken = Error::conflict(format!("there is a slot `{to}` already"));
                return Err(in_store(taken, &*self.store, ""));
            }
            names.check_new(self, to, of_slot.saves[0].kind)?;
            Ok(of_slot.move_all(names.batch(), to))
        });
        renamed.await.map(drop)
    }

    /// Copies the save that a load would take into another slot, which may have saves already. Where that one is damaged,
    /// this is an error: a copy of an older one is [`copy_generation`](Self::copy_generation).
    pub async fn copy(&self, from: &str, to: &str) -> Result<WrittenSave> {
        check_slot(to)?;
        let loaded = self.load(from).await?;
        match loaded.skipped.first() {
            Some(skipped) => Err(self.in_slot(Error::corrupt(skipped), from)),
            None => match loaded.journal.and_then(|journal| journal.lost).filter(|lost| !lost.is_tail()) {
                Some(lost) => Err(self.in_slot(Error::corrupt(lost), from)),
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
        let placed = self.put_next(to, SaveContent::CopyOf(&save), kind).await?;
        Ok(self.finish_with_pruning(to, placed, info.bytes).await)
    }

    /// Deletes the saves of a slot that are not to be kept, and returns their numbers. Every save does this.
    pub async fn prune(&self, slot: &str) -> Result<Vec<u64>> {
        self.prune_except(slot, None).await
    }

    /// Prunes the slot, and spares the save with a number: other programs may have saved so often meanwhile that it is not
    /// among the newest any more, and its own call must not delete it.
    pub(super) async fn prune_except(&self, slot: &str, spared: Option<u64>) -> Result<Vec<u64>> {
        let names = self.names_of(slot).await?;
        let may_go = |save: &SaveName| save.kind == SaveKind::Free || save.kind == SaveKind::Value;
        let saves: Vec<SaveName> = names.saves.iter().filter(|save| may_go(save)).cloned().collect();
        let mut too_old = Vec::new();
        if saves.len() > self.keep.count() {
            let mut conditions = Vec::with_capacity(saves.len());
            for save in &saves {
                conditions.push(self.condition(save).await?);
            }
            too_old = self.keep.too_old(&conditions).into_iter().map(|place| saves[place].clone()).collect();
            too_old.retain(|save| Some(save.generation) != spared);
        }
        if too_old.is_empty() && names.orphans().next().is_none() {
            return Ok(Vec::new());
        }
        let mut pruned = Vec::new();
        self.change(slot, |names, of_slot| {
            // Another program may have deleted or locked some of them.
            let saves: Vec<SaveName> =
                too_old.iter().filter(|save| of_slot.saves.contains(save)).cloned().collect();
            pruned = saves.iter().rev().map(|save| save.generation).collect();
            let orphans = of_slot.orphans().fold(names.batch(), |batch, blob| batch.remove(blob.to_string()));
            Ok(if saves.is_empty() { orphans } else { names.delete(orphans, &saves) })
        })
        .await?;
        Ok(pruned)
    }

    fn is_locked(&self, save: &SaveName) -> Error {
        let message = format!("save {} is locked: unlock it first", save.generation);
        self.in_slot(Error::misuse(message), &save.slot)
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
