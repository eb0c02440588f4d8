//! Replication of worlds as baselines and deltas, for Bonfire, the save system for games.
//!
//! Goals, in order of importance:
//! 1. A mirror always matches some server tick exactly. If it missed messages, it requests them.
//! 2. Bytes from a peer are accepted or rejected as a whole, with a reason. They never panic and
//!    never exceed limits or budgets.
//! 3. Each change is encoded once for all receivers.
//!
//! There are no sockets, no clock and no threads. Messages are bytes, and the game's transport
//! carries them. `docs/PROTOCOL.md` in the repository describes every byte and every rule of both
//! sides.
//!
//! Front ends implement [`SourceWorld`] and [`MirrorWorld`] for their worlds. This example uses the
//! model world of our own tests, which compares itself with its previous state.
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
//!     server.tick(&mut world_of_server)?; // at the end of a tick: a baseline, then changes
//!     for (_, message) in server.take_messages() {
//!         inbox.receive(message)?; // over a network, in a game
//!     }
//!     inbox.begin_frame();
//!     while let Some(applied) = inbox.apply_next(&mut receiver, &mut mirror) {
//!         applied?;
//!     }
//!     for request in inbox.take_request(&receiver)? {
//!         server.receive(ClientId(1), &request)?; // it requests missed messages
//!     }
//!     let mirrored = receiver.entity(wolf).expect("the baseline has it");
//!     assert_eq!(mirror.0.get(mirrored), Some(&Health(health)));
//! }
//! # Ok::<(), bonfire::Error>(())
//! ```
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `lz4` | yes | messages compressed with LZ4 |

#![cfg_attr(docsrs, feature(doc_cfg))]

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

/// The code of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
