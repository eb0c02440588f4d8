//! Bytes to snapshot. Nothing is believed: every length is compared with the file and the limits, every block with its
//! checksum, before anything is done with it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::compress::decompress;
use super::data::DataEntry;
use super::header::{HEADER_BYTES, Header};
use super::prelude::{Finder, decode_schemas};
use super::salvage::{DamagedBlock, DamagedPart, Lost};
use super::section::{
    BLOCK_ENTRY_BYTES, Block, FLAG_COPY, FLAG_CRITICAL, SECTION_HEADER_BYTES, SectionHeader, SectionInfo,
    kind, kind_name,
};
use super::{Damage, Snapshot};
use crate::buffer::{AlignedBuf, COLUMN_ALIGN};
use crate::context::LoadContext;
use crate::crc;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::persist::Persist;
use crate::registry::Registry;
use crate::schema::{Fingerprint, Schema};
use crate::value::Value;
use crate::wire::Reader;

/// How bytes become a snapshot.
#[derive(Clone, Default)]
pub struct OpenOptions<'a> {
    limits: Limits,
    registry: Option<&'a Registry>,
    salvage: bool,
}

impl<'a> OpenOptions<'a> {
    /// The default limits, no salvage.
    pub fn new() -> Self {
        Self::default()
    }
    /// What the bytes may make us do.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
    /// Where to look up schemas that the bytes name by hash only.
    pub fn registry(mut self, registry: &'a Registry) -> Self {
        self.registry = Some(registry);
        self
    }
    /// Whether to make do with what is undamaged. [`Snapshot::damage`] tells what is missing.
    pub fn salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }

    /// Checks and opens bytes. They are copied once, into aligned memory.
    pub fn open(&self, bytes: &[u8]) -> Result<Snapshot> {
        self.open_shared(AlignedBuf::copy_from(bytes).share())
    }

    /// Checks and opens bytes where they are: columns are parts of them. They should be aligned to 64 bytes; if they
    /// are not, columns are copied when they are loaded.
    pub fn open_shared(&self, bytes: Bytes) -> Result<Snapshot> {
        let mut file =
            FileReader { bytes, options: self, damage: Damage::default(), infos: vec![], raw_bytes: 0 };
        let sections = file.sections()?;
        file.snapshot(&sections)
    }

    /// Reads the metadata alone. `bytes` may be the first 64 KiB of a file.
    pub fn metadata(&self, bytes: &[u8]) -> Result<Vec<(String, Value)>> {
        Header::decode(bytes)?;
        let mut file = FileReader {
            bytes: Bytes::copy_from_slice(bytes),
            options: self,
            damage: Damage::default(),
            infos: vec![],
            raw_bytes: 0,
        };
        let section = file.section(HEADER_BYTES as u64, None)?.0;
        if section.header.kind != kind::METADATA {
            return Err(Error::corrupt("the first section is not the metadata").at(HEADER_BYTES));
        }
        decode_metadata(&section.bytes, &self.limits)
    }
}

/// A section whose blocks were checked and decompressed.
struct Section {
    header: SectionHeader,
    bytes: Bytes,
    /// Parts of `bytes` that cannot be trusted.
    damaged: Vec<Range<u64>>,
}

struct FileReader<'o> {
    bytes: Bytes,
    options: &'o OpenOptions<'o>,
    damage: Damage,
    infos: Vec<SectionInfo>,
    raw_bytes: u64,
}

