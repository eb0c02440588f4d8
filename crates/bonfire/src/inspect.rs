//! Looking into saves without the game's code: for tools, support staff and modders.
//!
//! Start with [`Snapshot::open`](crate::Snapshot::open); its methods return the views below. [`FileHead`] reads the first bytes
//! of a file alone, and [`preflight`](crate::preflight()) tells what a load would do.

pub use crate::column::{ColumnKind, Component};
pub use crate::delta::{ColumnChange, DeltaStats, GroupView};
pub use crate::snapshot::{
    ArchetypeView, ColumnView, DamagedBlock, DamagedPart, FORMAT_VERSION, FileHead, Prelude, SectionInfo,
};
pub use crate::value::{decode_value, encode_value};
