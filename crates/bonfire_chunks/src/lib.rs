//! Worlds too large to save whole: chunks of cells in one file, read one by one, saved as they change, and safe from a
//! crash at any point.

mod body;
pub mod import;
mod position;

pub use body::{Body, BodyId, BodyIds, BodyLimits, DecodedBodies, LostBody, decode_bodies, encode_bodies};
pub use position::{ChunkPos, ChunkRect};
