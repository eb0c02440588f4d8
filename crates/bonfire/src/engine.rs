//! Names for front ends: crates that connect an engine to Bonfire, as `bevy_bonfire` and `bonfire_hecs` do.
//!
//! | part | the engine provides | Bonfire provides |
//! |---|---|---|
//! | registration | its component types | [`Registry`](crate::Registry) |
//! | capture | ids and columns of each archetype | [`SnapshotWriter`], a [`Snapshot`](crate::Snapshot) |
//! | load | a new id for each saved entity | [`LoadPlan`], [`Staged`] values to insert |
//! | restore | where each entity lies now: [`LiveWorld`] | [`LoadPlan::compare`], a [`Comparison`] |
//! | following | captures, or a list of changes | [`Delta`](crate::Delta), [`DeltaWriter`], [`DeltaIds`] |
//!
//! The first three parts make saving and loading work. The guide in the repository builds a whole front end in the chapter
//! "An engine of your own" (`docs/book/src/own-engine.md`).
//!
//! ```
//! use bonfire::engine::{EntityMap, LoadPlan, SnapshotWriter};
//! use bonfire::{EntityId, LoadOptions, Persist, Registry, Snapshot};
//!
//! #[derive(Persist)]
//! #[persist(key = "game.health")]
//! struct Health(f32);
//!
//! let registry = Registry::new().with::<Health>()?;
//! let mut writer = SnapshotWriter::new(&registry);
//! writer.archetype(&[EntityId::new(7, 1)])?.column(&[Health(3.5)])?;
//! let bytes = writer.finish()?.to_bytes()?;
//!
//! let snapshot = Snapshot::open(&bytes)?;
//! let snapshot = snapshot.migrated(&registry)?;
//! let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default())?;
//! let map = EntityMap::new(&plan.entities(), &[EntityId::new(0, 0)])?; // ids of the new world
//! let mut staged = plan.stage(&map, None)?; // the last step that may fail
//! let health = staged.archetypes[0].take::<Health>().unwrap().into_rows::<Health>()?;
//! assert_eq!(health[0].0, 3.5);
//! # Ok::<(), bonfire::Error>(())
//! ```

pub use crate::__checkpoints_methods as checkpoints_methods;
pub use crate::__index_methods as index_methods;
pub use crate::__save_options_methods as save_options_methods;
pub use crate::__stable_id_methods as stable_id_methods;
pub use crate::bulk::RawRows;
pub use crate::capture::{ArchetypeWriter, SnapshotWriter};
pub use crate::checkpoint::{Checkpoint, CheckpointRing};
pub use crate::delta::{
    ComponentTable, DeltaContents, DeltaIds, DeltaOp, DeltaSchema, DeltaScope, DeltaSeries, DeltaWriter,
    GroupKind, GroupWriter, LIST_ORDER_KEY, SavedOrder, SentValues, StagedChange, StagedDelta, StagedGroup,
};
pub use crate::descriptor::{History, StagedColumn, StagedRows};
pub use crate::entity::{EntityMap, WorldNumber};
pub use crate::error::{catch_panic, panic_error};
pub use crate::evolve::Resolution;
pub use crate::field_index::{FieldIndex, Key};
pub use crate::filter::{LAYER_COUNT, ResolvedFilter};
pub use crate::hooks::{DataCallbacks, DataHandler, FinishedLoad, Hooks, SaveExtras};
pub use crate::layout::{LEAVES_MAX, Layout, LayoutOf, Leaf, LeafCheck};
pub use crate::load::{
    Comparison, Deferred, LiveWorld, LoadPlan, Loaded, Resources, RowRun, Staged, StagedArchetype,
    StagedExtra, row_exchanges,
};
pub use crate::row::RowLayout;
pub use crate::save_options::{CommonSaveOptions, check_game_key, game_data};
pub use crate::selection::{FromPredicate, FromQuery, Predicate, SaveScope, Selection};
pub use crate::slices::Slices;
pub use crate::snapshot::{Carry, MOMENT_KEY, OUTSIDE_KEY, OutsideTarget, RESERVED_PREFIX};
pub use crate::stable_id::{StableIdIndex, new_stable_id};
pub use crate::storage::crc::{append as checksum_append, checksum};
pub use crate::storage::{AlignedBuf, BLOCK_BYTES, Bitmap, BufferPool, COLUMN_ALIGN, DirtyRows, Rope};
