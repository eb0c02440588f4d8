//! Worlds that follow each other, for Bonfire, the save system for games.
//!
//! Goals, in order of importance:
//! 1. A mirror is what the server was at some tick, or it says that it needs a baseline. Never something in between.
//! 2. Bytes of a peer are refused as a whole, with a reason: they never panic, and never cost more than the limits say.
//! 3. What changed is encoded once, whoever receives it.
//!
//! There are no sockets here, no clock and no threads: messages are bytes, and how they travel is the game's business.
//! Every byte and every rule of both sides is in `docs/PROTOCOL.md`.
//!
//! Front ends make a [`SourceWorld`] and a [`MirrorWorld`] of their worlds; here they are made of the world of our own tests, which
//! compares itself with what it was.
//!
//! ```
//! use bonfire::{Delta, Persist, Result};
//! use bonfire::engine::{ComponentTable, EntityMap};
//! use bonfire_sync::{Applied, MirrorWorld, Receiver, ReplicationStream, SourceWorld, StreamOptions};
//! use bonfire_testkit::{Followed, ModelWorld};
//!
//! #[derive(Clone, Debug, PartialEq, Persist)]
//! #[persist(key = "game.health")]
//! struct Health(u32);
//!
//! struct Server(Followed);
//! impl SourceWorld for Server {
//!     fn baseline(&mut self) -> Result<Delta> { self.0.whole() }
//!     fn changes(&mut self) -> Result<Delta> { self.0.changes() }
//! }
//! struct Client(ModelWorld);
//! impl MirrorWorld for Client {
//!     fn apply(&mut self, delta: &Delta, map: &mut EntityMap) -> Result<()> { self.0.apply_delta(delta, map) }
//! }
//! # fn world() -> Result<ModelWorld> {
//! #     let mut world = ModelWorld::new();
//! #     world.register::<Health>()?;
//! #     Ok(world)
//! # }
//! # let random = 7;
//!
//! let mut server = Server(Followed::new(world()?)?);
//! let mut stream = ReplicationStream::new(StreamOptions::new(random)); // a number that no other stream has
//! let wolf = server.0.world.spawn();
//! server.0.world.insert(wolf, Health(3));
//! stream.tick(&mut server)?; // nobody is there yet
//!
//! let mut client = Client(world()?);
//! let mut receiver = Receiver::new(ComponentTable::of(client.0.registry()));
//! let joined = receiver.apply(&mut client, &stream.baseline(&mut server)?)?;
//! assert_eq!(joined, Applied::Baseline);
//!
//! server.0.world.insert(wolf, Health(2));
//! for message in stream.tick(&mut server)? { // to everybody
//!     if let Applied::NeedBaseline(_) = receiver.apply(&mut client, &message)? {
//!         for answer in stream.answer(&receiver.request(), &mut server)? {
//!             receiver.apply(&mut client, &answer)?;
//!         }
//!     }
//! }
//! let mirrored = receiver.entity(wolf).expect("it was told");
//! assert_eq!(client.0.get(mirrored), Some(&Health(2)));
//! # Ok::<(), bonfire::Error>(())
//! ```

mod envelope;
mod limits;
mod message;
mod message_head;
mod receiver;
mod recent_messages;
mod recording;
mod request;
mod stream;
mod structural;
mod world;

pub use bonfire::{Compression, Error, Result};
pub use limits::MessageLimits;
pub use message::{Message, MessageKind};
pub use message_head::{AnyMessageKind, MessageHead};
pub use receiver::{Applied, BaselineReason, Receiver};
pub use recording::{RawRecord, Record, Recorder, Recording, TornTail};
pub use request::CatchUpRequest;
pub use stream::{ReplicationStream, StreamOptions};
pub use structural::StructuralLog;
pub use world::{MirrorWorld, SourceWorld};
