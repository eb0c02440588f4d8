//! Any bytes as what differs from a generated chunk. What is accepted can be applied, and is encoded and decoded to the same.
#![no_main]

use bonfire_chunks::codec::{Choice, Codec, decode_delta, encode_delta};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(([codec, cell_bytes, edge], payload)) = bytes.split_first_chunk() else { return };
    let Some(codec) = Codec::from_number(codec % 10) else { return };
    let (cell_bytes, edge) = (usize::from(cell_bytes % 64) + 1, usize::from(edge % 40) + 1);
    let Ok(delta) = decode_delta(codec, payload, cell_bytes, (edge * edge) as u32) else { return };
    let mut cells = vec![0; edge * edge * cell_bytes];
    delta.apply(cell_bytes, &mut cells).expect("it was checked");
    assert!(delta.count() <= edge * edge);
    for choice in [Choice::fast(), Choice::compat()] {
        let mut out = Vec::new();
        let codec = encode_delta(&delta, cell_bytes, choice, &mut out);
        let again = decode_delta(codec, &out, cell_bytes, (edge * edge) as u32).expect("it was just encoded");
        let mut same = vec![0; cells.len()];
        again.apply(cell_bytes, &mut same).expect("it was checked");
        assert_eq!(same, cells);
    }
});
