//! Damage of files of version 2, and changes of sealed ones.

mod releases;
mod support;

#[cfg(feature = "seal")]
use bonfire_chunks::{BodyId, ChunkPos, ChunkRect, ChunkWorld, Durability};
use bonfire_chunks::{ChunkOptions, Dimension, MemoryDisk};
use bonfire_store::disk::Access;
use releases::*;
use support::noise;

/// A release that has rolled another seed for cubes than this one would.
fn other_seed() -> ChunkOptions {
    let cubes = Dimension::new(gas()).chunk_size(4).tile_size(2).three_dimensional().new_world_seed(12);
    next_release().dimension(CUBES, cubes)
}

/// Where the trailers of the settings of other dimensions than the first one begin.
fn settings(bytes: &[u8]) -> Vec<usize> {
    let is_settings = |at: &usize| bytes[*at..].starts_with(&[0x9B, b'B', b'N', b'F', 7 | 64]);
    (0..bytes.len() - 5).filter(is_settings).collect()
}

/// Once there is room, both copies of the settings of a dimension are so far apart that one piece of damage does not meet both.
#[test]
fn the_settings_of_each_dimension_survive_a_piece_of_damage() {
    let disk = MemoryDisk::new();
    // A table that grows would move the first frames of the file.
    let world = open(&other_seed().table_capacity(200), &disk, Access::Write);
    (0..80).for_each(|x| put(&world, (x, 0), noise(x as u64)));
    put(&world, cube(0, 0, -1), gas_of(1));
    world.close().unwrap();
    drop(world);
    let whole = bytes(&disk);
    let settings = settings(&whole);
    assert!(settings.len() >= 4, "{settings:?}");
    for at in settings {
        let mut damaged = whole.clone();
        let end = (at + 1500).min(whole.len());
        damaged[at - 1500..end].fill(0xEE);
        let disk = MemoryDisk::with_files([(NAME.to_owned(), damaged)]);
        let world = next_release().open_on(disk, NAME, Access::Write).unwrap();
        assert_eq!(world.shape(CUBES).unwrap().seed, 12, "byte {at}");
        assert_eq!(world.read((40, 0)).unwrap(), Some(noise(40)), "byte {at}");
    }
}

/// With a seed and layers that the game makes up, cells would be read as something else.
#[test]
fn a_dimension_whose_settings_are_lost_is_refused() {
    let disk = MemoryDisk::new();
    let world = open(&other_seed(), &disk, Access::Write);
    put(&world, cube(0, 0, -1), gas_of(1));
    put(&world, (0, 0), noise(1));
    world.close().unwrap();
    drop(world);
    let mut damaged = bytes(&disk);
    settings(&damaged).into_iter().for_each(|at| damaged[at + 28] ^= 1);
    for access in [Access::Read, Access::Write] {
        let disk = MemoryDisk::with_files([(NAME.to_owned(), damaged.clone())]);
        let error = next_release().open_on(disk.clone(), NAME, access).unwrap_err();
        assert!(
            error.is_corrupt() && error.to_string().contains("settings of dimension 3 are lost"),
            "{error}"
        );
        // The others are there for a game that does without it.
        let world = first_release().open_on(disk, NAME, access).unwrap();
        assert_eq!(world.read((0, 0)).unwrap(), Some(noise(1)));
    }
}

#[cfg(feature = "seal")]
fn places() -> [ChunkPos; 4] {
    [cube(5, 6, -1), cube(5, 6, 1), ChunkPos::new(5, 6).in_dimension(SQUARES), ChunkPos::new(5, 6)]
}

/// Gives a frame another `z`, and makes its checksum right.
#[cfg(feature = "seal")]
fn set_depth(bytes: &mut [u8], trailer: usize, z: i32) {
    bytes[trailer - 8..trailer - 4].copy_from_slice(&z.to_le_bytes());
    let len = u32::from_le_bytes(bytes[trailer + 16..trailer + 20].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c(&bytes[trailer - len..trailer + 28]).to_le_bytes();
    bytes[trailer + 28..trailer + 32].copy_from_slice(&crc);
}

#[cfg(feature = "seal")]
#[test]
fn a_sealed_world_proves_in_which_dimension_and_how_deep_a_chunk_is() {
    use bonfire_store::SealKey;
    let options = || next_release().sealed(SealKey::from_bytes([1; 32]));
    let disk = MemoryDisk::new();
    let world = open(&options(), &disk, Access::Write);
    let places = places();
    let mut edit = world.edit();
    edit.put(places[0], gas_of(1))
        .put(places[1], gas_of(2))
        .put(places[2], noise(3))
        .put(places[3], noise(4));
    edit.commit(Durability::Synced).unwrap();
    drop(edit);
    world.close().unwrap();
    drop(world);
    let check = |world: &ChunkWorld| {
        let found = places.map(|pos| world.read(pos).unwrap());
        assert_eq!(found, [gas_of(1), gas_of(2), noise(3), noise(4)].map(Some));
    };
    check(&open(&options(), &disk, Access::Write));
    let whole = bytes(&disk);
    assert!(!whole.windows(16).any(|window| window == &noise(3)[..16]), "it is sealed");
    // Somebody without the key makes a chunk one of another depth, and all checksums right.
    let trailers: Vec<usize> = (0..whole.len() - 5)
        .filter(|at| whole[*at..].starts_with(&[0x9B, b'B', b'N', b'F', 1 | 64]))
        .collect();
    let [one, other, square] = trailers[..] else { panic!("{trailers:?}") };
    let forgeries = [vec![(one, -7)], vec![(square, 1)], vec![(one, 1), (other, -1)]];
    for places in forgeries {
        let mut forged = whole.clone();
        for (trailer, z) in &places {
            set_depth(&mut forged, *trailer, *z);
        }
        let disk = MemoryDisk::with_files([(NAME.to_owned(), forged)]);
        let salvaged = options().salvage().open_on(disk, NAME, Access::Read).unwrap();
        let mut lost = 0;
        for (pos, cells) in self::places().iter().zip([gas_of(1), gas_of(2), noise(3), noise(4)]) {
            match salvaged.read(*pos) {
                Ok(Some(read)) => assert_eq!(read, cells, "{pos}"),
                Ok(None) | Err(_) => lost += 1,
            }
        }
        assert_eq!(lost, places.len(), "each forgery costs its chunk: {places:?}");
        let made_up = salvaged.range(ChunkRect::ALL).into_iter().filter(|pos| !self::places().contains(pos));
        assert!(made_up.into_iter().all(|pos| salvaged.read(pos).is_err()));
    }
    let world = open(&options(), &disk, Access::Write);
    world.compact(|_, _| {}).unwrap();
    check(&world);
    assert_eq!(world.chunk_of_body(BodyId(1)).unwrap(), None);
}
