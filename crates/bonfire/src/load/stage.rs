//! Decodes everything, with references mapped: the last step that may fail.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::plan::{LoadPlan, Resolution, Unknown};
use super::report::{ComponentReport, LoadReport, Outcome};
use crate::context::{Dangling, LoadContext};
use crate::descriptor::StagedColumn;
use crate::entity::{EntityId, EntityMap};
use crate::error::{Error, Result};
use crate::evolve::way::{Journey, Way};
use crate::evolve::{Change, Running};
use crate::snapshot::Component;
use crate::snapshot::carry::{Carry, CarryKind};
use crate::snapshot::column::{Column, Groups};
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
        let limits = &self.options.limits;
        let context = LoadContext::new(limits).entities(map, self.options.dangling);
        let carry_context = LoadContext::new(limits).entities(map, Dangling::Null);
        self.stage_in(context, carry_context, map, world)
    }

    /// As [`LoadPlan::stage`], for a restore: references to entities that are not in the save, but for which `alive` is
    /// true, stay as they are.
    pub fn stage_over(
        &self,
        map: &EntityMap,
        world: Option<&dyn Any>,
        alive: &dyn Fn(EntityId) -> bool,
    ) -> Result<Staged<'s>> {
        let limits = &self.options.limits;
        let context = LoadContext::new(limits).entities(map, self.options.dangling).alive(alive);
        let carry_context = LoadContext::new(limits).entities(map, Dangling::Null).alive(alive);
        self.stage_in(context, carry_context, map, world)
    }

    /// Decodes all columns and leaves references as they were saved.
    pub(crate) fn stage_unmapped(&self) -> Result<Staged<'s>> {
        let context = || LoadContext::new(&self.options.limits);
        self.stage_in(context(), context(), &EntityMap::default(), None)
    }

    fn stage_in<'p>(
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
        let mut stager = Stager {
            plan: self,
            map,
            context,
            carry_context,
            carry: Carry::default(),
            report: LoadReport {
                entities: self.snapshot.entity_count(),
                damage: self.snapshot.damage.clone(),
                ..LoadReport::default()
            },
            lines: vec![None; self.snapshot.components.len()],
            unmapped: LoadContext::new(&self.options.limits),
            tables: HashMap::new(),
            running: Running::default(),
        };
        let mut archetypes = Vec::with_capacity(self.snapshot.archetypes.len());
        for archetype in &self.snapshot.archetypes {
            let ids = archetype.ids();
            let mut columns = Vec::with_capacity(archetype.columns.len());
            for column in &archetype.columns {
                columns.extend(stager.column(column, CarryKind::Component, &ids)?);
            }
            archetypes.push(StagedArchetype { ids, columns });
        }
        let mut resources = Vec::new();
        for column in &self.snapshot.resources {
            resources.extend(
                stager.column(column, CarryKind::Resource, &[])?.filter(|(_, column)| !column.is_empty()),
            );
        }
        let mut extras = Vec::new();
        for record in &self.snapshot.carried {
            let ids = record.ids();
            // Fields that an older type had stay what they are: no registered component has their schema.
            let fields = record.kind == CarryKind::Fields;
            let staged = match fields {
                true => stager.unknown(&record.column, record.kind, &ids).map(|()| None)?,
                false => stager.column(&record.column, record.kind, &ids)?,
            };
            match staged {
                Some((component, column)) if record.kind == CarryKind::Resource => {
                    stager.restored(&record.column);
                    if !column.is_empty() {
                        resources.push((component, column));
                    }
                }
                Some((component, column)) => {
                    let mut seen = HashSet::new();
                    if let Some(id) = ids.iter().find(|id| !seen.insert(**id)) {
                        let key = &self.snapshot.components[record.column.component as usize].key;
                        return Err(
                            Error::corrupt(format!("it is carried twice for entity {id}")).in_key(key)
                        );
                    }
                    stager.restored(&record.column);
                    extras.push(StagedExtra { component, ids, column });
                }
                None => {}
            }
        }
        // Until somebody asks for data, all of it is unknown.
        let data = self.snapshot.data().iter().filter(|entry| entry.key() != FREE_LIST_KEY);
        stager.report.unclaimed_data = data.clone().map(|entry| entry.key().to_owned()).collect();
        if self.options.unknown == Unknown::Keep {
            stager.carry.keep_data(data.cloned().collect(), &stager.carry_context);
        }
        let saved = self.snapshot.tracks();
        let missing = saved
            .into_iter()
            .filter(|(name, _)| !self.registry.tracks().iter().any(|track| track.name == *name));
        if self.options.unknown == Unknown::Keep {
            missing.for_each(|(name, version)| stager.carry.keep_track(name, version));
        }
        Ok(Staged { archetypes, resources, extras, carry: stager.carry, report: stager.report })
    }
}

