//! Numbers of 1 to 5 bytes: seven bits per byte, the lowest first, the top bit set in all but the last. A number has
//! one spelling: a last byte of zero behind others is refused.

use bonfire::{Error, Result};

/// Appends a number.
pub(super) fn put(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a count of cells or of their bytes, or a size that is no larger.
pub(super) fn put_count(count: usize, out: &mut Vec<u8>) {
    put(u32::try_from(count).expect("a chunk has less than 2^32 bytes"), out);
}

/// Takes a number from the front of `bytes`.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Result<u32> {
    match **bytes {
        [byte @ 0..0x80, ref rest @ ..] => {
            *bytes = rest;
            Ok(u32::from(byte))
        }
        _ => take_long(bytes),
    }
}

fn take_long(bytes: &mut &[u8]) -> Result<u32> {
    let mut number = 0_u64;
    for at in 0..5 {
        let &byte = bytes.get(at).ok_or_else(|| Error::corrupt("a number is cut short"))?;
        number |= u64::from(byte & 0x7F) << (7 * at);
        if byte < 0x80 {
            if byte == 0 && at > 0 {
                return Err(Error::corrupt("a number is written longer than it is"));
            }
            *bytes = &bytes[at + 1..];
            return u32::try_from(number).map_err(|_| Error::corrupt("a number has more than 32 bits"));
        }
    }
    Err(Error::corrupt("a number has more than 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 24, u32::MAX] {
            let mut bytes = Vec::new();
            put(number, &mut bytes);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest).unwrap(), number);
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_number_has_one_spelling_and_32_bits() {
        for bytes in [&[][..], &[0x80], &[0x80, 0x00], &[0xFF; 6], &[0xFF, 0xFF, 0xFF, 0xFF, 0x10]] {
            assert!(take(&mut { bytes }).unwrap_err().is_corrupt(), "{bytes:?}");
        }
        assert_eq!(take(&mut &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F][..]).unwrap(), u32::MAX);
    }
}
