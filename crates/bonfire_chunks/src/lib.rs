//! Chunked worlds in one crash-safe file, for Bonfire, the save system for games.
//!
//! Chunks of cells are read one by one and saved as they change. A crash at any point leaves the
//! last completed save.
//!
//! | item | purpose |
//! |---|---|
//! | [`ChunkWorld`], [`ChunkOptions`] | a world in a file |
//! | [`Dimension`] | another part of the same world, with layers and sizes of its own |
//! | [`Edit`], [`Durability`] | changes that are saved together, and when they count as done |
//! | [`Chunk`], [`ChunkState`] | a chunk in memory, and whether it must be saved |
//! | [`Generator`], [`WorldShape`] | creates chunks that were never changed |
//! | [`Layers`] | the content of a cell, and how it changes between releases |
//! | [`Body`], [`BodyIds`] | movable things made of cells |
//! | [`BodyDrawing`], [`Canvas`] | bodies drawn into the chunks that they touch |
//! | [`PinInfo`] | a moment of the whole world that stays while the game goes on |
//! | [`WholeChunk`] | cells, bodies and entities of a chunk, as of one moment |
//! | [`ChunkWorker`] | reads and saves on background threads |
//! | [`OpenReport`], [`CheckReport`], [`DamagedInPins`] | results of opening and of checking a world |
//! | [`stream`] | chunks with their entities come and go around the players |
//! | [`frames`] | the seam below a world: worlds in memory, or in a store of your own |
//! | [`import`] | worlds written by other programs |
//! | [`codec`] | cells as bytes, for tools |
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `zstd` | no | smaller chunks that take longer to save, for clouds and archives; links the C library |
//! | `seal` | no | encrypted or tamper-evident worlds |
//! | `conformance` | no | the tests that every store of frames must pass, for your own |
//!
//! # More
//!
//! The guide is `docs/book` in the repository. FORMAT.md, "Chunk files", describes every byte.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod chunk;
mod clock;
pub mod codec;
mod durability;
mod file;
mod format;
pub mod frames;
mod generator;
pub mod import;
mod index;
mod layers;
mod parallel;
mod position;
#[cfg(not(target_arch = "wasm32"))]
pub mod stream;
#[cfg(not(target_arch = "wasm32"))]
mod worker;
mod world;

pub use bonfire::{Error, Result};
pub use bonfire_store::Handle;
#[cfg(not(target_arch = "wasm32"))]
pub use bonfire_store::disk::OsDisk;
pub use bonfire_store::disk::{Access, Disk, MemoryDisk};

pub use body::{
    Body, BodyDrawing, BodyId, BodyIds, BodyLimits, Canvas, DecodedBodies, LostBody, decode_bodies,
    encode_bodies,
};
pub use chunk::{Chunk, ChunkRevision, ChunkState};
pub use durability::Durability;
pub use file::{CompactionStatus, DamagedFrame, DamagedInPins, OpenReport, PinInfo};
pub use generator::{Generator, WorldShape};
pub(crate) use layers::Conversion;
pub use layers::{Layer, LayerChanges, LayerSet, Layers, Persistence, RemovedLayers, StoredLayer};
pub use position::{ChunkPos, ChunkRect};
#[cfg(not(target_arch = "wasm32"))]
pub use worker::{
    BodiesHandle, ChunkLoadHandle, ChunkWorker, CommitHandle, EntitiesHandle, Priority, ReadHandle,
    RefusedSave, RequestCounts, RequestKind, WholeChunkHandle, WorkerOptions, WorkerStatistics,
};
pub use world::{
    CheckReport, ChunkOptions, ChunkWorld, CommitReport, Dimension, DimensionInfo, Edit, Storage,
    StoredChunk, Upgrade, WholeChunk, WorldInfo,
};

/// The code of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
