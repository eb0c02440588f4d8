//! Chunked worlds on a real disk: what is written and how often it is synced, by counting; saves, reads and opening by
//! the wall clock, in turns with the least that could be done.

use std::collections::HashMap;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bonfire_chunks::codec::{Choice, Delta, decode_full, encode_delta, encode_full};
use bonfire_chunks::{
    Body, BodyId, ChunkOptions, ChunkPos, ChunkWorld, Durability, Layer, Layers, Persistence, StoredChunk,
};
use bonfire_store::disk::{Access, Disk, DiskFile, DiskLock, OsDisk};

use crate::chunk_data::{
    Numbers, SIZE, cells, layers, options, payload_bytes, raw_cells, raw_options, terrain,
};
use crate::measure::{Row, against, turns};

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |key, target: f64, measure: fn() -> (f64, String)| {
        let target = (target > 0.0).then_some(target);
        rows.push(Row { key, target, measure: Box::new(measure) });
    };
    add("chunks_write_amp", 1.10, || write_amp(false, 0));
    add("chunks_write_amp_eager", 1.25, || write_amp(true, 0));
    add("chunks_write_amp_bodies", 1.25, || write_amp(true, 100_000));
    add("chunks_syncs_per_save", 1.0, || syncs(false));
    add("chunks_syncs_per_save_eager", 2.0, || syncs(true));
    add("chunks_save_x_append", 1.15, || save(&RAW));
    add("chunks_save_compressed_x_append", 0.0, || save(&COMPRESSED));
    add("chunks_read_x_pread", 1.2, read);
    add("chunks_open_1m_x_table_read", 1.5, open_million);
    add("chunks_index_1m_mb", 75.0, index_million);
    add("terrain_ratio_x_lz4", 1.5, terrain_ratio);
    add("terrain_decode_x_lz4", 1.0, terrain_decode);
    add("delta_hole_bytes", 200.0, hole);
    rows
}

pub(crate) const CHUNKS: i32 = 10_000;
pub(crate) const DIRTY: usize = 100;
const ROUNDS: usize = 30;

pub(crate) fn wall(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

pub(crate) fn pos(number: i32) -> ChunkPos {
    ChunkPos::new(number % 100 - 50, number / 100 - 50)
}

/// Counts what is asked of a directory.
#[derive(Clone)]
struct Counting {
    disk: OsDisk,
    bytes: Arc<AtomicU64>,
    syncs: Arc<AtomicU64>,
}

struct CountingFile {
    file: Box<dyn DiskFile>,
    disk: Counting,
}

impl Counting {
    fn at(path: &Path) -> Self {
        Self { disk: OsDisk::at(path), bytes: Arc::default(), syncs: Arc::default() }
    }

    fn counts(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.syncs.load(Ordering::Relaxed))
    }
}

impl Disk for Counting {
    fn open(&self, name: &str, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(CountingFile { file: self.disk.open(name, access)?, disk: self.clone() }))
    }
    fn create_new(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(CountingFile { file: self.disk.create_new(name)?, disk: self.clone() }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.disk.sync_dir()
    }
    fn lock(&self, name: &str) -> io::Result<Option<DiskLock>> {
        self.disk.lock(name)
    }
}

impl DiskFile for CountingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.file.write_at(bytes, offset)?;
        self.disk.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
    fn stamp(&self) -> io::Result<u64> {
        self.file.stamp()
    }
}

/// What the chunks of a world are like.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) options: fn() -> ChunkOptions,
    pub(crate) cells: fn(u64) -> Vec<u8>,
    made: &'static OnceLock<tempfile::TempDir>,
}

/// Chunks of 64 KiB that are compressed to about 20 KB.
pub(crate) static COMPRESSED: Kind = Kind { options, cells, made: &MADE_COMPRESSED };
/// Chunks of about 20 KB that are stored as they are.
pub(crate) static RAW: Kind = Kind { options: raw_options, cells: raw_cells, made: &MADE_RAW };
static MADE_COMPRESSED: OnceLock<tempfile::TempDir> = OnceLock::new();
static MADE_RAW: OnceLock<tempfile::TempDir> = OnceLock::new();

