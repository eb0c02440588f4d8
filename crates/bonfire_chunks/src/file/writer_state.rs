//! The state that only the writer of a file has.

use std::collections::BTreeSet;

use bonfire::{Error, Result};
use bonfire_store::disk::{DiskFile, DiskLock};

use super::recover::{Recovered, Repair};
use crate::ChunkPos;
use crate::format::{FrameKey, FrameKind, FramePlace, Header};

/// The state that only the writer of a file has.
pub(super) struct WriterState {
    _lock: DiskLock,
    /// The header that is in the file.
    pub(super) header: Header,
    pub(super) end: u64,
    /// Of the last save that a sync has covered.
    pub(super) durable: u64,
    pub(super) tail_start: u64,
    pub(super) tail_entries: u64,
    /// Entries of the table that are not in its place yet.
    pub(super) table: TableDirt,
    /// What changed since the last side index.
    pub(super) side_dirty: BTreeSet<FrameKey>,
    /// Where the last side index is, and how many entries it and those before it have. `None`: all must be written.
    pub(super) side: Option<(u64, u64)>,
    pub(super) poisoned: bool,
    /// Memory that the next save uses again.
    pub(super) buffer: Vec<u8>,
}

pub(super) enum TableDirt {
    Some(BTreeSet<ChunkPos>),
    All,
}

impl WriterState {
    pub(super) fn new(lock: DiskLock, header: Header, recovered: &Recovered) -> Self {
        Self {
            _lock: lock,
            header,
            end: recovered.end,
            durable: recovered.generation,
            tail_start: recovered.tail_start,
            tail_entries: recovered.tail_entries,
            table: if recovered.repair == Repair::Nothing {
                TableDirt::Some(BTreeSet::new())
            } else {
                TableDirt::All
            },
            side_dirty: BTreeSet::new(),
            side: recovered.side.filter(|_| recovered.repair == Repair::Nothing),
            poisoned: false,
            buffer: Vec::new(),
        }
    }

    /// Goes on in a file that was written just now.
    pub(super) fn move_to(
        &mut self,
        header: Header,
        end: u64,
        tail_start: u64,
        generation: u64,
        side: (u64, u64),
    ) {
        (self.header, self.end, self.tail_start, self.durable) = (header, end, tail_start, generation);
        (self.tail_entries, self.table, self.side) = (0, TableDirt::Some(BTreeSet::new()), Some(side));
        self.side_dirty.clear();
    }

    pub(super) fn poison(&mut self) {
        self.poisoned = true;
    }

    pub(super) fn needs_image(&self) -> bool {
        matches!(self.table, TableDirt::All)
    }

    /// A sync that fails leaves nobody knowing what the disk has: nothing more is written through this file.
    pub(super) fn sync(&mut self, file: &dyn DiskFile, name: &str) -> Result<()> {
        file.sync().map_err(|error| {
            self.poisoned = true;
            Error::io(format_args!("cannot make `{name}` durable; open it again to go on"), error)
        })
    }

    pub(super) fn is_checkpointed(&self) -> bool {
        let table_is_clean = match &self.table {
            TableDirt::Some(dirty) => dirty.is_empty(),
            TableDirt::All => false,
        };
        table_is_clean && self.side_dirty.is_empty() && self.tail_entries == 0 && self.side.is_some()
    }

    /// Notes what a save has changed.
    pub(super) fn note(&mut self, entries: &[(FrameKey, FramePlace)]) {
        self.tail_entries += entries.len() as u64;
        self.side_dirty
            .extend(entries.iter().map(|(key, _)| *key).filter(|key| key.kind != FrameKind::Chunk));
    }
}
