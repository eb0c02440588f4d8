//! Worlds too large to save whole: chunks of cells in one file, read one by one, saved as they change, and safe from a
//! crash at any point.

pub mod codec;
mod layers;
mod position;

pub use layers::{
    Changes, Conversion, LAYERS_MAX, Layer, LayerSet, Layers, MATERIALS_MAX, MEMORY_BYTES_MAX,
    NAME_BYTES_MAX, Persistence, Removed, StoredLayer,
};
pub use position::{ChunkPos, ChunkRect};
