//! Journals: deltas that are appended beside a save, so that saving every second costs what has changed.
//!
//! | file | what |
//! |---|---|
//! | `format` | the bytes of the head and of a record: FORMAT.md, "Journals" |
//! | `chain` | what a record must say of the one before it, for who writes |
//! | `scan` | all records that are whole and follow each other, for who reads |
//! | `replay` | a save and its records to the world of the last one |
//! | `report` | what came of it, for people |
//!
//! Nothing here touches a store: what is read and written, and under which names, is the business of `slots/journal`.
//!
//! Invariants: a record is used only if it, and all before it, are whole and follow each other, from the one save that the
//! head names. What comes behind the first that is not is never used, and always reported. A journal is continued only by
//! who began it, and not after anything has failed.

mod chain;
mod format;
mod replay;
mod report;
mod scan;

pub(crate) use self::chain::{Chain, Entry};
pub use self::format::is_journal;
pub(crate) use self::format::{
    Base, HEAD_BYTES, JournalHead, RECORD_HEADER_BYTES, RecordHeader, TRAILER_BYTES,
};
pub(crate) use self::replay::replay;
pub use self::report::{AppendReport, Compaction, JournalBase, JournalInfo, JournalReplay, LostDelta};
pub(crate) use self::scan::{Scan, count, scan};

/// More records than this are neither written nor read: at one per second a journal of 18 hours, which nobody wants to wait
/// for when it is loaded.
pub(crate) const RECORDS_MAX: u64 = 1 << 16;
