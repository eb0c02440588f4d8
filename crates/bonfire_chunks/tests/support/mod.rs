//! What the tests of worlds have in common.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use bonfire_chunks::{
    Body, BodyId, ChunkOptions, ChunkPos, Generator, Layer, Layers, Persistence, WorldShape,
};

pub const SIZE: usize = 16;

/// Four layers of a byte each, as the document has them.
pub fn layers() -> Layers {
    Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1))
        .with(Layer::new("damage", 1))
        .with(Layer::new("flags", 1))
}

pub fn options() -> ChunkOptions {
    ChunkOptions::new(layers())
        .chunk_size(SIZE as u16)
        .tile_size(4)
        .seed(7)
        .created(1_700_000_000)
        .table_capacity(8)
}

/// Ground below a line that goes up and down.
#[derive(Clone, Copy)]
pub struct Hills {
    pub version: u32,
}

impl Generator for Hills {
    fn generate(&self, _: &WorldShape<'_>, pos: ChunkPos, cells: &mut [u8]) {
        self.fill(pos, cells);
    }

    fn version(&self) -> u32 {
        self.version
    }
}

impl Hills {
    pub fn fill(&self, pos: ChunkPos, cells: &mut [u8]) {
        for (number, cell) in cells.chunks_exact_mut(4).enumerate() {
            let (x, y) = ((number % SIZE) as i32, (number / SIZE) as i32);
            let (x, y) = (
                pos.x.wrapping_mul(SIZE as i32).wrapping_add(x),
                pos.y.wrapping_mul(SIZE as i32).wrapping_add(y),
            );
            let ground = (x.rem_euclid(32) - 16).abs() + self.version as i32;
            if y < ground {
                cell.copy_from_slice(&[3, (x ^ y) as u8 & 3, 0, 0]);
            }
        }
    }
}

pub fn cells(fill: impl Fn(usize, usize) -> [u8; 4]) -> Vec<u8> {
    (0..SIZE * SIZE).flat_map(|number| fill(number % SIZE, number / SIZE)).collect()
}

/// Cells that do not compress.
pub fn noise(seed: u64) -> Vec<u8> {
    bonfire_testkit::disk::Random::new(seed).bytes(SIZE * SIZE * 4)
}

pub fn body(id: u64, position: [f32; 2]) -> Body {
    Body {
        id: BodyId(id),
        position,
        rotation: 0.5,
        linear_velocity: [1.0, -2.0],
        angular_velocity: 0.25,
        width: 3,
        height: 2,
        origin: [-1, -1],
        cells: (0..24).collect(),
        mask: vec![0b10_1101],
        extension: b"golden".to_vec(),
    }
}

/// The entities of a chunk: one, with a number.
pub fn snapshot(number: u32) -> Vec<u8> {
    use bonfire::engine::SnapshotWriter;
    let mut writer = SnapshotWriter::new(registry());
    let id = bonfire::EntityId::new(number, 0);
    writer.archetype(&[id]).unwrap().column(&[Creature { number, name: format!("goat {number}") }]).unwrap();
    writer.finish().unwrap().encode(&bonfire::EncodeOptions::default()).unwrap().to_vec()
}

/// The number of the entity in a [`snapshot`].
pub fn number_of(snapshot: &[u8]) -> u32 {
    bonfire::Snapshot::open(snapshot).unwrap().archetypes().next().unwrap().ids()[0].index()
}

#[derive(bonfire::Persist)]
#[persist(key = "game.goat")]
struct Creature {
    number: u32,
    name: String,
}

fn registry() -> &'static bonfire::Registry {
    static REGISTRY: std::sync::OnceLock<bonfire::Registry> = std::sync::OnceLock::new();
    REGISTRY.get_or_init(|| bonfire::Registry::new().with::<Creature>().unwrap())
}
