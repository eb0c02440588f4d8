//! Removing, locking, renaming and copying saves.

use bonfire::{Error, Result};

use super::name::{Kind, SaveName};
use super::{Saved, Slots, Source};
use crate::rotating::missing;
use crate::store::{check_case, check_slot};

impl Slots {
    /// Removes a slot with all its saves; false if there was none. A slot with a locked save is refused.
    pub async fn remove(&self, slot: &str) -> Result<bool> {
        let saves = self.saves_of(slot).await?;
        if let Some(locked) = saves.iter().find(|save| save.kind == Kind::Locked) {
            return Err(is_locked(locked));
        }
        // The newest last: until then the slot means what it meant.
        for save in saves.iter().rev() {
            self.store.remove(&save.to_string()).await?;
        }
        Ok(!saves.is_empty())
    }

    /// Removes one save; false if there was none. A locked one is refused.
    pub async fn remove_generation(&self, slot: &str, generation: u64) -> Result<bool> {
        match self.find(slot, generation).await {
            Ok(save) if save.kind == Kind::Locked => Err(is_locked(&save)),
            Ok(save) => self.store.remove(&save.to_string()).await,
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Keeps a save from being removed, and from being loaded by the name of its slot, until it is unlocked.
    pub async fn lock(&self, slot: &str, generation: u64) -> Result<()> {
        self.set_kind(slot, generation, Kind::Locked).await
    }

    /// Makes a locked save one like the others.
    pub async fn unlock(&self, slot: &str, generation: u64) -> Result<()> {
        self.set_kind(slot, generation, Kind::Free).await
    }

    async fn set_kind(&self, slot: &str, generation: u64, kind: Kind) -> Result<()> {
        let save = self.find(slot, generation).await?;
        if save.kind == kind {
            return Ok(());
        }
        if save.kind == Kind::Value {
            return Err(Error::misuse("a value cannot be locked").in_key(slot));
        }
        self.store.rename(&save.to_string(), &save.with_kind(kind).to_string()).await
    }

    /// Gives a slot another name that no slot has yet, with all its saves. They move one by one, the newest last: after a
    /// crash on the way both names have saves, and the old one still has the newest: remove the new one and call again.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_slot(to)?;
        let saves = self.saves_of(from).await?;
        if saves.is_empty() {
            return Err(missing(from));
        }
        let all = self.parsed(&self.prefix()).await?;
        let slots = || all.iter().filter(|save| save.profile == self.profile).map(|save| save.slot.as_str());
        if slots().any(|slot| slot == to) {
            return Err(Error::conflict(format!("there is a slot `{to}` already")));
        }
        check_case(to, slots())?;
        for save in saves.iter().rev() {
            self.store.rename(&save.to_string(), &save.in_slot(to).to_string()).await?;
        }
        Ok(())
    }

    /// Copies the save that a load would take into another slot, which may have saves already. Where that one is damaged,
    /// this is an error: a copy of an older one is [`copy_generation`](Self::copy_generation).
    pub async fn copy(&self, from: &str, to: &str) -> Result<Saved> {
        check_slot(to)?;
        let loaded = self.load(from).await?;
        match loaded.skipped.first() {
            Some(skipped) => Err(Error::corrupt(skipped).in_key(from)),
            None => self.copy_generation(from, loaded.info.generation, to).await,
        }
    }

    /// Makes an older save the newest of its slot: a copy of it, under the next number.
    pub async fn restore(&self, slot: &str, generation: u64) -> Result<Saved> {
        self.copy_generation(slot, generation, slot).await
    }

    /// Copies one save into another slot, or into its own.
    pub async fn copy_generation(&self, from: &str, generation: u64, to: &str) -> Result<Saved> {
        let save = self.find(from, generation).await?;
        let kind = if save.kind == Kind::Value { Kind::Value } else { Kind::Free };
        // Only what is whole is worth a copy.
        let (_, info) = self.open(&save, &self.open_options()).await?;
        let generation = self.put_next(to, Source::Save(&save.to_string()), kind).await?;
        Ok(self.tidied(to, generation, info.bytes).await)
    }

    /// Removes the saves of a slot that are not to be kept, and returns their numbers. Every save does this.
    pub async fn prune(&self, slot: &str) -> Result<Vec<u64>> {
        let mut saves = self.saves_of(slot).await?;
        saves.retain(|save| save.kind == Kind::Free || save.kind == Kind::Value);
        if saves.len() <= self.keep.count() {
            return Ok(Vec::new());
        }
        let mut times = vec![None; saves.len()];
        if self.keep.needs_times() {
            for (time, save) in times.iter_mut().zip(&saves) {
                *time = self.info(save).await?.and_then(|info| info.saved_at);
            }
        }
        let mut pruned = Vec::new();
        // The oldest first: whatever stops this, the newest are there.
        for place in self.keep.too_old(&times).into_iter().rev() {
            if self.store.remove(&saves[place].to_string()).await? {
                pruned.push(saves[place].generation);
            }
        }
        Ok(pruned)
    }
}

fn is_locked(save: &SaveName) -> Error {
    Error::misuse(format!("save {} is locked: unlock it first", save.generation)).in_key(&save.slot)
}
