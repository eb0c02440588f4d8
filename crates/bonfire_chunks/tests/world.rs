//! Chunks, bodies and entities come back as they were saved.

mod support;

use bonfire_chunks::{
    Body, BodyId, ChunkPos, ChunkRect, ChunkState, ChunkWorld, Durability, OpenReport, Storage, WorldShape,
};
use bonfire_store::disk::{Access, MemoryDisk};
use support::*;

const NAME: &str = "world.save";

fn open(disk: &MemoryDisk) -> ChunkWorld {
    options().open_on(disk.clone(), NAME, Access::Write).expect("a disk in memory")
}

fn with_hills(disk: &MemoryDisk) -> ChunkWorld {
    options()
        .generator(Hills { version: 1 })
        .open_on(disk.clone(), NAME, Access::Write)
        .expect("a disk in memory")
}

#[test]
fn chunks_come_back_after_a_close_and_after_a_crash() {
    for close in [true, false] {
        let disk = MemoryDisk::new();
        let world = open(&disk);
        let mut edit = world.edit();
        for x in -20..20 {
            edit.put((x, x / 3), noise(x as u64));
        }
        edit.commit(Durability::Synced).unwrap();
        world
            .edit()
            .put((0, 0), cells(|x, y| [1, x as u8, y as u8, 0]))
            .remove((5, 1))
            .commit(Durability::Synced)
            .unwrap();
        if close {
            world.close().unwrap();
        } else {
            std::mem::forget(world);
        }
        let disk = MemoryDisk::with_files(support_files(&disk));
        let world = open(&disk);
        assert_eq!(world.report().saves_replayed, if close { 0 } else { 2 }, "{:?}", world.report());
        assert!(world.report().is_fine());
        assert_eq!(world.len(), 39);
        assert_eq!(world.read((0, 0)).unwrap(), Some(cells(|x, y| [1, x as u8, y as u8, 0])));
        assert_eq!(world.read((5, 1)).unwrap(), None);
        for x in (-20..20).filter(|x| ![0, 5].contains(x)) {
            assert_eq!(world.read((x, x / 3)).unwrap(), Some(noise(x as u64)), "chunk {x}");
        }
        assert!(world.check(|_, _| {}).damaged.is_empty());
    }
}

