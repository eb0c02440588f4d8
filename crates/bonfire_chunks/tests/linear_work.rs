//! Work grows with the bytes of a file and not faster, whatever they say. Each test makes a hostile file of some size and one of
//! twice the size, and compares the steps that were counted.

mod crafted;

use bonfire::Watch;
use bonfire_chunks::{ChunkOptions, ChunkWorld, Layer, Layers, Persistence};
use bonfire_store::disk::{Access, MemoryDisk};
use crafted::*;

const IMAGE: u8 = 4;

fn options(watch: &Watch) -> ChunkOptions {
    let layers = Layers::new().with(Layer::new("m", 1).persistence(Persistence::Always));
    ChunkOptions::new(layers).chunk_size(SIZE).tile_size(2).threads(1).watch(watch)
}

fn open(bytes: &[u8], access: Access, watch: &Watch) -> bonfire::Result<ChunkWorld> {
    let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes.to_vec())]);
    options(watch).open_on(disk, NAME, access)
}

fn steps(bytes: &[u8]) -> u64 {
    let watch = Watch::new();
    // Whether it is a world does not matter.
    let _ = open(bytes, Access::Read, &watch);
    watch.steps()
}

/// Makes a file of `size` things and one of twice as many.
fn is_linear(size: usize, make: impl Fn(usize) -> Vec<u8>) {
    let (small, large) = (make(size), make(2 * size));
    assert!(small.len() > 600_000, "windows must not matter: {} bytes", small.len());
    let (few, many) = (steps(&small), steps(&large));
    assert!(few >= small.len() as u64 / 8, "{few} steps for {} bytes: they are not counted", small.len());
    assert!(few < 40 * small.len() as u64, "{few} steps for {} bytes", small.len());
    let growth = many as f64 / few as f64;
    let bytes = large.len() as f64 / small.len() as f64;
    assert!(growth <= 1.1 * bytes, "{few} steps become {many} with {bytes:.2} times the bytes");
}

/// A whole save behind the end of a file, with some frames of its own.
fn save(bytes: &mut Vec<u8>, generation: u64, frames: &[Vec<u8>], listed: &[Entry]) {
    let header = bytes[..64].to_vec();
    let mut crcs = Vec::new();
    frames.iter().for_each(|frame| bytes.extend(frame));
    for entry in listed {
        let end = entry.offset as usize + entry.len as usize + 32;
        crcs.extend(&bytes[end - 4..end]);
    }
    let list: Vec<u8> = listed.iter().flat_map(Entry::of_list).collect();
    let commit = [
        &header[..],
        &(generation - 1).to_le_bytes(),
        &crc32c(&crcs).to_le_bytes(),
        &0_u32.to_le_bytes(),
        &(listed.len() as u32).to_le_bytes(),
        &list,
    ]
    .concat();
    bytes.extend(frame(COMMIT, (0, 0), [0; 3], generation, &commit));
}

/// A frame at the end of the file, and its entry.
fn new_frame(at: usize, kind: u8, pos: (i32, i32), generation: u64, data: &[u8]) -> (Vec<u8>, Entry) {
    let entry =
        Entry { kind, pos, offset: at as u64 + 4, len: data.len() as u32, tag: [0; 3], ..Entry::default() };
    (frame(kind, pos, [0; 3], generation, data), entry)
}

#[test]
fn many_images_of_a_table_in_one_save() {
    is_linear(20_000, |count| {
        let mut bytes = File::new(4).finish();
        let images = vec![frame(IMAGE, (0, 0), [0; 3], 2, &[]); count];
        save(&mut bytes, 2, &images, &[]);
        bytes
    });
}

#[test]
fn an_image_in_each_of_many_saves() {
    is_linear(4_000, |count| {
        let mut bytes = File::new(4).finish();
        for number in 0..count {
            let generation = number as u64 + 2;
            // A change that no image of the table takes away.
            let (bodies, entry) = new_frame(bytes.len(), BODIES, (number as i32, 0), generation, &[0; 8]);
            save(&mut bytes, generation, &[bodies, frame(IMAGE, (0, 0), [0; 3], generation, &[])], &[entry]);
        }
        bytes
    });
}

#[test]
fn a_trailer_at_every_place() {
    is_linear(30_000, |count| {
        let mut bytes = File::new(4).finish();
        for number in 0..count {
            // Each claims all that is before it.
            let mut trailer = frame(CHUNK, (0, 0), [0; 3], 2, &[])[4..].to_vec();
            trailer[16..20].copy_from_slice(&(number as u32 * 32).to_le_bytes());
            bytes.extend(trailer);
        }
        bytes
    });
}

#[test]
fn a_trailer_at_every_place_of_a_file_that_is_no_world() {
    is_linear(200_000, |count| {
        let mut bytes = b"this is not a chunk world, and has no header. ".repeat(4);
        (0..count).for_each(|_| bytes.extend([0x9B, b'B', b'N', b'F']));
        bytes
    });
}

#[test]
fn a_size_at_every_place_that_leads_to_a_trailer() {
    is_linear(9_000, |count| {
        let mut bytes = File::new(4).finish();
        let len = count as u32 * 40;
        for _ in 0..2 * count {
            let mut trailer = frame(CHUNK, (0, 0), [0; 3], 2, &[])[4..].to_vec();
            trailer[16..20].copy_from_slice(&len.to_le_bytes());
            bytes.extend([0, 0, 0, 0]);
            bytes.extend((len + 32).to_le_bytes());
            bytes.extend(trailer);
        }
        bytes
    });
}

#[test]
fn a_long_chain_of_lists() {
    is_linear(14_000, |count| {
        let mut file = File::new(4);
        for _ in 0..count {
            let list = [&file.earlier.to_le_bytes()[..], &0_u32.to_le_bytes()].concat();
            file.earlier = file.append(SIDE, (0, 0), [0; 3], &list).offset;
        }
        file.finish()
    });
}

#[test]
fn a_table_full_of_damaged_entries() {
    is_linear(15_000, |count| {
        let mut file = File::new(count as u32);
        let frames: Vec<Entry> = (0..count).map(|number| file.chunk((number as i32, 0), 1)).collect();
        let mut bytes = file.finish();
        // Their saves are there once more, so that the entries might be half written.
        save(&mut bytes, 2, &[], &frames);
        for number in 0..count {
            bytes[64 + number * 24 + 21] ^= 0x55;
        }
        bytes
    });
}

#[test]
fn commits_that_list_the_same_frames_again_and_again() {
    is_linear(600, |count| {
        let mut file = File::new(4);
        let chunk = file.chunk((0, 0), 1);
        let mut bytes = file.finish();
        for number in 0..count {
            save(&mut bytes, number as u64 + 2, &[], &[chunk; 40]);
        }
        bytes
    });
}

#[test]
fn an_open_reports_progress_and_ends_when_it_is_cancelled() {
    let mut file = File::new(5_000);
    for number in 0..5_000 {
        file.chunk((number, 0), 1);
    }
    let mut bytes = file.finish();
    bytes[64 + 21] ^= 1;
    let watch = Watch::new();
    let world = open(&bytes, Access::Read, &watch).unwrap();
    assert!(world.report().table_rebuilt);
    assert!(watch.total() > 200_000 && watch.done() == watch.total(), "{watch:?}");
    for access in [Access::Read, Access::Write] {
        let watch = Watch::new();
        watch.cancel();
        assert!(open(&bytes, access, &watch).err().unwrap().is_cancelled());
    }
}
