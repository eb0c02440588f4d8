//! Worlds too large to save whole: chunks of cells in one file, read one by one, saved as they change, and safe from a
//! crash at any point.

pub mod codec;
mod position;

pub use position::{ChunkPos, ChunkRect};
