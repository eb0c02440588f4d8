//! From the bytes of a file to where everything is: the way of a file that was closed, of one that was not, and of one that
//! is damaged.
//!
//! | what is there | how the rest is found |
//! |---|---|
//! | header, table, entity section, side index | the saves after the entity section are replayed |
//! | header damaged | the last save has a copy of it |
//! | an entry of the table, or the side index, damaged | all frames are walked; what the table still says is evidence |
//! | nothing but frames | the last of each place |
//!
//! A sealed file proves which frames it has, and where. With the key, each of these ways leads to the proven state, or the
//! next one is tried.

use std::collections::HashMap;
use std::sync::Arc;

use bonfire::{Error, Result, Watch};
use bonfire_store::disk::DiskFile;

use super::frame_scanner::{FrameScan, FrameScanner};
use super::indices::Indices;
use super::page_table::{DamagedEntry, Table};
use super::proof::{ClaimedState, FileSeal, SectionProof};
use super::replay::{FrameEvent, FrameFate, Replay};
use super::report::{DamagedFrame, OpenReport};
use super::seal::{Seal, SealKey};
use super::side_index::{SideEntries, SideIndexChain};
use crate::format::{
    Commit, Entry, Flags, Frame, FrameKey, FrameKind, FramePlace, HEADER_BYTES, Header, HeaderError, Proof,
    SIZE_BYTES, Version,
};

/// A file, as far as it is whole.
pub(super) struct Recovered {
    /// `None` if not even a copy of it is left.
    pub(super) header: Option<Header>,
    /// The bytes where the header is, damaged or not.
    pub(super) first_bytes: [u8; HEADER_BYTES as usize],
    pub(super) indices: Indices,
    /// `None` if there is no side index, or none that can be continued.
    pub(super) side: Option<SideIndexChain>,
    /// Where the saves after the checkpoint begin.
    pub(super) tail_start: u64,
    /// Where the last save ends.
    pub(super) end: u64,
    pub(super) generation: u64,
    /// Frames that the saves after the checkpoint list.
    pub(super) tail_entries: u64,
    /// `None` if the file is not sealed, or if there is no key.
    pub(super) seal: Option<Arc<Seal>>,
    /// In a sealed file: the proof of the last save.
    pub(super) last_proof: Option<Proof>,
    claimed: Option<ClaimedState>,
    /// The headers that saves have found.
    headers: Vec<[u8; HEADER_BYTES as usize]>,
    pub(super) repair: Repair,
    pub(super) report: OpenReport,
}

impl Recovered {
    /// Leaves out places that files of version 1 do not have: somebody has put together such a file by hand.
    fn forget_depth(&mut self) {
        self.report.damaged.retain(|frame| frame.key.pos.is_flat());
        let deep: Vec<FrameKey> =
            self.indices.iter().map(|(key, _)| key).filter(|key| !key.pos.is_flat()).collect();
        if deep.is_empty() {
            return;
        }
        for key in deep {
            self.indices.remove(key);
        }
        self.indices.sort();
        (self.side, self.repair) = (None, self.repair.max(Repair::Checkpoint));
    }

    /// Returns true for a sealed file of version 1.
    pub(super) fn is_seal_outdated(&self) -> bool {
        self.seal.as_deref().is_some_and(Seal::is_outdated)
    }
}

/// How a file is recovered.
#[derive(Clone, Copy, Default)]
pub(super) struct RecoverOptions<'o> {
    pub(super) key: Option<&'o SealKey>,
    /// The seal of a file that was written just now.
    pub(super) seal: Option<&'o Arc<Seal>>,
    /// A sealed file may have a state that it does not prove.
    pub(super) salvage: bool,
    pub(super) watch: Option<&'o Watch>,
}

/// The work that a file needs before it can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repair {
    Nothing,
    /// What lies behind the last save is cut off, and the tail is written once more: an earlier sync may have failed.
    Tail,
    /// Table and side index are written anew.
    Checkpoint,
    /// The whole file is written anew.
    Rewrite,
}

