//! Decodes everything, with references mapped: the last step that may fail.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashSet;

use super::deferred::{Budgets, ColumnLocation, Deferred, DeferredColumn, DeferredStep, DeferredUnknown};
use super::options::Unknown;
use super::plan::LoadPlan;
use super::report::ComponentReport;
use super::stage_column::{Decoded, Stager};
use super::staged::{Staged, StagedArchetype, StagedExtra};
use crate::column::Column;
use crate::context::{Dangling, LoadContext};
use crate::descriptor::StagedColumn;
use crate::entity::{EntityId, EntityMap};
use crate::error::{Error, Result};
use crate::snapshot::carry::{Carried, CarryKind};
use crate::snapshot::{Archetype, OWN_DATA};

impl<'s> LoadPlan<'s, '_> {
    /// Decodes all columns. `map` says what each saved entity becomes, `world` is what custom codecs may look at.
    pub fn stage(&self, map: &EntityMap, world: Option<&dyn Any>) -> Result<Staged<'s>> {
        let context = self.context(map, self.dangling);
        let carry_context = self.context(map, Dangling::Remove);
        self.stage_with(context, carry_context, map, world)
    }

    /// As [`LoadPlan::stage`], for a restore: references to entities that are not in the save, but for which `alive` is
    /// true, stay as they are.
    pub fn stage_over(
        &self,
        map: &EntityMap,
        world: Option<&dyn Any>,
        alive: &dyn Fn(EntityId) -> bool,
    ) -> Result<Staged<'s>> {
        let context = self.context(map, self.dangling).alive(alive);
        let carry_context = self.context(map, Dangling::Remove).alive(alive);
        self.stage_with(context, carry_context, map, world)
    }

    /// What decoding needs besides the bytes.
    fn context<'p>(&'p self, map: &'p EntityMap, dangling: Dangling) -> LoadContext<'p> {
        LoadContext::new(&self.limits).entities(map, dangling).outside(&self.outside)
    }

    /// Decodes all columns and leaves references as they were saved.
    pub(crate) fn stage_unmapped(&self) -> Result<Staged<'s>> {
        let context = || LoadContext::new(&self.limits);
        self.stage_with(context(), context(), &EntityMap::default(), None)
    }

    /// Decodes all columns with the world that is given, if any.
    fn stage_with<'p>(
        &'p self,
        mut context: LoadContext<'p>,
        mut carry_context: LoadContext<'p>,
        map: &'p EntityMap,
        world: Option<&'p dyn Any>,
    ) -> Result<Staged<'s>> {
        if let Some(world) = world {
            context = context.with_world(world);
            carry_context = carry_context.with_world(world);
        }
        Ok(Stager::new(self, map, context, carry_context).stage()?.0)
    }

    /// As [`LoadPlan::stage`], without a world: on any thread. Columns that are decoded with a look at the world
    /// ([`LoadContext::world`]) are left out; [`LoadPlan::stage_next`] stages them. `watch` is called with the number of rows
    /// that were looked at, and with the number of all rows.
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
        let context = self.context(map, self.dangling);
        let carry_context = self.context(map, Dangling::Remove);
        let mut stager = Stager::new(self, map, context, carry_context);
        stager.defer(watch);
        stager.stage()
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
        match deferred.next_step() {
            None => {}
            Some(DeferredStep::Lost { line, fields }) => staged.report.components[line].note_lost(fields),
            Some(DeferredStep::Unknown(unknown)) => {
                self.keep_deferred(&unknown, staged, deferred, map, world)?;
            }
            Some(DeferredStep::Column(column)) => {
                let line = &mut staged.report.components[column.line];
                let rows = self.decode_deferred(&column, line, deferred, map, world)?;
                self.insert_deferred(&column, rows, staged, deferred);
            }
        }
        if deferred.is_empty() {
            self.registry.end_load(&deferred.sessions)?;
        }
        Ok(())
    }

    fn decode_deferred(
        &self,
        waiting: &DeferredColumn,
        line: &mut ComponentReport,
        deferred: &mut Deferred,
        map: &EntityMap,
        world: &dyn Any,
    ) -> Result<StagedColumn<'static>> {
        let context = self.context(map, self.dangling).with_world(world);
        let mut stager = Stager::new(self, map, context, LoadContext::new(&self.limits));
        if let Some(budgets) = &deferred.budgets {
            stager.context.set_budget(budgets.values);
            stager.unmapped.set_budget(budgets.conversions);
        }
        stager.tables = std::mem::take(&mut deferred.tables);
        stager.context.sessions = std::mem::take(&mut deferred.sessions);
        let column = self.column_at(waiting.location);
        let rows = stager.decode(column, waiting.target)?.into_owned();
        line.rows += column.rows;
        line.dangling += stager.context.take_dangling_count();
        line.left_out += column.rows - rows.len();
        line.note_lost(std::mem::take(&mut stager.scratch.lost));
        if let Some(budgets) = &mut deferred.budgets {
            budgets.values = stager.context.budget();
            budgets.conversions = stager.unmapped.budget();
        }
        deferred.tables = stager.tables;
        deferred.sessions = stager.context.sessions;
        Ok(rows)
    }

    fn column_at(&self, location: ColumnLocation) -> &'s Column {
        match location {
            ColumnLocation::Archetype { number, column } => &self.snapshot.archetypes[number].columns[column],
            ColumnLocation::Resource(number) => &self.snapshot.resources[number],
            ColumnLocation::Carried(number) => &self.snapshot.carried[number].column,
        }
    }

    /// Keeps what this build does not know of a column, with references to entities outside of the save.
    fn keep_deferred(
        &self,
        waiting: &DeferredUnknown,
        staged: &mut Staged<'_>,
        deferred: &mut Deferred,
        map: &EntityMap,
        world: &dyn Any,
    ) -> Result<()> {
        let carry_context = self.context(map, Dangling::Remove).with_world(world);
        let mut stager = Stager::new(self, map, LoadContext::new(&self.limits), carry_context);
        if let Some(budgets) = &deferred.budgets {
            stager.carry_context.set_budget(budgets.carried);
        }
        stager.carry = std::mem::take(&mut staged.carry);
        let column = self.column_at(waiting.location);
        let ids = match waiting.location {
            ColumnLocation::Archetype { number, .. } => self.snapshot.archetypes[number].ids(),
            ColumnLocation::Resource(_) => Cow::Borrowed(&[][..]),
            ColumnLocation::Carried(number) => self.snapshot.carried[number].ids(),
        };
        match waiting.fields_of {
            Some(target) => stager.keep_unknown_fields(column, target, waiting.kind, &ids)?,
            None => {
                let dangling = stager.keep_unknown(column, waiting.kind, &ids)?;
                staged.report.components[waiting.line].dangling += dangling;
            }
        }
        staged.carry = stager.carry;
        if let Some(budgets) = &mut deferred.budgets {
            budgets.carried = stager.carry_context.budget();
        }
        Ok(())
    }

    /// Puts the rows of a deferred column where they belong.
    fn insert_deferred<'w>(
        &self,
        waiting: &DeferredColumn,
        rows: StagedColumn<'w>,
        staged: &mut Staged<'w>,
        deferred: &mut Deferred,
    ) {
        let DeferredColumn { location, target, at, .. } = *waiting;
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
    }
}

