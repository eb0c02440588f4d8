//! Whatever is done to a sealed blob by who has no key, it is refused: no wrong byte comes out, of all of it or of a part.
#![cfg(feature = "seal")]

mod sealed_support;

use bonfire_store::{MemoryStore, PassphraseCosts, SealKey, Sealed, Store, Suite, Wait};
use sealed_support::*;

const OPEN: usize = 40;
const LEN: usize = 300;

fn small(memory: &MemoryStore, suite: Suite) -> (Sealed<MemoryStore>, Vec<u8>, Vec<u8>) {
    let store = sealed(memory, suite);
    let plain = text(LEN);
    put(&store, "a", open_payload(&plain, OPEN));
    (store, plain, raw(memory, "a"))
}

/// All of it must be refused, and a part be refused or right.
fn refused(memory: &MemoryStore, store: &impl Store, plain: &[u8], bytes: Vec<u8>, what: &str) {
    put(memory, "a", bytes);
    let error = match get(store, "a") {
        Err(error) => error,
        Ok(_) => panic!("accepted: {what}"),
    };
    let kind = error.is_corrupt() || error.is_wrong_key() || error.is_newer_format() || error.is_limit();
    assert!(kind, "{what}: {error}");
    let len = plain.len();
    for (start, end) in [(0, 10.min(len)), (len / 2, len), (0, len + 1)] {
        match range(store, "a", start..end) {
            Ok(part) => assert!(part == plain[start..end.min(len)], "a wrong part: {what}"),
            Err(error) => assert!(!error.is_not_found(), "{what}: {error}"),
        }
    }
    if let Ok(head) = store.head("a").wait() {
        assert_eq!(head.map(|head| head.len), Some(len as u64), "{what}");
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    for suite in SUITES {
        let memory = MemoryStore::new();
        let (store, plain, good) = small(&memory, suite);
        // Signatures take long to check.
        let masks: &[u8] = match suite {
            Suite::Signed if bonfire_testkit::scale() == 1 => &[0x01],
            _ => &[0x01, 0x80, 0xff],
        };
        for at in 0..good.len() {
            for mask in masks {
                let mut bytes = good.clone();
                bytes[at] ^= mask;
                let what = format!("{suite:?}: byte {at} ^ {mask:#x}");
                refused(&memory, &store, &plain, bytes.clone(), &what);
                assert!(get(&store, "a").unwrap_err().is_corrupt(), "an accident is no wrong key: {what}");
                if at < 100 {
                    refused(&memory, &store, &plain, checked(bytes), &what);
                }
            }
        }
    }
}

#[test]
fn flipped_bytes_of_a_long_blob_are_noticed() {
    let step = (6007 / bonfire_testkit::scale() as usize).max(1);
    for suite in [Suite::XChaCha20Poly1305, Suite::Aes256GcmSiv, Suite::Evident] {
        let memory = MemoryStore::new();
        let store = sealed(&memory, suite);
        let plain = text(2 * SEGMENT + 100);
        put(&store, "a", open_payload(&plain, OPEN));
        let good = raw(&memory, "a");
        for at in (0..good.len()).step_by(step).chain(good.len() - 140..good.len()) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            put(&memory, "a", bytes);
            assert!(get(&store, "a").is_err(), "{suite:?}: byte {at}");
        }
    }
}

#[test]
fn every_other_length_is_noticed() {
    for suite in SUITES {
        let memory = MemoryStore::new();
        let (store, plain, good) = small(&memory, suite);
        for len in 0..good.len() {
            refused(&memory, &store, &plain, good[..len].to_vec(), &format!("{suite:?}: cut at {len}"));
        }
        for more in [1, 16, 64, SEGMENT] {
            for byte in [0, good[good.len() - 1]] {
                let mut bytes = good.clone();
                bytes.resize(good.len() + more, byte);
                refused(&memory, &store, &plain, bytes, &format!("{suite:?}: {more} bytes more"));
            }
        }
    }
}

