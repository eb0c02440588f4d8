//! Whole chunks.

use super::*;

fn encode(cells: &[u8], cell_bytes: usize, choice: Choice) -> (Codec, Vec<u8>) {
    let mut payload = b"in front".to_vec();
    let codec = encode_full(cells, cell_bytes, choice, &mut payload);
    assert!(payload.starts_with(b"in front"), "it appends");
    (codec, payload.split_off(8))
}

fn decode(codec: Codec, payload: &[u8], cell_bytes: usize, bytes: usize) -> Result<Vec<u8>> {
    let mut cells = vec![0xEE; bytes];
    decode_full(codec, payload, cell_bytes, &mut cells)?;
    Ok(cells)
}

/// Ground under air in four shades, as the existing game generates it.
fn terrain(side: u32) -> Vec<u8> {
    let mut cells = Vec::new();
    for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
        let mut noise = x.wrapping_mul(0x9E37_79B1) ^ y.wrapping_mul(0x85EB_CA77);
        noise = (noise ^ noise >> 15).wrapping_mul(0x2C1B_3C6D);
        let shade = (noise ^ noise >> 12) as u8 & 3;
        let ground = side / 2 + (x % 64).abs_diff(32);
        cells.extend(if y < ground { [2, shade, 0, 2] } else { [0; 4] });
    }
    cells
}

proptest! {
    #[test]
    fn cells_come_back_from_every_codec((cell_bytes, cells) in chunks()) {
        for codec in full_codecs() {
            let (used, payload) = encode(&cells, cell_bytes, Choice::none().with(codec));
            prop_assert!(used == codec || used == Codec::Raw);
            prop_assert_eq!(&decode(used, &payload, cell_bytes, cells.len())?, &cells);
        }
        let (_, lz4) = encode(&cells, cell_bytes, Choice::compat());
        for choice in [Choice::fast(), Choice::small()] {
            let (used, payload) = encode(&cells, cell_bytes, choice);
            prop_assert!(choice.allows(used));
            prop_assert!(payload.len() <= cells.len());
            let most = lz4.len() + lz4.len() / 16;
            prop_assert!(used == Codec::Raw || payload.len() <= most, "{:?} {}", used, payload.len());
            prop_assert_eq!(&decode(used, &payload, cell_bytes, cells.len())?, &cells);
        }
    }

    #[test]
    fn codec_0_is_what_lz4_flex_writes((cell_bytes, cells) in chunks()) {
        let (codec, payload) = encode(&cells, cell_bytes, Choice::compat());
        prop_assert_eq!(codec, Codec::Lz4);
        prop_assert_eq!(payload, lz4_flex::block::compress_prepend_size(&cells));
    }

    #[test]
    fn a_payload_fits_no_chunk_of_another_size((cell_bytes, cells) in chunks()) {
        for codec in full_codecs() {
            let (used, payload) = encode(&cells, cell_bytes, Choice::none().with(codec));
            for bytes in [cells.len() + cell_bytes, cells.len().saturating_sub(cell_bytes)] {
                if bytes != cells.len() {
                    prop_assert!(decode(used, &payload, cell_bytes, bytes).unwrap_err().is_corrupt());
                }
            }
        }
    }

    #[test]
    fn bytes_of_anybody_are_cells_or_an_error(
        codec in prop::sample::select(&Codec::ALL[..]),
        payload in prop::collection::vec(any::<u8>(), 0..80),
        cell_bytes in 1..=8_usize,
        count in 0..100_usize,
    ) {
        let _ = decode(codec, &payload, cell_bytes, count * cell_bytes);
    }
}

