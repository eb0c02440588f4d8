//! Bytes to snapshot: how a file is opened, and how its sections become columns.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::Snapshot;
use super::data::DataEntry;
use super::file::{FileReader, Footer, Section, skip_extensions};
use super::header::{HEADER_BYTES, Header};
use super::prelude::{Finder, decode_schemas};
use super::salvage::{self, DamagedPart, LostRanges};
use super::section::{FLAG_COPY, kind, kind_name};
use crate::context::LoadContext;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::persist::Persist;
use crate::schema::{Fingerprint, Schema};
use crate::slices::{Slices, run_whole};
use crate::storage::AlignedBuf;
use crate::value::Value;
use crate::watch::Watch;
use crate::wire::Reader;

/// How bytes become a snapshot.
#[derive(Clone, Default)]
pub struct OpenOptions<'a> {
    limits: Limits,
    /// Descriptors whose schemas the bytes may name by hash.
    pub(crate) known: &'a [Descriptor],
    salvage: bool,
}

impl<'a> OpenOptions<'a> {
    /// The default limits, no salvage.
    pub fn new() -> Self {
        Self::default()
    }
    /// Bounds what the bytes may cost. A watch that was given before stays, unless the limits have one of their own.
    pub fn limits(mut self, limits: Limits) -> Self {
        let watch = limits.watch.clone().or(self.limits.watch);
        self.limits = Limits { watch, ..limits };
        self
    }
    /// Reads the undamaged part of a damaged save. [`Snapshot::damage`] lists the losses. Default: damage is an error.
    pub fn salvage(mut self) -> Self {
        self.salvage = true;
        self
    }

    /// Counts the work of opening, and stops it when the watch is cancelled. The same as [`Limits::watch`].
    pub fn watch(mut self, watch: &Watch) -> Self {
        self.limits.watch = Some(watch.clone());
        self
    }

    /// Returns the limits, with the watch.
    pub fn get_limits(&self) -> &Limits {
        &self.limits
    }
    /// How long a file may be that keeps the limits. Headers and copies of small sections come on top of what those count.
    pub fn file_bytes_max(&self) -> u64 {
        self.limits.raw_bytes_max.saturating_mul(2).saturating_add(1 << 20)
    }

    /// Checks and opens bytes. They are copied once, into aligned memory.
    pub fn open(&self, bytes: &[u8]) -> Result<Snapshot> {
        self.open_shared(AlignedBuf::copy_from(bytes).share())
    }

    /// Checks and opens bytes where they are: columns are parts of them. They should be aligned to 64 bytes; if they
    /// are not, columns are copied when they are loaded. Memory that is mapped from a file must not change meanwhile.
    pub fn open_shared(&self, bytes: Bytes) -> Result<Snapshot> {
        run_whole(self.open_in_slices(bytes, &mut Slices::whole()))
    }

    /// [`open_shared`](Self::open_shared) in slices, for programs with one thread.
    pub async fn open_in_slices(&self, bytes: Bytes, slices: &mut Slices) -> Result<Snapshot> {
        if let Some(watch) = &self.limits.watch {
            watch.expect(bytes.len() as u64);
            watch.step(0)?;
        }
        let mut file = FileReader::new(bytes, &self.limits, self.salvage);
        let (sections, version, footer) = file.read(slices).await?;
        Assembler { options: self, sections, version, footer, known: OnceCell::new() }.snapshot(file)
    }

    /// Reads the head alone: metadata and how long the file should be. `bytes` may be the first 64 KiB of a file.
    pub fn head(&self, bytes: &[u8]) -> Result<FileHead> {
        let header = Header::decode(bytes)?;
        let mut file = FileReader::new(Bytes::copy_from_slice(bytes), &self.limits, false);
        let footer = Footer::default();
        let (section, end) = run_whole(file.section(HEADER_BYTES as u64, &footer, &mut Slices::whole()))?;
        if section.header.kind != kind::METADATA {
            return Err(Error::corrupt("the first section is not the metadata").at(HEADER_BYTES));
        }
        let metadata = decode_metadata(&section.bytes, &self.limits)?;
        Ok(FileHead { metadata, bytes: end, file_bytes: header.file_len })
    }
}

