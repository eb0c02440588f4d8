//! Sealed worlds in the hands of somebody without the key, who can change any byte, mend every checksum, and put back parts that
//! were there before. Nothing of that loads: it is an error, or the world as it was after one of its saves.
#![cfg(feature = "seal")]

mod support;

use std::collections::BTreeMap;

use bonfire::{Error, Result};
use bonfire_chunks::{
    Body, ChunkOptions, ChunkPos, ChunkRect, ChunkWorld, Durability, Layer, Layers, Persistence,
};
use bonfire_store::SealKey;
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use support::*;

const NAME: &str = "world.save";
const SETTINGS: u8 = 7;
const COMMIT: u8 = 3;
const CHUNK: u8 = 1;

fn sealed() -> ChunkOptions {
    let layers = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("rest", 3))
        .materials("material", (0..=255).map(|id| (id, material(id))));
    let options = ChunkOptions::new(layers).chunk_size(SIZE as u16).tile_size(4).created(1_700_000_000);
    options.table_capacity(8).compact_above(None).sealed(SealKey::from_bytes([1; 32]))
}

fn material(id: u32) -> String {
    match id {
        1 => "dirt".to_owned(),
        2 => "gold".to_owned(),
        id => format!("material {id}"),
    }
}

/// All that a world holds; `None` is what cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Content {
    cells: BTreeMap<ChunkPos, Option<Vec<u8>>>,
    bodies: BTreeMap<ChunkPos, Option<Vec<Body>>>,
}

impl Content {
    fn of(world: &ChunkWorld) -> Self {
        let damaged = |error: &Error| assert!(error.is_corrupt(), "{error}");
        let cells = world.iter().map(|pos| {
            let cells = world.read(pos).inspect_err(damaged).ok();
            (pos, cells.map(|cells| cells.expect("it is listed")))
        });
        let bodies = world.chunks_with_bodies(ChunkRect::ALL).into_iter();
        let bodies = bodies.map(|pos| (pos, world.read_bodies(pos).inspect_err(damaged).ok()));
        Self { cells: cells.collect(), bodies: bodies.collect() }
    }

    /// Returns true if nothing in it is other than in a saved state. Missing parts count only if the world calls them lost.
    fn is_part_of(&self, saved: &Self, lost: usize) -> bool {
        let cells = self
            .cells
            .iter()
            .all(|(pos, cells)| saved.cells.get(pos).is_some_and(|saved| cells.is_none() || cells == saved));
        let bodies = self.bodies.iter().all(|(pos, bodies)| {
            saved.bodies.get(pos).is_some_and(|saved| bodies.is_none() || bodies == saved)
        });
        let len = |content: &Self| content.cells.len() + content.bodies.len();
        cells && bodies && len(saved) - len(self) <= lost
    }
}

/// A world after some saves, each of its states, and its file.
struct Saved {
    states: Vec<Content>,
    file: File,
}

impl Saved {
    fn new(close: bool) -> Self {
        let disk = MemoryDisk::new();
        let world = sealed().open_on(disk.clone(), NAME, Access::Write).unwrap();
        let mut states = vec![Content::of(&world)];
        let mut save = |edit: &mut bonfire_chunks::Edit| {
            edit.commit(Durability::Synced).unwrap();
            states.push(Content::of(&world));
        };
        save(world.edit().put((0, 0), noise(1)).put((1, 0), noise(2)));
        save(world.edit().put((0, 0), noise(3)).put_bodies((0, 0), vec![body(1, [1.0, 1.0])]));
        save(world.edit().put((2, 5), noise(4)));
        save(world.edit().remove((1, 0)).put((0, 0), noise(5)));
        if close {
            world.close().unwrap();
        }
        Self { states, file: File::of(&disk) }
    }

    fn newest(&self) -> &Content {
        self.states.last().unwrap()
    }
}

/// A file whose checksums anybody can mend.
#[derive(Clone)]
struct File(Vec<u8>);

#[derive(Clone, Copy, Debug)]
struct FrameAt {
    kind: u8,
    pos: (i32, i32),
    generation: u64,
    /// Where its data begins and ends.
    start: usize,
    end: usize,
}

