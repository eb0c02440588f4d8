#![doc = include_str!("../README.md")]

mod capture;
mod checkpoint;
mod column;
mod delta;
mod free_ids;
mod identity;
mod incremental;
mod index;
mod load;
mod mark;
mod registration;
mod registry;
pub mod replication;
mod selection;
mod stable_id;

/// The core, for everything that this crate's root leaves out.
pub use bonfire as core;
#[doc(hidden)]
pub use bonfire::__private;
pub use bonfire::{
    AsText, Compression, Dangling, Descriptor, EncodeOptions, EntityId, Error, Filter, Limits, LoadContext,
    LoadReport, NonFinite, Registry, Result, RowOrder, SaveContext, Snapshot, Unencodable, Unknown, Upgrader,
    Value, WorldEdit, preflight,
};
// The trait without the derive of the same name: this crate has a derive of its own.
pub use bonfire::__private::Persist;
pub use bonfire::engine::{Carry, DataCallbacks, FinishedLoad, Hooks, Key, SaveExtras, SaveScope};
/// `#[derive(Persist)]`: see the core's documentation for its attributes. It looks for Bonfire in this crate.
pub use bonfire_derive::PersistInHecs as Persist;
/// Where saves lie: slots, directories, sealing.
pub use bonfire_store as store;
pub use bonfire_store::{SaveReport, SaveTarget, check_schemas};
/// Messages between worlds, without sockets.
pub use bonfire_sync as sync;
pub use capture::SaveOptions;
pub use checkpoint::Checkpoints;
pub use incremental::IncrementalCapture;
pub use index::Index;
pub use load::{LoadMode, LoadOptions, Loaded};
pub use mark::Saved;
pub use registration::Bonfire;
pub use selection::Selection;
pub use stable_id::{StableId, StableIds, StableRef, Unresolved};
