//! Sections: a header, a table of blocks with a checksum each, and the blocks. FORMAT.md, "Sections".

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::compress::{CODEC_NONE, Compression, codec_name};
use super::encode::METADATA_BYTES_MAX;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::slices::Slices;
use crate::storage::{BLOCK_BYTES, COLUMN_ALIGN, Checksums, PageLayout, Rope, crc};

pub(super) const SECTION_MAGIC: [u8; 4] = *b"BSEC";
pub(super) const SECTION_HEADER_BYTES: usize = 32;
pub(super) const BLOCK_ENTRY_BYTES: usize = 12;

/// A reader that does not know the section must refuse the file.
pub(super) const FLAG_CRITICAL: u8 = 1;
/// A second copy of an earlier section, used when the first is damaged.
pub(super) const FLAG_COPY: u8 = 2;

/// The kinds of FORMAT.md. The reserved ones are passed over by this version unless they are critical.
pub(super) mod kind {
    pub(crate) const METADATA: u16 = 1;
    pub(crate) const PRELUDE: u16 = 2;
    pub(crate) const SCHEMAS: u16 = 3;
    pub(crate) const COLUMNS: u16 = 4;
    pub(crate) const DATA: u16 = 5;
    pub(crate) const CARRY: u16 = 6;
    pub(crate) const FOOTER: u16 = 7;
    /// From here on, kinds that this version passes over when it reads a snapshot.
    pub(crate) const DELTA: u16 = 8;
    pub(crate) const JOURNAL_LINK: u16 = 9;
    pub(crate) const TRACKS: u16 = 10;
    pub(crate) const SEAL: u16 = 11;
    /// Copies of the block tables of large sections, for salvage.
    pub(crate) const BLOCK_TABLES: u16 = 12;
}

pub(super) fn kind_name(number: u16) -> &'static str {
    match number {
        kind::METADATA => "metadata",
        kind::PRELUDE => "prelude",
        kind::SCHEMAS => "schemas",
        kind::COLUMNS => "columns",
        kind::DATA => "data",
        kind::CARRY => "carry",
        kind::FOOTER => "footer",
        kind::DELTA => "delta",
        kind::JOURNAL_LINK => "journal link",
        kind::TRACKS => "tracks",
        kind::SEAL => "seal",
        kind::BLOCK_TABLES => "block tables",
        _ => "unknown",
    }
}

/// Where a section lies and how it is stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SectionInfo {
    /// Its number in the format.
    pub kind: u16,
    /// Its name in the format.
    pub name: &'static str,
    /// Whether a reader that does not know it must refuse the file.
    pub critical: bool,
    /// Whether it repeats an earlier section.
    pub copy: bool,
    /// How its blocks are compressed.
    pub codec: &'static str,
    /// Where its header starts in the file.
    pub offset: u64,
    /// Bytes after decompression.
    pub raw_bytes: u64,
    /// Bytes in the file, without header and padding.
    pub stored_bytes: u64,
    /// How many blocks it has.
    pub blocks: u32,
    /// How many of them are damaged.
    pub damaged_blocks: u32,
}

/// A section's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SectionHeader {
    pub(super) kind: u16,
    pub(super) flags: u8,
    pub(super) codec: u8,
    pub(super) raw_len: u64,
    pub(super) stored_len: u64,
    pub(super) block_count: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) raw_len: u32,
    pub(super) stored_len: u32,
    pub(super) crc: u32,
}

impl SectionHeader {
    /// Header, block table and padding: where the payload starts, counted from the section's start.
    pub(super) fn head_bytes(&self) -> u64 {
        let table = u64::from(self.block_count) * BLOCK_ENTRY_BYTES as u64;
        (SECTION_HEADER_BYTES as u64 + table).next_multiple_of(COLUMN_ALIGN as u64)
    }

    /// The whole section with all padding. `None` if it is larger than a file can be.
    pub(super) fn total_bytes(&self) -> Option<u64> {
        self.stored_len.checked_next_multiple_of(COLUMN_ALIGN as u64)?.checked_add(self.head_bytes())
    }

    pub(super) fn info(&self, offset: u64) -> SectionInfo {
        SectionInfo {
            kind: self.kind,
            name: kind_name(self.kind),
            critical: self.flags & FLAG_CRITICAL != 0,
            copy: self.flags & FLAG_COPY != 0,
            codec: codec_name(self.codec),
            offset,
            raw_bytes: self.raw_len,
            stored_bytes: self.stored_len,
            blocks: self.block_count,
            damaged_blocks: 0,
        }
    }

