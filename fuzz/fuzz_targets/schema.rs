//! Any bytes as a schema: refused, or a schema that can be described, compared, encoded again, and has bounded values.
#![no_main]

use bonfire::{Limits, LoadContext, Reader, Watch};
use bonfire::inspect::decode_value;
use bonfire::schema::{Node, Schema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let watch = Watch::new();
    let limits = Limits {
        watch: Some(watch.clone()),
        schema_nodes_max: 4096,
        memory_bytes_max: 1 << 22,
        empty_elements_max: 1 << 14,
        depth_max: 32,
        ..Limits::default()
    };
    let Some((len, rest)) = bytes.split_first() else { return };
    let (schema_bytes, value_bytes) = rest.split_at(usize::from(*len).min(rest.len()));
    let Ok(schema) = Schema::decode(schema_bytes, &limits) else { return };
    assert_eq!(schema.to_bytes(), schema_bytes, "a schema has one form");
    let _ = schema.to_string();
    let _ = schema.difference(&Schema::of::<Vec<(u8, String)>>());
    let context = LoadContext::new(&limits);
    let _ = decode_value(&schema, Node::ROOT, &mut Reader::new(value_bytes, &context));
    // A schema costs its bytes. Of values, each element and field takes at least 16 bytes of the memory.
    let most = bytes.len() as u64 + limits.memory_bytes_max / 16;
    assert!(watch.steps() <= most, "{} steps for {} bytes", watch.steps(), bytes.len());
});
