//! Worlds that are as the game leaves them; everything else is refused.

use std::collections::HashSet;
use std::sync::Arc;

use bonfire::{Error, Result};

use super::layout::{
    ENTRY_BYTES, Entry, HEADER_BYTES, Header, INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, IndexEntry,
    PREFIX_BYTES, field,
};
use super::world_bytes::{ReadWindow, WorldBytes};
use super::{
    CHUNK_SIZE, ImportReport, PIXEL_SIZE, PixelChunk, PixelPayload, PixelWorld, SkippedPart, TILE_SIZE,
};
use crate::body::{Body, BodyLimits, Checksum, decode_record_with};

pub(super) fn read(source: &Arc<WorldBytes>) -> Result<PixelWorld> {
    let header = header(source)?;
    header.check_format()?;
    header.check_places(source.len())?;
    let entries = entries(source, &header)?;
    let index = index(source, &header)?;
    no_overlaps(&header, &entries, &index)?;
    let mut world = world(&header);
    let mut scratch = Vec::new();
    for entry in entries {
        let payload = PixelPayload::checked(source, entry.offset, entry.len, entry.storage, &mut scratch);
        let payload = payload.map_err(|error| described(error, format_args!("chunk {}", entry.pos)))?;
        world.chunks.push(PixelChunk { pos: entry.pos, payload });
    }
    let mut bodies = Bodies::default();
    for entry in &index {
        let body = bodies.read(source, entry, world.chunk_size)?;
        if body.id != entry.id {
            return Err(Error::corrupt(format!("body {} in the index is body {}", entry.id, body.id)));
        }
        bodies.add(body, &mut world);
    }
    world.bodies.sort_by_key(|body| body.id);
    Ok(world)
}

pub(super) fn header(source: &WorldBytes) -> Result<Header> {
    let header = ReadWindow::new(source).get(0)?.map(Header::parse);
    header.ok_or_else(|| {
        Error::corrupt(format!(
            "not a world of bevy_pixel_world: {} bytes are less than a header",
            source.len()
        ))
    })
}

/// A world without chunks and bodies.
pub(super) fn world(header: &Header) -> PixelWorld {
    PixelWorld {
        seed: header.seed,
        created: header.created,
        modified: header.modified,
        chunk_size: CHUNK_SIZE,
        tile_size: TILE_SIZE,
        pixel_size: PIXEL_SIZE,
        chunks: Vec::new(),
        bodies: Vec::new(),
        unlisted: Vec::new(),
        report: ImportReport::default(),
    }
}

/// An error about one of many, of the same kind as far as callers care.
fn described(error: Error, what: std::fmt::Arguments<'_>) -> Error {
    if error.is_corrupt() { Error::corrupt(format!("{what}: {error}")) } else { error }
}

