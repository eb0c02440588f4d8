//! Any bytes as what a file says of its pins: names, lists and returns, in frames that are whole. The present is read as it was, chunks
//! of pins are those of their places or errors, and the file goes on being used. A first byte that is odd makes it a file of version 2.
#![no_main]

#[path = "../../crates/bonfire_chunks/tests/crafted/mod.rs"]
mod crafted;

use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkWorld, Dimension, Durability, Layer, Layers, Persistence};
use bonfire_store::disk::{Access, MemoryDisk};
use crafted::{CHUNK, CHUNK_BYTES, File, NAME, SETTINGS, SIZE, settings};
use libfuzzer_sys::fuzz_target;

/// The dimension of cubes that files of version 2 have.
const CUBES: u32 = 1;

fn options(is_deep: bool) -> ChunkOptions {
    let layers = || Layers::new().with(Layer::new("m", 1).persistence(Persistence::Always));
    let options = ChunkOptions::new(layers()).chunk_size(SIZE).tile_size(2).threads(1);
    let cubes = Dimension::new(layers()).chunk_size(2).tile_size(2).three_dimensional();
    if is_deep { options.dimension(CUBES, cubes) } else { options }
}

/// Makes it a file of version 2, with a cube of the present and one that only pins may have.
fn add_cubes(file: &mut File) {
    file.header.version = 2;
    let of_cubes = [settings(2), vec![2, 1, 0, 3]].concat();
    for y in 0..2 {
        let entry = file.append_deep(SETTINGS, (0, y), (0, CUBES), [0; 3], &of_cubes);
        file.side.push(entry);
    }
    let cube = file.append_deep(CHUNK, (4, 0), (-1, CUBES), [2, 1, 0], &[4; 8]);
    file.table.push(cube);
    file.append_deep(CHUNK, (5, 0), (2, CUBES), [2, 1, 0], &[5; 8]);
}

/// Chunks of a pin have the number of their column in all cells, or cannot be read.
fn check_pins(world: &ChunkWorld) {
    for pin in world.pins() {
        let Ok(at) = world.at(&pin.name) else { continue };
        for pos in at.iter() {
            let Ok(Some(cells)) = at.read(pos) else { continue };
            assert!(cells.iter().all(|cell| i32::from(*cell) == pos.x));
        }
    }
}

fn check_present(world: &ChunkWorld, is_deep: bool) {
    if is_deep {
        let cube = ChunkPos::new_3d(4, 0, -1).in_dimension(CUBES);
        assert_eq!(world.read(cube).ok().flatten(), Some(vec![4; 8]));
    }
    for x in 0..3 {
        assert_eq!(world.read((x, 0)).ok().flatten(), Some(vec![x as u8; CHUNK_BYTES]));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let is_deep = mode & 1 == 1;
    let mut file = File::new(8);
    (0..3).for_each(|x| _ = file.chunk((x, 0), x as u8));
    // A chunk that the present has not: it begins at byte 590, and mutations find it.
    file.chunk((7, 1), 7);
    file.table.pop();
    if is_deep {
        add_cubes(&mut file);
    }
    file.header.flags |= 16;
    let mut rest = bytes;
    // Kind, number, part, length, data.
    while let Some(([kind, number, part, len], data)) = rest.split_first_chunk() {
        let (data, behind) = data.split_at(usize::from(*len).min(data.len()));
        let pos = (i32::from(number % 8), i32::from(part % 4));
        let entry = file.append(14 + kind % 3, pos, [0, 0, 0], data);
        file.side.push(entry);
        rest = behind;
    }
    let disk = MemoryDisk::with_files([(NAME.to_owned(), file.finish())]);
    let Ok(world) = options(is_deep).open_on(disk.clone(), NAME, Access::Write) else { return };
    check_present(&world, is_deep);
    check_pins(&world);
    world.compact(|_, _| {}).expect("a disk in memory");
    check_present(&world, is_deep);
    check_pins(&world);
    for (number, pin) in world.pins().into_iter().enumerate() {
        let _ = world.return_to(&pin.name);
        world.edit().put((9, number as i32), vec![9; CHUNK_BYTES]).commit(Durability::Synced).expect("a disk in memory");
        check_pins(&world);
        if number % 2 == 0 {
            assert!(world.unpin(&pin.name).expect("a disk in memory"));
        }
    }
    drop(world);
    let world = options(is_deep).open_on(disk, NAME, Access::Write).expect("it was written by this version");
    assert!(world.report().damaged.is_empty());
    check_pins(&world);
});
