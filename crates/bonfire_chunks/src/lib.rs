//! Worlds too large to save whole: chunks of cells in one file, read one by one, saved as they change, and safe from a
//! crash at any point.
//!
//! | what | for |
//! |---|---|
//! | [`ChunkWorld`], [`ChunkOptions`] | a world in a file |
//! | [`Edit`], [`Durability`] | what is saved together, and when it counts as done |
//! | [`Chunk`], [`ChunkState`] | a chunk in memory, which knows whether it must be saved |
//! | [`Generator`] | what makes chunks that nobody has changed |
//! | [`Layers`] | what a cell is made of, and how that changes between releases |
//! | [`Body`], [`BodyIds`] | things made of cells that move about |
//! | [`ChunkWorker`] | reads and saves off the game's thread |
//! | [`OpenReport`], [`CheckReport`] | what was found |
//! | [`import`] | worlds that other programs wrote |
//! | [`codec`] | cells as bytes, for tools |
//!
//! The guide is `docs/book/src/chunked-worlds.md`, every byte of the file is in FORMAT.md, "Chunk files".

mod body;
mod chunk;
mod clock;
pub mod codec;
mod durability;
mod file;
mod format;
mod generator;
pub mod import;
mod index;
mod layers;
mod parallel;
mod position;
#[cfg(not(target_arch = "wasm32"))]
mod worker;
mod world;

pub use bonfire::{Error, Result};
pub use bonfire_store::Handle;
#[cfg(not(target_arch = "wasm32"))]
pub use bonfire_store::disk::OsDisk;
pub use bonfire_store::disk::{Access, Disk, MemoryDisk};

pub use body::{Body, BodyId, BodyIds, BodyLimits, DecodedBodies, LostBody, decode_bodies, encode_bodies};
pub use chunk::{Chunk, ChunkRevision, ChunkState};
pub use durability::Durability;
pub use file::{DamagedFrame, OpenReport};
pub use generator::Generator;
pub(crate) use layers::Conversion;
pub use layers::{Layer, LayerChanges, LayerSet, Layers, Persistence, RemovedLayers, StoredLayer};
pub use position::{ChunkPos, ChunkRect};
#[cfg(not(target_arch = "wasm32"))]
pub use worker::{ChunkLoadHandle, ChunkWorker, CommitHandle, Priority, ReadHandle};
pub use world::{CheckReport, ChunkOptions, ChunkWorld, CommitReport, Edit, Storage, StoredChunk, WorldInfo};