impl File {
    fn of(disk: &MemoryDisk) -> Self {
        let file = disk.open(NAME, Access::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        Self(bytes)
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(*self.0[at..].first_chunk().unwrap())
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_le_bytes(*self.0[at..].first_chunk().unwrap())
    }

    fn frames(&self) -> Vec<FrameAt> {
        let mut at = self.long(40) as usize;
        let mut frames = Vec::new();
        while at + 36 <= self.0.len() {
            let (start, end) = (at + 4, at + 4 + self.word(at) as usize - 32);
            let pos = (self.word(end + 8) as i32, self.word(end + 12) as i32);
            frames.push(FrameAt { kind: self.0[end + 4], pos, generation: self.long(end + 20), start, end });
            at = end + 32;
        }
        frames
    }

    fn frames_of(&self, kind: u8) -> Vec<FrameAt> {
        self.frames().into_iter().filter(|frame| frame.kind == kind).collect()
    }

    fn mend(&mut self, frame: FrameAt) {
        let crc = crc32c::crc32c(&self.0[frame.start..frame.end + 28]).to_le_bytes();
        self.0[frame.end + 28..frame.end + 32].copy_from_slice(&crc);
    }

    fn mend_header(&mut self) {
        let crc = crc32c::crc32c(&self.0[..61]).to_le_bytes();
        self.0[61..64].copy_from_slice(&crc[..3]);
    }

    fn mend_entry(&mut self, number: usize) {
        let entry = &mut self.0[64 + number * 24..][..24];
        entry[21] = entry[..21].iter().fold(0, |crc, byte| {
            (0..8).fold(crc ^ byte, |crc: u8, _| if crc & 0x80 != 0 { (crc << 1) ^ 0x07 } else { crc << 1 })
        });
    }

    fn swap(&mut self, one: &str, other: &str) {
        let places = |file: &Self, text: &str| {
            let at = file.0.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes());
            at.map(|(at, _)| at).collect::<Vec<_>>()
        };
        let (ones, others) = (places(self, one), places(self, other));
        assert_eq!((ones.len(), others.len()), (2, 2), "settings are there twice");
        ones.iter().for_each(|at| self.0[*at..at + one.len()].copy_from_slice(other.as_bytes()));
        others.iter().for_each(|at| self.0[*at..at + other.len()].copy_from_slice(one.as_bytes()));
    }

    fn disk(&self) -> MemoryDisk {
        MemoryDisk::with_files([(NAME.to_owned(), self.0.clone())])
    }

    fn open(&self, access: Access) -> Result<ChunkWorld> {
        sealed().open_on(self.disk(), NAME, access)
    }

    /// Opens the file and fails if it shows anything that was not there after one of the saves.
    fn assert_nothing_forged(&self, saved: &Saved, what: &str) -> Option<Content> {
        for access in [Access::Write, Access::Read] {
            let world = match self.open(access) {
                Err(error) => {
                    assert!(
                        error.is_corrupt() || error.is_wrong_key() || error.is_newer_format(),
                        "{what}: {error}"
                    );
                    return None;
                }
                Ok(world) => world,
            };
            let (found, lost) = (Content::of(&world), world.report().damaged.len());
            let is_right = saved.states.iter().any(|state| found.is_part_of(state, lost));
            assert!(is_right, "{what}: {:?} with {:?}", found.cells.keys(), world.report());
            if access == Access::Read {
                return Some(found);
            }
        }
        None
    }
}

fn is_refused(file: &File) {
    for access in [Access::Read, Access::Write] {
        let error = file.open(access).expect_err("nobody without the key can have made it");
        assert!(error.is_corrupt() && error.to_string().contains("prove"), "{error}");
    }
}

#[test]
fn names_of_materials_cannot_be_swapped() {
    let saved = Saved::new(true);
    let mut forged = saved.file.clone();
    forged.swap("dirt", "gold");
    forged.frames_of(SETTINGS).into_iter().for_each(|frame| forged.mend(frame));
    let error = forged.open(Access::Write).expect_err("dirt must not load as gold");
    assert!(error.is_corrupt(), "{error}");
}

#[test]
fn a_chunk_cannot_be_put_back_by_the_table() {
    let saved = Saved::new(true);
    let mut forged = saved.file.clone();
    let older = forged.frames_of(CHUNK).into_iter().find(|frame| frame.pos == (0, 0)).unwrap();
    forged.0[64 + 8..64 + 16].copy_from_slice(&(older.start as u64).to_le_bytes());
    forged.mend_entry(0);
    // The table is wrong, and all commits are there: they say what is right.
    let world = forged.open(Access::Write).unwrap();
    assert!(world.report().table_rebuilt);
    assert_eq!(&Content::of(&world), saved.newest());
}

#[test]
fn a_chunk_cannot_be_put_back_in_its_place() {
    let saved = Saved::new(true);
    let of_chunk: Vec<_> =
        saved.file.frames_of(CHUNK).into_iter().filter(|frame| frame.pos == (0, 0)).collect();
    let (first, last) = (of_chunk[0], of_chunk[of_chunk.len() - 1]);
    assert_eq!(first.end - first.start, last.end - last.start, "they do not compress");
    let mut forged = saved.file.clone();
    forged.0.copy_within(first.start..first.end + 32, last.start);
    let world = forged.open(Access::Read).unwrap();
    assert!(world.read((0, 0)).unwrap_err().is_corrupt());
    // With the number of the save that wrote the last one.
    forged.0[last.end + 20..last.end + 28].copy_from_slice(&last.generation.to_le_bytes());
    forged.mend(last);
    let world = forged.open(Access::Read).unwrap();
    assert!(world.read((0, 0)).unwrap_err().is_corrupt());
}

