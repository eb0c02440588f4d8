//! Saves and loads [hecs](https://docs.rs/hecs) worlds at memory speed, for Bonfire, the save
//! system for games.
//!
//! Goals, in order of importance:
//! 1. A save or load that fails changes nothing, in the world and on the disk.
//! 2. Values and references come back, in any order and in cycles.
//! 3. On request every id comes back too, down to the next one that the world assigns.
//!
//! ```rust
//! use bonfire_hecs::{Bonfire, LoadMode, Persist, SaveOptions};
//! use hecs::{Entity, World};
//!
//! #[derive(Persist)]
//! #[persist(key = "game.health")] // its name in every save; never change it
//! struct Health(f32);
//!
//! #[derive(Persist)]
//! #[persist(key = "game.follows")]
//! struct Follows(Entity); // mapped to the new id on load
//!
//! let mut world = World::new();
//! let wolf = world.spawn((Health(3.5),));
//! world.spawn((Health(1.0), Follows(wolf)));
//!
//! let mut bonfire = Bonfire::new(); // one per world
//! bonfire.persist::<Health>()?.persist::<Follows>()?;
//! let save = bonfire.capture(&world, &SaveOptions::new())?; // a snapshot in memory
//! let loaded = bonfire.load(&mut world, &save, LoadMode::Replace)?; // all or nothing
//!
//! let wolf = loaded.entity(wolf).expect("it was saved"); // entities have new ids
//! assert_eq!(world.get::<&Health>(wolf)?.0, 3.5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Calls by task
//!
//! | to do this | call |
//! |---|---|
//! | save a component | [`persist::<T>()`](Bonfire::persist) with `#[derive(Persist)]`; the fastest way |
//! | save a component that only has serde | [`persist_serde::<T>(key)`](Bonfire::persist_serde) |
//! | save a type of another crate, or in another form | [`persist_as::<T>(descriptor)`](Bonfire::persist_as) |
//! | omit a component, but not its entity | `#[persist(transient)]`, or do not register it |
//! | save to memory | [`capture`](Bonfire::capture) (no hooks), [`capture_with_hooks`](Bonfire::capture_with_hooks) |
//! | save to a file | [`save_to`](Bonfire::save_to) |
//! | save to a slot | [`capture_with_hooks`](Bonfire::capture_with_hooks), then [`store::Slots::save`] |
//! | load from a slot | [`store::Slots::load`], then [`load`](Bonfire::load) |
//! | save only marked entities | [`SaveScope::Marked`] and the component [`Saved`] |
//! | save some entities | [`SaveOptions::filter`] by key and layer, [`SaveOptions::matching`] by a query |
//! | omit entities | [`SaveOptions::exclude`], or [`SaveExtras::exclude`] in a hook, by any component |
//! | find an entity again, in any process | [`StableId`], [`StableRef`], [`Bonfire::stable_ids`] |
//! | keep references between saves, such as chunks | [`SaveOptions::outside_references`], [`Bonfire::unload`] |
//! | find entities by a field | [`Bonfire::index_by`], [`Bonfire::index`] |
//! | capture repeatedly in little memory | [`IncrementalCapture`] |
//! | rewind, roll back | [`Checkpoints`] |
//! | save a value that exists once | [`SaveOptions::resource`], then [`Loaded::take_resource`] |
//! | save state of plugins | [`Bonfire::hooks`]: `on_save`, `on_load`, `on_finish`, `handler` |
//! | name a save | [`SaveOptions::metadata`], readable without the rest |
//! | find NaN before it is saved | [`persist_non_finite`](Bonfire::persist_non_finite) |
//! | learn what a load did | [`Loaded::report`]: loaded, carried, dropped, dangling references |
//!
//! By default a save contains every entity that has a registered component.
//!
//! # Load modes
//!
//! | mode | existing entities | ids |
//! |---|---|---|
//! | [`LoadMode::Replace`] | all saved ones are replaced | new; old handles find nothing |
//! | [`LoadMode::ReplaceSelected`] | selected ones are replaced | new |
//! | [`LoadMode::Merge`] | stay | new |
//! | [`LoadMode::SameIds`] | all saved ones are replaced | those of the save, and the next ones too |
//! | [`LoadMode::Restore`] | go back in time in place | kept; [`Loaded::respawned`] lists new ones |
//! | [`LoadMode::RestoreSelected`] | selected ones go back | kept; [`Loaded::respawned`] lists new ones |
//!
//! Everything that can fail happens before the world changes: the loader checks bytes, compares
//! schemas, decodes every value and maps references. `Restore` overwrites values in place.
//! Unregistered and transient components stay on existing entities.
//!
//! | case | behaviour |
//! |---|---|
//! | a reference to a missing entity | removed from lists, sets and maps; other choices: [`Dangling`] |
//! | the same outside of collections | [`Entity::DANGLING`](hecs::Entity::DANGLING) or `None` |
//! | a value that cannot be encoded | omitted and noted; other choices: [`Unencodable`] |
//! | components and data of a removed mod | kept and written again; other choices: [`Unknown`] |
//! | `SameIds` beside unsaved entities | they keep their ids; an error if one has the slot of a saved entity |
//! | `SameIds` with a save of another engine | an error: generations of hecs begin with 1 |
//!
//! # Stable ids and indexes
//!
//! An `Entity` is valid in one world. A [`StableId`] identifies the same entity in every process
//! and every save. A [`StableRef`] can wait for a target that is not loaded yet. hecs gives no
//! notice when components are added or removed. So indexes are updated after every load, and by
//! [`update_indexes`](Bonfire::update_indexes):
//!
//! ```rust
//! use bonfire_hecs::{Bonfire, LoadMode, Persist, SaveOptions, StableId, StableRef};
//!
//! #[derive(Persist)]
//! #[persist(key = "game.key")]
//! struct Key {
//!     opens: StableRef,
//!     name: String,
//! }
//!
//! let (mut world, mut bonfire) = (hecs::World::new(), Bonfire::new());
//! bonfire.persist::<Key>()?.index_by(|key: &Key| key.name.clone());
//! let door = StableId::new();
//! world.spawn((Key { opens: door.into(), name: "rusty".into() }, StableId::new()));
//! let save = bonfire.capture(&world, &SaveOptions::new())?;
//!
//! bonfire.load(&mut world, &save, LoadMode::Replace)?; // other ids, and the indexes know them
//! let key = bonfire.index::<Key, String>()?.require(&"rusty".into())?;
//! let opens = world.get::<&Key>(key)?.opens;
//! assert!(opens.resolve(bonfire.stable_ids()).is_err()); // there is no door yet
//! let entity = world.spawn((door,));
//! bonfire.update_indexes(&world); // the game has spawned something
//! assert_eq!(opens.resolve(bonfire.stable_ids()), Ok(entity));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rewind
//!
//! [`Checkpoints`] is a ring of the last captures, which share unchanged memory. A rewind restores
//! values, ids, generations and the next ids, so a rollback can simulate the same ticks again.
//! State of plugins comes back through [`Bonfire::hooks`]. The game must drop handles that it took
//! since.
//!
//! ```rust
//! use bonfire_hecs::{Bonfire, Checkpoints, Persist};
//!
//! #[derive(Persist)]
//! #[persist(key = "game.health")]
//! struct Health(u32);
//!
//! let (mut world, mut bonfire) = (hecs::World::new(), Bonfire::new());
//! bonfire.persist::<Health>()?;
//! let wolf = world.spawn((Health(3),));
//! let mut checkpoints = Checkpoints::new(60); // the last sixty ticks
//! checkpoints.take(&mut bonfire, &world, 1)?;
//! world.despawn(wolf)?;
//! let sheep = world.spawn((Health(9),));
//! checkpoints.rewind(&mut bonfire, &mut world, 1)?;
//! assert_eq!(world.get::<&Health>(wolf)?.0, 3); // the same id
//! assert!(!world.contains(sheep));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Worlds in sync
//!
//! Only components registered for it are sent.
//!
//! | call | sends |
//! |---|---|
//! | [`replicate::<T>()`](Bonfire::replicate) | a component that is also saved |
//! | [`replicate_only`](Bonfire::replicate_only) | a component that is not saved |
//! | [`replicate_as`](Bonfire::replicate_as) | a component in another form than its saved one |
//! | [`replicate_persisted`](Bonfire::replicate_persisted) | everything that is saved |
//!
//! hecs has no change detection, so [`DeltaCapture`](replication::DeltaCapture) compares a world
//! with its previous state. [`WorldSource`](replication::WorldSource) connects a world to a
//! [`StreamServer`](sync::StreamServer). [`WorldMirror`](replication::WorldMirror) connects one to
//! an [`Inbox`](sync::Inbox) and its [`Receiver`](sync::Receiver). The other side can be hecs, Bevy
//! or your own engine. The server answers each client within a budget, and the mirror has limits.
//!
//! ```rust
//! use bonfire_hecs::sync::{ClientId, Inbox, InboxLimits, Receiver, StreamOptions, StreamServer};
//! use bonfire_hecs::{Bonfire, Persist, SaveOptions};
//! use bonfire_hecs::replication::{DeltaCapture, WorldMirror, WorldSource};
//!
//! #[derive(Persist)]
//! #[persist(key = "game.health")]
//! struct Health(f32);
//!
//! fn registered() -> bonfire_hecs::Result<Bonfire> { // the same on both sides
//!     let mut bonfire = Bonfire::new();
//!     bonfire.persist::<Health>()?.replicate::<Health>()?;
//!     Ok(bonfire)
//! }
//!
//! let (bonfire, mut world, options) = (registered()?, hecs::World::new(), SaveOptions::new());
//! let mut deltas = DeltaCapture::of_replication();
//! let mut server = StreamServer::new(StreamOptions::new(7)); // a random number, in a game
//! server.connect(ClientId(1));
//! let (there, mut mirror) = (registered()?, hecs::World::new());
//! let mut receiver = Receiver::new(WorldMirror::new(&there, &mut mirror).table().clone());
//! let mut inbox = Inbox::new(InboxLimits::default());
//!
//! let wolf = world.spawn((Health(3.0),));
//! for health in [3.0, 2.0] {
//!     world.get::<&mut Health>(wolf).unwrap().0 = health;
//!     let deltas = &mut deltas;
//!     let mut source = WorldSource { bonfire: &bonfire, world: &world, options: &options, deltas };
//!     server.tick(&mut source)?;
//!     for (_client, message) in server.take_messages() {
//!         inbox.receive(message)?; // over a network, in a game
//!     }
//!     inbox.begin_frame();
//!     let mut mirror = WorldMirror::new(&there, &mut mirror);
//!     while let Some(applied) = inbox.apply_next(&mut receiver, &mut mirror) {
//!         applied?;
//!     }
//!     if let Some(request) = inbox.take_request(&receiver)? { // a message was lost
//!         server.receive(ClientId(1), &request)?;
//!     }
//! }
//! let here = receiver.entity(wolf.into()).unwrap();
//! assert_eq!(mirror.get::<&Health>(here.into()).unwrap().0, 2.0);
//! # Ok::<(), bonfire_hecs::Error>(())
//! ```
//!
//! # Saves of older builds
//!
//! Fields are matched by name. `#[persist(default = .., alias = .., removed = ..)]` describe
//! changes. A new version of a component is `#[persist(version = 2, from = HealthV1)]` with an
//! `impl From`, or an [`Upgrader`] passed to [`Bonfire::upgrade`]. Whole worlds are migrated before
//! any entity is spawned: [`Bonfire::track`] and [`Bonfire::migration`]. [`check_schemas`] fails a
//! test if old saves would no longer load.
//!
//! # Differences from the Bevy front end
//!
//! hecs is a world and nothing else, and so is this crate:
//!
//! - **No component hooks, no observers.** A load calls only [`Bonfire::hooks`], when the world is
//!   complete.
//! - **No relationships.** A parent is a component with an `Entity`. Despawning it does not despawn
//!   its children. A load that replaces the parent but not the child leaves the child with a stale
//!   handle.
//! - **No resources.** Pass values that exist once to each save, and take them from the loaded
//!   result.
//! - **No change ticks.** [`IncrementalCapture`] and [`Checkpoints`] compare bytes. A selection
//!   chooses whole archetypes, or rows by layer.
//! - **No required marks.** A hecs world holds only what the game spawned, so every entity with a
//!   registered component is saved.
//! - **Errors instead of panics.** Registration returns a `Result`. Two types under one key are an
//!   error that names both.
//!
//! Saves of both crates load in each other where keys and fields are equal. Register what Bevy
//! saves as `bevy.name` or `bevy.child_of` by a descriptor; the rest is carried.
//!
//! **Row order.** Archetypes are written in the order in which the world created them, and rows in
//! the order in which they lie. So the same world produces the same bytes. Unregistered components
//! are part of an archetype's identity. A loaded world has fewer archetypes if only such components
//! distinguished them, and queries then visit entities in another order. Sort by id if that
//! matters.
//!
//! **Borrows.** A capture borrows `&World`, and the columns of registered components one at a time,
//! as `world.query::<&T>()` would. It panics if another borrow holds `&mut` to one of them, as a
//! query does. It does not touch unregistered components. The snapshot borrows nothing, so the
//! world can change while a thread writes it to disk. Its memory comes from a pool in the
//! `Bonfire`, and returns there when the snapshot is dropped.
//!
//! **Reserved ids.** Ids from [`World::reserve_entity`](hecs::World::reserve_entity) that are not
//! flushed are not entities yet. Call [`World::flush`](hecs::World::flush) before a save that will
//! be loaded with `SameIds`. A load flushes by itself.
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `seal` | no | encrypted, tamper-evident or signed saves |
//!
//! Version 0.1 supports hecs 0.11.
//!
//! # More
//!
//! The guide is `docs/book` in the repository. The example `headless_server` is a server that
//! restarts with the ids that its clients have. `streaming_goats` has chunks with creatures that
//! come and go around a player. `save_slots` has a menu of saves, settings, a
//! damaged save and a recovery save after a crash.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod capture;
mod checkpoint;
mod column;
mod delta;
#[cfg(not(target_arch = "wasm32"))]
mod file;
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
mod unload;

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
#[cfg(not(target_arch = "wasm32"))]
pub use bonfire_store::check_schemas;
pub use bonfire_store::{SaveReport, SaveTarget};
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
pub use stable_id::{StableId, StableIds, StableRef, StandIn, Unresolved};

/// The code of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
