//! Any bytes as a chunk world: opened to read and to write, everything read, checked, compacted and closed. What could be read
//! before is the same afterwards, in the present and at pins; the world goes back to pins. The work of opening is counted, and is at most what the bytes are worth.
#![no_main]

use std::collections::BTreeMap;

use bonfire::Watch;
use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkRect, ChunkWorld};
use bonfire_store::SealKey;
use bonfire_store::disk::{Access, MemoryDisk};
use libfuzzer_sys::fuzz_target;

const NAME: &str = "world.save";
/// A few scans of the file, each with a few reads of a window, and patience for frames that turn out not to be any.
const STEPS_PER_BYTE: u64 = 100;
const STEPS_MIN: u64 = 16 << 20;
/// Chunks are so small that a million of them is no memory.
const CHUNK_BYTES_MAX: usize = 1 << 16;
/// Each of them is read as a whole.
const PINS_MAX: usize = 20;

type Cells = BTreeMap<ChunkPos, Vec<u8>>;

/// The cells of the present, and of each pin.
fn read(world: &ChunkWorld) -> (Cells, BTreeMap<String, Cells>) {
    let pins = world.pins().into_iter().take(PINS_MAX);
    let of_pins = pins.filter_map(|pin| Some((pin.name.clone(), read_moment(&world.at(&pin.name).ok()?))));
    (read_moment(world), of_pins.collect())
}

fn read_moment(world: &ChunkWorld) -> Cells {
    for pos in world.chunks_with_bodies(ChunkRect::ALL) {
        let _ = world.read_bodies(pos);
    }
    for pos in world.chunks_with_entities(ChunkRect::ALL) {
        let _ = world.read_entities(pos);
    }
    let _ = world.info();
    if !has_small_chunks(world) {
        return BTreeMap::new();
    }
    let _ = world.check(|_, _| {});
    world.iter().filter_map(|pos| Some((pos, world.read(pos).ok()??))).collect()
}

/// Returns true if a chunk of any dimension is no memory.
fn has_small_chunks(world: &ChunkWorld) -> bool {
    let shapes = world.dimensions().filter_map(|number| world.shape(number));
    let mut bytes = shapes.map(|shape| {
        let edges = if shape.is_three_dimensional { 3 } else { 2 };
        (shape.chunk_size as usize).pow(edges) * shape.layers.cell_bytes()
    });
    bytes.all(|bytes| bytes <= CHUNK_BYTES_MAX)
}

fn number(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, |word| u32::from_le_bytes(word) as usize)
}

fn crc8(bytes: &[u8]) -> u8 {
    let bit = |crc: u8, _| if crc & 0x80 != 0 { (crc << 1) ^ 0x07 } else { crc << 1 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ byte, bit))
}

/// The mutations that matter lie behind checksums, so those are made right: of the header, the table, and the frames as far
/// as their sizes lead.
fn mend(bytes: &mut [u8]) {
    if bytes.len() < 64 {
        return;
    }
    let (count, mut at) = (number(bytes, 32), number(bytes, 40).max(64));
    let entry_bytes = if bytes[4] == 2 { 32 } else { 24 };
    for entry in bytes[64..].chunks_exact_mut(entry_bytes).take(count) {
        entry[21] = crc8(&[&entry[..21], &entry[24..]].concat());
    }
    while let Some(size) = bytes.get(at..at + 4).map(|_| number(bytes, at)).filter(|size| *size >= 32) {
        let Some(frame) = bytes.get_mut(at + 4..at + 4 + size) else { break };
        let trailer = size - 32;
        frame[trailer..trailer + 4].copy_from_slice(&[0x9B, b'B', b'N', b'F']);
        frame[trailer + 16..trailer + 20].copy_from_slice(&(trailer as u32).to_le_bytes());
        let crc = crc32c::crc32c(&frame[..size - 4]).to_le_bytes();
        frame[size - 4..].copy_from_slice(&crc);
        at += 4 + size;
    }
    let check = crc32c::crc32c(&bytes[..61]).to_le_bytes();
    bytes[61..64].copy_from_slice(&check[..3]);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if mode & 1 == 1 {
        mend(&mut bytes);
    }
    let steps_max = bytes.len() as u64 * STEPS_PER_BYTE + STEPS_MIN;
    let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
    if mode & 4 == 4 {
        // Somebody with the key opens what somebody without it has made.
        let watch = Watch::new();
        let options = ChunkOptions::as_is().sealed(SealKey::from_bytes([1; 32])).watch(&watch);
        let options = if mode & 8 == 8 { options.salvage() } else { options };
        if let Ok(world) = options.open_on(disk.clone(), NAME, Access::Write) {
            read(&world);
        }
        assert!(watch.steps() <= steps_max, "{} steps", watch.steps());
        return;
    }
    let watch = Watch::new();
    let opened = ChunkOptions::as_is().watch(&watch).open_on(disk.clone(), NAME, Access::Read);
    assert!(watch.steps() <= steps_max, "{} steps", watch.steps());
    let Ok(reader) = opened else { return };
    let before = read(&reader);
    drop(reader);
    let Ok(world) = ChunkWorld::open_as_is_on(disk.clone(), NAME, Access::Write) else { return };
    assert_eq!(read(&world), before);
    if mode & 2 == 2 {
        world.compact(|_, _| {}).expect("a disk in memory");
    }
    world.close().expect("a disk in memory");
    drop(world);
    let world = ChunkWorld::open_as_is_on(disk, NAME, Access::Write).expect("it was closed");
    assert_eq!(read(&world), before);
    assert!(world.report().damaged.is_empty());
    for (name, cells) in &before.1 {
        if world.return_to(name).is_ok() && has_small_chunks(&world) {
            assert_eq!(read_moment(&world), *cells);
        }
    }
    for (name, _) in before.1 {
        let _ = world.unpin(&name);
    }
});