impl Kind {
    /// A world of 10,000 chunks, made once; each row works on a copy.
    pub(crate) fn copy_to(&self, directory: &Path) {
        let made = self.made.get_or_init(|| {
            let directory = tempfile::tempdir().expect("a directory for temporary files");
            let world = (self.options)().open(directory.path().join("world")).expect("a new world");
            for numbers in (0..CHUNKS).collect::<Vec<_>>().chunks(200) {
                let mut edit = world.edit();
                for &number in numbers {
                    edit.put(pos(number), (self.cells)(number as u64));
                }
                edit.commit(Durability::Buffered).expect("room on the disk");
            }
            world.close().expect("a disk that works");
            directory
        });
        std::fs::copy(made.path().join("world"), directory.join("world")).expect("room on the disk");
        File::open(directory.join("world")).and_then(|file| file.sync_all()).expect("a disk that works");
    }

    /// Some chunks with new cells.
    pub(crate) fn dirty(&self, numbers: &mut Numbers) -> Vec<(ChunkPos, Vec<u8>)> {
        let one = |numbers: &mut Numbers| pos((numbers.next() % CHUNKS as u64) as i32);
        (0..DIRTY).map(|_| (one(numbers), (self.cells)(numbers.next()))).collect()
    }
}

fn open_on(disk: &Counting, eager: bool) -> ChunkWorld {
    let options = if eager { options().eager() } else { options() };
    options.open_on(disk.clone(), "world", Access::Write).expect("it was just made")
}

pub(crate) fn save_dirty(world: &ChunkWorld, dirty: Vec<(ChunkPos, Vec<u8>)>) -> u64 {
    let mut edit = world.edit();
    for (pos, cells) in dirty {
        edit.put(pos, cells);
    }
    edit.commit(Durability::Synced).expect("a disk that works").bytes
}

fn put_bodies(world: &ChunkWorld, count: u64) {
    const PER_CHUNK: u64 = 100;
    let mut edit = world.edit();
    for chunk in 0..count / PER_CHUNK {
        let pos = ChunkPos::new(1000 + (chunk % 100) as i32, (chunk / 100) as i32);
        let body = |number: u64| Body {
            id: BodyId(1 << 32 | (chunk * PER_CHUNK + number)),
            position: [(pos.x * SIZE + 5) as f32, (pos.y * SIZE + 5) as f32],
            rotation: 0.1,
            linear_velocity: [1.0, 2.0],
            angular_velocity: 0.0,
            width: 8,
            height: 8,
            origin: [-4, -4],
            cells: vec![number as u8; 256],
            mask: vec![0xFF; 8],
            extension: Vec::new(),
        };
        edit.put_bodies(pos, (0..PER_CHUNK).map(body).collect::<Vec<_>>());
    }
    edit.commit(Durability::Synced).expect("room on the disk");
}

/// Bytes written over bytes of payload.
fn write_amp(eager: bool, bodies: u64) -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    COMPRESSED.copy_to(home.path());
    let disk = Counting::at(home.path());
    let world = open_on(&disk, eager);
    put_bodies(&world, bodies);
    let mut numbers = Numbers::new(1);
    let (mut written, mut payload) = (0, 0);
    let saves = 10;
    for _ in 0..saves {
        let dirty: HashMap<ChunkPos, Vec<u8>> = COMPRESSED.dirty(&mut numbers).into_iter().collect();
        payload += dirty.values().map(|cells| payload_bytes(cells)).sum::<u64>();
        let before = disk.counts().0;
        save_dirty(&world, dirty.into_iter().collect());
        written += disk.counts().0 - before;
    }
    let note = format!(
        "{:.0} KB of payload per save, {:.0} KB written; {bodies} bodies elsewhere",
        payload as f64 / 1e3 / f64::from(saves),
        written as f64 / 1e3 / f64::from(saves)
    );
    (written as f64 / payload as f64, note)
}

fn syncs(eager: bool) -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    COMPRESSED.copy_to(home.path());
    let disk = Counting::at(home.path());
    let world = open_on(&disk, eager);
    let mut numbers = Numbers::new(2);
    let before = disk.counts().1;
    let saves = 10;
    for _ in 0..saves {
        save_dirty(&world, COMPRESSED.dirty(&mut numbers));
    }
    ((disk.counts().1 - before) as f64 / f64::from(saves), format!("{saves} saves"))
}

