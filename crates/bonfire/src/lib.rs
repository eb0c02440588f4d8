//! The core of Bonfire, the save system for games: turns a world into bytes that describe
//! themselves, and back.
//!
//! Goals, in order of importance:
//! 1. Never lose a player's world: every block has a checksum, damage stays in its block, unknown
//!    data is carried.
//! 2. Any tool can read every save without the game's code: schemas are part of the save.
//! 3. As fast as memory: columns are copied whole, and opening a file copies nothing.
//! 4. A component needs only `#[derive(Persist)]`.
//!
//! This crate has no I/O, no clock, no threads and no ECS. It takes and returns bytes and plain
//! data. Games use it through a front end: `bevy_bonfire` or `bonfire_hecs`. Your own engine uses
//! it directly:
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
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `derive` | yes | `#[derive(Persist)]` |
//! | `lz4` | yes | reads and writes LZ4-compressed sections |
//! | `json` | yes | the JSON table format; turns on `serde` |
//! | `serde` | yes, by `json` | components and fields whose types only have serde |
//! | `zstd` | no | reads and writes zstd-compressed sections; links the C library |
//! | `glam_0_33` | no | vectors, quaternions and matrices of glam as fields |
//! | `hecs_0_11` | no | `Entity` of hecs as a field |
//! | `bevy_ecs_0_20` | no | `Entity` of Bevy, collections of it, `Name` and Bevy's hash maps as fields |
//! | `bevy_math_0_20` | no | rectangles, directions, rotations and poses of Bevy; turns on `glam_0_33` |
//! | `bevy_transform_0_20` | no | `Transform` of Bevy; turns on `glam_0_33` |
//! | `bevy_time_0_20` | no | timers and stopwatches of Bevy |
//! | `bevy_color_0_20` | no | colours of Bevy |
//! | `bevy_shape_0_20` | no | shapes, bounding volumes and rays of Bevy; turns on `bevy_math_0_20` |
//!
//! No feature changes written bytes. A save that needs a missing codec is an error that names the
//! feature. Features with a version in their name implement [`Persist`] for types of another crate;
//! front ends turn on those that they need.
//!
//! # More
//!
//! FORMAT.md in the repository describes every byte, ARCHITECTURE.md the modules of this crate.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
mod slices;
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
pub use context::{Dangling, LoadContext, SaveContext, SchemaChange};
pub use delta::{Delta, Granularity};
pub use descriptor::{Codec, Descriptor, Keyed, NonFinite, Repeats, Unencodable, Upgrader};
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

/// The documentation of the derive, whose crate cannot use this one.
#[cfg(doctest)]
#[doc = include_str!("../../bonfire_derive/ATTRIBUTES.md")]
struct Attributes;

/// The code of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