pub(super) fn recover(file: &dyn DiskFile, options: &RecoverOptions<'_>) -> Result<Recovered> {
    let mut scanner = FrameScanner::new(file, options.watch)?;
    let mut seal = match options.seal {
        Some(seal) => FileSeal::known(seal),
        None => FileSeal::new(options.key),
    };
    let first_bytes = read_first_bytes(&scanner)?;
    let (header, is_rebuilt) = match decode_header(&first_bytes, scanner.len())? {
        Some(header) => (Some(header), false),
        None => (header_of_last_save(&mut scanner, &mut seal)?, true),
    };
    let mut recovered = Recovery { scanner: &mut scanner, seal: &mut seal, options }.run(header.as_ref())?;
    if header.as_ref().is_some_and(|header| header.version == Version::Flat) {
        recovered.forget_depth();
    }
    recovered.report.header_rebuilt = is_rebuilt;
    if is_rebuilt {
        // The copy may be older than the header was: that says nothing about how the world was left.
        recovered.report.saves_replayed = 0;
        recovered.repair =
            recovered.repair.max(if header.is_some() { Repair::Checkpoint } else { Repair::Rewrite });
    }
    if header.is_none() && recovered.indices.is_empty() {
        return Err(Error::corrupt(
            "this is not a chunk world: it does not begin like one, and no part of one is in it",
        ));
    }
    recovered.report.bytes_dropped = scanner.len().saturating_sub(recovered.end);
    if recovered.report.bytes_dropped > 0 {
        recovered.repair = recovered.repair.max(Repair::Tail);
    }
    if !recovered.report.damaged.is_empty() {
        recovered.repair = recovered.repair.max(Repair::Checkpoint);
    }
    (recovered.header, recovered.first_bytes) = (header, first_bytes);
    recovered.seal = seal.get().cloned();
    Ok(recovered)
}

/// The ways to the state of a file, the fastest first.
struct Recovery<'r, 'f, 'k> {
    scanner: &'r mut FrameScanner<'f>,
    seal: &'r mut FileSeal<'k>,
    options: &'r RecoverOptions<'r>,
}

impl Recovery<'_, '_, '_> {
    fn run(&mut self, header: Option<&Header>) -> Result<Recovered> {
        let Some(header) = header else {
            let recovered = by_frames(self.scanner, self.seal, HEADER_BYTES, &Table::default(), None)?;
            return self.accept_if_salvaged(recovered);
        };
        self.seal.check_flags(header)?;
        let table = Table::read(self.scanner, header)?;
        let checkpoint = Checkpoint::read(self.scanner, header)?;
        let mut first = None;
        if let Some(checkpoint) = &checkpoint {
            first = by_checkpoint(self.scanner, self.seal, &table, checkpoint)?;
        }
        if let Some(recovered) = first.take_if(|recovered| self.is_proven(header, &checkpoint, recovered)) {
            return Ok(recovered);
        }
        let with_lists = by_frames(self.scanner, self.seal, header.data_start, &table, checkpoint.as_ref())?;
        if self.is_proven(header, &checkpoint, &with_lists) {
            return Ok(with_lists);
        }
        let frames_alone = by_frames(self.scanner, self.seal, header.data_start, &Table::default(), None)?;
        if self.is_proven(header, &checkpoint, &frames_alone) {
            return Ok(frames_alone);
        }
        self.accept_if_salvaged(first.unwrap_or(with_lists))
    }

    /// Returns true if the file proves what was recovered, or proves nothing at all.
    fn is_proven(&self, header: &Header, checkpoint: &Option<Checkpoint>, recovered: &Recovered) -> bool {
        let section = checkpoint.as_ref().and_then(|checkpoint| checkpoint.proof);
        let claimed = recovered.claimed.or_else(|| section.map(|section| section.claimed()));
        let claimed = claimed.filter(|claimed| claimed.generation == recovered.generation);
        // The header leads to a later save than the one that was found: that was not the last one.
        if section.is_some_and(|section| section.claimed().generation > recovered.generation) {
            return false;
        }
        self.seal.proves_header(&header.encode(), section.as_ref(), &recovered.headers)
            && self.seal.proves_state(claimed, &recovered.indices, &recovered.report.damaged)
    }

    /// Accepts what was found in a sealed file that does not prove it, if the caller asks for what is left.
    fn accept_if_salvaged(&self, mut recovered: Recovered) -> Result<Recovered> {
        if self.seal.proves_nothing() {
            return Ok(recovered);
        }
        self.seal.check_found()?;
        if !self.options.salvage {
            return Err(Error::corrupt(
                "this sealed world does not prove what it holds: parts of it were changed, put back or lost. \
                 `ChunkOptions::salvage` opens what is left",
            ));
        }
        recovered.report.unproven = true;
        recovered.repair = Repair::Rewrite;
        Ok(recovered)
    }
}