struct Stager<'p, 's, 'r> {
    plan: &'p LoadPlan<'s, 'r>,
    map: &'p EntityMap,
    context: LoadContext<'p>,
    carry_context: LoadContext<'p>,
    carry: Carry,
    report: LoadReport,
    /// The report's line of each saved component.
    lines: Vec<Option<usize>>,
    /// For values on their way through conversions.
    unmapped: LoadContext<'p>,
    tables: HashMap<u32, Groups>,
    running: Running,
}

impl<'s> Stager<'_, 's, '_> {
    fn column(
        &mut self,
        column: &'s Column,
        kind: CarryKind,
        ids: &[EntityId],
    ) -> Result<Option<(usize, StagedColumn<'s>)>> {
        let component = &self.plan.snapshot.components[column.component as usize];
        let resolution = &self.plan.resolutions[column.component as usize];
        let (target, outcome) = match resolution {
            Resolution::Same(target) => (*target, Outcome::Loaded),
            Resolution::OtherLayout(target) => (*target, Outcome::OtherLayout),
            Resolution::ByName { target, .. } => (*target, Outcome::ByName),
            Resolution::Upgraded { target, .. } => (*target, Outcome::Upgraded),
            Resolution::Transient(_) => {
                self.line(column, Outcome::Transient).rows += column.rows;
                return Ok(None);
            }
            Resolution::Unknown => {
                self.unknown(column, kind, ids)?;
                return Ok(None);
            }
        };
        let descriptor = &self.plan.registry.descriptors()[target];
        let shared = self.plan.snapshot.shared_values(column);
        // The registered schema is the saved one; it may be there by hash only.
        let known = match component.schema {
            Some(_) => Cow::Borrowed(component),
            None => Cow::Owned(Component { schema: Some(descriptor.schema.clone()), ..component.clone() }),
        };
        let portable = self.plan.options.portable;
        let staged = match &self.plan.ways[column.component as usize] {
            None => descriptor.column.decode(column, &known, shared, &self.context, portable),
            Some(way) => {
                let mut journey = Journey {
                    mapped: &self.context,
                    unmapped: &self.unmapped,
                    portable,
                    tables: &mut self.tables,
                    running: &mut self.running,
                };
                way.load(column, &known, shared, descriptor, &mut journey)
            }
        };
        let staged = staged.map_err(|error| error.in_key(&component.key))?;
        let dangling = self.context.take_dangling_count();
        if let Some(way) = &self.plan.ways[column.component as usize] {
            self.unknown_fields(column, descriptor.key(), way, kind, ids)?;
        }
        let (rows, left_out) = (column.rows, column.rows - staged.len());
        let lost = std::mem::take(&mut self.running.lost);
        let line = self.line(column, outcome);
        for field in lost {
            let change = Change::Dropped { field };
            if !line.changes.contains(&change) {
                line.changes.push(change);
            }
        }
        line.rows += rows;
        line.dangling += dangling;
        line.left_out += left_out;
        Ok(Some((target, staged)))
    }

    fn unknown(&mut self, column: &Column, kind: CarryKind, ids: &[EntityId]) -> Result<()> {
        if self.plan.options.unknown != Unknown::Keep {
            self.line(column, Outcome::Dropped).rows += column.rows;
            return Ok(());
        }
        self.carry.keep_column(self.plan.snapshot, column, kind, ids, self.map, &self.carry_context)?;
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
        way: &Way,
        kind: CarryKind,
        ids: &[EntityId],
    ) -> Result<()> {
        let (Some(fields), Unknown::Keep) = (&way.unknown, self.plan.options.unknown) else { return Ok(()) };
        let carried = self.carry.keep_fields(
            self.plan.snapshot,
            column,
            key,
            fields,
            kind == CarryKind::Resource,
            ids,
            self.map,
            &self.carry_context,
        );
        self.carry_context.take_dangling_count();
        carried
    }

    fn restored(&mut self, column: &Column) {
        self.line(column, Outcome::Restored).outcome = Outcome::Restored;
    }

    fn line(&mut self, column: &Column, outcome: Outcome) -> &mut ComponentReport {
        let lines = &mut self.report.components;
        let index = *self.lines[column.component as usize].get_or_insert_with(|| {
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
        });
        &mut lines[index]
    }
}