/// A save of 100 chunks, times a plain append and sync of the same bytes.
fn save(kind: &'static Kind) -> (f64, String) {
    let home = tempfile::tempdir().expect("a directory for temporary files");
    kind.copy_to(home.path());
    let world =
        (kind.options)().compact_above(None).open(home.path().join("world")).expect("it was just made");
    let plain = File::create_new(home.path().join("plain")).expect("a new file");
    let mut numbers = Numbers::new(3);
    let bytes = save_dirty(&world, kind.dirty(&mut numbers));
    let mut others = Numbers::new(4);
    let mut end = 0;
    let (ours, theirs) = turns(
        ROUNDS,
        || {
            let dirty = kind.dirty(&mut numbers);
            wall(|| {
                black_box(save_dirty(&world, dirty));
            })
        },
        || {
            // As new as the cells are, and all in one piece.
            let same: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| others.next().to_le_bytes()).collect();
            wall(|| {
                plain.write_all_at(&same, end).and_then(|()| plain.sync_data()).expect("a disk that works");
                end += same.len() as u64;
            })
        },
    );
    (
        ours / theirs,
        format!("{:.2} ms, append {:.2} ms; {:.2} MB", ours * 1e3, theirs * 1e3, bytes as f64 / 1e6),
    )
}

/// Where the payload of a chunk lies in its file.
#[derive(Clone, Copy)]
pub(crate) struct StoredAt {
    pub(crate) pos: ChunkPos,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) codec: u8,
}

/// Reads the page table of a world that was closed.
pub(crate) fn stored_chunks(file: &File) -> Vec<StoredAt> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).expect("a header");
    let count = u32::from_le_bytes([header[32], header[33], header[34], header[35]]) as usize;
    let mut bytes = vec![0; count * 24];
    file.read_exact_at(&mut bytes, 64).expect("a table");
    let entry = |entry: &[u8]| {
        let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        let offset = u64::from(word(8)) | u64::from(word(12)) << 32;
        let pos = ChunkPos::new(word(0).cast_signed(), word(4).cast_signed());
        StoredAt { pos, offset, len: word(16) as usize, codec: entry[22] }
    };
    bytes.chunks_exact(24).map(entry).collect()
}

/// A random chunk into memory that is there, times pread and decompression of the same bytes.
fn read() -> (f64, String) {
    const READS: usize = 500;
    let home = tempfile::tempdir().expect("a directory for temporary files");
    COMPRESSED.copy_to(home.path());
    let path = home.path().join("world");
    let world = options().open_read_only(&path).expect("it was just made");
    let file = File::open(&path).expect("it was just made");
    let table = stored_chunks(&file);
    let (mut ours_numbers, mut their_numbers) = (Numbers::new(4), Numbers::new(4));
    let mut memory = vec![0; world.chunk_bytes()];
    let mut payload = Vec::new();
    let mut their_memory = memory.clone();
    let (ours, theirs) = against(
        ROUNDS,
        || {
            for _ in 0..READS {
                let StoredAt { pos, .. } = table[(ours_numbers.next() % table.len() as u64) as usize];
                assert!(world.read_into(pos, &mut memory).expect("it is whole"));
                black_box(&memory);
            }
        },
        || {
            for _ in 0..READS {
                let StoredAt { offset, len, codec, .. } =
                    table[(their_numbers.next() % table.len() as u64) as usize];
                payload.resize(len, 0);
                file.read_exact_at(&mut payload, offset).expect("it is whole");
                let codec = bonfire_chunks::codec::Codec::from_number(codec).expect("a known codec");
                decode_full(codec, &payload, 4, &mut their_memory).expect("it is whole");
                black_box(&their_memory);
            }
        },
    );
    let each = |seconds: f64| seconds * 1e6 / READS as f64;
    (ours / theirs, format!("{:.1} us, pread and decompression {:.1} us", each(ours), each(theirs)))
}

/// A file with a million chunks, made once.
fn million() -> &'static Path {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory for temporary files");
        let world = small_options().open(directory.path().join("world")).expect("a new world");
        for y in 0..1000 {
            let mut edit = world.edit();
            for x in 0..1000 {
                edit.put_stored(ChunkPos::new(x - 500, y - 500), StoredChunk::Empty);
            }
            edit.commit(Durability::Buffered).expect("room on the disk");
        }
        world.flush().and_then(|()| world.close()).expect("a disk that works");
        directory
    });
    made.path()
}

