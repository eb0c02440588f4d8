//! Writing saves: each under a number of its own, the newest with the largest.

use std::time::Duration;

use bonfire::engine::Rope;
use bonfire::{EncodeOptions, Error, Result, Snapshot};

use super::details::Details;
use super::{HEAD_BYTES_MAX, Slots};
use crate::generation::next;
use crate::portable_name::{check_case, check_slot};
use crate::save_name::{JournalName, SaveKind, SaveName};
use crate::store::{Payload, Precondition, RETRIES};

/// A save in a slot that is durable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WrittenSave {
    /// The number of the save in its slot.
    pub generation: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The numbers of the saves that were pruned because of it.
    pub pruned: Vec<u64>,
    /// The first error after the save was durable, such as a failed pruning. The new save is safe all the same.
    pub prune_error: Option<Error>,
}

/// A durable save whose slot is not pruned yet.
pub(crate) struct PlacedSave {
    pub(super) generation: u64,
    /// The first error since it became durable.
    pub(super) later_error: Option<Error>,
}

/// The content of a new save.
pub(super) enum SaveContent<'a> {
    Payload(Payload),
    /// A copy of another save and its journal.
    CopyOf(&'a SaveName),
}

impl Slots {
    /// Saves a world. When this returns, the save is durable; if it fails, what was there before is as it was.
    pub async fn save(&self, slot: &str, snapshot: &Snapshot, details: &Details) -> Result<WrittenSave> {
        self.save_as(SaveKind::Free, slot, snapshot, details).await
    }

    pub(super) async fn save_as(
        &self,
        kind: SaveKind,
        slot: &str,
        snapshot: &Snapshot,
        details: &Details,
    ) -> Result<WrittenSave> {
        let (placed, bytes) = self.add(slot, snapshot, details, kind).await?;
        Ok(self.finish_save(slot, placed, bytes).await)
    }

    /// A snapshot as the bytes of a save.
    pub(crate) fn encode_save(
        &self,
        snapshot: &Snapshot,
        details: &Details,
        options: Option<&EncodeOptions>,
    ) -> Result<Payload> {
        let snapshot = details.put_on(snapshot, (self.clock)())?;
        payload_of(&snapshot, options.unwrap_or(&self.encode))
    }

    /// Puts an encoded world into a slot. It is durable when this returns; what it makes needless is still there.
    pub(crate) async fn place(&self, slot: &str, payload: Payload) -> Result<PlacedSave> {
        self.put_next(slot, SaveContent::Payload(payload), SaveKind::Free).await
    }

    /// Prunes the slot after a save of the player's, and deletes its saves for after a crash.
    pub(crate) async fn finish_save(&self, slot: &str, placed: PlacedSave, bytes: u64) -> WrittenSave {
        let mut saved = self.finish_with_pruning(slot, placed, bytes).await;
        if let Err(error) = self.delete_recoveries(slot, saved.generation).await {
            saved.prune_error.get_or_insert(error);
        }
        saved
    }

    /// Prunes the slot after a new save, which is safe whatever becomes of that.
    pub(super) async fn finish_with_pruning(
        &self,
        slot: &str,
        placed: PlacedSave,
        bytes: u64,
    ) -> WrittenSave {
        let PlacedSave { generation, later_error } = placed;
        let mut saved = WrittenSave { generation, bytes, pruned: Vec::new(), prune_error: later_error };
        match self.prune(slot).await {
            Ok(pruned) => saved.pruned = pruned,
            Err(error) => drop(saved.prune_error.get_or_insert(error)),
        }
        saved
    }

    /// Adds a save under the next number.
    pub(super) async fn add(
        &self,
        slot: &str,
        snapshot: &Snapshot,
        details: &Details,
        kind: SaveKind,
    ) -> Result<(PlacedSave, u64)> {
        check_slot(slot)?;
        let payload = self.encode_save(snapshot, details, None)?;
        let bytes = payload.len();
        Ok((self.put_next(slot, SaveContent::Payload(payload), kind).await?, bytes))
    }