/// All files of a disk, without its locks.
fn support_files(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    use bonfire_store::disk::Disk;
    let read = |name: String| {
        let file = disk.open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}

#[test]
fn the_smallest_way_is_chosen() {
    let disk = MemoryDisk::new();
    let world = with_hills(&disk);
    let generated = world.load((0, 0)).unwrap();
    assert_eq!(generated.state(), ChunkState::Clean);
    let mut hole = generated.cells().to_vec();
    hole[..16].fill(0);
    let report = world
        .edit()
        .put((0, 0), hole.clone())
        .put((1, 0), noise(1))
        .put((2, 0), vec![0; SIZE * SIZE * 4])
        .put((3, 0), world.load((3, 0)).unwrap().into_cells())
        .commit(Durability::Synced)
        .unwrap();
    assert_eq!((report.delta, report.full, report.empty, report.same_as_generated), (1, 1, 1, 1));
    let stored = [(0, 0), (1, 0), (2, 0), (3, 0)].map(|pos| world.storage(pos));
    assert_eq!(stored, [Some(Storage::Delta), Some(Storage::Full), Some(Storage::Empty), None]);
    assert_eq!(world.delta_entries((0, 0)).unwrap(), Some(4));
    assert_eq!(world.read((0, 0)).unwrap(), Some(hole));
    assert_eq!(world.read((2, 0)).unwrap(), Some(vec![0; SIZE * SIZE * 4]));
    assert_eq!(world.load((2, 0)).unwrap().state(), ChunkState::Persisted);
    // What is as it is generated again is not stored any more.
    world
        .edit()
        .put((0, 0), world.load((9, 9)).map(|_| generated.cells().to_vec()).unwrap())
        .commit(Durability::Synced)
        .unwrap();
    assert_eq!((world.read((0, 0)).unwrap(), world.contains((0, 0))), (None, false));
}

#[test]
fn another_generator_is_refused_or_asked_for_the_old_one() {
    let disk = MemoryDisk::new();
    let world = with_hills(&disk);
    let mut cells = world.load((0, 0)).unwrap().into_cells();
    cells[0] = 9;
    world.edit().put((0, 0), cells.clone()).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    drop(world);
    let newer = options().generator(Hills { version: 2 }).open_on(disk.clone(), NAME, Access::Write).unwrap();
    let error = newer.read((0, 0)).unwrap_err();
    assert!(
        error.is_unsupported()
            && error.to_string().contains("version 1")
            && error.to_string().contains("version 2"),
        "{error}"
    );
    drop(newer);
    struct Both;
    impl bonfire_chunks::Generator for Both {
        fn generate(&self, _: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
            Hills { version: 2 }.fill(pos, cells);
        }
        fn version(&self) -> u32 {
            2
        }
        fn generate_as(&self, version: u32, _: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) -> bool {
            Hills { version }.fill(pos, cells);
            version == 1
        }
    }
    let world = options().generator(Both).open_on(disk, NAME, Access::Write).unwrap();
    assert_eq!(world.read((0, 0)).unwrap(), Some(cells.clone()));
    assert_eq!(world.upgrade_all(|_, _| {}).unwrap(), 1);
    assert_eq!(world.read((0, 0)).unwrap(), Some(cells));
}

#[test]
fn bodies_are_saved_with_their_chunk_and_live_in_one_chunk_only() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    let here = body(1, [-0.5, 3.0]);
    world
        .edit()
        .put((-1, 0), noise(1))
        .put_bodies((-1, 0), vec![here.clone(), body(2, [-3.0, 1.0])])
        .commit(Durability::Synced)
        .unwrap();
    assert_eq!(world.read_bodies((-1, 0)).unwrap(), [here.clone(), body(2, [-3.0, 1.0])]);
    let error = world.edit().put_bodies((0, 0), vec![here]).commit(Durability::Synced).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("(-1, 0)"), "{error}");
    // It moves: the chunk that it leaves is written in the same commit.
    world.edit().put_bodies((0, 0), vec![body(1, [2.0, 3.0])]).commit(Durability::Synced).unwrap();
    assert_eq!(world.read_bodies((-1, 0)).unwrap(), [body(2, [-3.0, 1.0])]);
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body(1, [2.0, 3.0])]);
    // An empty one is not saved.
    let empty = Body { mask: vec![0], ..body(2, [-3.0, 1.0]) };
    world.edit().put_bodies((-1, 0), vec![empty]).commit(Durability::Synced).unwrap();
    assert!(world.read_bodies((-1, 0)).unwrap().is_empty());
    assert_eq!(world.chunks_with_bodies(ChunkRect::ALL), [ChunkPos::new(0, 0)]);
    world.edit().remove((0, 0)).commit(Durability::Synced).unwrap();
    assert!(world.read_bodies((0, 0)).unwrap().is_empty());
}

#[test]
fn ids_of_bodies_never_repeat() {
    let disk = MemoryDisk::new();
    let mut seen = std::collections::HashSet::new();
    for session in 0..4 {
        let world = open(&disk);
        let (mut ids, mut others) = (world.body_ids().unwrap(), world.body_ids().unwrap());
        for _ in 0..10 {
            assert!(seen.insert(ids.next_id()) && seen.insert(others.next_id()));
        }
        world
            .edit()
            .put_bodies((0, 0), vec![Body { id: ids.next_id(), ..body(0, [1.0, 1.0]) }])
            .commit(Durability::Synced)
            .unwrap();
        if session % 2 == 0 {
            world.close().unwrap();
        } else {
            drop(world);
        }
    }
    assert!(!seen.contains(&BodyId(0)));
}