/// A list of staged columns, which counts the deferred ones too.
struct StagedList<T> {
    staged: Vec<T>,
    deferred: usize,
}

impl<T> StagedList<T> {
    fn with_capacity(capacity: usize) -> Self {
        Self { staged: Vec::with_capacity(capacity), deferred: 0 }
    }

    fn push(&mut self, column: T) {
        self.staged.push(column);
    }

    /// Returns the position of a deferred column among all columns of the list.
    fn defer(&mut self) -> usize {
        self.deferred += 1;
        self.staged.len() + self.deferred - 1
    }
}

/// Columns by the number of their registered component.
type NumberedColumns<'s> = StagedList<(usize, StagedColumn<'s>)>;

impl<'s> Stager<'_, 's, '_> {
    /// Stages a whole snapshot.
    fn stage(mut self) -> Result<(Staged<'s>, Deferred)> {
        let snapshot = self.plan.snapshot;
        self.report.entities = snapshot.entity_count();
        self.report.damage = snapshot.damage.clone();
        self.report.migration_changes = snapshot.migration_changes.clone();
        let mut archetypes = Vec::with_capacity(snapshot.archetypes.len());
        for (number, archetype) in snapshot.archetypes.iter().enumerate() {
            archetypes.push(self.archetype(number, archetype)?);
        }
        let mut resources = self.resources()?;
        let extras = self.carried(&mut resources)?;
        self.data();
        self.tracks();
        self.plan.registry.end_load(&self.context.sessions)?;
        self.deferred.budgets = Some(Budgets {
            values: self.context.budget(),
            conversions: self.unmapped.budget(),
            carried: self.carry_context.budget(),
        });
        self.deferred.tables = self.tables;
        let (resources, carry, report) = (resources.staged, self.carry, self.report);
        Ok((Staged { archetypes, resources, extras, carry, report }, self.deferred))
    }

