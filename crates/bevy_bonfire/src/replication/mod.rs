//! Worlds in sync: a server that is followed, and clients that follow.

mod client;
mod endpoints;
mod harness;
mod registry;
mod server;

use bevy_ecs::schedule::SystemSet;

pub use self::client::{MessageApplied, MessageRefused, ReplicationClient, ReplicationClientPlugin};
pub use self::endpoints::{WorldMirror, WorldSource};
pub use self::harness::TwoApps;
pub use self::registry::ReplicateExt;
pub use self::server::{ClientId, ReplicationServer, ReplicationServerPlugin};

/// When an app replicates.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicationSystems {
    /// What has arrived is applied: at the start of the frame, in [`First`](bevy_app::First).
    Receive,
    /// What has changed is made into messages: at the end of the frame, in [`Last`](bevy_app::Last).
    Send,
}
