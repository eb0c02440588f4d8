//! Limits of worlds, each a little under it and a little over it, and the steps in which the page table grows.

mod support;

use bonfire_chunks::{BodyLimits, ChunkOptions, Durability, Layer, Layers, Persistence};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use support::*;

const NAME: &str = "world.save";

fn opens(options: &ChunkOptions) -> Result<(), String> {
    let opened = options.open_on(MemoryDisk::new(), NAME, Access::Write);
    opened.map(drop).map_err(|error| {
        assert!(error.is_misuse(), "{error}");
        error.to_string()
    })
}

fn layers_of(count: usize, bytes: usize) -> ChunkOptions {
    let mut layers = Layers::new();
    for number in 0..count {
        layers = layers.with(Layer::new(format!("layer {number}"), bytes).persistence(Persistence::Always));
    }
    ChunkOptions::new(layers).chunk_size(2)
}

#[test]
fn sizes_of_a_world_have_limits() {
    let refused = |options: &ChunkOptions, reason: &str| {
        let error = opens(options).unwrap_err();
        assert!(error.contains(reason), "{error}");
    };
    opens(&options().chunk_size(1)).unwrap();
    opens(&options().chunk_size(4096)).unwrap();
    refused(&options().chunk_size(0), "1 to 4096");
    refused(&options().chunk_size(4097), "4097");
    opens(&layers_of(64, 1)).unwrap();
    refused(&layers_of(65, 1), "64 layers");
    opens(&layers_of(1, 64)).unwrap();
    refused(&layers_of(1, 65), "65 bytes");
    refused(&layers_of(0, 1), "no layer");
    let named = |len: usize| {
        let layer = Layer::new("n".repeat(len), 1).persistence(Persistence::Always);
        ChunkOptions::new(Layers::new().with(layer)).chunk_size(2)
    };
    opens(&named(255)).unwrap();
    refused(&named(256), "256");
    refused(&named(0), "1 to 255");
}

#[test]
fn bodies_that_are_read_have_limits() {
    let disk = MemoryDisk::new();
    let world = options().open_on(disk.clone(), NAME, Access::Write).unwrap();
    world.edit().put_bodies((0, 0), vec![body(1, [3.0, 3.0])]).commit(Durability::Synced).unwrap();
    world.close().unwrap();
    let read = |body_bytes_max: u64| {
        let limits = BodyLimits { body_bytes_max, ..BodyLimits::default() };
        let world = options().body_limits(limits).open_on(disk.clone(), NAME, Access::Read).unwrap();
        let list = world.read_body_list((0, 0)).unwrap();
        match list.lost.into_iter().next() {
            None => Ok(list.bodies),
            Some(lost) => Err(lost.error),
        }
    };
    // The smallest limit that lets the body through.
    let enough = (0..1000).find(|bytes| read(*bytes).is_ok()).expect("the body is small");
    assert!(enough > 0 && read(enough - 1).unwrap_err().is_limit());
    assert_eq!(read(enough).unwrap().len(), 1);
}

/// Room for chunks in the page table, from the header.
fn capacity(disk: &MemoryDisk) -> u32 {
    let mut bytes = [0; 4];
    disk.open(NAME, Access::Read).unwrap().read_exact_at(&mut bytes, 36).unwrap();
    u32::from_le_bytes(bytes) / 24
}

#[test]
fn the_table_grows_by_half_of_itself() {
    let disk = MemoryDisk::new();
    let world = options().eager().compact_above(None).open_on(disk.clone(), NAME, Access::Write).unwrap();
    let mut seen = vec![capacity(&disk)];
    for x in 0..60 {
        world.edit().put((x, 0), noise(x as u64)).commit(Durability::Synced).unwrap();
        let now = capacity(&disk);
        assert!(now > x as u32, "there is room for all chunks");
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen, [8, 12, 18, 27, 41, 62]);
}