    /// Puts a save under the next number of its slot.
    pub(super) async fn put_next(
        &self,
        slot: &str,
        content: SaveContent<'_>,
        kind: SaveKind,
    ) -> Result<PlacedSave> {
        check_slot(slot)?;
        let (mut taken, mut misuses) = (0, 0);
        for _ in 0..RETRIES {
            let names = self.store.list("").await?;
            let all: Vec<SaveName> = names.iter().filter_map(|name| SaveName::parse(name)).collect();
            let slots = all.iter().filter(|save| save.profile == self.profile).map(|save| save.slot.as_str());
            check_case(slot, slots)?;
            if let Some(profile) = &self.profile {
                check_case(profile, all.iter().filter_map(|save| save.profile.as_deref()))?;
            }
            let here = || all.iter().filter(|save| save.profile == self.profile && save.slot == slot);
            if here().any(|save| (save.kind == SaveKind::Value) != (kind == SaveKind::Value)) {
                return Err(Error::misuse("a slot is for worlds or for values, not for both").in_key(slot));
            }
            // The number of a journal whose save is gone is not given again: it would be the journal of the new one.
            let journals = names.iter().filter_map(|name| JournalName::parse(name));
            let journals = journals.filter(|name| name.profile == self.profile && name.slot == slot);
            let newest = here().map(|save| save.generation).chain(journals.map(|name| name.generation)).max();
            let generation = next(newest.max(Some(taken)))?;
            let name = self.name(slot, generation, kind);
            let put = match &content {
                SaveContent::Payload(payload) => {
                    self.store.put(&name.to_string(), payload.clone(), Precondition::Absent).await.map(drop)
                }
                SaveContent::CopyOf(from) => self.copy_save(from, &name).await,
            };
            match put {
                Ok(()) => {
                    let placed = self.make_newest(name).await;
                    // Numbers come again when all saves of a slot are gone: what was appended to the one before is not part of this one.
                    let newest = self.name(slot, placed.generation, kind).journal();
                    self.journals().remove(&newest.to_string());
                    return Ok(placed);
                }
                // Somebody else took the number, or something that is no save has the name: a directory, a link, the
                // same letters in other case.
                Err(error) if error.is_conflict() => taken = generation,
                Err(error) if error.is_misuse() && misuses < 8 => {
                    (taken, misuses) = (generation, misuses + 1);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::conflict(format!("`{slot}` changes faster than it can be written")))
    }

    /// Puts a copy of a save and of its journal under a name that nobody has yet.
    async fn copy_save(&self, from: &SaveName, to: &SaveName) -> Result<()> {
        self.copy_journal(from, to).await?;
        let copied = self.store.copy(&from.to_string(), &to.to_string()).await;
        if copied.is_err() && self.store.head(&to.to_string()).await.is_ok_and(|head| head.is_none()) {
            let _ = self.remove_journal(to).await;
        }
        copied
    }

    /// Saves a save that was merged with its journal, with the details of the save.
    pub(super) async fn save_merged(
        &self,
        slot: &str,
        snapshot: &Snapshot,
        saved_at: Option<Duration>,
    ) -> Result<WrittenSave> {
        let snapshot = Details::new().put_on(snapshot, saved_at)?;
        let payload = payload_of(&snapshot, &self.encode)?;
        let bytes = payload.len();
        let placed = self.put_next(slot, SaveContent::Payload(payload), SaveKind::Free).await?;
        Ok(self.finish_save(slot, placed, bytes).await)
    }

    /// Others may have saved while this one was written, and locked or pruned theirs: then its number is one of theirs, or
    /// older. It gets a new one.
    async fn make_newest(&self, mut save: SaveName) -> PlacedSave {
        for _ in 0..RETRIES {
            match self.renumbered(&save).await {
                Ok(Some(newer)) => save = newer,
                Ok(None) => break,
                Err(error) if error.is_conflict() => {}
                // Pruned already, by one that is newer.
                Err(error) if error.is_not_found() => break,
                Err(error) => return PlacedSave { generation: save.generation, later_error: Some(error) },
            }
        }
        PlacedSave { generation: save.generation, later_error: None }
    }

    /// The save under a new number, if it is not the newest of its slot.
    async fn renumbered(&self, save: &SaveName) -> Result<Option<SaveName>> {
        let others = self.saves_of(&save.slot).await?.into_iter().filter(|other| other != save);
        let newest = others.map(|other| other.generation).max();
        if newest < Some(save.generation) {
            return Ok(None);
        }
        let renumbered = save.with_generation(next(newest)?);
        self.move_save(save, &renumbered).await?;
        Ok(Some(renumbered))
    }
}

/// A snapshot with its details as bytes, of which the head may be read by everybody.
fn payload_of(snapshot: &Snapshot, options: &EncodeOptions) -> Result<Payload> {
    let rope = snapshot.encode(options)?;
    let head = head_len(&rope)?;
    Ok(Payload::from(rope).leave_open(head))
}

/// How many bytes the head of a save has: what lists of saves may read without a key.
fn head_len(rope: &Rope) -> Result<u64> {
    let mut start = Vec::new();
    for part in rope.parts() {
        let wanted = HEAD_BYTES_MAX as usize - start.len();
        start.extend_from_slice(&part[..part.len().min(wanted)]);
    }
    Ok(Snapshot::options().head(&start)?.bytes)
}
