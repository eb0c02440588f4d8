//! What a load did. Silent loss is an error, so everything that is not plainly loaded is listed.

use std::collections::HashSet;
use std::fmt;

use crate::context::SchemaChange;
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
    /// How data that callbacks read through the load differed from what they asked for, by key.
    pub data_changes: Vec<(String, SchemaChange)>,
    /// Fields of saved values that migrations of the game have read as types without them and then taken away or replaced,
    /// by key.
    pub migration_changes: Vec<(String, SchemaChange)>,
    /// What callbacks reported after the world was changed.
    pub callback_errors: Vec<Error>,
    /// Stable ids of loaded entities that other entities of the world have, too: references lead to the loaded ones. Loads that
    /// replace what they load twice have none.
    pub duplicate_stable_ids: Vec<u64>,
    /// Keys of resources that the world has and the save does not. They are as they were. Worlds without resources have none.
    pub resources_not_saved: Vec<String>,
    /// What a salvaged file had lost.
    pub damage: Damage,
}

impl LoadReport {
    /// The line about a component.
    pub fn component(&self, key: &str) -> Option<&ComponentReport> {
        self.components.iter().find(|report| report.key == key)
    }

    /// Returns true if the player has everything back that the save has. Stale references do not count: what they referred to
    /// was gone when the world was saved, or was left out of the save. [`stale_references`](Self::stale_references) counts them.
    pub fn is_complete(&self) -> bool {
        self.losses().is_empty()
    }

    /// How many references in the save lead to nothing, in all components.
    pub fn stale_references(&self) -> u64 {
        self.components.iter().map(|line| line.dangling).sum()
    }

    /// Everything of the save that is not in the world now, a line each.
    pub fn losses(&self) -> Vec<String> {
        let mut losses: Vec<String> = self.components.iter().flat_map(ComponentReport::losses).collect();
        let unclaimed =
            self.unclaimed_data.iter().map(|key| format!("no callback asked for the data `{key}`"));
        losses.extend(unclaimed);
        let changed = self.data_changes.iter().filter(|(_, change)| change.is_loss());
        losses.extend(changed.map(|(key, change)| format!("data `{key}`: {change}")));
        let migrated = self.migration_changes.iter().filter(|(_, change)| change.is_loss());
        losses.extend(migrated.map(|(key, change)| format!("`{key}`, by a migration: {change}")));
        losses.extend(self.callback_errors.iter().map(ToString::to_string));
        if !self.damage.is_empty() {
            losses.push(format!("the file was damaged: {:?}", self.damage));
        }
        losses
    }
}

impl ComponentReport {
    /// Adds fields of values that this build does not have.
    pub(super) fn note_lost(&mut self, fields: impl IntoIterator<Item = String>) {
        self.note_changes(fields.into_iter().map(|field| SchemaChange::Dropped { field }));
    }

    /// Adds changes that are not listed yet.
    pub(super) fn note_changes(&mut self, changes: impl IntoIterator<Item = SchemaChange>) {
        let mut changes = changes.into_iter().peekable();
        if changes.peek().is_none() {
            return;
        }
        let mut listed: HashSet<SchemaChange> = self.changes.iter().cloned().collect();
        self.changes.extend(changes.filter(|change| listed.insert(change.clone())));
    }

    /// Returns true if all of it is in the world now. Stale references do not count: see [`LoadReport::is_complete`].
    pub fn is_complete(&self) -> bool {
        self.losses().is_empty()
    }

    fn losses(&self) -> Vec<String> {
        let Self { key, outcome, rows, dangling, left_out, changes } = self;
        let mut losses = Vec::new();
        if !outcome.is_loaded() {
            losses.push(format!("`{key}`: {rows} {outcome}"));
        }
        // Values without a target are left out, too.
        if *left_out as u64 > *dangling {
            losses.push(format!("`{key}`: {left_out} left out"));
        }
        let changes = changes.iter().filter(|change| change.is_loss());
        losses.extend(changes.map(|change| format!("`{key}`: {change}")));
        losses
    }
}

/// One line per component, and one for each of its changes.
impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.entities, if self.entities == 1 { "entity" } else { "entities" })?;
        for line in &self.components {
            let ComponentReport { key, outcome, rows, dangling, left_out, changes } = line;
            write!(f, "`{}`: {rows} {outcome}", key.escape_debug())?;
            if *dangling > 0 {
                write!(f, ", {dangling} references to nothing")?;
            }
            if *left_out > 0 {
                write!(f, ", {left_out} left out")?;
            }
            writeln!(f)?;
            changes.iter().try_for_each(|change| writeln!(f, "    {change}"))?;
        }
        for key in &self.unclaimed_data {
            writeln!(f, "`{}`: data that nobody asked for", key.escape_debug())?;
        }
        for (key, change) in &self.data_changes {
            writeln!(f, "`{}`: {change}", key.escape_debug())?;
        }
        for (key, change) in &self.migration_changes {
            writeln!(f, "`{}`, by a migration: {change}", key.escape_debug())?;
        }
        for id in &self.duplicate_stable_ids {
            writeln!(f, "stable id {:08x}-{}: another entity has it, too", id >> 32, *id as u32)?;
        }
        self.callback_errors.iter().try_for_each(|error| writeln!(f, "{error}"))?;
        if !self.damage.is_empty() {
            writeln!(f, "the file was damaged: {:?}", self.damage)?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loaded => "loaded",
            Self::OtherLayout => "loaded field by field",
            Self::ByName => "loaded by name",
            Self::Upgraded => "loaded from an older version",
            Self::Restored => "back from being carried",
            Self::Carried => "carried for the next save",
            Self::Dropped => "dropped",
            Self::Transient => "dropped, transient in this build",
        })
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
    /// How the saved type differs from the one of this build.
    pub changes: Vec<SchemaChange>,
}

/// What became of a component, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Outcome {
    /// It is loaded.
    Loaded,
    /// It is loaded, field by field: it was laid out in another way, by another compiler, a migration or a tool.
    OtherLayout,
    /// It is loaded, by name: its fields were not quite those of this build.
    ByName,
    /// It is loaded, through steps from an older version.
    Upgraded,
    /// It had been carried by a build that did not know it, and is back.
    Restored,
    /// It was dropped because this build never saves it.
    Transient,
    /// It is unknown and carried for the next save.
    Carried,
    /// It is unknown and was dropped.
    Dropped,
}

impl Outcome {
    /// Whether the values are in the world.
    pub fn is_loaded(self) -> bool {
        matches!(self, Self::Loaded | Self::OtherLayout | Self::ByName | Self::Upgraded | Self::Restored)
    }
}
