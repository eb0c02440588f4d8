//! Damage of what was durable: every byte of a world flipped, every length that it can be cut to, whole regions zeroed. What is
//! read is what was saved, or an error: never something else, never "nobody has changed it". A byte costs one chunk at
//! most, its bodies or its entities. What is lost stays an error until it is saved again.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use bonfire_chunks::{Body, ChunkOptions, ChunkPos, ChunkRect, ChunkWorld, Durability, OpenReport};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use bonfire_testkit::scale;
use support::{SIZE, body, noise};

const NAME: &str = "world.save";
const HEADER_BYTES: usize = 64;

fn options() -> &'static ChunkOptions {
    static OPTIONS: OnceLock<ChunkOptions> = OnceLock::new();
    OPTIONS.get_or_init(|| support::options().threads(1).compact_above(None))
}

fn open(disk: &MemoryDisk, access: Access) -> bonfire::Result<ChunkWorld> {
    options().open_on(disk.clone(), NAME, access)
}

fn snapshot() -> &'static [u8] {
    static SNAPSHOT: OnceLock<Vec<u8>> = OnceLock::new();
    SNAPSHOT.get_or_init(|| {
        let all = bonfire_testkit::fixture::everything();
        all.and_then(|all| all.encode(&bonfire::EncodeOptions::default())).expect("a small world").to_vec()
    })
}

/// What a world holds.
#[derive(Clone, Default)]
struct Model {
    cells: BTreeMap<ChunkPos, Vec<u8>>,
    bodies: BTreeMap<ChunkPos, Vec<Body>>,
    entities: BTreeMap<ChunkPos, Vec<u8>>,
}

