//! While one thread saves, writes checkpoints, grows and compacts, others read: each read is what the chunk was or what it is, never an
//! error. Whoever opens the world again and again beside the writer, as another process would, finds one save as a
//! whole each time.

mod script;
mod support;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bonfire_chunks::{ChunkOptions, ChunkWorld, Durability};
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock, MemoryDisk, OsDisk};
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use support::noise;

const NAME: &str = "world.save";
/// Chunks that every save changes.
const CHUNKS: i32 = 6;

fn options() -> ChunkOptions {
    support::options().table_capacity(4).compact_at_least(60_000).compact_above(Some(0.6)).threads(1).eager()
}

fn seed(number: u64, x: i32) -> u64 {
    number * 100 + x as u64
}

/// Cells that tell which save they are of: the first eight bytes are its number.
fn cells(number: u64, x: i32) -> Vec<u8> {
    let mut cells = noise(seed(number, x));
    cells[..8].copy_from_slice(&number.to_le_bytes());
    cells
}

fn number_of(found: &[u8], x: i32) -> u64 {
    let number = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
    assert!(found == cells(number, x), "chunk {x} is no chunk that was saved");
    number
}

/// Saves all chunks with one number, and every time a chunk more, so that the table grows.
fn save(world: &ChunkWorld, number: u64, random: &mut Random) {
    let mut edit = world.edit();
    for x in 0..CHUNKS {
        edit.put((x, 0), cells(number, x));
    }
    if number.is_multiple_of(3) {
        edit.put((number as i32, 5), cells(number, 50));
    }
    if number % 50 == 49 {
        for old in (3..number as i32).step_by(3) {
            edit.remove((old, 5));
        }
    }
    let durability = if random.chance(20) { Durability::Buffered } else { Durability::Synced };
    edit.commit(durability).expect("a healthy disk");
    if random.chance(5) {
        world.compact(|_, _| {}).expect("a healthy disk");
    }
}

/// Runs a writer, and readers until it is done. `begun` and `done` are the numbers of its saves.
fn beside_a_writer(
    disk: impl Disk + Clone + 'static,
    saves: u64,
    read: impl Fn(&ChunkWorld, &AtomicU64, &AtomicU64, &AtomicBool) + Sync,
) {
    let world = options().open_on(disk, NAME, Access::Write).expect("a healthy disk");
    save(&world, 0, &mut Random::new(1));
    let (begun, done, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| scope.spawn(|| read(&world, &begun, &done, &is_over)));
        let mut random = Random::new(2);
        for number in 1..=saves {
            begun.store(number, Ordering::SeqCst);
            save(&world, number, &mut random);
            done.store(number, Ordering::SeqCst);
            if readers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        is_over.store(true, Ordering::SeqCst);
        readers.into_iter().for_each(|reader| reader.join().expect("it read well"));
    });
}

#[test]
fn threads_read_old_or_new_and_never_an_error() {
    let reads = AtomicU64::new(0);
    beside_a_writer(Slow(MemoryDisk::new()), u64::from(400 * scale()), |world, begun, done, is_over| {
        let mut random = Random::new(3);
        while !is_over.load(Ordering::SeqCst) {
            let x = random.below(CHUNKS as usize) as i32;
            let at_least = done.load(Ordering::SeqCst);
            let found = world.read((x, 0)).expect("never an error").expect("it was saved");
            let number = number_of(&found, x);
            let at_most = begun.load(Ordering::SeqCst);
            assert!((at_least..=at_most).contains(&number), "{number} is not {at_least} to {at_most}");
            // One that is saved once, and moved when the table grows over it.
            let old = random.below(at_least as usize + 1) as i32 / 3 * 3;
            if let Some(found) = world.read((old, 5)).expect("never an error") {
                assert!(found == cells(old as u64, 50), "chunk {old} is no chunk that was saved");
            }
            reads.fetch_add(2, Ordering::Relaxed);
        }
    });
    println!("{} reads", reads.into_inner());
}

/// The table grows over frames that somebody is about to read.
#[test]
fn what_moves_is_read_where_it_is() {
    for round in 0..6 * u64::from(scale()) {
        what_moves(round);
    }
}

fn what_moves(round: u64) {
    let shape = script::Shape { eager: true, ..script::Shape::PLAIN };
    let world = shape.open(Slow(MemoryDisk::new())).expect("a disk in memory");
    let cells = |number: u64| Random::new(number).bytes(script::CHUNK_BYTES);
    let save = |numbers: std::ops::Range<u64>| {
        let mut edit = world.edit();
        for number in numbers {
            edit.put((number as i32, 0), cells(number));
        }
        edit.commit(Durability::Synced).expect("a disk in memory");
    };
    // The first chunks lie side by side behind the table, and are those that it is written over when it is full.
    save(0..300);
    let is_over = AtomicBool::new(false);
    let read = &|seed: u64| {
        let mut random = Random::new(seed);
        while !is_over.load(Ordering::SeqCst) {
            let number = random.below(130) as u64;
            let found = world.read((number as i32, 0)).expect("never an error");
            assert!(found == Some(cells(number)), "chunk {number}");
        }
    };
    std::thread::scope(|scope| {
        let readers = [1, 2, 3, 4, 5, 6, 7, 8].map(|seed| scope.spawn(move || read(seed + 10 * round)));
        save(300..675);
        save(675..1012);
        is_over.store(true, Ordering::SeqCst);
        readers.into_iter().for_each(|reader| reader.join().expect("it read well"));
    });
}

