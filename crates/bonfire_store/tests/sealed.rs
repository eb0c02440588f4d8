//! Sealed blobs come back as they were put, and say nothing to who has no key.
#![cfg(feature = "seal")]

mod sealed_support;

use bonfire_store::disk::MemoryDisk;
use bonfire_store::{
    DirStore, MemoryStore, PassphraseCosts, Payload, Precondition, SealKey, Sealed, Store, Suite, Wait,
};
use bytes::Bytes;
use sealed_support::*;

const LENS: [usize; 10] =
    [0, 1, 63, 1000, SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 3 * SEGMENT, 3 * SEGMENT + 777];

fn cheap(passphrase: &str) -> SealKey {
    SealKey::from_passphrase_with(passphrase, PassphraseCosts { memory_kib: 16, passes: 1, lanes: 1 })
}

#[test]
fn every_length_comes_back() {
    for suite in SUITES {
        let memory = MemoryStore::new();
        let store = sealed(&memory, suite);
        for len in LENS {
            let plain = text(len);
            for open in [0, 1, 100, SEGMENT, len] {
                let open = open.min(len);
                put(&store, "a", open_payload(&plain, open));
                let back = get(&store, "a").unwrap();
                assert!(back == plain, "{suite:?} {len} {open}");
                assert_eq!(back.as_ptr() as usize % 64, 0, "columns stay aligned");

                let head = store.head("a").wait().unwrap().unwrap();
                assert_eq!((head.len, head.readable), (len as u64, len as u64));
                let segments = (len - open).div_ceil(SEGMENT).max(1);
                let signatures = if suite == Suite::Signed { 2 * SIGNATURE } else { 0 };
                let expected = HEADER + len + TAG + segments * tag_bytes(suite) + signatures;
                assert_eq!(raw(&memory, "a").len(), expected, "the length is the documented one");
            }
        }
    }
}

#[test]
fn pieces_are_sealed_as_one() {
    let memory = MemoryStore::new();
    let mut numbers = Numbers(1);
    for suite in SUITES {
        let store = sealed(&memory, suite);
        let plain = text(3 * SEGMENT + 5);
        let mut rope = bonfire::engine::Rope::default();
        let mut rest = Bytes::from(plain.clone());
        while !rest.is_empty() {
            let len = (1 + numbers.below(50_000)).min(rest.len());
            rope.push(rest.split_to(len));
        }
        put(&store, "a", Payload::from(rope).leave_open(70_001));
        assert!(get(&store, "a").unwrap() == plain);
    }
}

#[test]
fn it_lies_on_a_disk_as_well() {
    let disk = MemoryDisk::new();
    let store = Sealed::new(DirStore::on(disk.clone()).unwrap(), key(1));
    let plain = text(200_000);
    put(&store, "quick.00000001.bonfire", open_payload(&plain, 500));
    drop(store);
    let store = Sealed::new(DirStore::on(disk).unwrap(), key(1));
    assert_eq!(store.list("quick").wait().unwrap(), ["quick.00000001.bonfire"]);
    assert!(get(&store, "quick.00000001.bonfire").unwrap() == plain);
    assert!(range(&store, "quick.00000001.bonfire", 400..100_000).unwrap() == plain[400..100_000]);
    store.rename("quick.00000001.bonfire", "quick.00000001.locked").wait().unwrap();
    assert!(get(&store, "quick.00000001.locked").unwrap() == plain);
    assert!(store.remove("quick.00000001.locked").wait().unwrap());
    assert!(get(&store, "quick.00000001.locked").unwrap_err().is_not_found());
    assert!(range(&store, "quick.00000001.locked", 0..1).unwrap_err().is_not_found());
    assert!(store.head("quick.00000001.locked").wait().unwrap().is_none());
}

#[test]
fn ranges_are_those_of_the_plaintext() {
    let memory = MemoryStore::new();
    let mut numbers = Numbers(2);
    for suite in SUITES {
        let store = sealed(&memory, suite);
        for (len, open) in [(0, 0), (10, 10), (300_000, 0), (300_000, 20_000), (4 * SEGMENT, 5)] {
            let plain = text(len);
            put(&store, "a", open_payload(&plain, open));
            let edges = [0, 1, open, open + 1, open + SEGMENT, open + 2 * SEGMENT - 1, len, len + 10];
            for case in 0..12 * bonfire_testkit::scale() {
                let pick = |numbers: &mut Numbers| match numbers.below(3) {
                    0 => edges[numbers.below(edges.len())],
                    _ => numbers.below(len + 20),
                };
                let (start, end) = (pick(&mut numbers), pick(&mut numbers));
                let part = range(&store, "a", start..end).unwrap();
                let (from, to) = (start.min(len), end.min(len));
                let expected = plain.get(from..to).unwrap_or_default();
                assert!(part == expected, "{suite:?} {len} {open} {start}..{end} case {case}");
            }
            let all = store.get_range("a", 0..u64::MAX).wait().unwrap();
            assert!(all == plain);
        }
    }
}

