//! Cells for the rows about chunks.

use bonfire_chunks::codec::{Choice, Codec, encode_full};
use bonfire_chunks::{ChunkOptions, Layer, Layers, Persistence};

/// Cells along an edge.
pub(crate) const SIZE: i32 = 128;

pub(crate) fn layers() -> Layers {
    Layers::new()
        .with(Layer::new("material", 1).persistence(Persistence::Always))
        .with(Layer::new("color", 1))
        .with(Layer::new("damage", 1))
        .with(Layer::new("flags", 1))
}

pub(crate) fn options() -> ChunkOptions {
    ChunkOptions::new(layers()).chunk_size(SIZE as u16)
}

/// Cells along an edge of chunks of about 20 KB that are stored as they are.
const RAW_SIZE: u16 = 72;

/// A world that does not compress, to be held against plain writes of the same bytes.
pub(crate) fn raw_options() -> ChunkOptions {
    ChunkOptions::new(layers()).chunk_size(RAW_SIZE).compression(Choice::none().with(Codec::Raw))
}

/// 20,736 bytes of cells.
pub(crate) fn raw_cells(seed: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let len = usize::from(RAW_SIZE) * usize::from(RAW_SIZE) * 4;
    (0..len / 8).flat_map(|_| numbers.next().to_le_bytes()).collect()
}

/// Numbers from a seed (splitmix64).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xD134_2543_DE82_EF95))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// 64 KiB of cells that become about 20 KB: every row begins with 40 that do not compress.
pub(crate) fn cells(seed: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let mut cells = vec![0; (SIZE * SIZE * 4) as usize];
    for row in cells.chunks_exact_mut(SIZE as usize * 4) {
        row[..160].chunks_exact_mut(8).for_each(|two| two.copy_from_slice(&numbers.next().to_le_bytes()));
    }
    cells
}

/// Bytes of these cells in a file, without anything around them.
pub(crate) fn payload_bytes(cells: &[u8]) -> u64 {
    let mut out = Vec::new();
    encode_full(cells, 4, Choice::default(), &mut out);
    out.len() as u64
}

/// Chunks of 512 by 512 cells of ground as games have it: hills with layers of earth and stone in four shades, ores, caves, and
/// in some of them what players did: damage, walls, craters.
pub(crate) fn terrain() -> Vec<Vec<u8>> {
    (0..6).map(|number| chunk_of_terrain(number, number % 2 == 1)).collect()
}

fn chunk_of_terrain(number: u64, edited: bool) -> Vec<u8> {
    let mut numbers = Numbers::new(number + 77);
    let mut cells = vec![0; 512 * 512 * 4];
    let wave = |x: f64, length: f64, height: f64| ((x + number as f64 * 512.0) / length).sin() * height;
    for x in 0..512_usize {
        let at = x as f64;
        let ground = 300.0 + wave(at, 90.0, 60.0) + wave(at, 23.0, 9.0) + wave(at, 7.0, 2.0);
        for y in 0..512_usize {
            let height = y as f64;
            let depth = ground - height;
            let cave = wave(at + height * 0.7, 31.0, 1.0) + wave(height * 2.0 - at, 47.0, 1.0) > 1.6;
            if depth < 0.0 || (cave && depth > 20.0) {
                continue;
            }
            let noise = numbers.next();
            let material = match depth {
                depth if depth < 2.0 => 1,
                depth if depth < 18.0 + wave(at, 13.0, 4.0) => 2,
                _ if noise >> 40 & 0x3FF == 0 => 5 + (noise >> 50 & 3) as u8,
                depth if depth < 150.0 => 3,
                _ => 4,
            };
            let cell = &mut cells[(y * 512 + x) * 4..][..4];
            cell.copy_from_slice(&[material, (noise & 3) as u8, 0, 2]);
        }
    }
    if edited {
        for _ in 0..13_000 {
            let at = (numbers.next() % (512 * 512)) as usize * 4;
            cells[at + 2] = (numbers.next() & 3) as u8;
        }
        for y in 250..330 {
            cells[(y * 512 + 60) * 4..(y * 512 + 160) * 4].fill(0);
        }
    }
    cells
}
