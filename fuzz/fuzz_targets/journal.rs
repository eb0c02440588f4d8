//! Any bytes as the journal of a save: a load ends in a world or in an error, within limits; a world that it gives can be saved
//! and loaded again, and so can what is merged.
//!
//! Checksums and chains would keep a fuzzer out, so they are mended before the load: of the head, of the records as far as
//! their lengths lead, and of the deltas inside.
#![no_main]

use bonfire::engine::SnapshotWriter;
use bonfire::*;
use bonfire_store::{Details, MemoryStore, Payload, Precondition, Slots, Store, Wait};
use libfuzzer_sys::fuzz_target;

#[derive(Clone, Persist)]
#[persist(key = "game.position")]
struct Position {
    x: f32,
    y: f32,
}

#[derive(Clone, Persist)]
#[persist(key = "game.name")]
struct Name(String, Option<EntityId>);

const HEAD_BYTES: usize = 40;
const HEADER_BYTES: usize = 68;
const TRAILER_BYTES: usize = 8;

fn world() -> Result<Snapshot> {
    let registry = Registry::new().with::<Position>()?.with::<Name>()?;
    let mut writer = SnapshotWriter::new(&registry);
    let ids: Vec<EntityId> = (0..4).map(|index| EntityId::new(index, 1)).collect();
    let mut archetype = writer.archetype(&ids)?;
    archetype.column(&[0.0, 1.0, 2.0, 3.0].map(|x| Position { x, y: 0.5 }))?;
    archetype.column_sparse(&[Some(&Name("wolf".into(), Some(ids[1]))), None, None, None])?;
    writer.data("number", &7_u64)?;
    writer.finish()
}

fn limits() -> Limits {
    Limits {
        // A writer keeps a megabyte in reserve.
        raw_bytes_max: 4 << 20,
        memory_bytes_max: 1 << 24,
        components_max: 256,
        archetypes_max: 256,
        entities_max: 1 << 16,
        data_entries_max: 256,
        schema_nodes_max: 1024,
        depth_max: 32,
        empty_elements_max: 1 << 16,
        ..Limits::default()
    }
}

/// The journal is folded once, and once more for each digit of the number of its records if that fails. Each time it costs a
/// few steps for each byte, and what cells without bytes may take of the memory. The save itself is small.
fn check_work(watch: &Watch, bytes: usize) {
    let rounds = 1 + u64::from((bytes / HEADER_BYTES + 1).ilog2());
    let most = rounds * (64 * bytes as u64 + (1 << 19)) + (1 << 16);
    assert!(watch.steps() <= most, "{} steps for {bytes} bytes", watch.steps());
}

fn number(bytes: &[u8], at: usize) -> usize {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, |word| usize::try_from(u64::from_le_bytes(word)).unwrap_or(usize::MAX))
}

fn put_crc(bytes: &mut [u8], at: usize) -> u32 {
    let crc = crc32c::crc32c(&bytes[..at]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// A delta that stands alone: its head, and the checksums of its blocks as far as they can be walked.
fn mend_delta(delta: &mut [u8], since: u64, now: u64) {
    if delta.len() < 64 {
        return;
    }
    let len = delta.len() as u64;
    delta[..8].copy_from_slice(b"\x89BNF\r\n\x1a\n");
    delta[8..12].copy_from_slice(&[1, 0, 2, 0]);
    delta[16..24].copy_from_slice(&len.to_le_bytes());
    delta[24..32].copy_from_slice(&since.to_le_bytes());
    delta[32..40].copy_from_slice(&now.to_le_bytes());
    put_crc(delta, 60);
    let mut at = 64;
    while at + 8 <= delta.len() {
        let len = number(delta, at) as u32 as usize;
        let Some(block) = delta.get(at + 8..at + 8 + len) else { return };
        let crc = crc32c::crc32c(block);
        delta[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        at += 8 + len;
    }
}

fn mend(journal: &mut [u8], save: &[u8]) {
    if journal.len() < HEAD_BYTES {
        return;
    }
    journal[..12].copy_from_slice(b"\x89BNJ\r\n\x1a\n\x01\0\0\0");
    journal[12..16].copy_from_slice(&crc32c::crc32c(save).to_le_bytes());
    journal[16..24].copy_from_slice(&(save.len() as u64).to_le_bytes());
    journal[32..36].fill(0);
    let mut link = put_crc(journal, 36);
    let mut since = number(journal, 24) as u64;
    let (mut at, mut sequence) = (HEAD_BYTES, 1_u64);
    while at + HEADER_BYTES + TRAILER_BYTES <= journal.len() {
        let payload_max = journal.len() - at - HEADER_BYTES - TRAILER_BYTES;
        let payload = number(journal, at + 48);
        // The last one ends where the bytes do.
        let payload = if payload <= payload_max { payload } else { payload_max };
        let record = &mut journal[at..at + HEADER_BYTES + payload + TRAILER_BYTES];
        record[..4].copy_from_slice(b"BREC");
        record[4..8].copy_from_slice(&u32::from(sequence == 1).to_le_bytes());
        let now = since.saturating_add(1);
        let table = if sequence == 1 && payload >= 4 { 4 + number(record, HEADER_BYTES) as u32 as usize } else { 0 };
        if table <= payload {
            mend_delta(&mut record[HEADER_BYTES + table..HEADER_BYTES + payload], since, now);
        }
        for (place, number) in [(8, sequence), (16, since), (24, now), (48, payload as u64)] {
            record[place..place + 8].copy_from_slice(&number.to_le_bytes());
        }
        record[56..60].copy_from_slice(&link.to_le_bytes());
        let crc = crc32c::crc32c(&record[HEADER_BYTES..HEADER_BYTES + payload]);
        record[60..64].copy_from_slice(&crc.to_le_bytes());
        link = put_crc(record, 64);
        let len = record.len();
        record[len - TRAILER_BYTES..].copy_from_slice(&(len as u64).to_le_bytes());
        (since, sequence, at) = (now, sequence + 1, at + len);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let mut journal = bytes.to_vec();
    let store = MemoryStore::new();
    let options = EncodeOptions { limits: limits(), ..EncodeOptions::default() };
    let slots = Slots::new(store.clone()).encode_options(options).clock(|| None);
    slots.save("auto", &world().expect("it is small"), &Details::new()).wait().expect("it is in memory");
    if mode & 1 == 1 {
        let save = store.get("auto.00000001.bonfire").wait().expect("it was saved");
        mend(&mut journal, &save);
    }
    let journal = Payload::from(journal);
    store.put("auto.00000001.journal", journal, Precondition::Absent).wait().expect("it is in memory");
    let _ = slots.list().wait().expect("a journal is no reason not to list");
    let watch = Watch::new();
    let loaded = slots.load_with("auto", &Snapshot::options().limits(limits()).watch(&watch)).wait();
    check_work(&watch, bytes.len());
    let Ok(loaded) = loaded else { return };
    let replay = loaded.journal.expect("there is one");
    assert!(loaded.skipped.is_empty(), "the save is whole");
    if slots.merge_journal("auto").wait().is_ok_and(|merged| merged.is_some()) {
        let merged = slots.load("auto").wait().expect("what is saved can be loaded");
        assert!(merged.journal.is_none());
        assert_eq!(merged.snapshot.entity_count(), loaded.snapshot.entity_count(), "{replay:?}");
    }
});
