//! A file as sections: the header, the walk from section to section, blocks checked and decompressed.
//!
//! Nothing is believed: every length is compared with the file and the limits, every block with its checksum, before
//! anything is done with it. Salvage goes on where it can: the footer knows where sections begin when one of them does
//! not say so itself, and a copy of the large block tables stands in for damaged ones.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use bytes::Bytes;

use super::Damage;
use super::compress::decompress;
use super::header::{HEADER_BYTES, Header};
use super::salvage::{DamagedBlock, DamagedPart};
use super::section::{
    BLOCK_ENTRY_BYTES, Block, FLAG_CRITICAL, SECTION_HEADER_BYTES, SectionHeader, SectionInfo, kind,
    kind_name,
};
use crate::context::LoadContext;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::slices::Slices;
use crate::storage::{AlignedBuf, BLOCK_BYTES, COLUMN_ALIGN, crc};
use crate::wire::Reader;

/// A section whose blocks were checked and decompressed.
pub(super) struct Section {
    pub(super) header: SectionHeader,
    pub(super) bytes: Bytes,
    /// Parts of `bytes` that cannot be trusted.
    pub(super) damaged: Vec<Range<u64>>,
}

/// What the footer says about the others.
#[derive(Default)]
pub(super) struct Footer {
    pub(super) sections: BTreeMap<u64, SectionHeader>,
    /// Copies of block tables, by the offset of their section.
    tables: HashMap<u64, Vec<u8>>,
    /// A hash over everything before it.
    root: Option<[u8; 32]>,
}

pub(super) struct FileReader<'l> {
    pub(super) bytes: Bytes,
    pub(super) limits: &'l Limits,
    pub(super) salvage: bool,
    pub(super) damage: Damage,
    pub(super) infos: Vec<SectionInfo>,
    raw_bytes: u64,
}

impl<'l> FileReader<'l> {
    pub(super) fn new(bytes: Bytes, limits: &'l Limits, salvage: bool) -> Self {
        let (damage, infos) = (Damage::default(), Vec::new());
        Self { bytes, limits, salvage, damage, infos, raw_bytes: 0 }
    }

    fn damaged(&mut self, section: &'static str, offset: u64, bytes: u64) {
        self.damage.blocks.push(DamagedBlock { section, offset, bytes });
    }

    /// All sections in file order, the version of the file if its header is whole, and what the footer says.
    pub(super) async fn read(&mut self, slices: &mut Slices) -> Result<(Vec<Section>, Option<u16>, Footer)> {
        let file_len = self.bytes.len() as u64;
        let header = self.header()?;
        let footer = match &header {
            Some(header) => self.footer(header.footer_offset, slices).await,
            None => Ok(Footer::default()),
        };
        let footer = match footer {
            Err(error) if !self.salvage || !error.is_corrupt() => return Err(error),
            footer => footer.unwrap_or_default(),
        };
        let mut sections = Vec::new();
        let mut offset = HEADER_BYTES as u64;
        let mut done = false;
        while offset < file_len && !done {
            if sections.len() as u64 >= u64::from(self.limits.sections_max) {
                let max = self.limits.sections_max;
                return Err(Error::limit(format!("more than {max} sections")).at(offset as usize));
            }
            match self.section(offset, &footer, slices).await {
                Ok((section, end)) => {
                    done = section.header.kind == kind::FOOTER;
                    if !self.salvage && !done && footer.sections.get(&offset) != Some(&section.header) {
                        let message = "the footer describes this section in another way";
                        return Err(Error::corrupt(message).at(offset as usize));
                    }
                    sections.push(section);
                    offset = end;
                }
                Err(error) if !self.salvage || !error.is_corrupt() => return Err(error),
                Err(_) => {
                    // Lost. The footer may know where the next one begins.
                    let next = footer.sections.range(offset + 1..).next().map(|(&start, _)| start);
                    let footer_offset = header.as_ref().map(|header| header.footer_offset);
                    let end =
                        next.or(footer_offset.filter(|&end| end > offset)).unwrap_or(file_len).min(file_len);
                    let name = footer.sections.get(&offset).map_or("unknown", |known| kind_name(known.kind));
                    self.damaged(name, offset, end - offset);
                    offset = end;
                }
            }
        }
        if let (false, Some(header)) = (self.salvage, &header) {
            let last = self.infos.last().map(|info| info.offset);
            if !done || offset != file_len || last != Some(header.footer_offset) {
                return Err(Error::corrupt("the footer is not where the header says").at(offset as usize));
            }
            if self.infos.len() != footer.sections.len() + 1 {
                return Err(Error::corrupt("the footer does not list all sections"));
            }
        }
        Ok((sections, header.map(|header| header.version), footer))
    }

