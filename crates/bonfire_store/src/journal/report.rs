//! The reports about journals that callers get.

use std::fmt;
use std::time::Duration;

use bonfire::Error;

/// A save that deltas may be appended to: which one, and at which tick the world was when it was captured. The first delta
/// begins there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalBase {
    /// The slot of the save.
    pub slot: String,
    /// The number of the save in its slot: [`SaveReport::generation`](crate::SaveReport::generation).
    pub generation: u64,
    /// The tick of the capture, counted as the deltas count.
    pub tick: u64,
}

impl JournalBase {
    /// A save that this process has made.
    pub fn new(slot: impl Into<String>, generation: u64, tick: u64) -> Self {
        Self { slot: slot.into(), generation, tick }
    }
}

/// The report of a delta that was appended to the journal of a save. The delta is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendReport {
    /// The slot of the save.
    pub slot: String,
    /// The number of the save in its slot.
    pub generation: u64,
    /// Which delta of the journal this is, from 1.
    pub record: u64,
    /// The tick that a load now leads to.
    pub now: u64,
    /// How many bytes were written.
    pub bytes: u64,
    /// How many bytes the journal has.
    pub journal_bytes: u64,
    /// The journal is large enough: save the world as a whole next time, which begins a new one. See [`Compaction`].
    pub full_save_due: bool,
}

/// When a journal is large enough that the next save should be one of the whole world.
///
/// ```
/// # use bonfire_store::Compaction;
/// let compaction = Compaction::default().records(300).percent(100);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    records: u64,
    percent: u64,
}

/// A journal of a small world is not written anew for a few bytes.
const JOURNAL_BYTES_MIN: u64 = 64 << 10;

impl Default for Compaction {
    /// 600 deltas, or half of the bytes of the save and at least 64 KiB.
    fn default() -> Self {
        Self { records: 600, percent: 50 }
    }
}

impl Compaction {
    /// At so many deltas.
    pub const fn records(mut self, records: u64) -> Self {
        self.records = records;
        self
    }
    /// When the journal has so many percent of the bytes of its save, and at least 64 KiB.
    pub const fn percent(mut self, percent: u64) -> Self {
        self.percent = percent;
        self
    }
    pub(crate) fn is_due(&self, records: u64, bytes: u64, base_bytes: u64) -> bool {
        let part = (u128::from(base_bytes) * u128::from(self.percent) / 100).max(JOURNAL_BYTES_MIN.into());
        records >= self.records || u128::from(bytes) >= part
    }
}

/// What a list of saves tells of a journal: its last delta, unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalInfo {
    /// How many deltas it has.
    pub records: u64,
    /// The tick that they lead to.
    pub now: u64,
    /// When the last one was appended: time since the start of 1970, UTC.
    pub saved_at: Option<Duration>,
    /// Its place among all saves and appends of the store.
    pub(crate) order: u64,
}

/// The part of a journal that a load has used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JournalReplay {
    /// How many deltas are part of what was loaded.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The tick that the loaded world is at, counted as the deltas count; `None` if the journal does not say.
    pub now: Option<u64>,
    /// When the last of them was appended: time since the start of 1970, UTC.
    pub saved_at: Option<Duration>,
    /// The first delta that could not be used. A crash in the middle of an append leaves such a [tail](LostDelta::is_tail);
    /// then nothing is missing that was acknowledged.
    pub lost: Option<LostDelta>,
}

/// The first delta of a journal that is damaged or missing. Those behind it are of no use without it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostDelta {
    /// Its number in the journal, from 1.
    pub record: u64,
    /// The error that its use met.
    pub reason: Error,
    /// The number of deltas behind it, which are lost with it.
    pub later: u64,
    /// The journal is not of this save.
    foreign: bool,
}

impl LostDelta {
    pub(crate) fn new(record: u64, reason: &Error, later: u64) -> Self {
        Self { record, reason: reason.clone(), later, foreign: false }
    }

    /// All of a journal that belongs to another save.
    pub(crate) fn foreign(records: u64) -> Self {
        let reason = Error::corrupt("the journal belongs to another save than the one that is here");
        Self { record: 1, reason, later: records.saturating_sub(1), foreign: true }
    }

    /// Whether nothing follows it: what an append leaves that was cut short by a crash or an error, and that nobody was
    /// told was safe. Damage of the very last delta cannot be told from it.
    pub fn is_tail(&self) -> bool {
        self.later == 0 && !self.foreign
    }
}

impl fmt::Display for LostDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delta {} of the journal is lost: {}", self.record, self.reason)?;
        match self.later {
            0 => Ok(()),
            later => write!(f, "; so are the {later} that follow"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_large_by_its_records_or_against_its_save() {
        let compaction = Compaction::default().records(10).percent(50);
        assert!(compaction.is_due(10, 0, 1 << 20) && !compaction.is_due(9, 0, 1 << 20));
        assert!(compaction.is_due(1, 1 << 19, 1 << 20) && !compaction.is_due(1, (1 << 19) - 1, 1 << 20));
        assert!(!compaction.is_due(1, JOURNAL_BYTES_MIN - 1, 10), "a small save is no reason");
        assert!(compaction.is_due(1, JOURNAL_BYTES_MIN, 10));
        assert!(!compaction.percent(u64::MAX).is_due(1, u64::MAX, u64::MAX), "no overflow");
    }
}