#[test]
fn a_chunk_cannot_be_taken_away() {
    let saved = Saved::new(true);
    let mut forged = saved.file.clone();
    let count = forged.word(32) - 1;
    forged.0[32..36].copy_from_slice(&count.to_le_bytes());
    forged.mend_header();
    match forged.assert_nothing_forged(&saved, "a smaller count") {
        Some(found) => assert_eq!(&found, saved.newest()),
        None => is_refused(&forged),
    }
}

#[test]
fn commits_cannot_be_removed_or_change_places() {
    let saved = Saved::new(false);
    let commits = saved.file.frames_of(COMMIT);
    assert!(commits.len() >= 5);
    for gone in &commits {
        // Its save is cut out of the file, and the numbers of those behind it are mended.
        let mut forged = saved.file.clone();
        let begin = commits.iter().rfind(|commit| commit.end < gone.start).map(|commit| commit.end + 32);
        let Some(begin) = begin else { continue };
        forged.0.drain(begin..gone.end + 32);
        for frame in forged.frames().into_iter().filter(|frame| frame.start >= begin) {
            let generation = frame.generation - 1;
            forged.0[frame.end + 20..frame.end + 28].copy_from_slice(&generation.to_le_bytes());
            forged.mend(frame);
        }
        forged.assert_nothing_forged(&saved, "a save that is cut out");
        // Its commit alone becomes something else.
        let mut forged = saved.file.clone();
        forged.0[gone.start + 64..gone.start + 72].fill(0);
        forged.mend(*gone);
        forged.assert_nothing_forged(&saved, "a commit that is changed");
    }
    for pair in commits.windows(2) {
        let mut forged = saved.file.clone();
        if pair[0].end - pair[0].start == pair[1].end - pair[1].start {
            let len = pair[0].end + 32 - pair[0].start;
            let one = forged.0[pair[0].start..][..len].to_vec();
            forged.0.copy_within(pair[1].start..pair[1].start + len, pair[0].start);
            forged.0[pair[1].start..][..len].copy_from_slice(&one);
            forged.assert_nothing_forged(&saved, "two commits that changed places");
        }
    }
}

/// A save that somebody without the key appends, as a plain file would have it.
#[test]
fn a_save_cannot_be_appended() {
    let saved = Saved::new(false);
    let last = *saved.file.frames_of(COMMIT).last().unwrap();
    let mut forged = saved.file.clone();
    let begin = saved.file.frames_of(COMMIT).iter().rev().nth(1).unwrap().end + 32;
    let again = forged.0[begin..last.end + 32].to_vec();
    forged.0.extend(again);
    for frame in forged.frames().into_iter().filter(|frame| frame.start > last.end + 32) {
        let generation = frame.generation + 1;
        forged.0[frame.end + 20..frame.end + 28].copy_from_slice(&generation.to_le_bytes());
        forged.mend(frame);
    }
    let world = forged.open(Access::Write).unwrap();
    assert!(world.report().bytes_dropped > 0);
    assert_eq!(&Content::of(&world), saved.newest());
}

#[test]
fn nothing_of_another_file_of_the_same_world_fits() {
    let disk = MemoryDisk::new();
    let world = sealed().open_on(disk.clone(), NAME, Access::Write).unwrap();
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    world.compact(|_, _| {}).unwrap();
    let before = File::of(&disk);
    world.edit().put((0, 0), noise(2)).commit(Durability::Synced).unwrap();
    world.compact(|_, _| {}).unwrap();
    drop(world);
    let after = File::of(&disk);
    let chunk = |file: &File| file.frames_of(CHUNK)[0];
    let (old, new) = (chunk(&before), chunk(&after));
    assert_eq!((old.start, old.end), (new.start, new.end), "they lie in the same place");
    let mut forged = after.clone();
    forged.0[new.start..new.end + 32].copy_from_slice(&before.0[old.start..old.end + 32]);
    let world = forged.open(Access::Read).unwrap();
    assert!(world.read((0, 0)).unwrap_err().is_corrupt(), "a chunk from before the file was written anew");
}

