//! Saves for after a crash: written while the game runs, and accepted or rejected by the player at the next start.

use bonfire::{Result, Snapshot};

use super::details::{Details, SaveInfo};
use super::write::{AddedSave, PlacedSave};
use super::{Slots, WrittenSave};
use crate::save_name::{SaveKind, SaveName};

/// The newest recovery save among all saves of a slot. One that is older than a save of the player's is of no use.
pub(super) fn pending(saves: &[SaveName]) -> Option<&SaveName> {
    let newest = |recovery: bool| {
        saves
            .iter()
            .filter(move |save| (save.kind == SaveKind::Recovery) == recovery)
            .max_by_key(|save| save.generation)
    };
    let last_saved = newest(false).map_or(0, |save| save.generation);
    newest(true).filter(|save| save.generation > last_saved)
}

impl Slots {
    /// Saves a world for after a crash. It is not loaded by the name of its slot and does not count as one of its saves:
    /// at the next start, show [`recovery`](Self::recovery) to the player, and call
    /// [`accept_recovery`](Self::accept_recovery) or [`reject_recovery`](Self::reject_recovery). A later
    /// [`save`](Self::save) of the slot makes it needless and deletes it.
    pub async fn save_recovery(
        &self,
        slot: &str,
        snapshot: &Snapshot,
        details: &Details,
    ) -> Result<WrittenSave> {
        let AddedSave { placed: PlacedSave { generation }, bytes, dropped_thumbnail } =
            self.add(slot, snapshot, details, SaveKind::Recovery).await?;
        let prune_error = self.delete_recoveries(slot, generation).await.err();
        Ok(WrittenSave { generation, bytes, pruned: Vec::new(), prune_error, dropped_thumbnail })
    }

    /// The save for after a crash that waits in this slot, if there is one that is newer than all others.
    pub async fn recovery(&self, slot: &str) -> Result<Option<SaveInfo>> {
        let saves = self.saves_of(slot).await?;
        match pending(&saves) {
            Some(save) => self.info(save).await,
            None => Ok(None),
        }
    }

    /// Makes the save for after a crash the newest of its slot, and returns its number. A damaged one is refused and
    /// stays.
    pub async fn accept_recovery(&self, slot: &str) -> Result<u64> {
        let saves = self.saves_of(slot).await?;
        let save =
            pending(&saves).ok_or_else(|| self.missing(&format!("the recovery save of slot `{slot}`")))?;
        self.open(save, &self.open_options()).await?;
        self.store.rename(&save.to_string(), &save.with_kind(SaveKind::Free).to_string()).await?;
        // It is accepted, whatever becomes of what is needless now.
        let _ = self.delete_recoveries(slot, save.generation).await;
        let _ = self.prune(slot).await;
        Ok(save.generation)
    }

    /// Deletes the save for after a crash; false if there was none.
    pub async fn reject_recovery(&self, slot: &str) -> Result<bool> {
        let saves = self.saves_of(slot).await?;
        let waiting = pending(&saves).is_some();
        self.delete_recoveries(slot, u64::MAX).await?;
        Ok(waiting)
    }

    /// Deletes the saves for after a crash that are older than `generation`.
    pub(super) async fn delete_recoveries(&self, slot: &str, generation: u64) -> Result<()> {
        self.delete_chosen(slot, |names| {
            let is_older = |save: &&SaveName| save.kind == SaveKind::Recovery && save.generation < generation;
            Ok(names.saves.iter().filter(is_older).cloned().collect())
        })
        .await
        .map(drop)
    }
}