/// Parts that cannot be read: what, and of which chunk.
type Lost = BTreeSet<(&'static str, ChunkPos)>;

/// A world on a disk, and what it holds.
struct Sample {
    bytes: Vec<u8>,
    /// What it holds; before that, what it held without its last save, if that is not in a checkpoint.
    models: Vec<Model>,
    /// Where each of the last saves ends, and what the world held after it.
    saves: Vec<(usize, Model)>,
}

fn file_bytes(disk: &MemoryDisk) -> Vec<u8> {
    let file = disk.open(NAME, Access::Read).expect("it is there");
    let mut bytes = vec![0; usize::try_from(file.len().expect("a disk in memory")).expect("a small file")];
    file.read_exact_at(&mut bytes, 0).expect("a disk in memory");
    bytes
}

/// Chunks of noise until the file has about so many bytes, some bodies and entities; then some saves on top.
fn sample(len: usize, is_closed: bool) -> Sample {
    let disk = MemoryDisk::new();
    let mut model = Model::default();
    let world = open(&disk, Access::Write).expect("a disk in memory");
    let mut edit = world.edit();
    let side = ((len / 1100) as f64).sqrt() as i32;
    for number in 0..side * side {
        let pos = ChunkPos::new(number % side, number / side);
        let cells = if number % 7 == 3 { vec![0; SIZE * SIZE * 4] } else { noise(number as u64) };
        edit.put(pos, cells.clone());
        model.cells.insert(pos, cells);
        if number % 11 == 0 {
            let centre = [pos.x, pos.y].map(|at| (at * SIZE as i32) as f32 + 1.0);
            let list = vec![body(number as u64 + 1, centre)];
            edit.put_bodies(pos, list.clone());
            model.bodies.insert(pos, list);
        }
        if number == side * 2 + 1 {
            edit.put_entities(pos, snapshot());
            model.entities.insert(pos, snapshot().to_vec());
        }
    }
    edit.commit(Durability::Synced).expect("a disk in memory");
    world.close().expect("a disk in memory");
    drop((edit, world));
    let world = open(&disk, Access::Write).expect("a disk in memory");
    let mut models = Vec::new();
    let mut saves = vec![(file_bytes(&disk).len(), model.clone())];
    for number in 0..3 {
        models = vec![model.clone()];
        let (put, gone) = (ChunkPos::new(number, 0), ChunkPos::new(number, 1));
        let cells = noise(1000 + number as u64);
        world
            .edit()
            .put(put, cells.clone())
            .remove(gone)
            .commit(Durability::Synced)
            .expect("a disk in memory");
        model.cells.insert(put, cells);
        model.cells.remove(&gone);
        model.bodies.remove(&gone);
        model.entities.remove(&gone);
        saves.push((file_bytes(&disk).len(), model.clone()));
    }
    if is_closed {
        world.close().expect("a disk in memory");
        models.clear();
    }
    let bytes = file_bytes(&disk);
    drop(world);
    models.push(model);
    Sample { bytes, models, saves }
}

/// What is lost of a world: errors, by place and kind. Panics if something is there that was not saved, or nothing is where
/// something was.
fn lost(world: &ChunkWorld, model: &Model) -> Result<Lost, String> {
    let mut lost = BTreeSet::new();
    for pos in every_pos(world, model) {
        match world.read(pos) {
            Err(error) if error.is_corrupt() => drop(lost.insert(("cells", pos))),
            Err(error) => return Err(format!("cells of {pos}: {error}")),
            Ok(found) if found.as_ref() == model.cells.get(&pos) => {}
            Ok(found) => {
                return Err(format!(
                    "cells of {pos}: {:?} is not what was saved",
                    found.map(|cells| cells.len())
                ));
            }
        }
        match world.read_bodies(pos) {
            Err(error) if error.is_corrupt() => drop(lost.insert(("bodies", pos))),
            Err(error) => return Err(format!("bodies of {pos}: {error}")),
            Ok(found) if found == model.bodies.get(&pos).cloned().unwrap_or_default() => {}
            Ok(found) => return Err(format!("bodies of {pos}: {} are not what was saved", found.len())),
        }
        match world.read_entities(pos) {
            Err(error) if error.is_corrupt() => drop(lost.insert(("entities", pos))),
            Err(error) => return Err(format!("entities of {pos}: {error}")),
            Ok(found) if found.as_ref() == model.entities.get(&pos) => {}
            Ok(_) => return Err(format!("entities of {pos} are not what was saved")),
        }
    }
    Ok(lost)
}

fn every_pos(world: &ChunkWorld, model: &Model) -> BTreeSet<ChunkPos> {
    let all = ChunkRect::ALL;
    let saved = model.cells.keys().chain(model.bodies.keys()).chain(model.entities.keys()).copied();
    saved
        .chain(world.iter())
        .chain(world.chunks_with_bodies(all))
        .chain(world.chunks_with_entities(all))
        .collect()
}

/// Opens a damaged world in both ways, closes it, opens it again, and heals it.
fn check(bytes: &[u8], damage: usize, sample: &Sample, lost_max: usize) -> Result<usize, String> {
    let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes.to_vec())]);
    let text = |error: bonfire::Error| error.to_string();
    let reader = if damage.is_multiple_of(3) { Some(open(&disk, Access::Read).map_err(text)?) } else { None };
    let reader = reader.map(|reader| best(&reader, sample)).transpose();
    let reader = reader.map_err(|why| format!("to read: {why}"))?;
    let world = open(&disk, Access::Write).map_err(text)?;
    let (model, read) = best(&world, sample).map_err(|why| format!("to write: {why}"))?;
    if reader.as_ref().is_some_and(|(_, reader)| *reader != read) || read.len() > lost_max {
        return Err(format!(
            "{reader:?} are lost when it is read, {read:?} when it is written",
            reader = reader.map(|(_, lost)| lost)
        ));
    }
    // What is found when it is read is put aside when the file is written anew.
    let aside = read.iter().filter(|(what, _)| *what != "removal").count();
    let is_aside = world.info().set_aside.len() == aside || damage.is_multiple_of(2);
    if is_aside && world.info().set_aside.len() < aside {
        world.compact(|_, _| {}).map_err(text)?;
    }
    world.close().map_err(text)?;
    drop(world);
    if read.is_empty() || damage % 3 != 1 && !damage.is_multiple_of(15) {
        return Ok(read.len());
    }
    // It stays lost, is reported as such, and is the only thing that is wrong.
    let world = open(&disk, Access::Write).map_err(text)?;
    let again = lost(&world, model).map_err(|why| format!("again: {why}"))?;
    if again != read || !world.report().is_fine() || is_aside != (world.info().set_aside.len() == aside) {
        return Err(format!(
            "{again:?} are lost after {read:?}, {:?}, {:?}",
            world.report(),
            world.info().set_aside
        ));
    }
    let mut healed = model.clone();
    let mut edit = world.edit();
    for (what, pos) in &again {
        match *what {
            "cells" => {
                let cells = vec![9; SIZE * SIZE * 4];
                healed.cells.insert(*pos, cells.clone());
                edit.put(*pos, cells);
            }
            "removal" => drop(edit.remove(*pos)),
            "bodies" => {
                let centre = [pos.x, pos.y].map(|at| (at * SIZE as i32) as f32 + 1.0);
                healed.bodies.insert(*pos, vec![body(7777, centre)]);
                edit.put_bodies(*pos, healed.bodies[pos].clone());
            }
            _ => {
                healed.entities.insert(*pos, snapshot().to_vec());
                edit.put_entities(*pos, snapshot().to_vec());
            }
        }
    }
    edit.commit(Durability::Synced).map_err(text)?;
    if !lost(&world, &healed)?.is_empty() || !world.info().set_aside.is_empty() {
        return Err("it is not healed by a save".into());
    }
    Ok(read.len())
}

