//! Snapshot to bytes. Headers and checksums are added around the columns, which are not copied.

use std::collections::HashSet;

use bytes::Bytes;

use super::compress::Compression;
use super::header::{HEADER_BYTES, Header};
use super::prelude::{Describer, encode_schemas};
use super::section::{FLAG_COPY, FLAG_CRITICAL, SectionHeader, SectionPieces, kind};
use super::{FORMAT_VERSION, Snapshot};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::persist::Persist;
use crate::slices::{Slices, run_whole};
use crate::storage::{BLOCK_BYTES, Rope};
use crate::wire::Writer;

/// The metadata section must lie in the first block of a file with its header, so that lists of saves read little.
pub(super) const METADATA_BYTES_MAX: usize = 60 << 10;

/// How a snapshot becomes bytes. The default is uncompressed, with its schemas and without a root hash.
#[derive(Clone, Debug)]
pub struct EncodeOptions {
    /// Compression of columns and data. Default: none.
    pub compression: Compression,
    /// Whether the schemas of components are written or only their fingerprints. Without them the bytes are smaller,
    /// but only a reader that has the components registered can read them. Schemas of data and of carried components
    /// are always written: nobody else has them. Default: written.
    pub inline_schemas: bool,
    /// Whether the footer holds a BLAKE3 hash over everything before it, for signatures. Default: no.
    pub root_hash: bool,
    /// Whether the small sections that everything depends on are written twice, so that damage to one costs nothing.
    /// Default: yes.
    pub copies: bool,
    /// What a reader allows. A snapshot beyond it is refused here, so that nothing is saved that cannot be loaded.
    pub limits: Limits,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self {
            compression: Compression::None,
            inline_schemas: true,
            root_hash: false,
            copies: true,
            limits: Limits::default(),
        }
    }
}

impl Snapshot {
    /// The bytes of the snapshot, uncompressed, in one piece. See [`Snapshot::encode`] for choices, and for pieces that
    /// share memory with it.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.encode(&EncodeOptions::default())?.to_vec())
    }

    /// The bytes of the snapshot, in pieces that share memory with it.
    pub fn encode(&self, options: &EncodeOptions) -> Result<Rope> {
        run_whole(self.encode_in_slices(options, &mut Slices::whole()))
    }

    /// [`encode`](Self::encode) in slices, for programs with one thread. The bytes are the same.
    pub async fn encode_in_slices(&self, options: &EncodeOptions, slices: &mut Slices) -> Result<Rope> {
        let Content { described, columns } = self.content(options)?;
        let mut file = File { rope: Rope::default(), sections: Vec::new(), tables: Vec::new() };
        for (kind, content, critical) in &described {
            file.small(*kind, content, if *critical { FLAG_CRITICAL } else { 0 }, slices).await?;
        }
        file.section(kind::COLUMNS, FLAG_CRITICAL, columns, options.compression, true, slices).await?;
        if !self.data.is_empty() {
            let data = self.encode_data(options.compression);
            file.section(kind::DATA, 0, data, options.compression, true, slices).await?;
        }
        if options.copies {
            for (kind, content, _) in &described {
                file.small(*kind, content, FLAG_COPY, slices).await?;
            }
            file.block_tables(slices).await?;
        }
        file.finish(options.root_hash, slices).await
    }

    /// The parts of a file, before they become sections.
    fn content(&self, options: &EncodeOptions) -> Result<Content> {
        self.check_limits(&options.limits)?;
        let carried: HashSet<u32> = self.carried.iter().map(|record| record.column.component).collect();
        // A schema that only the file knows is always written, or nobody could read it.
        let inline = |number: usize| options.inline_schemas || carried.contains(&(number as u32));
        let mut columns = SectionPieces::of_parts(options.compression);
        let mut describer = Describer { out: Writer::new(), columns: &mut columns };
        describer.prelude(self, &inline);
        let prelude = Bytes::from(describer.out.into_memory());
        let mut describer = Describer { out: Writer::new(), columns: &mut columns };
        describer.carry(&self.carried, &self.components);
        let carry = Bytes::from(if self.carried.is_empty() { vec![] } else { describer.out.into_memory() });
        let components = self.components.iter().enumerate().filter(|(number, _)| inline(*number));
        let mut schemas: Vec<_> = components.filter_map(|(_, component)| component.schema.as_ref()).collect();
        schemas.extend(self.data.iter().filter_map(|entry| entry.schema().ok()));
        let schemas = Bytes::from(encode_schemas(schemas));
        let metadata = Bytes::from(self.encode_metadata()?);
        let raw_bytes =
            columns.len() + self.data.iter().map(|entry| entry.as_bytes().len() as u64).sum::<u64>();
        let small = (prelude.len() + carry.len() + schemas.len()) as u64;
        if raw_bytes + 2 * small + (1 << 20) > options.limits.raw_bytes_max {
            return Err(Error::limit(format!(
                "{raw_bytes} bytes are more than the {} that readers allow: raise the limits on both sides",
                options.limits.raw_bytes_max
            )));
        }

        let described = [
            (kind::METADATA, metadata, false),
            (kind::PRELUDE, prelude, true),
            (kind::SCHEMAS, schemas, true),
            (kind::CARRY, carry, false),
        ];
        Ok(Content { described, columns })
    }

    fn check_limits(&self, limits: &Limits) -> Result<()> {
        let check = |count: usize, max: u32, what: &str| match count > max as usize {
            true => Err(Error::limit(format!(
                "{count} {what}, readers allow {max}: raise the limits on both sides"
            ))),
            false => Ok(()),
        };
        check(self.components.len(), limits.components_max, "components")?;
        check(self.archetypes.len(), limits.archetypes_max, "archetypes")?;
        check(self.entity_count(), limits.entities_max, "entities")?;
        check(self.data.len(), limits.data_entries_max, "data entries")
    }

    fn encode_metadata(&self) -> Result<Vec<u8>> {
        let mut out = Writer::new();
        out.varint(self.metadata.len() as u64);
        for (name, value) in &self.metadata {
            out.text(name);
            value.encode(&mut out);
        }
        let bytes = out.finish()?;
        if bytes.len() > METADATA_BYTES_MAX {
            let len = bytes.len();
            return Err(Error::limit(format!(
                "{len} bytes of metadata, at most {METADATA_BYTES_MAX} fit the head of a file: use the data section"
            )));
        }
        Ok(bytes)
    }

    fn encode_data(&self, compression: Compression) -> SectionPieces {
        let mut out = Writer::new();
        out.varint(self.data.len() as u64);
        for entry in &self.data {
            out.text(entry.key());
            out.varint(u64::from(entry.version()));
            out.u8(u8::from(entry.schema().is_ok()));
            out.raw(&entry.schema_fingerprint().0);
            out.varint(entry.as_bytes().len() as u64);
        }
        let mut pieces = SectionPieces::of_parts(compression);
        let directory = out.into_memory();
        pieces.push(Bytes::copy_from_slice(&(directory.len() as u64).to_le_bytes()));
        pieces.push_parts([Bytes::from(directory)], false);
        pieces.push_parts([], true);
        for entry in &self.data {
            pieces.push_parts([entry.shared_bytes()], entry.as_bytes().len() >= BLOCK_BYTES);
        }
        pieces
    }
}

