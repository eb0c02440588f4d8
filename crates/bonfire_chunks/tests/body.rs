//! Lists of bodies come back as they were, damage costs the body it hits, and no bytes take memory beyond the limits.

use bonfire_chunks::{Body, BodyId, BodyLimits, decode_bodies, encode_bodies};
use proptest::prelude::*;

const CELL_BYTES: usize = 4;

fn body(id: u64, width: u32, height: u32, solid: impl Fn(usize) -> bool) -> Body {
    let cells = (width * height) as usize;
    let solid: Vec<bool> = (0..cells).map(solid).collect();
    Body {
        id: BodyId(id),
        position: [-0.5, 1e9],
        rotation: -3.25,
        linear_velocity: [0.0, -9.81],
        angular_velocity: f32::MIN_POSITIVE,
        width,
        height,
        origin: [-7, i32::MAX],
        cells: (0..cells * CELL_BYTES).map(|at| (at * at / 7) as u8).collect(),
        mask: Body::pack_mask(&solid),
        extension: id.to_le_bytes().to_vec(),
    }
}

fn three() -> [Body; 3] {
    [body(1, 3, 3, |_| true), body(2, 40, 17, |cell| cell % 3 == 0), body(u64::MAX, 1, 1, |_| true)]
}

/// Where records begin.
fn starts(bodies: &[Body]) -> Vec<usize> {
    (0..=bodies.len()).map(|count| encode_bodies(&bodies[..count], CELL_BYTES).unwrap().len()).collect()
}

fn decode(bytes: &[u8]) -> bonfire::Result<bonfire_chunks::DecodedBodies> {
    decode_bodies(bytes, CELL_BYTES, BodyLimits::default())
}

#[test]
fn fields_are_where_the_document_has_them() {
    let bytes = encode_bodies(&three()[..1], CELL_BYTES).unwrap();
    assert_eq!(bytes[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let record = &bytes[8..];
    let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    let float = |at: usize| f32::from_bits(word(at));
    assert_eq!((word(0), word(4)), (1, 0));
    assert_eq!([float(8), float(12), float(16)], [-0.5, 1e9, -3.25]);
    assert_eq!([float(20), float(24), float(28)], [0.0, -9.81, f32::MIN_POSITIVE]);
    assert_eq!([word(32), word(36), word(40), word(44)], [3, 3, (-7_i32) as u32, i32::MAX as u32]);
    let [cells, mask, extension] = [word(48), word(52), word(56)].map(|bytes| bytes as usize);
    assert_eq!((64 + cells + mask + extension, extension), (record.len(), 8));
    assert_eq!(record[61..64], [0; 3]);
    // The raw sizes stand in front of both blocks.
    assert_eq!((word(64), record[64 + cells..64 + cells + 4].to_vec()), (36, vec![2, 0, 0, 0]));
}

#[test]
fn empty_bodies_are_left_out() {
    let bodies = [body(1, 9, 9, |_| false), body(2, 0, 5, |_| true), body(3, 1, 1, |_| true)];
    let decoded = decode(&encode_bodies(&bodies, CELL_BYTES).unwrap()).unwrap();
    assert_eq!(decoded.bodies, [bodies[2].clone()]);
}

#[test]
fn a_body_whose_parts_do_not_fit_is_refused() {
    let mut short = body(1, 2, 2, |_| true);
    short.cells.pop();
    assert!(encode_bodies(&[short], CELL_BYTES).unwrap_err().is_misuse());
    let mut long = body(1, 2, 2, |_| true);
    long.mask.push(1);
    assert!(encode_bodies(&[long], CELL_BYTES).unwrap_err().is_misuse());
}

#[test]
fn damaged_cells_cost_one_body() {
    let bodies = three();
    let mut bytes = encode_bodies(&bodies, CELL_BYTES).unwrap();
    let second = starts(&bodies)[1];
    // The raw size of the cells.
    bytes[second + 64] ^= 1;
    let decoded = decode(&bytes).unwrap();
    assert_eq!(decoded.bodies, [bodies[0].clone(), bodies[2].clone()]);
    assert_eq!((decoded.lost.len(), decoded.lost[0].index, decoded.lost[0].count), (1, 1, 1));
    assert!(decoded.lost[0].error.to_string().contains("body 2"), "{}", decoded.lost[0].error);
}

#[test]
fn a_damaged_header_costs_all_that_follow() {
    let bodies = three();
    let bytes = encode_bodies(&bodies, CELL_BYTES).unwrap();
    let second = starts(&bodies)[1];
    for at in second..second + 61 {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let decoded = decode(&bytes).unwrap();
        assert_eq!(decoded.bodies, [bodies[0].clone()], "byte {at}");
        assert_eq!((decoded.lost[0].index, decoded.lost[0].count), (1, 2));
    }
}

#[test]
fn sizes_beyond_the_limits_are_refused_before_memory_is_taken() {
    let bodies = three();
    let bytes = encode_bodies(&bodies, CELL_BYTES).unwrap();
    let small = BodyLimits { body_bytes_max: 100, ..BodyLimits::default() };
    let decoded = decode_bodies(&bytes, CELL_BYTES, small).unwrap();
    assert_eq!((decoded.bodies.len(), decoded.lost.len()), (2, 1));
    assert!(decoded.lost[0].error.is_limit());
    let few = BodyLimits { bodies_bytes_max: 40, ..BodyLimits::default() };
    let decoded = decode_bodies(&bytes, CELL_BYTES, few).unwrap();
    assert_eq!(decoded.bodies, [bodies[0].clone(), bodies[2].clone()]);
}

#[test]
fn a_size_that_no_block_can_have_is_refused() {
    let mut bytes = encode_bodies(&three()[..1], CELL_BYTES).unwrap();
    // 4000 x 4000 cells, and a prefix that agrees.
    bytes[8 + 32..8 + 36].copy_from_slice(&4000_u32.to_le_bytes());
    bytes[8 + 36..8 + 40].copy_from_slice(&4000_u32.to_le_bytes());
    bytes[8 + 64..8 + 68].copy_from_slice(&64_000_000_u32.to_le_bytes());
    bytes[8 + 60] = crc8(&bytes[8..68]);
    let decoded = decode(&bytes).unwrap();
    assert!(decoded.lost[0].error.to_string().contains("cannot come out of"), "{}", decoded.lost[0].error);
}

fn crc8(bytes: &[u8]) -> u8 {
    let step = |crc: u8, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 7 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ byte, step))
}

