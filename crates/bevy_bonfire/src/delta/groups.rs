//! What was touched, put into groups: entities of which the same is told.

use std::collections::HashMap;

use bevy_ecs::archetype::{Archetype, ArchetypeId};
use bevy_ecs::world::World;
use bonfire::engine::{DeltaOp, DeltaWriter, GroupKind};
use bonfire::{EntityId, Result};

use super::entity_tracker::RowOrigin;
use super::row_bits::{ColumnBits, RowBits};
use super::values::{ColumnPointers, PickedValues};
use crate::capture::{CaptureInput, ChosenArchetype, Rows, SaveOptions, TickRange};
use crate::registry::ComponentRegistry;

/// Columns beyond these are not told apart: if one of them is touched, all are told.
const COLUMNS_MAX: usize = 128;

/// The changes that all entities of a group have: components by their numbers in the registry.
#[derive(Clone, PartialEq, Eq, Hash)]
struct GroupChanges {
    spawned: bool,
    ops: Vec<(usize, DeltaOp)>,
}

struct Group<'a> {
    changes: GroupChanges,
    ids: Vec<EntityId>,
    /// Of components that are not removed, in order.
    values: Vec<PickedValues<'a>>,
}

/// All groups of a delta, in the order in which their first entities come.
pub(super) struct Groups<'a> {
    world: &'a World,
    registry: &'a ComponentRegistry,
    options: &'a SaveOptions,
    ticks: TickRange,
    /// Numbers of components of which every row is written.
    all: &'a [usize],
    list: Vec<Group<'a>>,
    numbers: HashMap<GroupChanges, usize>,
}

/// The group of the rows of an archetype that have the same columns touched and the same origin.
struct Route {
    touched: u128,
    origin: Option<RowOrigin>,
    group: Option<usize>,
    /// The columns of the archetype that the group has, in its order.
    columns: Vec<usize>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(world: &'a World, input: CaptureInput<'a>, ticks: TickRange, all: &'a [usize]) -> Self {
        let CaptureInput { registry, options, .. } = input;
        Self { world, registry, options, ticks, all, list: Vec::new(), numbers: HashMap::new() }
    }

    /// Returns true if deltas have values of a component.
    fn has(&self, number: usize) -> bool {
        !self.registry.core.descriptors()[number].is_transient()
            && self.options.has(&self.registry.entries[number])
    }

    fn number(&mut self, changes: GroupChanges) -> usize {
        if let Some(number) = self.numbers.get(&changes) {
            return *number;
        }
        let values = changes.ops.iter().filter(|(_, op)| *op != DeltaOp::Removed);
        let values = values.map(|(number, _)| PickedValues::new(*number)).collect();
        self.list.push(Group { changes: changes.clone(), ids: Vec::new(), values });
        self.numbers.insert(changes, self.list.len() - 1);
        self.list.len() - 1
    }

    /// Adds the rows of an archetype that have changed. `entered` are those whose entities were not in it before.
    pub(super) fn add(
        &mut self,
        chosen: &'a ChosenArchetype<'a>,
        entered: &[(usize, RowOrigin)],
        bits: &mut RowBits,
    ) {
        let rows = &chosen.rows;
        let (world, registry) = (self.world, self.registry);
        let numbers: Vec<usize> = chosen.numbers(registry).filter(|&number| self.has(number)).collect();
        let columns: Vec<ColumnPointers<'a>> =
            numbers.iter().filter_map(|&number| ColumnPointers::of(world, registry, number, rows)).collect();
        self.find_touched(rows, &numbers, bits);
        entered.iter().for_each(|(row, _)| bits.touch(*row));
        let many = numbers.len() > COLUMNS_MAX;
        let mut routes: Vec<Route> = Vec::new();
        let mut entered = entered.iter().peekable();
        bits.for_each(|row, touched| {
            let origin = entered.next_if(|(entered, _)| *entered == row).map(|(_, origin)| *origin);
            let touched = match origin {
                Some(RowOrigin::Spawned) => u128::MAX,
                _ if many && touched != 0 => u128::MAX,
                _ => touched,
            };
            let is_known = |route: &Route| route.touched == touched && route.origin == origin;
            let route = match routes.iter().position(is_known) {
                Some(route) => route,
                None => {
                    routes.push(self.route(chosen.archetype, &numbers, touched, origin));
                    routes.len() - 1
                }
            };
            let Route { group: Some(group), columns: picked, .. } = &routes[route] else { return };
            let group = &mut self.list[*group];
            group.ids.push(rows.entities()[row].into());
            for (values, &column) in group.values.iter_mut().zip(picked) {
                values.push(&columns[column], row);
            }
        });
    }