#[test]
fn a_second_writer_is_refused_and_readers_are_not() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    world.edit().put((0, 0), noise(1)).commit(Durability::Synced).unwrap();
    assert!(options().open_on(disk.clone(), NAME, Access::Write).err().unwrap().is_conflict());
    let reader = options().open_on(disk.clone(), NAME, Access::Read).unwrap();
    assert_eq!(reader.read((0, 0)).unwrap(), Some(noise(1)));
    assert!(reader.edit().put((0, 0), noise(2)).commit(Durability::Synced).unwrap_err().is_misuse());
    world.edit().put((1, 0), noise(2)).commit(Durability::Synced).unwrap();
    assert_eq!(reader.read((1, 0)).unwrap(), None);
    reader.refresh().unwrap();
    assert_eq!(reader.read((1, 0)).unwrap(), Some(noise(2)));
    world.close().unwrap();
    assert!(world.edit().put((0, 0), noise(2)).commit(Durability::Synced).unwrap_err().is_misuse());
    let again = open(&disk);
    assert_eq!(again.report(), &OpenReport::default());
}

#[test]
fn other_sizes_are_refused_with_both_numbers() {
    let disk = MemoryDisk::new();
    drop(open(&disk));
    for (other, numbers) in [(options().chunk_size(32), ["16", "32"]), (options().tile_size(8), ["4", "8"])] {
        let error = other.open_on(disk.clone(), NAME, Access::Write).err().unwrap().to_string();
        assert!(numbers.iter().all(|number| error.contains(number)), "{error}");
    }
}

#[test]
fn compaction_keeps_everything_and_happens_by_itself() {
    let disk = MemoryDisk::new();
    let world = options().compact_at_least(4096).open_on(disk.clone(), NAME, Access::Write).unwrap();
    for round in 0..40 {
        let mut edit = world.edit();
        for x in 0..6 {
            edit.put((x, 0), noise(round * 10 + x as u64));
        }
        edit.put_bodies((0, 0), vec![body(round, [1.0, 1.0])]).commit(Durability::Synced).unwrap();
    }
    let info = world.info();
    assert!(info.dead_bytes < info.file_bytes / 2, "{info:?}");
    for x in 0..6 {
        assert_eq!(world.read((x, 0)).unwrap(), Some(noise(390 + x as u64)));
    }
    let (mut calls, mut last) = (0, (0, 0));
    world
        .compact(|done, total| {
            calls += 1;
            last = (done, total);
        })
        .unwrap();
    assert!(calls > 5 && last.0 == last.1, "{calls} {last:?}");
    assert!(world.info().dead_bytes < 1000, "{:?}", world.info());
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body(39, [1.0, 1.0])]);
    world.close().unwrap();
    drop(world);
    assert_eq!(open(&disk).read((5, 0)).unwrap(), Some(noise(395)));
}

#[test]
fn backups_and_copies_are_worlds_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(NAME);
    let world = options().open(&path).unwrap();
    world
        .edit()
        .put((0, 0), noise(1))
        .put_bodies((0, 0), vec![body(1, [1.0, 1.0])])
        .commit(Durability::Synced)
        .unwrap();
    let (backup, other) = (directory.path().join("backup.save"), directory.path().join("other.save"));
    world.backup_to(&backup).unwrap();
    world.edit().put((0, 0), noise(2)).commit(Durability::Synced).unwrap();
    world.save_to(&other, world.edit().put((1, 0), noise(3))).unwrap();
    assert_eq!(world.read((1, 0)).unwrap(), None, "the world itself stays");
    assert!(world.backup_to(&path).unwrap_err().is_conflict());
    let (backup, other) = (options().open(&backup).unwrap(), options().open(&other).unwrap());
    assert_eq!((backup.len(), backup.read((0, 0)).unwrap()), (1, Some(noise(1))));
    assert_eq!(backup.read_bodies((0, 0)).unwrap(), [body(1, [1.0, 1.0])]);
    assert_eq!((other.read((0, 0)).unwrap(), other.read((1, 0)).unwrap()), (Some(noise(2)), Some(noise(3))));
    assert_eq!(backup.report(), &OpenReport::default());
}