/// What the first bytes of a file tell.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileHead {
    /// Names and values that were saved beside the world.
    pub metadata: Vec<(String, Value)>,
    /// How long the head is: what comes after it is the world.
    pub bytes: u64,
    /// How long the file is if nothing is missing.
    pub file_bytes: u64,
}

impl FileHead {
    /// The version lines of the game and its plugins, as the save lists them.
    pub fn tracks(&self) -> BTreeMap<String, u32> {
        crate::snapshot::tracks_of(&self.metadata)
    }
}

/// The sections of a file, about to become a snapshot.
struct Assembler<'a> {
    options: &'a OpenOptions<'a>,
    sections: Vec<Section>,
    /// `None` if the header is damaged.
    version: Option<u16>,
    footer: Footer,
    /// The schemas that this build knows, once the file names one.
    known: OnceCell<Schemas>,
}

type Schemas = HashMap<Fingerprint, Arc<Schema>>;

impl Assembler<'_> {
    /// The first whole section of a kind: the copy at the end stands in for a damaged original.
    fn find(&self, wanted: u16) -> Option<&Section> {
        self.sections.iter().find(|section| section.header.kind == wanted && section.damaged.is_empty())
    }

    /// Whether the file had such a section, as far as anybody knows.
    fn had(&self, wanted: u16) -> bool {
        let here = self.sections.iter().any(|section| section.header.kind == wanted);
        here || self.footer.sections.values().any(|header| header.kind == wanted)
    }

    fn snapshot(&self, file: FileReader<'_>) -> Result<Snapshot> {
        let limits = &self.options.limits;
        let context = LoadContext::new(limits);
        if !self.options.salvage {
            self.expect_shape()?;
        }
        let schemas = self.schemas(&context)?;
        let columns = self.sections.iter().find(|section| section.header.kind == kind::COLUMNS);
        let columns =
            columns.ok_or_else(|| Error::corrupt("the columns are lost: nothing can be salvaged"))?;
        let prelude = self.find(kind::PRELUDE).ok_or_else(|| {
            Error::corrupt("both copies of the prelude are damaged: nothing can be salvaged")
        })?;
        let mut finder = Finder {
            input: Reader::new(&prelude.bytes, &context),
            columns: columns.bytes.clone(),
            limits,
            lost: LostRanges { ranges: columns.damaged.clone(), ..LostRanges::default() },
            end: 0,
        };
        let resolve = |fingerprint, inline| self.resolve(&schemas, fingerprint, inline);
        limits.step(prelude.bytes.len())?;
        let read = finder.prelude(self.version, &resolve).and_then(|snapshot| {
            skip_extensions(&mut finder.input)?;
            finder.finish().map(|()| snapshot)
        });
        let mut snapshot = read.map_err(|error| error.in_section("prelude"))?;
        if let Some(section) = self.find(kind::CARRY) {
            finder.input = Reader::new(&section.bytes, &context);
            let carried = finder.carry(&snapshot).and_then(|carried| finder.finish().map(|()| carried));
            snapshot.carried = carried.map_err(|error| error.in_section("carry"))?;
        } else if self.had(kind::CARRY) {
            finder.lost.losses.push(DamagedPart::Section("carry"));
        }
        if self.options.salvage {
            salvage::renumber(&mut snapshot)?;
        }
        let mut losses = finder.lost.losses;
        match self.find(kind::METADATA) {
            Some(section) => snapshot.metadata = decode_metadata(&section.bytes, limits)?,
            None => losses.push(DamagedPart::Section("metadata")),
        }
        match self.sections.iter().find(|section| section.header.kind == kind::DATA) {
            Some(section) => {
                let data = decode_data(section, limits, &resolve, &mut losses);
                snapshot.data = data.map_err(|error| error.in_section("data"))?;
            }
            None if self.had(kind::DATA) => losses.push(DamagedPart::Section("data")),
            None => {}
        }
        snapshot.sections = file.infos;
        snapshot.damage = file.damage;
        snapshot.damage.losses.extend(losses);
        Ok(snapshot)
    }

    fn schemas(&self, context: &LoadContext<'_>) -> Result<Schemas> {
        let Some(section) = self.find(kind::SCHEMAS) else { return Ok(HashMap::new()) };
        let mut input = Reader::new(&section.bytes, context);
        let schemas = decode_schemas(&mut input, &self.options.limits);
        let schemas = schemas.and_then(|schemas| input.finish().map(|()| schemas));
        schemas.map_err(|error| error.in_section("schemas"))
    }

    /// The schema with this fingerprint: from the file if it says so, else from the registry if that knows it.
    fn resolve(&self, schemas: &Schemas, wanted: Fingerprint, inline: bool) -> Result<Option<Arc<Schema>>> {
        match schemas.get(&wanted) {
            Some(schema) if inline => Ok(Some(Arc::clone(schema))),
            None if inline => Err(Error::corrupt("the schema section does not have its schema")),
            _ => {
                let schema = |known: &Descriptor| (known.schema.fingerprint(), Arc::clone(&known.schema));
                let known = self.known.get_or_init(|| self.options.known.iter().map(schema).collect());
                Ok(known.get(&wanted).map(Arc::clone))
            }
        }
    }

    /// The rules about which sections there are, for files that are not damaged.
    fn expect_shape(&self) -> Result<()> {
        if self.sections.first().is_none_or(|section| section.header.kind != kind::METADATA) {
            return Err(Error::corrupt("the first section is not the metadata").at(HEADER_BYTES));
        }
        let mut originals = HashMap::new();
        for section in &self.sections {
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

type Resolve<'a> = dyn Fn(Fingerprint, bool) -> Result<Option<Arc<Schema>>> + 'a;

fn decode_data(
    section: &Section,
    limits: &Limits,
    resolve: &Resolve<'_>,
    losses: &mut Vec<DamagedPart>,
) -> Result<Vec<DataEntry>> {
    let damaged = LostRanges { ranges: section.damaged.clone(), ..LostRanges::default() };
    let context = LoadContext::new(limits);
    let mut input = Reader::new(&section.bytes, &context);
    let directory_len = input.u64()?;
    let directory = usize::try_from(directory_len).ok().filter(|len| *len <= input.remaining());
    if damaged.touches(0, 8) || directory.is_some() && damaged.touches(0, 8 + directory_len) {
        losses.push(DamagedPart::Section("data"));
        return Ok(Vec::new());
    }
    let directory = directory.ok_or_else(|| input.corrupt("the directory is longer than the section"))?;
    let mut input = Reader::new(input.raw(directory)?, &context);
    limits.step(directory)?;
    let mut at = 8 + directory;
    let count = input.bounded(u64::from(limits.data_entries_max), "data entries")?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let key = String::decode(&mut input)?;
        let mut read = || {
            let version = input.bounded(u64::from(u32::MAX), "as a version")? as u32;
            let flags = input.u8()?;
            if flags > 1 {
                return Err(Error::newer_format(format!(
                    "data flags {flags:#x} are not known to this version"
                )));
            }
            let fingerprint = Fingerprint(input.array()?);
            let schema = resolve(fingerprint, flags & 1 != 0)?;
            let len = input.varint()?;
            let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
            let end = end.filter(|&end| end <= section.bytes.len());
            let end = end.ok_or_else(|| input.corrupt("it lies outside of the section"))?;
            Ok((
                DataEntry::from_parts(
                    String::new(),
                    version,
                    fingerprint,
                    schema,
                    section.bytes.slice(at..end),
                ),
                end,
            ))
        };
        let (entry, end) = read().map_err(|error: Error| error.in_key(&key))?;
        if damaged.touches(at as u64, (end - at) as u64) {
            losses.push(DamagedPart::Data(key));
        } else {
            entries.push(entry.with_key(key));
        }
        at = end;
    }
    input.finish()?;
    if at != section.bytes.len() {
        return Err(Error::corrupt(format!("{} bytes are left over", section.bytes.len() - at)));
    }
    Ok(entries)
}