/// The state of which the least is lost: the last save, or the one before if the last was not in a checkpoint.
fn best<'s>(world: &ChunkWorld, sample: &'s Sample) -> Result<(&'s Model, Lost), String> {
    let mut first_error = None;
    for model in sample.models.iter().rev() {
        match lost(world, model) {
            Ok(lost) => return Ok((model, lost)),
            Err(why) => drop(first_error.get_or_insert(why)),
        }
    }
    Err(first_error.unwrap_or_default())
}

/// Runs `check` for every number below `end`, on all processors.
fn for_all(end: usize, what: &str, check: impl Fn(usize) -> Result<usize, String> + Sync) {
    let (next, losses) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                break;
            }
            match check(number) {
                Ok(lost) => drop(losses.fetch_add(lost, Ordering::Relaxed)),
                Err(why) => panic!("{what} {number} of {end}: {why}"),
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        other.join().expect("the other half");
    });
    println!("{end} times {what}, {} parts lost", losses.into_inner());
}

/// Every byte is damaged of a world of 48 KB in CI, and of a megabyte in a long run.
fn len() -> usize {
    if scale() >= 100 { 1 << 20 } else { 52 << 10 }
}

fn flip_every_byte(len: usize, is_closed: bool) {
    let sample = sample(len, is_closed);
    let flips = sample.bytes.len() * 3;
    for_all(flips, &format!("a byte of {} flipped", sample.bytes.len()), |number| {
        let mut bytes = sample.bytes.clone();
        bytes[number / 3] ^= [0x01, 0x80, 0xFF][number % 3];
        check(&bytes, number, &sample, 1)
    });
}

#[test]
fn a_flipped_byte_of_a_closed_world_costs_one_part_at_most() {
    flip_every_byte(len(), true);
}

#[test]
fn a_flipped_byte_of_a_world_that_was_not_closed_costs_one_part_or_the_last_save() {
    flip_every_byte(len() / 4, false);
}

/// The places of chunks, from the page table: position, where the frame begins, where it ends.
fn table(bytes: &[u8]) -> Vec<(ChunkPos, usize, usize)> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let entry = |number: usize| {
        let at = HEADER_BYTES + number * 24;
        let (start, len) = (word(at + 8) as usize, word(at + 16) as usize);
        (ChunkPos::new(word(at).cast_signed(), word(at + 4).cast_signed()), start - 4, start + len + 32)
    };
    (0..word(32) as usize).map(entry).collect()
}

fn data_start(bytes: &[u8]) -> usize {
    u32::from_le_bytes(bytes[40..44].try_into().expect("four bytes")) as usize
}