/// Another process may write a checkpoint while this one reads. Header, table and saves are read in this order, so that whatever a checkpoint
/// has changed of the first two is in the saves; only if a second checkpoint came in between it is read once more.
pub(super) fn recover_beside_a_writer(
    file: &dyn DiskFile,
    options: &RecoverOptions<'_>,
) -> Result<Recovered> {
    const TRIES: usize = 8;
    let header = || {
        let mut bytes = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut bytes, 0).map(|()| bytes).ok()
    };
    let mut before = header();
    let mut tries = 1;
    let mut recovered = loop {
        let recovered = recover(file, options);
        let after = header();
        if before == after || tries == TRIES {
            break recovered?;
        }
        (before, tries) = (after, tries + 1);
    };
    // Damaged frames are put aside by a writer alone. Here they are marked, so that they are not taken for frames that never
    // existed.
    for frame in &recovered.report.damaged {
        if let Some(kind) = frame.key.kind.damaged() {
            recovered.indices.set(FrameKey::new(kind, frame.key.pos), frame.place);
        }
    }
    Ok(recovered)
}

/// Reads the bytes where the header is.
fn read_first_bytes(scanner: &FrameScanner<'_>) -> Result<[u8; HEADER_BYTES as usize]> {
    if scanner.len() < HEADER_BYTES {
        return Err(Error::corrupt("this is not a chunk world: it is too short to be one"));
    }
    let bytes = scanner.read(0, HEADER_BYTES)?;
    Ok(*bytes.first_chunk().unwrap_or_else(|| unreachable!("so many bytes were read")))
}

/// Returns the header of a file of this length; `None` if it is damaged.
fn decode_header(bytes: &[u8; HEADER_BYTES as usize], len: u64) -> Result<Option<Header>> {
    match Header::decode(bytes) {
        Ok(header) => Ok(header.fits(len).then_some(header)),
        Err(HeaderError::Damaged) => Ok(None),
        Err(HeaderError::Foreign) => {
            Err(Error::corrupt("this is not a chunk world, but something that begins like one"))
        }
        Err(HeaderError::Newer { version, flags }) => Err(Error::newer_format(format!(
            "a later version has written this chunk world: version {version}, flags {flags:#06x}"
        ))),
    }
}

fn header_of_last_save(scanner: &mut FrameScanner<'_>, seal: &mut FileSeal<'_>) -> Result<Option<Header>> {
    let scan = scanner.scan(HEADER_BYTES)?;
    let mut last = None;
    for frame in scan.frames.iter().filter(|frame| frame.kind == FrameKind::Commit) {
        let Ok(commit) = Commit::decode(&scanner.data_of(frame)?) else { continue };
        if let Ok(header) = Header::decode(&commit.header)
            && header.fits(scanner.len())
            && seal.has_made(&commit, frame.generation, frame.place.offset)?
        {
            last = Some(header);
        }
    }
    Ok(last)
}

/// The part of the file that the header points to, apart from the table.
struct Checkpoint {
    generation: u64,
    tail_start: u64,
    /// `None` if it is damaged.
    side: Option<SideEntries>,
    /// `None` if the file has no proofs.
    proof: Option<SectionProof>,
}

impl Checkpoint {
    fn read(scanner: &mut FrameScanner<'_>, header: &Header) -> Result<Option<Self>> {
        let Some(frame) = scanner.frame_at(header.entities - SIZE_BYTES)? else { return Ok(None) };
        if frame.kind != FrameKind::EntitySection {
            return Ok(None);
        }
        let side = SideEntries::read(scanner, &frame)?;
        let proof = match header.flags.has(Flags::PROVEN) {
            true => SectionProof::decode(&scanner.data_of(&frame)?, frame.generation),
            false => None,
        };
        Ok(Some(Self { generation: frame.generation, tail_start: frame.place.end(), side, proof }))
    }
}

