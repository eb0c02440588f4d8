//! Every byte of a journal flipped, every truncation, every missing record: what lies before it is loaded, and it is named.

use bonfire_store::{
    JournalReplay, LostDelta, MemoryStore, Payload, Precondition, SealKey, Sealed, Slots, Store, Wait,
};

use super::common::number;
use super::{append, save, slots};

const JOURNAL: &str = "auto.00000001.journal";
const RECORDS: u64 = 3;

/// A store with a save of the world 1 and a journal up to 4; and where each record ends.
fn with_journal() -> (MemoryStore, Slots, Vec<u8>, Vec<usize>) {
    let store = MemoryStore::new();
    let slots = slots(store.clone());
    let base = save(&slots, "auto", 1);
    let mut ends = Vec::new();
    for to in 2..=1 + RECORDS {
        append(&slots, &base, to..=to);
        ends.push(store.head(JOURNAL).wait().unwrap().unwrap().len as usize);
    }
    let bytes = store.get(JOURNAL).wait().unwrap().to_vec();
    (store, slots, bytes, ends)
}

fn put(store: &impl Store, name: &str, bytes: &[u8]) {
    store.put(name, Payload::from(bytes.to_vec()), Precondition::None).wait().unwrap();
}

/// What is loaded, and what is said of the journal. The world is one that was saved, whatever happened to the journal.
fn load(slots: &Slots) -> (u64, JournalReplay) {
    let loaded = slots.load("auto").wait().unwrap();
    let found = number(&loaded.snapshot);
    super::assert_is(&loaded, found, "one of those that were saved");
    let replay = loaded.journal.expect("there is a journal");
    assert_eq!(found, 1 + replay.records);
    (found, replay)
}

#[test]
fn every_truncation() {
    let (store, slots, bytes, ends) = with_journal();
    for len in 0..bytes.len() {
        put(&store, JOURNAL, &bytes[..len]);
        let (found, replay) = load(&slots);
        let whole = ends.iter().filter(|end| **end <= len).count() as u64;
        assert_eq!(found, 1 + whole, "{len} bytes");
        let at_border = len == 40 || ends.contains(&len);
        assert!(replay.lost.as_ref().is_none_or(LostDelta::is_tail), "{len} bytes");
        assert_eq!(replay.lost.is_none(), at_border, "{len} bytes");
    }
}

#[test]
fn every_flipped_byte() {
    let (store, slots, bytes, ends) = with_journal();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        put(&store, JOURNAL, &damaged);
        let (found, replay) = load(&slots);
        let before = if at < 40 { 0 } else { ends.iter().filter(|end| **end <= at).count() as u64 };
        assert_eq!(found, 1 + before, "byte {at}");
        let lost = replay.lost.unwrap_or_else(|| panic!("byte {at} is not noticed"));
        assert_eq!((lost.record, lost.later), (before + 1, RECORDS - before - 1), "byte {at}: {lost}");
    }
}

#[test]
fn whatever_is_appended_is_a_tail() {
    let (store, slots, bytes, _) = with_journal();
    for tail in [&[0][..], &[0; 100], &[0xA5; 5000], b"BREC", &bytes[40..60]] {
        put(&store, JOURNAL, &[&bytes[..], tail].concat());
        let (found, replay) = load(&slots);
        assert_eq!(found, 1 + RECORDS);
        assert!(replay.lost.is_some_and(|lost| lost.is_tail()));
    }
}

#[test]
fn every_missing_record_is_named_where_records_are_blobs() {
    let inside = MemoryStore::new();
    let slots = slots(Sealed::new(inside.clone(), SealKey::from_bytes([7; 32])));
    let base = save(&slots, "auto", 1);
    append(&slots, &base, 2..=1 + RECORDS);
    let record = |number: u64| format!("{JOURNAL}.{number:08}");
    for number in 1..=RECORDS {
        let name = record(number);
        let bytes = inside.get(&name).wait().unwrap();
        inside.remove(&name).wait().unwrap();
        let (found, replay) = load(&slots);
        assert_eq!(found, number, "record {number}");
        match replay.lost {
            Some(lost) => {
                assert_eq!((lost.record, lost.later), (number, RECORDS - number));
                assert!(lost.to_string().contains("missing"), "{lost}");
            }
            None => assert_eq!(number, RECORDS, "nobody knows that there was one more"),
        }
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x10;
            put(&inside, &name, &damaged);
            match slots.load("auto").wait() {
                Ok(loaded) => {
                    assert_eq!(super::number(&loaded.snapshot), number, "record {number}, byte {at}");
                    let lost = loaded.journal.and_then(|journal| journal.lost).expect("it is noticed");
                    assert_eq!((lost.record, lost.later), (number, RECORDS - number));
                }
                // The seal's header asks for another key or a newer build: then no older world is taken.
                Err(error) => assert!(error.is_wrong_key() || error.is_newer_format(), "byte {at}: {error}"),
            }
        }
        put(&inside, &name, &bytes);
    }
    // A record in the place of another.
    let (first, second) = (record(1), record(2));
    let (one, two) = (inside.get(&first).wait().unwrap(), inside.get(&second).wait().unwrap());
    put(&inside, &first, &two);
    put(&inside, &second, &one);
    let (found, replay) = load(&slots);
    assert_eq!((found, replay.lost.map(|lost| lost.record)), (1, Some(1)));
}

#[test]
fn a_newer_journal_is_an_error_and_not_an_older_world() {
    let (store, slots, mut bytes, _) = with_journal();
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..40].copy_from_slice(&crc.to_le_bytes());
    put(&store, JOURNAL, &bytes);
    assert!(slots.load("auto").wait().unwrap_err().is_newer_format());
}

#[test]
fn a_damaged_journal_is_not_copied_as_if_it_were_whole() {
    let (store, slots, mut bytes, ends) = with_journal();
    bytes[ends[0] + 70] ^= 1;
    put(&store, JOURNAL, &bytes);
    let error = slots.copy("auto", "quick").wait().unwrap_err();
    assert!(error.is_corrupt() && error.to_string().contains("delta 2"), "{error}");
    // Who knows what is lost may go on from what is left.
    slots.merge_journal("auto").wait().unwrap().expect("there is a journal");
    assert_eq!(super::loads(&slots, "auto"), 2);
}

#[test]
fn a_damaged_save_is_passed_over_with_its_journal() {
    let store = MemoryStore::new();
    let slots = slots(store.clone());
    let base = save(&slots, "auto", 1);
    append(&slots, &base, 2..=3);
    let base = save(&slots, "auto", 10);
    append(&slots, &base, 11..=12);
    let name = "auto.00000002.bonfire";
    let mut bytes = store.get(name).wait().unwrap().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xFF);
    put(&store, name, &bytes);
    let loaded = slots.load("auto").wait().unwrap();
    assert_eq!((number(&loaded.snapshot), loaded.skipped.len()), (3, 1));
    assert!(loaded.journal.is_some_and(|journal| journal.records == 2 && journal.lost.is_none()));
}

#[test]
fn a_journal_beyond_the_limits_is_refused_when_it_is_written_and_when_it_is_read() {
    let (store, _, bytes, _) = with_journal();
    let limits = bonfire::Limits { raw_bytes_max: 10_000, ..bonfire::Limits::default() };
    let options = bonfire::EncodeOptions { limits, ..bonfire::EncodeOptions::default() };
    let slots = super::slots(store.clone()).encode_options(options);
    put(&store, JOURNAL, &[&bytes[..], &vec![0; 2 << 20]].concat());
    assert!(slots.load("auto").wait().unwrap_err().is_limit());
}
