//! What the saves of a stretch of the file have changed: those that are whole, and those that were durable once and are damaged
//! now. A save that was under way when the machine stopped is neither, and counts for nothing.

use std::collections::HashMap;

use bonfire::Result;

use super::frame_scanner::{FrameScan, FrameScanner};
use super::proof::{ClaimedState, FileSeal};
use super::seal::Seal;
use crate::format::{
    Commit, Entry, Frame, FrameKey, FrameKind, FramePlace, FrameTag, HEADER_BYTES, Proof, SideIndex,
    decode_image, decode_places,
};

/// The last change to a frame, and the save that made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameEvent {
    pub(super) place: FramePlace,
    pub(super) generation: u64,
    pub(super) fate: FrameFate,
}

/// The last change to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameFate {
    Written,
    Removed,
    /// It was written, and is not whole any more.
    Broken,
}

pub(super) struct Replay {
    pub(super) events: Events,
    /// Whether lists of everything are taken for what they list. Not if each frame is looked at.
    takes_lists: bool,
    /// The whole page table as of one of the saves. Events of chunks are those after it.
    pub(super) image: Option<Vec<Entry>>,
    /// All that the table does not list, as of one of the saves. Other events are those after it.
    pub(super) side: Option<Vec<(FrameKey, FramePlace)>>,
    /// Of the last save that counts.
    pub(super) generation: Option<u64>,
    /// Where that save ends.
    pub(super) end: Option<u64>,
    /// How many saves count.
    pub(super) saves: u64,
    /// How many of them, and of those between them, are not whole any more.
    pub(super) damaged_saves: u64,
    /// In a sealed file: what the last save that counts says of the state after it.
    pub(super) claimed: Option<ClaimedState>,
    /// In a sealed file: the proof of that save.
    pub(super) last: Option<Proof>,
    /// The headers that saves have found, each once in a row.
    pub(super) headers: Vec<[u8; HEADER_BYTES as usize]>,
    /// Frames that everybody may read end with a proof.
    has_proofs: bool,
}

/// The last change to each frame. Those of chunks are apart: a list of all chunks takes the place of all of them at once.
#[derive(Default)]
pub(super) struct Events {
    chunks: HashMap<FrameKey, FrameEvent>,
    others: HashMap<FrameKey, FrameEvent>,
}

impl Events {
    fn of_mut(&mut self, key: FrameKey) -> &mut HashMap<FrameKey, FrameEvent> {
        if key.kind == FrameKind::Chunk { &mut self.chunks } else { &mut self.others }
    }

    pub(super) fn get(&self, key: FrameKey) -> Option<&FrameEvent> {
        if key.kind == FrameKind::Chunk { self.chunks.get(&key) } else { self.others.get(&key) }
    }

    pub(super) fn insert(&mut self, key: FrameKey, event: FrameEvent) {
        self.of_mut(key).insert(key, event);
    }

    pub(super) fn remove(&mut self, key: FrameKey) {
        self.of_mut(key).remove(&key);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FrameKey, &FrameEvent)> {
        self.chunks.iter().chain(&self.others).map(|(key, event)| (*key, event))
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.len() + self.others.len()
    }
}

/// Saves, in the order of the file.
struct CommittedSave {
    frame: Frame,
    commit: Commit,
    /// Its number among all frames.
    number: usize,
    /// The last save that had been durable when this one, or a later one, was written.
    durable: u64,
}

impl CommittedSave {
    /// Returns true if it names the save before it, in a file whose saves do.
    fn follows(&self, last: Option<Proof>) -> bool {
        match (&self.commit.proof, last) {
            (Some(proof), Some(last)) => proof.previous == last,
            _ => true,
        }
    }
}

impl Replay {
    /// `checkpoint` is the generation of the save that the header and the table come from, if the frames are those after it.
    pub(super) fn of(
        scan: &FrameScan,
        scanner: &FrameScanner<'_>,
        seal: &mut FileSeal<'_>,
        checkpoint: Option<u64>,
    ) -> Result<Self> {
        let saves = committed_saves(scan, scanner, seal)?;
        let mut replay = Self {
            events: Events::default(),
            takes_lists: checkpoint.is_some(),
            image: None,
            side: None,
            generation: checkpoint,
            end: None,
            saves: 0,
            damaged_saves: 0,
            claimed: None,
            last: None,
            headers: Vec::new(),
            has_proofs: saves.iter().any(|saved| saved.commit.proof.is_some()),
        };
        if saves.is_empty() && checkpoint.is_none() {
            replay.apply_frames(scan, scanner)?;
        } else {
            replay.apply_saves(&saves, scan, scanner, checkpoint)?;
        }
        Ok(replay)
    }

