//! A small world of chunks, in all conditions.

use std::path::{Path, PathBuf};

use bonfire_chunks::codec::Delta;
use bonfire_chunks::{
    Body, BodyId, ChunkOptions, ChunkPos, ChunkWorld, Dimension, Durability, Layer, Layers, Persistence,
    StoredChunk,
};
use bonfire_store::SealKey;
use tempfile::TempDir;

pub(crate) const SIZE: usize = 16;

pub(crate) const STONE: u8 = 1;
pub(crate) const WATER: u8 = 2;
pub(crate) const ZORP: u8 = 3;

pub(crate) fn options() -> ChunkOptions {
    let layers = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1))
        .materials(
            "material",
            [(0, "game.air"), (1, "game.stone"), (2, "game.water"), (3, "zorp\u{1b}[31m")],
        );
    ChunkOptions::new(layers).chunk_size(16).tile_size(4).seed(7).created(1_700_000_000).generator_version(3)
}

/// Stone on the left, water on the right, and one cell of zorp in the first row.
pub(crate) fn halves() -> Vec<u8> {
    let cell = |number: usize| match (number % SIZE, number / SIZE) {
        (2, 0) => [ZORP, 0],
        (0..8, _) => [STONE, 0],
        _ => [WATER, 0],
    };
    (0..SIZE * SIZE).flat_map(cell).collect()
}

/// Cells that do not compress.
pub(crate) fn noise() -> Vec<u8> {
    let mut state = 9_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..SIZE * SIZE * 2).map(|_| next()).collect()
}

pub(crate) fn body(id: u64, x: f32) -> Body {
    Body {
        id: BodyId(id),
        position: [x, 3.0],
        rotation: 0.5,
        linear_velocity: [1.0, -2.0],
        angular_velocity: 0.25,
        width: 2,
        height: 1,
        origin: [-1, -1],
        cells: vec![1, 2, 3, 4],
        mask: vec![0b11],
        extension: Vec::new(),
    }
}

/// Entities of one chunk.
pub(crate) fn entities(metadata: &str) -> Vec<u8> {
    let registry = bonfire::Registry::new();
    let mut writer = bonfire::engine::SnapshotWriter::new(&registry);
    writer.metadata("name", metadata);
    writer.finish().unwrap().to_bytes().unwrap().to_vec()
}

/// A world in a directory of its own.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) path: PathBuf,
}

impl World {
    /// A full chunk with a body and entities, a delta, an empty chunk, and one that does not compress.
    pub(crate) fn new() -> Self {
        Self::with(&options())
    }

    pub(crate) fn with(options: &ChunkOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("world.save");
        fill(&options.open(&path).unwrap());
        Self { directory, path }
    }

    /// As a crash leaves it.
    pub(crate) fn unclosed() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (path, busy) = (directory.path().join("world.save"), directory.path().join("busy.save"));
        let world = options().open(&busy).unwrap();
        fill(&world);
        std::fs::copy(&busy, &path).unwrap();
        drop(world);
        ChunkWorld::delete(&busy).unwrap();
        let _ = std::fs::remove_file(directory.path().join("busy.save.lock"));
        Self { directory, path }
    }

    /// With a bit flipped in the chunk at (2, 0).
    pub(crate) fn damaged() -> Self {
        let world = Self::new();
        let mut bytes = world.bytes();
        let at = bytes.windows(32).position(|part| part == &noise()[..32]).expect("it is stored as it is");
        bytes[at + 5] ^= 1;
        std::fs::write(&world.path, bytes).unwrap();
        world
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The files of the directory, sorted, without locks.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
        names.sort();
        names
    }
}

fn fill(world: &ChunkWorld) {
    let delta = Delta { runs: vec![(16, 2)], cells: vec![WATER, 0, STONE, 0] };
    world
        .edit()
        .put((0, 0), halves())
        .put_stored((1, 0), StoredChunk::Delta(delta))
        .put_stored((-1, 1), StoredChunk::Empty)
        .put((2, 0), noise())
        .put_bodies((0, 0), [body(7, 4.0)])
        .put_entities((0, 0), entities("first"))
        .commit(Durability::Synced)
        .unwrap();
}

