//! Compaction in steps: saves and reads go on, a save waits for one step at most, the file stays within its bound, and whatever
//! goes wrong leaves the world as it was.

mod support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bonfire_chunks::{ChunkOptions, ChunkWorld, Durability};
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock, MemoryDisk};
use bonfire_testkit::disk::{Call, Fault, FaultyDisk, Plan, Random, Repeat};
use bonfire_testkit::scale;
use support::noise;

const NAME: &str = "world.save";
const STEP_BYTES: u64 = 3000;
/// Bytes of a chunk of noise with its frame, at most.
const CHUNK_BYTES: u64 = 1100;

fn options() -> ChunkOptions {
    support::options()
        .compact_at_least(8 << 10)
        .compact_above(Some(0.3))
        .compaction_step(STEP_BYTES)
        .threads(1)
}

fn open(disk: impl Disk + 'static) -> ChunkWorld {
    options().open_on(disk, NAME, Access::Write).expect("a healthy disk")
}

fn save(world: &ChunkWorld, chunks: impl Iterator<Item = i32>, seed: u64) -> u64 {
    let mut edit = world.edit();
    for x in chunks {
        edit.put((x, 0), noise(seed * 1000 + x as u64));
    }
    edit.commit(Durability::Synced).expect("a healthy disk").bytes
}

/// A world of which much is dead, with a compaction that is due.
fn wasteful(disk: impl Disk + 'static) -> ChunkWorld {
    let world = open(disk);
    world.pause_compaction();
    for seed in 0..4 {
        save(&world, 0..40, seed);
    }
    assert!(world.compaction().is_due);
    world
}

fn assert_chunks(world: &ChunkWorld, chunks: std::ops::Range<i32>, seed: u64) {
    for x in chunks {
        assert_eq!(world.read((x, 0)).unwrap(), Some(noise(seed * 1000 + x as u64)), "chunk {x}");
    }
}

fn files(disk: &impl Disk) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.sort_unstable();
    names
}

#[test]
fn steps_lead_to_a_file_without_what_is_dead_while_saves_go_on() {
    let disk = MemoryDisk::new();
    let world = wasteful(disk.clone());
    world.resume_compaction();
    let (before, mut saves) = (world.info().file_bytes, 0);
    while world.step_compaction().unwrap() {
        assert!(files(&disk).contains(&format!("{NAME}.next")));
        if world.compaction().steps.is_multiple_of(4) {
            saves += 1;
            save(&world, (saves % 40)..(saves % 40 + 1), 9);
        }
    }
    let steps = world.compaction().steps;
    assert!(steps > 2 * 40 * 1000 / STEP_BYTES && saves > 3, "{steps} steps, {saves} saves");
    let info = world.info();
    assert!(info.file_bytes < before / 2, "{before} bytes became {}", info.file_bytes);
    assert_eq!(files(&disk), [NAME]);
    assert_chunks(&world, 1..saves, 9);
    assert_chunks(&world, saves + 1..40, 3);
    assert_eq!(world.compaction().completed, 1);
    drop(world);
    let world = open(disk);
    assert_eq!(world.report(), &bonfire_chunks::OpenReport::default());
    assert_chunks(&world, 1..saves, 9);
    assert_chunks(&world, saves + 1..40, 3);
}

/// Saves that change one chunk again and again become few commits of the new file, whose number is above theirs all the same.
#[test]
fn numbers_of_saves_rise_through_a_compaction() {
    let disk = MemoryDisk::new();
    let world = wasteful(disk.clone());
    world.resume_compaction();
    let mut last = world.info().generation;
    for seed in 0..200 {
        let mut edit = world.edit();
        edit.put((0, 0), noise(seed));
        let generation = edit.commit(Durability::Synced).unwrap().generation;
        assert!(generation > last, "save {generation} comes after save {last}");
        last = world.info().generation;
        assert!(last >= generation, "{last} is the last one, and {generation} was made");
    }
    assert!(world.compaction().completed > 0);
    drop(world);
    assert!(open(disk).info().generation >= last);
}

/// Chunks are removed and come, and the table gets too small, while the file is copied.
#[test]
fn chunks_come_and_go_while_the_file_is_copied() {
    let disk = MemoryDisk::new();
    let world = wasteful(disk.clone());
    world.resume_compaction();
    let mut x = 40;
    while world.step_compaction().unwrap() {
        if x < 140 {
            let mut edit = world.edit();
            edit.put((x, 0), noise(x as u64)).remove((x - 40, 0)).commit(Durability::Synced).unwrap();
            x += 1;
        }
    }
    assert!(x > 52, "the compaction ended after {x}");
    let expected: Vec<i32> = (x - 40..x).collect();
    let check = |world: &ChunkWorld| {
        assert_eq!(world.iter().map(|pos| pos.x).collect::<Vec<_>>(), expected);
        for x in expected.iter().filter(|x| **x >= 40) {
            assert_eq!(world.read((*x, 0)).unwrap(), Some(noise(*x as u64)));
        }
        assert_chunks(world, x - 40..40.max(x - 40), 3);
    };
    check(&world);
    drop(world);
    check(&open(disk));
}