/// The offsets of the segments of a blob without signature, with their tags.
fn segment(suite: Suite, open: usize, index: usize) -> std::ops::Range<usize> {
    let long = SEGMENT + tag_bytes(suite);
    let start = HEADER + open + TAG + index * long;
    start..start + long
}

const KEYED: [Suite; 3] = [Suite::XChaCha20Poly1305, Suite::Aes256GcmSiv, Suite::Evident];

#[test]
fn segments_cannot_change_places() {
    for suite in KEYED {
        let memory = MemoryStore::new();
        let store = sealed(&memory, suite);
        // The last one is as long as the others.
        let plain = text(4 * SEGMENT);
        put(&store, "a", plain.clone());
        let good = raw(&memory, "a");
        for (one, other) in [(0, 1), (1, 2), (0, 3), (2, 3)] {
            let mut bytes = good.clone();
            bytes[segment(suite, 0, one)].copy_from_slice(&good[segment(suite, 0, other)]);
            put(&memory, "a", bytes.clone());
            assert!(get(&store, "a").unwrap_err().is_corrupt(), "{suite:?}: {other} also at {one}");
            let part = range(&store, "a", one * SEGMENT..one * SEGMENT + 10);
            assert!(part.unwrap_err().is_corrupt());
            bytes[segment(suite, 0, other)].copy_from_slice(&good[segment(suite, 0, one)]);
            put(&memory, "a", bytes);
            assert!(get(&store, "a").unwrap_err().is_corrupt(), "{suite:?}: {one} and {other} swapped");
        }
    }
}

#[test]
fn whole_segments_cannot_be_cut_off_or_added() {
    for suite in KEYED {
        let memory = MemoryStore::new();
        let store = sealed(&memory, suite);
        put(&store, "a", text(3 * SEGMENT));
        let good = raw(&memory, "a");
        let with_body = |segments: usize, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[92..100].copy_from_slice(&((segments * SEGMENT) as u64).to_le_bytes());
            checked(bytes)
        };
        let end = |segments: usize| segment(suite, 0, segments).start;
        let added = [&good[..], &good[segment(suite, 0, 2)]].concat();
        for bytes in [
            good[..end(2)].to_vec(),
            with_body(2, &good[..end(2)]),
            with_body(0, &good[..end(0)]),
            with_body(4, &added),
            added.clone(),
        ] {
            put(&memory, "a", bytes);
            assert!(get(&store, "a").unwrap_err().is_corrupt(), "{suite:?}");
            assert!(range(&store, "a", 0..5).unwrap_err().is_corrupt(), "{suite:?}");
        }
    }
}

#[test]
fn segments_and_fronts_of_other_saves_do_not_fit() {
    for suite in KEYED {
        let memory = MemoryStore::new();
        let store = sealed(&memory, suite);
        let plain = text(2 * SEGMENT + 50);
        // Under the same name, with the same key, of the same bytes: an older state of the same save.
        put(&store, "a", open_payload(&plain, OPEN));
        let old = raw(&memory, "a");
        put(&store, "a", open_payload(&plain, OPEN));
        let new = raw(&memory, "a");
        assert_eq!(old.len(), new.len());
        let (first, second) = (segment(suite, OPEN, 0), segment(suite, OPEN, 1));
        let front = first.start;
        let last = second.end..new.len();
        let tag = HEADER + OPEN..front;
        for (what, place) in [
            ("first segment", first),
            ("second segment", second),
            ("last segment", last),
            ("front", 0..front),
            ("header", 0..HEADER),
            ("open bytes and tag", HEADER..front),
            ("front tag", tag),
            ("save id", 20..44),
        ] {
            let mut bytes = new.clone();
            bytes[place.clone()].copy_from_slice(&old[place]);
            put(&memory, "a", checked(bytes));
            let error = get(&store, "a").unwrap_err();
            assert!(error.is_corrupt(), "{suite:?}: {what} of an older one: {error}");
        }
    }
}

