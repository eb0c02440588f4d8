//! A delta entity by entity, for those who put deltas together.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::fields::{fields_size, leaves, moves, pack, unpack};
use super::writer::removed;
use super::{Change, ComponentTable, Delta, DeltaOp, Group};
use crate::column::{Body, Column, Component, Groups, group_rows, row_spans};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::storage::AlignedBuf;

/// Cells without bytes that each entity of a group may have before they are charged.
pub(super) const FREE_CELLS: usize = 8;
/// About what a cell costs in a map.
pub(super) const CELL_BYTES: usize = size_of::<(u32, Cell)>();
/// A row may be this much larger than the fields of it that are told before it is charged.
const FREE_GROWTH: usize = 256;

/// What is told of one component of an entity.
#[derive(Clone)]
pub(super) enum Cell {
    Removed,
    Value {
        op: DeltaOp,
        /// As in [`Change`]; the row has its whole length, and only these leaves mean something.
        fields: u64,
        /// A raw row as the table has it, or an encoded value.
        bytes: Bytes,
    },
}

#[derive(Clone, Default)]
pub(super) struct EntityCells {
    pub(super) spawned: bool,
    pub(super) cells: BTreeMap<u32, Cell>,
}

/// In the order in which entities are first told of.
#[derive(Default)]
pub(super) struct CellMap {
    order: Vec<EntityId>,
    entities: HashMap<EntityId, EntityCells>,
}

impl CellMap {
    /// Cells cost memory that a few bytes can ask for: `context` bounds it, and counts the work.
    pub(super) fn of(delta: &Delta, context: &LoadContext<'_>) -> Result<Self> {
        let mut map = Self::default();
        for group in &delta.groups {
            let rows = group.ids.len();
            context.limits.step(rows)?;
            let empty = group.changes.iter().filter(|change| matches!(change.column.body, Body::Tag)).count();
            context.claim_memory(rows, empty.saturating_sub(FREE_CELLS) * CELL_BYTES)?;
            for id in &group.ids {
                map.entry(*id).spawned |= group.spawned;
            }
            for change in &group.changes {
                let component = delta.table.get(change.column.component);
                context.limits.step(rows)?;
                let values =
                    values(change, component, rows, context).map_err(|error| error.in_key(&component.key))?;
                for (id, value) in group.ids.iter().zip(values) {
                    let cell = match value {
                        Some(bytes) => Cell::Value { op: change.op, fields: change.fields, bytes },
                        None if group.spawned => continue,
                        None => Cell::Removed,
                    };
                    map.entry(*id).cells.insert(change.column.component, cell);
                }
            }
        }
        Ok(map)
    }

    pub(super) fn entry(&mut self, id: EntityId) -> &mut EntityCells {
        self.entities.entry(id).or_insert_with(|| {
            self.order.push(id);
            EntityCells::default()
        })
    }

    pub(super) fn get(&self, id: EntityId) -> Option<&EntityCells> {
        self.entities.get(&id)
    }

    pub(super) fn remove(&mut self, id: EntityId) -> Option<EntityCells> {
        self.entities.remove(&id)
    }

    pub(super) fn into_entities(mut self) -> impl Iterator<Item = (EntityId, EntityCells)> {
        self.order.into_iter().filter_map(move |id| Some((id, self.entities.remove(&id)?)))
    }

