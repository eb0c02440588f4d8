//! Files made by hand, from what the docs of the format say and without any of its code.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub const NAME: &str = "world.save";
/// Cells along an edge of a chunk, and bytes of a chunk: one layer of a byte.
pub const SIZE: u16 = 4;
pub const CHUNK_BYTES: usize = 16;

pub const CHUNK: u8 = 1;
pub const SECTION: u8 = 2;
pub const COMMIT: u8 = 3;
pub const BODIES: u8 = 5;
pub const SNAPSHOT: u8 = 6;
pub const SETTINGS: u8 = 7;
pub const SIDE: u8 = 10;

pub fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc: u8, _| if crc & 0x80 != 0 { (crc << 1) ^ 0x07 } else { crc << 1 })
    })
}

/// CRC-32C, bit by bit.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 != 0 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 },
        )
    })
}

#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub magic: [u8; 4],
    pub version: u16,
    pub flags: u16,
    pub count: u32,
    pub table_bytes: u32,
    pub data_start: u64,
    pub chunk_size: u16,
    pub tile_size: u16,
    pub cell_bytes: u8,
    pub entities: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend([0; 24]);
        bytes.extend(self.count.to_le_bytes());
        bytes.extend(self.table_bytes.to_le_bytes());
        bytes.extend(self.data_start.to_le_bytes());
        bytes.extend(self.chunk_size.to_le_bytes());
        bytes.extend(self.tile_size.to_le_bytes());
        bytes.push(self.cell_bytes);
        bytes.extend(self.entities.to_le_bytes());
        let crc = crc32c(&bytes).to_le_bytes();
        bytes.extend(&crc[..3]);
        bytes.try_into().expect("64 bytes")
    }
}

/// z and dimension.
pub type Depth = (i32, u32);

/// The bit of a kind that says that a depth follows.
pub const HAS_DEPTH: u8 = 64;

pub fn encode_depth((z, dimension): Depth) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&z.to_le_bytes());
    bytes[4..].copy_from_slice(&dimension.to_le_bytes());
    bytes
}

/// An entry of a table, or of a list of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entry {
    pub kind: u8,
    pub pos: (i32, i32),
    /// z and dimension, if they are said.
    pub depth: Option<Depth>,
    pub offset: u64,
    pub len: u32,
    /// Storage, codec, layer set.
    pub tag: [u8; 3],
}

impl Entry {
    fn raw(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&self.pos.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.pos.1.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20] = self.tag[0];
        bytes[22..].copy_from_slice(&self.tag[1..]);
        bytes
    }

    /// With a depth in version 2 alone.
    pub fn of_table(&self, version: u16) -> Vec<u8> {
        let mut bytes = self.raw().to_vec();
        if version > 1 {
            bytes.extend(encode_depth(self.depth.unwrap_or_default()));
        }
        bytes[21] = crc8(&[&bytes[..21], &bytes[24..]].concat());
        bytes
    }

    pub fn of_list(&self) -> Vec<u8> {
        let mut bytes = self.raw().to_vec();
        bytes[21] = self.kind;
        if let Some(depth) = self.depth {
            bytes[21] |= HAS_DEPTH;
            bytes.extend(encode_depth(depth));
        }
        bytes
    }
}

/// A frame, of data that may be anything.
pub fn frame(kind: u8, pos: (i32, i32), tag: [u8; 3], generation: u64, data: &[u8]) -> Vec<u8> {
    let mut trailer = vec![0x9B, b'B', b'N', b'F', kind];
    trailer.extend(tag);
    trailer.extend(pos.0.to_le_bytes());
    trailer.extend(pos.1.to_le_bytes());
    trailer.extend((data.len() as u32).to_le_bytes());
    trailer.extend(generation.to_le_bytes());
    let crc = crc32c(&[data, &trailer].concat());
    trailer.extend(crc.to_le_bytes());
    [&(data.len() as u32 + 32).to_le_bytes()[..], data, &trailer].concat()
}

pub fn settings(chunk_size: u16) -> Vec<u8> {
    let mut bytes = vec![1, 1, 1, 0];
    bytes.extend([0; 16]);
    bytes.extend(chunk_size.to_le_bytes());
    bytes.extend(2_u16.to_le_bytes());
    // Session, set, sets.
    bytes.extend([0, 0, 0, 0, 0, 1, 0]);
    // A generator of version 0, one layer, no materials: `m`, a byte, version 1, always, 0.
    let set = [0, 0, 0, 0, 1, 255, 1, b'm', 1, 1, 0, 0, 0, 0, 0];
    bytes.push(0);
    bytes.extend((set.len() as u32).to_le_bytes());
    bytes.extend(set);
    bytes
}