#[test]
fn damage_is_an_error_or_other_cells() {
    let mut noise = 7_u32;
    let cells: Vec<u8> = (0..400)
        .flat_map(|at| {
            noise = noise.wrapping_mul(0x9E37_79B1) ^ noise >> 13;
            if at < 320 { [1, 2, 3, 4] } else { [2, noise as u8 & 7, 0, 9] }
        })
        .collect();
    for codec in full_codecs() {
        let (used, payload) = encode(&cells, 4, Choice::none().with(codec));
        assert_eq!(used, codec);
        for bad in damaged(&payload) {
            let result = decode(codec, &bad, 4, cells.len());
            if bad.len() != payload.len() {
                assert!(result.unwrap_err().is_corrupt(), "{codec:?}: {} of {}", bad.len(), payload.len());
            }
        }
    }
}

#[test]
fn a_few_bytes_that_promise_gigabytes_are_refused() {
    let huge = [0xFF; 4];
    assert!(decode(Codec::Lz4, &huge, 4, 64).unwrap_err().is_corrupt());
    // 2^32 - 1 runs, and lengths of as many bytes.
    let runs = [[0xFF, 0xFF, 0xFF, 0xFF, 0x0F], [0xFF, 0xFF, 0xFF, 0xFF, 0x0F]].concat();
    assert!(decode(Codec::RunsLz4, &runs, 64, 64).unwrap_err().is_corrupt());
    // A block of three bytes is too short for the indices of a large chunk: nothing is made ready for them.
    let palette = [0x80, 0x80, 0x10, 2, 8, 0x1F, 0, 1];
    let error = decode(Codec::PaletteLz4, &palette, 4, 1 << 20).unwrap_err();
    assert!(error.to_string().contains("too few"), "{error}");
}

#[test]
fn the_simplest_payload_wins() {
    let mut noise = 1_u32;
    let random: Vec<u8> = (0..4000)
        .map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .collect();
    assert_eq!(encode(&random, 4, Choice::fast()), (Codec::Raw, random.clone()));
    assert_eq!(
        encode(&[5; 4000], 4, Choice::fast()),
        (Codec::PaletteLz4, vec![0xE8, 7, 1, 0, 0x40, 5, 5, 5, 5])
    );
    assert_eq!(encode(&terrain(64), 4, Choice::fast()).0, Codec::PaletteLz4);
    // 300 different cells, each 100 times.
    let runs: Vec<u8> = (0..300_u32).flat_map(|at| at.to_le_bytes().repeat(100)).collect();
    assert_eq!(encode(&runs, 4, Choice::fast()).0, Codec::RunsLz4);
    assert_eq!(encode(&random, 4, Choice::compat()).0, Codec::Lz4);
    assert_eq!(encode(&[], 4, Choice::fast()), (Codec::Raw, vec![]));
}

#[test]
fn a_palette_makes_terrain_smaller_than_lz4_does() {
    let cells = terrain(512);
    let (_, lz4) = encode(&cells, 4, Choice::compat());
    let (codec, payload) = encode(&cells, 4, Choice::fast());
    assert_eq!(codec, Codec::PaletteLz4);
    assert!(payload.len() * 2 < lz4.len(), "{} against {}", payload.len(), lz4.len());
    assert_eq!(decode(codec, &payload, 4, cells.len()).unwrap(), cells);
}

#[test]
fn the_bytes_of_a_palette_are_as_documented() {
    // Three cells, so two bits each: 0 1 2 0, 1.
    let cells = [7, 7, 8, 8, 9, 9, 7, 7, 8, 8];
    let payload = [5, 3, 2, 0x80, 7, 7, 8, 8, 9, 9, 0b0010_0100, 0b0000_0001];
    assert_eq!(
        encode(&cells, 2, Choice::none().with(Codec::PaletteLz4)),
        (Codec::PaletteLz4, payload.to_vec())
    );
    for (at, byte, message) in [
        (11, 0b0000_0011, "index 3"),
        (11, 0b0100_0001, "behind the last"),
        (2, 1, "of 1 bits"),
        (2, 3, "of 3 bits"),
        (0, 4, "4 cells instead of 5"),
        (1, 0, "of 0 cells"),
        (1, 5, "of 5 cells"),
    ] {
        let mut bad = payload;
        bad[at] = byte;
        let error = decode(Codec::PaletteLz4, &bad, 2, 10).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains(message), "{error}");
    }
}

