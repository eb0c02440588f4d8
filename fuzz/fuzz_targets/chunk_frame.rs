//! Any bytes as the cells of a chunk, by every codec. What is accepted is encoded and decoded to the same cells.
#![no_main]

use bonfire_chunks::codec::{Choice, Codec, decode_full, encode_full};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(([codec, cell_bytes, edge], payload)) = bytes.split_first_chunk() else { return };
    let Some(codec) = Codec::from_number(codec % 10) else { return };
    let (cell_bytes, edge) = (usize::from(cell_bytes % 64) + 1, usize::from(edge % 40) + 1);
    let mut cells = vec![0; edge * edge * cell_bytes];
    if decode_full(codec, payload, cell_bytes, &mut cells).is_err() {
        return;
    }
    for choice in [Choice::fast(), Choice::compat()] {
        let mut out = Vec::new();
        let codec = encode_full(&cells, cell_bytes, choice, &mut out);
        let mut again = vec![1; cells.len()];
        decode_full(codec, &out, cell_bytes, &mut again).expect("it was just encoded");
        assert_eq!(again, cells);
    }
});
