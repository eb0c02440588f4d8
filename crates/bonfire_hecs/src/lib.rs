#![doc = include_str!("../README.md")]

mod capture;
mod column;
mod delta;
mod free_ids;
mod load;
mod registration;
mod registry;
pub mod replication;
mod selection;

/// The core, for everything that this crate's root leaves out.
pub use bonfire as core;
#[doc(hidden)]
pub use bonfire::__private;
pub use bonfire::{
    AsText, Compression, Dangling, Descriptor, EncodeOptions, EntityId, Error, Filter, Limits, LoadContext,
    LoadReport, NonFinite, Registry, Result, Snapshot, Unencodable, Unknown, Upgrader, Value, WorldEdit,
    preflight,
};
// The trait without the derive of the same name: this crate has a derive of its own.
pub use bonfire::__private::Persist;
pub use bonfire::engine::{Carry, DataCallbacks, FinishedLoad, Hooks, SaveExtras, SaveScope};
/// `#[derive(Persist)]`: see the core's documentation for its attributes. It looks for Bonfire in this crate.
pub use bonfire_derive::PersistInHecs as Persist;
/// Where saves lie: slots, directories, sealing.
pub use bonfire_store as store;
pub use bonfire_store::{SaveReport, SaveTarget, check_schemas};
/// Messages between worlds, without sockets.
pub use bonfire_sync as sync;
pub use capture::SaveOptions;
pub use load::{LoadMode, LoadOptions, Loaded};
pub use registration::Bonfire;
pub use registry::Saved;
pub use selection::Selection;
