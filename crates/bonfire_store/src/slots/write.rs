//! Writing saves: each under a number of its own, the newest with the largest.

use bonfire::engine::Rope;
use bonfire::{EncodeOptions, Error, Result, Snapshot};

use super::details::Details;
use super::names::StoreNames;
use super::recovery::pending;
use super::{HEAD_BYTES_MAX, Slots};
use crate::generation::next;
use crate::portable_name::check_slot;
use crate::save_name::{SaveKind, SaveName};
use crate::store::{Payload, Precondition, RETRIES, Version};

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
    /// The length in bytes of a [thumbnail](Details::thumbnail) that was too large. The save is whole, without it.
    pub dropped_thumbnail: Option<u64>,
}

/// The bytes of a save that is not written yet.
pub(crate) struct EncodedSave {
    pub(crate) payload: Payload,
    /// The length in bytes of a thumbnail that was too large.
    pub(crate) dropped_thumbnail: Option<u64>,
}

/// A durable save whose slot is not pruned yet.
pub(crate) struct PlacedSave {
    pub(super) generation: u64,
}

/// A durable save, with the facts of its encoding.
pub(super) struct AddedSave {
    pub(super) placed: PlacedSave,
    pub(super) bytes: u64,
    pub(super) dropped_thumbnail: Option<u64>,
}

/// The content of a new save.
pub(super) enum SaveContent<'a> {
    Payload(Payload),
    /// The world that another save and its journal led to when the blobs of the journal had these versions.
    Merged(Payload, &'a [(String, Version)]),
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
        let added = self.add(slot, snapshot, details, kind).await?;
        let saved = self.finish_save(slot, added.placed, added.bytes).await;
        Ok(WrittenSave { dropped_thumbnail: added.dropped_thumbnail, ..saved })
    }

    /// A snapshot as the bytes of a save. A thumbnail that does not fit the head is left out.
    pub(crate) async fn encode_save(
        &self,
        snapshot: &Snapshot,
        details: &Details,
        options: Option<&EncodeOptions>,
    ) -> Result<EncodedSave> {
        let (time, options) = ((self.clock)(), options.unwrap_or(&self.encode));
        let encode =
            async |details: &Details| self.payload_of(&details.put_on(snapshot, time)?, options).await;
        let dropped_thumbnail = details.get_thumbnail().map(|bytes| bytes.len() as u64);
        match encode(details).await {
            Err(error) if error.is_limit() && dropped_thumbnail.is_some() => {
                let payload = encode(&details.without_thumbnail()).await?;
                Ok(EncodedSave { payload, dropped_thumbnail })
            }
            payload => Ok(EncodedSave { payload: payload?, dropped_thumbnail: None }),
        }
    }

    /// A snapshot with its details as bytes, of which the head may be read by everybody.
    pub(super) async fn payload_of(&self, snapshot: &Snapshot, options: &EncodeOptions) -> Result<Payload> {
        let rope = snapshot.encode_in_slices(options, &mut self.slices()).await?;
        let head = head_len(&rope)?;
        Ok(Payload::from(rope).leave_open(head))
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
        let (pruned, prune_error) = match self.prune_except(slot, Some(placed.generation)).await {
            Ok(pruned) => (pruned, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        WrittenSave { generation: placed.generation, bytes, pruned, prune_error, dropped_thumbnail: None }
    }

    /// Adds a save under the next number.
    pub(super) async fn add(
        &self,
        slot: &str,
        snapshot: &Snapshot,
        details: &Details,
        kind: SaveKind,
    ) -> Result<AddedSave> {
        check_slot(slot)?;
        let EncodedSave { payload, dropped_thumbnail } = self.encode_save(snapshot, details, None).await?;
        let bytes = payload.len();
        let placed = self.put_next(slot, SaveContent::Payload(payload), kind).await?;
        Ok(AddedSave { placed, bytes, dropped_thumbnail })
    }

    /// Puts a save under the next number.
    pub(super) async fn put_next(
        &self,
        slot: &str,
        content: SaveContent<'_>,
        kind: SaveKind,
    ) -> Result<PlacedSave> {
        check_slot(slot)?;
        let (mut taken, mut misuses) = (0, 0);
        for _ in 0..RETRIES {
            let names = self.store_names().await?;
            let put = self.put_after(&names, slot, &content, kind, taken).await;
            match put {
                Ok(placed) => return Ok(placed),
                Err(error) if error.is_conflict() => {
                    // Another program was faster. Or something that is no save has the name: a directory, a link.
                    if self.store_names().await?.is_same(&names) {
                        taken = names.next(&names.of(self, slot), taken)?;
                    }
                }
                // The same letters in other case.
                Err(error) if error.is_misuse() && misuses < 8 => {
                    names.check_new(self, slot, kind)?;
                    (taken, misuses) = (names.next(&names.of(self, slot), taken)?, misuses + 1);
                }
                Err(error) => return Err(error),
            }
        }
        Err(self.in_slot(Error::conflict("the slot changes faster than it can be written"), slot))
    }

    /// Puts a save under the next number, if the store still has these names.
    pub(super) async fn put_after(
        &self,
        names: &StoreNames,
        slot: &str,
        content: &SaveContent<'_>,
        kind: SaveKind,
        taken: u64,
    ) -> Result<PlacedSave> {
        names.check_new(self, slot, kind)?;
        let of_slot = names.of(self, slot);
        let generation = names.next(&of_slot, taken)?;
        let name = self.name(slot, generation, kind);
        let batch = match content {
            SaveContent::Payload(payload) => names.batch().put(name.to_string(), payload.clone()),
            SaveContent::Merged(payload, journal) => {
                let batch = journal.iter().fold(names.batch(), |batch, (name, version)| {
                    batch.expect(name.clone(), Precondition::Version(version.clone()))
                });
                batch.put(name.to_string(), payload.clone())
            }
            SaveContent::CopyOf(from) => {
                let batch = names.of(self, &from.slot).copy(names.batch(), from, &name);
                match pending(&of_slot.saves) {
                    // The player has not played on: what waits is still newer than anything that was.
                    // It has no journal: nothing is appended before it is accepted.
                    Some(recovery) => {
                        let newer = recovery.with_generation(next(Some(generation))?);
                        batch.rename(recovery.to_string(), newer.to_string())
                    }
                    None => batch,
                }
            }
        };
        self.store.change(batch).await?;
        Ok(PlacedSave { generation })
    }
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