    /// Applies saves up to the first one that does not count.
    fn apply_saves(
        &mut self,
        saves: &[CommittedSave],
        scan: &FrameScan,
        scanner: &FrameScanner<'_>,
        checkpoint: Option<u64>,
    ) -> Result<()> {
        let whole: HashMap<u64, &Frame> =
            scan.frames.iter().map(|frame| (frame.place.offset, frame)).collect();
        let mut next = 0;
        for (number, saved) in saves.iter().enumerate() {
            let is_checkpoint = checkpoint == Some(saved.frame.generation) && number == 0;
            if !is_checkpoint {
                let frames = &scan.frames[next..saved.number];
                let Some(damaged) = counts(saved, frames, &saves[number..], self.generation, &whole) else {
                    break;
                };
                if damaged == 0 && !saved.follows(self.last) {
                    break;
                }
                self.damaged_saves += damaged;
                self.apply(saved, frames, &whole, scanner)?;
                self.saves += 1;
            }
            next = saved.number + 1;
            self.generation = Some(saved.frame.generation);
            self.end = Some(saved.frame.place.end());
            self.note_proof(saved);
        }
        Ok(())
    }

    fn note_proof(&mut self, saved: &CommittedSave) {
        let Some(proof) = saved.commit.proof else { return };
        self.last = Some(proof.own);
        self.claimed = Some(ClaimedState { generation: saved.frame.generation, state: proof.state });
        if self.headers.last() != Some(&saved.commit.header) {
            self.headers.push(saved.commit.header);
        }
    }

    /// Applies all frames: not one save is left to tell which of them count.
    fn apply_frames(&mut self, scan: &FrameScan, scanner: &FrameScanner<'_>) -> Result<()> {
        for frame in scan.frames.iter().filter(|frame| frame.kind.is_indexed()) {
            self.write(frame, scanner)?;
        }
        self.generation = scan.frames.iter().map(|frame| frame.generation).max();
        self.end = scan.frames.last().map(|frame| frame.place.end());
        Ok(())
    }

    /// Applies a frame that no commit lists.
    fn write(&mut self, frame: &Frame, scanner: &FrameScanner<'_>) -> Result<()> {
        if frame.is_pinned_only {
            return Ok(());
        }
        let fate = if frame.place.tag == FrameTag::REMOVED { FrameFate::Removed } else { FrameFate::Written };
        let event = FrameEvent { place: frame.place, generation: frame.generation, fate };
        self.events.insert(frame.key(), event);
        match (frame.kind, fate) {
            (FrameKind::Return, FrameFate::Written) => self.return_by(frame, frame.generation, scanner),
            _ => Ok(()),
        }
    }

    /// Applies a return: the world has frames again that later saves had replaced.
    fn return_by(&mut self, frame: &Frame, generation: u64, scanner: &FrameScanner<'_>) -> Result<()> {
        let data = scanner.data_of(frame)?;
        let data = if self.has_proofs { Seal::read_unchecked(&data) } else { Ok(&data[..]) };
        // One that does not parse has a right checksum, so it was made by hand.
        let Ok(returned) = data.and_then(decode_places) else { return Ok(()) };
        scanner.step(returned.len() as u64)?;
        for (key, place) in returned {
            let fate = if place.is_nowhere() { FrameFate::Removed } else { FrameFate::Written };
            self.events.insert(key, FrameEvent { place, generation, fate });
        }
        Ok(())
    }