#[test]
fn a_save_waits_for_one_step_at_most() {
    let world = wasteful(Slow(MemoryDisk::new()));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                world.compact(|_, _| {}).unwrap();
            }
        });
        for seed in 0..u64::from(scale()) * 200 {
            let first = (seed % 35) as i32;
            save(&world, first..first + 5, seed + 10);
        }
        is_over.store(true, Ordering::Release);
        compacting.join().unwrap();
    });
    let status = world.compaction();
    println!("{status:?}");
    assert!(status.completed > 2, "{status:?}");
    assert!(status.save_waited_bytes_max <= STEP_BYTES, "{status:?}");
}

/// The file has what is alive, what may be dead before a compaction begins, what was saved while it goes on, and one step.
#[test]
fn the_file_stays_within_its_bound_after_every_step() {
    const LIVE_CHUNKS: i32 = 60;
    let disk = MemoryDisk::new();
    let world = open(disk.clone());
    let mut random = Random::new(5);
    let mut newest = vec![0; LIVE_CHUNKS as usize];
    save(&world, 0..LIVE_CHUNKS, 0);
    let (mut in_pass, mut longest_pass, mut steps) = (0, 0, 0);
    for number in 1..=u64::from(scale().min(20)) * 1500 {
        let x = random.below(LIVE_CHUNKS as usize) as i32;
        newest[x as usize] = number;
        let was_under_way = world.compaction().is_under_way;
        let saved = save(&world, x..x + 1, number);
        let status = world.compaction();
        in_pass = if was_under_way || status.is_under_way { in_pass + saved } else { 0 };
        steps = if status.is_under_way { steps + 1 } else { 0 };
        longest_pass = longest_pass.max(steps);
        let info = world.info();
        let live = info.file_bytes - info.dead_bytes;
        let threshold = (8 << 10).max(info.file_bytes * 3 / 10) + CHUNK_BYTES;
        assert!(
            info.file_bytes <= live + threshold + in_pass + STEP_BYTES,
            "save {number}: {} bytes of which {live} are alive, and {in_pass} were saved since",
            info.file_bytes
        );
    }
    // Copied and read back once, and what was saved meanwhile copied once more.
    let steps_max = 3 * LIVE_CHUNKS as u64 * CHUNK_BYTES / (STEP_BYTES - CHUNK_BYTES) + 5;
    let status = world.compaction();
    println!("{status:?}, the longest took {longest_pass} of {steps_max} steps");
    assert!(status.completed > 5 && longest_pass <= steps_max, "{status:?}, {longest_pass} steps");
    for (x, number) in newest.iter().enumerate() {
        assert_eq!(world.read((x as i32, 0)).unwrap(), Some(noise(number * 1000 + x as u64)));
    }
}

#[test]
fn a_pause_keeps_compactions_from_going_on() {
    let world = wasteful(MemoryDisk::new());
    assert!(!world.step_compaction().unwrap());
    save(&world, 0..1, 7);
    assert_eq!(world.compaction().steps, 0, "it is paused from the start");
    world.resume_compaction();
    assert!(world.step_compaction().unwrap());
    world.pause_compaction();
    let steps = world.compaction().steps;
    save(&world, 0..1, 8);
    assert!(!world.step_compaction().unwrap());
    let status = world.compaction();
    assert!(status.is_paused && status.is_under_way && status.steps == steps, "{status:?}");
    world.compact(|_, _| {}).unwrap();
    assert_eq!(world.compaction().completed, 1, "who asks for it gets it");
}

#[test]
fn a_crash_leaves_a_file_that_the_next_open_removes() {
    let disk = MemoryDisk::new();
    let world = wasteful(disk.clone());
    world.resume_compaction();
    assert!(world.step_compaction().unwrap());
    std::mem::forget(world);
    let locks = MemoryDisk::new();
    for name in [NAME.to_owned(), format!("{NAME}.next")] {
        let file = disk.open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        locks.create_new(&name).unwrap().write_all_at(&bytes, 0).unwrap();
    }
    let world = open(locks.clone());
    assert_eq!(world.report().stale_files_removed, 1);
    assert_chunks(&world, 0..40, 3);
    assert!(!files(&locks).contains(&format!("{NAME}.next")));
}

