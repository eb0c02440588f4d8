//! Columns that can be staged only with a world: their codecs look at it, or they refer to entities outside of the save. The
//! rest is staged before, on any thread.
//!
//! The stager finds these columns by trying: it leaves out a column whose decoding asked for the world, and notes its location.
//! When there is a world, the column is decoded from the start and put there. The result is that of
//! [`LoadPlan::stage`](super::LoadPlan::stage).

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::column::Groups;
use crate::context::{Budget, Sessions};
use crate::snapshot::carry::CarryKind;

/// The columns that [`LoadPlan::stage_without_world`](super::LoadPlan::stage_without_world) left out, because they are decoded with a look at the world. It refers to
/// the snapshot by number, so it can go to another thread by itself.
#[derive(Default)]
pub struct Deferred {
    waiting: VecDeque<DeferredStep>,
    /// Resources among them that turned out to have no value.
    pub(super) empty_resources: usize,
    /// What may still be allocated.
    pub(super) budgets: Option<Budgets>,
    /// Shared values that were converted already.
    pub(super) tables: HashMap<u32, Groups>,
    /// The open sessions of codecs that looked at the world.
    pub(super) sessions: Sessions,
}

/// What may still be allocated for values, for values on their way through conversions, and for what is carried.
pub(super) struct Budgets {
    pub(super) values: Budget,
    pub(super) conversions: Budget,
    pub(super) carried: Budget,
}

/// A step of staging that waits for the world.
pub(super) enum DeferredStep {
    Column(DeferredColumn),
    Unknown(DeferredUnknown),
    /// Notes fields that a later column of the same line has lost.
    Lost {
        line: usize,
        fields: BTreeSet<String>,
    },
}

/// A column that waits for the world.
pub(super) struct DeferredColumn {
    pub(super) location: ColumnLocation,
    /// The number of its registered component.
    pub(super) target: usize,
    /// Its position in its list when all before it are there.
    pub(super) at: usize,
    /// Its line in the report.
    pub(super) line: usize,
}

/// A column that this build does not know, or of which it does not know some fields. It waits because it may refer to
/// entities outside of the save.
pub(super) struct DeferredUnknown {
    pub(super) location: ColumnLocation,
    pub(super) kind: CarryKind,
    /// The registered component that knows the other fields.
    pub(super) fields_of: Option<usize>,
    /// Its line in the report.
    pub(super) line: usize,
}

/// The location of a column in a snapshot.
#[derive(Clone, Copy)]
pub(super) enum ColumnLocation {
    Archetype { number: usize, column: usize },
    Resource(usize),
    Carried(usize),
}

impl Deferred {
    /// Returns true if everything is staged.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of columns that wait.
    pub fn len(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting, DeferredStep::Column(_))).count()
    }

    pub(super) fn next_step(&mut self) -> Option<DeferredStep> {
        self.waiting.pop_front()
    }

    pub(super) fn push_column(&mut self, column: DeferredColumn) {
        self.waiting.push_back(DeferredStep::Column(column));
    }

    pub(super) fn push_unknown(&mut self, unknown: DeferredUnknown) {
        self.waiting.push_back(DeferredStep::Unknown(unknown));
    }

    pub(super) fn push_lost(&mut self, line: usize, fields: BTreeSet<String>) {
        self.waiting.push_back(DeferredStep::Lost { line, fields });
    }

    /// Returns true if a column of this line waits.
    pub(super) fn has_line(&self, wanted: usize) -> bool {
        self.waiting
            .iter()
            .any(|waiting| matches!(waiting, DeferredStep::Column(column) if column.line == wanted))
    }
}
