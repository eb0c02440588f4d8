//! Decodes everything, with references mapped: the last step that may fail.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::deferred::{ColumnLocation, Deferred};
use super::options::Unknown;
use super::plan::LoadPlan;
use super::report::{ComponentReport, LoadReport, Outcome};
use crate::column::{Column, Component, Groups};
use crate::context::{Dangling, LoadContext};
use crate::convert::ConversionScratch;
use crate::descriptor::StagedColumn;
use crate::entity::{EntityId, EntityMap};
use crate::error::{Error, Result};
use crate::evolve::{Resolution, UpgradeContext, UpgradePath};
use crate::snapshot::carry::{Carry, CarryKind, UnknownColumn};
use crate::snapshot::data::FREE_LIST_KEY;

/// Everything that a commit needs. Dropping it undoes nothing, because nothing was done yet.
pub struct Staged<'s> {
    /// Entities and their columns.
    pub archetypes: Vec<StagedArchetype<'s>>,
    /// Resources, by the number of their registered component; each column has one row.
    pub resources: Vec<(usize, StagedColumn<'s>)>,
    /// Components that come back from being carried, for some of the entities.
    pub extras: Vec<StagedExtra<'s>>,
    /// What this build does not know: keep it and hand it to the next save. All data is in it, too.
    pub carry: Carry,
    /// What was done so far.
    pub report: LoadReport,
}

/// Entities with the same components, ready to be spawned.
pub struct StagedArchetype<'s> {
    /// Their saved ids.
    pub ids: Cow<'s, [EntityId]>,
    /// Their columns, by the number of the registered component.
    pub columns: Vec<(usize, StagedColumn<'s>)>,
}

impl<'s> StagedArchetype<'s> {
    /// Takes the column of a component out, by its Rust type. For components without one, look through `columns`.
    pub fn take<T: 'static>(&mut self) -> Option<StagedColumn<'s>> {
        let index = self.columns.iter().position(|(_, column)| column.holds::<T>())?;
        Some(self.columns.swap_remove(index).1)
    }
}

impl Staged<'_> {
    /// Takes a component out of all archetypes and of what comes back from being carried: new ids and values.
    pub fn take_all<T: 'static>(&mut self, map: &EntityMap) -> Vec<(EntityId, T)> {
        let columns = (self.archetypes.iter_mut())
            .filter_map(|archetype| archetype.take::<T>().map(|column| (archetype.ids.clone(), column)));
        let extras = self.extras.extract_if(.., |extra| extra.column.holds::<T>());
        let mut values = Vec::new();
        for (ids, column) in columns.chain(extras.map(|extra| (extra.ids, extra.column))) {
            let rows = (0..ids.len()).filter(|&row| column.is_present(row));
            let new: Vec<_> = rows.map(|row| map.get(ids[row])).collect();
            let rows = new.into_iter().zip(column.into_rows::<T>().unwrap_or_default());
            values.extend(rows.filter_map(|(id, value)| Some((id?, value))));
        }
        values
    }

    /// The same in memory of its own: what lies in the snapshot is copied, so that it can go to another thread and stay
    /// there.
    pub fn into_owned(self) -> Staged<'static> {
        let columns = |columns: Vec<(usize, StagedColumn<'_>)>| {
            columns.into_iter().map(|(number, column)| (number, column.into_owned())).collect()
        };
        let archetypes = self.archetypes.into_iter().map(|archetype| StagedArchetype {
            ids: Cow::Owned(archetype.ids.into_owned()),
            columns: columns(archetype.columns),
        });
        let extras = self.extras.into_iter().map(|extra| StagedExtra {
            component: extra.component,
            ids: Cow::Owned(extra.ids.into_owned()),
            column: extra.column.into_owned(),
        });
        Staged {
            archetypes: archetypes.collect(),
            resources: columns(self.resources),
            extras: extras.collect(),
            carry: self.carry,
            report: self.report,
        }
    }

    /// Takes a resource out, by its Rust type.
    pub fn take_resource<T: 'static>(&mut self) -> Option<T> {
        let index = self.resources.iter().position(|(_, column)| column.holds::<T>())?;
        self.resources.swap_remove(index).1.into_rows().ok()?.pop()
    }
}

/// A component for entities of any archetypes.
pub struct StagedExtra<'s> {
    /// The number of the registered component.
    pub component: usize,
    /// The saved ids of the entities.
    pub ids: Cow<'s, [EntityId]>,
    /// One row per entity that has a value.
    pub column: StagedColumn<'s>,
}