impl FileReader<'_> {
    fn damaged(&mut self, section: &'static str, offset: u64, bytes: u64) {
        self.damage.blocks.push(DamagedBlock { section, offset, bytes });
    }

    /// All sections in file order.
    fn sections(&mut self) -> Result<Vec<Section>> {
        let file_len = self.bytes.len() as u64;
        let header = match Header::decode(&self.bytes) {
            Ok(header) if header.file_len == file_len => Some(header),
            Ok(header) if self.options.salvage => {
                self.damaged("header", 16, header.file_len.abs_diff(file_len));
                Some(header)
            }
            Ok(header) if header.file_len > file_len => {
                let expected = header.file_len;
                let message = format!("the file is truncated: {file_len} bytes of {expected}");
                return Err(Error::corrupt(message).at(file_len as usize));
            }
            Ok(header) => {
                let expected = header.file_len;
                return Err(Error::corrupt(format!("{file_len} bytes, but the file ends at {expected}")));
            }
            Err(error) if self.options.salvage && error.is_corrupt() && file_len > HEADER_BYTES as u64 => {
                self.damaged("header", 0, HEADER_BYTES as u64);
                None
            }
            Err(error) => return Err(error),
        };
        let table = match &header {
            Some(header) => self.footer_table(header.footer_offset),
            None => Ok(HashMap::new()),
        };
        let table = match table {
            Err(error) if !self.options.salvage => return Err(error),
            table => table.unwrap_or_default(),
        };

        let mut sections = Vec::new();
        let mut offset = HEADER_BYTES as u64;
        let mut done = false;
        while offset < file_len && !done {
            if sections.len() as u64 >= u64::from(self.options.limits.sections_max) {
                let max = self.options.limits.sections_max;
                return Err(Error::limit(format!("more than {max} sections")).at(offset as usize));
            }
            match self.section(offset, table.get(&offset)) {
                Ok((section, end)) => {
                    if header.is_some() && !self.options.salvage {
                        self.expect_in_table(offset, &section.header, &table)?;
                    }
                    done = section.header.kind == kind::FOOTER;
                    sections.push(section);
                    offset = end;
                }
                Err(error) if !self.options.salvage || !error.is_corrupt() => return Err(error),
                Err(_) => {
                    // Lost. The footer may know where the next one begins.
                    let next = table.keys().copied().filter(|&start| start > offset).min();
                    let footer =
                        header.as_ref().map(|header| header.footer_offset).filter(|&end| end > offset);
                    let end = next.or(footer).unwrap_or(file_len).min(file_len);
                    self.damaged(
                        table.get(&offset).map_or("unknown", |known| kind_name(known.kind)),
                        offset,
                        end - offset,
                    );
                    offset = end;
                }
            }
        }
        if !self.options.salvage {
            let footer_offset = header.map_or(0, |header| header.footer_offset);
            let last = self.infos.last();
            if !done || offset != file_len || last.is_none_or(|last| last.offset != footer_offset) {
                return Err(Error::corrupt("the footer is not where the header says").at(offset as usize));
            }
            if self.infos.len() != table.len() + 1 {
                return Err(Error::corrupt("the footer does not list all sections"));
            }
        }
        Ok(sections)
    }

    fn expect_in_table(
        &self,
        offset: u64,
        header: &SectionHeader,
        table: &HashMap<u64, SectionHeader>,
    ) -> Result<()> {
        if header.kind == kind::FOOTER || table.get(&offset) == Some(header) {
            return Ok(());
        }
        Err(Error::corrupt("the footer describes this section in another way").at(offset as usize))
    }

    /// Reads one section and says where the next begins. `known` is what the footer says of it, for salvage.
    fn section(&mut self, offset: u64, known: Option<&SectionHeader>) -> Result<(Section, u64)> {
        let (header, intact) = match (SectionHeader::decode(&self.bytes, offset), known) {
            (Ok((header, true)), _) => (header, true),
            // The checksum of the table is wrong, but each block still has its own.
            (_, Some(known)) if self.options.salvage => (*known, false),
            (Ok(_), _) => return Err(Error::corrupt("a section's header is damaged").at(offset as usize)),
            (Err(error), _) => return Err(error),
        };
        header.check(&self.bytes, offset, &self.options.limits, self.raw_bytes)?;
        let blocks = header.blocks(&self.bytes, offset)?;
        self.raw_bytes += header.raw_len;
        let mut info = header.info(offset);
        if !intact {
            self.damaged(info.name, offset, header.head_bytes());
        }
        let known_kind = kind_name(header.kind) != "unknown" && header.kind < kind::DELTA;
        if !known_kind && header.flags & FLAG_CRITICAL != 0 {
            let kind = header.kind;
            return Err(Error::newer_format(format!(
                "the file needs a section of kind {kind} that this build does not know: update the game"
            ))
            .at(offset as usize));
        }
        let (bytes, damaged) = self.payload(&header, &blocks, offset, known_kind)?;
        info.damaged_blocks = damaged.len() as u32;
        self.infos.push(info);
        let end = offset + header.total_bytes().unwrap_or(0);
        Ok((Section { header, bytes, damaged }, end))
    }

    /// Checks and decompresses the blocks.
    fn payload(
        &mut self,
        header: &SectionHeader,
        blocks: &[Block],
        offset: u64,
        unpack: bool,
    ) -> Result<(Bytes, Vec<Range<u64>>)> {
        let name = kind_name(header.kind);
        let start = (offset + header.head_bytes()) as usize;
        let stored = self.bytes.slice(start..start + header.stored_len as usize);
        let direct = header.codec == 0 || !unpack;
        let mut raw = if direct { None } else { Some(AlignedBuf::zeroed(header.raw_len as usize)) };
        let mut damaged: Vec<Range<u64>> = Vec::new();
        let (mut at, mut raw_at) = (0_usize, 0_usize);
        for block in blocks {
            let (len, raw_len) = (block.stored_len as usize, block.raw_len as usize);
            let bytes = &stored[at..at + len];
            let mut result = match crc::checksum(bytes) == block.crc {
                true => Ok(()),
                false => Err(Error::corrupt("a block is damaged: its checksum does not match")),
            };
            if let (Ok(()), Some(raw)) = (&result, &mut raw) {
                let out = &mut raw.as_mut()[raw_at..raw_at + raw_len];
                if len == raw_len {
                    out.copy_from_slice(bytes);
                } else {
                    result = decompress(header.codec, bytes, out);
                }
            }
            match result {
                Err(error) if self.options.salvage && error.is_corrupt() => {
                    self.damaged(name, (start + at) as u64, len as u64);
                    damaged.push(raw_at as u64..(raw_at + raw_len) as u64);
                }
                result => result.map_err(|error| error.in_section(name).at(start + at))?,
            }
            at += len;
            raw_at += raw_len;
        }
        let table_end = offset as usize + SECTION_HEADER_BYTES + blocks.len() * BLOCK_ENTRY_BYTES;
        for padding in [table_end..start, start + at..(start + at).next_multiple_of(COLUMN_ALIGN)] {
            let zero =
                self.bytes.get(padding.clone()).is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0));
            match (zero, self.options.salvage) {
                (true, _) => {}
                (false, true) => self.damaged(name, padding.start as u64, padding.len() as u64),
                (false, false) => {
                    return Err(Error::corrupt("the padding of a section is not zero").at(padding.start));
                }
            }
        }
        // A block of raw bytes that is damaged must not be read even by accident.
        if direct && !damaged.is_empty() {
            let mut copy = AlignedBuf::copy_from(&stored);
            damaged.iter().for_each(|range| copy.as_mut()[range.start as usize..range.end as usize].fill(0));
            return Ok((copy.share(), damaged));
        }
        Ok((raw.map_or(stored, AlignedBuf::share), damaged))
    }

    fn footer_table(&self, offset: u64) -> Result<HashMap<u64, SectionHeader>> {
        let mut probe = FileReader {
            bytes: self.bytes.clone(),
            options: &OpenOptions { limits: self.options.limits.clone(), ..OpenOptions::default() },
            damage: Damage::default(),
            infos: vec![],
            raw_bytes: 0,
        };
        if !offset.is_multiple_of(COLUMN_ALIGN as u64) {
            return Err(Error::corrupt("the footer is not aligned").at(24));
        }
        let footer = probe.section(offset, None)?.0;
        if footer.header.kind != kind::FOOTER {
            return Err(Error::corrupt("there is no footer where the header says").at(offset as usize));
        }
        decode_footer(&footer.bytes, &self.options.limits, &self.bytes, offset)
            .map_err(|error| error.in_section("footer"))
    }

    fn snapshot(mut self, sections: &[Section]) -> Result<Snapshot> {
        let limits = self.options.limits.clone();
        let context = LoadContext::new(&limits);
        // The first whole section of a kind: the copy at the end stands in for a damaged original.
        let find = |wanted: u16| {
            sections.iter().find(|section| section.header.kind == wanted && section.damaged.is_empty())
        };
        if !self.options.salvage {
            self.expect_shape(sections)?;
        }
        let registry = self.options.registry;
        let outside = |fingerprint: Fingerprint| -> Option<Arc<Schema>> {
            let descriptors = registry?.descriptors().iter();
            let mut schemas = descriptors.map(|descriptor| &descriptor.schema);
            schemas.find(|schema| schema.fingerprint() == fingerprint).map(Arc::clone)
        };
        let schemas = match find(kind::SCHEMAS) {
            Some(section) => {
                let mut input = Reader::new(&section.bytes, &context);
                let schemas = decode_schemas(&mut input, &limits).and_then(|schemas| {
                    input.finish()?;
                    Ok(schemas)
                });
                schemas.map_err(|error| error.in_section("schemas"))?
            }
            None => HashMap::new(),
        };
        let columns = sections.iter().find(|section| section.header.kind == kind::COLUMNS);
        let prelude = find(kind::PRELUDE).ok_or_else(|| match self.options.salvage {
            true => Error::corrupt("both copies of the prelude are damaged: nothing can be salvaged"),
            false => Error::corrupt("the file has no prelude"),
        })?;
        let mut finder = Finder {
            input: Reader::new(&prelude.bytes, &context),
            columns: columns.map_or_else(Bytes::new, |section| section.bytes.clone()),
            limits: &limits,
            lost: Lost::default(),
            end: 0,
        };
        match columns {
            Some(columns) => finder.lost.ranges.clone_from(&columns.damaged),
            None if self.options.salvage => {
                return Err(Error::corrupt("the columns are lost: nothing can be salvaged"));
            }
            None => {}
        }
        let prelude = finder.prelude(&schemas, &outside).and_then(|snapshot| {
            let left = finder.input.remaining();
            if left > 0 {
                return Err(finder.input.corrupt(format!("{left} bytes are left over")));
            }
            Ok(snapshot)
        });
        let mut snapshot = prelude.map_err(|error| error.in_section("prelude"))?;

        if let Some(section) = find(kind::CARRY) {
            finder.input = Reader::new(&section.bytes, &context);
            let carried = finder.carry(&snapshot).and_then(|carried| match finder.input.remaining() {
                0 => Ok(carried),
                left => Err(finder.input.corrupt(format!("{left} bytes are left over"))),
            });
            snapshot.carried = carried.map_err(|error| error.in_section("carry"))?;
        } else if sections.iter().any(|section| section.header.kind == kind::CARRY) {
            finder.lost.losses.push(DamagedPart::Section("carry"));
        }
        let mut losses = finder.lost.losses;
        if let Some(section) = find(kind::METADATA) {
            snapshot.metadata = decode_metadata(&section.bytes, &limits)?;
        } else {
            losses.push(DamagedPart::Section("metadata"));
        }
        if let Some(section) = sections.iter().find(|section| section.header.kind == kind::DATA) {
            snapshot.data =
                decode_data(section, &limits, &mut losses).map_err(|error| error.in_section("data"))?;
        }
        self.damage.losses = losses;
        snapshot.sections = self.infos;
        snapshot.damage = self.damage;
        Ok(snapshot)
    }

    /// The rules about which sections there are, for files that are not damaged.
    fn expect_shape(&self, sections: &[Section]) -> Result<()> {
        if sections.first().is_none_or(|section| section.header.kind != kind::METADATA) {
            return Err(Error::corrupt("the first section is not the metadata").at(HEADER_BYTES));
        }
        let mut originals = HashMap::new();
        for section in sections {
            let (number, name) = (section.header.kind, kind_name(section.header.kind));
            if number >= kind::DELTA || number == 0 {
                continue;
            }
            if section.header.flags & FLAG_COPY == 0 {
                if originals.insert(number, &section.bytes).is_some() {
                    return Err(Error::corrupt("the section is there twice").in_section(name));
                }
            } else if originals.get(&number).is_none_or(|original| **original != section.bytes) {
                return Err(Error::corrupt("the copy of the section differs from it").in_section(name));
            }
        }
        for needed in [kind::PRELUDE, kind::COLUMNS] {
            if !originals.contains_key(&needed) {
                return Err(Error::corrupt("the section is missing").in_section(kind_name(needed)));
            }
        }
        Ok(())
    }
}