#[test]
fn counts_and_ends_that_do_not_fit_are_refused() {
    let mut bytes = encode_bodies(&three(), CELL_BYTES).unwrap();
    assert!(decode(&bytes[..7]).unwrap_err().is_corrupt());
    bytes.push(0);
    assert!(decode(&bytes).unwrap_err().is_corrupt());
    bytes.pop();
    bytes[4] = 1;
    assert!(decode(&bytes).unwrap_err().is_newer_format());
    bytes[4] = 0;
    bytes[3] = 255;
    assert!(decode(&bytes).unwrap_err().is_corrupt());
}

#[test]
fn a_cut_list_loses_what_was_cut() {
    let bodies = three();
    let bytes = encode_bodies(&bodies, CELL_BYTES).unwrap();
    let starts = starts(&bodies);
    for len in 0..bytes.len() {
        let Ok(decoded) = decode(&bytes[..len]) else { continue };
        let whole = starts[1..].iter().filter(|end| **end <= len).count();
        assert_eq!(decoded.bodies, bodies[..whole]);
        assert_eq!(decoded.lost[0].index as usize, whole);
    }
}

proptest! {
    #[test]
    fn bodies_come_back(
        id: u64,
        numbers: [f32; 6],
        origin: [i32; 2],
        (width, height, cells) in (1_u32..30, 1_u32..30).prop_flat_map(|(w, h)| {
            (Just(w), Just(h), prop::collection::vec(any::<(u32, bool)>(), (w * h) as usize))
        }),
        extension in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut solid: Vec<bool> = cells.iter().map(|cell| cell.1).collect();
        solid[0] = true;
        let body = Body {
            id: BodyId(id),
            position: [numbers[0], numbers[1]],
            rotation: numbers[2],
            linear_velocity: [numbers[3], numbers[4]],
            angular_velocity: numbers[5],
            width,
            height,
            origin,
            cells: cells.iter().flat_map(|cell| cell.0.to_le_bytes()).collect(),
            mask: Body::pack_mask(&solid),
            extension,
        };
        let decoded = decode(&encode_bodies(&[body.clone(), body.clone()], CELL_BYTES).unwrap()).unwrap();
        prop_assert_eq!(decoded.bodies, [body.clone(), body]);
        prop_assert!(decoded.lost.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        let mut bytes = encode_bodies(&three(), CELL_BYTES).unwrap();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = decode(&bytes);
    }
}
