//! Stages single columns: decodes their rows, or keeps them if this build does not know them, and reports what happened.

use std::borrow::Cow;
use std::collections::HashMap;

use super::deferred::{ColumnLocation, Deferred, DeferredColumn, DeferredUnknown};
use super::options::Unknown;
use super::plan::LoadPlan;
use super::report::{ComponentReport, LoadReport, Outcome};
use crate::column::{Column, Component, Groups};
use crate::context::LoadContext;
use crate::convert::ConversionScratch;
use crate::descriptor::StagedColumn;
use crate::entity::{EntityId, EntityMap};
use crate::error::Result;
use crate::evolve::{Resolution, UpgradeContext};
use crate::snapshot::carry::{Carry, CarryKind, UnknownColumn};

/// Stages columns one after the other, and keeps what they share.
pub(super) struct Stager<'p, 's, 'r> {
    pub(super) plan: &'p LoadPlan<'s, 'r>,
    map: &'p EntityMap,
    pub(super) context: LoadContext<'p>,
    pub(super) carry_context: LoadContext<'p>,
    pub(super) carry: Carry,
    pub(super) report: LoadReport,
    /// The report's line of each saved component.
    lines: Vec<Option<usize>>,
    /// The report's lines by key.
    lines_by_key: HashMap<String, usize>,
    /// For values on their way through conversions.
    pub(super) unmapped: LoadContext<'p>,
    pub(super) tables: HashMap<u32, Groups>,
    pub(super) scratch: ConversionScratch,
    /// Columns may refer to entities that can be found only where the world is.
    is_outside_unresolved: bool,
    /// Set if columns that ask for the world are deferred. It is called with the rows that are done, and with all rows.
    defer: Option<&'p dyn Fn(u64, u64)>,
    rows_done: u64,
    rows_total: u64,
    pub(super) deferred: Deferred,
}

/// A column after staging.
pub(super) enum Decoded<'s> {
    /// No rows of this build.
    Nothing,
    /// Rows of the registered component with this number.
    Rows(usize, StagedColumn<'s>),
    /// Rows of the registered component with this number, when there is a world.
    Later(usize),
}

impl<'p, 's, 'r> Stager<'p, 's, 'r> {
    pub(super) fn new(
        plan: &'p LoadPlan<'s, 'r>,
        map: &'p EntityMap,
        context: LoadContext<'p>,
        carry_context: LoadContext<'p>,
    ) -> Self {
        Self {
            plan,
            map,
            context,
            carry_context,
            carry: Carry::default(),
            report: LoadReport::default(),
            lines: vec![None; plan.snapshot.components.len()],
            lines_by_key: HashMap::new(),
            unmapped: LoadContext::new(&plan.limits),
            tables: HashMap::new(),
            scratch: ConversionScratch::default(),
            is_outside_unresolved: false,
            defer: None,
            rows_done: 0,
            rows_total: 0,
            deferred: Deferred::default(),
        }
    }

    /// Defers columns that ask for the world. `watch` is called with the rows that are done, and with all rows.
    pub(super) fn defer(&mut self, watch: &'p dyn Fn(u64, u64)) {
        self.defer = Some(watch);
        self.rows_total = self.plan.rows();
        self.is_outside_unresolved = self.plan.outside.iter().any(|(_, new)| new.is_null());
    }

    /// Notes a column that waits for the world. `at` is its position among all columns of its list.
    pub(super) fn wait(&mut self, location: ColumnLocation, column: &Column, target: usize, at: usize) {
        if let Some(line) = self.lines[column.component as usize] {
            self.deferred.push_column(DeferredColumn { location, target, at, line });
        }
    }