/// A world of somebody's own, which says that it is sealed in the old way with the key that the sealed one names.
#[test]
fn a_world_of_the_old_version_cannot_be_made_of_a_sealed_one() {
    let saved = Saved::new(true);
    let commit = *saved.file.frames_of(COMMIT).last().unwrap();
    let mut seal = saved.file.0[commit.start + 84..][..64].to_vec();
    assert_eq!(std::mem::replace(&mut seal[0], 1), 2);
    let disk = MemoryDisk::new();
    let own = support::options().open_on(disk.clone(), NAME, Access::Write).unwrap();
    own.close().unwrap();
    drop(own);
    let mut forged = File::of(&disk);
    forged.0[6] |= 4;
    forged.mend_header();
    let commit = *forged.frames_of(COMMIT).last().unwrap();
    assert_eq!(commit.end + 32, forged.0.len());
    forged.0.splice(commit.start + 84..commit.start + 84, seal);
    let (end, len) = (commit.end + 64, (commit.end + 64 - commit.start) as u32);
    forged.0[commit.start - 4..commit.start].copy_from_slice(&(len + 32).to_le_bytes());
    forged.0[commit.start + 76..commit.start + 80].copy_from_slice(&64_u32.to_le_bytes());
    forged.0[end + 16..end + 20].copy_from_slice(&len.to_le_bytes());
    forged.mend(FrameAt { end, ..commit });
    for access in [Access::Read, Access::Write] {
        let error = forged.open(access).expect_err("nobody without the key can have made it");
        assert!(error.is_unsupported(), "{error}");
    }
    // A game that accepts such worlds sees that it is one.
    let world = support::options().sealed(SealKey::from_bytes([1; 32])).accept_old_seal();
    let world = world.open_on(forged.disk(), NAME, Access::Read).unwrap();
    assert!(world.report().seal_outdated && world.iter().next().is_none());
}

/// Every byte in turn, with all checksums mended: nothing else loads, whatever it is that was changed.
#[test]
fn every_byte_decides_nothing_without_the_key() {
    for close in [true, false] {
        let saved = Saved::new(close);
        let frames = saved.file.frames();
        let step = if bonfire_testkit::scale() > 1 { 1 } else { 7 };
        let mut checked = 0;
        for at in (0..saved.file.0.len()).step_by(step) {
            // Long runs of text and cells are alike.
            let frame = frames.iter().find(|frame| (frame.start - 4..frame.end + 32).contains(&at));
            let is_text = frame.is_some_and(|frame| at > frame.start + 100 && at + 100 < frame.end);
            if is_text && at % 61 != 0 && matches!(frame.unwrap().kind, CHUNK | SETTINGS) {
                continue;
            }
            let mut forged = saved.file.clone();
            forged.0[at] ^= 1 << (at % 8);
            match frame {
                Some(frame) => forged.mend(*frame),
                None if at < 64 => forged.mend_header(),
                None => forged.mend_entry((at - 64) / 24),
            }
            forged.assert_nothing_forged(&saved, &format!("byte {at} of {frame:?}"));
            checked += 1;
        }
        assert!(checked > 500, "only {checked} bytes");
    }
}

#[test]
fn a_torn_table_is_found_again_by_its_proofs() {
    for compact in [false, true] {
        let saved = Saved::new(true);
        let disk = saved.file.disk();
        if compact {
            let world = sealed().open_on(disk.clone(), NAME, Access::Write).unwrap();
            world.compact(|_, _| {}).unwrap();
            world.close().unwrap();
        }
        let mut torn = File::of(&disk);
        torn.0[64..64 + 24].fill(0xAB);
        let world = torn.open(Access::Write).unwrap();
        assert!(world.report().table_rebuilt && world.report().damaged.is_empty());
        assert_eq!(&Content::of(&world), saved.newest());
    }
}

#[test]
fn what_is_left_can_be_salvaged_and_says_so() {
    let saved = Saved::new(true);
    let mut forged = saved.file.clone();
    // No list and no save is left that would prove anything.
    forged.0[64..64 + 48].fill(0);
    for frame in forged.frames_of(COMMIT).into_iter().skip(1) {
        forged.0[frame.start..frame.end].fill(7);
    }
    is_refused(&forged);
    let disk = forged.disk();
    let world = sealed().salvage().open_on(disk.clone(), NAME, Access::Write).unwrap();
    assert!(world.report().unproven && !world.report().is_fine());
    let found = Content::of(&world);
    assert!(
        found
            .cells
            .values()
            .all(|cells| cells.as_ref().is_none_or(|cells| (1..6).any(|seed| *cells == noise(seed))))
    );
    world.close().unwrap();
    drop(world);
    // It is one that proves what it holds again.
    let world = sealed().open_on(disk, NAME, Access::Write).unwrap();
    assert!(world.report().is_fine());
    assert_eq!(Content::of(&world), found);
}
