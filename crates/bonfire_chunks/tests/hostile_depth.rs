//! Files of version 2 that somebody made to do harm: places in forms that nobody writes, kinds with wrong bits, depths that are cut, and
//! places with depth where the version has none. What is read is what was saved under its place, or an error.

mod crafted;

use bonfire::Result;
use bonfire_chunks::{
    ChunkOptions, ChunkPos, ChunkWorld, Dimension, Durability, Layer, Layers, MemoryDisk, Persistence,
};
use bonfire_store::disk::Access;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use crafted::{
    CHUNK, CHUNK_BYTES, Depth, Entry, File, HAS_DEPTH, NAME, SETTINGS, SIZE, encode_depth, settings,
};

/// A dimension of cubes of 2 by 2 by 2 cells, and one of squares like the first one.
const CUBES: u32 = 1;
const SQUARES: u32 = 2;
const WHOLE: [u8; 3] = [2, 1, 0];

fn options() -> ChunkOptions {
    let layers = || Layers::new().with(Layer::new("m", 1).persistence(Persistence::Always));
    let cubes = Dimension::new(layers()).chunk_size(2).tile_size(2).three_dimensional();
    let squares = Dimension::new(layers()).chunk_size(SIZE).tile_size(2);
    let options = ChunkOptions::new(layers()).chunk_size(SIZE).tile_size(2).threads(1);
    options.dimension(CUBES, cubes).dimension(SQUARES, squares)
}

/// The byte that all cells of a chunk have.
fn fill(pos: ChunkPos) -> u8 {
    (pos.x * 30 + pos.y * 10 + pos.z * 3) as u8 ^ pos.dimension as u8
}

fn chunk_bytes(dimension: u32) -> usize {
    if dimension == CUBES { 8 } else { CHUNK_BYTES }
}

/// A file of version 2 with settings of all dimensions, and room for six chunks.
fn file() -> File {
    let mut file = File::new(8);
    file.header.version = 2;
    let of_cubes = [settings(2), vec![2, 1, 0, 3]].concat();
    for (dimension, data) in [(CUBES, of_cubes), (SQUARES, settings(SIZE))] {
        for y in 0..2 {
            let entry = file.append_deep(SETTINGS, (0, y), (0, dimension), [0; 3], &data);
            file.side.push(entry);
        }
    }
    file
}

fn deep_chunk(file: &mut File, (x, y): (i32, i32), depth: Depth) -> Entry {
    let pos = ChunkPos::new_3d(x, y, depth.0).in_dimension(depth.1);
    let cells = vec![fill(pos); chunk_bytes(depth.1)];
    let entry = file.append_deep(CHUNK, (x, y), depth, WHOLE, &cells);
    file.table.push(entry);
    entry
}

fn flat_chunk(file: &mut File, pos: (i32, i32)) -> Entry {
    file.chunk(pos, fill(pos.into()))
}

fn check_cells(world: &ChunkWorld) {
    for pos in world.iter() {
        if let Ok(Some(cells)) = world.read(pos) {
            assert!(cells.iter().all(|cell| *cell == fill(pos)), "{pos} has other cells");
        }
    }
}

/// Opens it in every way, and uses it.
fn survive(bytes: &[u8]) -> Vec<Result<ChunkWorld>> {
    let mut results = Vec::new();
    for access in [Access::Read, Access::Write] {
        for options in [options(), ChunkOptions::as_is()] {
            let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes.to_vec())]);
            let opened = options.open_on(disk.clone(), NAME, access);
            let Ok(world) = opened.map_err(|error| results.push(Err(error))) else { continue };
            check_cells(&world);
            let _ = (world.info(), world.check(|_, _| {}));
            if access == Access::Write {
                let before = use_it(&world);
                drop(world);
                let world = options.open_on(disk, NAME, access).expect("we have written it");
                check_cells(&world);
                for (pos, cells) in before {
                    assert_eq!(world.read(pos).unwrap(), Some(cells), "{pos}");
                }
                results.push(Ok(world));
            } else {
                results.push(Ok(world));
            }
        }
    }
    results
}

/// Saves, checkpoints and compactions: what can be read goes through all of them. Returns it.
fn use_it(world: &ChunkWorld) -> Vec<(ChunkPos, Vec<u8>)> {
    // What is damaged is set aside.
    let read = || -> Vec<_> { world.iter().filter_map(|pos| Some((pos, world.read(pos).ok()??))).collect() };
    let before = read();
    let _ = world.pin("of today", []);
    let _ = world.compact(|_, _| {});
    assert_eq!(read(), before);
    for pos in [ChunkPos::new(3, 3), ChunkPos::new_3d(3, 3, -2).in_dimension(CUBES)] {
        let cells = vec![fill(pos); chunk_bytes(pos.dimension)];
        if world.edit().put(pos, cells.clone()).commit(Durability::Synced).is_ok() {
            assert_eq!(world.read(pos).unwrap(), Some(cells));
        }
    }
    check_cells(world);
    let _ = world.return_to("of today");
    check_cells(world);
    let _ = world.close();
    before
}

