//! Worlds of the game bevy_pixel_world, as its code writes them, which is not what its document says.
//!
//! # The layout
//!
//! Little-endian. A header of 64 bytes; data; the page table; the index of bodies.
//!
//! | offset | bytes | header |
//! |---|---|---|
//! | 0 | 4 | `WXSP` |
//! | 4 | 4 | version 1 (u16), flags 0 (u16) |
//! | 8 | 24 | seed, created, modified (seconds) |
//! | 32 | 8 | number of chunks, bytes of the page table (u32) |
//! | 40 | 8 | where the page table is |
//! | 48 | 5 | chunk size 512, tile size 32 (u16), pixel size 4 (u8) |
//! | 53 | 8 | where the index of bodies is; 0 without bodies |
//! | 61 | 3 | 0 |
//!
//! Data are chunks, `[u32 size][payload]`, and bodies, records without any frame, as they were saved. Nothing is overwritten,
//! so older versions of chunks and bodies, and removed bodies, stay between the live ones. An entry of the page table is
//! x, y (i32), the offset of the payload behind its size word (u64), its size (u32), its kind (u8: 0 empty, 1 delta, 2 full),
//! a CRC-8 of all that, and two bytes 0; sorted by (y, x). The index is a number and a 0 (u32), then for each body its id, the
//! offset (u64) and size (u32) of its record and its chunk (i32, i32). The checksum of a record covers id, position, rotation
//! and size.
//!
//! # What is taken as proof
//!
//! The game appends over its page table: after a crash nothing says where chunks are. [`Mode::Salvage`] searches all bytes that
//! nothing refers to for payloads and records (each must decompress to exactly what it should be), and places them:
//!
//! - An entry of the table whose checksum holds and that points to a payload which decodes. Entries are searched for
//!   everywhere, so the header is not needed; elsewhere than in the table they must point exactly at a payload that was found.
//! - An entry whose checksum does not hold, if it points exactly at a payload that was found and nobody else has, and its
//!   place is certain: because the entries around it leave no other (they are sorted), or because of all changes of a single
//!   byte that satisfy the checksum only one lies between those entries.
//! - The entry of an older copy of the same world, if that has the same bytes at the same offset ([`PixelWorld::place_by`]).
//!
//! Everything else that decodes is reported as not placed and can still be read. No place is guessed: not from the order of the
//! payloads, which is the order of saving, nor from the generator: a delta says only which cells differ from what was generated,
//! and (tried with the ten chunks of a test world) nearly every place in the world satisfies that.
//!
//! So a world that crashed after an append of 34 KB, which covered all ten entries of its table, gives back the content of
//! all ten chunks, and the place of none, without an older copy; with one, all ten. If an append is shorter than
//! the table, the entries behind it are still there, and their chunks are found.
//!
//! A record found without an entry of the index may be an older version, or of a body that the game removed. Such bodies are
//! in [`PixelWorld::unlisted`], the newest version of each, unless the index is whole; then they are dead for certain.
//!
//! # What nobody can tell
//!
//! [`NOT_CHECKED`]. A flipped byte in a payload often leaves a block that decompresses to as many bytes as it should.

mod layout;
mod payload;
mod repair;
mod report;
mod salvage;
mod scan;
mod strict;
mod world_bytes;

use std::collections::HashMap;
#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;
use std::sync::Arc;

#[cfg(not(target_arch = "wasm32"))]
use bonfire::Error;
use bonfire::Result;
use bonfire_store::disk::DiskFile;
use bytes::Bytes;

pub use self::payload::{PixelContent, PixelPayload, PixelStorage};
pub use self::report::{ImportReport, NOT_CHECKED, RepairedPart, SkippedPart};
use self::world_bytes::WorldBytes;
use crate::{Body, ChunkPos};

/// Cells along a side of a chunk.
pub const CHUNK_SIZE: u16 = 512;
/// Cells along a side of a tile.
pub const TILE_SIZE: u16 = 32;
/// Bytes of a cell: material, colour, damage, flags.
pub const PIXEL_SIZE: u8 = 4;

/// What to do with a world that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refuse it, and say why.
    Strict,
    /// Take what is left, and report the rest.
    Salvage,
}