impl<'s> LoadPlan<'s, '_> {
    /// Decodes all columns. `map` says what each saved entity becomes, `world` is what custom codecs may look at.
    pub fn stage(&self, map: &EntityMap, world: Option<&dyn Any>) -> Result<Staged<'s>> {
        let limits = &self.limits;
        let context = LoadContext::new(limits).entities(map, self.dangling);
        let carry_context = LoadContext::new(limits).entities(map, Dangling::Null);
        Ok(self.stage_in(context, carry_context, map, world, None)?.0)
    }

    /// As [`LoadPlan::stage`], for a restore: references to entities that are not in the save, but for which `alive` is
    /// true, stay as they are.
    pub fn stage_over(
        &self,
        map: &EntityMap,
        world: Option<&dyn Any>,
        alive: &dyn Fn(EntityId) -> bool,
    ) -> Result<Staged<'s>> {
        let limits = &self.limits;
        let context = LoadContext::new(limits).entities(map, self.dangling).alive(alive);
        let carry_context = LoadContext::new(limits).entities(map, Dangling::Null).alive(alive);
        Ok(self.stage_in(context, carry_context, map, world, None)?.0)
    }

    /// Decodes all columns and leaves references as they were saved.
    pub(crate) fn stage_unmapped(&self) -> Result<Staged<'s>> {
        let context = || LoadContext::new(&self.limits);
        Ok(self.stage_in(context(), context(), &EntityMap::default(), None, None)?.0)
    }

    /// With `apart`, columns that ask for the world are left out; it is told how many of all rows are decoded.
    pub(super) fn stage_in<'p>(
        &'p self,
        mut context: LoadContext<'p>,
        mut carry_context: LoadContext<'p>,
        map: &'p EntityMap,
        world: Option<&'p dyn Any>,
        apart: Option<&'p dyn Fn(u64, u64)>,
    ) -> Result<(Staged<'s>, Deferred)> {
        if let Some(world) = world {
            context = context.with_world(world);
            carry_context = carry_context.with_world(world);
        }
        let mut stager = Stager::new(self, map, context, carry_context);
        stager.report.entities = self.snapshot.entity_count();
        stager.report.damage = self.snapshot.damage.clone();
        stager.apart = apart;
        stager.rows_total = if apart.is_some() { self.rows() } else { 0 };
        let mut archetypes = Vec::with_capacity(self.snapshot.archetypes.len());
        for (number, archetype) in self.snapshot.archetypes.iter().enumerate() {
            let ids = archetype.ids();
            let (mut columns, mut later) = (Vec::with_capacity(archetype.columns.len()), 0);
            for (index, column) in archetype.columns.iter().enumerate() {
                match stager.column(column, CarryKind::Component, &ids)? {
                    Decoded::Nothing => {}
                    Decoded::Rows(target, rows) => columns.push((target, rows)),
                    Decoded::Later(target) => {
                        let place = ColumnLocation::Archetype { number, column: index };
                        stager.wait(place, column, target, columns.len() + later);
                        later += 1;
                    }
                }
            }
            archetypes.push(StagedArchetype { ids, columns });
        }
        let (mut resources, mut later) = (Vec::new(), 0);
        for (number, column) in self.snapshot.resources.iter().enumerate() {
            match stager.column(column, CarryKind::Resource, &[])? {
                Decoded::Nothing => {}
                Decoded::Rows(_, rows) if rows.is_empty() => {}
                Decoded::Rows(target, rows) => resources.push((target, rows)),
                Decoded::Later(target) => {
                    stager.wait(ColumnLocation::Resource(number), column, target, resources.len() + later);
                    later += 1;
                }
            }
        }
        let (mut extras, mut later_extras) = (Vec::new(), 0);
        for (number, record) in self.snapshot.carried.iter().enumerate() {
            let (ids, is_resource) = (record.ids(), record.kind == CarryKind::Resource);
            // Fields that an older type had stay what they are: no registered component has their schema.
            let staged = match record.kind {
                CarryKind::Fields => {
                    stager.unknown(&record.column, record.kind, &ids).map(|()| Decoded::Nothing)?
                }
                _ => stager.column(&record.column, record.kind, &ids)?,
            };
            if let Decoded::Nothing = staged {
                continue;
            }
            let mut seen = HashSet::new();
            if let Some(id) = ids.iter().find(|id| !is_resource && !seen.insert(**id)) {
                let key = &self.snapshot.components[record.column.component as usize].key;
                return Err(Error::corrupt(format!("it is carried twice for entity {id}")).in_key(key));
            }
            stager.restored(&record.column);
            match staged {
                Decoded::Nothing => {}
                Decoded::Rows(target, column) if is_resource => {
                    resources.extend(Some((target, column)).filter(|(_, column)| !column.is_empty()));
                }
                Decoded::Rows(component, column) => extras.push(StagedExtra { component, ids, column }),
                Decoded::Later(target) => {
                    let at = if is_resource { resources.len() + later } else { extras.len() + later_extras };
                    stager.wait(ColumnLocation::Carried(number), &record.column, target, at);
                    (later, later_extras) =
                        (later + usize::from(is_resource), later_extras + usize::from(!is_resource));
                }
            }
        }
        // Until somebody asks for data, all of it is unknown.
        let data = self.snapshot.data().iter().filter(|entry| entry.key() != FREE_LIST_KEY);
        stager.report.unclaimed_data = data.clone().map(|entry| entry.key().to_owned()).collect();
        if self.unknown == Unknown::Keep {
            stager.carry.keep_data(data.cloned().collect(), &stager.carry_context);
        }
        let saved = self.snapshot.tracks();
        let missing = saved
            .into_iter()
            .filter(|(name, _)| !self.registry.tracks().iter().any(|track| track.name == *name));
        if self.unknown == Unknown::Keep {
            missing.for_each(|(name, version)| stager.carry.keep_track(name, version));
        }
        let (carry, report, deferred) = stager.finish();
        Ok((Staged { archetypes, resources, extras, carry, report }, deferred))
    }
}