/// All chunks that lie before the cut are there, and the others are errors as long as the table names them.
#[test]
fn a_world_that_was_cut_has_all_that_is_left_of_it() {
    let sample = sample(len().min(52 << 10), true);
    let (model, table) = (&sample.models[0], table(&sample.bytes));
    for_all(sample.bytes.len(), "a closed world cut", |len| {
        let disk = MemoryDisk::with_files([(NAME.to_owned(), sample.bytes[..len].to_vec())]);
        let access = if len.is_multiple_of(5) { Access::Write } else { Access::Read };
        let world = match open(&disk, access) {
            Ok(world) => world,
            // The settings are the first frame behind the table.
            Err(error) if error.is_corrupt() && len < data_start(&sample.bytes) + 1000 => return Ok(0),
            Err(error) => return Err(error.to_string()),
        };
        let mut lost = 0;
        for (pos, _, end) in &table {
            let read = world.read(*pos);
            match read {
                Ok(Some(cells)) if *end <= len && cells == model.cells[pos] => {}
                Err(error) if *end > len && error.is_corrupt() => lost += 1,
                read => {
                    return Err(format!(
                        "{pos} until {end}: {:?}",
                        read.map(|cells| cells.map(|cells| cells.len()))
                    ));
                }
            }
        }
        for (pos, bodies) in &model.bodies {
            match world.read_bodies(*pos) {
                Ok(found) if found.is_empty() || found == *bodies => {}
                Err(error) if error.is_corrupt() => {}
                found => return Err(format!("bodies of {pos}: {found:?}")),
            }
        }
        Ok(lost)
    });
}

/// A world that was not closed is cut behind the last checkpoint: it has all saves that are whole, and not a part of another.
#[test]
fn a_cut_between_saves_leaves_those_before_it() {
    let sample = sample(len() / 4, false);
    let first = sample.saves[0].0;
    for_all(sample.bytes.len() - first, "saves cut", |cut| {
        let len = first + cut;
        let disk = MemoryDisk::with_files([(NAME.to_owned(), sample.bytes[..len].to_vec())]);
        let access = if len.is_multiple_of(2) { Access::Write } else { Access::Read };
        let world = open(&disk, access).map_err(|error| error.to_string())?;
        let (_, model) = sample.saves.iter().rev().find(|(end, _)| *end <= len).expect("the first");
        let lost = lost(&world, model)?;
        if lost.is_empty() && world.report().damaged.is_empty() { Ok(0) } else { Err(format!("{lost:?}")) }
    });
}

/// Four worlds: closed, not closed, written anew, and never written anew.
fn samples() -> [Sample; 4] {
    let closed = sample(20 << 10, true);
    let disk = MemoryDisk::with_files([(NAME.to_owned(), closed.bytes)]);
    let world = open(&disk, Access::Write).expect("it is whole");
    world.compact(|_, _| {}).and_then(|()| world.close()).expect("a disk in memory");
    drop(world);
    let compacted = Sample { bytes: file_bytes(&disk), saves: Vec::new(), models: closed.models };
    [sample(20 << 10, true), sample(20 << 10, false), compacted, never_rewritten()]
}

/// Its settings are of the save that made the file.
fn never_rewritten() -> Sample {
    let (disk, mut model) = (MemoryDisk::new(), Model::default());
    let options = options().clone().table_capacity(100);
    let world = options.open_on(disk.clone(), NAME, Access::Write).expect("a disk in memory");
    let mut edit = world.edit();
    for x in 0..20 {
        edit.put((x, 0), noise(x as u64));
        model.cells.insert(ChunkPos::new(x, 0), noise(x as u64));
    }
    edit.commit(Durability::Synced).and_then(|_| world.close()).expect("a disk in memory");
    Sample { bytes: file_bytes(&disk), saves: Vec::new(), models: vec![model] }
}

/// What is overwritten, where, and with what.
type Case<'c> = (&'c str, std::ops::Range<usize>, &'c dyn Fn(usize) -> u8);

