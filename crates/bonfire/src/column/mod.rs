//! A column of a snapshot: the rows of one component, which entities have one, and how the rows are stored.
//!
//! | file | |
//! |---|---|
//! | `component` | the component that a column belongs to: key, version, schema |
//! | `groups` | encoded rows in groups that each fit a block |
//! | `arena` | the memory that a capture writes columns into |
//! | `dense` | rows of any column as encoded values, for everything that is not in a hurry |
//! | `references` | the entities that values refer to |

mod arena;
mod component;
mod dense;
mod groups;
mod references;

pub(crate) use self::arena::{Arena, SealedArena, Slot};
pub use self::component::{ColumnKind, Component};
pub(crate) use self::dense::{DenseRows, column_from, dense_rows, plain_column_from, remap, transform};
pub(crate) use self::groups::{Group, GroupCutter, Groups, group_rows, row_spans};
pub(crate) use self::references::{column_references, only_leaf, value_references};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::storage::{Bitmap, Rope};

/// The rows of one component in one archetype.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) component: u32,
    /// Which of the archetype's rows have a value; `None` if all have.
    pub(crate) present: Option<Bitmap>,
    /// How many have one.
    pub(crate) rows: usize,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// No bytes.
    Tag,
    /// `rows` times the component's stride.
    Raw(Rope),
    /// Encoded values one after the other.
    Rows(Groups),
    /// Each distinct value once, and per row which one.
    Dictionary { values: Groups, indices: Indices },
    /// Per row which value of a table that all archetypes share.
    Shared { table: u32, indices: Indices },
}

impl Body {
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Self::Tag => "tag",
            Self::Raw(_) => "raw",
            Self::Rows(_) => "rows",
            Self::Dictionary { .. } => "dictionary",
            Self::Shared { .. } => "shared",
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Tag => 0,
            Self::Raw(rope) => rope.len(),
            Self::Rows(groups) => groups.bytes.len(),
            Self::Dictionary { values, indices } => values.bytes.len() + indices.bytes.len(),
            Self::Shared { indices, .. } => indices.bytes.len(),
        }
    }
}

/// Small numbers, one per row, with as few bytes as the largest needs.
#[derive(Clone, Debug)]
pub(crate) struct Indices {
    pub(crate) width: u8,
    pub(crate) bytes: Bytes,
}

impl Indices {
    /// Bytes per number when the largest is below `count`.
    pub(crate) fn width_for(count: usize) -> u8 {
        match count {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        }
    }

    pub(crate) fn encode(numbers: &[u32], width: u8) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes().into_iter().take(usize::from(width))).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.bytes.chunks_exact(usize::from(self.width)).map(|bytes| {
            let mut number = [0; 4];
            number[..bytes.len()].copy_from_slice(bytes);
            u32::from_le_bytes(number)
        })
    }

    pub(crate) fn check(&self, rows: usize) -> Result<()> {
        if !matches!(self.width, 1 | 2 | 4) || self.bytes.len() != rows * usize::from(self.width) {
            let (bytes, width) = (self.bytes.len(), self.width);
            return Err(Error::corrupt(format!("{bytes} bytes are not {rows} numbers of {width} bytes")));
        }
        Ok(())
    }
}
