//! The page table, as it lies in a file that may be damaged.

use bonfire::Result;

use super::frame_scanner::FrameScanner;
use crate::ChunkPos;
use crate::format::{Entry, HEADER_BYTES, Header, SIZE_BYTES};

/// The page table, as it lies in its place.
#[derive(Default)]
pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
    pub(super) bad: Vec<DamagedEntry>,
}

/// An entry that is damaged: its chunk lies between those of its neighbours.
pub(super) struct DamagedEntry {
    pub(super) raw: Entry,
    after: Option<ChunkPos>,
    before: Option<ChunkPos>,
}

impl DamagedEntry {
    pub(super) fn may_be(&self, pos: ChunkPos) -> bool {
        self.after.is_none_or(|after| after < pos) && self.before.is_none_or(|before| pos < before)
    }
}

impl Table {
    pub(super) fn read(scanner: &FrameScanner<'_>, header: &Header) -> Result<Self> {
        let entry_bytes = header.version.entry_bytes();
        let wanted = u64::from(header.count) * entry_bytes as u64;
        let here = wanted.min(scanner.len().saturating_sub(HEADER_BYTES));
        let mut bytes = scanner.read(HEADER_BYTES, here)?;
        scanner.step(u64::from(header.count))?;
        bytes.resize(usize::try_from(wanted).unwrap_or(usize::MAX), 0);
        let mut table = Self { entries: Vec::with_capacity(header.count as usize), bad: Vec::new() };
        let first_offset = header.data_start + SIZE_BYTES;
        let mut is_in_order = true;
        for (entry, is_right) in bytes.chunks_exact(entry_bytes).filter_map(Entry::decode) {
            let last = table.entries.last().map(|last| last.pos);
            if is_right && entry.place.offset >= first_offset && last.is_none_or(|last| last < entry.pos) {
                let open =
                    table.bad.iter_mut().rev().take_while(|bad| bad.before.is_none() && bad.after == last);
                open.for_each(|bad| bad.before = Some(entry.pos));
                table.entries.push(entry);
            } else {
                is_in_order &= !is_right || last.is_none_or(|last| last < entry.pos);
                table.bad.push(DamagedEntry { raw: entry, after: last, before: None });
            }
        }
        if !is_in_order {
            // Neighbours tell nothing.
            table.bad.iter_mut().for_each(|bad| (bad.after, bad.before) = (None, None));
        }
        Ok(table)
    }

    /// Returns true if a damaged entry may be that of this chunk. They are in the order of the table, and so are the gaps they lie in.
    pub(super) fn may_have_lost(&self, pos: ChunkPos) -> bool {
        let first = self.bad.partition_point(|bad| bad.before.is_some_and(|before| before <= pos));
        self.bad.get(first).is_some_and(|bad| bad.may_be(pos))
    }
}
