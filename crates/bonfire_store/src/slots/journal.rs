//! The journal of a save: what is appended, and what is read again.
//!
//! A journal is begun and extended only while its save is the newest of its slot, and the store checks that in the same step.
//! Where a save goes, its journal goes in the same step.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use bonfire::engine::Rope;
use bonfire::{Delta, Error, OpenOptions, Result, Snapshot};
use bytes::Bytes;

use super::details::order_of_save;
use super::names::SlotNames;
use super::write::SaveContent;
use super::{Details, Slots, WrittenSave};
use crate::journal::{
    AppendReport, Base, Chain, Entry, HEAD_BYTES, JournalBase, JournalHead, JournalInfo, JournalReplay,
    LostDelta, RECORD_HEADER_BYTES, RecordHeader, Scan, TRAILER_BYTES, count, replay, scan,
};
use crate::portable_name::check_slot;
use crate::save_name::{JournalName, SaveKind, SaveName};
use crate::store::{Payload, RETRIES, missing, refuse_sealed};

/// Journals that were begun here and can go on, by their names.
pub(super) type OpenJournals = BTreeMap<String, OpenJournal>;

/// A journal that can go on.
pub(super) struct OpenJournal {
    chain: Chain,
    layout: RecordLayout,
    /// The tick of its save.
    tick: u64,
}

/// The blobs that hold the records of a journal.
#[derive(Clone, Copy)]
enum RecordLayout {
    /// The blob of the head, which has this length.
    OneBlob(u64),
    /// One blob for each record.
    BlobPerRecord,
}

impl Slots {
    pub(super) fn journals(&self) -> MutexGuard<'_, OpenJournals> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends what has changed to the journal of a save. When this returns, it is durable, and a load of the save leads to
    /// the tick where the delta ends.
    ///
    /// The save is the newest of its slot that is not locked, made by this process, and the delta begins at its tick, or at
    /// the tick where the delta before it ended. Whatever fails, the delta is not part of the save, those before it are,
    /// and the next save is to be one of the whole world: [`Error::is_conflict`] says that there is no going on because the
    /// save is gone, or locked, or not the newest, or because a delta before this one is missing.
    ///
    /// ```
    /// # use bonfire::{Delta, EntityId, Persist, Registry, Snapshot};
    /// # use bonfire::engine::{DeltaSchema, SnapshotWriter};
    /// use bonfire_store::{Details, JournalBase, MemoryStore, Slots, Wait};
    ///
    /// # #[derive(Persist)]
    /// # #[persist(key = "game.health")]
    /// # struct Health(f32);
    /// # let registry = Registry::new().with::<Health>()?;
    /// # let schema = DeltaSchema::new(&registry);
    /// # let world = |health: f32| -> bonfire::Result<Snapshot> {
    /// #     let mut writer = SnapshotWriter::new(&registry);
    /// #     writer.archetype(&[EntityId::new(0, 0)])?.column(&[Health(health)])?;
    /// #     writer.finish()
    /// # };
    /// # let (at_tick_60, at_tick_120) = (world(1.0)?, world(2.0)?);
    /// let slots = Slots::new(MemoryStore::new());
    /// let saved = slots.save("auto", &at_tick_60, &Details::new()).wait()?;
    /// let base = JournalBase::new("auto", saved.generation, 60);
    ///
    /// let delta = Delta::between(&schema, &at_tick_60, &at_tick_120, 60, 120)?;
    /// slots.append(&base, &delta).wait()?;
    ///
    /// let loaded = slots.load("auto").wait()?;
    /// assert_eq!(loaded.journal.unwrap().now, Some(120));
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub async fn append(&self, base: &JournalBase, delta: &Delta) -> Result<AppendReport> {
        let time = (self.clock)().map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let names = self.store_names().await?;
        let entry = Entry {
            since: delta.since(),
            now: delta.now(),
            time_ms: time,
            order: self.next_order(names.newest()),
            table: delta.table().fingerprint(),
            delta: delta.to_bytes()?,
        };
        let names = names.of(self, &base.slot);
        self.append_entry(base, &names, &entry, || delta.table().encode())
            .await
            .map_err(|error| self.in_slot(error, &base.slot))
    }

