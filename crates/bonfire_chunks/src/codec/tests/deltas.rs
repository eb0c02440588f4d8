//! Changed cells.

use super::*;

fn encode(delta: &Delta, cell_bytes: usize, choice: Choice) -> (Codec, Vec<u8>) {
    let mut payload = b"in front".to_vec();
    let codec = encode_delta(delta, cell_bytes, choice, &mut payload);
    assert!(payload.starts_with(b"in front"), "it appends");
    (codec, payload.split_off(8))
}

/// The content of codecs 0 and 1, with cells of one byte.
fn entries(count: u32, entries: &[(u32, u8)]) -> Vec<u8> {
    let mut content = count.to_le_bytes().to_vec();
    for (position, cell) in entries {
        content.extend_from_slice(&position.to_le_bytes()[..3]);
        content.push(*cell);
    }
    content
}

/// A payload of codec 6 with cells of one byte.
fn planes(counts: [u8; 3], raw: &[u8]) -> Vec<u8> {
    [&counts, &lz4_flex::block::compress(raw)[..]].concat()
}

fn refused(codec: Codec, payload: &[u8], cell_count: u32) {
    let error = decode_delta(codec, payload, 1, cell_count).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
}

proptest! {
    #[test]
    fn changes_come_back_from_every_codec((cell_bytes, base, cells) in edits()) {
        let delta = Delta::between(&base, &cells, cell_bytes);
        let count = u32::try_from(cells.len() / cell_bytes).unwrap();
        for choice in delta_codecs().map(|codec| Choice::none().with(codec)).chain([Choice::fast(), Choice::small()]) {
            let (codec, payload) = encode(&delta, cell_bytes, choice);
            let back = decode_delta(codec, &payload, cell_bytes, count)?;
            prop_assert_eq!(&back, &delta, "{:?}", codec);
            let mut chunk = base.clone();
            back.apply(cell_bytes, &mut chunk)?;
            prop_assert_eq!(&chunk, &cells);
        }
        prop_assert_eq!(encode(&delta, cell_bytes, Choice::compat()).0, Codec::Lz4);
    }

    #[test]
    fn changes_are_exactly_the_cells_that_differ((cell_bytes, base, cells) in edits()) {
        let delta = Delta::between(&base, &cells, cell_bytes);
        let changed: Vec<(u32, &[u8])> = (0..)
            .zip(base.chunks_exact(cell_bytes).zip(cells.chunks_exact(cell_bytes)))
            .filter(|(_, (old, new))| old != new)
            .map(|(at, (_, new))| (at, new))
            .collect();
        prop_assert_eq!(delta.iter(cell_bytes).collect::<Vec<_>>(), changed);
        prop_assert_eq!(delta.count() * cell_bytes, delta.cells.len());
        prop_assert!(delta.runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
        prop_assert!(delta.check(cell_bytes, cells.len() / cell_bytes).is_ok());
    }

    #[test]
    fn bytes_of_anybody_are_changes_that_fit_or_an_error(
        codec in prop::sample::select(&Codec::ALL[..]),
        payload in prop::collection::vec(prop_oneof![any::<u8>(), 0..4_u8], 0..80),
        cell_bytes in 1..=8_usize,
        count in 0..100_u32,
    ) {
        if let Ok(delta) = decode_delta(codec, &payload, cell_bytes, count) {
            delta.apply(cell_bytes, &mut vec![0; count as usize * cell_bytes])?;
        }
    }
}

#[test]
fn a_hole_takes_few_bytes() {
    let base: Vec<u8> =
        (0..512 * 512_u32).flat_map(|at| [1 + (at % 3) as u8, (at >> 5) as u8, 0, 2]).collect();
    let mut cells = base.clone();
    for y in 100..164 {
        cells[(y * 512 + 300) * 4..(y * 512 + 364) * 4].fill(0);
    }
    let delta = Delta::between(&base, &cells, 4);
    assert_eq!((delta.count(), delta.runs.len()), (4096, 64));
    let (codec, payload) = encode(&delta, 4, Choice::fast());
    assert_eq!(codec, Codec::RunsPlanesLz4);
    assert!(payload.len() <= 100, "{}", payload.len());
}

#[test]
fn the_documented_example_is_what_codec_0_writes() {
    let delta = Delta { runs: vec![(5, 1), (300, 1)], cells: vec![10, 11, 12, 13, 1, 2, 3, 4] };
    let content = [2, 0, 0, 0, 5, 0, 0, 0x0A, 0x0B, 0x0C, 0x0D, 0x2C, 1, 0, 1, 2, 3, 4];
    let payload = [&[0x12, 0, 0, 0, 0xF0, 0x03][..], &content].concat();
    assert_eq!(encode(&delta, 4, Choice::compat()), (Codec::Lz4, payload));
    assert_eq!(encode(&delta, 4, Choice::none()), (Codec::Raw, content.to_vec()));
}

#[test]
fn the_bytes_of_planes_are_as_documented() {
    let delta = Delta { runs: vec![(0, 1), (200, 2)], cells: vec![1, 11, 2, 12, 3, 13] };
    let payload = [2, 3, 5, 0xB0, 0, 1, 0xC7, 1, 2, 1, 2, 3, 11, 12, 13];
    let choice = Choice::none().with(Codec::RunsPlanesLz4);
    assert_eq!(encode(&delta, 2, choice), (Codec::RunsPlanesLz4, payload.to_vec()));
}

#[test]
fn nothing_changed_is_a_delta_too() {
    let delta = Delta::between(&[1; 64], &[1; 64], 4);
    assert!(delta.is_empty());
    for codec in delta_codecs() {
        let (used, payload) = encode(&delta, 4, Choice::none().with(codec));
        assert_eq!(decode_delta(used, &payload, 4, 16).unwrap(), delta);
    }
}

#[test]
fn neighbours_are_one_run() {
    let content = entries(3, &[(4, 7), (5, 8), (7, 9)]);
    let delta = decode_delta(Codec::Raw, &content, 1, 8).unwrap();
    assert_eq!(delta, Delta { runs: vec![(4, 2), (7, 1)], cells: vec![7, 8, 9] });
}

#[test]
fn entries_out_of_order_or_outside_are_refused() {
    refused(Codec::Raw, &entries(1, &[(8, 0)]), 8);
    refused(Codec::Raw, &entries(2, &[(3, 0), (3, 0)]), 8);
    refused(Codec::Raw, &entries(2, &[(3, 0), (2, 0)]), 8);
    refused(Codec::Raw, &entries(2, &[(3, 0)]), 8);
    refused(Codec::Raw, &entries(0, &[(3, 0)]), 8);
    refused(Codec::Raw, &entries(u32::MAX, &[(3, 0)]), 8);
    refused(Codec::Raw, &[1, 0, 0], 8);
    assert!(decode_delta(Codec::Raw, &entries(2, &[(3, 0), (7, 0)]), 1, 8).is_ok());
}

#[test]
fn runs_out_of_order_or_outside_are_refused() {
    let good = planes([2, 3, 4], &[1, 1, 1, 2, 7, 8, 9]);
    let delta = decode_delta(Codec::RunsPlanesLz4, &good, 1, 5).unwrap();
    assert_eq!(delta, Delta { runs: vec![(1, 1), (3, 2)], cells: vec![7, 8, 9] });
    refused(Codec::RunsPlanesLz4, &good, 4);
    // Two runs that touch, an empty one, fewer cells than said, more cells, bytes left over, more runs than cells.
    refused(Codec::RunsPlanesLz4, &planes([2, 3, 4], &[1, 1, 0, 2, 7, 8, 9]), 9);
    refused(Codec::RunsPlanesLz4, &planes([2, 3, 4], &[1, 3, 1, 0, 7, 8, 9]), 9);
    refused(Codec::RunsPlanesLz4, &planes([2, 3, 4], &[1, 1, 1, 1, 7, 8, 9]), 9);
    refused(Codec::RunsPlanesLz4, &planes([2, 3, 4], &[1, 1, 1, 3, 7, 8, 9]), 9);
    refused(Codec::RunsPlanesLz4, &planes([1, 3, 4], &[1, 3, 0, 0, 7, 8, 9]), 9);
    refused(Codec::RunsPlanesLz4, &planes([3, 2, 6], &[1, 1, 1, 1, 1, 1, 7, 8]), 9);
    refused(Codec::RunsPlanesLz4, &planes([1, 9, 2], &[0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8]), 8);
}

#[test]
fn damage_is_an_error_or_other_changes() {
    let base = vec![0; 1600];
    let cells: Vec<u8> =
        (0..400_u32).flat_map(|at| if at % 7 < 3 { [3, at as u8, 1, 0] } else { [0; 4] }).collect();
    let delta = Delta::between(&base, &cells, 4);
    for codec in delta_codecs() {
        let (used, payload) = encode(&delta, 4, Choice::none().with(codec));
        assert_eq!(used, codec);
        for bad in damaged(&payload) {
            match decode_delta(codec, &bad, 4, 400) {
                Ok(delta) => {
                    assert_eq!(bad.len(), payload.len(), "{codec:?}");
                    delta.apply(4, &mut base.clone()).unwrap();
                }
                Err(error) => assert!(error.is_corrupt(), "{error}"),
            }
        }
    }
}

#[test]
fn a_few_bytes_that_promise_gigabytes_are_refused() {
    refused(Codec::Lz4, &[0xFF, 0xFF, 0xFF, 0xFF, 0], 1 << 24);
    // Below what 2^24 cells may take, so that only the size of the block tells.
    let error = decode_delta(Codec::Lz4, &[0, 0, 0, 4, 0x1F, 0, 1, 0], 1, 1 << 24).unwrap_err();
    assert!(error.to_string().contains("too few"), "{error}");
    let many = [0xFF, 0xFF, 0xFF, 0x07];
    let error = decode_delta(Codec::RunsPlanesLz4, &[&many[..], &many, &many, &[0]].concat(), 1, 1 << 24)
        .unwrap_err();
    assert!(error.to_string().contains("too few"), "{error}");
    refused(Codec::RunsPlanesLz4, &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1, 1, 0], 1 << 24);
}

#[test]
fn codecs_of_whole_chunks_hold_no_changes() {
    for codec in [Codec::PaletteLz4, Codec::RunsLz4, Codec::Zstd, Codec::PaletteZstd] {
        refused(codec, &entries(1, &[(3, 0)]), 8);
    }
}

#[test]
fn changes_that_do_not_fit_leave_the_chunk_as_it_is() {
    let mut chunk = [0; 8];
    for (runs, cells) in [
        (vec![(0, 1), (8, 1)], 2),
        (vec![(0, 1), (7, u32::MAX)], 2),
        (vec![(2, 2), (3, 1)], 3),
        (vec![(2, 2), (4, 1)], 3),
        (vec![(2, 0)], 0),
        (vec![(2, 1)], 2),
        (vec![(2, 2)], 1),
    ] {
        let delta = Delta { runs, cells: vec![9; cells] };
        assert!(delta.apply(1, &mut chunk).unwrap_err().is_misuse(), "{delta:?}");
        assert_eq!(chunk, [0; 8]);
    }
}
