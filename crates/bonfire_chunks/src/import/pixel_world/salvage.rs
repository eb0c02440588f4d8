//! Worlds that are damaged: what is left of them, with proof (see the module above).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bonfire::{Error, Result};

use super::layout::{
    ENTRY_BYTES, Entry, HEADER_BYTES, Header, INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, IndexEntry, field,
};
use super::repair::{self, NeighbourEntries, REPAIRS_MAX};
use super::scan::{self, SearchResult};
use super::strict::{self, Bodies, in_file};
use super::world_bytes::{ReadWindow, WorldBytes};
use super::{PixelChunk, PixelPayload, PixelWorld, RepairedPart, SkippedPart};
use crate::{BodyId, ChunkPos};

/// What is left of a world that was refused because of `damage`.
pub(super) fn read(source: &Arc<WorldBytes>, damage: Error) -> Result<PixelWorld> {
    let header = match strict::header(source) {
        Err(error) if error.is_io() => return Err(error),
        Err(_) => return Err(damage),
        Ok(header) => header,
    };
    let mut salvage = Salvage {
        source,
        world: strict::world(&header),
        places_hold: header.check_places(source.len()).is_ok(),
        expected: header.chunks_expected(source.len()),
        header,
        claims: ClaimedRanges::default(),
        slots: Vec::new(),
        outliers: HashSet::new(),
        damaged_chunks: HashSet::new(),
        bodies: Bodies::default(),
        listed: HashSet::new(),
        lost_bodies: Vec::new(),
        index_is_whole: false,
        scratch: Vec::new(),
    };
    salvage.table()?;
    salvage.index()?;
    if !salvage.has_all() {
        salvage.search()?;
    }
    salvage.finish(damage)
}

/// Ranges of the file that belong to something; no two overlap.
#[derive(Default)]
struct ClaimedRanges(BTreeMap<u64, u64>);

impl ClaimedRanges {
    /// Takes a range, unless a part of it is taken.
    fn take(&mut self, (start, end): (u64, u64)) -> bool {
        let before = self.0.range(..end).next_back();
        let free = before.is_none_or(|(_, taken_end)| *taken_end <= start);
        if free && start < end {
            self.0.insert(start, end);
        }
        free
    }

    /// The ranges between a place and the end that nobody has.
    fn gaps(&self, mut at: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        for (taken, taken_end) in &self.0 {
            if at < *taken {
                gaps.push((at, *taken));
            }
            at = *taken_end;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }
}

struct Salvage<'s> {
    source: &'s Arc<WorldBytes>,
    header: Header,
    world: PixelWorld,
    /// Whether the header can be right about where things are.
    places_hold: bool,
    /// How many chunks there should be.
    expected: u64,
    claims: ClaimedRanges,
    /// The page table where the header has it; `None` for damaged entries.
    slots: Vec<Option<Entry>>,
    /// Where entries are that cannot be believed, because they break the order of the table.
    outliers: HashSet<u64>,
    /// Chunks that have an entry and no payload. Older versions of them do not take their places.
    damaged_chunks: HashSet<ChunkPos>,
    bodies: Bodies,
    /// The ids of all bodies that were read.
    listed: HashSet<BodyId>,
    lost_bodies: Vec<(IndexEntry, String)>,
    index_is_whole: bool,
    scratch: Vec<u8>,
}