/// A fresh session knows nothing of the chunk that a body leaves.
#[test]
fn a_body_can_move_in_the_first_save_of_a_session() {
    let disk = MemoryDisk::new();
    let world = open(&disk);
    world
        .edit()
        .put_bodies((0, 0), vec![body(1, [1.0, 1.0]), body(2, [2.0, 2.0])])
        .commit(Durability::Synced)
        .unwrap();
    drop(world);
    let world = open(&disk);
    assert_eq!(world.read_bodies((0, 0)).unwrap().len(), 2);
    world.edit().put_bodies((1, 0), vec![body(1, [17.0, 1.0])]).commit(Durability::Synced).unwrap();
    drop(world);
    let world = open(&disk);
    assert_eq!(world.read_bodies((0, 0)).unwrap(), [body(2, [2.0, 2.0])]);
    assert_eq!(world.read_bodies((1, 0)).unwrap(), [body(1, [17.0, 1.0])]);
}

#[test]
fn ranges_iteration_and_many_reads() {
    let world = open(&MemoryDisk::new());
    let mut edit = world.edit();
    for number in 0..60 {
        edit.put((number % 10 - 5, number / 10 - 3), noise(number as u64));
    }
    edit.commit(Durability::Synced).unwrap();
    let all: Vec<ChunkPos> = world.iter().collect();
    assert!(all.len() == 60 && all.is_sorted());
    let rect = ChunkRect::new((-1, -1), (1, 0));
    let places = world.range(rect);
    assert_eq!(places, [(-1, -1), (0, -1), (1, -1), (-1, 0), (0, 0), (1, 0)].map(ChunkPos::from));
    assert_eq!(world.range(ChunkRect::around((100, 100), 3)), []);
    assert_eq!(world.prefetch(rect), 6);
    let asked = [ChunkPos::new(0, 0), ChunkPos::new(99, 99), ChunkPos::new(-5, -3)];
    let read: Vec<_> = world.read_many(&asked).into_iter().map(Result::unwrap).collect();
    assert_eq!(read, [Some(noise(35)), None, Some(noise(0))]);
    assert!(world.contains((0, 0)) && !world.contains((99, 99)));
    assert!(world.read_into((0, 0), &mut [0; 3]).unwrap_err().is_misuse());
    assert!(world.edit().put((0, 0), vec![0; 3]).commit(Durability::Synced).unwrap_err().is_misuse());
    assert_eq!(world.read((0, 0)).unwrap(), Some(noise(35)), "nothing of a failed edit is there");
}

#[test]
fn what_a_crash_left_beside_the_file_goes_when_it_is_opened() {
    use bonfire_store::disk::Disk;
    let disk = MemoryDisk::new();
    drop(open(&disk));
    disk.create_new("world.save.tmp").unwrap().write_all_at(b"half of a world", 0).unwrap();
    let reader = options().open_on(disk.clone(), NAME, Access::Read).unwrap();
    assert_eq!(reader.report().stale_files_removed, 0, "readers touch nothing");
    drop(reader);
    assert_eq!(open(&disk).report().stale_files_removed, 1);
    assert!(!disk.list().unwrap().contains(&"world.save.tmp".to_owned()));
}

#[test]
fn a_world_is_deleted_with_what_a_crash_has_left_of_it() {
    use bonfire_store::disk::Disk;
    let disk = MemoryDisk::new();
    let world = open(&disk);
    assert!(ChunkWorld::delete_on(&disk, NAME).unwrap_err().is_conflict());
    drop(world);
    assert!(ChunkWorld::delete_on(&disk, NAME).unwrap());
    assert!(!ChunkWorld::delete_on(&disk, NAME).unwrap());
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
}

