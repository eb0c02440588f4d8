//! Any text as a JSON table: refused, or a snapshot that is encoded, opened and exported to an equal table.
#![no_main]

use bonfire::{EncodeOptions, Limits, Persist, Registry, Snapshot, Watch};
use libfuzzer_sys::fuzz_target;

#[derive(Persist)]
#[persist(key = "Position")]
struct Position {
    x: f32,
    y: f32,
}

fuzz_target!(|text: &str| {
    let mut registry = Registry::new();
    registry.register::<Position>().unwrap();
    let watch = Watch::new();
    let limits = Limits { watch: Some(watch.clone()), ..Limits::default() };
    let read = Snapshot::from_json_with(text, &registry, &limits);
    // The text is parsed once. Each cell has a character, and each node of a schema takes fewer bytes than characters.
    assert!(watch.steps() <= 4 * text.len() as u64, "{} steps for {} bytes", watch.steps(), text.len());
    let Ok(snapshot) = read else { return };
    let bytes = snapshot.encode(&EncodeOptions::default());
    let Ok(bytes) = bytes else { return };
    let Ok(opened) = Snapshot::open(&bytes.to_vec()) else { return };
    let json = opened.to_json().expect("what was imported can be exported");
    let again = Snapshot::from_json(&json, &Registry::new()).expect("what was exported can be imported");
    assert_eq!(again.to_json().unwrap(), json);
});
