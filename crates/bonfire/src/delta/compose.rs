//! Deltas that follow each other, as one.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::cell_map::{Cell, CellMap, EntityCells};
use super::fields::{leaves, moves};
use super::{ComponentTable, DataEdit, Delta, DeltaOp, List};
use crate::column::{Column, Component};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;

impl Delta {
    /// What leads from where this one begins to where `later` ends. What came and went in between is not told at all.
    ///
    /// For deltas that this process made. Deltas from outside are composed by [`compose_all`](Self::compose_all).
    pub fn compose(&self, later: &Self) -> Result<Self> {
        let limits = Limits::default();
        let mut composed = Composition::new(self, &limits)?;
        composed.add(later)?;
        composed.finish()
    }

    /// Composes deltas that follow each other, in one pass over them. Returns `None` if there are none.
    pub fn compose_all<'d>(
        deltas: impl IntoIterator<Item = &'d Self>,
        limits: &Limits,
    ) -> Result<Option<Self>> {
        let mut deltas = deltas.into_iter();
        let Some(first) = deltas.next() else { return Ok(None) };
        let mut composed = Composition::new(first, limits)?;
        deltas.try_for_each(|delta| composed.add(delta))?;
        composed.finish().map(Some)
    }
}

/// Deltas that were composed so far. Each one that is added costs what it tells.
struct Composition<'l> {
    /// All but what the other fields hold.
    outline: Delta,
    context: LoadContext<'l>,
    cells: CellMap,
    /// The same ids as `outline.despawned`, which has them in the order in which they went.
    gone: HashSet<EntityId>,
    /// By target, so that those of a target that goes are found; then by component.
    lists: HashMap<EntityId, BTreeMap<u32, List>>,
    resources: BTreeMap<u32, Option<Column>>,
}

impl<'l> Composition<'l> {
    fn new(first: &Delta, limits: &'l Limits) -> Result<Self> {
        let context = LoadContext::new(limits);
        let cells = CellMap::of(first, &context)?;
        let outline = first.clone_outline();
        let gone = outline.despawned.iter().copied().collect();
        let resources = first.resources.iter().cloned().collect();
        let mut composed = Self { outline, context, cells, gone, lists: HashMap::new(), resources };
        composed.add_lists();
        Ok(composed)
    }

    /// Moves the lists of the outline to where they can be found.
    fn add_lists(&mut self) {
        for list in std::mem::take(&mut self.outline.lists) {
            self.lists.entry(list.target).or_default().insert(list.component, list);
        }
    }

    fn add(&mut self, later: &Delta) -> Result<()> {
        let outline = &mut self.outline;
        if outline.now != later.since && !later.whole {
            return Err(Error::misuse(format!(
                "a delta to tick {} and one from tick {} do not follow each other",
                outline.now, later.since
            )));
        }
        if !outline.table.same_rows(&later.table) {
            return Err(Error::schema("the deltas are about other components"));
        }
        if later.whole {
            let since = outline.since;
            *self = Self::new(later, self.context.limits)?;
            self.outline.since = since;
            return Ok(());
        }
        self.context.limits.step(later.despawned.len() + later.lists.len() + later.resources.len())?;
        for &id in &later.despawned {
            let came = self.cells.remove(id).is_some_and(|entity| entity.spawned);
            if !came && self.gone.insert(id) {
                outline.despawned.push(id);
            }
            self.lists.remove(&id);
        }
        // An id that went and comes again stays among those that went: it may have been there before.
        for (id, entity) in CellMap::of(later, &self.context)?.into_entities() {
            let before = self.cells.entry(id);
            merge(&outline.table, before, entity)?;
            if !before.spawned && before.cells.is_empty() {
                self.cells.remove(id);
            }
        }
        outline.lists = later.lists.clone();
        self.resources.extend(later.resources.iter().cloned());
        (outline.now, outline.next_entity_id) = (later.now, later.next_entity_id);
        if let Some(metadata) = &later.metadata {
            outline.metadata = Some(metadata.clone());
        }
        outline.data = compose_data(outline.data.take(), later.data.as_ref())?;
        self.add_lists();
        Ok(())
    }

    fn finish(self) -> Result<Delta> {
        let Self { mut outline, cells, lists, mut resources, .. } = self;
        if outline.whole {
            outline.despawned.clear();
            resources.retain(|_, column| column.is_some());
        }
        outline.groups = cells.into_groups(&outline.table)?;
        outline.lists = lists.into_values().flat_map(BTreeMap::into_values).collect();
        outline.lists.sort_by_key(|list| (list.component, list.target));
        outline.resources = resources.into_iter().collect();
        Ok(outline)
    }
}

fn compose_data(
    first: Option<Vec<DataEdit>>,
    second: Option<&Vec<DataEdit>>,
) -> Result<Option<Vec<DataEdit>>> {
    let Some(second) = second else { return Ok(first) };
    let Some(first) = first else { return Ok(Some(second.clone())) };
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
    for step in moves(leaves, &component.row, fields) {
        row[step.to..step.to + step.len].copy_from_slice(&over[step.to..step.to + step.len]);
    }
    Ok(row.into())
}