/// A file that is being made.
pub struct File {
    pub header: Header,
    pub bytes: Vec<u8>,
    pub table: Vec<Entry>,
    pub side: Vec<Entry>,
    pub earlier: u64,
    /// What the commit lists, and says of itself.
    pub listed: Vec<Entry>,
    pub durable: u64,
    /// The checksums of what it lists.
    pub crcs: Vec<u8>,
}

impl File {
    /// With both settings, and room for so many entries.
    pub fn new(capacity: u32) -> Self {
        let data_start = 64 + u64::from(capacity) * 24;
        let header = Header {
            magic: *b"PXSW",
            version: 1,
            flags: 1,
            count: 0,
            table_bytes: capacity * 24,
            data_start,
            chunk_size: SIZE,
            tile_size: 2,
            cell_bytes: 1,
            entities: 0,
        };
        let bytes = vec![0; data_start as usize];
        let (table, side, listed) = (Vec::new(), Vec::new(), Vec::new());
        let mut file = Self { header, bytes, table, side, earlier: 0, listed, durable: 1, crcs: Vec::new() };
        for y in 0..2 {
            let entry = file.append(SETTINGS, (0, y), [0; 3], &settings(SIZE));
            file.side.push(entry);
        }
        file
    }

    pub fn append(&mut self, kind: u8, pos: (i32, i32), tag: [u8; 3], data: &[u8]) -> Entry {
        let offset = self.bytes.len() as u64 + 4;
        self.bytes.extend(frame(kind, pos, tag, 1, data));
        let entry = Entry { kind, pos, offset, len: data.len() as u32, tag, ..Entry::default() };
        if ![SECTION, COMMIT, SIDE].contains(&kind) {
            self.listed.push(entry);
            self.crcs.extend(&self.bytes[self.bytes.len() - 4..]);
        }
        entry
    }

    /// A frame whose data ends with a depth.
    pub fn append_deep(
        &mut self,
        kind: u8,
        pos: (i32, i32),
        depth: Depth,
        tag: [u8; 3],
        data: &[u8],
    ) -> Entry {
        let entry = self.append(kind | HAS_DEPTH, pos, tag, &[data, &encode_depth(depth)].concat());
        let entry = Entry { kind, depth: Some(depth), ..entry };
        if let Some(listed) = self.listed.last_mut() {
            *listed = entry;
        }
        entry
    }

    /// A chunk, whole and not compressed.
    pub fn chunk(&mut self, pos: (i32, i32), fill: u8) -> Entry {
        let entry = self.append(CHUNK, pos, [2, 1, 0], &[fill; CHUNK_BYTES]);
        self.table.push(entry);
        entry
    }

    /// Side index, entity section, commit, table, header.
    pub fn finish(mut self) -> Vec<u8> {
        let list = |entries: &[Entry]| -> Vec<u8> { entries.iter().flat_map(Entry::of_list).collect() };
        let side =
            [&self.earlier.to_le_bytes()[..], &(self.side.len() as u32).to_le_bytes(), &list(&self.side)]
                .concat();
        let side = self.append(SIDE, (0, 0), [0; 3], &side).offset;
        let pos = ((side as u32).cast_signed(), ((side >> 32) as u32).cast_signed());
        let section = self.append(SECTION, pos, [0; 3], &[0; 8]);
        if self.header.entities == 0 {
            self.header.entities = section.offset;
        }
        if self.header.count == 0 {
            self.header.count = self.table.len() as u32;
        }
        let header = self.header.encode();
        let commit = [
            &header[..],
            &self.durable.to_le_bytes(),
            &crc32c(&self.crcs).to_le_bytes(),
            &0_u32.to_le_bytes(),
            &(self.listed.len() as u32).to_le_bytes(),
            &list(&self.listed),
        ]
        .concat();
        self.append(COMMIT, (0, 0), [0; 3], &commit);
        self.bytes[..64].copy_from_slice(&header);
        let table: Vec<u8> =
            self.table.iter().flat_map(|entry| entry.of_table(self.header.version)).collect();
        self.bytes[64..64 + table.len()].copy_from_slice(&table);
        self.bytes
    }
}
