//! Worlds that follow each other, for Bonfire, the save system for games.
//!
//! Goals, in order of importance:
//! 1. A mirror is what the server was at some tick, or it says that it needs a baseline. Never something in between.
//! 2. Bytes of a peer are refused as a whole, with a reason: they never panic, and never cost more than the limits say.
//! 3. What changed is encoded once, whoever receives it.
//!
//! There are no sockets here, no clock and no threads: messages are bytes, and how they travel is the game's business.
//! Every byte and every rule of both sides is in `docs/PROTOCOL.md`.

mod envelope;
mod limits;
mod message;
mod receiver;
mod record;
mod request;
mod ring;
mod sides;
mod stream;
mod structural;

pub use bonfire::{Compression, Error, Result};
pub use limits::MessageLimits;
pub use message::{Kind, Message};
pub use receiver::{Applied, Reason, Receiver};
pub use record::{Record, Recorder, Recording, Torn};
pub use request::Request;
pub use sides::{Mirror, Source};
pub use stream::{ReplicationStream, StreamOptions};
pub use structural::StructuralLog;