pub(super) struct Stager<'p, 's, 'r> {
    pub(super) plan: &'p LoadPlan<'s, 'r>,
    map: &'p EntityMap,
    pub(super) context: LoadContext<'p>,
    carry_context: LoadContext<'p>,
    carry: Carry,
    pub(super) report: LoadReport,
    /// The report's line of each saved component.
    lines: Vec<Option<usize>>,
    /// For values on their way through conversions.
    pub(super) unmapped: LoadContext<'p>,
    pub(super) tables: HashMap<u32, Groups>,
    pub(super) scratch: ConversionScratch,
    apart: Option<&'p dyn Fn(u64, u64)>,
    rows_done: u64,
    rows_total: u64,
    pub(super) deferred: Deferred,
}

/// What became of a column.
enum Decoded<'s> {
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
            unmapped: LoadContext::new(&plan.limits),
            tables: HashMap::new(),
            scratch: ConversionScratch::default(),
            apart: None,
            rows_done: 0,
            rows_total: 0,
            deferred: Deferred::default(),
        }
    }

    fn finish(mut self) -> (Carry, LoadReport, Deferred) {
        self.deferred.budgets = Some((self.context.budget(), self.unmapped.budget()));
        self.deferred.tables = self.tables;
        (self.carry, self.report, self.deferred)
    }

    /// Notes a column that waits for the world.
    fn wait(&mut self, place: ColumnLocation, column: &Column, target: usize, at: usize) {
        if let Some(line) = self.lines[column.component as usize] {
            self.deferred.push_column(place, target, at, line);
        }
    }

    fn column(&mut self, column: &'s Column, kind: CarryKind, ids: &[EntityId]) -> Result<Decoded<'s>> {
        if let Some(watch) = self.apart {
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
                self.unknown(column, kind, ids)?;
                return Ok(Decoded::Nothing);
            }
        };
        let budget = self.context.budget();
        let staged = self.decode(column, target);
        let waits = self.apart.is_some() && self.context.take_missed_world();
        let staged = match waits {
            true => {
                // Whatever came out of it, it will be decoded again.
                self.context.set_budget(budget);
                None
            }
            false => Some(staged?),
        };
        let dangling = self.context.take_dangling_count();
        if let Some(path) = &self.plan.paths[column.component as usize] {
            let key = self.plan.registry.descriptors()[target].key();
            self.unknown_fields(column, key, path, kind, ids)?;
        }
        let lost = std::mem::take(&mut self.scratch.lost);
        let number = self.line_number(column, outcome);
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

    /// Decodes the rows of a column, by whatever way leads to the registered component.
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

    fn unknown(&mut self, column: &Column, kind: CarryKind, ids: &[EntityId]) -> Result<()> {
        if self.plan.unknown != Unknown::Keep {
            self.line(column, Outcome::Dropped).rows += column.rows;
            return Ok(());
        }
        let (snapshot, map, context) = (self.plan.snapshot, self.map, &self.carry_context);
        self.carry.keep_column(&UnknownColumn { snapshot, column, kind, ids, map, context })?;
        let dangling = self.carry_context.take_dangling_count();
        let line = self.line(column, Outcome::Carried);
        line.rows += column.rows;
        line.dangling += dangling;
        Ok(())
    }

    /// Keeps the fields of a column that this build does not have.
    fn unknown_fields(
        &mut self,
        column: &Column,
        key: &str,
        path: &UpgradePath,
        kind: CarryKind,
        ids: &[EntityId],
    ) -> Result<()> {
        let (Some(fields), Unknown::Keep) = (&path.unknown, self.plan.unknown) else { return Ok(()) };
        let (snapshot, map, context) = (self.plan.snapshot, self.map, &self.carry_context);
        let unknown = UnknownColumn { snapshot, column, kind, ids, map, context };
        let carried = self.carry.keep_fields(&unknown, key, fields);
        self.carry_context.take_dangling_count();
        carried
    }

    fn restored(&mut self, column: &Column) {
        self.line(column, Outcome::Restored).outcome = Outcome::Restored;
    }

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
            if let Some(known) = lines.iter().position(|line| line.key == *key) {
                // Values of one component may have been saved in several forms.
                let line = &mut lines[known];
                line.outcome = line.outcome.max(outcome);
                for change in changes {
                    if !line.changes.contains(change) {
                        line.changes.push(change.clone());
                    }
                }
                return known;
            }
            let (key, changes) = (key.clone(), changes.to_vec());
            lines.push(ComponentReport { key, outcome, rows: 0, dangling: 0, left_out: 0, changes });
            lines.len() - 1
        })
    }
}