    async fn append_entry(
        &self,
        base: &JournalBase,
        names: &SlotNames,
        entry: &Entry,
        table: impl FnOnce() -> Vec<u8>,
    ) -> Result<AppendReport> {
        check_slot(&base.slot)?;
        let save = base_of(&names.saves, base.generation)?;
        let name = save.journal();
        // Until this one is durable, the journal is not known to be whole.
        let open = self.journals().remove(&name.to_string()).filter(|open| open.tick == base.tick);
        let before = open.as_ref().map(|open| open.chain.bytes + HEAD_BYTES as u64);
        let appended = match open {
            Some(OpenJournal { chain, layout, tick }) => {
                let (record, chain) = self.next_record(&chain, entry, table)?;
                let (batch, layout) = match layout {
                    RecordLayout::OneBlob(len) => {
                        let after = RecordLayout::OneBlob(len + record.len() as u64);
                        (names.batch().append(name.to_string(), len, record.into()), after)
                    }
                    RecordLayout::BlobPerRecord => {
                        let blob = name.record(chain.records).to_string();
                        (names.batch().put(blob, record.into()), layout)
                    }
                };
                self.store.change(batch).await.map_err(changed_meanwhile)?;
                OpenJournal { chain, layout, tick }
            }
            None if names.journals.iter().any(|journal| journal.is_of(save)) => {
                return Err(Error::conflict(format!(
                    "save {} has a journal that cannot go on: save as a whole",
                    base.generation
                )));
            }
            None => {
                let (bytes, _) = self.read(save).await?;
                let (chain, head) = Chain::begin(JournalHead { base: Base::of(&bytes), tick: base.tick });
                let (record, chain) = self.next_record(&chain, entry, table)?;
                let layout = self.begin(names, &name, head, record).await?;
                OpenJournal { chain, layout, tick: base.tick }
            }
        };
        let (records, journal_bytes) = (appended.chain.records, appended.chain.bytes + HEAD_BYTES as u64);
        let full_save_due = self.compaction.is_due(records, journal_bytes, appended.chain.base_bytes);
        {
            // The journals of older saves do not go on.
            let mut journals = self.journals();
            let of_slot = |other: &JournalName| other.profile == name.profile && other.slot == name.slot;
            journals.retain(|other, _| JournalName::parse(other).is_some_and(|other| !of_slot(&other)));
            journals.insert(name.to_string(), appended);
        }
        if names.saves.iter().any(|save| save.kind == SaveKind::Recovery) {
            // This is newer. If they stay, nothing is lost.
            let _ = self.delete_recoveries(&base.slot, u64::MAX).await;
        }
        Ok(AppendReport {
            slot: base.slot.clone(),
            generation: base.generation,
            record: records,
            now: entry.now,
            bytes: journal_bytes - before.unwrap_or(0),
            journal_bytes,
            full_save_due,
        })
    }

    /// The next record, if who loads it with the same limits may.
    fn next_record(
        &self,
        chain: &Chain,
        entry: &Entry,
        table: impl FnOnce() -> Vec<u8>,
    ) -> Result<(Rope, Chain)> {
        let (record, after) = chain.record(entry, table)?;
        if after.bytes > self.open_options().file_bytes_max() {
            return Err(Error::limit("the journal would be longer than the limits allow: save as a whole"));
        }
        Ok((record, after))
    }

    /// A new journal with its first record: in one blob, or in two where nothing can be appended.
    async fn begin(
        &self,
        names: &SlotNames,
        name: &JournalName,
        head: Bytes,
        record: Rope,
    ) -> Result<RecordLayout> {
        let mut both = Rope::from(head.clone());
        record.parts().iter().for_each(|part| both.push(part.clone()));
        let len = both.len() as u64;
        match self.store.change(names.batch().append(name.to_string(), 0, both.into())).await {
            Ok(_) => Ok(RecordLayout::OneBlob(len)),
            Err(error) if error.is_unsupported() => {
                let batch = names.batch().put(name.to_string(), Payload::from(head));
                let batch = batch.put(name.record(1).to_string(), record.into());
                self.store.change(batch).await.map_err(changed_meanwhile)?;
                Ok(RecordLayout::BlobPerRecord)
            }
            Err(error) => Err(changed_meanwhile(error)),
        }
    }

    /// The place of an append among all saves and appends: behind the save with the number `newest`, and behind all appends of
    /// this process.
    fn next_order(&self, newest: u64) -> u64 {
        let last = self.last_order.load(Ordering::Relaxed);
        // Whatever was appended, the next save is later.
        let before_next = order_of_save(newest.saturating_add(1)) - 1;
        let order = last.max(order_of_save(newest)).saturating_add(1).min(before_next);
        self.last_order.store(order, Ordering::Relaxed);
        order
    }