    fn encode(&self, blocks: &[Block]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.head_bytes() as usize);
        bytes.extend(SECTION_MAGIC);
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend([self.flags, self.codec]);
        bytes.extend(self.raw_len.to_le_bytes());
        bytes.extend(self.stored_len.to_le_bytes());
        bytes.extend(self.block_count.to_le_bytes());
        let table = encode_table(blocks);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), &table);
        bytes.extend(crc.to_le_bytes());
        bytes.extend(table);
        bytes.resize(self.head_bytes() as usize, 0);
        bytes
    }

    /// Reads the header at `offset`, and the checksum that it and its table should have.
    pub(super) fn fields(file: &[u8], offset: u64) -> Result<(Self, u32)> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = file.get(start..).and_then(<[u8]>::first_chunk::<SECTION_HEADER_BYTES>);
        let Some(bytes) = bytes else {
            return Err(Error::corrupt("the file ends where a section should begin").at(start));
        };
        if bytes[..4] != SECTION_MAGIC {
            return Err(Error::corrupt("no section begins here").at(start));
        }
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let header = Self {
            kind: u16::from_le_bytes([bytes[4], bytes[5]]),
            flags: bytes[6],
            codec: bytes[7],
            raw_len: u64_at(8),
            stored_len: u64_at(16),
            block_count: u32_at(24),
        };
        Ok((header, u32_at(28)))
    }

    /// Reads the header at `offset`. The flag says whether its checksum holds; the fields are plausible in any case.
    pub(super) fn decode(file: &[u8], offset: u64) -> Result<(Self, bool)> {
        let (header, expected) = Self::fields(file, offset)?;
        let table = header.block_table(file, offset)?;
        let start = offset as usize;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&file[start..start + 28]), table);
        Ok((header, crc == expected))
    }

    fn block_table<'f>(&self, file: &'f [u8], offset: u64) -> Result<&'f [u8]> {
        let start = offset as usize + SECTION_HEADER_BYTES;
        let len = self.block_count as usize * BLOCK_ENTRY_BYTES;
        let table = start.checked_add(len).and_then(|end| file.get(start..end));
        table.ok_or_else(|| Error::corrupt("the file ends inside a block table").at(start))
    }

    /// The blocks, if they add up to what the header says.
    pub(super) fn blocks(&self, file: &[u8], offset: u64) -> Result<Vec<Block>> {
        self.blocks_from(self.block_table(file, offset)?, offset)
    }

    pub(super) fn blocks_from(&self, table: &[u8], offset: u64) -> Result<Vec<Block>> {
        let u32_at = |entry: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
        let blocks: Vec<Block> = table
            .chunks_exact(BLOCK_ENTRY_BYTES)
            .map(|entry| Block {
                raw_len: u32_at(entry, 0),
                stored_len: u32_at(entry, 4),
                crc: u32_at(entry, 8),
            })
            .collect();
        let fine = |block: &Block| {
            (1..=BLOCK_BYTES as u32).contains(&block.raw_len)
                && (1..=block.raw_len).contains(&block.stored_len)
                && (self.codec != CODEC_NONE || block.stored_len == block.raw_len)
        };
        let count = blocks.len() == self.block_count as usize;
        let raw: u64 = blocks.iter().map(|block| u64::from(block.raw_len)).sum();
        let stored: u64 = blocks.iter().map(|block| u64::from(block.stored_len)).sum();
        if !count || !blocks.iter().all(fine) || raw != self.raw_len || stored != self.stored_len {
            return Err(Error::corrupt("a block table does not add up").at(offset as usize));
        }
        Ok(blocks)
    }

    /// Checks what a header claims against the limits.
    pub(super) fn check(&self, offset: u64, limits: &Limits, raw_so_far: u64) -> Result<()> {
        if raw_so_far.checked_add(self.raw_len).is_none_or(|sum| sum > limits.raw_bytes_max) {
            let max = limits.raw_bytes_max;
            return Err(Error::limit(format!("the sections have more than {max} bytes, which is the limit"))
                .at(offset as usize));
        }
        // Lists of saves read it of many files: it must not become large there.
        if self.kind == kind::METADATA && self.raw_len > METADATA_BYTES_MAX as u64 {
            let message =
                format!("the metadata have {} bytes, and {METADATA_BYTES_MAX} is the most", self.raw_len);
            return Err(Error::corrupt(message).at(offset as usize));
        }
        Ok(())
    }
}

/// The pieces of a section's content; some start a block of their own.
#[derive(Default)]
pub(super) struct SectionPieces {
    pieces: Vec<SectionPiece>,
    len: u64,
    break_next: bool,
    /// Small parts share a block until it has this many bytes.
    block_min: usize,
    /// Bytes since the last break.
    open: usize,
}

struct SectionPiece {
    rope: Rope,
    /// It begins a block.
    apart: bool,
    /// How long its blocks are, if it begins one.
    block_bytes: usize,
}

/// A block, and where its checksum may be known.
#[derive(Default)]
struct Pending {
    parts: Vec<Bytes>,
    checksums: Option<(Arc<Checksums>, Range<usize>)>,
}

impl Pending {
    fn checksum(&self) -> u32 {
        match &self.checksums {
            Some((checksums, units)) if units.len() == self.parts.len() => {
                checksums.of(units.clone(), &self.parts)
            }
            _ => self.parts.iter().fold(0, |crc, part| crc::append(crc, part)),
        }
    }
}

static ZEROS: [u8; COLUMN_ALIGN] = [0; COLUMN_ALIGN];

