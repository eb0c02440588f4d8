#![doc = include_str!("../ENGINE.md")]

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
    StagedExtra,
};
pub use crate::row::RowLayout;
pub use crate::save_options::{CommonSaveOptions, check_game_key, game_data};
pub use crate::selection::{FromPredicate, FromQuery, Predicate, SaveScope, Selection};
pub use crate::snapshot::{Carry, RESERVED_PREFIX};
pub use crate::stable_id::{StableIdIndex, new_stable_id};
pub use crate::storage::crc::{append as checksum_append, checksum};
pub use crate::storage::{AlignedBuf, BLOCK_BYTES, Bitmap, BufferPool, COLUMN_ALIGN, DirtyRows, Rope};