#[test]
fn a_range_reads_no_more_than_it_needs() {
    // Damage elsewhere is not met: only the segments of the range are read.
    let memory = MemoryStore::new();
    let store = sealed(&memory, Suite::XChaCha20Poly1305);
    let plain = text(5 * SEGMENT);
    put(&store, "a", plain.clone());
    let mut bytes = raw(&memory, "a");
    *bytes.last_mut().unwrap() ^= 1;
    put(&memory, "a", bytes);
    assert!(range(&store, "a", 10..2 * SEGMENT).unwrap() == plain[10..2 * SEGMENT]);
    assert!(range(&store, "a", 10..5 * SEGMENT).unwrap_err().is_corrupt());
    assert!(get(&store, "a").unwrap_err().is_corrupt());
}

fn windows_found(plain: &[u8], stored: &[u8]) -> usize {
    let stored: std::collections::HashSet<&[u8]> = stored.windows(16).collect();
    plain.windows(16).filter(|window| stored.contains(window)).count()
}

#[test]
fn nothing_of_a_secret_is_found_in_what_is_stored() {
    let memory = MemoryStore::new();
    for suite in SUITES {
        for hide in [false, true] {
            let store = sealed(&memory, suite);
            let store = if hide { store.hide_metadata() } else { store };
            let plain = text(100_000);
            put(&store, "a", open_payload(&plain, 500));
            let stored = raw(&memory, "a");
            let secret = matches!(suite, Suite::XChaCha20Poly1305 | Suite::Aes256GcmSiv);
            let head = windows_found(&plain[..500], &stored);
            assert_eq!(head, if hide && secret { 0 } else { 485 }, "{suite:?} {hide}");
            let body = windows_found(&plain[500..], &stored);
            assert_eq!(body > 0, !secret, "{suite:?}");
            assert!(get(&store, "a").unwrap() == plain);
        }
    }
}

#[test]
fn the_same_bytes_are_never_sealed_alike() {
    let memory = MemoryStore::new();
    for suite in [Suite::XChaCha20Poly1305, Suite::Aes256GcmSiv] {
        let store = sealed(&memory, suite);
        let plain = vec![0; 3 * SEGMENT];
        put(&store, "a", plain.clone());
        put(&store, "b", plain);
        let (a, b) = (raw(&memory, "a"), raw(&memory, "b"));
        // Nor are two segments of one file.
        let all: Vec<u8> = a[HEADER..].iter().chain(&b[HEADER..]).copied().collect();
        let distinct: std::collections::HashSet<&[u8]> = all.chunks_exact(16).collect();
        assert_eq!(distinct.len(), all.len() / 16);
        assert_ne!(a[20..44], b[20..44], "save ids");
    }
}

#[test]
fn a_list_of_saves_needs_no_key() {
    let memory = MemoryStore::new();
    let plain = text(100_000);
    for suite in SUITES {
        put(&sealed(&memory, suite), "a", open_payload(&plain, 20_000));
        for store in [Sealed::without_key(memory.clone()), Sealed::new(memory.clone(), key(9))] {
            let head = store.head("a").wait().unwrap().unwrap();
            assert_eq!((head.len, head.readable), (100_000, 20_000));
            assert!(range(&store, "a", 5..20_000).unwrap() == plain[5..20_000]);
            assert!(range(&store, "a", 0..20_001).unwrap_err().is_wrong_key());
            assert!(get(&store, "a").unwrap_err().is_wrong_key());
        }
    }
    let store = Sealed::without_key(memory.clone());
    assert!(try_put(&store, "a", vec![1]).unwrap_err().is_wrong_key());
    let reader = Sealed::without_key(memory.clone()).also_reads(key(1));
    assert!(try_put(&reader, "a", vec![1]).unwrap_err().is_wrong_key(), "a reading key does not write");

    put(&sealed(&memory, Suite::Evident).hide_metadata(), "a", open_payload(&plain, 20_000));
    assert_eq!(store.head("a").wait().unwrap().unwrap().readable, 0);
    assert!(range(&store, "a", 0..1).unwrap_err().is_wrong_key());
}

