//! Worlds too large to save whole: chunks of cells in one file, read one by one, saved as they change, and safe from a
//! crash at any point.

mod body;
mod clock;
pub mod codec;
mod file;
mod format;
pub mod import;
mod index;
mod position;

pub use body::{Body, BodyId, BodyIds, BodyLimits, DecodedBodies, LostBody, decode_bodies, encode_bodies};
pub use file::{DamagedFrame, OpenReport};
pub use position::{ChunkPos, ChunkRect};

/// When a save counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it survives a crash.
    #[default]
    Synced,
    /// When others can read it. The next synced save makes it durable too; a crash before it takes this one back as a whole.
    Buffered,
}
