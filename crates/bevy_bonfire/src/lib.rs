//! Saves and loads Bevy worlds at memory speed, for Bonfire, the save system for games.
//!
//! Goals, in order of importance:
//! 1. A save or load that fails changes nothing, in the world and on the disk.
//! 2. Everything registered comes back: hierarchy, references, relationships, resources, states,
//!    clocks, asset handles.
//! 3. Nothing is lost silently: saves name what they omit, loads report what they dropped.
//! 4. The game keeps running: a save costs the tick a copy of what has changed.
//!
//! ```rust
//! use bevy_app::prelude::*;
//! use bevy_bonfire::prelude::*;
//! use bevy_bonfire::store::{MemoryStore, Slots};
//! use bevy_ecs::prelude::*;
//! use std::time::Duration;
//!
//! #[derive(Component, Persist)]
//! #[require(Saved)] // every entity with Gold is saved
//! #[persist(key = "game.gold")] // its name in every save; never change it
//! struct Gold(u32);
//!
//! #[derive(Component, Persist)]
//! #[require(Saved)]
//! #[persist(key = "game.follows")]
//! struct Follows(Entity); // mapped to the new id on load
//!
//! fn quicksave(mut commands: Commands) {
//!     commands.save("quick"); // into a slot, which keeps the newest three
//! }
//! fn quickload(mut commands: Commands) {
//!     commands.load("quick"); // the newest good save; all or nothing
//! }
//! fn describe(mut starting: On<SaveStarting>) {
//!     starting.describe(|details| details.label("Before the dragon")); // for menus
//! }
//!
//! let slots = Slots::new(MemoryStore::new()); // a game: DirStore::for_app("Moon Studio", "Comet")?
//! let mut app = App::new();
//! app.add_plugins(
//!     BonfirePlugin::new()
//!         .slots(slots)
//!         .autosave(Autosave::every(Duration::from_secs(300)))
//!         .on_exit(ExitOptions::save("exit")),
//! )
//! .persist::<Gold>()
//! .persist::<Follows>()
//! .add_observer(describe);
//! # let (f5, f9) = (|| true, || false);
//! app.add_systems(Update, (quicksave.run_if(f5), quickload.run_if(f9)));
//! # app.update();
//! # let quick = app.world().resource::<Saves>().saver().load("quick");
//! # assert_eq!(quick.wait()?.info.label.as_deref(), Some("Before the dragon"));
//! # Ok::<(), bevy_bonfire::Error>(())
//! ```
//!
//! # What is saved
//!
//! A save contains every entity marked with [`Saved`], with those of its components that are
//! registered. With [`SaveScope::Persisted`] it contains every entity that has a registered
//! component of the game.
//!
//! | call | registers |
//! |---|---|
//! | [`persist::<T>()`](PersistExt::persist) | a component with `#[derive(Persist)]`; the fastest way |
//! | [`persist_relationship::<R>()`](PersistExt::persist_relationship) | a relationship, with its data and the order of its sources |
//! | [`persist_resource::<R>()`](PersistExt::persist_resource) | a resource |
//! | `persist_state::<S>()` | the current state; a load sets it by a transition |
//! | `persist_time()` | virtual and fixed time |
//! | `#[persist(with = AssetRef)]` | an asset handle in a field, as path with label or as UUID |
//! | `persist_handle_component::<C>()` | a component that is an asset handle |
//! | [`persist_serde::<T>()`](PersistExt::persist_serde) | a component that only has serde |
//! | `persist_reflect::<T>()` | a component that only has `Reflect` |
//! | [`persist_as::<T>(descriptor)`](PersistExt::persist_as) | a type of another crate, a custom codec, or other policies |
//! | [`persist_ignore`](PersistExt::persist_ignore) | nothing: the component is left out without a message |
//!
//! The plugin registers `Transform`, `Name`, `ChildOf`, `Disabled`, [`StableId`] and, with its
//! feature, `Visibility`.
//!
//! Fields can have any type that implements `Persist`: types of the standard library, other derived
//! types, and these of Bevy:
//!
//! | types | feature |
//! |---|---|
//! | `Entity`, `Name`, Bevy's hash maps and sets, `EntityHashMap`, `EntityIndexMap` and their sets | always |
//! | `Timer`, `Stopwatch` | `time` |
//! | `Transform`, vectors, matrices, quaternions, `Rect`, `Dir3`, `Rot2`, `Isometry3d` and similar | `transform` |
//! | `Color` and all colour spaces | `color` |
//! | `Circle`, `Cuboid` and other shapes, `Aabb3d` and other bounds, `Ray3d` | `shape` |
//!
//! `Children`, `GlobalTransform` and similar types are not saved, because Bevy creates them again.
//! The log names each unregistered component of a saved entity once, with the line to add.
//! Observers of [`SaveCaptured`] receive the same notes.
//!
//! # How a load works
//!
//! Everything that can fail happens first: the loader checks bytes, compares schemas, decodes every
//! value and maps references. Then it spawns all entities in batches. Hooks and observers run as
//! after any spawn; their commands run once all entities exist. Entities get new ids, and
//! [`Loaded::entity`] maps old ids to new ones. Use [`StableId`] for references that outlive a
//! process. [`SaveOptions::outside_references`] keeps references between saves, such as chunks, and
//! [`WorldSaveExt::unload`] removes entities that may come back.
//!
//! | case | behaviour |
//! |---|---|
//! | what happens to existing entities | [`LoadMode`]: `Replace`, `ReplaceSelected`, `Merge`, `Restore`, `RestoreSelected` |
//! | a reference to a missing entity | removed from lists, sets and maps, null elsewhere; other choices: [`Dangling`] |
//! | a value that cannot be encoded | omitted and noted; other choices: [`Unencodable`] |
//! | components of a removed mod | kept and written again; other choices: [`Unknown`] |
//! | a hook that reads other entities | [`load_late::<T>()`](PersistExt::load_late) |
//! | a hook that panics | the load is undone and reported |
//! | plugins with their own state | [`SaveStarting`], [`LoadStarting`], [`persist_data`](PersistExt::persist_data) |
//!
//! [`LoadMode::Restore`] goes back in time in place: it overwrites the values of existing entities,
//! spawns missing ones and despawns new ones. With [`Ticks::Differing`], only values that differ
//! count as changed.
//!
//! # Live saving
//!
//! With [`BonfirePlugin`], requests run at the end of the tick, in order. No call blocks. A worker
//! thread writes saves, and reads and decodes loads. A load enters the world in one frame or in
//! slices.
//!
//! | to do this | use |
//! |---|---|
//! | request saves and loads; progress, pause, status | [`Saves`], [`CommandsSaveExt`] |
//! | follow one request: poll, wait, await, cancel | [`SaveHandle`], [`LoadHandle`] |
//! | save by timer | [`Autosave`] |
//! | save on exit | [`ExitOptions`], [`SavedOnExit`] |
//! | stop the simulation while it is saved | [`SavePolicy`], [`SimulationSet`] |
//! | bound the time that a load takes per frame | [`LoadOptions`], [`SlicedLoad`] |
//! | order systems around captures and commits | [`SaveSystems`], in `Last` |
//! | start a new game | [`Saves::start_over`], [`StartedOver`] |
//! | rewind | [`Checkpoints`] |
//! | capture at the cost of what has changed | [`IncrementalCapture`] |
//! | save changes that change detection misses | [`changes_unseen::<T>()`](PersistExt::changes_unseen) |
//! | load one save of a slot by its number | [`LoadSource::generation`] |
//! | use the slots of another player | [`Saves::set_slots`] |
//!
//! [`store`] has menus of saves, several saves per name, fallback from damage, settings and
//! sealing. [`Saves::slots`] are the slots of the app. Their calls wait for the disk;
//! [`Saves::saver`] makes the same calls on its thread. Without the plugin,
//! `world.capture_with_events(&options)?` returns the snapshot that [`store::Slots::save`] takes,
//! and `world.load(&loaded.snapshot, mode)` loads what [`store::Slots::load`] returns.
//!
//! # Worlds in sync
//!
//! [`replicate`](replication::ReplicateExt::replicate) registers a component for sending, and
//! [`Replicated`](replication::Replicated) marks the entities.
//! [`ReplicationServerPlugin`](replication::ReplicationServerPlugin) produces messages, and
//! [`ReplicationClientPlugin`](replication::ReplicationClientPlugin) applies them; entities there
//! are [`Mirrored`](replication::Mirrored). The game's transport carries the bytes.
//! [`TwoApps`](replication::TwoApps) runs both in one process, for tests.
//! [`DeltaCapture`](replication::DeltaCapture) returns the changes of a world for other uses.
//!
//! # Worlds that stream
//!
//! With the feature `chunks`, `ChunkStreamPlugin` loads chunks with their entities around players, and saves what leaves.
//! Entities with `Streamed` belong to the chunk that they are in. A save in a slot has chunks and all other entities of one
//! moment. The module `chunks` lists its parts.
//!
//! # Saves of older builds
//!
//! Fields are matched by name. `#[persist(default = .., alias = .., removed = ..)]` describe
//! changes. A new version of a component is `#[persist(version = 2, from = HealthV1)]` with an
//! `impl From`, or an [`Upgrader`]. Whole worlds are migrated before any entity is spawned.
//!
//! | to do this | use |
//! |---|---|
//! | upgrade one component between versions | [`save_upgrader`](PersistExt::save_upgrader) |
//! | declare the version of the game, or of a plugin | [`save_track`](PersistExt::save_track) |
//! | migrate a saved world of an older version | [`save_migration`](PersistExt::save_migration) |
//! | check a save before loading it | [`preflight`] with [`save_registry`](WorldSaveExt::save_registry) |
//! | fail a test if old saves would no longer load | [`check_schemas`] |
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `asset` | yes | asset handles, saved as path or UUID; turns on `reflect` |
//! | `debug` | yes | names of components in messages |
//! | `reflect` | yes | components that only have `Reflect` |
//! | `state` | yes | states |
//! | `time` | yes | the virtual and the fixed clock; timers and stopwatches as fields |
//! | `transform` | yes | `Transform`; types of glam and `bevy_math` as fields |
//! | `chunks` | no | worlds of chunks that stream around players; brings in `bonfire_chunks` |
//! | `color` | no | colours as fields; brings in `bevy_color` |
//! | `diagnostics` | no | numbers of streaming chunks as Bevy's diagnostics; turns on `chunks`, brings in `bevy_diagnostic` |
//! | `shape` | no | shapes, bounding volumes and rays as fields; brings in `bevy_shape` |
//! | `visibility` | no | `Visibility`; brings in `bevy_camera` |
//! | `seal` | no | encrypted, tamper-evident or signed saves |
//!
//! The crate depends on Bevy's sub-crates only, without their default features. Version 0.1
//! supports Bevy 0.20.
//!
//! # More
//!
//! The guide is `docs/book` in the repository. The examples are programs without a window, named by
//! task: `quicksave`, `filter_and_transient`, `hierarchy_and_references`, `resources_and_states`,
//! `asset_handles`, `autosave_slots`, `loading_screen`, `rewind`, `evolving_saves`,
//! `replication_tcp`, `streaming_chunks`, `streaming_world`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod app;
mod builtin;
mod capture;
#[cfg(all(feature = "chunks", not(target_arch = "wasm32")))]
pub mod chunks;
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
mod unload;
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
#[cfg(not(target_arch = "wasm32"))]
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
pub use stable_id::{StableId, StableIds, StableRef, StandIn, Unresolved};
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

/// The code of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
