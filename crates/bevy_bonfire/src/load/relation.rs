//! Relationships: those without a target are left out, and those whose order is not that of rows are inserted in their
//! order when everything else is there.

use std::collections::HashMap;

use bevy_ecs::entity::{Entity, EntityHashMap, EntityHashSet};
use bonfire::{EntityId, LoadReport};

use super::commit::{Late, Moving};
use crate::capture::Order;
use crate::registry::Registered;

/// The columns of relationships: archetype, column, offset of the target.
fn columns(registry: &Registered, moving: &[Moving<'_>]) -> Vec<(usize, usize, usize)> {
    let mut columns = Vec::new();
    for (archetype, moving) in moving.iter().enumerate() {
        for (column, moved) in moving.columns.iter().enumerate() {
            if let Some(relation) = registry.entries[moved.number].relation {
                columns.push((archetype, column, relation.offset));
            }
        }
    }
    columns
}

/// A relationship to nothing is none: its target was not saved.
pub(super) fn drop_without_target(registry: &Registered, moving: &mut [Moving<'_>], report: &mut LoadReport) {
    for (archetype, column, offset) in columns(registry, moving) {
        let rows = moving[archetype].entities.len();
        let column = &mut moving[archetype].columns[column];
        let mut left_out = 0;
        for row in 0..rows {
            if column.target(row, offset) == Some(Entity::PLACEHOLDER)
                && let Some(taken) = column.take_row(row)
            {
                column.discard(taken);
                left_out += 1;
            }
        }
        let key = registry.registry.descriptors()[column.number].key();
        if let Some(line) = report.components.iter_mut().find(|line| line.key == key) {
            line.left_out += left_out;
        }
    }
}

/// Takes out the sources that would come to their target in another order than the saved one.
pub(super) fn take_out_of_order(
    registry: &Registered,
    moving: &mut [Moving<'_>],
    entities: &[Entity],
    order: &Order,
) -> Vec<Late> {
    let mut late = Vec::new();
    let columns = columns(registry, moving);
    let numbers: Vec<usize> = {
        let mut numbers: Vec<usize> =
            columns.iter().map(|&(archetype, column, _)| moving[archetype].columns[column].number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    for number in numbers {
        let columns: Vec<_> = (columns.iter().copied())
            .filter(|&(archetype, column, _)| moving[archetype].columns[column].number == number)
            .collect();
        let lists = order.get(registry.registry.descriptors()[number].key());
        let listed = lists.into_iter().flatten().map(|(_, sources)| sources);
        out_of_order(&columns, moving, entities, listed, &mut late);
    }
    late
}

/// When a source comes to its target: batches first, then what is inserted, each in the order of rows.
type Turn = (bool, usize);

fn out_of_order<'a>(
    columns: &[(usize, usize, usize)],
    moving: &mut [Moving<'_>],
    entities: &[Entity],
    lists: impl Iterator<Item = &'a Vec<EntityId>> + Clone,
    late: &mut Vec<Late>,
) {
    let mut places: EntityHashMap<(usize, usize, usize)> = EntityHashMap::default();
    let mut turns: EntityHashMap<Turn> = EntityHashMap::default();
    let inserted = |archetype: &Moving<'_>| archetype.segments.iter().any(|segment| segment.slot.is_none());
    let batched = |archetype: &Moving<'_>| archetype.segments.iter().any(|segment| segment.slot.is_some());
    let mixed = columns.iter().any(|&(archetype, ..)| inserted(&moving[archetype]))
        && columns.iter().any(|&(archetype, ..)| batched(&moving[archetype]));
    if lists.clone().next().is_none() && !mixed {
        return;
    }
    // Sources in the order of rows, by target, if some of them come by another way than others.
    let mut by_target: HashMap<Entity, Vec<Entity>> = HashMap::new();
    for &(archetype, column, offset) in columns {
        let moving = &moving[archetype];
        for segment in moving.segments.iter() {
            for row in segment.rows.clone().filter(|&row| moving.columns[column].has(row)) {
                let position = moving.entities.start + row;
                places.insert(entities[position], (archetype, column, row));
                turns.insert(entities[position], (segment.slot.is_none(), position));
                if mixed && let Some(target) = moving.columns[column].target(row, offset) {
                    by_target.entry(target).or_default().push(entities[position]);
                }
            }
        }
    }
    let mut take = |source: Entity| {
        if let Some((archetype, column, row)) = places.remove(&source)
            && let Some(row) = moving[archetype].columns[column].take_row(row)
        {
            late.push(Late { entity: source, archetype, column, row });
        }
    };
    let in_turn = |sources: &[Entity]| sources.iter().filter_map(|source| turns.get(source)).is_sorted();
    let mut done: EntityHashSet = EntityHashSet::default();
    for list in lists {
        let list: Vec<Entity> = list.iter().map(|&id| id.into()).collect();
        done.extend(list.iter().copied());
        if !in_turn(&list) {
            list.into_iter().for_each(&mut take);
        }
    }
    for list in by_target.into_values().filter(|list| !in_turn(list)) {
        list.into_iter().filter(|source| !done.contains(source)).for_each(&mut take);
    }
}
