//! Signatures, and saves that are put back.
#![cfg(feature = "seal")]

mod sealed_support;

use std::ops::Range;

use bonfire::{Error, Result};
use bonfire_store::backend::StoreFuture;
use bonfire_store::{
    Batch, BlobHead, MemoryStore, Sealed, Store, Suite, TrustedCounter, VerifyingKey, Version, Wait,
};
use bytes::Bytes;
use sealed_support::*;

#[test]
fn clients_read_what_the_server_signed_and_write_nothing() {
    let memory = MemoryStore::new();
    let server = Sealed::signing(memory.clone(), signer(1));
    let plain = text(70_000);
    put(&server, "a", open_payload(&plain, 500));
    assert!(get(&server, "a").unwrap() == plain);

    let public = VerifyingKey::from_bytes(signer(1).verifying_key().to_bytes()).unwrap();
    let client = Sealed::verifying(memory.clone(), public);
    assert!(get(&client, "a").unwrap() == plain);
    assert!(range(&client, "a", 69_000..70_001).unwrap() == plain[69_000..]);
    let head = client.head("a").wait().unwrap().unwrap();
    assert_eq!((head.len, head.readable), (70_000, 70_000));
    assert!(try_put(&client, "a", vec![1]).unwrap_err().is_wrong_key());

    // Who has no public key has nothing to check with.
    for stranger in [Sealed::new(memory.clone(), key(1)), Sealed::without_key(memory.clone())] {
        assert!(get(&stranger, "a").unwrap_err().is_wrong_key());
        assert_eq!(stranger.head("a").wait().unwrap().unwrap().readable, 500);
    }
    let other = Sealed::verifying(memory.clone(), signer(2).verifying_key());
    assert!(get(&other, "a").unwrap_err().is_corrupt());
    assert!(range(&other, "a", 0..5).unwrap_err().is_corrupt(), "nor are open bytes believed");
    let either = other.require_signature(public);
    assert!(get(&either, "a").unwrap() == plain);
}

#[test]
fn a_required_signature_cannot_be_left_out_or_replaced() {
    for suite in SUITES {
        let memory = MemoryStore::new();
        let plain = text(70_000);
        let signing = || Sealed::new(memory.clone(), key(1)).suite(suite);
        let reader = signing().require_signature(signer(1).verifying_key());
        put(&signing().sign_with(signer(1)), "a", open_payload(&plain, 500));
        assert!(get(&reader, "a").unwrap() == plain, "{suite:?}");
        assert!(range(&reader, "a", 0..70_000).unwrap() == plain);
        let good = raw(&memory, "a");

        // Somebody who has the symmetric key and not the signing key.
        if suite != Suite::Signed {
            put(&signing(), "a", open_payload(&plain, 500));
            assert!(get(&reader, "a").unwrap_err().is_corrupt(), "not signed");
            assert!(range(&reader, "a", 0..5).unwrap_err().is_corrupt(), "not signed");
        }
        put(&signing().sign_with(signer(2)), "a", open_payload(&plain, 500));
        assert!(get(&reader, "a").unwrap_err().is_corrupt(), "signed by another");
        assert!(range(&reader, "a", 0..5).unwrap_err().is_corrupt(), "signed by another");
        let forged = raw(&memory, "a");

        // His save with the good signatures, and the good save with his.
        let front = HEADER + 500 + TAG..HEADER + 500 + TAG + SIGNATURE;
        let whole = good.len() - SIGNATURE..good.len();
        for (base, other) in [(&forged, &good), (&good, &forged)] {
            for places in [vec![front.clone()], vec![whole.clone()], vec![front.clone(), whole.clone()]] {
                let mut bytes = base.clone();
                places.iter().for_each(|place| bytes[place.clone()].copy_from_slice(&other[place.clone()]));
                put(&memory, "a", bytes);
                assert!(get(&reader, "a").unwrap_err().is_corrupt(), "{suite:?}");
                assert!(range(&reader, "a", 0..70_000).unwrap_err().is_corrupt(), "{suite:?}");
            }
        }
        for place in [front, whole] {
            for at in [place.start, place.start + 31, place.start + 32, place.end - 1] {
                let mut bytes = good.clone();
                bytes[at] ^= 1;
                put(&memory, "a", bytes);
                assert!(get(&reader, "a").unwrap_err().is_corrupt(), "{suite:?} {at}");
            }
        }
    }
}