#[test]
fn keys_change() {
    let memory = MemoryStore::new();
    let old = Sealed::new(memory.clone(), key(1));
    put(&old, "a", open_payload(&text(1000), 300));
    let rotated = Sealed::new(memory.clone(), key(2)).also_reads(key(3)).also_reads(key(1));
    assert_eq!(rotated.head("a").wait().unwrap().unwrap().readable, 1000);
    assert!(get(&rotated, "a").unwrap() == text(1000));
    let version = rotated.reseal("a").wait().unwrap();
    assert_eq!(rotated.head("a").wait().unwrap().unwrap().version, version);
    assert_eq!(Sealed::without_key(memory.clone()).head("a").wait().unwrap().unwrap().readable, 300);
    assert!(rotated.reseal("none").wait().unwrap_err().is_not_found());
    assert!(get(&old, "a").unwrap_err().is_wrong_key());
    let new = Sealed::new(memory, key(2));
    assert!(get(&new, "a").unwrap() == text(1000));
}

#[test]
fn a_passphrase_is_a_key() {
    let memory = MemoryStore::new();
    put(&Sealed::new(memory.clone(), cheap("correct horse")), "a", text(1000));
    put(&Sealed::new(memory.clone(), cheap("correct horse")), "b", text(1000));
    assert_ne!(raw(&memory, "a")[44..60], raw(&memory, "b")[44..60], "a salt of its own for each session");

    // The price is that of the file.
    let store = Sealed::new(memory.clone(), SealKey::from_passphrase("correct horse"));
    assert!(get(&store, "a").unwrap() == text(1000));
    for wrong in [cheap("correct horsf"), cheap(""), key(1)] {
        let store = Sealed::new(memory.clone(), wrong);
        assert!(get(&store, "a").unwrap_err().is_wrong_key());
        assert_eq!(store.head("a").wait().unwrap().unwrap().readable, 0);
    }
    // Bytes and passphrases read side by side.
    put(&Sealed::new(memory.clone(), key(5)), "c", text(10));
    let both = Sealed::new(memory.clone(), key(5)).also_reads(cheap("correct horse"));
    assert!(get(&both, "a").is_ok() && get(&both, "b").is_ok() && get(&both, "c").is_ok());
}

#[test]
fn a_salt_that_fits_is_used_again_and_no_other() {
    let memory = MemoryStore::new();
    let salt = |name: &str| raw(&memory, name)[44..60].to_vec();
    put(&Sealed::new(memory.clone(), cheap("right")), "a", text(10));
    let next = Sealed::new(memory.clone(), cheap("right"));
    get(&next, "a").unwrap();
    put(&next, "b", text(10));
    assert_eq!(salt("a"), salt("b"), "sessions that read first share one derivation");

    let other = Sealed::new(memory.clone(), cheap("other"));
    get(&other, "a").unwrap_err();
    put(&other, "c", text(10));
    assert_ne!(salt("a"), salt("c"), "nobody is made to use the salt of a stranger");

    let dearer = PassphraseCosts { memory_kib: 32, passes: 1, lanes: 1 };
    let dearer = Sealed::new(memory.clone(), SealKey::from_passphrase_with("right", dearer));
    get(&dearer, "a").unwrap();
    put(&dearer, "d", text(10));
    assert_ne!(salt("a"), salt("d"), "nor to use cheaper costs than asked for");
    assert_eq!(raw(&memory, "d")[60..64], 32_u32.to_le_bytes());
}

/// The costs are in the file, before anything proves where it comes from.
#[test]
fn a_save_that_costs_more_than_allowed_is_refused_at_once() {
    let memory = MemoryStore::new();
    let costs = |memory_kib| PassphraseCosts { memory_kib, passes: 1, lanes: 1 };
    let store = |allowed| {
        let key = SealKey::from_passphrase_with("right", costs(16));
        Sealed::new(memory.clone(), key).passphrase_costs_max(costs(allowed))
    };
    put(&Sealed::new(memory.clone(), SealKey::from_passphrase_with("right", costs(32))), "a", text(10));
    assert!(get(&store(32), "a").unwrap() == text(10));
    assert!(get(&store(31), "a").unwrap_err().is_limit());
    put(&store(16), "b", text(20));
    assert!(get(&store(16), "b").unwrap() == text(20));
}

#[test]
fn costs_of_ones_own_are_checked_too() {
    let costs = PassphraseCosts { memory_kib: (256 << 10) + 1, passes: 1, lanes: 1 };
    let store = Sealed::new(MemoryStore::new(), SealKey::from_passphrase_with("x", costs));
    assert!(try_put(&store, "a", vec![1]).unwrap_err().is_limit());
}