/// A layer that does not persist comes back as its default, however the chunk is stored.
#[test]
fn bits_that_do_not_persist_come_back_as_defaults() {
    use bonfire_chunks::{ChunkOptions, Layer, Layers, Persistence};
    let layers = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1))
        .with(Layer::new("flags", 1).persistence(Persistence::Partial(vec![0b10])).default_value(&[1]))
        .with(Layer::new("heat", 1).persistence(Persistence::No).default_value(&[20]));
    let options =
        ChunkOptions::new(layers).chunk_size(SIZE as u16).tile_size(4).generator(Hills { version: 1 });
    let world = options.open_on(MemoryDisk::new(), NAME, Access::Write).unwrap();
    let mut changed = world.load((0, 0)).unwrap().into_cells();
    changed[..4].copy_from_slice(&[9, 9, 0xFF, 77]);
    changed[4 * 20 + 3] = 99;
    let noise = noise(4);
    world.edit().put((0, 0), changed.clone()).put((1, 0), noise.clone()).commit(Durability::Synced).unwrap();
    assert_eq!([(0, 0), (1, 0)].map(|pos| world.storage(pos)), [Some(Storage::Delta), Some(Storage::Full)]);
    assert_eq!(world.delta_entries((0, 0)).unwrap(), Some(1), "heat alone is no change");
    let expected = |cells: &[u8]| -> Vec<u8> {
        cells.chunks_exact(4).flat_map(|cell| [cell[0], cell[1], cell[2] & 0b10 | 1, 20]).collect()
    };
    assert_eq!(world.read((0, 0)).unwrap(), Some(expected(&changed)));
    assert_eq!(world.read((1, 0)).unwrap(), Some(expected(&noise)));
}

#[test]
fn opening_and_closing_alone_writes_nothing() {
    for options in [options(), options().compat(), options().eager()] {
        let disk = MemoryDisk::new();
        let world = options.open_on(disk.clone(), NAME, Access::Write).unwrap();
        world
            .edit()
            .put((0, 0), noise(1))
            .put_bodies((0, 0), vec![body(1, [1.0, 1.0])])
            .commit(Durability::Synced)
            .unwrap();
        world.close().unwrap();
        drop(world);
        let before = support_files(&disk);
        for _ in 0..3 {
            let world = options.open_on(disk.clone(), NAME, Access::Write).unwrap();
            assert_eq!(world.report(), &OpenReport::default());
            world.close().unwrap();
        }
        assert_eq!(support_files(&disk), before);
    }
}

#[test]
fn the_two_copies_of_the_settings_come_to_lie_apart() {
    let disk = MemoryDisk::new();
    let world = options().table_capacity(1000).open_on(disk.clone(), NAME, Access::Write).unwrap();
    let mut edit = world.edit();
    for x in 0..60 {
        edit.put((x, 0), noise(x as u64));
    }
    edit.commit(Durability::Synced).unwrap();
    world.close().unwrap();
    drop(world);
    let (_, bytes) = support_files(&disk).into_iter().find(|(name, _)| name == NAME).unwrap();
    let magic = [0x9B, b'B', b'N', b'F', 7];
    let copies: Vec<usize> = (0..bytes.len() - 5).filter(|at| bytes[*at..*at + 5] == magic).collect();
    assert!(copies.last().unwrap() - copies[0] > 16 << 10, "{copies:?}");
    // All but the last one are gone.
    let mut damaged = bytes;
    let last = copies.len() - 1;
    copies[..last].iter().for_each(|at| damaged[at - 3] ^= 0xFF);
    let world = open(&MemoryDisk::with_files([(NAME.to_owned(), damaged)]));
    assert_eq!(world.read((59, 0)).unwrap(), Some(noise(59)));
}