#[test]
fn open_bytes_are_only_believed_with_a_key() {
    for suite in KEYED {
        let memory = MemoryStore::new();
        let (store, plain, mut bytes) = small(&memory, suite);
        bytes[HEADER] ^= 1;
        put(&memory, "a", bytes);
        assert!(range(&store, "a", 0..OPEN).unwrap_err().is_corrupt());
        assert!(range(&store, "a", 5..6).unwrap_err().is_corrupt());
        let unchecked = range(&Sealed::without_key(memory), "a", 0..OPEN).unwrap();
        assert_eq!((unchecked[0], &unchecked[1..]), (plain[0] ^ 1, &plain[1..OPEN]));
    }
}

/// A header with some bytes written over, and nothing behind it that fits.
fn with(good: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut changed = good.to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    checked(changed)
}

#[test]
fn hostile_headers_are_refused_at_once() {
    let memory = MemoryStore::new();
    let costs = PassphraseCosts { memory_kib: 16, passes: 1, lanes: 1 };
    let store = Sealed::new(memory.clone(), SealKey::from_passphrase_with("x", costs));
    put(&store, "a", text(10));
    let good = raw(&memory, "a");
    let cost = |costs: [u32; 3]| with(&good, 60, &costs.map(u32::to_le_bytes).concat());
    for (bytes, limit) in [
        (cost([(256 << 10) + 1, 1, 1]), true),
        (cost([u32::MAX, u32::MAX, u32::MAX]), true),
        (cost([16, 17, 1]), true),
        (cost([64, 1, 5]), true),
        (cost([16, 0, 1]), false),
        (cost([16, 1, 0]), false),
        (cost([7, 1, 1]), false),
        (with(&good, 84, &u64::MAX.to_le_bytes()), false),
        (with(&good, 92, &u64::MAX.to_le_bytes()), false),
        (with(&good, 92, &(1_u64 << 60).to_le_bytes()), false),
        (with(&good, 80, &1_u32.to_le_bytes()), false),
        (with(&good, 80, &0_u32.to_le_bytes()), false),
        (with(&good, 8, &[0, 0]), false),
    ] {
        put(&memory, "a", bytes);
        let errors = [
            get(&store, "a").unwrap_err(),
            range(&store, "a", 0..5).unwrap_err(),
            store.head("a").wait().unwrap_err(),
        ];
        for error in errors {
            assert!(if limit { error.is_limit() } else { error.is_corrupt() }, "{error}");
        }
    }
    for (at, bytes) in [(8, [2, 0]), (8, [0, 1]), (10, [9, 0]), (10, [1, 8]), (10, [1, 0x84])] {
        put(&memory, "a", with(&good, at, &bytes));
        assert!(get(&store, "a").unwrap_err().is_newer_format());
    }
}

#[test]
fn fields_without_a_meaning_are_zero() {
    let memory = MemoryStore::new();
    let (_, _, good) = small(&memory, Suite::XChaCha20Poly1305);
    for at in [44, 59, 60, 71] {
        put(&memory, "a", with(&good, at, &[1]));
        // Also for who could not know by the tag.
        let error = Sealed::without_key(memory.clone()).head("a").wait().unwrap_err();
        assert!(error.is_corrupt(), "byte {at}: {error}");
    }
}

#[test]
fn random_changes_are_noticed() {
    let mut numbers = Numbers(7);
    for suite in KEYED {
        let memory = MemoryStore::new();
        let (store, plain, good) = small(&memory, suite);
        for case in 0..60 * bonfire_testkit::scale() {
            let mut bytes = good.clone();
            for _ in 0..=numbers.below(4) {
                let at = numbers.below(bytes.len());
                match numbers.below(4) {
                    0 => bytes[at] = numbers.next() as u8,
                    1 => bytes.insert(at, numbers.next() as u8),
                    2 => drop(bytes.remove(at)),
                    _ => {
                        let (to, len) = (numbers.below(bytes.len()), numbers.below(64));
                        let end = bytes.len().min(at + len).min(at + bytes.len() - to);
                        bytes.copy_within(at..end, to);
                    }
                }
            }
            if case % 2 == 0 && bytes.len() >= HEADER {
                bytes = checked(bytes);
            }
            if bytes != good {
                refused(&memory, &store, &plain, bytes, &format!("{suite:?}: case {case}"));
            }
        }
    }
}
