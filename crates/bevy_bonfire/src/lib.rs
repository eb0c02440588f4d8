#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod app;
mod builtin;
mod capture;
mod delta;
mod index;
mod live;
mod load;
mod pending;
mod plugin;
mod registry;
pub mod replication;
mod selection;
mod stable_id;
mod world;

pub use app::PersistExt;
/// The core, for everything that this crate's root leaves out.
pub use bonfire as core;
#[doc(hidden)]
pub use bonfire::__private;
pub use bonfire::engine::SaveScope;
pub use bonfire::{
    Compression, Dangling, Descriptor, EncodeOptions, EntityId, Error, Filter, Limits, LoadContext,
    LoadReport, NonFinite, Result, Snapshot, Unencodable, Unknown, Upgrader, Value, WorldEdit, preflight,
};
// The trait without the derive of the same name: this crate has a derive of its own.
pub use bonfire::__private::Persist;
/// `#[derive(Persist)]`: see the core's documentation for its attributes. It looks for Bonfire in this crate.
pub use bonfire_derive::PersistInBevy as Persist;
/// Where saves lie: slots, directories, sealing.
pub use bonfire_store as store;
pub use bonfire_store::check_schemas;
pub use bonfire_store::{Details, Handle, LoadSource, SaveHandle, SaveReport, SaveTarget};
/// Messages between worlds, without sockets.
pub use bonfire_sync as sync;
#[cfg(feature = "asset")]
pub use builtin::asset::{AssetRef, SavedHandle};
#[cfg(feature = "state")]
pub use builtin::state::entered_by_load;
pub use capture::{IncrementalCapture, SaveCaptured, SaveFinished, SaveOptions, SaveStarting};
pub use index::Index;
pub use live::{
    Autosave, Checkpoints, ExitOptions, LoadHandle, SavePolicy, SaveSystems, SavedOnExit, Saves,
    SimulationSet,
};
pub use load::{LoadFinished, LoadMode, LoadOptions, LoadStarting, Loaded, SlicedLoad, StartedOver, Ticks};
pub use plugin::BonfirePlugin;
pub use selection::{Saved, SavedTree, Selection};
pub use stable_id::{StableId, StableIds, StableRef, Unresolved};
pub use world::{CommandsSaveExt, WorldSaveExt};

/// What a game imports.
pub mod prelude {
    pub use bonfire::RowOrder;
    pub use bonfire::engine::DataHandler;

    #[cfg(feature = "asset")]
    pub use crate::AssetRef;
    pub use crate::live::RewindExt;
    pub use crate::{
        Autosave, BonfirePlugin, CommandsSaveExt, ExitOptions, LoadFinished, LoadMode, LoadOptions,
        LoadStarting, Persist, PersistExt, SaveCaptured, SaveFinished, SaveOptions, SaveScope, SaveStarting,
        Saved, SavedTree, Saves, SimulationSet, StableId, StableIds, StableRef, Ticks, WorldSaveExt,
    };
}
