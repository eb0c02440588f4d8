//! What the tests of sealing share.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::allow_attributes, reason = "an expectation would fail in the files that use all of it")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bonfire::Result;
use bonfire_store::{
    MemoryStore, Payload, Precondition, SealKey, Sealed, SigningKey, Store, Suite, TrustedCounter, Wait,
};
use bytes::Bytes;

pub(crate) const HEADER: usize = 104;
pub(crate) const TAG: usize = 32;
pub(crate) const SIGNATURE: usize = 64;
pub(crate) const SEGMENT: usize = 65_536;

pub(crate) const SUITES: [Suite; 4] =
    [Suite::XChaCha20Poly1305, Suite::Aes256GcmSiv, Suite::Evident, Suite::Signed];

/// Bytes after each segment.
pub(crate) fn tag_bytes(suite: Suite) -> usize {
    match suite {
        Suite::Evident => 32,
        Suite::Signed => 0,
        _ => 16,
    }
}

pub(crate) fn key(number: u8) -> SealKey {
    SealKey::from_bytes([number; 32])
}

pub(crate) fn signer(number: u8) -> SigningKey {
    SigningKey::from_bytes([number; 32])
}

/// A store that writes and reads with this suite.
pub(crate) fn sealed(store: &MemoryStore, suite: Suite) -> Sealed<MemoryStore> {
    let sealed = Sealed::new(store.clone(), key(1)).suite(suite);
    match suite {
        Suite::Signed => sealed.require_signature(signer(1).verifying_key()).sign_with(signer(1)),
        _ => sealed,
    }
}

pub(crate) fn put(store: &impl Store, name: &str, payload: impl Into<Payload>) {
    try_put(store, name, payload).unwrap();
}

pub(crate) fn try_put(store: &impl Store, name: &str, payload: impl Into<Payload>) -> Result<()> {
    store.put(name, payload.into(), Precondition::None).wait().map(drop)
}

pub(crate) fn get(store: &impl Store, name: &str) -> Result<Bytes> {
    store.get(name).wait()
}

pub(crate) fn range(store: &impl Store, name: &str, range: std::ops::Range<usize>) -> Result<Bytes> {
    store.get_range(name, range.start as u64..range.end as u64).wait()
}

/// What lies in a store, for changing it.
pub(crate) fn raw(store: &MemoryStore, name: &str) -> Vec<u8> {
    store.get(name).wait().unwrap().to_vec()
}

/// Makes a changed header look like one that is not damaged: everybody can.
pub(crate) fn checked(mut blob: Vec<u8>) -> Vec<u8> {
    let check = *blake3::hash(&blob[..100]).as_bytes();
    blob[100..104].copy_from_slice(&check[..4]);
    blob
}

pub(crate) fn open_payload(bytes: &[u8], open: usize) -> Payload {
    Payload::from(bytes.to_vec()).leave_open(open as u64)
}

/// Numbers that are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Bytes that occur nowhere else.
pub(crate) fn text(len: usize) -> Vec<u8> {
    let mut numbers = Numbers(len as u64);
    (0..len).map(|_| numbers.next() as u8).collect()
}

/// A trusted place in memory. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Trusted(pub(crate) Arc<Mutex<HashMap<String, u64>>>);

impl TrustedCounter for Trusted {
    fn newest(&self, family: &str) -> Result<u64> {
        Ok(self.0.lock().unwrap().get(family).copied().unwrap_or(0))
    }

    fn advance(&self, family: &str, to: u64) -> Result<()> {
        let mut families = self.0.lock().unwrap();
        let newest = families.entry(family.to_owned()).or_default();
        *newest = to.max(*newest);
        Ok(())
    }
}