    /// A save with its journal, if it has one: the world as it was when the last delta was appended.
    pub(super) async fn replay_journal(
        &self,
        save: &SaveName,
        snapshot: Snapshot,
        bytes: &[u8],
        options: &OpenOptions<'_>,
    ) -> Result<(Snapshot, Option<JournalReplay>)> {
        if save.kind == SaveKind::Value {
            return Ok((snapshot, None));
        }
        let name = save.journal();
        let Some(head) = self.store.head(&name.to_string()).await? else {
            // It goes after its save: if that is here, there was none.
            return match self.store.head(&save.to_string()).await? {
                Some(_) => Ok((snapshot, None)),
                None => Err(missing(&save.to_string())),
            };
        };
        let scan = match self.read_journal(&name, head.len, bytes, options).await? {
            Ok(scan) => scan,
            Err(lost) => {
                let none =
                    JournalReplay { records: 0, bytes: 0, now: None, saved_at: None, lost: Some(lost) };
                return Ok((snapshot, Some(none)));
            }
        };
        let Scan { head, records, mut lost, .. } = scan;
        let all = records.len() as u64;
        let (snapshot, used, refused) = replay(snapshot, &records, options.get_limits())?;
        if let Some(error) = refused {
            let behind = lost.map_or(0, |lost| lost.later + 1);
            lost = Some(LostDelta::new(used as u64 + 1, &error, all - used as u64 - 1 + behind));
        }
        let used = &records[..used];
        let last = used.last();
        let replay = JournalReplay {
            records: used.len() as u64,
            bytes: used.iter().map(|record| record.bytes).sum(),
            now: Some(last.map_or(head.tick, |record| record.now)),
            saved_at: last.and_then(|record| time_of(record.time_ms)),
            lost,
        };
        Ok((snapshot, Some(replay)))
    }

    /// The records of a journal, or why none of it can be used.
    async fn read_journal(
        &self,
        name: &JournalName,
        len: u64,
        save: &[u8],
        options: &OpenOptions<'_>,
    ) -> Result<std::result::Result<Scan, LostDelta>> {
        let journal = match self.get_bounded(&name.to_string(), len, 0, options).await {
            Err(error) if error.is_corrupt() => return Ok(Err(LostDelta::new(1, &error, 0))),
            journal => journal?,
        };
        let mut scan = match scan(&journal) {
            Err(error) if error.is_corrupt() => {
                let later = count(&journal, 1).saturating_sub(1);
                return Ok(Err(LostDelta::new(1, &error, later)));
            }
            scan => scan?,
        };
        if scan.head.base != Base::of(save) {
            return Ok(Err(LostDelta::foreign(scan.records.len() as u64)));
        }
        if journal.len() == HEAD_BYTES {
            self.read_records(name, &mut scan, options).await?;
        }
        Ok(Ok(scan))
    }

