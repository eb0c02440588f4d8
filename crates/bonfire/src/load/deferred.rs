//! Staging in two parts: on any thread without a world, and then what looks at the world.
//!
//! Which columns those are is found by trying: a column whose decoding asked for the world is left out, whatever came of
//! it, and its location is noted. When there is a world, it is decoded from the start and put there, so that the whole is
//! what [`LoadPlan::stage`] would have made.

use std::any::Any;
use std::collections::{BTreeSet, HashMap, VecDeque};

use super::plan::LoadPlan;
use super::stage::{Staged, StagedExtra, Stager};
use crate::column::Groups;
use crate::context::{Budget, Dangling, LoadContext};
use crate::entity::EntityMap;
use crate::error::Result;
use crate::snapshot::carry::CarryKind;

/// The columns that [`LoadPlan::stage_without_world`] left out, because they are decoded with a look at the world. It refers to
/// the snapshot by number, so it can go to another thread by itself.
#[derive(Default)]
pub struct Deferred {
    waiting: VecDeque<DeferredColumn>,
    /// Resources among them that turned out to have no value.
    empty_resources: usize,
    /// What may still be allocated for values, and for values on their way through conversions.
    pub(super) budgets: Option<(Budget, Budget)>,
    /// Shared values that were converted already.
    pub(super) tables: HashMap<u32, Groups>,
}

enum DeferredColumn {
    Column {
        location: ColumnLocation,
        target: usize,
        /// Where it belongs in its list when all before it are there.
        at: usize,
        /// Its line in the report.
        line: usize,
    },
    /// Fields that a later column of the same line has lost.
    Lost { line: usize, fields: BTreeSet<String> },
}

/// Where a column is in a snapshot.
#[derive(Clone, Copy)]
pub(super) enum ColumnLocation {
    Archetype { number: usize, column: usize },
    Resource(usize),
    Carried(usize),
}

impl Deferred {
    /// Whether everything is staged.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many columns wait.
    pub fn len(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting, DeferredColumn::Column { .. })).count()
    }

    pub(super) fn push_column(&mut self, location: ColumnLocation, target: usize, at: usize, line: usize) {
        self.waiting.push_back(DeferredColumn::Column { location, target, at, line });
    }

    pub(super) fn push_lost(&mut self, line: usize, fields: BTreeSet<String>) {
        self.waiting.push_back(DeferredColumn::Lost { line, fields });
    }

    /// Whether a column of this line waits.
    pub(super) fn has_line(&self, wanted: usize) -> bool {
        self.waiting
            .iter()
            .any(|waiting| matches!(waiting, DeferredColumn::Column { line, .. } if *line == wanted))
    }
}

impl<'s> LoadPlan<'s, '_> {
    /// As [`LoadPlan::stage`], without a world: on any thread. Columns that are decoded with a look at the world
    /// ([`LoadContext::world`]) are left out; [`LoadPlan::stage_next`] stages them. `watch` is told how many of all rows have
    /// been looked at.
    ///
    /// ```
    /// # use bonfire::engine::*;
    /// # use bonfire::*;
    /// # use bonfire::engine::*;
    /// # let registry = Registry::new();
    /// # let snapshot = SnapshotWriter::new(&registry).finish()?;
    /// # let world = ();
    /// let plan = LoadPlan::new(&snapshot, &registry, LoadOptions::default())?;
    /// # let map = plan.same_entities()?;
    /// let (mut staged, mut deferred) = plan.stage_without_world(&map, &|done, total| { /* tell the player */ })?;
    /// // .. and where the world is:
    /// while !deferred.is_empty() {
    ///     plan.stage_next(&mut staged, &mut deferred, &map, &world)?;
    /// }
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    pub fn stage_without_world(
        &self,
        map: &EntityMap,
        watch: &dyn Fn(u64, u64),
    ) -> Result<(Staged<'s>, Deferred)> {
        let limits = &self.limits;
        let context = LoadContext::new(limits).entities(map, self.dangling);
        let carry_context = LoadContext::new(limits).entities(map, Dangling::Null);
        self.stage_in(context, carry_context, map, None, Some(watch))
    }

    /// Stages one of the columns that were left out, with a world to look at. The plan may be another one, if it is made of
    /// the same snapshot, registry and options; the map is the same. After an error nothing can be done with what is
    /// staged but to drop it.
    pub fn stage_next(
        &self,
        staged: &mut Staged<'_>,
        deferred: &mut Deferred,
        map: &EntityMap,
        world: &dyn Any,
    ) -> Result<()> {
        let (location, target, at, line) = match deferred.waiting.pop_front() {
            None => return Ok(()),
            Some(DeferredColumn::Lost { line, fields }) => {
                staged.report.components[line].note_lost(fields);
                return Ok(());
            }
            Some(DeferredColumn::Column { location, target, at, line }) => (location, target, at, line),
        };
        let limits = &self.limits;
        let context = LoadContext::new(limits).entities(map, self.dangling).with_world(world);
        let mut stager = Stager::new(self, map, context, LoadContext::new(limits));
        if let Some((values, conversions)) = deferred.budgets {
            stager.context.set_budget(values);
            stager.unmapped.set_budget(conversions);
        }
        stager.tables = std::mem::take(&mut deferred.tables);
        let column = match location {
            ColumnLocation::Archetype { number, column } => &self.snapshot.archetypes[number].columns[column],
            ColumnLocation::Resource(number) => &self.snapshot.resources[number],
            ColumnLocation::Carried(number) => &self.snapshot.carried[number].column,
        };
        let rows = stager.decode(column, target)?.into_owned();
        let line = &mut staged.report.components[line];
        line.rows += column.rows;
        line.dangling += stager.context.take_dangling_count();
        line.left_out += column.rows - rows.len();
        line.note_lost(std::mem::take(&mut stager.scratch.lost));
        deferred.budgets = Some((stager.context.budget(), stager.unmapped.budget()));
        deferred.tables = stager.tables;

        let carried = match location {
            ColumnLocation::Carried(number) => Some(&self.snapshot.carried[number]),
            _ => None,
        };
        match (location, carried) {
            (ColumnLocation::Archetype { number, .. }, _) => {
                staged.archetypes[number].columns.insert(at, (target, rows));
            }
            (_, Some(record)) if record.kind != CarryKind::Resource => {
                let ids = record.ids().into_owned().into();
                staged.extras.insert(at, StagedExtra { component: target, ids, column: rows });
            }
            _ if rows.is_empty() => deferred.empty_resources += 1,
            _ => staged.resources.insert(at - deferred.empty_resources, (target, rows)),
        }
        Ok(())
    }
}
