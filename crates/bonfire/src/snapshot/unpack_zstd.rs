//! Zstandard without the C library, for browsers: decompression only.

use ruzstd::decoding::FrameDecoder;

use crate::error::{Error, Result};

/// The window of a frame is memory that the decoder takes before it looks at the content. Blocks are much smaller than this.
const WINDOW_BYTES_MAX: u64 = 8 << 20;

/// Decompresses into `out`, and returns how many bytes there were.
pub(super) fn unpack_zstd(packed: &[u8], out: &mut [u8]) -> Result<usize> {
    match window_bytes(packed) {
        None => return Err(Error::corrupt("a block cannot be decompressed: no frame of zstd begins here")),
        Some(window) if window > WINDOW_BYTES_MAX => {
            let message =
                format!("a block of zstd needs a window of {window} bytes, at most {WINDOW_BYTES_MAX}");
            return Err(Error::limit(message));
        }
        Some(_) => {}
    }
    let unpacked = FrameDecoder::new().decode_all(packed, out);
    unpacked.map_err(|error| Error::corrupt(format!("a block cannot be decompressed: {error}")))
}

/// The window of the first frame, as its header says it. `None` if there is no header.
fn window_bytes(packed: &[u8]) -> Option<u64> {
    let rest = packed.strip_prefix(&[0x28, 0xB5, 0x2F, 0xFD])?;
    let (&descriptor, rest) = rest.split_first()?;
    if descriptor & 0x20 == 0 {
        let window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // One segment: the window is the content. Its size stands behind the number of a dictionary.
    let rest = rest.get([0, 1, 2, 4][usize::from(descriptor & 3)]..)?;
    let len = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let bytes = rest.get(..len)?;
    let size = bytes.iter().rev().fold(0, |size, &byte| size << 8 | u64::from(byte));
    Some(if len == 2 { size + 256 } else { size })
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    fn contents() -> Vec<Vec<u8>> {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let mut contents = vec![vec![0; 65_536], b"a".to_vec(), (0..65_536).map(|_| noise()).collect()];
        for len in [100, 300, 5_000, 65_536] {
            contents.push((0..len).map(|at| (at / 7 % 11) as u8 ^ (noise() & 1)).collect());
        }
        contents
    }

    #[test]
    fn blocks_of_the_c_library_are_unpacked() {
        for content in contents() {
            for level in [1, 3, 9, 19, 22] {
                let packed = zstd::bulk::compress(&content, level).unwrap();
                let mut out = vec![0; content.len()];
                assert_eq!(unpack_zstd(&packed, &mut out).unwrap(), content.len());
                assert!(out == content, "level {level}, {} bytes", content.len());
                // More than the block should have.
                let mut short = vec![0; content.len() - 1];
                assert!(unpack_zstd(&packed, &mut short).is_err());
            }
        }
    }

    #[test]
    fn damaged_blocks_are_errors_or_other_bytes() {
        let content = &contents()[6];
        let packed = zstd::bulk::compress(content, 3).unwrap();
        let mut out = vec![0; content.len()];
        for len in 0..packed.len() {
            assert!(unpack_zstd(&packed[..len], &mut out).is_err(), "{len} bytes of {}", packed.len());
        }
        for at in 0..packed.len().min(2_000) {
            let mut packed = packed.clone();
            packed[at] ^= 0x55;
            let _ = unpack_zstd(&packed, &mut out);
        }
    }

    #[test]
    fn a_window_is_bounded_before_memory_is_taken() {
        // Windows of 128 MiB and of 2^63 bytes.
        for header in [
            &[0x28, 0xB5, 0x2F, 0xFD, 0, 17 << 3][..],
            &[0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0, 0, 0, 0, 0, 0, 0, 0x80],
        ] {
            assert!(unpack_zstd(header, &mut [0; 9]).unwrap_err().is_limit());
        }
        assert!(unpack_zstd(b"no frame", &mut [0; 9]).unwrap_err().is_corrupt());
    }
}
