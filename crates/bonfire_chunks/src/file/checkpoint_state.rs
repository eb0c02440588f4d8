//! The state of checkpoints: what header, table and side index in the file say, and which changes they lack.

use std::collections::BTreeSet;

use super::recover::{Recovered, Repair};
use super::side_index::SideIndexChain;
use crate::ChunkPos;
use crate::format::{FrameKey, FrameKind, FramePlace, Header};

/// Entries behind the last checkpoint that are never worth a checkpoint.
const TAIL_ENTRIES_MIN: u64 = 4096;
/// Bytes behind the last checkpoint that opening can replay without anybody noticing.
const TAIL_BYTES_MAX: u64 = 64 << 20;

/// The last checkpoint of a file, and the changes since then.
pub(super) struct CheckpointState {
    /// The header that is in the file.
    pub(super) header: Header,
    /// Entries of the table that are not in its place yet.
    pub(super) table: TableChanges,
    /// The side indices that the next one continues. `None`: the next one must list everything.
    pub(super) side: Option<SideIndexChain>,
    /// Keys that changed since the newest side index.
    pub(super) side_changes: BTreeSet<FrameKey>,
    /// Where the saves after the checkpoint begin.
    tail_start: u64,
    /// Entries of the saves after the checkpoint.
    tail_entries: u64,
}

/// Entries of the page table that are not in its place yet.
pub(super) enum TableChanges {
    Some(BTreeSet<ChunkPos>),
    All,
}

impl CheckpointState {
    /// The state after a file was opened.
    pub(super) fn recovered(header: Header, recovered: &Recovered) -> Self {
        let mut state = Self {
            header,
            table: TableChanges::Some(BTreeSet::new()),
            side: recovered.side,
            side_changes: BTreeSet::new(),
            tail_start: recovered.tail_start,
            tail_entries: recovered.tail_entries,
        };
        if recovered.repair != Repair::Nothing {
            state.mark_all_changed();
        }
        state
    }

    /// The state after a checkpoint was written, to the same file or to a new one.
    pub(super) fn written(header: Header, side: SideIndexChain, tail_start: u64) -> Self {
        Self {
            header,
            table: TableChanges::Some(BTreeSet::new()),
            side: Some(side),
            side_changes: BTreeSet::new(),
            tail_start,
            tail_entries: 0,
        }
    }

    /// Notes the entries of a commit.
    pub(super) fn note_commit(&mut self, entries: &[(FrameKey, FramePlace)]) {
        self.tail_entries += entries.len() as u64;
        for (key, _) in entries {
            if key.kind != FrameKind::Chunk {
                self.side_changes.insert(*key);
            } else if let TableChanges::Some(changes) = &mut self.table {
                changes.insert(key.pos);
            }
        }
    }

    /// Makes the next checkpoint write the whole table.
    pub(super) fn mark_table_changed(&mut self) {
        self.table = TableChanges::All;
    }

    /// Makes the next checkpoint write the whole table and a side index of everything.
    pub(super) fn mark_all_changed(&mut self) {
        self.mark_table_changed();
        self.side = None;
    }

    /// Returns true if the next checkpoint must write the whole table.
    pub(super) fn is_table_changed(&self) -> bool {
        matches!(self.table, TableChanges::All)
    }

    /// Returns true if the next checkpoint writes single entries of the table and continues the side indices.
    pub(super) fn is_incremental(&self) -> bool {
        !self.is_table_changed() && self.side.is_some()
    }

    /// Returns true if the checkpoint has every save.
    pub(super) fn is_clean(&self) -> bool {
        let is_table_clean = match &self.table {
            TableChanges::Some(changes) => changes.is_empty(),
            TableChanges::All => false,
        };
        is_table_clean && self.side_changes.is_empty() && self.tail_entries == 0 && self.side.is_some()
    }

    /// Returns true if opening would have to replay more than it should. `end` is where the last save ends.
    pub(super) fn is_tail_long(&self, end: u64) -> bool {
        let table = u64::from(self.header.count);
        self.tail_entries > TAIL_ENTRIES_MIN.max(table / 8) || end - self.tail_start > TAIL_BYTES_MAX
    }
}