fn decode_footer(
    bytes: &[u8],
    limits: &Limits,
    file: &[u8],
    footer_offset: u64,
) -> Result<HashMap<u64, SectionHeader>> {
    let context = LoadContext::new(limits);
    let mut input = Reader::new(bytes, &context);
    let count = input.u32()?;
    if count > limits.sections_max {
        let max = limits.sections_max;
        return Err(Error::limit(format!("{count} sections, at most {max} are allowed")));
    }
    let mut table = HashMap::new();
    for _ in 0..count {
        let (kind, flags, codec, block_count) = (input.u16()?, input.u8()?, input.u8()?, input.u32()?);
        let (offset, raw_len, stored_len) = (input.u64()?, input.u64()?, input.u64()?);
        let header = SectionHeader { kind, flags, codec, raw_len, stored_len, block_count };
        if table.insert(offset, header).is_some() {
            return Err(input.corrupt("two sections begin at the same place"));
        }
    }
    match input.u8()? {
        0 => {}
        1 => {
            let root: [u8; 32] = input.array()?;
            if blake3::hash(&file[..footer_offset as usize]) != root {
                return Err(Error::corrupt(
                    "the root hash does not match: something before the footer was changed",
                ));
            }
        }
        kind => {
            return Err(Error::newer_format(format!(
                "a root hash of kind {kind} is not known to this version"
            )));
        }
    }
    input.finish()?;
    Ok(table)
}

