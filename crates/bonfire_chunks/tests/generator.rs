//! Generators: they get the seed, the sizes and the layers of the world, and a world refuses another seed and another generator.

mod support;

use std::sync::{Arc, Mutex};

use bonfire_chunks::{ChunkOptions, ChunkPos, ChunkWorld, Durability, Generator, Storage, WorldShape};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use support::*;

const NAME: &str = "world.save";

/// Ground that depends on the seed.
#[derive(Clone)]
struct Ground {
    name: &'static str,
    version: u32,
    /// Seeds, sizes and bytes of cells that it was called with.
    seen: Arc<Mutex<Vec<(u64, u32, usize)>>>,
}

impl Ground {
    fn new(name: &'static str, version: u32) -> Self {
        Self { name, version, seen: Arc::default() }
    }

    fn fill(seed: u64, version: u32, pos: ChunkPos, cells: &mut [u8]) {
        let value = (seed as u8) ^ (pos.x as u8) ^ (version as u8).wrapping_mul(32);
        cells.chunks_exact_mut(4).for_each(|cell| cell[0] = value);
    }
}

impl Generator for Ground {
    fn generate(&self, world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
        self.seen.lock().unwrap().push((world.seed, world.chunk_size, world.layers.cell_bytes()));
        Self::fill(world.seed, self.version, pos, cells);
    }
    fn name(&self) -> &str {
        self.name
    }
    fn version(&self) -> u32 {
        self.version
    }
    fn generate_as(&self, version: u32, world: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) -> bool {
        Self::fill(world.seed, version, pos, cells);
        version == 1
    }
}

fn unseeded() -> ChunkOptions {
    ChunkOptions::new(layers()).chunk_size(SIZE as u16).tile_size(4).created(1_700_000_000)
}

fn open(disk: &MemoryDisk, options: &ChunkOptions) -> bonfire::Result<ChunkWorld> {
    options.open_on(disk.clone(), NAME, Access::Write)
}

