//! Any bytes as values: typed, by schema and dynamic. What is accepted is encoded to the same bytes again.
#![no_main]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroU16;
use std::time::Duration;

use bonfire::inspect::*;
use bonfire::schema::*;
use bonfire::*;
use libfuzzer_sys::fuzz_target;

#[derive(Persist)]
enum Shape {
    Unit,
    Tuple(u8, Vec<bool>),
    Struct { name: String, next: Option<Box<Shape>>, id: EntityId },
}

#[derive(Persist)]
struct Everything {
    numbers: (u8, i16, u32, i64, u128, f32, f64),
    letter: char,
    non_zero: NonZeroU16,
    list: Vec<Shape>,
    map: BTreeMap<String, u8>,
    fixed: [Option<u8>; 3],
    time: Duration,
    value: Value,
}

fn limits(watch: &Watch) -> Limits {
    Limits {
        memory_bytes_max: 1 << 22,
        empty_elements_max: 1 << 14,
        depth_max: 32,
        watch: Some(watch.clone()),
        ..Limits::default()
    }
}

/// Each element of a list has a byte, or is one of the few that need none. It is read as its type and by its schema.
/// A list that says that it has more elements than there are bytes behind it costs that number before it is refused.
fn check_work(watch: &Watch, bytes: usize) {
    let most = 64 * bytes as u64 + (1 << 18);
    assert!(watch.steps() <= most, "{} steps for {bytes} bytes", watch.steps());
}

fn check<T: Persist>(bytes: &[u8], ordered: bool) {
    let watch = Watch::new();
    let limits = limits(&watch);
    let context = LoadContext::new(&limits);
    let mut input = Reader::new(bytes, &context);
    let read = T::decode(&mut input);
    check_work(&watch, bytes.len());
    let Ok(value) = read else { return };
    let used = input.offset();
    let mut out = Writer::new();
    value.encode(&mut out);
    let Ok(again) = out.finish() else { return };
    // Maps and sets are written sorted, so only sorted ones come back as they were.
    assert!(!ordered || again == bytes[..used]);
    let context = LoadContext::new(&limits);
    let schema = Schema::of::<T>();
    let mut input = Reader::new(&again, &context);
    let value = decode_value(&schema, Node::ROOT, &mut input);
    check_work(&watch, bytes.len());
    if let Ok(value) = value {
        let mut out = Writer::new();
        if encode_value(&schema, Node::ROOT, &value, &mut out).is_ok() {
            assert_eq!(out.as_bytes(), again);
        }
        let _ = value.to_string();
    }
}

fuzz_target!(|bytes: &[u8]| {
    check::<Shape>(bytes, true);
    check::<Everything>(bytes, false);
    check::<Value>(bytes, true);
    check::<HashMap<u16, HashSet<u8>>>(bytes, false);
    check::<Vec<(bool, char)>>(bytes, true);
    check::<Vec<()>>(bytes, true);
    check::<Vec<[NonZeroU16; 2]>>(bytes, true);
});
