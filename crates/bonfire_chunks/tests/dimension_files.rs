//! Files of version 2: which saves make one, what a build that does not know a dimension does with it, and what is noticed of changes.

mod releases;
mod support;

use bonfire_chunks::{BodyId, ChunkOptions, ChunkPos, ChunkWorld, Dimension, Durability, MemoryDisk};
use bonfire_store::disk::Access;
use releases::*;
use support::{body, noise, snapshot};

/// A file of the first release, with pins.
fn old_file() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let world = open(&first_release(), &disk, Access::Write);
    put(&world, (0, 0), noise(1));
    world.pin("one", b"day 1").unwrap();
    put(&world, (0, 0), noise(2));
    put(&world, (1, 0), noise(3));
    world.pin("two", b"day 2").unwrap();
    put(&world, (1, 0), noise(4));
    world.close().unwrap();
    disk
}

fn check_old_content(world: &ChunkWorld) {
    assert_eq!((world.read((0, 0)).unwrap(), world.read((1, 0)).unwrap()), (Some(noise(2)), Some(noise(4))));
    let [one, two] = ["one", "two"].map(|name| world.at(name).unwrap());
    assert_eq!((one.read((0, 0)).unwrap(), one.read((1, 0)).unwrap()), (Some(noise(1)), None));
    assert_eq!((two.read((0, 0)).unwrap(), two.read((1, 0)).unwrap()), (Some(noise(2)), Some(noise(3))));
    assert_eq!(
        world.pins().iter().map(|pin| pin.metadata.as_slice()).collect::<Vec<_>>(),
        [b"day 1", b"day 2"]
    );
}

#[test]
fn opening_changes_nothing_and_saves_that_need_no_depth_leave_the_version() {
    let disk = old_file();
    let before = bytes(&disk);
    for access in [Access::Read, Access::Write] {
        let world = open(&next_release(), &disk, access);
        check_old_content(&world);
        assert_eq!(world.read(cube(0, 0, 0)).unwrap(), None);
        assert!(world.load(cube(1, 1, 1)).unwrap().cells().iter().all(|cell| *cell == 0));
        world.close().unwrap();
        assert_eq!(bytes(&disk), before, "{access:?}");
    }
    // The same saves by both releases have the same bytes, but for the time.
    let save = |options: &ChunkOptions| {
        let disk = MemoryDisk::with_files([(NAME.to_owned(), before.clone())]);
        let world = open(options, &disk, Access::Write);
        put(&world, (5, 5), noise(5));
        world.pin("three", []).unwrap();
        world
            .edit()
            .put_body(body(1, [1.0, 1.0]))
            .put_entities((0, 0), snapshot(1))
            .commit(Durability::Synced)
            .unwrap();
        world.compact(|_, _| {}).unwrap();
        world.close().unwrap();
        (version(&disk), bytes(&disk).len())
    };
    assert_eq!(save(&next_release()), save(&first_release()));
    assert_eq!(save(&next_release()).0, 1);
    let new = MemoryDisk::new();
    open(&first_release(), &new, Access::Write).close().unwrap();
    assert_eq!(version(&new), 1);
    let new = MemoryDisk::new();
    open(&next_release(), &new, Access::Write).close().unwrap();
    assert_eq!(version(&new), 2);
}

#[test]
fn the_first_save_with_depth_makes_a_file_of_version_2_that_keeps_pins() {
    for with_pin in [false, true] {
        let disk = old_file();
        let world = open(&next_release(), &disk, Access::Write);
        let mut edit = world.edit();
        edit.put(cube(0, 0, -1), gas_of(1));
        if with_pin {
            edit.pin("three", b"day 3");
        }
        edit.commit(Durability::Synced).unwrap();
        drop(edit);
        assert_eq!(version(&disk), 2);
        world.unpin("three").unwrap();
        check_old_content(&world);
        assert_eq!(world.at("two").unwrap().read(cube(0, 0, -1)).unwrap(), None);
        drop(world);
        let world = open(&next_release(), &disk, Access::Write);
        check_old_content(&world);
        assert_eq!(world.read(cube(0, 0, -1)).unwrap(), Some(gas_of(1)));
        // It stays one, whatever is removed.
        world.return_to("two").unwrap();
        world.compact(|_, _| {}).unwrap();
        assert_eq!((version(&disk), world.read(cube(0, 0, -1)).unwrap()), (2, None));
    }
}

