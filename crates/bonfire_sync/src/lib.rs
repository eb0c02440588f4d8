//! Worlds that follow each other, for Bonfire, the save system for games.
//!
//! Goals, in order of importance:
//! 1. A mirror is what the server was at some tick, or it says that it needs a baseline. Never something in between.
//! 2. Bytes of a peer are refused as a whole, with a reason: they never panic, and never cost more than limits and budgets say.
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
//! use bonfire_sync::{ClientId, Inbox, MirrorWorld, Receiver, SourceWorld, StreamOptions, StreamServer};
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
//! let mut world_of_server = Server(Followed::new(world()?)?);
//! let wolf = world_of_server.0.world.spawn();
//! world_of_server.0.world.insert(wolf, Health(3));
//! let mut server = StreamServer::new(StreamOptions::new(random)); // a number that no other stream has
//! server.connect(ClientId(1));
//!
//! let mut mirror = Client(world()?);
//! let mut receiver = Receiver::new(ComponentTable::of(mirror.0.registry()));
//! let mut inbox = Inbox::new(Default::default());
//! for health in [2, 1] {
//!     world_of_server.0.world.insert(wolf, Health(health));
//!     server.tick(&mut world_of_server)?; // at the end of a tick: a baseline, then what has changed
//!     for (_, message) in server.take_messages() {
//!         inbox.receive(message)?; // over a network, in a game
//!     }
//!     inbox.begin_frame();
//!     while let Some(applied) = inbox.apply_next(&mut receiver, &mut mirror) {
//!         applied?;
//!     }
//!     for request in inbox.take_request(&receiver)? {
//!         server.receive(ClientId(1), &request)?; // it asks for what it has missed
//!     }
//!     let mirrored = receiver.entity(wolf).expect("the baseline has it");
//!     assert_eq!(mirror.0.get(mirrored), Some(&Health(health)));
//! }
//! # Ok::<(), bonfire::Error>(())
//! ```

mod budget;
mod compression;
mod envelope;
mod inbox;
mod limits;
mod message;
mod message_head;
mod receiver;
mod recent_messages;
mod recording;
mod request;
mod server;
mod stream;
mod structural;
mod world;

pub use bonfire::{Error, Result};
pub use compression::{MessageCodec, MessageCodecs, MessageCompression};
pub use inbox::Inbox;
pub use limits::{InboxLimits, MessageLimits, mirror_limits};
pub use message::{Message, MessageKind};
pub use message_head::{AnyMessageKind, MessageHead};
pub use receiver::{Applied, BaselineReason, Receiver};
pub use recording::{RawRecord, Record, Recorder, Recording, TornTail};
pub use request::CatchUpRequest;
pub use server::{Answer, ClientId, StreamServer};
pub use stream::{ReplicationStream, StreamOptions};
pub use structural::StructuralLog;
pub use world::{MirrorWorld, SourceWorld};
