//! Every codec brings back what it was given, and refuses or survives everything else.

mod deltas;
mod fulls;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Codecs of whole chunks that this build has.
fn full_codecs() -> impl Iterator<Item = Codec> {
    [Codec::Lz4, Codec::Raw, Codec::PaletteLz4, Codec::RunsLz4, Codec::Zstd, Codec::PaletteZstd]
        .into_iter()
        .filter(|codec| codec.is_supported())
}

/// Codecs of changed cells that this build has.
fn delta_codecs() -> impl Iterator<Item = Codec> {
    [Codec::Lz4, Codec::Raw, Codec::RunsPlanesLz4, Codec::RunsPlanesZstd]
        .into_iter()
        .filter(|codec| codec.is_supported())
}

/// Cells in runs, with so few or so many different ones that each codec has chunks that suit it.
fn chunks() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let cell_bytes = prop_oneof![4 => 1..=9_usize, 1 => 10..=CELL_BYTES_MAX];
    let different = prop_oneof![1..=20_u32, 1..=700_u32];
    (cell_bytes, different, prop::collection::vec((any::<u32>(), 1..40_usize), 0..60), any::<bool>())
        .prop_map(|(cell_bytes, different, runs, noisy)| {
            let mut cells = Vec::new();
            for (value, len) in runs {
                for at in 0..len as u32 {
                    let number = if noisy { value.wrapping_mul(at | 1) } else { value } % different;
                    let number = number.wrapping_mul(0x9E37_79B1).to_le_bytes();
                    cells.extend((0..cell_bytes).map(|byte| number[byte % 4] ^ (byte / 4) as u8));
                }
            }
            (cell_bytes, cells)
        })
}

/// A chunk, and the same with some of its cells changed.
fn edits() -> impl Strategy<Value = (usize, Vec<u8>, Vec<u8>)> {
    let changes = prop::collection::vec((any::<Index>(), 0..100_usize, any::<u8>()), 0..20);
    (chunks(), changes).prop_map(|((cell_bytes, base), changes)| {
        let mut cells = base.clone();
        for (start, len, value) in changes {
            let count = cells.len() / cell_bytes;
            if count > 0 {
                let start = start.index(count);
                cells[start * cell_bytes..count.min(start + len) * cell_bytes].fill(value);
            }
        }
        (cell_bytes, base, cells)
    })
}

/// Damages that a disk or somebody may do to a payload: each of them, up to a few hundred.
fn damaged(payload: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let cuts = (0..payload.len()).map(|len| payload[..len].to_vec());
    let flips = (0..payload.len()).flat_map(|at| [1, 0x80, 0xFF].map(|flip| (at, flip))).map(|(at, flip)| {
        let mut payload = payload.to_vec();
        payload[at] ^= flip;
        payload
    });
    let longer = [0, 0xFF].map(|byte| [payload, &[byte]].concat());
    cuts.chain(flips).chain(longer)
}

#[test]
fn numbers_of_codecs_are_as_in_files() {
    for (number, codec) in (0..).zip(Codec::ALL) {
        assert_eq!((codec.number(), Codec::from_number(number)), (number, Some(codec)));
    }
    assert_eq!(Codec::RunsPlanesZstd.number(), 7);
    assert_eq!(Codec::from_number(8), None);
}

#[test]
fn a_choice_has_what_was_put_into_it() {
    assert!(Choice::compat().allows(Codec::Lz4) && !Choice::compat().allows(Codec::Raw));
    assert_eq!(Choice::default(), Choice::fast());
    assert!(!Choice::fast().allows_any(&[Codec::Zstd, Codec::PaletteZstd, Codec::RunsPlanesZstd]));
    assert_eq!(Choice::small().allows(Codec::Zstd), cfg!(feature = "zstd"));
    assert_eq!(Choice::compat().without(Codec::Lz4), Choice::none());
}

#[cfg(not(feature = "zstd"))]
#[test]
fn a_build_without_zstd_names_the_feature() {
    let errors = [
        decode_full(Codec::Zstd, &[0; 9], 4, &mut [0; 16]).unwrap_err(),
        decode_full(Codec::PaletteZstd, &[4, 2, 1, 9], 4, &mut [0; 16]).unwrap_err(),
        decode_delta(Codec::RunsPlanesZstd, &[1, 1, 2, 9, 9], 4, 16).unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_unsupported() && error.to_string().contains("`zstd`"), "{error}");
    }
}
