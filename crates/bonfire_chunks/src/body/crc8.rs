//! CRC-8 with polynomial 0x07, which begins with 0 and reflects nothing: what the headers of bodies are checked with.

const TABLE: [u8; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
        let mut crc = index as u8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// The checksum of some bytes.
pub(crate) fn crc8<'b>(bytes: impl IntoIterator<Item = &'b u8>) -> u8 {
    bytes.into_iter().fold(0, |crc, byte| TABLE[usize::from(crc ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(crc8(b"123456789"), 0xF4);
        assert_eq!(crc8(&[]), 0);
    }
}
