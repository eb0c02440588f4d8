//! CRC-8 with polynomial 0x07, start 0, not reflected: what the document has for table entries.

/// `TABLES[n][byte]`: the checksum of `byte` followed by `n` zeros.
static TABLES: [[u8; 256]; 24] = tables();

const fn tables() -> [[u8; 256]; 24] {
    let mut tables = [[0; 256]; 24];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x80 != 0 { (crc << 1) ^ 0x07 } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 24 {
        let mut byte = 0;
        while byte < 256 {
            tables[zeros][byte] = tables[0][tables[zeros - 1][byte] as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The checksum of some bytes. Up to 24 are looked up independently of each other: a million table entries are checked
/// in the time that reading them takes.
pub(crate) fn crc8(bytes: &[u8]) -> u8 {
    crc8_append(0, bytes)
}

/// The checksum of bytes behind others.
pub(crate) fn crc8_append(crc: u8, bytes: &[u8]) -> u8 {
    bytes.chunks(24).fold(crc, |crc, piece| {
        let zeros = piece.len() - 1;
        let looked_up = |(at, &byte): (usize, &u8)| TABLES[zeros - at][usize::from(byte)];
        // What was there before counts like a first byte that is XORed.
        TABLES[zeros][usize::from(crc)]
            ^ piece.iter().enumerate().map(looked_up).fold(0, |all, one| all ^ one)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit_by_bit(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |crc, byte| {
            (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 != 0 { (crc << 1) ^ 0x07 } else { crc << 1 })
        })
    }

    #[test]
    fn it_is_the_known_one() {
        assert_eq!(crc8(b"123456789"), 0xF4);
        assert_eq!(crc8(b""), 0);
    }

    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..200u32).map(|n| (n * 37 % 251) as u8).collect();
        for len in 0..bytes.len() {
            assert_eq!(crc8(&bytes[..len]), bit_by_bit(&bytes[..len]), "{len} bytes");
        }
    }
}
