//! What is different between a saved type and the one that reads it, for people.

use std::fmt;

/// One difference that a load bridges.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SchemaChange {
    /// The save is older than this field: it gets its default.
    Added {
        /// The field, from the root of the value on.
        field: String,
    },
    /// This build does not have the field. It is carried for the next save if unknown things are kept.
    Unknown {
        /// The field, from the root of the value on.
        field: String,
    },
    /// This build knows that the field is no more: it is dropped. So are fields inside lists, maps and enums, and the last
    /// ones of a tuple, that this build does not have: there is no place where they could be carried.
    Dropped {
        /// The field, from the root of the value on.
        field: String,
    },
    /// The field or variant had another name.
    Renamed {
        /// The name in the save, from the root of the value on.
        from: String,
        /// The name here.
        to: String,
    },
    /// The type of the field is a wider one.
    Widened {
        /// The field, from the root of the value on.
        field: String,
        /// The type in the save.
        from: String,
        /// The type here.
        to: String,
    },
    /// This build does not have the variant: values that are of it are refused.
    VariantGone {
        /// The variant, from the root of the value on.
        variant: String,
    },
}

impl SchemaChange {
    /// Whether something of the save does not get into the world.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Dropped { .. })
    }
}

impl fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { field } => write!(f, "`{}` is new and gets its default", field.escape_debug()),
            Self::Unknown { field } => write!(f, "`{}` is not known to this build", field.escape_debug()),
            Self::Dropped { field } => write!(f, "`{}` is dropped", field.escape_debug()),
            Self::Renamed { from, to } => {
                write!(f, "`{}` is `{}` now", from.escape_debug(), to.escape_debug())
            }
            Self::Widened { field, from, to } => {
                write!(f, "`{}` was {from} and is {to}", field.escape_debug())
            }
            Self::VariantGone { variant } => {
                write!(
                    f,
                    "`{}` is no variant of this build: a value that is one is refused",
                    variant.escape_debug()
                )
            }
        }
    }
}