    /// Sets the bits of rows that were touched, by column.
    fn find_touched(&self, rows: &Rows<'_>, numbers: &[usize], bits: &mut RowBits) {
        bits.reset(rows.len(), numbers.len().min(COLUMNS_MAX));
        for (column, &number) in numbers.iter().enumerate() {
            let entry = &self.registry.entries[number];
            let column = column.min(COLUMNS_MAX - 1);
            if entry.unseen || self.all.contains(&number) {
                bits.set_all(column);
            } else {
                let column = &mut ColumnBits { bits, column };
                self.ticks.mark_changed(self.world, rows, entry.id, column);
            }
        }
    }

    fn route(
        &mut self,
        archetype: &Archetype,
        numbers: &[usize],
        touched: u128,
        origin: Option<RowOrigin>,
    ) -> Route {
        let before = match origin {
            Some(RowOrigin::Archetype(before)) => Some(self.numbers_of(before)),
            _ => None,
        };
        let spawned = origin == Some(RowOrigin::Spawned);
        let mut changes: Vec<(usize, DeltaOp, Option<usize>)> = Vec::new();
        for (column, &number) in numbers.iter().enumerate() {
            let added = spawned || before.as_ref().is_some_and(|before| !before.contains(&number));
            if added {
                changes.push((number, DeltaOp::Added, Some(column)));
            } else if touched >> column.min(COLUMNS_MAX - 1) & 1 == 1 {
                changes.push((number, DeltaOp::Changed, Some(column)));
            }
        }
        for number in before.into_iter().flatten() {
            if !archetype.contains(self.registry.entries[number].id) {
                changes.push((number, DeltaOp::Removed, None));
            }
        }
        changes.sort_by_key(|(number, ..)| *number);
        let columns = changes.iter().filter_map(|(_, _, column)| *column).collect();
        let ops: Vec<(usize, DeltaOp)> = changes.into_iter().map(|(number, op, _)| (number, op)).collect();
        let is_empty = ops.is_empty() && !spawned;
        let group = (!is_empty).then(|| self.number(GroupChanges { spawned, ops }));
        Route { touched, origin, group, columns }
    }

    /// The registered components that entities of an archetype have and deltas tell of.
    fn numbers_of(&self, archetype: ArchetypeId) -> Vec<usize> {
        let Some(archetype) = self.world.archetypes().get(archetype) else { return Vec::new() };
        let numbers = archetype.iter_components().filter_map(|id| self.registry.number(id));
        numbers.filter(|&number| self.has(number)).collect()
    }

    pub(super) fn write(self, writer: &mut DeltaWriter<'_>) -> Result<()> {
        for Group { changes, ids, values } in self.list {
            let kind = if changes.spawned { GroupKind::Spawned } else { GroupKind::Changed };
            let mut group = writer.group(kind, ids);
            let mut values = values.into_iter();
            for (number, op) in changes.ops {
                match op {
                    DeltaOp::Removed => group.removed(number),
                    DeltaOp::Added | DeltaOp::Changed => {
                        if let Some(values) = values.next() {
                            values.write(&mut group, op)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
