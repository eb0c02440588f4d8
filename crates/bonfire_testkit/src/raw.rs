//! Files put together by hand, with right checksums around whatever is inside: what a hostile writer would make.

/// A section with any content, true or not.
#[derive(Clone)]
pub struct RawSection {
    /// Its number.
    pub kind: u16,
    /// Bit 0 critical, bit 1 copy.
    pub flags: u8,
    /// 0 none, 1 LZ4, 2 zstd.
    pub codec: u8,
    /// Per block the claimed raw length and the stored bytes.
    pub blocks: Vec<(u32, Vec<u8>)>,
}

impl RawSection {
    /// One uncompressed block, or none if there is no content.
    pub fn new(kind: u16, flags: u8, content: &[u8]) -> Self {
        let blocks = content.chunks(64 << 10).map(|block| (block.len() as u32, block.to_vec())).collect();
        Self { kind, flags, codec: 0, blocks }
    }

    fn lengths(&self) -> (u64, u64) {
        let raw = self.blocks.iter().map(|(raw, _)| u64::from(*raw)).sum();
        (raw, self.blocks.iter().map(|(_, stored)| stored.len() as u64).sum())
    }

    fn encode(&self) -> Vec<u8> {
        let (raw, stored) = self.lengths();
        let mut bytes = b"BSEC".to_vec();
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend([self.flags, self.codec]);
        bytes.extend(raw.to_le_bytes());
        bytes.extend(stored.to_le_bytes());
        bytes.extend((self.blocks.len() as u32).to_le_bytes());
        let mut table = Vec::new();
        for (raw, stored) in &self.blocks {
            table.extend(raw.to_le_bytes());
            table.extend((stored.len() as u32).to_le_bytes());
            table.extend(crc32c::crc32c(stored).to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), &table);
        bytes.extend(crc.to_le_bytes());
        bytes.extend(table);
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        self.blocks.iter().for_each(|(_, stored)| bytes.extend(stored));
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        bytes
    }
}

/// A file of these sections, with header and footer.
pub fn raw_file(sections: &[RawSection]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let mut table = (sections.len() as u32).to_le_bytes().to_vec();
    for section in sections {
        let (raw, stored) = section.lengths();
        table.extend(section.kind.to_le_bytes());
        table.extend([section.flags, section.codec]);
        table.extend((section.blocks.len() as u32).to_le_bytes());
        table.extend((bytes.len() as u64).to_le_bytes());
        table.extend(raw.to_le_bytes());
        table.extend(stored.to_le_bytes());
        bytes.extend(section.encode());
    }
    table.extend([0, 0]); // no root, no extensions
    let footer = bytes.len() as u64;
    bytes.extend(RawSection::new(7, 1, &table).encode());
    mend_header(&mut bytes, footer);
    bytes
}

/// Writes the header of a file whose footer is at this offset.
pub fn mend_header(bytes: &mut [u8], footer: u64) {
    let len = bytes.len() as u64;
    bytes[..8].copy_from_slice(b"\x89BNF\r\n\x1a\n");
    bytes[8..12].copy_from_slice(&[1, 0, 1, 0]);
    bytes[16..24].copy_from_slice(&len.to_le_bytes());
    bytes[24..32].copy_from_slice(&footer.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
}

/// The sections of a good file, as they are, without its footer. The file must be uncompressed.
pub fn sections_of(file: &[u8]) -> Vec<RawSection> {
    let mut sections = Vec::new();
    let number = |at: usize, len: usize| (0..len).fold(0_u64, |n, i| n | u64::from(file[at + i]) << (8 * i));
    let mut at = 64;
    while number(at + 4, 2) != 7 {
        let count = number(at + 24, 4) as usize;
        let mut data = (at + 32 + count * 12).next_multiple_of(64);
        let mut blocks = Vec::new();
        for block in 0..count {
            let entry = at + 32 + block * 12;
            let (raw, stored) = (number(entry, 4) as u32, number(entry + 4, 4) as usize);
            blocks.push((raw, file[data..data + stored].to_vec()));
            data += stored;
        }
        sections.push(RawSection {
            kind: number(at + 4, 2) as u16,
            flags: file[at + 6],
            codec: file[at + 7],
            blocks,
        });
        at = data.next_multiple_of(64);
    }
    sections
}
