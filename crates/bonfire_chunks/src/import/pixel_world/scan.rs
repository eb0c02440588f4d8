//! Searches bytes that nothing refers to for payloads, records and entries.
//!
//! Everything found decompresses to exactly what it should be. At most as much is decompressed in vain as
//! [`WASTE_RATIO_MAX`] says; then the search ends, because somebody made the file for that.

use std::sync::Arc;

use bonfire::Result;

use super::layout::{ENTRY_BYTES, Entry, HEADER_BYTES, INDEX_ENTRY_BYTES, IndexEntry, PREFIX_BYTES, field};
use super::world_bytes::{ReadWindow, WorldBytes};
use super::{PIXEL_SIZE, PixelPayload, PixelStorage, payload};
use crate::body::{BodyLimits, Checksum, RecordHeader, decode_record_with};

/// How many bytes may be decompressed in vain, for each byte of the file.
const WASTE_RATIO_MAX: u64 = 16;
/// The same for any file.
const WASTE_BYTES_MIN: u64 = 64 << 20;
/// A header, and the raw size of the cells behind it.
const RECORD_START_BYTES: usize = 68;

/// The finds of a search, in the order of the file.
#[derive(Default)]
pub(super) struct SearchResult {
    pub(super) payloads: Vec<PixelPayload>,
    pub(super) bodies: Vec<IndexEntry>,
    /// What is neither.
    pub(super) gaps: Vec<(u64, u64)>,
    /// Where the search gave up.
    pub(super) stopped: Option<u64>,
}

/// Searches some ranges of a file.
pub(super) fn search(source: &Arc<WorldBytes>, ranges: &[(u64, u64)]) -> Result<SearchResult> {
    let mut scanner = Scanner {
        source,
        window: ReadWindow::new(source),
        scratch: Vec::new(),
        waste_left: source.len().saturating_mul(WASTE_RATIO_MAX).saturating_add(WASTE_BYTES_MIN),
        found: SearchResult::default(),
    };
    for range in ranges {
        scanner.range(*range)?;
    }
    Ok(scanner.found)
}

struct Scanner<'s> {
    source: &'s Arc<WorldBytes>,
    window: ReadWindow<'s>,
    scratch: Vec<u8>,
    waste_left: u64,
    found: SearchResult,
}

enum Item {
    Payload(PixelPayload),
    Body(IndexEntry),
}

impl Item {
    fn end(&self) -> u64 {
        match self {
            Self::Payload(payload) => payload.offset() + u64::from(payload.stored_bytes()),
            Self::Body(entry) => entry.offset + u64::from(entry.len),
        }
    }
}

