//! The entities of a chunk come back byte for byte, and their schemas are in the file once for all chunks.

mod support;

use bonfire::engine::SnapshotWriter;
use bonfire::{EncodeOptions, EntityId, Persist, Registry, Snapshot};
use bonfire_chunks::{ChunkPos, ChunkRect, Durability};
use bonfire_store::disk::{Access, Disk, MemoryDisk};
use support::*;

const NAME: &str = "world.save";

#[derive(Persist)]
#[persist(key = "game.creature")]
struct Creature {
    position: [f32; 3],
    velocity: [f32; 3],
    health: f32,
    hunger: f32,
    name: String,
    inventory: Vec<(u32, u16)>,
    follows: Option<EntityId>,
}

#[derive(Persist)]
#[persist(key = "game.chest")]
struct Chest {
    gold: u64,
    lock: Option<String>,
}

fn creature(number: u32) -> Creature {
    Creature {
        position: [number as f32; 3],
        velocity: [0.5; 3],
        health: 9.0,
        hunger: 1.0,
        name: format!("goat {number}"),
        inventory: vec![(number, 2)],
        follows: None,
    }
}

fn snapshot(number: u32, options: &EncodeOptions) -> Vec<u8> {
    let registry = Registry::new().with::<Creature>().unwrap().with::<Chest>().unwrap();
    let mut writer = SnapshotWriter::new(&registry);
    writer.archetype(&[EntityId::new(number, 0)]).unwrap().column(&[creature(number)]).unwrap();
    let chest = Chest { gold: u64::from(number), lock: Some("iron".into()) };
    writer.archetype(&[EntityId::new(number + 1000, 0)]).unwrap().column(&[chest]).unwrap();
    writer.finish().unwrap().encode(options).unwrap().to_vec()
}

#[test]
fn snapshots_come_back_byte_for_byte_and_open() {
    let disk = MemoryDisk::new();
    let world = options().open_on(disk.clone(), NAME, Access::Write).unwrap();
    let forms = [
        EncodeOptions::default(),
        EncodeOptions { copies: false, ..EncodeOptions::default() },
        EncodeOptions { inline_schemas: false, ..EncodeOptions::default() },
    ];
    for (number, form) in forms.iter().enumerate() {
        let bytes = snapshot(number as u32, form);
        world.edit().put_entities((number as i32, 0), bytes).commit(Durability::Synced).unwrap();
    }
    drop(world);
    let world = options().open_on(disk, NAME, Access::Write).unwrap();
    for (number, form) in forms.iter().enumerate() {
        let found = world.read_entities((number as i32, 0)).unwrap().unwrap();
        assert_eq!(found, snapshot(number as u32, form), "form {number}");
        Snapshot::open(&found).unwrap();
    }
    assert_eq!(world.chunks_with_entities(ChunkRect::ALL).len(), 3);
    assert_eq!(world.read_entities((9, 9)).unwrap(), None);
    assert!(world.edit().put_entities((0, 0), b"no snapshot".to_vec()).commit(Durability::Synced).is_err());
    world.edit().remove((0, 0)).commit(Durability::Synced).unwrap();
    assert_eq!(world.read_entities((0, 0)).unwrap(), None);
}

#[test]
fn schemas_are_stored_once_for_all_chunks() {
    let world = options().open_on(MemoryDisk::new(), NAME, Access::Write).unwrap();
    let bytes_of = |number: u32| {
        let snapshot = snapshot(number, &EncodeOptions::default());
        let len = snapshot.len() as u64;
        let report =
            world.edit().put_entities((number as i32, 1), snapshot).commit(Durability::Synced).unwrap();
        (report.bytes, len)
    };
    let (first, _) = bytes_of(0);
    let schemas = Snapshot::open(&snapshot(1, &EncodeOptions::default())).unwrap();
    let schemas: u64 = schemas
        .sections()
        .iter()
        .filter(|section| section.kind == 3)
        .map(|section| section.stored_bytes)
        .sum();
    assert!(schemas > 256, "{schemas}");
    for number in 1..20 {
        let (bytes, len) = bytes_of(number);
        assert!(
            bytes + schemas < len + 512 && bytes < first,
            "{bytes} bytes for a snapshot of {len}, schemas of {schemas}"
        );
    }
    world.compact(|_, _| {}).unwrap();
    for number in 0..20 {
        let found = world.read_entities((number as i32, 1)).unwrap();
        assert_eq!(found, Some(snapshot(number, &EncodeOptions::default())));
    }
}

/// Everything that needs a schema would be lost with it.
#[test]
fn a_damaged_schema_is_read_from_its_copy() {
    let disk = MemoryDisk::new();
    let world = options().open_on(disk.clone(), NAME, Access::Write).unwrap();
    let bytes = snapshot(1, &EncodeOptions { copies: false, ..EncodeOptions::default() });
    world.edit().put_entities((4, 4), bytes.clone()).commit(Durability::Synced).unwrap();
    world.compact(|_, _| {}).unwrap();
    world.close().unwrap();
    drop(world);
    let file = disk.open(NAME, Access::Write).unwrap();
    let mut all = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut all, 0).unwrap();
    // Trailers of schemas: kind 8.
    let magic = [0x9B, b'B', b'N', b'F', 8];
    let trailers: Vec<usize> = (0..all.len() - 5).filter(|at| all[*at..*at + 5] == magic).collect();
    assert_eq!(trailers.len(), 2, "it is there twice");
    for trailer in trailers {
        let mut damaged = all.clone();
        damaged[trailer - 10] ^= 0xFF;
        let disk = MemoryDisk::with_files([(NAME.to_owned(), damaged)]);
        let world = options().open_on(disk, NAME, Access::Write).unwrap();
        assert_eq!(world.read_entities(ChunkPos::new(4, 4)).unwrap(), Some(bytes.clone()));
    }
}