    /// The header, or `None` if it is damaged and that is no reason to stop.
    fn header(&mut self) -> Result<Option<Header>> {
        let file_len = self.bytes.len() as u64;
        match Header::decode(&self.bytes) {
            Ok(header) if header.file_len == file_len => Ok(Some(header)),
            Ok(header) if self.salvage => {
                if header.file_len > file_len {
                    self.damaged("end of the file", file_len, header.file_len - file_len);
                    self.damage.losses.push(DamagedPart::Tail(header.file_len - file_len));
                } else {
                    self.damaged("after the file", header.file_len, file_len - header.file_len);
                }
                Ok(Some(header))
            }
            Ok(header) if header.file_len > file_len => {
                let message = format!("the file is truncated: {file_len} bytes of {}", header.file_len);
                Err(Error::corrupt(message).at(file_len as usize))
            }
            Ok(header) => {
                let expected = header.file_len;
                Err(Error::corrupt(format!("{file_len} bytes, but the file ends at {expected}")))
            }
            Err(error) if self.salvage && error.is_corrupt() && file_len > HEADER_BYTES as u64 => {
                self.damaged("header", 0, HEADER_BYTES as u64);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads one section and says where the next begins.
    pub(super) async fn section(
        &mut self,
        offset: u64,
        footer: &Footer,
        slices: &mut Slices,
    ) -> Result<(Section, u64)> {
        let known = footer.sections.get(&offset).filter(|_| self.salvage);
        // The table of a section that the footer knows is no longer than the footer says: sections that the footer has one
        // behind the other are not each read up to the end of the file.
        let found = match known.map(|known| (known, SectionHeader::fields(&self.bytes, offset))) {
            Some((known, Ok((fields, _)))) if fields.block_count > known.block_count => {
                Err(Error::corrupt("a section's header is damaged").at(offset as usize))
            }
            _ => SectionHeader::decode(&self.bytes, offset),
        };
        if let Ok((header, _)) = &found {
            self.limits.step(header.head_bytes() as usize)?;
        }
        let (header, intact) = match (found, known) {
            (Ok((header, true)), _) => (header, true),
            // The checksum of header and table is wrong, but each block still has its own.
            (_, Some(known)) => (*known, false),
            (Ok(_), _) => return Err(Error::corrupt("a section's header is damaged").at(offset as usize)),
            (Err(error), _) => return Err(error),
        };
        header.check(offset, self.limits, self.raw_bytes)?;
        let total = header.total_bytes().and_then(|len| len.checked_add(offset));
        let end = total.filter(|&end| end <= self.bytes.len() as u64);
        if end.is_none() && !self.salvage {
            let message = format!("section {} needs more bytes than the file has", kind_name(header.kind));
            return Err(Error::corrupt(message).at(offset as usize));
        }
        let copy = footer.tables.get(&offset).filter(|_| !intact);
        let blocks = match copy.and_then(|copy| header.blocks_from(copy, offset).ok()) {
            Some(blocks) => blocks,
            None => header.blocks(&self.bytes, offset)?,
        };
        self.raw_bytes += header.raw_len;
        let mut info = header.info(offset);
        if !intact {
            self.damaged(info.name, offset, header.head_bytes());
        }
        let known_kind = header.kind != 0 && header.kind < kind::DELTA;
        if !known_kind && header.flags & FLAG_CRITICAL != 0 {
            let kind = header.kind;
            return Err(Error::newer_format(format!(
                "the file needs a section of kind {kind} that this build does not know: update the game"
            ))
            .at(offset as usize));
        }
        let (bytes, damaged) = self.payload(&header, &blocks, offset, known_kind, slices).await?;
        info.damaged_blocks = damaged.len() as u32;
        self.infos.push(info);
        Ok((Section { header, bytes, damaged }, end.unwrap_or(self.bytes.len() as u64)))
    }

    /// Checks and decompresses the blocks.
    async fn payload(
        &mut self,
        header: &SectionHeader,
        blocks: &[Block],
        offset: u64,
        unpack: bool,
        slices: &mut Slices,
    ) -> Result<(Bytes, Vec<Range<u64>>)> {
        let name = kind_name(header.kind);
        let start = ((offset + header.head_bytes()) as usize).min(self.bytes.len());
        let end = start.saturating_add(header.stored_len as usize).min(self.bytes.len());
        let stored = self.bytes.slice(start..end);
        let direct = (header.codec == 0 || !unpack) && stored.len() as u64 == header.stored_len;
        let mut raw = if direct { None } else { Some(AlignedBuf::try_zeroed(header.raw_len)?) };
        let mut damaged: Vec<Range<u64>> = Vec::new();
        let (mut at, mut raw_at) = (0_usize, 0_usize);
        for block in blocks {
            let (len, raw_len) = (block.stored_len as usize, block.raw_len as usize);
            let result = match stored.get(at..at + len) {
                None => Err(Error::corrupt("the file ends inside a block")),
                Some(bytes) if crc::checksum(bytes) != block.crc => {
                    Err(Error::corrupt("a block is damaged: its checksum does not match"))
                }
                Some(bytes) => match &mut raw {
                    None => Ok(()),
                    Some(raw) => {
                        unpack_block(header.codec, bytes, &mut raw.as_mut()[raw_at..raw_at + raw_len])
                    }
                },
            };
            match result {
                Err(error) if self.salvage && error.is_corrupt() => {
                    self.damaged(name, (start + at) as u64, len as u64);
                    damaged.push(raw_at as u64..(raw_at + raw_len) as u64);
                }
                result => result.map_err(|error| error.in_section(name).at(start + at))?,
            }
            if let Some(watch) = &self.limits.watch {
                watch.advance(len as u64)?;
            }
            at += len;
            raw_at += raw_len;
            slices.advance(raw_len).await;
        }
        self.check_padding(name, offset, blocks.len(), start, start + at)?;
        // A block of raw bytes that is damaged must not be read even by accident.
        if direct && !damaged.is_empty() {
            let mut copy = AlignedBuf::copy_from(&stored);
            damaged.iter().for_each(|range| copy.as_mut()[range.start as usize..range.end as usize].fill(0));
            return Ok((copy.share(), damaged));
        }
        Ok((raw.map_or(stored, AlignedBuf::share), damaged))
    }

    /// Padding is zero, so that every byte of a file is checked by something.
    fn check_padding(
        &mut self,
        name: &'static str,
        offset: u64,
        blocks: usize,
        start: usize,
        end: usize,
    ) -> Result<()> {
        let table_end = offset as usize + SECTION_HEADER_BYTES + blocks * BLOCK_ENTRY_BYTES;
        for padding in [table_end..start, end..end.next_multiple_of(COLUMN_ALIGN)] {
            let zero =
                self.bytes.get(padding.clone()).is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0));
            match (zero, self.salvage) {
                (true, _) => {}
                (false, true) => self.damaged(name, padding.start as u64, padding.len() as u64),
                (false, false) => {
                    return Err(Error::corrupt("the padding of a section is not zero").at(padding.start));
                }
            }
        }
        Ok(())
    }

    async fn footer(&mut self, offset: u64, slices: &mut Slices) -> Result<Footer> {
        if !offset.is_multiple_of(COLUMN_ALIGN as u64) {
            return Err(Error::corrupt("the footer is not aligned").at(24));
        }
        let mut probe = FileReader::new(self.bytes.clone(), self.limits, false);
        let section = probe.section(offset, &Footer::default(), slices).await?.0;
        if section.header.kind != kind::FOOTER {
            return Err(Error::corrupt("there is no footer where the header says").at(offset as usize));
        }
        let read = self.decode_footer(&section.bytes, offset);
        let mut footer = read.map_err(|error| error.in_section("footer"))?;
        self.check_root(&footer, offset, slices).await.map_err(|error| error.in_section("footer"))?;
        let copies = footer.sections.iter().find(|(_, section)| section.kind == kind::BLOCK_TABLES);
        if let (true, Some((&offset, _))) = (self.salvage, copies)
            && let Ok((section, _)) = probe.section(offset, &Footer::default(), slices).await
        {
            footer.tables = decode_tables(&section.bytes, self.limits).unwrap_or_default();
        }
        Ok(footer)
    }

    /// For salvage the blocks have their own checksums: the root only says that something is damaged.
    async fn check_root(&self, footer: &Footer, footer_offset: u64, slices: &mut Slices) -> Result<()> {
        let Some(root) = footer.root.filter(|_| !self.salvage) else { return Ok(()) };
        let mut hasher = blake3::Hasher::new();
        for part in self.bytes[..footer_offset as usize].chunks(4 * BLOCK_BYTES) {
            hasher.update(part);
            slices.advance(part.len()).await;
        }
        match hasher.finalize() == root {
            true => Ok(()),
            false => {
                Err(Error::corrupt("the root hash does not match: something before the footer was changed"))
            }
        }
    }

    fn decode_footer(&self, bytes: &[u8], footer_offset: u64) -> Result<Footer> {
        let context = LoadContext::new(self.limits);
        let mut input = Reader::new(bytes, &context);
        let count = input.u32()?;
        if count > self.limits.sections_max {
            let max = self.limits.sections_max;
            return Err(Error::limit(format!("{count} sections, at most {max} are allowed")));
        }
        let mut footer = Footer::default();
        for _ in 0..count {
            let (kind, flags, codec, block_count) = (input.u16()?, input.u8()?, input.u8()?, input.u32()?);
            let (offset, raw_len, stored_len) = (input.u64()?, input.u64()?, input.u64()?);
            let header = SectionHeader { kind, flags, codec, raw_len, stored_len, block_count };
            if footer.sections.insert(offset, header).is_some() {
                return Err(input.corrupt("two sections begin at the same place"));
            }
        }
        // Work on sections that lie over each other would not be linear in the bytes of the file.
        let ends = footer.sections.iter().map(|(start, header)| header.total_bytes()?.checked_add(*start));
        let starts = footer.sections.keys().skip(1).copied().chain([footer_offset]);
        if ends.zip(starts).any(|(end, start)| end.is_none_or(|end| end > start)) {
            return Err(input.corrupt("sections lie over each other"));
        }
        match input.u8()? {
            0 => {}
            1 => {
                footer.root = Some(input.array()?);
            }
            kind => return Err(Error::newer_format(format!("a root hash of kind {kind} is not known"))),
        }
        skip_extensions(&mut input)?;
        input.finish()?;
        Ok(footer)
    }
}

fn unpack_block(codec: u8, bytes: &[u8], out: &mut [u8]) -> Result<()> {
    if bytes.len() == out.len() {
        out.copy_from_slice(bytes);
        return Ok(());
    }
    decompress(codec, bytes, out)
}

/// The end of the prelude and of the footer: room for what later builds add. Each record has a number and a length; one
/// that this build does not know is passed over, unless its highest bit says that it must not be.
pub(super) fn skip_extensions(input: &mut Reader<'_>) -> Result<()> {
    let count = input.count(0)?;
    for _ in 0..count {
        let kind = input.u16()?;
        input.blob()?;
        if kind & 0x8000 != 0 {
            let message = format!("the file needs extension {kind:#x}, which this build does not know");
            return Err(Error::newer_format(message).at(input.offset()));
        }
    }
    Ok(())
}

fn decode_tables(bytes: &[u8], limits: &Limits) -> Result<HashMap<u64, Vec<u8>>> {
    let context = LoadContext::new(limits);
    let mut input = Reader::new(bytes, &context);
    let count = input.bounded(u64::from(limits.sections_max), "block tables")?;
    (0..count).map(|_| Ok((input.u64()?, input.blob()?.to_vec()))).collect()
}