/// Recovers a file without damage. `None` if the table turns out to be damaged.
fn by_checkpoint(
    scanner: &mut FrameScanner<'_>,
    seal: &mut FileSeal<'_>,
    table: &Table,
    checkpoint: &Checkpoint,
) -> Result<Option<Recovered>> {
    let scan = scanner.scan(checkpoint.tail_start)?;
    let replay = Replay::of(&scan, scanner, seal, Some(checkpoint.generation))?;
    if replay.image.is_none() && !are_resolved(scanner, &table.bad, &replay)? {
        return Ok(None);
    }
    // A checkpoint that did not come to its end may have written over the old lists: then it has left new ones.
    let side = match (&replay.side, &checkpoint.side) {
        (Some(side), _) => side,
        (None, Some(side)) => &side.entries,
        (None, None) => return Ok(None),
    };
    let has_image = replay.image.is_some() || replay.side.is_some();
    let entries = replay.image.as_ref().unwrap_or(&table.entries);
    let end = replay.end.unwrap_or(checkpoint.tail_start);
    if reaches_behind(end, entries, side, &replay) {
        return Ok(None);
    }
    let mut report = OpenReport {
        saves_replayed: replay.saves,
        saves_damaged: replay.damaged_saves,
        ..OpenReport::default()
    };
    let mut indices = Indices::new(entries, side);
    apply_events(&replay, &mut indices, &mut report.damaged);
    let has_own_commit = replay.end.is_some();
    let repair = match (has_own_commit, replay.saves) {
        (false, _) => Repair::Checkpoint,
        (true, 0) => Repair::Nothing,
        (true, _) => Repair::Tail,
    };
    Ok(Some(Recovered {
        header: None,
        first_bytes: [0; HEADER_BYTES as usize],
        indices,
        side: checkpoint.side.as_ref().map(|side| side.chain).filter(|chain| chain.newest != 0),
        tail_start: checkpoint.tail_start,
        end,
        generation: replay.generation.unwrap_or(checkpoint.generation),
        tail_entries: replay.events.len() as u64,
        seal: None,
        last_proof: replay.last,
        claimed: replay.claimed,
        headers: replay.headers,
        repair: if has_image { Repair::Checkpoint } else { repair },
        report,
    }))
}

/// Returns true if a frame that counts lies behind `end`, where the next save would be written: then that is not the end.
fn reaches_behind(end: u64, entries: &[Entry], side: &[(FrameKey, FramePlace)], replay: &Replay) -> bool {
    let is_behind = |key: FrameKey, place: &FramePlace| place.end() > end && replay.events.get(key).is_none();
    entries.iter().any(|entry| is_behind(FrameKey::new(FrameKind::Chunk, entry.pos), &entry.place))
        || side.iter().any(|(key, place)| is_behind(*key, place))
        || replay.events.iter().any(|(_, event)| event.place.end() > end)
}

/// Brings indices up to date with what saves have changed.
fn apply_events(replay: &Replay, indices: &mut Indices, damaged: &mut Vec<DamagedFrame>) {
    for (key, event) in replay.events.iter() {
        match event.fate {
            FrameFate::Written => drop(indices.set(key, event.place)),
            FrameFate::Removed => drop(indices.remove(key)),
            FrameFate::Broken => {
                indices.remove(key);
                damaged.push(DamagedFrame::new(key, event.place));
            }
        }
    }
}

/// Returns true if a checkpoint has left the damaged entries half-written, and later saves have the places of their chunks. An entry
/// that was damaged otherwise may have lost its position, too.
fn are_resolved(scanner: &mut FrameScanner<'_>, bad: &[DamagedEntry], replay: &Replay) -> Result<bool> {
    let (mut seen, mut bytes) = (std::collections::HashSet::new(), 0);
    for DamagedEntry { raw, .. } in bad {
        let is_told = replay.events.get(FrameKey::new(FrameKind::Chunk, raw.pos)).is_some();
        if !is_told || raw.place.is_nowhere() || !seen.insert(raw.pos) {
            return Ok(false);
        }
        let frame = scanner.frame_at(raw.place.start())?;
        // Frames that differ are no longer than the file together.
        bytes += frame.map_or(0, |frame| u64::from(frame.place.len));
        if bytes > scanner.len() {
            return Ok(false);
        }
        if frame.is_some_and(|frame| frame.kind == FrameKind::Chunk && frame.pos != raw.pos) {
            return Ok(false);
        }
    }
    Ok(bad.iter().all(|bad| bad.may_be(bad.raw.pos)))
}

