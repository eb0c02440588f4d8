//! Any bytes: opening, salvaging, reading every value, encoding again and loading must end in a result, within limits.
//!
//! Checksums would keep a fuzzer out, so the input is a file whose checksums are mended before it is opened.
#![no_main]

use bonfire::engine::*;
use bonfire::*;
use libfuzzer_sys::fuzz_target;

#[derive(Clone, Persist)]
#[persist(key = "game.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Clone, Persist)]
#[persist(key = "game.mixed")]
struct Mixed {
    flag: bool,
    letter: char,
    big: u64,
}

#[derive(Clone, Persist)]
#[persist(key = "game.name")]
struct Name(String, Option<Box<Name>>, Vec<EntityId>);

fn limits() -> Limits {
    Limits {
        raw_bytes_max: 1 << 22,
        memory_bytes_max: 1 << 24,
        sections_max: 64,
        components_max: 256,
        archetypes_max: 256,
        entities_max: 1 << 16,
        data_entries_max: 256,
        schema_nodes_max: 1024,
        depth_max: 32,
        empty_elements_max: 1 << 16,
        watch: None,
    }
}

/// Opening looks at each byte of a file a few times: its checksum, its section's table, its place in the prelude. The same
/// holds for bytes that come out of compressed blocks, of which the limits allow so many.
fn check_work(watch: &Watch, bytes: usize) {
    let most = 4 * (bytes as u64 + limits().raw_bytes_max);
    assert!(watch.steps() <= most, "{} steps for {bytes} bytes", watch.steps());
}

/// Mends the header, and the headers and blocks of all sections that can be walked.
fn mend(bytes: &mut [u8]) {
    if bytes.len() < 64 {
        return;
    }
    let len = bytes.len() as u64;
    bytes[..8].copy_from_slice(b"\x89BNF\r\n\x1a\n");
    bytes[16..24].copy_from_slice(&len.to_le_bytes());
    let mut at = 64;
    while at + 32 <= bytes.len() && &bytes[at..at + 4] == b"BSEC" {
        let count = u32::from_le_bytes(bytes[at + 24..at + 28].try_into().unwrap()) as usize;
        let Some(table_end) = count.checked_mul(12).and_then(|len| len.checked_add(at + 32)) else { break };
        if table_end > bytes.len() {
            break;
        }
        let mut block = table_end.next_multiple_of(64);
        for entry in 0..count {
            let entry = at + 32 + entry * 12;
            let stored = u32::from_le_bytes(bytes[entry + 4..entry + 8].try_into().unwrap()) as usize;
            let Some(end) = block.checked_add(stored).filter(|end| *end <= bytes.len()) else { break };
            let crc = crc32c(&bytes[block..end]);
            bytes[entry + 8..entry + 12].copy_from_slice(&crc.to_le_bytes());
            block = end;
        }
        let head = [&bytes[at..at + 28], &bytes[at + 32..table_end]].concat();
        let crc = crc32c(&head);
        bytes[at + 28..at + 32].copy_from_slice(&crc.to_le_bytes());
        if bytes[at + 4] == 7 {
            bytes[24..32].copy_from_slice(&(at as u64).to_le_bytes());
        }
        at = block.next_multiple_of(64);
    }
    let crc = crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
    };
    !bytes.iter().fold(!0, step)
}

fn explore(bytes: &[u8], registry: &Registry, salvage: bool) {
    let limits = limits();
    let watch = Watch::new();
    let options = Snapshot::options().limits(limits.clone()).watch(&watch).registry(registry);
    let options = if salvage { options.salvage() } else { options };
    let opened = options.open(bytes);
    check_work(&watch, bytes.len());
    let Ok(snapshot) = opened else {
        return;
    };
    for archetype in snapshot.archetypes() {
        for column in archetype.columns() {
            let _ = column.values(&limits);
            let _ = column.as_slice::<Position>();
            let _ = column.component().schema().map(|schema| schema.to_string());
        }
    }
    snapshot.resources().for_each(|column| drop(column.values(&limits)));
    snapshot.carried().for_each(|(_, column)| drop(column.values(&limits)));
    snapshot.data().iter().for_each(|entry| drop(entry.value(&limits)));
    let again = snapshot.encode(&EncodeOptions::default()).expect("what was opened can be encoded").to_vec();
    if !salvage {
        let reopened = Snapshot::options().limits(limits.clone()).registry(registry).open(&again);
        let reopened = reopened.expect("what was encoded can be opened");
        assert_eq!(reopened.encode(&EncodeOptions::default()).unwrap().to_vec(), again);
    }
    for (unknown, portable) in [(Unknown::Keep, false), (Unknown::Drop, true)] {
        let options = LoadOptions { unknown, portable, ..LoadOptions::new() };
        let options = options.limits(limits.clone()).dangling(Dangling::DropComponent);
        let Ok(plan) = LoadPlan::new(&snapshot, registry, options) else { continue };
        let Ok(map) = EntityMap::identity(&plan.entities()) else { continue };
        if let Ok(staged) = plan.stage(&map, None) {
            for archetype in staged.archetypes {
                for (_, column) in archetype.columns {
                    drop(column.into_rows::<Name>());
                }
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut registry = Registry::new();
    registry.register::<Position>().unwrap();
    registry.register::<Mixed>().unwrap();
    registry.register::<Name>().unwrap();
    explore(bytes, &registry, true);
    let mut mended = bytes.to_vec();
    mend(&mut mended);
    explore(&mended, &registry, false);
    explore(&mended, &registry, true);
});
