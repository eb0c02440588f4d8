//! The core, the store, hecs and replication in a browser: their own tests, and what differs there.
#![cfg(target_arch = "wasm32")]

mod browser;
#[path = "../../bonfire/tests/properties.rs"]
mod properties;
#[path = "store/replication.rs"]
mod replication;
#[path = "../../bonfire/tests/slices.rs"]
mod slices;
#[path = "../../bonfire_store/tests/slots.rs"]
mod slots;
#[path = "store/without_engine.rs"]
mod without_engine;

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);
