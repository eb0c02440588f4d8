//! IndexedDB keeps every rule of a store, and what was complete is there when the store is opened again.
#![cfg(target_arch = "wasm32")]

use std::sync::atomic::{AtomicU32, Ordering};

use bonfire_store::{Batch, Payload, Precondition, Store, conformance};
use bonfire_web::IndexedDbStore;
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_browser);

/// A name that no database has.
fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}", (js_sys::Math::random() * 1e9) as u64)
}

async fn new_store() -> IndexedDbStore {
    IndexedDbStore::open(&new_name()).await.unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

#[wasm_bindgen_test]
async fn it_keeps_every_rule_of_a_store() {
    conformance::check_async(new_store).await;
}

#[wasm_bindgen_test]
async fn what_is_complete_is_there_after_another_opening() {
    let name = new_name();
    let store = IndexedDbStore::open(&name).await.unwrap();
    for (blob, len) in [("empty", 0), ("small", 1000), ("exact", 2 << 20), ("large", (5 << 20) + 17)] {
        store.put(blob, Payload::from(bytes(len)), Precondition::Absent).await.unwrap();
    }
    store.append("large", (5 << 20) + 17, Payload::from(b"more".to_vec())).await.unwrap();
    store.change(Batch::new().copy("small", "copied").rename("exact", "renamed")).await.unwrap();
    drop(store);
    let store = IndexedDbStore::open(&name).await.unwrap();
    assert_eq!(store.list("").await.unwrap(), ["copied", "empty", "large", "renamed", "small"]);
    let mut large = bytes((5 << 20) + 17);
    large.extend(b"more");
    assert!(store.get("large").await.unwrap() == large);
    assert_eq!(store.get_range("large", (5 << 20) + 15..u64::MAX).await.unwrap(), large[(5 << 20) + 15..]);
    assert!(store.get("renamed").await.unwrap() == bytes(2 << 20));
    store.remove("small").await.unwrap();
    assert_eq!(store.get("copied").await.unwrap(), bytes(1000), "a copy keeps the bytes that both had");
    assert!(store.get("empty").await.unwrap().is_empty());
}

#[wasm_bindgen_test]
async fn calls_are_done_in_their_order_and_also_if_nobody_waits() {
    let store = new_store().await;
    for number in 0..20_u8 {
        drop(store.change(Batch::new().put("a", Payload::from(vec![number; 10]))));
    }
    assert_eq!(store.get("a").await.unwrap(), vec![19; 10]);
    let other = store.clone();
    drop(store);
    assert_eq!(other.list("").await.unwrap(), ["a"]);
}

#[wasm_bindgen_test]
async fn two_handles_of_one_database_see_each_other_and_conflicts_are_found() {
    let name = new_name();
    let one = IndexedDbStore::open(&name).await.unwrap();
    let other = IndexedDbStore::open(&name).await.unwrap();
    let version = one.put("a", Payload::from(bytes(10)), Precondition::Absent).await.unwrap();
    assert!(
        other.put("a", Payload::from(bytes(2 << 20)), Precondition::Absent).await.unwrap_err().is_conflict()
    );
    other.put("a", Payload::from(bytes(20)), Precondition::Version(version.clone())).await.unwrap();
    let late = one.put("a", Payload::from(bytes(30)), Precondition::Version(version)).await;
    assert!(late.unwrap_err().is_conflict());
    assert_eq!(one.get("a").await.unwrap(), bytes(20));
}

#[wasm_bindgen_test]
async fn a_store_is_removed_with_everything_in_it() {
    let name = new_name();
    let store = IndexedDbStore::open(&name).await.unwrap();
    store.put("a", Payload::from(bytes(10)), Precondition::None).await.unwrap();
    IndexedDbStore::delete(&name).await.unwrap();
    assert!(store.get("a").await.unwrap_err().is_io(), "an open store lets go of it");
    let store = IndexedDbStore::open(&name).await.unwrap();
    assert!(store.list("").await.unwrap().is_empty());
}