#[test]
fn a_signature_proves_open_bytes_without_the_key() {
    let memory = MemoryStore::new();
    let plain = text(5000);
    let writer = Sealed::new(memory.clone(), key(1)).sign_with(signer(1)).bind_name();
    put(&writer, "a", open_payload(&plain, 500));
    let client = Sealed::verifying(memory.clone(), signer(1).verifying_key());
    assert!(range(&client, "a", 0..500).unwrap() == plain[..500]);
    assert!(range(&client, "a", 0..501).unwrap_err().is_wrong_key());
    assert!(get(&client, "a").unwrap_err().is_wrong_key());
    put(&memory, "b", raw(&memory, "a"));
    assert!(range(&client, "b", 0..500).unwrap_err().is_corrupt(), "its name is bound");
    let mut bytes = raw(&memory, "a");
    bytes[HEADER] ^= 1;
    put(&memory, "a", bytes);
    assert!(range(&client, "a", 0..500).is_err());
}

#[test]
fn some_bytes_are_no_key() {
    // The neutral element: it would verify anything.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    for bytes in [neutral, [0; 32], [2; 32]] {
        assert!(VerifyingKey::from_bytes(bytes).unwrap_err().is_misuse(), "{bytes:?}");
    }
}

#[test]
fn an_old_save_that_is_put_back_is_refused() {
    for suite in SUITES {
        let (memory, trusted) = (MemoryStore::new(), Trusted::default());
        let store = sealed(&memory, suite).counter(trusted.clone());
        put(&store, "a", open_payload(&text(1000), 100));
        let old = raw(&memory, "a");
        assert!(get(&store, "a").unwrap() == text(1000));
        put(&store, "a", text(2000));
        assert_eq!(trusted.newest("a").unwrap(), 2);
        assert!(get(&store, "a").unwrap() == text(2000));
        put(&memory, "a", old.clone());
        assert!(get(&store, "a").unwrap_err().is_rollback(), "{suite:?}");
        assert!(range(&store, "a", 0..10).unwrap_err().is_rollback());
        assert!(range(&store, "a", 500..600).unwrap_err().is_rollback());
        assert!(get(&sealed(&memory, suite), "a").is_ok(), "nobody else can tell");

        // The number cannot be changed.
        let mut bytes = old;
        bytes[72] = 2;
        put(&memory, "a", checked(bytes));
        assert!(get(&store, "a").unwrap_err().is_corrupt(), "{suite:?}");
    }
}

#[test]
fn generations_count_together_and_slots_apart() {
    let (memory, trusted) = (MemoryStore::new(), Trusted::default());
    let store = sealed(&memory, Suite::XChaCha20Poly1305).counter(trusted.clone());
    put(&store, "alice.quick.00000001.bonfire", text(1));
    put(&store, "alice.quick.00000002.bonfire", text(2));
    put(&store, "bob.quick.00000001.bonfire", text(3));
    assert_eq!((trusted.newest("alice.quick").unwrap(), trusted.newest("bob.quick").unwrap()), (2, 1));
    assert!(get(&store, "alice.quick.00000001.bonfire").unwrap_err().is_rollback());
    assert!(get(&store, "alice.quick.00000002.bonfire").is_ok());
    assert!(get(&store, "bob.quick.00000001.bonfire").is_ok());
    store.rename("alice.quick.00000002.bonfire", "alice.quick.00000002.locked").wait().unwrap();
    assert!(get(&store, "alice.quick.00000002.locked").is_ok());
    // A file that is put there by hand is one of them, and its name is bound.
    put(&memory, "alice.quick.bonfire", raw(&memory, "alice.quick.00000001.bonfire"));
    assert!(get(&store, "alice.quick.bonfire").unwrap_err().is_corrupt());
}

/// Somebody without a key writes any number into a header, and a checksum that fits. The player removes the file, or accepts it.
#[test]
fn a_file_that_no_key_has_sealed_does_not_move_the_counter() {
    for suite in SUITES {
        let (memory, trusted) = (MemoryStore::new(), Trusted::default());
        let store = sealed(&memory, suite).counter(trusted.clone());
        put(&store, "quick.00000001.bonfire", text(1));
        let mut forged = raw(&memory, "quick.00000001.bonfire");
        forged[72..80].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        let forged = checked(forged);
        for name in ["quick.00000002.bonfire", "quick.00000002.recovery"] {
            put(&memory, name, forged.clone());
            store.remove(name).wait().unwrap();
            put(&memory, name, forged.clone());
            drop(store.rename(name, "quick.00000003.bonfire").wait());
            assert_eq!(trusted.newest("quick").unwrap(), 1, "{suite:?} {name}");
        }
        put(&store, "quick.00000009.bonfire", text(2));
        assert!(get(&store, "quick.00000009.bonfire").unwrap() == text(2), "{suite:?}");
    }
}

/// A service that shows another header to who reads the header alone.
struct TwoFaced(MemoryStore);

impl Store for TwoFaced {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        self.0.change(batch)
    }
    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        self.0.get(name)
    }
    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        Box::pin(async move {
            let mut start = self.0.get_range(name, range).await?.to_vec();
            if start.len() == HEADER {
                start[72..80].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
                start = checked(start);
            }
            Ok(start.into())
        })
    }
    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        self.0.head(name)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.0.list(prefix)
    }
}

