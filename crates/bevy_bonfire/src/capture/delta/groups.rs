//! What was touched, put into groups: entities of which the same is told.

use std::collections::HashMap;

use bevy_ecs::archetype::{Archetype, ArchetypeId};
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{DeltaOp, DeltaWriter, GroupKind};
use bonfire::{EntityId, Result};

use super::structure::Arrival;
use crate::capture::changes::{RowBits, TickRange};
use crate::capture::column::{PickedValues, Source};
use crate::capture::{Chosen, Rows};
use crate::registry::Registered;

/// Columns beyond these are not told apart: if one of them is touched, all are told.
const COLUMNS_MAX: usize = 128;

/// What is told of the entities of a group: components by their numbers in the registry.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Told {
    spawned: bool,
    ops: Vec<(usize, DeltaOp)>,
}

struct Group<'a> {
    told: Told,
    ids: Vec<EntityId>,
    /// Of those that are not removed, in order.
    values: Vec<PickedValues<'a>>,
}

/// All groups of a delta, in the order in which their first entities come.
#[derive(Default)]
pub(super) struct Groups<'a> {
    list: Vec<Group<'a>>,
    numbers: HashMap<Told, usize>,
}

/// Where the rows of an archetype go that have the same columns touched.
struct Route {
    touched: u128,
    arrival: Option<Arrival>,
    group: Option<usize>,
    /// Which of the archetype's columns the group has, in its order.
    columns: Vec<usize>,
}

impl<'a> Groups<'a> {
    fn number(&mut self, told: Told) -> usize {
        if let Some(number) = self.numbers.get(&told) {
            return *number;
        }
        let values = told.ops.iter().filter(|(_, op)| *op != DeltaOp::Removed);
        let values = values.map(|(number, _)| PickedValues::new(*number)).collect();
        self.list.push(Group { told: told.clone(), ids: Vec::new(), values });
        self.numbers.insert(told, self.list.len() - 1);
        self.list.len() - 1
    }

    /// Adds the rows of an archetype that have changed. `all` are numbers of components of which every row is told.
    #[expect(
        clippy::too_many_arguments,
        reason = "what has changed about an archetype, and where it is noted"
    )]
    pub(super) fn add(
        &mut self,
        world: &'a World,
        registry: &Registered,
        chosen: &'a Chosen<'a>,
        ticks: TickRange,
        arrivals: &[(usize, Arrival)],
        all: &[usize],
        bits: &mut RowBits,
    ) {
        let rows = &chosen.rows;
        let is_told = |number: &usize| !registry.registry.descriptors()[*number].is_transient();
        let numbers: Vec<usize> = chosen.numbers(registry).filter(is_told).collect();
        let sources: Vec<Source<'a>> =
            numbers.iter().filter_map(|&number| Source::of(world, registry, number, rows)).collect();
        bits.reset(rows.len(), numbers.len().min(COLUMNS_MAX));
        for (column, &number) in numbers.iter().enumerate() {
            let entry = &registry.entries[number];
            let column = column.min(COLUMNS_MAX - 1);
            if entry.unseen || all.contains(&number) {
                bits.set_all(column);
            } else {
                ticks.set_bits(world, rows, entry.id, column, bits);
            }
        }
        arrivals.iter().for_each(|(row, _)| bits.touch(*row));
        let many = numbers.len() > COLUMNS_MAX;
        let mut routes: Vec<Route> = Vec::new();
        let mut arrivals = arrivals.iter().peekable();
        bits.for_each(|row, touched| {
            let arrival = arrivals.next_if(|(arrived, _)| *arrived == row).map(|(_, arrival)| *arrival);
            let touched = match arrival {
                Some(Arrival::Spawned) => u128::MAX,
                _ if many && touched != 0 => u128::MAX,
                _ => touched,
            };
            let known = |route: &Route| route.touched == touched && route.arrival == arrival;
            let route = match routes.iter().position(known) {
                Some(route) => route,
                None => {
                    let archetype = chosen.archetype;
                    routes.push(self.route(world, registry, archetype, &numbers, touched, arrival));
                    routes.len() - 1
                }
            };
            let Route { group: Some(group), columns, .. } = &routes[route] else { return };
            let group = &mut self.list[*group];
            group.ids.push(id(rows, row));
            for (values, &column) in group.values.iter_mut().zip(columns) {
                values.push(&sources[column], row);
            }
        });
    }

    fn route(
        &mut self,
        world: &World,
        registry: &Registered,
        archetype: &Archetype,
        numbers: &[usize],
        touched: u128,
        arrival: Option<Arrival>,
    ) -> Route {
        let before = match arrival {
            Some(Arrival::From(before)) => Some(numbers_of(world, registry, before)),
            _ => None,
        };
        let spawned = arrival == Some(Arrival::Spawned);
        let mut told: Vec<(usize, DeltaOp, Option<usize>)> = Vec::new();
        for (column, &number) in numbers.iter().enumerate() {
            let added = spawned || before.as_ref().is_some_and(|before| !before.contains(&number));
            if added {
                told.push((number, DeltaOp::Added, Some(column)));
            } else if touched >> column.min(COLUMNS_MAX - 1) & 1 == 1 {
                told.push((number, DeltaOp::Changed, Some(column)));
            }
        }
        for number in before.into_iter().flatten() {
            if !archetype.contains(registry.entries[number].id) {
                told.push((number, DeltaOp::Removed, None));
            }
        }
        told.sort_by_key(|(number, ..)| *number);
        let columns = told.iter().filter_map(|(_, _, column)| *column).collect();
        let ops: Vec<(usize, DeltaOp)> = told.into_iter().map(|(number, op, _)| (number, op)).collect();
        let nothing = ops.is_empty() && !spawned;
        let group = (!nothing).then(|| self.number(Told { spawned, ops }));
        Route { touched, arrival, group, columns }
    }

    pub(super) fn write(self, writer: &mut DeltaWriter<'_>) -> Result<()> {
        for Group { told, ids, values } in self.list {
            let kind = if told.spawned { GroupKind::Spawned } else { GroupKind::Changed };
            let mut group = writer.group(kind, ids);
            let mut values = values.into_iter();
            for (number, op) in told.ops {
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

fn id(rows: &Rows<'_>, row: usize) -> EntityId {
    let entity: Entity = rows.entities()[row];
    entity.into()
}

/// The registered components that entities of an archetype have, but for transient ones.
fn numbers_of(world: &World, registry: &Registered, archetype: ArchetypeId) -> Vec<usize> {
    let Some(archetype) = world.archetypes().get(archetype) else { return Vec::new() };
    let numbers = archetype.iter_components().filter_map(|id| registry.number(id));
    numbers.filter(|number| !registry.registry.descriptors()[*number].is_transient()).collect()
}
