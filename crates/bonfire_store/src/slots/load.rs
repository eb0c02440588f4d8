//! Opening saves: the newest that is whole.

use std::cmp::Reverse;
use std::fmt;

use bonfire::{Error, OpenOptions, Result, Snapshot};
use bytes::Bytes;

use super::Slots;
use super::details::SaveInfo;
use crate::journal::JournalReplay;
use crate::progress::{Phase, Progress, ProgressReporter};
use crate::save_name::{SaveKind, SaveName};
use crate::store::{RETRIES, in_store, missing, refuse_sealed};

/// A save that was opened, and what was passed over to find it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedSave {
    /// The world, checked.
    pub snapshot: Snapshot,
    /// Which save it is.
    pub info: SaveInfo,
    /// What became of the journal of the save, if it has one.
    pub journal: Option<JournalReplay>,
    /// Newer saves that could not be read, newest first. If there are any, this is not what the player saved last.
    pub skipped: Vec<SkippedSave>,
}

/// A damaged save that a load passed over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkippedSave {
    /// The slot it is in.
    pub slot: String,
    /// Its number.
    pub generation: u64,
    /// The error that reading it met.
    pub reason: Error,
}

impl fmt::Display for SkippedSave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "save {} of `{}` was passed over: {}", self.generation, self.slot, self.reason)
    }
}

impl Slots {
    /// Opens the newest save of a slot that is not locked. Where that one is damaged, the newest good one of the others is
    /// taken, locked or not: [`LoadedSave::skipped`] says which were passed over and why.
    pub async fn load(&self, slot: &str) -> Result<LoadedSave> {
        self.load_with(slot, &self.open_options()).await
    }

    /// The same with a choice of how bytes are opened. With [`salvage`](OpenOptions::salvage) a damaged save is not
    /// passed over as long as anything can be got out of it.
    pub async fn load_with(&self, slot: &str, options: &OpenOptions<'_>) -> Result<LoadedSave> {
        self.load_reporting(slot, options, &ProgressReporter::default()).await
    }

    /// [`load_with`](Self::load_with), which reports its progress.
    pub(crate) async fn load_reporting(
        &self,
        slot: &str,
        options: &OpenOptions<'_>,
        reporter: &ProgressReporter,
    ) -> Result<LoadedSave> {
        for _ in 0..RETRIES {
            let mut saves = self.saves_of(slot).await?;
            saves.retain(|save| save.kind != SaveKind::Recovery);
            // First the newest that is not locked. If it is damaged, the newest of all others.
            saves.sort_by_key(|save| (save.kind, Reverse(save.generation)));
            if let Some((_, others)) = saves.split_first_mut() {
                others.sort_by_key(|save| Reverse(save.generation));
            }
            let mut skipped = Vec::new();
            let mut vanished = false;
            for save in &saves {
                match self.open_reporting(save, options, reporter).await {
                    Ok((snapshot, info, journal)) => {
                        return Ok(LoadedSave { snapshot, info, journal, skipped });
                    }
                    // Pruned, locked or renamed since the slot was listed.
                    Err(error) if error.is_not_found() => vanished = true,
                    Err(reason) if reason.is_corrupt() => {
                        self.damaged().insert(save.to_string());
                        skipped.push(SkippedSave {
                            slot: slot.to_owned(),
                            generation: save.generation,
                            reason,
                        });
                    }
                    // The saves before a damaged one are older than what was there.
                    Err(error) if error.is_rollback() && !skipped.is_empty() => {}
                    Err(error) => return Err(self.in_slot(error, slot)),
                }
            }
            match skipped.first() {
                _ if vanished => {}
                Some(SkippedSave { reason, .. }) if skipped.len() == 1 => {
                    return Err(self.in_slot(reason.clone(), slot));
                }
                Some(SkippedSave { reason, .. }) => {
                    let all = skipped.len();
                    let message = format!("all {all} saves are damaged, the newest: {reason}");
                    return Err(self.in_slot(Error::corrupt(message), slot));
                }
                None => return Err(self.missing_slot(slot)),
            }
        }
        Err(self.in_slot(Error::conflict("the slot changes faster than it can be read"), slot))
    }

    /// Opens one save, by its number.
    pub async fn load_generation(
        &self,
        slot: &str,
        generation: u64,
        options: &OpenOptions<'_>,
    ) -> Result<LoadedSave> {
        let (snapshot, info, journal) = self.open(&self.find(slot, generation).await?, options).await?;
        Ok(LoadedSave { snapshot, info, journal, skipped: Vec::new() })
    }

    pub(super) async fn open(
        &self,
        save: &SaveName,
        options: &OpenOptions<'_>,
    ) -> Result<(Snapshot, SaveInfo, Option<JournalReplay>)> {
        self.open_reporting(save, options, &ProgressReporter::default()).await
    }

    /// Opens a save with its journal. Errors name its file.
    async fn open_reporting(
        &self,
        save: &SaveName,
        options: &OpenOptions<'_>,
        reporter: &ProgressReporter,
    ) -> Result<(Snapshot, SaveInfo, Option<JournalReplay>)> {
        let opened = self.open_with_journal(save, options, reporter).await;
        opened.map_err(|error| in_store(error, &*self.store, &save.to_string()))
    }

    async fn open_with_journal(
        &self,
        save: &SaveName,
        options: &OpenOptions<'_>,
        reporter: &ProgressReporter,
    ) -> Result<(Snapshot, SaveInfo, Option<JournalReplay>)> {
        reporter.set(Progress::new(Phase::Reading, 0, 0));
        let (bytes, info) = self.read_within(save, options).await?;
        reporter.set(Progress::new(Phase::Checking, 0, bytes.len() as u64));
        let snapshot = options.open_in_slices(bytes.clone(), &mut self.slices()).await?;
        let (snapshot, journal) = self.replay_journal(save, snapshot, &bytes, options).await?;
        Ok((snapshot, info, journal))
    }

    pub(super) async fn read(&self, save: &SaveName) -> Result<(Bytes, SaveInfo)> {
        self.read_within(save, &self.open_options()).await
    }

    async fn read_within(&self, save: &SaveName, options: &OpenOptions<'_>) -> Result<(Bytes, SaveInfo)> {
        let name = save.to_string();
        let info = self.info(save).await?.ok_or_else(|| missing(&name))?;
        if info.bytes > options.file_bytes_max() {
            // A file that has become longer than it says is damaged, and not too large.
            if let Some(problem) = info.problem.filter(Error::is_corrupt) {
                return Err(problem);
            }
            return Err(Error::limit(format!(
                "`{name}` has {} bytes, more than the limits allow",
                info.bytes
            )));
        }
        let bytes = self.store.get(&name).await?;
        refuse_sealed(&name, &bytes)?;
        Ok((bytes, info))
    }
}