impl SectionPieces {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// For many parts that can be lost one by one. Small blocks cost a table entry each and lose less; but they
    /// compress badly.
    pub(super) fn of_parts(compression: Compression) -> Self {
        let block_min = if compression == Compression::None { 512 } else { 16 << 10 };
        Self { block_min, ..Self::default() }
    }

    /// Content in blocks with its neighbours.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.push_cut(bytes.into(), BLOCK_BYTES);
    }

    fn push_cut(&mut self, rope: Rope, block_bytes: usize) {
        if !rope.is_empty() {
            let apart = std::mem::take(&mut self.break_next);
            self.open = if apart { rope.len() } else { self.open + rope.len() };
            self.len += rope.len() as u64;
            self.pieces.push(SectionPiece { rope, apart, block_bytes });
        }
    }

    /// Content in one or more pieces. If it is `apart`, it begins and ends with a block, so that what lies beside it
    /// is not lost with it.
    pub(super) fn push_parts(&mut self, parts: impl IntoIterator<Item = Bytes>, apart: bool) {
        self.break_next |= apart || (self.block_min > 0 && self.open >= self.block_min);
        parts.into_iter().for_each(|part| self.push(part));
        self.break_next |= apart;
    }

    /// As [`SectionPieces::push_parts`], for rows of so many bytes, whose checksums may be known. Large columns are cut at whole
    /// rows.
    pub(super) fn push_rows(&mut self, rope: &Rope, stride: usize) {
        let apart = rope.len() >= BLOCK_BYTES;
        self.break_next |= apart || (self.block_min > 0 && self.open >= self.block_min);
        self.push_cut(rope.clone(), if apart { PageLayout::of(stride).block_bytes } else { BLOCK_BYTES });
        self.break_next |= apart;
    }

    pub(super) fn align(&mut self) {
        let gap = self.len.next_multiple_of(COLUMN_ALIGN as u64) - self.len;
        let break_next = std::mem::take(&mut self.break_next);
        self.push(Bytes::from_static(&ZEROS[..gap as usize]));
        self.break_next = break_next;
    }

    /// Blocks of at most 64 KiB, as pieces of shared memory.
    fn into_blocks(self) -> Vec<Pending> {
        let mut blocks: Vec<Pending> = Vec::new();
        let mut room = 0;
        for SectionPiece { rope, apart, block_bytes } in self.pieces {
            if apart {
                room = 0;
            }
            let checksums = rope.checksums().filter(|_| apart);
            let first = blocks.len();
            for bytes in rope.parts() {
                let mut bytes = bytes.clone();
                while !bytes.is_empty() {
                    if room == 0 {
                        let known = checksums.and_then(|checksums| {
                            let units = checksums.units_of(blocks.len() - first, block_bytes)?;
                            Some((Arc::clone(checksums), units))
                        });
                        blocks.push(Pending { parts: Vec::new(), checksums: known });
                        room = block_bytes;
                    }
                    let part = bytes.split_to(room.min(bytes.len()));
                    room -= part.len();
                    if let Some(block) = blocks.last_mut() {
                        block.parts.push(part);
                    }
                }
            }
        }
        blocks
    }

    /// Appends the section to a file: header, block table, blocks, padding.
    pub(super) async fn write(
        self,
        kind: u16,
        flags: u8,
        compression: Compression,
        file: &mut Rope,
        slices: &mut Slices,
    ) -> Result<(SectionHeader, Vec<u8>)> {
        let raw_len = self.len;
        let mut table = Vec::new();
        let mut payload = Vec::new();
        for block in self.into_blocks() {
            let raw: usize = block.parts.iter().map(Bytes::len).sum();
            let packed = match (compression, &*block.parts) {
                (Compression::None, _) => None,
                (_, [one]) => compression.compress(one)?,
                (_, many) => compression.compress(&many.concat())?,
            };
            let stored = packed
                .map_or(block, |packed| Pending { parts: vec![Bytes::from(packed)], ..Pending::default() });
            let (crc, stored_len) = (stored.checksum(), stored.parts.iter().map(Bytes::len).sum::<usize>());
            payload.extend(stored.parts);
            table.push(Block { raw_len: raw as u32, stored_len: stored_len as u32, crc });
            slices.advance(raw).await;
        }
        let stored_len: u64 = table.iter().map(|block| u64::from(block.stored_len)).sum();
        let codec = if stored_len == raw_len { CODEC_NONE } else { compression.codec() };
        let block_count =
            u32::try_from(table.len()).map_err(|_| Error::limit("a section has more than 2^32 blocks"))?;
        let header = SectionHeader { kind, flags, codec, raw_len, stored_len, block_count };
        file.push(header.encode(&table).into());
        payload.into_iter().for_each(|part| file.push(part));
        let gap = stored_len.next_multiple_of(COLUMN_ALIGN as u64) - stored_len;
        file.push(Bytes::from_static(&ZEROS[..gap as usize]));
        Ok((header, encode_table(&table)))
    }
}

fn encode_table(blocks: &[Block]) -> Vec<u8> {
    let entry = |block: &Block| [block.raw_len, block.stored_len, block.crc];
    blocks.iter().flat_map(entry).flat_map(u32::to_le_bytes).collect()
}