#[test]
fn a_rename_counts_what_was_opened_and_not_what_a_store_says_of_it() {
    let trusted = Trusted::default();
    let store = Sealed::new(TwoFaced(MemoryStore::new()), key(1)).counter(trusted.clone());
    put(&store, "quick.00000001.bonfire", text(1));
    store.rename("quick.00000001.bonfire", "other.00000001.bonfire").wait().unwrap();
    assert_eq!((trusted.newest("quick").unwrap(), trusted.newest("other").unwrap()), (2, 1));
    put(&store, "quick.00000002.bonfire", text(2));
    assert!(get(&store, "quick.00000002.bonfire").unwrap() == text(2));
}

#[test]
fn a_save_that_is_removed_still_counts() {
    for suite in SUITES {
        let (memory, trusted) = (MemoryStore::new(), Trusted::default());
        let store = sealed(&memory, suite).counter(trusted.clone());
        put(&store, "quick.00000001.bonfire", open_payload(&text(100_000), 40_000));
        let kept = raw(&memory, "quick.00000001.bonfire");
        store.remove("quick.00000001.bonfire").wait().unwrap();
        assert_eq!(trusted.newest("quick").unwrap(), 2, "{suite:?}");
        put(&memory, "quick.00000001.bonfire", kept);
        assert!(get(&store, "quick.00000001.bonfire").unwrap_err().is_rollback(), "{suite:?}");
    }
}

/// A save for after a crash has the number of the next save without taking it. Under the name of a save it would pass for
/// that one.
#[test]
fn a_recovery_save_under_the_name_of_a_save_is_refused() {
    for suite in SUITES {
        let (memory, trusted) = (MemoryStore::new(), Trusted::default());
        let store = sealed(&memory, suite).counter(trusted.clone());
        put(&store, "quick.00000001.bonfire", text(1));
        put(&store, "quick.00000002.recovery", text(2));
        let rich = raw(&memory, "quick.00000002.recovery");
        put(&store, "quick.00000002.bonfire", text(3));
        put(&memory, "quick.00000003.bonfire", rich.clone());
        assert!(get(&store, "quick.00000003.bonfire").unwrap_err().is_corrupt(), "{suite:?}");
        put(&memory, "quick.00000003.recovery", rich);
        assert!(get(&store, "quick.00000003.recovery").is_err(), "{suite:?}");
        assert!(get(&store, "quick.00000002.bonfire").unwrap() == text(3));
    }
}

#[test]
fn a_recovery_save_counts_when_it_is_accepted() {
    let (memory, trusted) = (MemoryStore::new(), Trusted::default());
    let store = sealed(&memory, Suite::XChaCha20Poly1305).counter(trusted.clone());
    put(&store, "quick.00000001.bonfire", text(1));
    put(&store, "quick.00000002.recovery", text(2));
    assert!(get(&store, "quick.00000001.bonfire").is_ok(), "nobody has accepted the other yet");
    store.rename("quick.00000002.recovery", "quick.00000002.bonfire").wait().unwrap();
    assert!(get(&store, "quick.00000002.bonfire").unwrap() == text(2));
    assert!(get(&store, "quick.00000001.bonfire").unwrap_err().is_rollback());

    // An old save does not become a new one by a rename.
    let moved = store.rename("quick.00000001.bonfire", "other.00000001.bonfire").wait();
    assert!(moved.unwrap_err().is_rollback());
    store.rename("quick.00000002.bonfire", "other.00000002.bonfire").wait().unwrap();
    assert_eq!(trusted.newest("other").unwrap(), 1);
    assert!(get(&store, "other.00000002.bonfire").unwrap() == text(2));
}

#[test]
fn saves_from_before_there_was_a_counter_are_read_until_it_counts() {
    let (memory, trusted) = (MemoryStore::new(), Trusted::default());
    put(&sealed(&memory, Suite::Evident), "a", text(10));
    let store = sealed(&memory, Suite::Evident).counter(trusted);
    assert!(get(&store, "a").is_ok());
    put(&store, "a", text(20));
    put(&sealed(&memory, Suite::Evident), "a", text(10));
    assert!(get(&store, "a").unwrap_err().is_rollback());
}

struct Broken;

impl TrustedCounter for Broken {
    fn newest(&self, _: &str) -> Result<u64> {
        Ok(7)
    }
    fn advance(&self, _: &str, _: u64) -> Result<()> {
        Err(Error::custom("the server does not answer"))
    }
}

#[test]
fn a_save_that_could_not_be_counted_is_reported_and_readable() {
    let memory = MemoryStore::new();
    let store = sealed(&memory, Suite::XChaCha20Poly1305).counter(Broken);
    assert!(try_put(&store, "a", text(10)).is_err());
    assert!(get(&store, "a").unwrap() == text(10), "number 8, and the newest that is known is 7");
}