#[test]
fn without_header_and_table_everything_is_found_again() {
    for (number, sample) in samples().into_iter().enumerate() {
        let table_end = data_start(&sample.bytes);
        let garbage = |byte: usize| (byte * 37 + 11) as u8;
        let cases: [Case<'_>; 5] = [
            ("zeroed header", 0..HEADER_BYTES, &|_| 0),
            ("zeroed table", HEADER_BYTES..table_end, &|_| 0),
            ("zeroed header and table", 0..table_end, &|_| 0),
            ("garbage for a header", 0..HEADER_BYTES, &garbage),
            ("garbage for a table", HEADER_BYTES..table_end, &garbage),
        ];
        for (what, range, byte) in cases {
            for access in [Access::Read, Access::Write] {
                let mut bytes = sample.bytes.clone();
                range.clone().for_each(|at| bytes[at] = byte(at));
                let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
                let world =
                    open(&disk, access).unwrap_or_else(|error| panic!("{what} of world {number}: {error}"));
                let model = sample.models.last().expect("at least one");
                let lost = lost(&world, model);
                assert_eq!(lost, Ok(BTreeSet::new()), "{what} of world {number}");
                let report = world.report();
                assert_eq!(report.header_rebuilt, range.start == 0, "{what} of world {number}: {report:?}");
                assert!(
                    !report.is_fine() && report.damaged.is_empty(),
                    "{what} of world {number}: {report:?}"
                );
                if access == Access::Write {
                    world.close().expect("a disk in memory");
                    drop(world);
                    assert_eq!(open(&disk, access).expect("it was mended").report(), &OpenReport::default());
                }
            }
        }
    }
}

/// The header is one that no other process will ever write, so there is nothing to wait for.
#[test]
fn a_reader_gets_an_error_for_a_damaged_chunk_behind_a_damaged_header() {
    let disk = MemoryDisk::new();
    for (pos, seed) in [((0, 0), 1), ((1, 0), 2)] {
        let world = open(&disk, Access::Write).expect("a disk in memory");
        world.edit().put(pos, noise(seed)).commit(Durability::Synced).expect("a disk in memory");
        world.close().expect("a disk in memory");
    }
    let mut bytes = file_bytes(&disk);
    let (_, offset, _) = table(&bytes)[0];
    bytes[offset + 5] ^= 1;
    // Damaged, and whole with a count that does not fit the table.
    let (mut flipped, mut foreign) = (bytes.clone(), bytes);
    flipped[20] ^= 1;
    foreign[32..36].fill(0xFF);
    let crc = crc32c::crc32c(&foreign[..61]).to_le_bytes();
    foreign[61..64].copy_from_slice(&crc[..3]);
    for bytes in [flipped, foreign] {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
            let world = open(&disk, Access::Read).expect("the last save has a copy of the header");
            let read = [(0, 0), (1, 0)].map(|pos| world.read(pos));
            sender.send((world.report().header_rebuilt, read)).expect("somebody waits");
        });
        let found = receiver.recv_timeout(std::time::Duration::from_secs(30));
        let (is_rebuilt, [damaged, whole]) = found.expect("a read comes back");
        assert!(is_rebuilt && damaged.expect_err("it is damaged").is_corrupt());
        assert_eq!(whole.expect("it is whole"), Some(noise(2)));
    }
}

#[test]
fn a_frame_that_is_gone_costs_no_other_one() {
    for (number, sample) in samples().into_iter().enumerate() {
        let mut at = data_start(&sample.bytes);
        let mut frames = Vec::new();
        while at < sample.bytes.len() {
            let size = u32::from_le_bytes(sample.bytes[at..at + 4].try_into().expect("four bytes")) as usize;
            frames.push(at..at + 4 + size);
            at += 4 + size;
        }
        assert!(frames.len() > 20);
        for_all(frames.len() * 2, &format!("a frame of world {number} zeroed"), |which| {
            let mut bytes = sample.bytes.clone();
            bytes[frames[which / 2].clone()].fill(if which.is_multiple_of(2) { 0 } else { 0x9B });
            check(&bytes, which * 3, &sample, 1)
        });
    }
}
