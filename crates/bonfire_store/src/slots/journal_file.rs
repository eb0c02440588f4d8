//! Journals for tools, which have files and no slots.

use std::time::Duration;

use bonfire::{Error, OpenOptions, Result, Snapshot};
use bytes::Bytes;

use super::Slots;
use super::journal::time_of;
use crate::journal::{Base, JournalReplay, LostDelta, scan};
use crate::save_name::{JournalName, SaveKind, SaveName};

/// The facts that the file of a journal tells without its save.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JournalFile {
    /// The number of deltas that are whole and follow each other.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The tick that they lead to, counted as the deltas count.
    pub now: u64,
    /// The time of the last append, since the start of 1970, UTC.
    pub saved_at: Option<Duration>,
    /// The first delta that cannot be used.
    pub lost: Option<LostDelta>,
    base: Base,
}

impl JournalFile {
    /// Reads a journal. A damaged delta is no error but [`lost`](Self::lost). A damaged head is an error.
    pub fn open(bytes: &Bytes) -> Result<Self> {
        let scan = scan(bytes)?;
        let last = scan.records.last();
        Ok(Self {
            records: scan.records.len() as u64,
            bytes: scan.records.iter().map(|record| record.bytes).sum(),
            now: last.map_or(scan.head.tick, |record| record.now),
            saved_at: last.and_then(|record| time_of(record.time_ms)),
            lost: scan.lost,
            base: scan.head.base,
        })
    }

    /// Returns true if these are the bytes of the save that the journal continues.
    pub fn is_of(&self, save: &[u8]) -> bool {
        self.base == Base::of(save)
    }
}

/// The name of the journal of a save, by the name of the blob of the save. `None` if a save of that name has none.
pub fn journal_name(save: &str) -> Option<String> {
    let save = SaveName::parse(save).filter(|save| save.kind != SaveKind::Value)?;
    Some(save.journal().to_string())
}

/// The names that the save of a journal may have, by the name of the journal or of one of its records. `None` if no
/// journal has that name.
pub fn saves_of_journal(journal: &str) -> Option<Vec<String>> {
    let JournalName { profile, slot, generation, .. } = JournalName::parse(journal)?;
    let kinds = [SaveKind::Free, SaveKind::Locked, SaveKind::Recovery];
    Some(kinds.map(|kind| SaveName::new(profile.as_deref(), &slot, generation, kind).to_string()).into())
}

/// Applies the journal of a save to it, as a load does. `blob` is the name of the save in the store of `slots`, `save`
/// the bytes that `snapshot` was opened from.
pub async fn replay_journal(
    slots: &Slots,
    blob: &str,
    snapshot: Snapshot,
    save: &[u8],
    options: &OpenOptions<'_>,
) -> Result<(Snapshot, Option<JournalReplay>)> {
    let name =
        SaveName::parse(blob).ok_or_else(|| Error::misuse(format!("`{blob}` is no name of a save")))?;
    slots.replay_journal(&name, snapshot, save, options).await
}
