//! Worlds in sync: a server that is followed, and clients that follow.
//!
//! [`ReplicateExt::replicate`] registers components, [`Replicated`] marks entities. [`ReplicationServerPlugin`] and
//! [`ReplicationClientPlugin`] make and apply messages; the game carries them. [`TwoApps`] has both in one process, for tests:
//!
//! ```
//! # use bevy_ecs::prelude::*;
//! use bevy_bonfire::prelude::*;
//! use bevy_bonfire::replication::{Mirrored, ReplicateExt, Replicated, TwoApps};
//!
//! #[derive(Component, Persist)]
//! #[require(Replicated)]
//! #[persist(key = "game.health")]
//! struct Health(f32);
//!
//! let mut apps = TwoApps::new(|app| _ = app.persist::<Health>().replicate::<Health>());
//! apps.server.world_mut().spawn(Health(3.0));
//! apps.update();
//! let client = apps.client.world_mut();
//! assert_eq!(client.query::<(&Health, &Mirrored)>().single(client).unwrap().0.0, 3.0);
//! ```
//!
//! Underneath, [`DeltaCapture`] finds the changes of any world, [`WorldDeltaExt`] applies them, and [`WorldSource`] and
//! [`WorldMirror`] are the ends of a stream of [`bonfire_sync`].

mod client;
mod endpoints;
mod harness;
mod registry;
mod server;

use bevy_ecs::schedule::SystemSet;

pub use bonfire::{Delta, Granularity};
pub use bonfire_sync::{Answer, ClientId};

pub use self::client::{MessageApplied, MessageRefused, ReplicationClient, ReplicationClientPlugin};
pub use self::endpoints::{WorldMirror, WorldSource};
pub use self::harness::TwoApps;
pub use self::registry::ReplicateExt;
pub use self::server::{ReplicationServer, ReplicationServerPlugin, RequestAnswered};
pub use crate::delta::{DeltaCapture, Mirrored, Replicated, UnseenChange, WorldDeltaExt};

/// When an app replicates.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicationSystems {
    /// What has arrived is applied: at the start of the frame, in [`First`](bevy_app::First).
    Receive,
    /// What has changed is made into messages: at the end of the frame, in [`Last`](bevy_app::Last).
    Send,
}