#[test]
fn a_file_of_version_2_that_was_made_by_hand_is_a_world() {
    let mut file = file();
    flat_chunk(&mut file, (1, 1));
    deep_chunk(&mut file, (1, 1), (-1, CUBES));
    deep_chunk(&mut file, (1, 1), (1, CUBES));
    deep_chunk(&mut file, (1, 1), (0, SQUARES));
    let bytes = file.finish();
    for result in survive(&bytes) {
        drop(result.unwrap());
    }
    let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
    let world = options().open_on(disk, NAME, Access::Read).unwrap();
    assert_eq!(world.report(), &bonfire_chunks::OpenReport::default());
    let cube = |z| ChunkPos::new_3d(1, 1, z).in_dimension(CUBES);
    let expected = [ChunkPos::new(1, 1), cube(-1), cube(1), ChunkPos::new(1, 1).in_dimension(SQUARES)];
    assert_eq!(world.iter().collect::<Vec<_>>(), expected);
    for pos in expected {
        assert_eq!(world.read(pos).unwrap(), Some(vec![fill(pos); chunk_bytes(pos.dimension)]));
    }
}

/// A place has one form. A frame or an entry that says a depth of 0 is none.
#[test]
fn a_depth_of_0_is_never_said() {
    let mut named = file();
    flat_chunk(&mut named, (0, 0));
    let entry = named.append_deep(CHUNK, (1, 1), (0, 0), WHOLE, &[fill((1, 1).into()); CHUNK_BYTES]);
    named.listed.pop();
    named.table.push(Entry { depth: None, ..entry });
    let bytes = named.finish();
    survive(&bytes);
    let world = options().open_on(MemoryDisk::with_files([(NAME.to_owned(), bytes)]), NAME, Access::Read);
    let world = world.unwrap();
    assert!(world.read((1, 1)).unwrap_err().is_corrupt());
    assert_eq!(world.read((0, 0)).unwrap(), Some(vec![0; CHUNK_BYTES]));

    let mut listed = file();
    let entry = flat_chunk(&mut listed, (1, 1));
    listed.listed.push(Entry { depth: Some((0, 0)), ..entry });
    survive(&listed.finish());
    let mut side = file();
    flat_chunk(&mut side, (1, 1));
    let settings = side.side[0];
    side.side.push(Entry { depth: Some((0, 0)), ..settings });
    survive(&side.finish());
}

#[test]
fn kinds_with_wrong_bits_are_no_frames() {
    let pos = ChunkPos::new(1, 1).in_dimension(SQUARES);
    let cells = [&vec![fill(pos); CHUNK_BYTES][..], &encode_depth((0, SQUARES))].concat();
    for kind in
        [CHUNK | 32, CHUNK | 32 | HAS_DEPTH, CHUNK | 128, CHUNK | 128 | HAS_DEPTH, HAS_DEPTH, 255, CHUNK]
    {
        let mut file = file();
        flat_chunk(&mut file, (0, 0));
        let entry = file.append(kind, (1, 1), WHOLE, &cells);
        file.listed.pop();
        file.table.push(Entry { kind: CHUNK, depth: Some((0, SQUARES)), ..entry });
        let bytes = file.finish();
        for world in survive(&bytes).into_iter().flatten() {
            assert_eq!(world.read((0, 0)).unwrap(), Some(vec![0; CHUNK_BYTES]), "{kind}");
        }
        let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
        let Ok(world) = options().open_on(disk, NAME, Access::Read) else { continue };
        // A frame of pins alone is one that the present may have, too: returns leave such.
        let is_whole = kind == CHUNK | 128 | HAS_DEPTH;
        assert_eq!(world.read(pos).is_ok_and(|cells| cells.is_some()), is_whole, "{kind}");
    }
}

#[test]
fn a_depth_that_is_cut_is_none() {
    for bytes in 0..8 {
        let mut file = file();
        flat_chunk(&mut file, (0, 0));
        let depth = &encode_depth((7, CUBES))[..bytes];
        let entry = file.append(CHUNK | HAS_DEPTH, (1, 1), WHOLE, depth);
        file.table.push(Entry { kind: CHUNK, depth: Some((7, CUBES)), ..entry });
        survive(&file.finish());
    }
    // The size word before so short a frame would be its z.
    let mut file = file();
    let entry = file.append(CHUNK | HAS_DEPTH, (1, 1), [0, 1, 0], &CUBES.to_le_bytes());
    file.table.push(Entry { kind: CHUNK, depth: Some((36, CUBES)), ..entry });
    survive(&file.finish());
    // The last entry of a list says that a depth follows, and it is the end.
    for len in 24..32 {
        let mut file = self::file();
        let entry = flat_chunk(&mut file, (0, 0));
        let deep = Entry { kind: CHUNK, depth: Some((7, CUBES)), ..entry }.of_list();
        let side = [&0_u64.to_le_bytes()[..], &1_u32.to_le_bytes(), &deep[..len]].concat();
        file.earlier = file.append(10, (0, 0), [0; 3], &side).offset;
        survive(&file.finish());
    }
}

