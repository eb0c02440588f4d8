//! Every backend, and every stack of decorators, keeps the rules of `Store`.
#![cfg(feature = "conformance")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bonfire_store::{DirStore, MemoryDisk, MemoryStore, Rotating, Store, conformance};

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
    conformance::check(|| on_memory_disk().read_back(true));
}

#[test]
fn directory() {
    let home = tempfile::tempdir().unwrap();
    let next = AtomicU32::new(0);
    let path = || home.path().join(next.fetch_add(1, Ordering::Relaxed).to_string()).join("saves");
    conformance::check(|| DirStore::open(path()).unwrap());
    conformance::check(|| Rotating::new(DirStore::open(path()).unwrap().read_back(true), 3));
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
