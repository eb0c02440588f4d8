//! What there is: slots and saves by their names and heads.

use bonfire::{Error, Result};

use super::details::{SaveInfo, SlotInfo};
use super::recovery::pending;
use super::{HEAD_BYTES_MAX, Slots};
use crate::save_name::{SaveKind, SaveName};
use crate::store::{RETRIES, in_store, is_sealed};

/// Most heads fit this; those with a thumbnail are read again, up to where every head ends.
const SMALL_HEAD_BYTES: u64 = 4 << 10;

impl Slots {
    /// Whether the slot has a save.
    pub async fn exists(&self, slot: &str) -> Result<bool> {
        Ok(self.count(slot).await? > 0)
    }

    /// How many saves the slot has, locked ones included.
    pub async fn count(&self, slot: &str) -> Result<usize> {
        let saves = self.saves_of(slot).await?;
        Ok(saves.iter().filter(|save| save.kind != SaveKind::Recovery).count())
    }

    /// All slots with worlds, by name. Of each, the head of one save is read.
    pub async fn list(&self) -> Result<Vec<SlotInfo>> {
        self.list_if(|newest| newest != SaveKind::Value).await
    }

    /// The slot that was saved or appended to last: what "Continue" loads. The clock plays no part.
    pub async fn newest(&self) -> Result<Option<SlotInfo>> {
        Ok(self.list().await?.into_iter().max_by_key(|slot| slot.newest.order))
    }

    /// All slots with values, by name: see [`save_value`](Self::save_value).
    pub async fn list_values(&self) -> Result<Vec<SlotInfo>> {
        self.list_if(|newest| newest == SaveKind::Value).await
    }

    async fn list_if(&self, wanted: impl Fn(SaveKind) -> bool) -> Result<Vec<SlotInfo>> {
        for _ in 0..RETRIES {
            if let Some(slots) = self.try_list(&wanted).await? {
                return Ok(slots);
            }
        }
        let conflict = Error::conflict("the slots change faster than they can be listed");
        Err(in_store(conflict, &*self.store, ""))
    }

    /// `None` if all saves of a slot were gone before they could be looked at.
    async fn try_list(&self, wanted: &impl Fn(SaveKind) -> bool) -> Result<Option<Vec<SlotInfo>>> {
        let mut saves = self.list_names(&self.prefix()).await?;
        saves.retain(|save| save.profile == self.profile);
        saves.sort_by(|a, b| {
            a.slot.cmp(&b.slot).then(a.kind.cmp(&b.kind)).then(b.generation.cmp(&a.generation))
        });
        let mut slots = Vec::new();
        for saves in saves.chunk_by(|a, b| a.slot == b.slot) {
            if !wanted(saves[0].kind) {
                continue;
            }
            let recoveries = saves.iter().filter(|save| save.kind == SaveKind::Recovery).count();
            // The recovery ones come last; a slot that has nothing else is one too.
            let mut newest = None;
            for save in saves {
                newest = self.info(save).await?;
                if newest.is_some() {
                    break;
                }
            }
            let Some(newest) = newest else { return Ok(None) };
            slots.push(SlotInfo {
                name: saves[0].slot.clone(),
                saves: saves.len() - recoveries,
                newest,
                has_recovery: pending(saves).is_some(),
            });
        }
        Ok(Some(slots))
    }

    /// All saves of all slots, with their heads, from one listing: by slot, newest first.
    pub async fn all_saves(&self) -> Result<Vec<SaveInfo>> {
        let mut saves = self.list_names(&self.prefix()).await?;
        saves.retain(|save| save.profile == self.profile);
        saves.sort_by(|a, b| a.slot.cmp(&b.slot).then(b.generation.cmp(&a.generation)));
        let mut infos = Vec::new();
        for save in &saves {
            infos.extend(self.info(save).await?);
        }
        Ok(infos)
    }

    /// All saves of a slot, newest first, with their heads. Those for after a crash are among them.
    pub async fn saves(&self, slot: &str) -> Result<Vec<SaveInfo>> {
        let mut infos = Vec::new();
        for save in self.saves_of(slot).await? {
            infos.extend(self.info(&save).await?);
        }
        Ok(infos)
    }

    /// What the head of a save tells; `None` if the save is gone.
    pub(super) async fn info(&self, save: &SaveName) -> Result<Option<SaveInfo>> {
        let name = save.to_string();
        let head = match self.store.head(&name).await {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(None),
            Err(error) => {
                let mut info = SaveInfo::of_name(save, 0);
                info.problem = Some(error);
                return Ok(Some(info));
            }
        };
        let mut info = SaveInfo::of_name(save, head.len);
        info.sealed = head.readable < head.len;
        for len in [SMALL_HEAD_BYTES, HEAD_BYTES_MAX] {
            let bytes = match self.store.get_range(&name, 0..len.min(head.readable)).await {
                Err(error) if error.is_not_found() => return Ok(None),
                read => read,
            };
            info.sealed |= bytes.as_ref().is_ok_and(|bytes| is_sealed(bytes));
            match bytes.and_then(|bytes| self.open_options().head(&bytes)) {
                Ok(head) => {
                    info.problem = None;
                    info.add_head(head);
                    break;
                }
                Err(error) => info.problem = Some(error),
            }
            if head.readable <= len {
                break;
            }
        }
        match self.journal_info(save).await {
            Ok(Some(journal)) => {
                info.saved_at = journal.saved_at.or(info.saved_at);
                info.order = info.order.max(journal.order);
                info.journal = Some(journal);
            }
            Ok(None) => {}
            Err(error) => drop(info.problem.get_or_insert(error)),
        }
        if info.sealed && info.problem.is_some() {
            info.problem = Some(Error::wrong_key("it is sealed, and no key at hand opens it"));
        }
        Ok(Some(info))
    }
}
