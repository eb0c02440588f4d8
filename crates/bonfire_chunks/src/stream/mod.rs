//! Worlds that stream: chunks with their entities come and go around the players.
//!
//! A [`ChunkStream`] decides which chunks are wanted, loads them on the threads of a [`ChunkWorker`](crate::ChunkWorker), and
//! saves what leaves. It knows no ECS: a front end implements [`StreamedWorld`]. The plugin of `bevy_bonfire` does that for
//! Bevy.
//!
//! | rule | |
//! |---|---|
//! | where an entity is | in the world, in memory on its way to the file, or in the file: in one of them, always |
//! | one edit | has all that leaves in a frame, and every chunk that has exchanged entities with it |
//! | a save that fails | stays in memory, and is tried again before anything else is saved |
//! | a chunk that returns before its save is durable | comes from memory |
//! | a chunk that cannot be read | [fails](ChunkPhase::Failed); the others go on, and nothing is generated in its place |
//! | a slot | names a pin: the pin is durable first, the slot second |
//!
//! | file | |
//! |---|---|
//! | `window` | focuses, tickets: which chunks are wanted |
//! | `phase`, `window_chunk` | the life of a chunk; how far one is |
//! | `streamed_world` | what a front end does |
//! | `chunk_stream`, `update`, `budget` | the stream, its step in each frame, and the time for it |
//! | `leave` | chunks that leave, and what a save has of them |
//! | `saving` | edits, one after the other |
//! | `background_upgrade` | all chunks as the game has them today, beside the game |
//! | `picture` | the window as an image |
//! | `moment`, `slot_pins` | saves of one moment, and the way back to one |

mod background_upgrade;
mod budget;
mod chunk_stream;
mod leave;
mod moment;
mod options;
mod phase;
mod picture;
mod saving;
mod slot_pins;
mod streamed_world;
mod update;
mod window;
mod window_chunk;

pub use self::background_upgrade::{UpgradePace, UpgradeReport};
pub use self::chunk_stream::{ChunkStream, ChunkVote};
pub use self::moment::{Return, Returned};
pub use self::options::StreamOptions;
pub use self::phase::{ChangeReason, ChunkPhase, PhaseChange, StreamEvent, StreamStatus};
pub use self::picture::WindowPicture;
pub use self::slot_pins::SlotPins;
pub use self::streamed_world::{Decoder, StreamedWorld};
pub use self::window::{Focus, Reach};
