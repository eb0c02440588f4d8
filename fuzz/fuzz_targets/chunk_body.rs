//! Any bytes as a list of bodies. Those that are accepted come back from a new list.
#![no_main]

use bonfire_chunks::{BodyLimits, decode_bodies, encode_bodies};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((cell_bytes, list)) = bytes.split_first() else { return };
    let cell_bytes = usize::from(cell_bytes % 8) + 1;
    let limits = BodyLimits { body_bytes_max: 1 << 16, bodies_bytes_max: 1 << 18 };
    let Ok(found) = decode_bodies(list, cell_bytes, limits) else { return };
    for body in &found.bodies {
        assert!(body.cells.len() <= 1 << 16);
        let _ = (body.is_empty(), body.unpack_mask(), body.chunk(16));
    }
    let Ok(list) = encode_bodies(&found.bodies, cell_bytes) else { return };
    let again = decode_bodies(&list, cell_bytes, limits).expect("it was just encoded");
    assert!(again.lost.is_empty());
    let text = |bodies: &[bonfire_chunks::Body]| format!("{bodies:?}");
    let solid: Vec<_> = found.bodies.into_iter().filter(|body| !body.is_empty()).collect();
    let again: Vec<_> = again.bodies.into_iter().filter(|body| !body.is_empty()).collect();
    assert_eq!(text(&again), text(&solid));
});