impl World {
    /// Four moments: `one` and `two` with metadata, `evil` with a name for a terminal, and the present. Between them the
    /// chunk at (2, 0) changes, its entities do after `one`, and the chunk at (3, 0) is new in the present.
    pub(crate) fn pinned() -> Self {
        Self::pinned_with(&options())
    }

    pub(crate) fn pinned_with(options: &ChunkOptions) -> Self {
        let world = Self::with(options);
        let open = options.clone().compact_above(None).open(&world.path).unwrap();
        open.pin("one", "chapter 1\n").unwrap();
        open.edit().put((2, 0), [STONE, 9].repeat(SIZE * SIZE)).commit(Durability::Synced).unwrap();
        open.edit().put_entities((0, 0), entities("second")).commit(Durability::Synced).unwrap();
        open.pin("two", [1, 2, 255]).unwrap();
        open.edit().put((2, 0), [WATER, 9].repeat(SIZE * SIZE)).commit(Durability::Synced).unwrap();
        open.pin(EVIL, []).unwrap();
        open.edit().put((2, 0), halves()).put((3, 0), halves()).commit(Durability::Synced).unwrap();
        open.close().unwrap();
        world
    }

    /// With a bit flipped in the chunk at (2, 0) of the pin `one`.
    pub(crate) fn pinned_and_damaged() -> Self {
        let world = Self::pinned();
        let mut bytes = world.bytes();
        let at = bytes.windows(32).position(|part| part == &noise()[..32]).expect("it is stored as it is");
        bytes[at + 5] ^= 1;
        std::fs::write(&world.path, bytes).unwrap();
        world
    }

    /// Dimension 0 as ever, and dimension 1 with three coordinates: stone below z = 0 with a cell of water at (3, 2, -1),
    /// one cell of stone at (0, 0, 5) above it, a chunk of deltas at (1, 0, 0) and entities at (1, 0, -1).
    pub(crate) fn deep() -> Self {
        let world = Self::with(&deep_options());
        let open = deep_options().open(&world.path).unwrap();
        let delta = Delta { runs: vec![(5 * AREA as u32 + 1, 1)], cells: vec![WATER, 0] };
        open.edit()
            .put(in_cave(0, 0, -1), floor())
            .put(in_cave(0, 0, 0), block())
            .put_stored(in_cave(1, 0, 0), StoredChunk::Delta(delta))
            .put_stored(in_cave(0, 1, 0), StoredChunk::Empty)
            .put_entities(in_cave(1, 0, -1), entities("cave"))
            .commit(Durability::Synced)
            .unwrap();
        open.close().unwrap();
        world
    }
}

/// A name of a pin that would change the colour of a terminal.
pub(crate) const EVIL: &str = "evil\u{1b}[31m";

/// Cells along an edge of a chunk of dimension 1.
pub(crate) const EDGE: usize = 8;
pub(crate) const AREA: usize = EDGE * EDGE;

pub(crate) fn deep_options() -> ChunkOptions {
    let layers = Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1))
        .materials("material", [(0, "game.air"), (1, "game.stone"), (2, "game.water")]);
    let cave = Dimension::new(layers).chunk_size(8).tile_size(2).three_dimensional().seed(666);
    options().dimension(1, cave)
}

pub(crate) fn in_cave(x: i32, y: i32, z: i32) -> ChunkPos {
    ChunkPos::new_3d(x, y, z).in_dimension(1)
}

/// Stone, with water at (3, 2) of the highest layer.
fn floor() -> Vec<u8> {
    let mut cells = [STONE, 0].repeat(EDGE * AREA);
    cells[(7 * AREA + 2 * EDGE + 3) * 2] = WATER;
    cells
}

/// Air, with one cell of stone at (0, 0, 5).
fn block() -> Vec<u8> {
    let mut cells = vec![0; EDGE * AREA * 2];
    cells[5 * AREA * 2] = STONE;
    cells
}

pub(crate) fn key() -> SealKey {
    SealKey::from_bytes([5; 32])
}

/// A file with a key.
pub(crate) fn key_file(directory: &Path, byte: u8) -> String {
    let path = directory.join(format!("key-{byte}"));
    std::fs::write(&path, [byte; 32]).unwrap();
    path.to_str().unwrap().to_owned()
}