    /// Adds the records that are blobs of their own.
    async fn read_records(
        &self,
        name: &JournalName,
        scan: &mut Scan,
        options: &OpenOptions<'_>,
    ) -> Result<()> {
        let numbers = self.record_numbers(name).await?;
        let mut read = 0;
        for (place, &number) in numbers.iter().enumerate() {
            let behind = (numbers.len() - place - 1) as u64;
            if number != scan.next() {
                scan.lose(&Error::corrupt("it is missing"), behind + 1);
                return Ok(());
            }
            let blob = name.record(number).to_string();
            let head = self.store.head(&blob).await;
            let record = match head {
                Ok(Some(head)) => {
                    let record = self.get_bounded(&blob, head.len, read, options).await;
                    read += head.len;
                    record
                }
                Ok(None) => return Err(missing(&blob)),
                Err(error) => Err(error),
            };
            match record.and_then(|record| scan.take_blob(&record)) {
                Ok(()) => {}
                Err(error) if error.is_corrupt() => {
                    scan.lose(&error, behind);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The numbers of all records that are blobs of their own, in order.
    async fn record_numbers(&self, name: &JournalName) -> Result<Vec<u64>> {
        let names = self.store.list(&format!("{name}.")).await?;
        let mut numbers: Vec<u64> = names
            .iter()
            .filter_map(|found| JournalName::parse(found)?.record)
            .filter(|number| *number > 0)
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A blob, if it and what was `read` before are not more than the limits allow. Each of its bytes is looked at once.
    async fn get_bounded(&self, name: &str, len: u64, read: u64, options: &OpenOptions<'_>) -> Result<Bytes> {
        if len.saturating_add(read) > options.file_bytes_max() {
            return Err(Error::limit(format!("the journal `{name}` is longer than the limits allow")));
        }
        let bytes = self.store.get(name).await?;
        options.get_limits().step(bytes.len())?;
        refuse_sealed(name, &bytes)?;
        Ok(bytes)
    }

    /// What the last record of a journal says, by a few small reads; `None` if there is no journal, or if nothing can be
    /// learned in this way.
    pub(super) async fn journal_info(&self, save: &SaveName) -> Result<Option<JournalInfo>> {
        if save.kind == SaveKind::Value {
            return Ok(None);
        }
        let name = save.journal();
        let text = name.to_string();
        let Some(head) = self.store.head(&text).await? else { return Ok(None) };
        let header = if head.len <= HEAD_BYTES as u64 {
            let Some(&last) = self.record_numbers(&name).await?.last() else { return Ok(None) };
            let record = name.record(last).to_string();
            self.store.get_range(&record, 0..RECORD_HEADER_BYTES as u64).await?
        } else {
            let trailer = self.store.get_range(&text, head.len - TRAILER_BYTES as u64..head.len).await?;
            let len = trailer.first_chunk().map_or(u64::MAX, |len| u64::from_le_bytes(*len));
            let start = head.len.checked_sub(len).filter(|start| *start >= HEAD_BYTES as u64);
            let Some(start) = start else { return Ok(None) };
            self.store.get_range(&text, start..start + RECORD_HEADER_BYTES as u64).await?
        };
        let Ok((header, _)) = RecordHeader::decode(&header) else { return Ok(None) };
        let RecordHeader { sequence, now, time_ms, order, .. } = header;
        Ok(Some(JournalInfo { records: sequence, now, saved_at: time_of(time_ms), order }))
    }

    /// Merges the newest save of a slot and its journal into one save, under the next number. Returns `None` if the save has
    /// no journal.
    ///
    /// If a part of the save or of the journal cannot be read, this is an error and nothing changes. Deltas that
    /// [`load`](Self::load) reports as lost stay lost. [`Keep`](crate::Keep) decides when the old save and its journal are
    /// pruned.
    pub async fn merge_journal(&self, slot: &str) -> Result<Option<WrittenSave>> {
        for _ in 0..RETRIES {
            let names = self.store_names().await?;
            let of_slot = names.of(self, slot);
            let mut journal = Vec::new();
            for blob in &of_slot.journals {
                let head = self.store.head(&blob.to_string()).await?;
                journal.extend(head.map(|head| (blob.to_string(), head.version)));
            }
            let loaded = self.load(slot).await?;
            if let Some(skipped) = loaded.skipped.first() {
                return Err(self.in_slot(Error::corrupt(skipped), slot));
            }
            let Some(replay) = loaded.journal else { return Ok(None) };
            let saved_at = replay.saved_at.or(loaded.info.saved_at);
            let world = Details::new().put_on(&loaded.snapshot, saved_at)?;
            let payload = self.payload_of(&world, &self.encode).await?;
            let bytes = payload.len();
            let content = SaveContent::Merged(payload, &journal);
            match self.put_after(&names, slot, &content, SaveKind::Free, 0).await {
                Ok(placed) => return Ok(Some(self.finish_save(slot, placed, bytes).await)),
                // Another program has saved or appended something since it was read.
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.in_slot(Error::conflict("the slot changes faster than it can be merged"), slot))
    }
}

/// The error of an append whose slot another program has changed.
fn changed_meanwhile(error: Error) -> Error {
    match error.is_conflict() {
        true => Error::conflict("the slot was changed by another program: save as a whole"),
        false => error,
    }
}

/// The save that is to get a journal.
fn base_of(saves: &[SaveName], generation: u64) -> Result<&SaveName> {
    let Some(save) = saves.iter().find(|save| save.generation == generation && save.kind == SaveKind::Free)
    else {
        return Err(gone(generation));
    };
    let newest = saves.iter().filter(|save| save.kind == SaveKind::Free).map(|save| save.generation).max();
    match newest.filter(|newest| *newest > generation) {
        Some(newest) => Err(Error::conflict(format!(
            "save {generation} is not the newest any more, {newest} is: save as a whole"
        ))),
        None => Ok(save),
    }
}

fn gone(generation: u64) -> Error {
    Error::conflict(format!("save {generation} is gone, or locked: save as a whole"))
}

/// The time of a record; `None` if its writer had no clock.
pub(super) fn time_of(time_ms: u64) -> Option<Duration> {
    (time_ms > 0).then(|| Duration::from_millis(time_ms))
}
