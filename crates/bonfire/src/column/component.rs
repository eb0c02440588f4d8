//! A component as a snapshot describes it, without its Rust type.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::row::RowLayout;
use crate::schema::{Fingerprint, Schema};

/// A component as a snapshot describes it.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name, chosen by the game.
    pub key: String,
    /// The version it was saved with.
    pub version: u32,
    /// How its type is stored.
    pub kind: ColumnKind,
    /// Stands for the schema.
    pub schema_fingerprint: Fingerprint,
    /// The layout of raw rows; its stride is 0 if there are none.
    pub row: RowLayout,
    pub(crate) schema: Option<Arc<Schema>>,
}

impl Component {
    /// What a value is made of. Fails if the snapshot names its schema by hash and nobody knows it.
    pub fn schema(&self) -> Result<&Arc<Schema>> {
        self.schema.as_ref().ok_or_else(|| {
            let hash = self.schema_fingerprint;
            Error::unknown(format!("its schema is saved by hash only ({hash}), and no table at hand has it"))
                .in_key(&self.key)
        })
    }

    /// Permits rows to be copied as they are.
    pub fn layout_fingerprint(&self) -> Fingerprint {
        self.row.fingerprint(self.schema_fingerprint)
    }
}

/// How a component's columns are stored, as its type decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnKind {
    /// Presence only.
    Tag,
    /// Every byte of the value is saved: one copy per column.
    Plain,
    /// Fixed-size fields with gaps: gathered and scattered.
    Strided,
    /// Everything else that the derive understands: encoded row by row.
    Rows,
    /// A type known through serde or reflection only: values that carry their own types.
    Value,
    /// The game's own functions.
    Custom,
}

impl ColumnKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Tag, Self::Plain, Self::Strided, Self::Rows, Self::Value, Self::Custom];

    /// The name that tools show.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tag => "tag",
            Self::Plain => "plain",
            Self::Strided => "strided",
            Self::Rows => "rows",
            Self::Value => "value",
            Self::Custom => "custom",
        }
    }
}