#[test]
fn a_plain_file_has_one_dimension_and_two_coordinates() {
    for options in [next_release().compat(), first_release().three_dimensional().chunk_size(16).compat()] {
        let error = options.open_on(MemoryDisk::new(), NAME, Access::Write).unwrap_err();
        assert!(error.is_misuse() && error.to_string().contains("leave `compat` out"), "{error}");
    }
    // A file that is plain already, opened by a game that has more dimensions.
    let disk = MemoryDisk::new();
    let world = open(&first_release().compat(), &disk, Access::Write);
    put(&world, (0, 0), noise(1));
    world.close().unwrap();
    drop(world);
    let world = open(&next_release(), &disk, Access::Write);
    let error = world.edit().put(cube(0, 0, 0), gas_of(1)).commit(Durability::Synced).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("plain layout"), "{error}");
    put(&world, (1, 0), noise(2));
    drop(world);
    let world = open(&first_release(), &disk, Access::Write);
    assert_eq!((world.read((1, 0)).unwrap(), world.info().compat), (Some(noise(2)), true));
}

/// A file of the next release, with something in each dimension.
fn new_file() -> MemoryDisk {
    let disk = old_file();
    let world = open(&next_release(), &disk, Access::Write);
    let mut edit = world.edit();
    edit.put(cube(0, 0, -1), gas_of(1)).put_entities(cube(0, 0, -1), snapshot(1));
    let square = ChunkPos::new(2, 2).in_dimension(SQUARES);
    edit.put(square, noise(7)).put_bodies(square, [body(9, [33.0, 33.0])]);
    edit.commit(Durability::Synced).unwrap();
    world.close().unwrap();
    disk
}

fn check_new_content(world: &ChunkWorld) {
    check_old_content(world);
    let square = ChunkPos::new(2, 2).in_dimension(SQUARES);
    assert_eq!(world.read(cube(0, 0, -1)).unwrap(), Some(gas_of(1)));
    assert_eq!(world.read_entities(cube(0, 0, -1)).unwrap(), Some(snapshot(1)));
    assert_eq!(world.read(square).unwrap(), Some(noise(7)));
    assert_eq!(world.read_bodies(square).unwrap(), [body(9, [33.0, 33.0])]);
    assert_eq!(world.shape(CUBES).unwrap().seed, 666);
}

#[test]
fn a_dimension_that_a_build_does_not_declare_stays_in_the_file() {
    let disk = new_file();
    let world = open(&first_release(), &disk, Access::Write);
    check_old_content(&world);
    assert!(world.read(cube(0, 0, -1)).unwrap_err().is_misuse());
    assert!(world.edit().put_body(body(9, [1.0, 1.0])).commit(Durability::Synced).unwrap_err().is_misuse());
    let report = world.check(|_, _| {});
    assert!(report.damaged.is_empty(), "{:?}", report.damaged);
    assert_eq!(report.unchecked, 4, "cells, bodies and entities of other dimensions");
    // Saves, pins, compactions and copies go on.
    world.edit().put((6, 6), noise(6)).put_body(body(1, [1.0, 1.0])).commit(Durability::Synced).unwrap();
    world.pin("three", []).unwrap();
    world.compact(|_, _| {}).unwrap();
    world.edit().put((6, 6), noise(8)).commit(Durability::Synced).unwrap();
    assert_eq!(world.upgrade_all(|_, _| {}).unwrap(), 0);
    world.backup_on(&disk, "backup", |_, _| {}).unwrap();
    world.unpin("three").unwrap();
    world.close().unwrap();
    drop(world);
    check_new_content(&open(&next_release(), &disk, Access::Write));
    let backup = next_release().open_on(disk, "backup", Access::Write).unwrap();
    assert_eq!(backup.at("three").unwrap().read((6, 6)).unwrap(), Some(noise(6)));
    assert!(backup.unpin("three").unwrap());
    check_new_content(&backup);
    assert!(backup.check(|_, _| {}).damaged.is_empty());
}

/// Numbers of versions in headers whose checksum is right.
#[test]
fn a_later_version_is_newer_and_a_wrong_one_makes_nothing_up() {
    let with_version = |version: u16| {
        let mut bytes = bytes(&new_file());
        bytes[4..6].copy_from_slice(&version.to_le_bytes());
        let check = crc32c::crc32c(&bytes[..61]).to_le_bytes();
        bytes[61..64].copy_from_slice(&check[..3]);
        MemoryDisk::with_files([(NAME.to_owned(), bytes)])
    };
    for (version, access) in [(3, Access::Read), (3, Access::Write), (u16::MAX, Access::Write)] {
        let error = next_release().open_on(with_version(version), NAME, access).unwrap_err();
        assert!(error.is_newer_format() && error.to_string().contains(&version.to_string()), "{error}");
    }
    check_new_content(&open(&next_release(), &with_version(2), Access::Write));
    for version in [0, 1] {
        for access in [Access::Read, Access::Write] {
            let Ok(world) = next_release().open_on(with_version(version), NAME, access) else { continue };
            for pos in world.iter() {
                let expected = match (pos.dimension, pos.x, pos.z) {
                    (0, 0, 0) => noise(2),
                    (0, 1, 0) => noise(4),
                    (CUBES, 0, -1) => gas_of(1),
                    (SQUARES, 2, 0) => noise(7),
                    _ => panic!("{pos} was never saved"),
                };
                assert_eq!(world.read(pos).ok().flatten(), Some(expected), "version {version}: {pos}");
            }
        }
    }
}