    /// Stages a column of a snapshot.
    pub(super) fn column(
        &mut self,
        column: &'s Column,
        kind: CarryKind,
        ids: &[EntityId],
        location: ColumnLocation,
    ) -> Result<Decoded<'s>> {
        self.plan.limits.step(1 + column.rows)?;
        if let Some(watch) = self.defer {
            self.rows_done += column.rows as u64;
            watch(self.rows_done, self.rows_total);
        }
        let resolution = &self.plan.resolutions[column.component as usize];
        let (target, outcome) = match resolution {
            Resolution::Same(target) => (*target, Outcome::Loaded),
            Resolution::OtherLayout(target) => (*target, Outcome::OtherLayout),
            Resolution::ByName { target, .. } => (*target, Outcome::ByName),
            Resolution::Upgraded { target, .. } => (*target, Outcome::Upgraded),
            Resolution::Transient(_) => {
                self.line(column, Outcome::Transient).rows += column.rows;
                return Ok(Decoded::Nothing);
            }
            Resolution::Unknown => {
                self.unknown(column, kind, ids, location)?;
                return Ok(Decoded::Nothing);
            }
        };
        let budget = self.context.budget();
        let staged = self.decode(column, target);
        let waits = self.defer.is_some() && self.context.take_missed_world();
        let staged = match waits {
            true => {
                // The result does not matter: it will be decoded again, in a session that has a world.
                self.context.set_budget(budget);
                self.plan.registry.descriptors()[target].drop_session(&self.context.sessions);
                None
            }
            false => Some(staged?),
        };
        let dangling = self.context.take_dangling_count();
        let lost = std::mem::take(&mut self.scratch.lost);
        let number = self.line_number(column, outcome);
        let unknown = DeferredUnknown { location, kind, fields_of: Some(target), line: number };
        self.unknown_fields(column, unknown, ids)?;
        let Some(staged) = staged else { return Ok(Decoded::Later(target)) };
        let line = &mut self.report.components[number];
        line.rows += column.rows;
        line.dangling += dangling;
        line.left_out += column.rows - staged.len();
        // Changes are listed in the order of the columns.
        match self.deferred.has_line(number) {
            true if !lost.is_empty() => self.deferred.push_lost(number, lost),
            _ => line.note_lost(lost),
        }
        Ok(Decoded::Rows(target, staged))
    }

    /// Decodes the rows of a column, as rows of the registered component.
    pub(super) fn decode(&mut self, column: &'s Column, target: usize) -> Result<StagedColumn<'s>> {
        let component = &self.plan.snapshot.components[column.component as usize];
        let descriptor = &self.plan.registry.descriptors()[target];
        let shared = self.plan.snapshot.shared_values(column);
        // The registered schema is the saved one; it may be there by hash only.
        let known = match component.schema {
            Some(_) => Cow::Borrowed(component),
            None => Cow::Owned(Component { schema: Some(descriptor.schema.clone()), ..component.clone() }),
        };
        let copies = self.plan.copies();
        let staged = match &self.plan.paths[column.component as usize] {
            None => descriptor.column.decode(column, &known, shared, &self.context, copies),
            Some(path) => {
                let mut upgrade = UpgradeContext {
                    mapped: &self.context,
                    unmapped: &self.unmapped,
                    copies,
                    tables: &mut self.tables,
                    scratch: &mut self.scratch,
                };
                path.load(column, &known, shared, descriptor, &mut upgrade)
            }
        };
        staged.map_err(|error| error.in_key(&component.key))
    }

    /// Keeps a column that this build does not know, or drops it.
    pub(super) fn unknown(
        &mut self,
        column: &Column,
        kind: CarryKind,
        ids: &[EntityId],
        location: ColumnLocation,
    ) -> Result<()> {
        if self.plan.unknown != Unknown::Keep {
            self.line(column, Outcome::Dropped).rows += column.rows;
            return Ok(());
        }
        let line = self.line_number(column, Outcome::Carried);
        self.report.components[line].rows += column.rows;
        if self.waits_for_outside(column) {
            self.deferred.push_unknown(DeferredUnknown { location, kind, fields_of: None, line });
            return Ok(());
        }
        self.report.components[line].dangling += self.keep_unknown(column, kind, ids)?;
        Ok(())
    }

    /// Returns true if a column may refer to entities that can be found only where the world is.
    fn waits_for_outside(&self, column: &Column) -> bool {
        let schema = &self.plan.snapshot.components[column.component as usize].schema;
        self.is_outside_unresolved && schema.as_ref().is_none_or(|schema| schema.has_entities())
    }

    /// Keeps a column that this build does not know. Returns the number of references to nothing.
    pub(super) fn keep_unknown(&mut self, column: &Column, kind: CarryKind, ids: &[EntityId]) -> Result<u64> {
        let (snapshot, map, context) = (self.plan.snapshot, self.map, &self.carry_context);
        self.carry.keep_column(&UnknownColumn { snapshot, column, kind, ids, map, context })?;
        Ok(self.carry_context.take_dangling_count())
    }

    /// Keeps the fields of a column that this build does not have.
    fn unknown_fields(&mut self, column: &Column, unknown: DeferredUnknown, ids: &[EntityId]) -> Result<()> {
        let path = self.plan.paths[column.component as usize].as_ref();
        let has_fields = path.is_some_and(|path| path.unknown.is_some());
        let (DeferredUnknown { fields_of: Some(target), kind, .. }, true, Unknown::Keep) =
            (&unknown, has_fields, self.plan.unknown)
        else {
            return Ok(());
        };
        if self.waits_for_outside(column) {
            self.deferred.push_unknown(unknown);
            return Ok(());
        }
        self.keep_unknown_fields(column, *target, *kind, ids)
    }

    /// Keeps the fields that the registered component with this number does not have.
    pub(super) fn keep_unknown_fields(
        &mut self,
        column: &Column,
        target: usize,
        kind: CarryKind,
        ids: &[EntityId],
    ) -> Result<()> {
        let path = self.plan.paths[column.component as usize].as_ref();
        let Some(fields) = path.and_then(|path| path.unknown.as_ref()) else { return Ok(()) };
        let key = self.plan.registry.descriptors()[target].key();
        let (snapshot, map, context) = (self.plan.snapshot, self.map, &self.carry_context);
        let unknown = UnknownColumn { snapshot, column, kind, ids, map, context };
        let carried = self.carry.keep_fields(&unknown, key, fields);
        self.carry_context.take_dangling_count();
        carried
    }

    /// Reports that a carried column has rows of this build again.
    pub(super) fn restored(&mut self, column: &Column) {
        self.line(column, Outcome::Restored).outcome = Outcome::Restored;
    }

    /// Returns the report's line of a column.
    fn line(&mut self, column: &Column, outcome: Outcome) -> &mut ComponentReport {
        let number = self.line_number(column, outcome);
        &mut self.report.components[number]
    }

    fn line_number(&mut self, column: &Column, outcome: Outcome) -> usize {
        let lines = &mut self.report.components;
        *self.lines[column.component as usize].get_or_insert_with(|| {
            // What was carried may have the key of what was saved.
            let key = &self.plan.snapshot.components[column.component as usize].key;
            let changes = self.plan.resolutions[column.component as usize].changes();
            if let Some(&known) = self.lines_by_key.get(key) {
                // Values of one component may have been saved in several forms.
                let line = &mut lines[known];
                line.outcome = line.outcome.max(outcome);
                line.note_changes(changes.iter().cloned());
                return known;
            }
            self.lines_by_key.insert(key.clone(), lines.len());
            let (key, changes) = (key.clone(), changes.to_vec());
            lines.push(ComponentReport { key, outcome, rows: 0, dangling: 0, left_out: 0, changes });
            lines.len() - 1
        })
    }
}