#[test]
fn a_world_that_is_deleted_takes_the_next_file_along() {
    let disk = MemoryDisk::new();
    disk.create_new(NAME).unwrap();
    disk.create_new(&format!("{NAME}.next")).unwrap();
    assert!(ChunkWorld::delete_on(&disk, NAME).unwrap());
    assert!(files(&disk).is_empty());
}

/// Every call of the disk fails while a compaction goes on in steps and a save comes in between.
#[test]
fn a_compaction_that_fails_leaves_the_world_and_the_next_one_succeeds() {
    let mut ended = 0;
    for nth in 1.. {
        let disk = FaultyDisk::new(MemoryDisk::new());
        let world = wasteful(disk.clone());
        world.resume_compaction();
        disk.fail(Plan { fault: Fault::Io, nth, of: None, repeat: Repeat::Once });
        let mut stepped = Ok(true);
        while matches!(stepped, Ok(true)) {
            stepped = world.step_compaction();
            if !disk.fired().is_empty() && stepped.is_ok() {
                // The disk is asked how much is free, and may not know.
                break;
            }
        }
        let fired = disk.fired();
        disk.heal();
        if fired.is_empty() {
            assert!(nth > 50, "only {nth} calls");
            break;
        }
        ended += usize::from(stepped.is_err());
        assert_chunks(&world, 0..40, 3);
        let saved = world.edit().put((0, 0), noise(3000)).commit(Durability::Synced);
        match saved {
            Ok(_) if stepped.is_err() => {
                assert!(!files(&disk).contains(&format!("{NAME}.next")), "call {nth}: {fired:?}");
                world.compact(|_, _| {}).unwrap();
            }
            Ok(_) => world.compact(|_, _| {}).unwrap(),
            // It may have the name of the world already, or not.
            Err(error) => {
                assert!(error.is_poisoned() && fired == [Call::SyncDir], "call {nth}, {fired:?}: {error}");
            }
        }
        drop(world);
        assert_chunks(&open(disk), 0..40, 3);
    }
    assert!(ended > 40, "{ended}");
}

/// A disk whose writes take a while, so that saves and steps meet.
#[derive(Clone)]
struct Slow(MemoryDisk);

struct SlowFile(Box<dyn DiskFile>);

/// The calls of a disk that are those of the disk in it. `$file` is put around its files.
macro_rules! forwards {
    ($file:expr) => {
        fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
            let file = self.0.open(name, access)?;
            Ok($file(file))
        }

        fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
            let file = self.0.create_new(name)?;
            Ok($file(file))
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.0.remove(name)
        }

        fn list(&self) -> io::Result<Vec<String>> {
            self.0.list()
        }

        fn sync_dir(&self) -> io::Result<()> {
            self.0.sync_dir()
        }

        fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
            self.0.lock(name)
        }
    };
}

impl Disk for Slow {
    forwards!(|file| Box::new(SlowFile(file)) as Box<dyn DiskFile>);
}

impl DiskFile for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::thread::sleep(std::time::Duration::from_micros(100));
        self.0.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn stamp(&self) -> io::Result<u64> {
        self.0.stamp()
    }
}

/// A disk with so much room for new files.
#[derive(Clone)]
struct Small(MemoryDisk, Arc<AtomicU64>);

impl Disk for Small {
    forwards!(std::convert::identity);

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.1.load(Ordering::Relaxed)))
    }
}

#[test]
fn a_compaction_that_does_not_fit_is_not_begun() {
    let free = Arc::new(AtomicU64::new(39 * 1024));
    let disk = Small(MemoryDisk::new(), free.clone());
    let world = wasteful(disk.clone());
    world.resume_compaction();
    for _ in 0..2 {
        let error = world.compact(|_, _| {}).unwrap_err();
        assert!(error.is_io() && error.to_string().contains("39936"), "{error}");
    }
    assert!(world.step_compaction().is_err());
    assert!(!files(&disk).contains(&format!("{NAME}.next")));
    // It is put off until there is more to gain, and saves do not fail.
    assert!(!world.compaction().is_due);
    save(&world, 0..40, 5);
    free.store(1 << 20, Ordering::Relaxed);
    world.compact(|_, _| {}).unwrap();
    assert_chunks(&world, 0..40, 5);
}

#[cfg(unix)]
#[test]
fn a_directory_says_how_much_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let disk = bonfire_store::disk::OsDisk::at(directory.path());
    assert!(disk.free_bytes().unwrap().expect("this system tells") > 0);
}