fn decode_metadata(bytes: &[u8], limits: &Limits) -> Result<Vec<(String, Value)>> {
    let context = LoadContext::new(limits);
    let mut input = Reader::new(bytes, &context);
    let mut read = || {
        let count = input.count(size_of::<(String, Value)>())?;
        let mut metadata = Vec::new();
        for _ in 0..count {
            metadata.push((String::decode(&mut input)?, Value::decode(&mut input)?));
        }
        Ok(metadata)
    };
    let metadata = read().map_err(|error: Error| error.in_section("metadata"))?;
    input.finish().map_err(|error| error.in_section("metadata"))?;
    Ok(metadata)
}

fn decode_data(section: &Section, limits: &Limits, losses: &mut Vec<DamagedPart>) -> Result<Vec<DataEntry>> {
    let damaged = Lost { ranges: section.damaged.clone(), ..Lost::default() };
    let context = LoadContext::new(limits);
    let mut input = Reader::new(&section.bytes, &context);
    let directory_len = input.u64()?;
    let directory = usize::try_from(directory_len).ok().filter(|len| *len <= input.remaining());
    let directory = directory.ok_or_else(|| input.corrupt("the directory is longer than the section"))?;
    if damaged.touches(0, 8 + directory_len) {
        losses.push(DamagedPart::Section("data"));
        return Ok(Vec::new());
    }
    let mut input = Reader::new(input.raw(directory)?, &context);
    let mut at = 8 + directory;
    let count = input.bounded(u64::from(limits.data_entries_max), "data entries")?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let key = String::decode(&mut input)?;
        let schema = Schema::decode(input.blob()?, limits).map_err(|error| error.in_key(&key))?;
        let len = input.varint()?;
        let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
        let end = end.filter(|&end| end <= section.bytes.len());
        let end = end.ok_or_else(|| input.corrupt("it lies outside of the section").in_key(&key))?;
        if damaged.touches(at as u64, len) {
            losses.push(DamagedPart::Data(key));
        } else {
            entries.push(DataEntry::from_parts(key, Arc::new(schema), section.bytes.slice(at..end)));
        }
        at = end;
    }
    input.finish()?;
    if at != section.bytes.len() {
        return Err(Error::corrupt(format!("{} bytes are left over", section.bytes.len() - at)));
    }
    Ok(entries)
}
