//! What a world is, and how it lies in its store.

use bonfire::Result;

use super::ChunkWorld;
use super::cells::{DELTA, EMPTY};
use super::dimension::OpenDimension;
use crate::codec::{Codec, decode_delta};
use crate::file::DamagedFrame;
use crate::format::{Flags, FrameKey, FrameKind};
use crate::{ChunkPos, ChunkRect, LayerSet};

/// How a chunk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Every cell has its default.
    Empty,
    /// As what differs from the generated chunk.
    Delta,
    /// As a whole.
    Full,
}

/// The facts of a world and of its store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorldInfo {
    /// The seed that its chunks are generated from.
    pub seed: u64,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When its header was written last, in seconds since 1970.
    pub modified: u64,
    /// Cells along an edge of a chunk.
    pub chunk_size: u16,
    /// Cells along an edge of a tile.
    pub tile_size: u16,
    /// The version of the format: 2 if it has places with three coordinates, or several dimensions.
    pub format_version: u16,
    /// The chunks of dimension 0 are cubes.
    pub is_three_dimensional: bool,
    /// Readers of the plain layout understand it.
    pub compat: bool,
    /// The content of chunks is sealed.
    pub sealed: bool,
    /// Chunks whose cells are in the file.
    pub chunks: usize,
    /// Chunks that have bodies.
    pub chunks_with_bodies: usize,
    /// Chunks that have entities.
    pub chunks_with_entities: usize,
    /// Parts that are damaged and were set aside.
    pub set_aside: Vec<DamagedFrame>,
    /// Bytes up to the last save.
    pub file_bytes: u64,
    /// Bytes of those that nothing needs any more.
    pub dead_bytes: u64,
    /// Pinned moments.
    pub pins: usize,
    /// Bytes of frames that pins need and the world as it is now does not.
    pub pinned_bytes: u64,
    /// Bytes of memory that know where everything is.
    pub index_bytes: usize,
    /// How many saves there were.
    pub generation: u64,
    /// The name of the generator that chunks were made by, if it has one.
    pub generator: Option<String>,
    /// The layers that chunks are written with.
    pub layers: LayerSet,
    /// The dimensions beside dimension 0, which seed, sizes, generator and layers of this struct belong to. Of a world that a
    /// game has opened: those that the game has declared.
    pub other_dimensions: Vec<DimensionInfo>,
}

/// The facts of one dimension.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DimensionInfo {
    /// Its number.
    pub number: u32,
    /// The seed that its chunks are generated from.
    pub seed: u64,
    /// Cells along an edge of a chunk.
    pub chunk_size: u16,
    /// Cells along an edge of a tile.
    pub tile_size: u16,
    /// Its chunks are cubes.
    pub is_three_dimensional: bool,
    /// Chunks whose cells are in the file.
    pub chunks: usize,
    /// The name of the generator that chunks were made by, if it has one.
    pub generator: Option<String>,
    /// The layers that chunks are written with.
    pub layers: LayerSet,
}

impl ChunkWorld {
    /// Returns the facts of the world and of its store.
    pub fn info(&self) -> WorldInfo {
        let mut others = self.dimension_infos();
        let DimensionInfo { layers, generator, .. } = others.remove(0);
        let frames = &self.inner.frames;
        let (header, stats) = (frames.header(), frames.store().stats());
        let count = |kind: FrameKind| frames.store().count(kind);
        WorldInfo {
            seed: header.seed,
            created: header.created,
            modified: header.modified,
            chunk_size: header.chunk_size,
            tile_size: header.tile_size,
            format_version: header.version as u16,
            is_three_dimensional: self.inner.first_dimension().options.is_three_dimensional,
            compat: frames.has(Flags::COMPAT),
            sealed: frames.has(Flags::SEALED),
            chunks: count(FrameKind::Chunk),
            chunks_with_bodies: count(FrameKind::Bodies),
            chunks_with_entities: count(FrameKind::Snapshot),
            set_aside: self.set_aside(),
            file_bytes: stats.bytes,
            dead_bytes: stats.dead_bytes,
            pins: frames.file().map_or(0, |file| file.pins().len()),
            pinned_bytes: frames.file().map_or(0, |file| file.state().pins.held_bytes()),
            index_bytes: stats.index_bytes,
            generation: stats.generation,
            generator,
            layers,
            other_dimensions: others,
        }
    }

    /// The facts of all dimensions, the first one first.
    fn dimension_infos(&self) -> Vec<DimensionInfo> {
        let saving = self.inner.saving();
        let info = |dimension: &OpenDimension| {
            let rect = ChunkRect::of_dimension(dimension.number);
            let settings = saving.of(dimension);
            DimensionInfo {
                number: dimension.number,
                seed: dimension.seed(),
                chunk_size: dimension.options.chunk_size,
                tile_size: dimension.options.tile_size,
                is_three_dimensional: settings.is_three_dimensional,
                chunks: self.inner.frames.store().list(FrameKind::Chunk, &rect).len(),
                generator: Some(settings.generator.clone()).filter(|name| !name.is_empty()),
                layers: settings.current().clone(),
            }
        };
        self.inner.dimensions.values().map(info).collect()
    }

    /// The parts that are damaged and were set aside.
    fn set_aside(&self) -> Vec<DamagedFrame> {
        let kinds = [FrameKind::DamagedChunk, FrameKind::DamagedBodies, FrameKind::DamagedSnapshot];
        let of = |kind: FrameKind| {
            let all = self.inner.frames.positions(kind, &ChunkRect::ALL).into_iter();
            all.map(move |pos| FrameKey::new(kind, pos))
        };
        let place = |key| self.inner.frames.place(key);
        kinds.into_iter().flat_map(of).map(|key| DamagedFrame::new(key, place(key))).collect()
    }

    /// How a chunk is stored; `None` if it is not in the file.
    pub fn storage(&self, pos: impl Into<ChunkPos>) -> Option<Storage> {
        let tag = self.inner.frames.tag(FrameKey::new(FrameKind::Chunk, pos.into()))?;
        Some(match tag.storage {
            EMPTY => Storage::Empty,
            DELTA => Storage::Delta,
            _ => Storage::Full,
        })
    }

    /// How many cells of a chunk differ from the generated one, if it is stored as a delta.
    pub fn delta_entries(&self, pos: impl Into<ChunkPos>) -> Result<Option<usize>> {
        let pos = pos.into();
        let dimension = self.inner.dimension(pos)?;
        let entries = self.inner.frames.read(FrameKey::new(FrameKind::Chunk, pos), |tag, data| {
            let codec = Codec::from_number(tag.codec).filter(|_| tag.storage == DELTA);
            let Some(codec) = codec else { return Ok(None) };
            let (_, set_bytes) = dimension.conversion(tag.layers)?;
            let delta = decode_delta(codec, data, set_bytes, dimension.options.cells_per_chunk() as u32)?;
            Ok(Some(delta.count()))
        })?;
        Ok(entries.flatten())
    }
}