    fn apply(
        &mut self,
        saved: &CommittedSave,
        frames: &[Frame],
        whole: &HashMap<u64, &Frame>,
        scanner: &FrameScanner<'_>,
    ) -> Result<()> {
        let generation = saved.frame.generation;
        scanner.step((frames.len() + saved.commit.entries.len()) as u64)?;
        for frame in frames {
            if frame.kind.is_indexed() && frame.generation < generation {
                // Of a save whose commit is damaged, or from before the file was written anew.
                self.write(frame, scanner)?;
            }
        }
        if self.takes_lists {
            // A save has one of each at most. Of more than one the last counts, and no other is looked at.
            let of_kind = |kind: FrameKind| {
                frames.iter().rfind(|frame| frame.kind == kind && frame.generation == generation)
            };
            if let Some(frame) = of_kind(FrameKind::TableImage)
                && let Ok(image) = decode_image(frame.place.tag, &scanner.data_of(frame)?)
            {
                self.image = Some(image);
                self.events.chunks = HashMap::new();
            }
            if let Some(frame) = of_kind(FrameKind::SideIndex)
                && let Ok(side) = SideIndex::decode(&scanner.data_of(frame)?)
                && side.earlier == 0
            {
                self.side = Some(side.entries);
                self.events.others = HashMap::new();
            }
        }
        for &(key, place) in &saved.commit.entries {
            let fate = match place.is_nowhere() {
                true => FrameFate::Removed,
                false if is_whole(key, place, generation, whole) => FrameFate::Written,
                false => FrameFate::Broken,
            };
            self.events.insert(key, FrameEvent { place, generation, fate });
        }
        for (key, place) in &saved.commit.entries {
            let frame = whole.get(&place.offset).filter(|_| key.kind == FrameKind::Return);
            if let Some(frame) = frame.filter(|_| is_whole(*key, *place, generation, whole)) {
                self.return_by(frame, generation, scanner)?;
            }
        }
        Ok(())
    }
}

/// Reads the commits of all saves.
fn committed_saves(
    scan: &FrameScan,
    scanner: &FrameScanner<'_>,
    seal: &mut FileSeal<'_>,
) -> Result<Vec<CommittedSave>> {
    let mut saves: Vec<CommittedSave> = Vec::new();
    for (number, frame) in scan.frames.iter().enumerate().filter(|(_, frame)| frame.kind == FrameKind::Commit)
    {
        // One that does not parse has a right checksum, so it was made by hand: it is not one of ours.
        let Ok(commit) = Commit::decode(&scanner.data_of(frame)?) else { continue };
        if !seal.has_made(&commit, frame.generation, frame.place.offset)? {
            continue;
        }
        saves.push(CommittedSave {
            frame: *frame,
            durable: commit.durable.min(frame.generation.saturating_sub(1)),
            commit,
            number,
        });
    }
    for number in (1..saves.len()).rev() {
        saves[number - 1].durable = saves[number - 1].durable.max(saves[number].durable);
    }
    Ok(saves)
}

fn is_whole(key: FrameKey, place: FramePlace, generation: u64, whole: &HashMap<u64, &Frame>) -> bool {
    let fits = |frame: &&Frame| frame.key() == key && frame.place == place && frame.generation == generation;
    whole.get(&place.offset).is_some_and(fits)
}

/// Whether a save counts: `saves` begins with it, `frames` are those before it, `last` is the save before it. If it does, how many
/// saves up to it are damaged.
///
/// It counts if it is whole and the next one. If it is not, something was damaged, or the machine stopped while it was being
/// written. It was damage if a later save says that this one had been durable.
fn counts(
    saved: &CommittedSave,
    frames: &[Frame],
    saves: &[CommittedSave],
    last: Option<u64>,
    whole: &HashMap<u64, &Frame>,
) -> Option<u64> {
    let generation = saved.frame.generation;
    if last.is_some_and(|last| generation <= last) {
        return None;
    }
    let was_durable = |generation: u64, saves: &[CommittedSave]| {
        saves.first().is_some_and(|saved| saved.durable >= generation)
    };
    let missing = last.map_or(0, |last| generation - last - 1);
    let listed = || saved.commit.entries.iter().filter(|(_, place)| !place.is_nowhere());
    let frames_are_whole = listed().all(|&(key, place)| is_whole(key, place, generation, whole)) && {
        let crcs = listed().filter_map(|(_, place)| whole.get(&place.offset)).map(|frame| frame.crc);
        // No list names frames that only pins have, and that were moved with this save.
        let of_pins = frames.iter().filter(|frame| frame.is_pinned_only && frame.generation == generation);
        digest(crcs.chain(of_pins.map(|frame| frame.crc))) == saved.commit.digest
    };
    let is_next = missing == 0 || was_durable(generation - 1, saves);
    let counts = is_next && (frames_are_whole || was_durable(generation, &saves[1..]));
    counts.then_some(missing + u64::from(!frames_are_whole))
}

/// The checksum of checksums.
pub(super) fn digest(crcs: impl Iterator<Item = u32>) -> u32 {
    crcs.fold(0, |all, crc| crc32c::crc32c_append(all, &crc.to_le_bytes()))
}