/// Recovers a damaged file by looking at every frame.
fn by_frames(
    scanner: &mut FrameScanner<'_>,
    seal: &mut FileSeal<'_>,
    start: u64,
    table: &Table,
    checkpoint: Option<&Checkpoint>,
) -> Result<Recovered> {
    let scan = scanner.scan(start)?;
    let mut replay = Replay::of(&scan, scanner, seal, None)?;
    let mut report = OpenReport { table_rebuilt: true, ..OpenReport::default() };
    let listed = listed_places(table, checkpoint);
    let (mut end, generation) =
        restore_listed(&mut replay, &listed, &scan, checkpoint, start, &mut report.damaged);
    let mut indices = Indices::default();
    for (key, event) in replay.events.iter() {
        match event.fate {
            _ if was_removed(key, event, table, checkpoint, &listed) => {}
            FrameFate::Written => {
                // A hostile save may list what lies behind it.
                end = end.max(event.place.end());
                indices.set(key, event.place);
            }
            FrameFate::Removed => {}
            FrameFate::Broken => report.damaged.push(DamagedFrame::new(key, event.place)),
        }
    }
    indices.sort();
    Ok(Recovered {
        header: None,
        first_bytes: [0; HEADER_BYTES as usize],
        indices,
        side: None,
        tail_start: end,
        end,
        generation,
        tail_entries: 0,
        seal: None,
        last_proof: replay.last,
        claimed: replay.claimed,
        headers: replay.headers,
        repair: Repair::Checkpoint,
        report,
    })
}

/// The places that the table and the side index list, as far as they can be read.
fn listed_places(table: &Table, checkpoint: Option<&Checkpoint>) -> HashMap<FrameKey, FramePlace> {
    let chunks = table.entries.iter().map(|entry| (FrameKey::new(FrameKind::Chunk, entry.pos), entry.place));
    let side = checkpoint.and_then(|checkpoint| checkpoint.side.as_ref());
    chunks.chain(side.into_iter().flat_map(|side| side.entries.iter().copied())).collect()
}

/// Adds the listed frames that the saves do not have but the file has. A listed frame that is found nowhere, or only in
/// an older state, is damaged. Returns the end and the generation of the last save.
fn restore_listed(
    replay: &mut Replay,
    listed: &HashMap<FrameKey, FramePlace>,
    scan: &FrameScan,
    checkpoint: Option<&Checkpoint>,
    start: u64,
    damaged: &mut Vec<DamagedFrame>,
) -> (u64, u64) {
    let whole: HashMap<u64, &Frame> = scan.frames.iter().map(|frame| (frame.place.offset, frame)).collect();
    let mut end = replay.end.unwrap_or(start);
    let mut generation = replay.generation.unwrap_or(0);
    for (&key, &place) in listed {
        let named = whole.get(&place.offset).filter(|frame| frame.key() == key);
        // The table is of the checkpoint, if that is whole, and later than all that it names.
        let is_newer = |generation: u64| {
            checkpoint.is_some_and(|checkpoint| generation > checkpoint.generation)
                || named.is_some_and(|frame| generation > frame.generation)
        };
        // A whole checkpoint that names another frame than a save before it: the world has returned to that frame since.
        let is_of_past = |event: &FrameEvent| {
            let is_before = checkpoint.is_some_and(|checkpoint| event.generation <= checkpoint.generation);
            is_before && named.is_some() && event.place.offset != place.offset
        };
        let is_fine = replay.events.get(key).is_some_and(|event| {
            let is_later = event.place.offset >= place.offset || is_newer(event.generation);
            is_later && !is_of_past(event)
        });
        if is_fine {
            continue;
        }
        // The commit of its save is lost, and the table that came after it is not.
        if let Some(frame) = named {
            let event =
                FrameEvent { place: frame.place, generation: frame.generation, fate: FrameFate::Written };
            replay.events.insert(key, event);
            (end, generation) = (end.max(frame.place.end()), generation.max(frame.generation));
            continue;
        }
        replay.events.remove(key);
        damaged.push(DamagedFrame::new(key, place));
    }
    (end, generation)
}

/// Returns true for a frame that was removed before the checkpoint: the lists do not have it, and would.
fn was_removed(
    key: FrameKey,
    event: &FrameEvent,
    table: &Table,
    checkpoint: Option<&Checkpoint>,
    listed: &HashMap<FrameKey, FramePlace>,
) -> bool {
    let has_list =
        key.kind == FrameKind::Chunk || checkpoint.is_some_and(|checkpoint| checkpoint.side.is_some());
    let is_old = has_list && checkpoint.is_some_and(|checkpoint| event.generation <= checkpoint.generation);
    let may_be_lost = key.kind == FrameKind::Chunk && table.may_have_lost(key.pos);
    is_old && !listed.contains_key(&key) && !may_be_lost
}