#[test]
fn indices_of_two_bytes_are_two_planes() {
    // 300 different cells, three times.
    let cells: Vec<u8> =
        (0..900_u32).flat_map(|at| [(at % 300) as u8, (at % 300 / 256) as u8, 1, 2]).collect();
    let (codec, payload) = encode(&cells, 4, Choice::none().with(Codec::PaletteLz4));
    assert_eq!((codec, &payload[..5]), (Codec::PaletteLz4, &[0x84, 7, 0xAC, 2, 16][..]));
    let mut raw = lz4_flex::block::decompress(&payload[5..], 1200 + 1800).unwrap();
    assert_eq!(raw[..1200], cells[..1200]);
    let planes: Vec<u8> = (0..1800_u32)
        .map(|at| if at < 900 { (at % 300) as u8 } else { ((at - 900) % 300 / 256) as u8 })
        .collect();
    assert_eq!(raw[1200..], planes);
    for at in [1200 + 899, 1200 + 1799] {
        let good = raw[at];
        raw[at] = 0x2C;
        let bad = [&payload[..5], &lz4_flex::block::compress(&raw)].concat();
        let error = decode(codec, &bad, 4, cells.len()).unwrap_err();
        assert!(error.is_corrupt() && error.to_string().contains("palette of 300"), "{error}");
        raw[at] = good;
    }
}

#[test]
fn what_is_larger_than_its_chunk_is_refused_before_it_is_unpacked() {
    let block = lz4_flex::block::compress(&[0; 10]);
    let error = decode(Codec::PaletteLz4, &[&[2, 10, 4][..], &block].concat(), 1, 2).unwrap_err();
    assert!(error.to_string().contains("palette of 10 cells for a chunk of 2"), "{error}");
    let block = lz4_flex::block::compress(&[0, 0, 5, 5]);
    let error = decode(Codec::RunsLz4, &[&[2, 2][..], &block].concat(), 1, 2).unwrap_err();
    assert!(error.to_string().contains("2 runs are larger"), "{error}");
}

#[test]
fn lengths_without_a_run_are_refused() {
    let block = lz4_flex::block::compress(&[0xC7, 1, 99, 0, 7, 9]);
    assert!(decode(Codec::RunsLz4, &[&[2, 4][..], &block].concat(), 1, 300).unwrap_err().is_corrupt());
}

#[test]
fn the_bytes_of_runs_are_as_documented() {
    let cells = [vec![7; 200], vec![9; 100]].concat();
    let payload = [2, 3, 0x50, 0xC7, 0x01, 99, 7, 9];
    assert_eq!(encode(&cells, 1, Choice::none().with(Codec::RunsLz4)), (Codec::RunsLz4, payload.to_vec()));
    for (at, byte) in [(3, 0xC8), (3, 0xC6), (4, 0x02), (5, 100), (5, 98), (0, 1), (1, 2)] {
        let mut bad = payload;
        bad[at] = byte;
        assert!(decode(Codec::RunsLz4, &bad, 1, 300).unwrap_err().is_corrupt(), "{at}");
    }
}

#[test]
fn codecs_of_changed_cells_hold_no_chunk() {
    for codec in [Codec::RunsPlanesLz4, Codec::RunsPlanesZstd] {
        assert!(decode(codec, &[1, 1, 2, 0x50], 4, 4).unwrap_err().is_corrupt());
    }
}

#[test]
fn cells_that_cannot_be_are_misuse() {
    assert!(decode(Codec::Raw, &[0; 10], 4, 10).unwrap_err().is_misuse());
    assert!(decode(Codec::Raw, &[], 0, 0).unwrap_err().is_misuse());
    assert!(decode(Codec::Raw, &[0; 65], 65, 65).unwrap_err().is_misuse());
}
