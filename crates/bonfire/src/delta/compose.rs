//! Two deltas that follow each other, as one.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;

use super::cell_map::{Cell, CellMap, EntityCells};
use super::fields::{leaves, moves};
use super::{ComponentTable, DataEdit, Delta, DeltaOp};
use crate::column::Component;
use crate::entity::EntityId;
use crate::error::{Error, Result};

impl Delta {
    /// What leads from where this one begins to where `later` ends. What came and went in between is not told at all.
    pub fn compose(&self, later: &Self) -> Result<Self> {
        if self.now != later.since && !later.whole {
            return Err(Error::misuse(format!(
                "a delta to tick {} and one from tick {} do not follow each other",
                self.now, later.since
            )));
        }
        if !self.table.same_rows(&later.table) {
            return Err(Error::schema("the deltas are about other components"));
        }
        if later.whole {
            return Ok(Self { since: self.since, ..later.clone() });
        }
        let mut cells = CellMap::of(self)?;
        // In the order in which they went.
        let mut despawned = self.despawned.clone();
        let mut gone: HashSet<EntityId> = despawned.iter().copied().collect();
        for &id in &later.despawned {
            let came = cells.remove(id).is_some_and(|entity| entity.spawned);
            if !came && gone.insert(id) {
                despawned.push(id);
            }
        }
        // An id that went and comes again stays among those that went: it may have been there before.
        for (id, entity) in CellMap::of(later)?.into_entities() {
            merge(&self.table, cells.entry(id), entity)?;
        }
        let unchanged = |entity: &EntityCells| !entity.spawned && entity.cells.is_empty();
        let empty: Vec<EntityId> = later
            .groups
            .iter()
            .flat_map(|group| &group.ids)
            .copied()
            .filter(|id| cells.get(*id).is_some_and(unchanged))
            .collect();
        empty.into_iter().for_each(|id| drop(cells.remove(id)));
        if self.whole {
            despawned.clear();
        }
        let gone: HashSet<&EntityId> = later.despawned.iter().collect();
        let lists = self.lists.iter().filter(|list| !gone.contains(&list.target)).chain(&later.lists);
        let lists: BTreeMap<_, _> = lists.map(|list| ((list.component, list.target), list)).collect();
        let resources = self.resources.iter().chain(&later.resources);
        let resources: BTreeMap<u32, _> = resources.map(|(number, column)| (*number, column)).collect();
        let absent = |column: &Option<_>| self.whole && column.is_none();
        Ok(Self {
            table: self.table.clone(),
            since: self.since,
            now: later.now,
            whole: self.whole,
            next_entity_id: later.next_entity_id,
            despawned,
            groups: cells.into_groups(&self.table)?,
            lists: lists.into_values().cloned().collect(),
            resources: resources
                .into_iter()
                .filter(|(_, column)| !absent(column))
                .map(|(number, column)| (number, column.clone()))
                .collect(),
            metadata: later.metadata.clone().or_else(|| self.metadata.clone()),
            data: compose_data(self.data.as_ref(), later.data.as_ref())?,
        })
    }
}

fn compose_data(
    first: Option<&Vec<DataEdit>>,
    second: Option<&Vec<DataEdit>>,
) -> Result<Option<Vec<DataEdit>>> {
    let (Some(first), Some(second)) = (first, second) else { return Ok(second.or(first).cloned()) };
    let resolve = |edit: &DataEdit| match edit {
        DataEdit::New(entry) => Ok(DataEdit::New(entry.clone())),
        DataEdit::Kept(place) => first
            .get(*place as usize)
            .cloned()
            .ok_or_else(|| Error::corrupt(format!("data entry {place} of {}", first.len()))),
    };
    second.iter().map(resolve).collect::<Result<_>>().map(Some)
}

/// What is told of an entity by two deltas.
fn merge(table: &ComponentTable, first: &mut EntityCells, second: EntityCells) -> Result<()> {
    if second.spawned {
        *first = second;
        return Ok(());
    }
    for (number, cell) in second.cells {
        let before = first.cells.remove(&number);
        if let Some(cell) = merge_cell(table.get(number), before, cell, first.spawned)? {
            first.cells.insert(number, cell);
        }
    }
    Ok(())
}

fn merge_cell(
    component: &Component,
    first: Option<Cell>,
    second: Cell,
    spawned: bool,
) -> Result<Option<Cell>> {
    Ok(match (first, second) {
        (None, Cell::Removed) if spawned => None,
        // Of an entity that has come everything is told at once.
        (None, Cell::Value { fields, bytes, .. }) if spawned => {
            Some(Cell::Value { op: DeltaOp::Added, fields, bytes })
        }
        (None, second) => Some(second),
        (Some(Cell::Removed), Cell::Value { bytes, .. }) => {
            Some(Cell::Value { op: DeltaOp::Changed, fields: 0, bytes })
        }
        (Some(Cell::Removed), Cell::Removed) => Some(Cell::Removed),
        (Some(Cell::Value { op: DeltaOp::Added, .. }), Cell::Removed) => None,
        (Some(Cell::Value { .. }), Cell::Removed) => Some(Cell::Removed),
        (Some(Cell::Value { op, .. }), Cell::Value { fields: 0, bytes, .. }) => {
            Some(Cell::Value { op, fields: 0, bytes })
        }
        (Some(Cell::Value { op, fields, bytes }), Cell::Value { fields: told, bytes: over, .. }) => {
            let bytes = overlay(component, &bytes, told, &over)?;
            Some(Cell::Value { op, fields: if fields == 0 { 0 } else { fields | told }, bytes })
        }
    })
}

/// A row with some of its leaves from another one.
pub(super) fn overlay(component: &Component, row: &[u8], fields: u64, over: &[u8]) -> Result<Bytes> {
    let leaves = leaves(component).ok_or_else(|| Error::corrupt("its fields cannot be told apart"))?;
    let mut row = row.to_vec();
    for step in moves(&leaves, &component.row, fields) {
        row[step.to..step.to + step.len].copy_from_slice(&over[step.to..step.to + step.len]);
    }
    Ok(row.into())
}