fn small_options() -> ChunkOptions {
    let layers = Layers::new().with(Layer::new("material", 1).persistence(Persistence::Always));
    ChunkOptions::new(layers).chunk_size(16)
}

fn open_million() -> (f64, String) {
    let path = million().join("world");
    let (ours, theirs) = against(
        9,
        || drop(black_box(small_options().open_read_only(&path).expect("it was closed"))),
        || {
            let mut file = File::open(&path).expect("it was closed");
            let mut bytes = vec![0; 64 + 24_000_000];
            file.read_exact(&mut bytes).expect("a million entries");
            let mut map = HashMap::with_capacity(1_000_000);
            for entry in bytes[64..].as_chunks::<24>().0 {
                let ([x, y], _) =
                    entry.as_chunks::<4>().0.split_first_chunk().map(|(a, b)| (*a, b)).expect("8 bytes");
                let mut rest = [0; 16];
                rest.copy_from_slice(&entry[8..]);
                map.insert((i32::from_le_bytes(x), i32::from_le_bytes(y)), rest);
            }
            black_box(map);
        },
    );
    (ours / theirs, format!("{:.0} ms, read and map {:.0} ms", ours * 1e3, theirs * 1e3))
}

fn index_million() -> (f64, String) {
    let world = small_options().open_read_only(million().join("world")).expect("it was closed");
    let info = world.info();
    (
        info.index_bytes as f64 / 1e6,
        format!("{} chunks, a file of {:.0} MB", info.chunks, info.file_bytes as f64 / 1e6),
    )
}

/// How many times smaller than plain LZ4.
fn terrain_ratio() -> (f64, String) {
    let (mut plain, mut best, mut raw) = (0, 0, 0);
    for cells in terrain() {
        let (mut lz4, mut out) = (Vec::new(), Vec::new());
        encode_full(&cells, 4, Choice::compat(), &mut lz4);
        encode_full(&cells, 4, Choice::fast(), &mut out);
        (plain, best, raw) = (plain + lz4.len(), best + out.len(), raw + cells.len());
    }
    let times = |bytes: usize| raw as f64 / bytes as f64;
    (
        plain as f64 / best as f64,
        format!(
            "{:.1} times smaller than the cells, plain LZ4 {:.1}; {} layers",
            times(best),
            times(plain),
            layers().set(0, &[]).map_or(0, |set| set.layers().len())
        ),
    )
}

/// How many times faster than plain LZ4.
fn terrain_decode() -> (f64, String) {
    let encode = |choice: Choice| -> Vec<_> {
        let one = |cells: Vec<u8>| {
            let mut out = Vec::new();
            let codec = encode_full(&cells, 4, choice, &mut out);
            (codec, out, cells.len())
        };
        terrain().into_iter().map(one).collect()
    };
    let (best, plain) = (encode(Choice::fast()), encode(Choice::compat()));
    let mut memory = vec![0; best[0].2];
    let mut other = memory.clone();
    let (ours, theirs) = against(
        ROUNDS,
        || {
            for (codec, bytes, _) in &best {
                decode_full(*codec, bytes, 4, &mut memory).expect("just made");
            }
        },
        || {
            for (codec, bytes, _) in &plain {
                decode_full(*codec, bytes, 4, &mut other).expect("just made");
            }
        },
    );
    let speed = |seconds: f64| (best.len() * memory.len()) as f64 / seconds / 1e9;
    (theirs / ours, format!("{:.1} GB/s, plain LZ4 {:.1}", speed(ours), speed(theirs)))
}

fn hole() -> (f64, String) {
    let base = terrain().swap_remove(0);
    let mut cells = base.clone();
    for y in 200..264 {
        cells[(y * 512 + 100) * 4..(y * 512 + 164) * 4].fill(0);
    }
    let delta = Delta::between(&base, &cells, 4);
    let mut out = Vec::new();
    let codec = encode_delta(&delta, 4, Choice::fast(), &mut out);
    (out.len() as f64, format!("{} cells, {codec:?}", delta.count()))
}