#[test]
fn a_reader_hears_of_dimensions_that_come_while_it_reads() {
    let disk = old_file();
    let reader = open(&next_release(), &disk, Access::Read);
    let older = open(&first_release(), &disk, Access::Read);
    let stranger = Dimension::new(gas()).chunk_size(8).tile_size(2).three_dimensional();
    let stranger = open(&first_release().dimension(CUBES, stranger), &disk, Access::Read);
    let rolled = Dimension::new(gas()).chunk_size(4).tile_size(2).three_dimensional().new_world_seed(12);
    let writer = open(&first_release().dimension(CUBES, rolled), &disk, Access::Write);
    put(&writer, cube(0, 0, -1), gas_of(1));
    for world in [&reader, &older] {
        world.refresh().unwrap();
        check_old_content(world);
    }
    assert_eq!(reader.read(cube(0, 0, -1)).unwrap(), Some(gas_of(1)));
    assert_eq!(reader.shape(CUBES).unwrap().seed, 12, "the one of the file");
    assert_eq!(reader.info().other_dimensions[0].seed, 12);
    assert!(older.read(cube(0, 0, -1)).unwrap_err().is_misuse());
    let error = stranger.refresh().unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("has 4 cells"), "{error}");
    let again = open(&next_release(), &disk, Access::Read);
    assert_eq!(again.shape(CUBES).unwrap().seed, 12);
}

/// A file of version 2 that an earlier build has written: three dimensions, one of them of cubes, two pins and a return. To write it
/// anew: `BONFIRE_WRITE_FIXTURES=1 cargo test -p bonfire_chunks --test dimension_files`.
#[test]
fn a_golden_file_of_version_2_is_read_and_goes_on() {
    let path = format!("{}/../../fixtures/chunks/dimensions.world", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BONFIRE_WRITE_FIXTURES").is_some() {
        let disk = new_file();
        let world = open(&next_release(), &disk, Access::Write);
        world.pin("three", b"day 3").unwrap();
        let square = ChunkPos::new(2, 2).in_dimension(SQUARES);
        let mut future = world.edit();
        future.put(cube(0, 0, -1), gas_of(2)).put(cube(-4, 5, 6), gas_of(3)).remove(square);
        future.commit(Durability::Synced).unwrap();
        drop(future);
        world.return_to("three").unwrap();
        put(&world, cube(7, 7, -7), gas_of(4));
        world.close().unwrap();
        std::fs::write(&path, bytes(&disk)).unwrap();
    }
    let golden = std::fs::read(&path).unwrap();
    assert_eq!((golden[4], golden[6]), (2, 1 | 16), "version and flags");
    let disk = MemoryDisk::with_files([(NAME.to_owned(), golden)]);
    let check = |world: &ChunkWorld| {
        let three = world.at("three").unwrap();
        assert_eq!(three.read(cube(0, 0, -1)).unwrap(), Some(gas_of(1)));
        assert_eq!((three.len(), three.contains(cube(7, 7, -7))), (4, false));
        assert_eq!(world.read(cube(7, 7, -7)).unwrap(), Some(gas_of(4)));
        assert_eq!((world.len(), world.contains(cube(-4, 5, 6))), (5, false));
        assert_eq!(world.chunk_of_body(BodyId(9)).unwrap(), Some(ChunkPos::new(2, 2).in_dimension(SQUARES)));
        assert!(world.check(|_, _| {}).damaged.is_empty());
    };
    check(&open(&next_release(), &disk, Access::Read));
    let world = open(&next_release(), &disk, Access::Write);
    check(&world);
    world.compact(|_, _| {}).unwrap();
    drop(world);
    let world = open(&next_release(), &disk, Access::Write);
    check(&world);
    assert!(world.unpin("three").unwrap());
    world.edit().remove(cube(7, 7, -7)).commit(Durability::Synced).unwrap();
    check_new_content(&world);
}
