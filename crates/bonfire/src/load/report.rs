//! What a load did. Silent loss is an error, so everything that is not plainly loaded is listed.

use crate::error::Error;
use crate::snapshot::Damage;

/// What a load did with everything it met.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// How many entities were loaded.
    pub entities: usize,
    /// Every component and resource of the save.
    pub components: Vec<ComponentReport>,
    /// Keys of data entries that no callback asked for: carried, or dropped if unknown data is dropped.
    pub unclaimed_data: Vec<String>,
    /// What callbacks reported after the world was changed.
    pub callback_errors: Vec<Error>,
    /// What a salvaged file had lost.
    pub damage: Damage,
}

impl LoadReport {
    /// The line about a component.
    pub fn component(&self, key: &str) -> Option<&ComponentReport> {
        self.components.iter().find(|report| report.key == key)
    }

    /// Whether everything in the save is in the world now.
    pub fn is_complete(&self) -> bool {
        self.damage.is_empty()
            && self.callback_errors.is_empty()
            && self.unclaimed_data.is_empty()
            && self
                .components
                .iter()
                .all(|report| report.outcome.is_loaded() && report.dangling == 0 && report.left_out == 0)
    }
}

/// What a load did with one component.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentReport {
    /// Its key.
    pub key: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How many values it has.
    pub rows: usize,
    /// How many references in them point to nothing.
    pub dangling: u64,
    /// How many values were left out, because of such references or by a custom codec.
    pub left_out: usize,
}

/// What became of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is loaded.
    Loaded,
    /// It is loaded, field by field.
    OtherLayout,
    /// It had been carried by a build that did not know it, and is back.
    Restored,
    /// It is unknown and carried for the next save.
    Carried,
    /// It is unknown and was dropped.
    Dropped,
    /// It was dropped because this build never saves it.
    Transient,
}

impl Outcome {
    /// Whether the values are in the world.
    pub fn is_loaded(self) -> bool {
        matches!(self, Self::Loaded | Self::OtherLayout | Self::Restored)
    }
}