#[test]
fn secrets_are_not_printed() {
    let printed = format!(
        "{:?} {:?} {:?}",
        SealKey::from_passphrase("hunter2"),
        SealKey::from_bytes([0xab; 32]),
        signer(0xcd)
    );
    assert!(!printed.contains("hunter2"), "{printed}");
    for secret in ["171, 171", "abab", "205, 205", "cdcd"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn a_bound_blob_stays_with_its_name() {
    for suite in SUITES {
        let memory = MemoryStore::new();
        let plain = text(70_000);
        for bound in [true, false] {
            let store = sealed(&memory, suite);
            let store = if bound { store.bind_name() } else { store };
            put(&store, "a", open_payload(&plain, 1000));
            assert!(get(&store, "a").unwrap() == plain);
            put(&memory, "b", raw(&memory, "a"));
            for reader in [sealed(&memory, suite), sealed(&memory, suite).bind_name()] {
                let moved = get(&reader, "b");
                let part = range(&reader, "b", 0..10);
                if bound {
                    assert!(moved.unwrap_err().is_corrupt() && part.unwrap_err().is_corrupt());
                } else {
                    assert!(moved.unwrap() == plain && part.unwrap() == plain[..10]);
                }
            }
        }
    }
}

#[test]
fn a_rename_seals_a_bound_blob_again() {
    let memory = MemoryStore::new();
    let plain = text(70_000);
    let store = sealed(&memory, Suite::XChaCha20Poly1305).bind_name();
    put(&store, "a", open_payload(&plain, 1000));
    put(&store, "there", vec![1]);
    assert!(store.rename("a", "there").wait().unwrap_err().is_conflict());
    // Also by who binds no names himself.
    sealed(&memory, Suite::XChaCha20Poly1305).rename("a", "b").wait().unwrap();
    store.rename("b", "c").wait().unwrap();
    assert_eq!(store.list("").wait().unwrap(), ["c", "there"]);
    assert!(get(&store, "c").unwrap() == plain);
    let head = Sealed::without_key(memory.clone()).head("c").wait().unwrap().unwrap();
    assert_eq!(head.readable, 1000, "what was open stays open");
    assert!(store.rename("none", "d").wait().unwrap_err().is_not_found());

    // Without bound names it is one step of the store below, and needs no key.
    put(&sealed(&memory, Suite::XChaCha20Poly1305), "e", plain.clone());
    let before = raw(&memory, "e");
    Sealed::without_key(memory.clone()).rename("e", "f").wait().unwrap();
    assert!(raw(&memory, "f") == before);
}

#[test]
fn conditions_and_versions_are_those_of_the_store_below() {
    let store = sealed(&MemoryStore::new(), Suite::XChaCha20Poly1305);
    let bytes = || Payload::from(text(10));
    let first = store.put("a", bytes(), Precondition::Absent).wait().unwrap();
    assert!(store.put("a", bytes(), Precondition::Absent).wait().unwrap_err().is_conflict());
    assert_eq!(store.head("a").wait().unwrap().unwrap().version, first);
    store.put("a", bytes(), Precondition::Version(first.clone())).wait().unwrap();
    assert!(store.put("a", bytes(), Precondition::Version(first)).wait().unwrap_err().is_conflict());
    assert!(store.append("a", 10, bytes()).wait().unwrap_err().is_unsupported());
    assert!(try_put(&store, "../a", vec![1]).unwrap_err().is_misuse());
}

#[test]
fn what_is_not_sealed_is_refused_and_can_be_moved_away() {
    let memory = MemoryStore::new();
    let store = sealed(&memory, Suite::XChaCha20Poly1305).bind_name();
    for bytes in [Vec::new(), vec![0; 5], text(103), text(104), text(5000)] {
        put(&memory, "a", bytes.clone());
        assert!(get(&store, "a").unwrap_err().is_corrupt());
        assert!(range(&store, "a", 0..1).unwrap_err().is_corrupt());
        assert!(store.head("a").wait().unwrap_err().is_corrupt());
        store.rename("a", "b").wait().unwrap();
        assert!(raw(&memory, "b") == bytes);
        store.remove("b").wait().unwrap();
    }
}

#[cfg(feature = "conformance")]
#[test]
fn a_sealed_store_is_a_store() {
    use bonfire_store::conformance::check;

    for suite in SUITES {
        check(|| sealed(&MemoryStore::new(), suite));
    }
    check(|| sealed(&MemoryStore::new(), Suite::XChaCha20Poly1305).bind_name().hide_metadata());
    check(|| Box::new(Sealed::new(DirStore::on(MemoryDisk::new()).unwrap(), key(1))) as Box<dyn Store>);
    check(|| Sealed::new(sealed(&MemoryStore::new(), Suite::Evident), key(2)).suite(Suite::Aes256GcmSiv));
}
