//! Dimensions, as far as the commands have to know them.

use bonfire_chunks::{
    ChunkPos, ChunkRect, ChunkWorld, DamagedFrame, LayerSet, Persistence, StoredLayer, WorldInfo,
};
use serde_json::{Value as Json, json};

/// The facts of one dimension.
pub(crate) struct DimensionFacts {
    pub(crate) number: u32,
    pub(crate) seed: u64,
    pub(crate) chunk_size: u16,
    pub(crate) tile_size: u16,
    pub(crate) is_three_dimensional: bool,
    pub(crate) chunks: usize,
    pub(crate) generator: Option<String>,
    pub(crate) layers: LayerSet,
}

impl DimensionFacts {
    /// Returns the facts of all dimensions, in order.
    pub(crate) fn all(info: &WorldInfo) -> Vec<Self> {
        let others = info.other_dimensions.iter();
        let first = Self {
            number: 0,
            seed: info.seed,
            chunk_size: info.chunk_size,
            tile_size: info.tile_size,
            is_three_dimensional: info.is_three_dimensional,
            chunks: info.chunks.saturating_sub(others.clone().map(|other| other.chunks).sum()),
            generator: info.generator.clone(),
            layers: info.layers.clone(),
        };
        let others = others.map(|other| Self {
            number: other.number,
            seed: other.seed,
            chunk_size: other.chunk_size,
            tile_size: other.tile_size,
            is_three_dimensional: other.is_three_dimensional,
            chunks: other.chunks,
            generator: other.generator.clone(),
            layers: other.layers.clone(),
        });
        std::iter::once(first).chain(others).collect()
    }

    /// Returns the facts of one dimension, or a message that names those that there are.
    pub(crate) fn of(world: &ChunkWorld, number: u32) -> Result<Self, String> {
        let all = Self::all(&world.info());
        let numbers: Vec<String> = all.iter().map(|dimension| dimension.number.to_string()).collect();
        let found = all.into_iter().find(|dimension| dimension.number == number);
        found.ok_or_else(|| format!("there is no dimension {number}, only {}", numbers.join(", ")))
    }

    /// Returns the number of coordinates that places have.
    pub(crate) fn coordinates(&self) -> u8 {
        if self.is_three_dimensional { 3 } else { 2 }
    }

    /// Returns the cells of a chunk along `z`.
    pub(crate) fn depth(&self) -> usize {
        if self.is_three_dimensional { usize::from(self.chunk_size) } else { 1 }
    }

    /// Returns the cells of a chunk: `16 x 16`, or `8 x 8 x 8`.
    pub(crate) fn cells_text(&self) -> String {
        let size = self.chunk_size;
        if self.is_three_dimensional {
            format!("{size} x {size} x {size}")
        } else {
            format!("{size} x {size}")
        }
    }

    /// Returns the layer with names for its values, or else the first. Empty if there is no layer at all.
    pub(crate) fn main_layer(&self) -> &str {
        let named = self.layers.materials().map(|(layer, _)| layer.name());
        let first = || self.layers.layers().first().map(StoredLayer::name);
        named.or_else(first).unwrap_or_default()
    }

    /// Returns a stored cell whose layers all have their defaults.
    pub(crate) fn default_cell(&self) -> Vec<u8> {
        self.layers.layers().iter().flat_map(stored_default).collect()
    }

    pub(crate) fn to_json(&self, world: &ChunkWorld) -> Json {
        json!({
            "number": self.number,
            "coordinates": self.coordinates(),
            "chunk_size": self.chunk_size,
            "tile_size": self.tile_size,
            "seed": self.seed,
            "chunks": self.chunks,
            "extent": extent(world, self.number).map(extent_json),
            "generator": self.generator,
            "generator_version": self.layers.generator_version(),
        })
    }
}

/// The default of a layer as it is stored: bits that do not persist are 0.
fn stored_default(layer: &StoredLayer) -> Vec<u8> {
    let mut default = layer.default_value().to_vec();
    if let Persistence::Partial(mask) = layer.persistence() {
        default.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
    }
    default
}

/// Returns the chunks of a kind that are damaged, set aside earlier or found when the world was opened.
pub(crate) fn damaged_chunks(world: &ChunkWorld) -> Vec<ChunkPos> {
    let aside = world.info().set_aside;
    let damaged = aside.iter().chain(&world.report().damaged).filter(|frame| frame.kind_name() == "chunk");
    damaged.filter_map(DamagedFrame::chunk).collect()
}

/// Returns the corners of all chunks of a dimension, and of those that are damaged or have nothing but bodies or entities.
pub(crate) fn extent(world: &ChunkWorld, dimension: u32) -> Option<ChunkRect> {
    let all = ChunkRect::of_dimension(dimension);
    let (aside, report) = (world.info().set_aside, world.report());
    let damaged = aside.iter().chain(&report.damaged).filter_map(DamagedFrame::chunk);
    let damaged = damaged.filter(|pos| pos.dimension == dimension);
    let others = world.chunks_with_bodies(all).into_iter().chain(world.chunks_with_entities(all));
    let corners = |found: Option<ChunkRect>, pos: ChunkPos| {
        let Some(found) = found else { return Some(ChunkRect::new(pos, pos)) };
        let (min, max) = (found.min(), found.max());
        let corner = |of: fn(i32, i32) -> i32, corner: ChunkPos| ChunkPos {
            x: of(corner.x, pos.x),
            y: of(corner.y, pos.y),
            z: of(corner.z, pos.z),
            dimension,
        };
        Some(ChunkRect::new(corner(i32::min, min), corner(i32::max, max)))
    };
    world.range(all).into_iter().chain(others).chain(damaged).fold(None, corners)
}

pub(crate) fn extent_json(extent: ChunkRect) -> Json {
    json!({ "min": super::pos(extent.min()), "max": super::pos(extent.max()) })
}