fn entries(source: &WorldBytes, header: &Header) -> Result<Vec<Entry>> {
    let mut window = ReadWindow::new(source);
    let mut entries = Vec::<Entry>::new();
    for slot in 0..u64::from(header.chunk_count) {
        let at = header.table_at + slot * ENTRY_BYTES;
        let wrong = |why: &str| Error::corrupt(format!("the entry of a chunk at {at}: {why}"));
        let Some(bytes) = window.get(at)? else { return Err(wrong("cut short")) };
        let entry = Entry::parse(bytes).ok_or_else(|| wrong("it does not match its checksum"))?;
        if entries.last().is_some_and(|last| last.pos >= entry.pos) {
            return Err(wrong("a chunk is there twice, or not in its order"));
        }
        let range = entry.range().filter(|(_, end)| *end <= header.table_at);
        let Some((start, _)) = range else { return Err(wrong("it points outside of the data")) };
        // Payloads lie in any order, so this is read by itself.
        if source.read(start, PREFIX_BYTES)?.is_none_or(|size| *size != entry.len.to_le_bytes()) {
            return Err(wrong("its size is not the one in front of the payload"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn index(source: &WorldBytes, header: &Header) -> Result<Vec<IndexEntry>> {
    if header.index_at == 0 {
        return Ok(Vec::new());
    }
    let mut window = ReadWindow::new(source);
    let wrong = |why: &str| Error::corrupt(format!("the index of bodies at {}: {why}", header.index_at));
    let head: [u8; 8] = *window.get(header.index_at)?.ok_or_else(|| wrong("cut short"))?;
    let count = u32::from_le_bytes(field(&head, 0));
    let bytes = u64::from(count) * INDEX_ENTRY_BYTES;
    if head[4..] != [0; 4] || bytes > source.len() - header.index_at - INDEX_HEADER_BYTES {
        return Err(wrong("it does not fit into the file"));
    }
    let mut index = Vec::new();
    let mut ids = HashSet::new();
    for slot in 0..u64::from(count) {
        let at = header.index_at + INDEX_HEADER_BYTES + slot * INDEX_ENTRY_BYTES;
        let entry = IndexEntry::parse(window.get(at)?.ok_or_else(|| wrong("cut short"))?);
        if entry.range().is_none_or(|(_, end)| end > header.table_at) {
            return Err(wrong(&format!("body {} is outside of the data", entry.id)));
        }
        if !ids.insert(entry.id) {
            return Err(wrong(&format!("body {} is there twice", entry.id)));
        }
        index.push(entry);
    }
    Ok(index)
}

/// No byte may be part of two things: each is decoded once, so the work is bounded by the file.
fn no_overlaps(header: &Header, entries: &[Entry], index: &[IndexEntry]) -> Result<()> {
    let mut ranges: Vec<(u64, u64)> = entries.iter().filter_map(Entry::range).collect();
    ranges.extend(index.iter().filter_map(IndexEntry::range));
    ranges.push((header.table_at, header.table_at + u64::from(header.table_bytes)));
    if header.index_at != 0 {
        let bytes = INDEX_HEADER_BYTES + index.len() as u64 * INDEX_ENTRY_BYTES;
        ranges.push((header.index_at, header.index_at + bytes));
    }
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(Error::corrupt(format!("two things overlap at {}", pair[1].0))),
        None => Ok(()),
    }
}

/// Reads records within a limit for all of them.
#[derive(Default)]
pub(super) struct Bodies {
    cells_bytes: u64,
}

impl Bodies {
    pub(super) fn read(&self, source: &WorldBytes, entry: &IndexEntry, chunk_size: u16) -> Result<Body> {
        let limits = BodyLimits::default();
        let left = limits.bodies_bytes_max.saturating_sub(self.cells_bytes);
        let limits = BodyLimits { body_bytes_max: limits.body_bytes_max.min(left), ..limits };
        let named = |error| described(error, format_args!("body {} at {}", entry.id, entry.offset));
        let Some(bytes) = source.read(entry.offset, entry.len.into())? else {
            return Err(named(Error::corrupt("it is not in the file")));
        };
        match decode_record_with(&bytes, PIXEL_SIZE.into(), limits, Checksum::PixelWorld).map_err(named)? {
            // No chunk can have it, so it cannot be saved.
            (body, _) if body.chunk(chunk_size.into()).is_none() => {
                Err(named(Error::corrupt(format!("its centre is nowhere: {:?}", body.position))))
            }
            (body, used) if used == bytes.len() => Ok(body),
            (_, used) => Err(named(Error::corrupt(format!("{used} bytes instead of {}", bytes.len())))),
        }
    }

    pub(super) fn add(&mut self, body: Body, world: &mut PixelWorld) {
        self.cells_bytes += body.cells.len() as u64;
        if body.is_empty() {
            world.report.skipped.push(SkippedPart::EmptyBody { id: body.id });
        } else {
            world.bodies.push(body);
        }
    }
}

/// Whether bytes can be in the data at all.
pub(super) fn in_file(range: Option<(u64, u64)>, source: &WorldBytes) -> Option<(u64, u64)> {
    range.filter(|(start, end)| *start >= HEADER_BYTES && *end <= source.len())
}