impl Salvage<'_> {
    fn slot_at(&self, slot: usize) -> u64 {
        self.header.table_at + slot as u64 * ENTRY_BYTES
    }

    /// The chunks of the page table, as far as it is where the header has it.
    fn table(&mut self) -> Result<()> {
        let mut window = ReadWindow::new(self.source);
        let mut at = self.header.table_at.max(HEADER_BYTES);
        if at == self.header.table_at {
            while (self.slots.len() as u64) < self.expected {
                let Some(bytes) = window.get(at)? else { break };
                self.slots
                    .push(Entry::parse(bytes).filter(|entry| in_file(entry.range(), self.source).is_some()));
                at += ENTRY_BYTES;
            }
        }
        for slot in repair::out_of_order(&self.slots).unwrap_or_default() {
            self.slots[slot] = None;
            self.outliers.insert(self.slot_at(slot));
        }
        let mut taken = HashSet::new();
        for slot in 0..self.slots.len() {
            let Some(entry) = self.slots[slot] else { continue };
            let at = self.slot_at(slot);
            match self.payload(entry, &mut taken) {
                Ok(payload) => {
                    self.claims.take((at, at + ENTRY_BYTES));
                    self.world.chunks.push(PixelChunk { pos: entry.pos, payload });
                }
                Err(error) if error.is_io() => return Err(error),
                Err(error) => {
                    let (pos, offset) = (entry.pos, entry.offset);
                    self.damaged_chunks.insert(pos);
                    self.world.report.skipped.push(SkippedPart::Chunk {
                        pos,
                        offset,
                        reason: error.to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    fn payload(&mut self, entry: Entry, taken: &mut HashSet<ChunkPos>) -> Result<PixelPayload> {
        let Some(range) = entry.range() else { return Err(Error::corrupt("its payload is nowhere")) };
        if taken.contains(&entry.pos) {
            return Err(Error::corrupt("it is there twice"));
        }
        if !self.claims.take(range) {
            return Err(Error::corrupt("its payload overlaps another one"));
        }
        let payload =
            PixelPayload::checked(self.source, entry.offset, entry.len, entry.storage, &mut self.scratch);
        if payload.is_ok() {
            taken.insert(entry.pos);
        } else {
            // Something else may be there.
            self.claims.0.remove(&range.0);
        }
        payload
    }

    /// The bodies of the index, as far as it is where the header has it.
    fn index(&mut self) -> Result<()> {
        let index_at = self.header.index_at;
        if index_at == 0 {
            let table_end = self.header.table_at.checked_add(u64::from(self.header.table_bytes));
            self.index_is_whole = self.places_hold && table_end == Some(self.source.len());
            return Ok(());
        }
        let mut window = ReadWindow::new(self.source);
        let Some(head) = window.get::<8>(index_at)?.copied() else { return Ok(()) };
        let count = u32::from_le_bytes(field(&head, 0));
        let room = self.source.len() - index_at - INDEX_HEADER_BYTES;
        if index_at < HEADER_BYTES || head[4..] != [0; 4] || u64::from(count) * INDEX_ENTRY_BYTES > room {
            return Ok(());
        }
        self.claims.take((index_at, index_at + INDEX_HEADER_BYTES));
        for slot in 0..u64::from(count) {
            let at = index_at + INDEX_HEADER_BYTES + slot * INDEX_ENTRY_BYTES;
            let Some(bytes) = window.get(at)? else { break };
            let entry = IndexEntry::parse(bytes);
            match self.body(&entry) {
                Ok(id) => {
                    self.claims.take((at, at + INDEX_ENTRY_BYTES));
                    // The id of the record has a checksum, that of the index has none.
                    self.world.report.repaired.extend((id != entry.id).then_some(RepairedPart::Body { id }));
                }
                Err(error) if error.is_io() => return Err(error),
                Err(error) => self.lost_bodies.push((entry, error.to_string())),
            }
        }
        self.index_is_whole = self.lost_bodies.is_empty();
        Ok(())
    }

    /// Reads a body and takes it into the world.
    fn body(&mut self, entry: &IndexEntry) -> Result<BodyId> {
        let Some(range) = in_file(entry.range(), self.source) else {
            return Err(Error::corrupt("its record is not in the file"));
        };
        if !self.claims.take(range) {
            return Err(Error::corrupt("its record overlaps something else"));
        }
        let body = self.bodies.read(self.source, entry, self.world.chunk_size);
        let body = body.and_then(|body| {
            let is_new = self.listed.insert(body.id);
            is_new.then_some(body).ok_or_else(|| Error::corrupt("it is there twice"))
        });
        match body {
            Ok(body) => {
                let id = body.id;
                self.bodies.add(body, &mut self.world);
                Ok(id)
            }
            Err(error) => {
                self.claims.0.remove(&range.0);
                Err(error)
            }
        }
    }

    /// The places that are not free any more.
    fn taken(&self) -> HashSet<ChunkPos> {
        self.world.chunks.iter().map(|chunk| chunk.pos).chain(self.damaged_chunks.iter().copied()).collect()
    }

    fn chunks_lost(&self) -> u64 {
        self.expected.saturating_sub((self.world.chunks.len() + self.damaged_chunks.len()) as u64)
    }

    /// Whether nothing is left to search for.
    fn has_all(&self) -> bool {
        self.places_hold && self.index_is_whole && self.damaged_chunks.is_empty() && self.chunks_lost() == 0
    }

    fn search(&mut self) -> Result<()> {
        let ranges = self.claims.gaps(HEADER_BYTES, self.source.len());
        let mut found = scan::search(self.source, &ranges)?;
        self.world.report.skipped.extend(found.stopped.map(|at| SkippedPart::Search { at }));
        let mut payloads: HashMap<u64, PixelPayload> = std::mem::take(&mut found.payloads)
            .into_iter()
            .map(|payload| (payload.offset(), payload))
            .collect();
        self.place_by_entries_elsewhere(&found, &mut payloads)?;
        self.place_by_repair(&found, &mut payloads)?;
        if !self.places_hold || self.chunks_lost() > 0 {
            self.world.report.unplaced = payloads.into_values().collect();
            self.world.report.unplaced.sort_by_key(PixelPayload::offset);
        }
        self.find_bodies(&found)
    }

    fn place_by_entries_elsewhere(
        &mut self,
        found: &SearchResult,
        payloads: &mut HashMap<u64, PixelPayload>,
    ) -> Result<()> {
        let entries = scan::find_entries(self.source, &found.gaps, |entry| points_at(entry, payloads))?;
        let entries: Vec<_> = entries.into_iter().filter(|(at, _)| !self.outliers.contains(at)).collect();
        let taken = self.taken();
        let mut by_pos = HashMap::<ChunkPos, usize>::new();
        let mut by_offset = HashMap::<u64, usize>::new();
        for (_, entry) in &entries {
            *by_pos.entry(entry.pos).or_default() += 1;
            *by_offset.entry(entry.offset).or_default() += 1;
        }
        for (at, entry) in entries {
            // Two answers are none.
            if taken.contains(&entry.pos) || by_pos[&entry.pos] > 1 || by_offset[&entry.offset] > 1 {
                continue;
            }
            if let Some(payload) = payloads.remove(&entry.offset) {
                self.world.report.repaired.push(RepairedPart::EntryFound { pos: entry.pos, at });
                self.world.chunks.push(PixelChunk { pos: entry.pos, payload });
            }
        }
        Ok(())
    }

    fn place_by_repair(
        &mut self,
        found: &SearchResult,
        payloads: &mut HashMap<u64, PixelPayload>,
    ) -> Result<()> {
        // A table that is not sorted proves nothing.
        let is_sorted = repair::out_of_order(&self.slots).is_some_and(|outliers| outliers.is_empty());
        let damaged: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].is_none()).collect();
        if !is_sorted || damaged.len() > REPAIRS_MAX || payloads.is_empty() {
            return Ok(());
        }
        let mut taken = self.taken();
        let mut window = ReadWindow::new(self.source);
        for slot in damaged {
            let at = self.slot_at(slot);
            // Where a payload was written over the table, there is no entry.
            let is_overwritten =
                !found.gaps.iter().any(|(start, end)| *start <= at && at + ENTRY_BYTES <= *end);
            let Some(bytes) = window.get(at)?.filter(|_| !is_overwritten) else { continue };
            let fits = |entry: &Entry| !taken.contains(&entry.pos) && points_at(entry, payloads);
            let Some(entry) = repair::certain(bytes, NeighbourEntries::of(&self.slots, slot), fits) else {
                continue;
            };
            if let Some(payload) = payloads.remove(&entry.offset) {
                taken.insert(entry.pos);
                self.world.report.repaired.push(RepairedPart::EntryRepaired { pos: entry.pos, at });
                self.world.chunks.push(PixelChunk { pos: entry.pos, payload });
            }
        }
        Ok(())
    }

    /// Bodies that the index lists in vain, or whose index is elsewhere, or that nothing lists.
    fn find_bodies(&mut self, found: &SearchResult) -> Result<()> {
        let mut newest: HashMap<BodyId, IndexEntry> =
            found.bodies.iter().map(|entry| (entry.id, *entry)).collect();
        if !self.index_is_whole && !found.bodies.is_empty() {
            let records: HashMap<u64, IndexEntry> =
                found.bodies.iter().map(|entry| (entry.offset, *entry)).collect();
            let listed = scan::find_index_entries(self.source, &found.gaps, |entry| {
                records.get(&entry.offset) == Some(entry)
            })?;
            for (_, entry) in &listed {
                newest.remove(&entry.id);
                if !self.listed.contains(&entry.id) {
                    self.find_body(entry)?;
                }
            }
            self.index_is_whole = self.is_whole_index(&listed)?;
        }
        for (entry, reason) in std::mem::take(&mut self.lost_bodies) {
            match newest.remove(&entry.id) {
                Some(record) if !self.listed.contains(&entry.id) => self.find_body(&record)?,
                _ if self.index_is_whole => {}
                _ => self.skip_body(&entry, reason),
            }
        }
        if self.index_is_whole {
            return Ok(());
        }
        if self.header.index_at == 0 && newest.is_empty() {
            return Ok(());
        }
        let mut unlisted: Vec<IndexEntry> =
            newest.into_values().filter(|entry| !self.listed.contains(&entry.id)).collect();
        unlisted.sort_by_key(|entry| entry.id);
        if self.listed.is_empty() {
            let reason = format!("it is lost, and {} bodies are not listed", unlisted.len());
            self.world.report.skipped.push(SkippedPart::Index { reason });
        }
        for entry in unlisted {
            match self.bodies.read(self.source, &entry, self.world.chunk_size) {
                Ok(body) => self.world.unlisted.extend(Some(body).filter(|body| !body.is_empty())),
                Err(error) if error.is_io() => return Err(error),
                Err(error) => self.skip_body(&entry, error.to_string()),
            }
        }
        Ok(())
    }

    fn find_body(&mut self, entry: &IndexEntry) -> Result<()> {
        match self.body(entry) {
            Ok(id) => self.world.report.repaired.push(RepairedPart::Body { id }),
            Err(error) if error.is_io() => return Err(error),
            Err(error) => self.skip_body(entry, error.to_string()),
        }
        Ok(())
    }

    fn skip_body(&mut self, entry: &IndexEntry, reason: String) {
        let IndexEntry { id, offset, .. } = *entry;
        self.world.report.skipped.push(SkippedPart::Body { id, offset, reason });
    }

    /// Whether entries that were found lie side by side behind a header that counts them.
    fn is_whole_index(&self, listed: &[(u64, IndexEntry)]) -> Result<bool> {
        let Some((first, _)) = listed.first() else { return Ok(false) };
        let in_a_row = listed.windows(2).all(|pair| pair[0].0 + INDEX_ENTRY_BYTES == pair[1].0);
        let head = match first.checked_sub(INDEX_HEADER_BYTES) {
            Some(at) => ReadWindow::new(self.source).get::<8>(at)?.copied(),
            None => None,
        };
        Ok(in_a_row && head.is_some_and(|head| u64::from_le_bytes(head) == listed.len() as u64))
    }

    fn finish(self, damage: Error) -> Result<PixelWorld> {
        let lost = self.chunks_lost();
        let mut world = self.world;
        let is_nothing = world.chunks.is_empty()
            && world.bodies.is_empty()
            && world.unlisted.is_empty()
            && world.report.unplaced.is_empty();
        if is_nothing && self.header.check_format().is_err() {
            return Err(damage);
        }
        if lost > 0 {
            world.report.skipped.push(SkippedPart::Entries { count: lost });
        }
        world.chunks.sort_by_key(|chunk| chunk.pos);
        world.bodies.sort_by_key(|body| body.id);
        world.report.damage = Some(damage);
        Ok(world)
    }
}

/// Whether an entry points exactly at one of these payloads.
fn points_at(entry: &Entry, payloads: &HashMap<u64, PixelPayload>) -> bool {
    payloads
        .get(&entry.offset)
        .is_some_and(|payload| (payload.stored_bytes(), payload.storage()) == (entry.len, entry.storage))
}