/// A table of version 1 has no room for depth: nobody has written such frames there.
#[test]
fn a_file_of_version_1_has_no_places_with_depth() {
    const COMPAT: u16 = 2;
    for (flags, is_damaged) in [(0, true), (COMPAT, true), (0, false), (COMPAT, false)] {
        let mut file = file();
        (file.header.version, file.header.flags) = (1, file.header.flags | flags);
        flat_chunk(&mut file, (0, 0));
        deep_chunk(&mut file, (0, 0), (1, CUBES));
        deep_chunk(&mut file, (2, 1), (0, SQUARES));
        file.table.truncate(1);
        let mut bytes = file.finish();
        // Without its table, the file is what its frames say.
        bytes[64 + 21] ^= u8::from(is_damaged);
        survive(&bytes);
        let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
        for session in 0..3 {
            let access = if session == 0 { Access::Read } else { Access::Write };
            let world = ChunkOptions::as_is().open_on(disk.clone(), NAME, access).unwrap();
            assert!(world.report().damaged.is_empty(), "{flags}, {session}: {:?}", world.report());
            assert_eq!(world.iter().collect::<Vec<_>>(), [ChunkPos::new(0, 0)]);
            assert_eq!(world.read((0, 0)).unwrap(), Some(vec![0; CHUNK_BYTES]));
            assert_eq!(world.dimensions().collect::<Vec<_>>(), [0]);
            world.close().unwrap();
        }
    }
}

#[test]
fn one_column_with_many_depths() {
    let mut file = file();
    for z in [i32::MIN, -1, 1, i32::MAX] {
        deep_chunk(&mut file, (1, 1), (z.clamp(-20, 20), CUBES));
    }
    let far = file.append_deep(CHUNK, (1, 1), (i32::MIN, u32::MAX), WHOLE, &[7; CHUNK_BYTES]);
    file.table.push(far);
    let bytes = file.finish();
    survive(&bytes);
    let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes)]);
    let world = options().open_on(disk, NAME, Access::Write).unwrap();
    let last = ChunkPos::new_3d(1, 1, i32::MIN).in_dimension(u32::MAX);
    assert!(world.contains(last) && world.read(last).unwrap_err().is_misuse());
    world.compact(|_, _| {}).unwrap();
    assert!(world.contains(last));
}

#[test]
fn random_bytes_do_no_harm() {
    let mut random = Random::new(9);
    for _ in 0..400 * scale() {
        let mut file = file();
        let depths = [(-1, CUBES), (1, CUBES), (0, SQUARES)];
        flat_chunk(&mut file, (1, 1));
        for depth in depths {
            deep_chunk(&mut file, (1, 1), depth);
        }
        for _ in 0..random.below(3) {
            let all = &mut [&mut file.table, &mut file.side, &mut file.listed];
            let which = random.below(3);
            let list = &mut all[which];
            let number = random.below(list.len());
            let depth = *random.pick(&[(0, 0), (-1, CUBES), (2, CUBES), (0, SQUARES), (1, SQUARES), (5, 77)]);
            match random.below(3) {
                0 => list[number].depth = Some(depth),
                1 => list[number].depth = None,
                _ => list[number].kind ^= random.bytes(1)[0],
            }
        }
        let mut bytes = file.finish();
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] ^= random.bytes(1)[0];
        }
        survive(&bytes);
    }
}

#[cfg(feature = "seal")]
#[test]
fn a_file_that_says_that_it_is_sealed_is_refused() {
    let key = || bonfire_store::SealKey::from_bytes([1; 32]);
    for flags in [4, 12] {
        let mut file = file();
        file.header.flags |= flags;
        deep_chunk(&mut file, (1, 1), (1, CUBES));
        let bytes = file.finish();
        survive(&bytes);
        for options in [options().sealed(key()), options().sealed(key()).salvage()] {
            let disk = MemoryDisk::with_files([(NAME.to_owned(), bytes.clone())]);
            let Ok(world) = options.open_on(disk, NAME, Access::Write) else { continue };
            assert!(world.read(ChunkPos::new_3d(1, 1, 1).in_dimension(CUBES)).is_err());
        }
    }
}