/// A chunk, and where it is.
#[derive(Clone, Debug)]
pub struct PixelChunk {
    /// The place.
    pub pos: ChunkPos,
    /// What is stored of it.
    pub payload: PixelPayload,
}

/// A world of the game. Bodies are in memory, chunks stay in the file until they are asked for.
///
/// Opening reads all payloads once, one after the other, so that every chunk here can be decoded.
#[derive(Debug)]
pub struct PixelWorld {
    /// What the generator began with.
    pub seed: u64,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// When it was last saved, in seconds since 1970.
    pub modified: u64,
    /// Cells along a side of a chunk.
    pub chunk_size: u16,
    /// Cells along a side of a tile.
    pub tile_size: u16,
    /// Bytes of a cell.
    pub pixel_size: u8,
    /// All chunks that have a place, sorted by it.
    pub chunks: Vec<PixelChunk>,
    /// All bodies, sorted by id.
    pub bodies: Vec<Body>,
    /// Bodies that were found without being listed, sorted by id: the game may have removed them.
    pub unlisted: Vec<Body>,
    /// What was missing, and what was repaired.
    pub report: ImportReport,
}

impl PixelWorld {
    /// Opens a file.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl AsRef<Path>, mode: Mode) -> Result<Self> {
        use bonfire_store::disk::{Access, Disk as _, OsDisk};

        // The disk follows no links, and the user may have one.
        let named = path.as_ref();
        let path = named.canonicalize().map_err(|error| Error::io(named.display(), error))?;
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name else {
            return Err(Error::misuse(format!("{}: this is not the name of a file", path.display())));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let disk = OsDisk::at(parent.unwrap_or(Path::new(".")));
        let file = disk.open(name, Access::Read).map_err(|error| Error::io(path.display(), error))?;
        Self::from_file(file, mode)
    }

    /// Reads a world from a file of any disk.
    pub fn from_file(file: Box<dyn DiskFile>, mode: Mode) -> Result<Self> {
        Self::from_source(WorldBytes::file(file)?, mode)
    }

    /// Reads a world that is in memory.
    pub fn read(bytes: impl Into<Bytes>, mode: Mode) -> Result<Self> {
        Self::from_source(WorldBytes::bytes(bytes.into()), mode)
    }

    fn from_source(source: WorldBytes, mode: Mode) -> Result<Self> {
        let source = Arc::new(source);
        match strict::read(&source) {
            Err(error) if mode == Mode::Salvage && !error.is_io() => salvage::read(&source, error),
            result => result,
        }
    }

    /// The chunk at a place.
    pub fn chunk(&self, pos: ChunkPos) -> Option<&PixelChunk> {
        let at = self.chunks.binary_search_by_key(&pos, |chunk| chunk.pos).ok()?;
        Some(&self.chunks[at])
    }

    /// Places payloads with the help of an older copy of the same world: where that has the same bytes at the same offset,
    /// they are the same chunk, because the game never writes a payload over another. Those that turn out to be older versions
    /// of chunks that have a place already are forgotten. A chunk that was saved again since comes back as the copy has it, if
    /// nothing says where its newer payload belongs: that one stays unplaced. Returns how many chunks were placed.
    pub fn place_by(&mut self, older: &Self) -> Result<usize> {
        let known: HashMap<u64, &PixelChunk> =
            older.chunks.iter().map(|chunk| (chunk.payload.offset(), chunk)).collect();
        let mut placed = Vec::new();
        let mut unplaced = Vec::new();
        for payload in std::mem::take(&mut self.report.unplaced) {
            match known.get(&payload.offset()) {
                Some(chunk) if chunk.payload.is_same(&payload)? => {
                    placed.extend(
                        self.chunk(chunk.pos).is_none().then_some(PixelChunk { pos: chunk.pos, payload }),
                    );
                }
                _ => unplaced.push(payload),
            }
        }
        self.report.unplaced = unplaced;
        let count = placed.len();
        self.report.repaired.extend(placed.iter().map(|chunk| RepairedPart::ByOlderCopy { pos: chunk.pos }));
        self.chunks.append(&mut placed);
        self.chunks.sort_by_key(|chunk| chunk.pos);
        Ok(count)
    }
}
