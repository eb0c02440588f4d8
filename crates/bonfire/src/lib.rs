//! The core of Bonfire, the save system for games: a world as bytes that describe themselves.
//!
//! Goals, in order of importance:
//! 1. Never lose a player's world: every block has a checksum, damage stays in its block, unknown data is carried.
//! 2. Every save can be read by any tool, without the game's code: schemas are part of the save.
//! 3. As fast as memory: columns are copied, not walked, and opening a file copies nothing.
//! 4. Nothing to write per component but `#[derive(Persist)]`.
//!
//! This crate has no I/O, no clock, no threads and no ECS: it takes and returns bytes and plain data. Games use it
//! through a front end for their engine; an engine of one's own uses it as below.
//!
//! ```
//! use bonfire::{EntityId, LoadOptions, Persist, Registry, Snapshot};
//! use bonfire::engine::{EntityMap, LoadPlan, SnapshotWriter};
//!
//! #[derive(Persist)]
//! #[persist(key = "game.position")]
//! struct Position { x: f32, y: f32 }
//!
//! #[derive(Persist)]
//! #[persist(key = "game.follows")]
//! struct Follows(EntityId); // references are mapped on load
//!
//! let mut registry = Registry::new();
//! registry.register::<Position>()?;
//! registry.register::<Follows>()?;
//!
//! // Save: ids and columns, archetype by archetype.
//! let (wolf, sheep) = (EntityId::new(7, 1), EntityId::new(9, 0));
//! let mut writer = SnapshotWriter::new(&registry);
//! let mut archetype = writer.archetype(&[wolf, sheep])?;
//! archetype.column(&[Position { x: 0.0, y: 1.0 }, Position { x: 5.0, y: 1.0 }])?;
//! archetype.column_sparse(&[Some(&Follows(sheep)), None])?;
//! let bytes = writer.finish()?.to_bytes()?;
//!
//! // Load: new ids first, then everything that may fail, then the world.
//! let snapshot = Snapshot::open(&bytes)?;
//! let snapshot = snapshot.migrated(&registry)?;
//! let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default())?;
//! let map = EntityMap::new(&plan.entities(), &[EntityId::new(0, 0), EntityId::new(1, 0)])?;
//! let mut staged = plan.stage(&map, None)?;
//! let follows = staged.archetypes[0].take::<Follows>().expect("it was saved");
//! assert_eq!(follows.into_rows::<Follows>()?[0].0, EntityId::new(1, 0));
//! # Ok::<(), bonfire::Error>(())
//! ```
//!
//! The format is described byte by byte in FORMAT.md, the inside of the crate in ARCHITECTURE.md.

mod bulk;
mod capture;
mod checkpoint;
mod column;
mod context;
mod convert;
mod delta;
mod descriptor;
pub mod engine;
mod entity;
mod error;
mod evolve;
mod field_index;
mod filter;
mod hooks;
pub mod inspect;
mod layout;
mod limits;
mod load;
mod migration;
mod persist;
mod registry;
mod row;
mod save_options;
pub mod schema;
mod selection;
mod single_value;
mod snapshot;
mod stable_id;
mod storage;
#[cfg(feature = "json")]
mod table;
mod value;
mod watch;
mod wire;

#[cfg(feature = "derive")]
pub use bonfire_derive::Persist;
pub use context::{Dangling, LoadContext, SchemaChange};
pub use delta::{Delta, Granularity};
pub use descriptor::{Descriptor, Keyed, NonFinite, Repeats, Unencodable, Upgrader};
pub use entity::EntityId;
pub use error::{Error, Result};
pub use evolve::{LockProblem, SchemaLock};
pub use filter::Filter;
pub use limits::Limits;
pub use load::{ComponentReport, LoadOptions, LoadReport, Outcome, Preflight, RowOrder, Unknown, preflight};
pub use migration::{TrackState, WorldEdit};
pub use persist::{Adapter, AsText, Persist};
pub use registry::Registry;
pub use single_value::{decode_one, decode_one_in, encode_one};
pub use snapshot::{Compression, Damage, DataEntry, EncodeOptions, Note, OpenOptions, Snapshot};
pub use value::Value;
#[cfg(feature = "serde")]
pub use value::{Serde, from_value, to_value};
pub use watch::Watch;
pub use wire::{Reader, Writer};

/// The parts of the core that `#[derive(Persist)]` and macros name in their code.
#[doc(hidden)]
pub mod __private {
    pub use crate::context::LoadContext;
    pub use crate::descriptor::field_default::{
        DefaultOf, DefaultThrough, HasDefault, NoDefault, check_from,
    };
    pub use crate::descriptor::keyed::{ComposedKey, all_keys, compose_aliases};
    pub use crate::descriptor::{History, Keyed};
    pub use crate::error::{Error, Result};
    pub use crate::field_index::Key;
    pub use crate::layout::{Layout, LayoutOf};
    pub use crate::persist::{Adapter, Persist};
    pub use crate::save_options::game_data;
    pub use crate::schema::{Field, Fields, Node, SchemaBuilder, Type, Variant};
    pub use crate::stable_id::new_stable_id;
    pub use crate::wire::{Reader, Writer};
    pub use crate::{
        __layout_of as layout_of, __struct_layout as struct_layout, __unit_enum_layout as unit_enum_layout,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The documentation of the derive, whose crate cannot use this one.
#[cfg(doctest)]
#[doc = include_str!("../../bonfire_derive/ATTRIBUTES.md")]
struct Attributes;