impl Scanner<'_> {
    fn range(&mut self, (start, end): (u64, u64)) -> Result<()> {
        let mut at = start;
        let mut gap = start;
        while at < end && self.found.stopped.is_none() {
            let item = match self.item(at, end)? {
                // Without a gap in front, what is here begins here.
                None if gap == at => self.empty(at, end)?,
                item => item,
            };
            let Some(item) = item else {
                at += 1;
                continue;
            };
            if gap < at {
                self.found.gaps.push((gap, at));
            }
            (at, gap) = (item.end(), item.end());
            match item {
                Item::Payload(payload) => self.found.payloads.push(payload),
                Item::Body(entry) => self.found.bodies.push(entry),
            }
        }
        if gap < end {
            self.found.gaps.push((gap, end));
        }
        Ok(())
    }

    fn item(&mut self, at: u64, end: u64) -> Result<Option<Item>> {
        match self.payload(at, end)? {
            None => self.body(at, end),
            found => Ok(found),
        }
    }

    /// A payload, with its size in front.
    fn payload(&mut self, at: u64, end: u64) -> Result<Option<Item>> {
        let Some(start) = self.window.get::<8>(at)? else { return Ok(None) };
        let (len, size) = (u32::from_le_bytes(field(start, 0)), field(start, 4));
        let offset = at + PREFIX_BYTES;
        if u64::from(len) > end.saturating_sub(offset) || !payload::may_begin_with(len, size) {
            return Ok(None);
        }
        let Some(stored) = self.source.read(offset, len.into())? else { return Ok(None) };
        let Some(storage) = payload::storage_of(&stored, &mut self.scratch) else {
            self.wasted(at, u64::from(u32::from_le_bytes(size)) + u64::from(len));
            return Ok(None);
        };
        let payload = PixelPayload::checked(self.source, offset, len, storage, &mut self.scratch);
        Ok(payload.ok().map(Item::Payload))
    }

    /// A chunk that is stored as nothing, if something else that is known follows: four bytes 0 alone say little.
    fn empty(&mut self, at: u64, end: u64) -> Result<Option<Item>> {
        let behind = at + PREFIX_BYTES;
        if behind > end || self.window.get(at)? != Some(&[0; 4]) {
            return Ok(None);
        }
        if behind < end && self.item(behind, end)?.is_none() {
            return Ok(None);
        }
        let payload = PixelPayload::checked(self.source, behind, 0, PixelStorage::Empty, &mut self.scratch);
        Ok(payload.ok().map(Item::Payload))
    }

    fn body(&mut self, at: u64, end: u64) -> Result<Option<Item>> {
        let Some(start) = self.window.get::<RECORD_START_BYTES>(at)? else { return Ok(None) };
        let Some(header) = RecordHeader::at(start) else { return Ok(None) };
        let limits = BodyLimits::default();
        let cells =
            header.cells_bytes(PIXEL_SIZE.into()).filter(|cells| (1..=limits.body_bytes_max).contains(cells));
        let len = u32::try_from(header.record_bytes()).ok().filter(|len| u64::from(*len) <= end - at);
        let (Some(cells), Some(len)) = (cells, len) else { return Ok(None) };
        let size = u32::from_le_bytes(field(start, 64));
        if cells != u64::from(size) || !header.checksum_holds(Checksum::PixelWorld) {
            return Ok(None);
        }
        let id = header.id();
        let Some(record) = self.source.read(at, len.into())? else { return Ok(None) };
        let body = decode_record_with(&record, PIXEL_SIZE.into(), limits, Checksum::PixelWorld);
        if body.is_err() {
            self.wasted(at, cells + u64::from(len));
        }
        Ok(body.ok().map(|_| Item::Body(IndexEntry { id, offset: at, len })))
    }

    fn wasted(&mut self, at: u64, bytes: u64) {
        match self.waste_left.checked_sub(bytes) {
            Some(left) => self.waste_left = left,
            None => self.found.stopped = Some(at),
        }
    }
}

/// Entries of a page table anywhere in these ranges whose checksum holds and that `wanted` takes, with their offsets.
pub(super) fn find_entries(
    source: &WorldBytes,
    ranges: &[(u64, u64)],
    wanted: impl Fn(&Entry) -> bool,
) -> Result<Vec<(u64, Entry)>> {
    let mut window = ReadWindow::new(source);
    let mut found = Vec::new();
    for (start, end) in ranges {
        for at in *start..(end + 1).saturating_sub(ENTRY_BYTES).max(*start) {
            let Some(bytes) = window.get(at)? else { break };
            // The cheapest first: this looks at every byte.
            let entry =
                Entry::parse_unchecked(bytes).filter(|entry| entry.offset > HEADER_BYTES && wanted(entry));
            found.extend(entry.and_then(|_| Entry::parse(bytes)).map(|entry| (at, entry)));
        }
    }
    Ok(found)
}

/// Entries of an index of bodies anywhere in these ranges that `wanted` takes, with their offsets.
pub(super) fn find_index_entries(
    source: &WorldBytes,
    ranges: &[(u64, u64)],
    wanted: impl Fn(&IndexEntry) -> bool,
) -> Result<Vec<(u64, IndexEntry)>> {
    let mut window = ReadWindow::new(source);
    let mut found = Vec::new();
    for (start, end) in ranges {
        for at in *start..(end + 1).saturating_sub(INDEX_ENTRY_BYTES).max(*start) {
            let Some(bytes) = window.get(at)? else { break };
            found.extend(Some((at, IndexEntry::parse(bytes))).filter(|(_, entry)| wanted(entry)));
        }
    }
    Ok(found)
}