    /// Entities of which the same is told are a group.
    pub(super) fn into_groups(self, table: &ComponentTable) -> Result<Vec<Group>> {
        type Told = (bool, Vec<(u32, Option<(DeltaOp, u64)>)>);
        let mut numbers: HashMap<Told, usize> = HashMap::new();
        let mut groups: Vec<(Told, Vec<EntityId>, Vec<Vec<Bytes>>)> = Vec::new();
        for (id, entity) in self.into_entities() {
            let told = |(number, cell): (&u32, &Cell)| match cell {
                Cell::Removed => (*number, None),
                Cell::Value { op, fields, .. } => (*number, Some((*op, *fields))),
            };
            let told: Told = (entity.spawned, entity.cells.iter().map(told).collect());
            let number = *numbers.entry(told).or_insert_with_key(|told| {
                groups.push((told.clone(), Vec::new(), vec![Vec::new(); told.1.len()]));
                groups.len() - 1
            });
            let (_, ids, columns) = &mut groups[number];
            ids.push(id);
            for (column, cell) in columns.iter_mut().zip(entity.cells.into_values()) {
                if let Cell::Value { bytes, .. } = cell {
                    column.push(bytes);
                }
            }
        }
        let group = |((spawned, told), ids, columns): (Told, Vec<EntityId>, Vec<Vec<Bytes>>)| {
            let changes = told.into_iter().zip(columns).map(|((number, told), rows)| match told {
                None => Ok(removed(number)),
                Some((op, fields)) => {
                    let column = column(number, table.get(number), fields, &rows)?;
                    Ok(Change { op, fields, column })
                }
            });
            Ok(Group { spawned, ids, changes: changes.collect::<Result<_>>()? })
        };
        groups.into_iter().map(group).collect()
    }
}

/// One value or nothing per row of a group.
fn values(
    change: &Change,
    component: &Component,
    rows: usize,
    context: &LoadContext<'_>,
) -> Result<Vec<Option<Bytes>>> {
    if change.op == DeltaOp::Removed {
        return Ok(vec![None; rows]);
    }
    let own = change.column.rows;
    let values: Vec<Bytes> = match &change.column.body {
        Body::Tag => vec![Bytes::new(); own],
        Body::Raw(rope) if change.fields != 0 => {
            let leaves =
                leaves(component).ok_or_else(|| Error::corrupt("its fields cannot be told apart"))?;
            let moves = moves(leaves, &component.row, change.fields);
            let (size, stride) = (fields_size(component, change.fields)?, component.row.stride as usize);
            context.claim_memory(own, stride.saturating_sub(FREE_GROWTH * size))?;
            let widen = |packed: &[u8]| {
                let mut row = vec![0; stride];
                unpack(packed, &moves, &mut row);
                Bytes::from(row)
            };
            rope.contiguous().chunks_exact(size).map(widen).collect()
        }
        Body::Raw(rope) => {
            let (bytes, stride) = (rope.shared(), component.row.stride as usize);
            (0..own).map(|row| bytes.slice(row * stride..(row + 1) * stride)).collect()
        }
        Body::Rows(groups) => {
            let spans = row_spans(groups, component.schema()?, context.limits, &|_| false)?;
            spans.into_iter().map(|(start, end)| groups.bytes.slice(start..end)).collect()
        }
        Body::Dictionary { .. } | Body::Shared { .. } => {
            return Err(Error::misuse("a delta has plain rows only"));
        }
    };
    if values.len() != own {
        return Err(Error::corrupt(format!("{} values, {own} expected", values.len())));
    }
    let mut values = values.into_iter();
    let told = |row: usize| change.column.present.as_ref().is_none_or(|present| present.get(row));
    Ok((0..rows).map(|row| if told(row) { values.next() } else { None }).collect())
}

fn column(number: u32, component: &Component, fields: u64, rows: &[Bytes]) -> Result<Column> {
    let stride = component.row.stride as usize;
    let body = if stride > 0 {
        let mut packed = Vec::new();
        if fields != 0 {
            let leaves =
                leaves(component).ok_or_else(|| Error::corrupt("its fields cannot be told apart"))?;
            let moves = moves(leaves, &component.row, fields);
            rows.iter().for_each(|row| pack(row, &moves, &mut packed));
        } else {
            rows.iter().for_each(|row| packed.extend_from_slice(row));
        }
        Body::Raw(AlignedBuf::copy_from(&packed).share().into())
    } else {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for row in rows {
            bytes.extend_from_slice(row);
            ends.push(bytes.len());
        }
        if bytes.is_empty() { Body::Tag } else { Body::Rows(Groups::new(bytes.into(), group_rows(&ends))) }
    };
    Ok(Column { component: number, present: None, rows: rows.len(), body })
}