/// The parts of a file.
struct Content {
    /// Small sections: their kinds, their bytes, and whether a reader must know them.
    described: [(u16, Bytes, bool); 4],
    columns: SectionPieces,
}

struct File {
    rope: Rope,
    sections: Vec<(u64, SectionHeader)>,
    /// Block tables of large sections, by the section's offset.
    tables: Vec<(u64, Vec<u8>)>,
}

impl File {
    async fn small(&mut self, kind: u16, content: &Bytes, flags: u8, slices: &mut Slices) -> Result<()> {
        if content.is_empty() {
            return Ok(());
        }
        let mut pieces = SectionPieces::default();
        pieces.push(content.clone());
        self.section(kind, flags, pieces, Compression::None, false, slices).await
    }

    async fn section(
        &mut self,
        kind: u16,
        flags: u8,
        pieces: SectionPieces,
        compression: Compression,
        copy_table: bool,
        slices: &mut Slices,
    ) -> Result<()> {
        let offset = (HEADER_BYTES + self.rope.len()) as u64;
        let (header, table) = pieces.write(kind, flags, compression, &mut self.rope, slices).await?;
        self.sections.push((offset, header));
        if copy_table {
            self.tables.push((offset, table));
        }
        Ok(())
    }

    async fn block_tables(&mut self, slices: &mut Slices) -> Result<()> {
        let mut out = Writer::new();
        out.varint(self.tables.len() as u64);
        for (offset, table) in &self.tables {
            out.u64(*offset);
            out.blob(table);
        }
        self.small(kind::BLOCK_TABLES, &Bytes::from(out.into_memory()), 0, slices).await
    }

    async fn finish(mut self, root_hash: bool, slices: &mut Slices) -> Result<Rope> {
        let mut out = Writer::new();
        out.u32(self.sections.len() as u32);
        for (offset, section) in &self.sections {
            out.u16(section.kind);
            out.u8(section.flags);
            out.u8(section.codec);
            out.u32(section.block_count);
            out.u64(*offset);
            out.u64(section.raw_len);
            out.u64(section.stored_len);
        }
        let footer_offset = (HEADER_BYTES + self.rope.len()) as u64;
        // A byte for the root, the root, and the number of extensions.
        let len = out.len() as u64 + if root_hash { 34 } else { 2 };
        let block_count = len.div_ceil(BLOCK_BYTES as u64) as u32;
        let footer = SectionHeader {
            kind: kind::FOOTER,
            flags: FLAG_CRITICAL,
            codec: 0,
            raw_len: len,
            stored_len: len,
            block_count,
        };
        let total = footer.total_bytes().and_then(|len| len.checked_add(footer_offset));
        let file_len = total.ok_or_else(|| Error::limit("the file would be larger than 2^64 bytes"))?;
        let header = Header { version: FORMAT_VERSION, file_len, footer_offset }.encode();
        if root_hash {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&header);
            for part in self.rope.parts() {
                hasher.update(part);
                slices.advance(part.len()).await;
            }
            out.u8(1);
            out.raw(hasher.finalize().as_bytes());
        } else {
            out.u8(0);
        }
        out.varint(0);
        self.small(kind::FOOTER, &Bytes::from(out.into_memory()), FLAG_CRITICAL, slices).await?;
        let mut file = Rope::from(Bytes::copy_from_slice(&header));
        self.rope.parts().iter().for_each(|part| file.push(part.clone()));
        debug_assert_eq!(file.len() as u64, file_len);
        Ok(file)
    }
}