fn file_bytes(disk: &MemoryDisk) -> Vec<u8> {
    let file = disk.open(NAME, Access::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Saves a chunk as its difference from the generated one.
fn save_delta(world: &ChunkWorld, pos: (i32, i32)) -> Vec<u8> {
    let mut cells = world.load(pos).unwrap().into_cells();
    cells[1] = 99;
    world.edit().put(pos, cells.clone()).commit(Durability::Synced).unwrap();
    assert_eq!(world.storage(pos), Some(Storage::Delta));
    cells
}

#[test]
fn a_generator_gets_the_seed_of_the_file_the_sizes_and_the_layers() {
    let disk = MemoryDisk::new();
    let world = open(&disk, &unseeded().seed(77).generator(Ground::new("", 1))).unwrap();
    let saved = save_delta(&world, (3, 0));
    world.close().unwrap();
    // The game does not know the seed.
    let ground = Ground::new("", 2);
    let world = open(&disk, &unseeded().generator(ground.clone())).unwrap();
    assert_eq!(world.seed(), 77);
    assert_eq!(world.read((3, 0)).unwrap(), Some(saved), "as the earlier version made it, of the same seed");
    let mut expected = vec![0; SIZE * SIZE * 4];
    Ground::fill(77, 2, ChunkPos::new(5, 0), &mut expected);
    assert_eq!(world.load((5, 0)).unwrap().cells(), expected);
    assert_eq!(*ground.seen.lock().unwrap(), [(77, SIZE as u32, 4)]);
}

#[test]
fn another_seed_is_refused_with_both() {
    let disk = MemoryDisk::new();
    open(&disk, &unseeded().seed(77).new_world_seed(5)).unwrap().close().unwrap();
    let error = open(&disk, &unseeded().seed(78)).unwrap_err();
    assert!(error.is_misuse(), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("seed 77") && message.contains("has 78") && message.contains("new_world_seed"),
        "{message}"
    );
    assert!(unseeded().seed(78).open_on(disk.clone(), NAME, Access::Read).is_err());
    assert_eq!(open(&disk, &unseeded().seed(77)).unwrap().seed(), 77);
}

#[test]
fn a_rolled_seed_is_for_new_worlds() {
    let disk = MemoryDisk::new();
    let first = open(&disk, &unseeded().new_world_seed(123)).unwrap();
    assert_eq!(first.seed(), 123);
    first.close().unwrap();
    assert_eq!(open(&disk, &unseeded().new_world_seed(456)).unwrap().seed(), 123);
    assert_eq!(open(&disk, &unseeded()).unwrap().seed(), 123);
    assert_eq!(open(&MemoryDisk::new(), &unseeded()).unwrap().seed(), 0);
}

#[test]
fn another_generator_is_refused_with_both_names() {
    let disk = MemoryDisk::new();
    let hills = unseeded().generator(Ground::new("game.hills", 1));
    let world = open(&disk, &hills).unwrap();
    let saved = save_delta(&world, (0, 0));
    world.close().unwrap();
    let caves = unseeded().generator(Ground::new("game.caves", 1));
    for access in [Access::Write, Access::Read] {
        let error = caves.open_on(disk.clone(), NAME, access).unwrap_err();
        assert!(error.is_misuse(), "{error}");
        assert!(
            error.to_string().contains("`game.hills`") && error.to_string().contains("`game.caves`"),
            "{error}"
        );
    }
    let error = open(&disk, &unseeded().generator(Ground::new("", 1))).unwrap_err();
    assert!(
        error.to_string().contains("`game.hills`") && error.to_string().contains("without a name"),
        "{error}"
    );
    assert!(open(&disk, &unseeded().generator_name("game.caves")).is_err(), "a tool may name one, too");
    // Without a generator, the name stays.
    for options in [unseeded(), ChunkOptions::as_is(), unseeded().generator_name("game.hills")] {
        let world = open(&disk, &options).unwrap();
        world.edit().put((8, 8), noise(8)).commit(Durability::Synced).unwrap();
        assert_eq!(world.info().generator.as_deref(), Some("game.hills"));
        world.compact(|_, _| {}).unwrap();
        world.close().unwrap();
    }
    assert_eq!(open(&disk, &hills).unwrap().read((0, 0)).unwrap(), Some(saved));
}

#[test]
fn a_world_without_a_name_takes_it_with_the_next_save() {
    let disk = MemoryDisk::new();
    let world = open(&disk, &unseeded().generator(Ground::new("", 1))).unwrap();
    save_delta(&world, (0, 0));
    world.close().unwrap();
    drop(world);
    let before = file_bytes(&disk);
    let (hills, caves) = ("game.hills", "game.caves");
    // Nothing is saved, so nothing is written.
    let world = open(&disk, &unseeded().generator(Ground::new(caves, 1))).unwrap();
    assert_eq!(world.info().generator.as_deref(), Some(caves));
    world.close().unwrap();
    drop(world);
    assert_eq!(file_bytes(&disk), before);
    let world = open(&disk, &unseeded().generator(Ground::new(hills, 1))).unwrap();
    save_delta(&world, (1, 0));
    world.close().unwrap();
    drop(world);
    assert!(open(&disk, &unseeded().generator(Ground::new(caves, 1))).is_err());
    assert!(open(&disk, &unseeded().generator(Ground::new(hills, 1))).is_ok());
}

#[test]
fn a_reader_that_looks_again_refuses_another_generator() {
    let disk = MemoryDisk::new();
    let writer = open(&disk, &unseeded()).unwrap();
    writer.close().unwrap();
    drop(writer);
    let caves = unseeded().generator(Ground::new("game.caves", 1));
    let reader = caves.open_on(disk.clone(), NAME, Access::Read).unwrap();
    let writer = open(&disk, &unseeded().generator(Ground::new("game.hills", 1))).unwrap();
    save_delta(&writer, (0, 0));
    assert!(reader.refresh().unwrap_err().to_string().contains("`game.hills`"));
}

#[test]
fn a_closure_is_a_generator_and_may_have_a_name() {
    let disk = MemoryDisk::new();
    let closure = |world: &WorldShape<'_>, _: ChunkPos, cells: &mut [u8]| cells.fill(world.seed as u8);
    let world = open(&disk, &unseeded().seed(9).generator(closure).generator_name("game.flat")).unwrap();
    assert_eq!(world.load((0, 0)).unwrap().cells(), vec![9; SIZE * SIZE * 4]);
    save_delta(&world, (0, 0));
    world.close().unwrap();
    assert!(open(&disk, &unseeded().generator(closure)).is_err());
    assert!(open(&disk, &unseeded().generator(closure).generator_name("game.flat")).is_ok());
}

#[test]
fn the_name_of_a_generator_has_a_limit() {
    let named = |len: usize| open(&MemoryDisk::new(), &unseeded().generator_name("n".repeat(len)));
    assert!(named(255).is_ok());
    let error = named(256).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("256 bytes"), "{error}");
}

/// The threshold and the smaller form decide how a chunk is stored.
#[test]
fn the_threshold_caps_deltas_and_below_it_the_smaller_form_wins() {
    const EDGE: usize = 64;
    let noise = bonfire_testkit::disk::Random::new(1).bytes(EDGE * EDGE);
    let stored = |share: f64, cells: usize, value: &dyn Fn(u8) -> u8| {
        let options = unseeded().chunk_size(EDGE as u16).generator(Ground::new("", 1)).delta_threshold(share);
        let world = open(&MemoryDisk::new(), &options).unwrap();
        let mut chunk = world.load((0, 0)).unwrap().into_cells();
        for (cell, random) in chunk.chunks_exact_mut(4).zip(&noise).take(cells) {
            cell[1] = value(*random);
        }
        world.edit().put((0, 0), chunk.clone()).commit(Durability::Synced).unwrap();
        assert_eq!(world.read((0, 0)).unwrap(), Some(chunk));
        world.storage((0, 0)).unwrap()
    };
    // Random values in a part of the chunk, which is smaller as a delta: the threshold alone decides.
    let (all, random) = (EDGE * EDGE, |random: u8| random | 1);
    assert_eq!(stored(0.25, all / 4, &random), Storage::Delta, "exactly at the threshold");
    assert_eq!(stored(0.25, all / 4 + 1, &random), Storage::Full, "one cell above it");
    assert_eq!(stored(0.0, 1, &random), Storage::Full);
    assert_eq!(stored(0.75, all / 2, &random), Storage::Delta, "the default share");
    // Every second cell by chance: the places take more bytes than one bit for each cell.
    let scattered = |random: u8| random & 1;
    assert_eq!(stored(1.0, all, &scattered), Storage::Full, "below the threshold, and not the smaller one");
}

/// A delta that is damaged is an error. Neither the generated chunk nor any other cells come in its place.
#[test]
fn a_damaged_delta_is_an_error_and_not_the_generated_chunk() {
    let disk = MemoryDisk::new();
    let options = unseeded().generator(Ground::new("game.hills", 1)).compact_above(None).threads(1);
    let world = open(&disk, &options).unwrap();
    let before = file_bytes(&disk).len();
    let saved: Vec<Vec<u8>> = (0..3).map(|x| save_delta(&world, (x, 0))).collect();
    world.close().unwrap();
    drop(world);
    let bytes = file_bytes(&disk);
    let (mut errors, mut right) = (0, 0);
    for at in before..bytes.len() {
        for flip in [0x01, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let disk = MemoryDisk::with_files([(NAME.to_owned(), damaged)]);
            let world = options.open_on(disk, NAME, Access::Read).unwrap();
            for (x, cells) in saved.iter().enumerate() {
                match (world.read((x as i32, 0)), world.load((x as i32, 0))) {
                    (Ok(Some(read)), Ok(loaded)) => {
                        right += 1;
                        assert!(read == *cells && loaded.cells() == cells, "byte {at}: wrong cells");
                    }
                    (Err(one), Err(other)) => {
                        errors += 1;
                        assert!(one.is_corrupt() && other.is_corrupt(), "byte {at}: {one}, {other}");
                    }
                    (read, loaded) => panic!("byte {at}: {read:?}, {loaded:?}"),
                }
            }
        }
    }
    assert!(errors > 0 && right > errors, "{errors} errors, {right} right");
}
