//! Values of living entities: found, compared and overwritten where they lie. For restores and deltas.

mod live_archetypes;
mod overwrite;
mod row_order;
mod structural_changes;

pub(crate) use self::live_archetypes::{compare, is_same_world};
pub(crate) use self::overwrite::{
    LiveColumn, LiveGroup, MatchedRows, differs, overwrite_one, resource_differs, touch_all,
};
pub(crate) use self::row_order::{SparseOrder, restore_row_order};
pub(crate) use self::structural_changes::{Insertion, StructuralChanges};
