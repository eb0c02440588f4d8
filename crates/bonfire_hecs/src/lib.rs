#![doc = include_str!("../README.md")]

mod capture;
mod delta;
mod load;
mod place;
mod registry;
mod restore;
mod selection;
mod slots;
mod sync;

pub use bonfire::*;
/// `#[derive(Persist)]`: see the core's documentation for its attributes. It looks for Bonfire in this crate.
pub use bonfire_derive::PersistInHecs as Persist;
/// Where saves lie: slots, directories, sealing.
pub use bonfire_store as store;
pub use bonfire_store::check_schemas;
/// Messages between worlds, without sockets.
pub use bonfire_sync as replication;
pub use capture::{SaveOptions, SaveSummary};
pub use delta::{AppliedDelta, DeltaCapture, Mirrored};
pub use load::{LoadMode, Loaded};
pub use registry::{Bonfire, Saved};
pub use selection::{SaveScope, Selection};
pub use sync::{WorldMirror, WorldSource};