    fn archetype(&mut self, number: usize, archetype: &'s Archetype) -> Result<StagedArchetype<'s>> {
        let ids = archetype.ids();
        let mut columns = NumberedColumns::with_capacity(archetype.columns.len());
        for (index, column) in archetype.columns.iter().enumerate() {
            let location = ColumnLocation::Archetype { number, column: index };
            match self.column(column, CarryKind::Component, &ids, location)? {
                Decoded::Nothing => {}
                Decoded::Rows(target, rows) => columns.push((target, rows)),
                Decoded::Later(target) => self.wait(location, column, target, columns.defer()),
            }
        }
        Ok(StagedArchetype { ids, columns: columns.staged })
    }

    fn resources(&mut self) -> Result<NumberedColumns<'s>> {
        let mut resources = NumberedColumns::with_capacity(0);
        for (number, column) in self.plan.snapshot.resources.iter().enumerate() {
            let location = ColumnLocation::Resource(number);
            match self.column(column, CarryKind::Resource, &[], location)? {
                Decoded::Nothing => {}
                Decoded::Rows(_, rows) if rows.is_empty() => {}
                Decoded::Rows(target, rows) => resources.push((target, rows)),
                Decoded::Later(target) => self.wait(location, column, target, resources.defer()),
            }
        }
        Ok(resources)
    }

    /// Stages what earlier loads carried: resources join `resources`, components of entities are returned.
    fn carried(&mut self, resources: &mut NumberedColumns<'s>) -> Result<Vec<StagedExtra<'s>>> {
        let mut extras = StagedList::with_capacity(0);
        for (number, record) in self.plan.snapshot.carried.iter().enumerate() {
            let (ids, is_resource) = (record.ids(), record.kind == CarryKind::Resource);
            let location = ColumnLocation::Carried(number);
            // Fields that an older type had stay what they are: no registered component has their schema.
            if record.kind == CarryKind::Fields {
                self.unknown(&record.column, record.kind, &ids, location)?;
                continue;
            }
            let decoded = self.column(&record.column, record.kind, &ids, location)?;
            if let Decoded::Nothing = decoded {
                continue;
            }
            if !is_resource {
                self.check_once(record, &ids)?;
            }
            self.restored(&record.column);
            match decoded {
                Decoded::Nothing => {}
                Decoded::Rows(_, column) if is_resource && column.is_empty() => {}
                Decoded::Rows(target, column) if is_resource => resources.push((target, column)),
                Decoded::Rows(component, column) => extras.push(StagedExtra { component, ids, column }),
                Decoded::Later(target) => {
                    let at = if is_resource { resources.defer() } else { extras.defer() };
                    self.wait(location, &record.column, target, at);
                }
            }
        }
        Ok(extras.staged)
    }

    /// Refuses a record that has an entity twice.
    fn check_once(&self, record: &Carried, ids: &[EntityId]) -> Result<()> {
        let mut seen = HashSet::new();
        let Some(id) = ids.iter().find(|id| !seen.insert(**id)) else { return Ok(()) };
        let key = &self.plan.snapshot.components[record.column.component as usize].key;
        Err(Error::corrupt(format!("it is carried twice for entity {id}")).in_key(key))
    }

    /// Carries all data. Data is unknown until a callback claims it.
    fn data(&mut self) {
        let data = self.plan.snapshot.data().iter().filter(|entry| !OWN_DATA.contains(&entry.key()));
        self.report.unclaimed_data = data.clone().map(|entry| entry.key().to_owned()).collect();
        if self.plan.unknown == Unknown::Keep {
            self.carry.keep_data(data.cloned().collect(), &self.carry_context);
        }
    }

    /// Carries the versions of tracks that this build does not have.
    fn tracks(&mut self) {
        if self.plan.unknown != Unknown::Keep {
            return;
        }
        let known = self.plan.registry.tracks();
        for (name, version) in self.plan.snapshot.tracks() {
            if !known.iter().any(|track| track.name == *name) {
                self.carry.keep_track(name, version);
            }
        }
    }
}