/// A world that is opened for reading is one save as a whole. If the writer has moved frames meanwhile, a read of it may fail,
/// and succeeds when it has looked again.
fn look(reader: &ChunkWorld) -> Option<u64> {
    let read = || -> bonfire::Result<Vec<u64>> {
        (0..CHUNKS).map(|x| Ok(number_of(&reader.read((x, 0))?.expect("it was saved"), x))).collect()
    };
    let numbers = read().ok()?;
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?} are not of one save");
    Some(numbers[0])
}

fn other_processes(disk: impl Disk + Clone + 'static, saves: u64) {
    let (opened, moved) = (AtomicU64::new(0), AtomicU64::new(0));
    let again = disk.clone();
    beside_a_writer(disk, saves, |_, begun, done, is_over| {
        while !is_over.load(Ordering::SeqCst) {
            let at_least = done.load(Ordering::SeqCst);
            let reader = options().open_on(again.clone(), NAME, Access::Read).expect("it can be read");
            assert!(reader.report().damaged.is_empty(), "{:?}", reader.report());
            for _ in 0..3 {
                match look(&reader) {
                    Some(number) => {
                        let at_most = begun.load(Ordering::SeqCst);
                        assert!(
                            (at_least..=at_most).contains(&number),
                            "{number} is not {at_least} to {at_most}"
                        );
                    }
                    None => drop(moved.fetch_add(1, Ordering::Relaxed)),
                }
                reader.refresh().expect("it can be read");
            }
            opened.fetch_add(1, Ordering::Relaxed);
        }
    });
    println!(
        "{} times opened, {} times moved meanwhile",
        opened.load(Ordering::Relaxed),
        moved.load(Ordering::Relaxed)
    );
    assert!(moved.into_inner() < opened.into_inner());
}

#[test]
fn another_process_sees_whole_saves() {
    other_processes(MemoryDisk::new(), u64::from(300 * scale()));
}

#[test]
fn another_process_sees_whole_saves_on_a_real_disk() {
    let directory = tempfile::tempdir().expect("a place for files");
    other_processes(Shared(std::sync::Arc::new(OsDisk::at(directory.path()))), u64::from(60 * scale()));
}

/// A disk in memory that is slow to read now and then: what is read may be moved meanwhile.
#[derive(Clone)]
struct Slow(MemoryDisk);

struct SlowFile(Box<dyn DiskFile>);

impl DiskFile for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        static READS: AtomicU64 = AtomicU64::new(0);
        if bytes.len() < 200 || bytes.len() < 2000 && READS.fetch_add(1, Ordering::Relaxed).is_multiple_of(4)
        {
            std::thread::sleep(std::time::Duration::from_micros(800));
        }
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
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

impl Disk for Slow {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SlowFile(self.0.open(name, access)?)))
    }

    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SlowFile(self.0.create_new(name)?)))
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
}

/// A directory that several worlds use.
#[derive(Clone)]
struct Shared(std::sync::Arc<OsDisk>);

impl Disk for Shared {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(name, access)
    }

    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.0.create_new(name)
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
}

/// The table grows over the first frames, which another process has seen where they were.
#[test]
fn a_reader_of_another_process_follows_frames_that_were_moved() {
    use bonfire_chunks::{ChunkOptions, Durability, Layer, Layers, Persistence};
    let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    let options = ChunkOptions::new(layers).chunk_size(16).table_capacity(20).compact_above(None);
    let noise = |seed: i32| bonfire_testkit::disk::Random::new(seed as u64).bytes(256);
    let disk = bonfire_store::disk::MemoryDisk::new();
    let world = options.open_on(disk.clone(), "world", bonfire_store::disk::Access::Write).unwrap();
    for x in 0..20 {
        world.edit().put((x, 0), noise(x)).commit(Durability::Synced).unwrap();
    }
    world.close().unwrap();
    drop(world);
    let reader = options.open_on(disk.clone(), "world", bonfire_store::disk::Access::Read).unwrap();
    let world = options.open_on(disk.clone(), "world", bonfire_store::disk::Access::Write).unwrap();
    for x in 20..80 {
        world.edit().put((x, 0), noise(x)).commit(Durability::Synced).unwrap();
    }
    world.close().unwrap();
    for x in 0..20 {
        assert_eq!(reader.read((x, 0)).unwrap(), Some(noise(x)), "chunk {x}");
    }
}
