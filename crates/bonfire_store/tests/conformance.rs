//! Every backend, and every stack of decorators, keeps the rules of `Store`.
#![cfg(feature = "conformance")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bonfire_store::disk::MemoryDisk;
use bonfire_store::{DirStore, MemoryStore, Rotating, Store, conformance};

fn on_memory_disk() -> DirStore {
    DirStore::on(MemoryDisk::new()).unwrap()
}

#[test]
fn memory() {
    conformance::check(MemoryStore::new);
}

#[test]
fn directory_in_memory() {
    conformance::check(on_memory_disk);
    conformance::check(|| on_memory_disk().read_back());
}

#[test]
fn directory() {
    let home = tempfile::tempdir().unwrap();
    let next = AtomicU32::new(0);
    let path = || home.path().join(next.fetch_add(1, Ordering::Relaxed).to_string()).join("saves");
    conformance::check(|| DirStore::open(path()).unwrap());
    conformance::check(|| Rotating::new(DirStore::open(path()).unwrap().read_back(), 3));
}

#[test]
fn rotating() {
    conformance::check(|| Rotating::new(MemoryStore::new(), 1));
    conformance::check(|| Rotating::new(on_memory_disk(), 3));
    conformance::check(|| Rotating::new(Rotating::new(MemoryStore::new(), 2), 3));
}

#[test]
fn boxed() {
    conformance::check(|| Box::new(MemoryStore::new()) as Box<dyn Store>);
    conformance::check(|| Arc::new(on_memory_disk()) as Arc<dyn Store>);
    conformance::check(|| {
        let inside: Box<dyn Store> = Box::new(on_memory_disk());
        Box::new(Rotating::new(inside, 2)) as Box<dyn Store>
    });
}

#[cfg(feature = "seal")]
mod sealed {
    use bonfire_store::{SealKey, Sealed, SigningKey, Suite};

    use super::*;

    fn key() -> SealKey {
        SealKey::from_bytes([7; 32])
    }

    #[test]
    fn every_suite() {
        for suite in [Suite::XChaCha20Poly1305, Suite::Aes256GcmSiv, Suite::Evident] {
            conformance::check(|| Sealed::new(MemoryStore::new(), key()).suite(suite));
        }
        conformance::check(|| Sealed::signing(MemoryStore::new(), SigningKey::from_bytes([9; 32])));
    }

    #[test]
    fn every_option() {
        conformance::check(|| Sealed::new(on_memory_disk(), key()).bind_name());
        conformance::check(|| Sealed::new(on_memory_disk(), key()).hide_metadata());
        conformance::check(|| {
            let signer = SigningKey::from_bytes([9; 32]);
            let public = signer.verifying_key();
            Sealed::new(on_memory_disk(), key()).sign_with(signer).require_signature(public)
        });
    }

    #[test]
    fn stacks() {
        conformance::check(|| Rotating::new(Sealed::new(on_memory_disk(), key()).bind_name(), 2));
        conformance::check(|| Sealed::new(Rotating::new(MemoryStore::new(), 2), key()));
        conformance::check(|| {
            let inside: Box<dyn Store> = Box::new(Sealed::new(on_memory_disk(), key()));
            Arc::new(Sealed::new(Rotating::new(inside, 2), key()).suite(Suite::Evident)) as Arc<dyn Store>
        });
    }
}
