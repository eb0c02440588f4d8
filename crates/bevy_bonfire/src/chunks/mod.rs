//! Worlds that stream: chunks with their entities come and go around the players.
//!
//! [`ChunkStreamPlugin`] loads the chunks of a [`ChunkWorld`] around every [`ChunkFocus`], and saves what leaves. Entities
//! with [`Streamed`] belong to the chunk that they are in. A save in a slot has chunks and all other entities of one moment.
//!
//! | to do this | use |
//! |---|---|
//! | load chunks around a player | [`ChunkFocus`] |
//! | keep a place loaded | [`Chunks::add_ticket`]; saved with the game: [`Chunks::add_named_ticket`] |
//! | let entities belong to chunks | [`Streamed`]; exceptions are [`Roaming`] and [`AnchoredTo`] |
//! | generate entities once | [`ChunkStreamPlugin::populate`], [`PopulateChunk`] |
//! | let things made of cells fall, roll and break | [`PixelBody`], [`BodyChanged`] |
//! | read and change cells | [`ChunkCells`] on the entity of a chunk |
//! | follow the life of a chunk | [`ChunkLife`], [`ChunkChanged`] |
//! | wait for collision or a mesh | [`ChunkStreamPlugin::vote`], [`Chunks::agree`] |
//! | wait for an area | [`area_ready`], [`WaitsForGround`] |
//! | save and load | `commands.save("quick")` with slots, [`Chunks::save`] without |
//! | save all chunks in the form of today | [`Chunks::upgrade`] |
//! | see what it does | [`Chunks::status`], [`Chunks::picture`], `ChunkDiagnosticsPlugin` (feature `diagnostics`) |
//! | test a game without a window | [`StreamHarness`] |
//!
//! | file | |
//! |---|---|
//! | `components`, `event`, `resource`, `plugin` | what a game sees |
//! | `state`, `tickets` | the stream, and what is known of live chunks; tickets that are saved |
//! | `step`, `focus`, `membership` | the steps of a frame |
//! | `streamed_world`, `changes` | what the stream does to the world; what has changed |
//! | `body` | pixel bodies |
//! | `in_chunk`, `remains` | the relationship of residents; the memory of activated chunks |
//! | `keeper` | one moment for slots and chunks |
//! | `diagnostics` | numbers for Bevy's diagnostics |

mod body;
mod changes;
mod components;
#[cfg(feature = "diagnostics")]
mod diagnostics;
mod event;
mod focus;
mod harness;
mod in_chunk;
mod keeper;
mod membership;
mod plugin;
mod remains;
mod resource;
mod state;
mod step;
mod streamed_world;
mod tickets;

pub use bonfire_chunks::stream::{
    ChangeReason, ChunkPhase, ChunkVote, Reach, StreamOptions, StreamStatus, UpgradePace, UpgradeReport,
    WindowPicture,
};
pub use bonfire_chunks::{
    Body, BodyId, Chunk, ChunkOptions, ChunkPos, ChunkRect, ChunkWorld, CommitReport, Dimension, Generator,
    Layer, Layers, Persistence, WorldShape,
};

pub use self::body::{BodyChange, BodyChanged, LostCell, PixelBody};
pub use self::components::{
    AnchoredTo, ChunkAt, ChunkCells, ChunkFocus, ChunkLife, ChunkResidents, InChunk, InDimension, Roaming,
    Streamed, WaitsForGround,
};
#[cfg(feature = "diagnostics")]
pub use self::diagnostics::ChunkDiagnosticsPlugin;
pub use self::event::{ChunkChanged, ChunkProblem, PopulateChunk};
pub use self::harness::StreamHarness;
pub use self::plugin::{AtEdge, ChunkStreamPlugin, ChunkSystems, area_ready, chunk_vote};
pub use self::resource::Chunks;
pub use self::state::StreamTimes;
