//! Applies a delta to a snapshot: how a journal is read and merged.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::cell_map::{CELL_BYTES, Cell, CellMap, EntityCells, FREE_CELLS};
use super::compose::overlay;
use super::list_order::{self, LIST_ORDER_KEY};
use super::placement::{empty_column, is_empty};
use super::{ComponentTable, DataEdit, Delta, DeltaOp};
use crate::column::{Body, Column, Component, DenseRows, column_from};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::row::copy_leaves;
use crate::snapshot::{Archetype, DataEntry, Snapshot};
use crate::storage::AlignedBuf;

impl Snapshot {
    /// The world after a delta. Many deltas are composed first: see [`Delta::compose_all`].
    ///
    /// For deltas that this process made. Those from outside are applied by [`with_delta_in`](Self::with_delta_in).
    pub fn with_delta(&self, delta: &Delta) -> Result<Self> {
        self.with_delta_in(delta, &Limits::default())
    }

    /// The world after a delta, within limits: they bound the entities, archetypes and components of the result, and the
    /// memory of values that have no bytes in the delta.
    pub fn with_delta_in(&self, delta: &Delta, limits: &Limits) -> Result<Self> {
        let mut patched = if delta.whole {
            Self { metadata: self.metadata.clone(), world: self.world, ..Self::default() }
        } else {
            self.clone()
        };
        (patched.sections, patched.notes) = (Vec::new(), Vec::new());
        let mut patch = SnapshotPatch::new(patched, &delta.table, limits)?;
        patch.entities(delta)?;
        patch.resources(delta)?;
        let mut patched = patch.snapshot;
        let mut order = list_order::of(&patched, limits)?;
        let gone: HashSet<&EntityId> = delta.despawned.iter().collect();
        order.values_mut().for_each(|lists| lists.retain(|target, _| !gone.contains(target)));
        let mut order = list_order::with_lists(order, &delta.table, &delta.lists);
        order.retain(|_, lists| !lists.is_empty());
        patched.data = data(&patched.data, delta.data.as_deref())?;
        if !order.is_empty() {
            patched.data.insert(0, DataEntry::new(LIST_ORDER_KEY, &order)?);
        }
        if let Some(metadata) = &delta.metadata {
            patched.metadata.clone_from(metadata);
        }
        patched.next_entity_id = patched.next_entity_id.max(delta.next_entity_id);
        patched.order_components();
        patched.check_counts(limits)?;
        Ok(patched)
    }

    /// Fails if there are more entities, archetypes or components than the limits allow.
    fn check_counts(&self, limits: &Limits) -> Result<()> {
        let counts = [
            (self.entity_count(), limits.entities_max, "entities"),
            (self.archetypes.len(), limits.archetypes_max, "archetypes"),
            (self.components.len(), limits.components_max, "components"),
        ];
        match counts.into_iter().find(|(count, max, _)| *count as u64 > u64::from(*max)) {
            Some((count, max, what)) => {
                Err(Error::limit(format!("{count} {what} after a delta, at most {max} are allowed")))
            }
            None => Ok(()),
        }
    }
}

fn data(before: &[DataEntry], edits: Option<&[DataEdit]>) -> Result<Vec<DataEntry>> {
    let before: Vec<&DataEntry> = before.iter().filter(|entry| entry.key() != LIST_ORDER_KEY).collect();
    let Some(edits) = edits else { return Ok(before.into_iter().cloned().collect()) };
    let resolve = |edit: &DataEdit| match edit {
        DataEdit::New(entry) => Ok(entry.clone()),
        DataEdit::Kept(place) => before
            .get(*place as usize)
            .map(|entry| (*entry).clone())
            .ok_or_else(|| Error::corrupt(format!("data entry {place} of {}", before.len()))),
    };
    edits.iter().map(resolve).collect()
}

/// An entity that gets a new place: its values, encoded, by number in the snapshot.
pub(super) type Row = BTreeMap<u32, Bytes>;

pub(super) struct SnapshotPatch<'d> {
    pub(super) snapshot: Snapshot,
    table: &'d ComponentTable,
    /// By number in the table, the number in the snapshot.
    numbers: Vec<u32>,
    pub(super) context: LoadContext<'d>,
}

impl<'d> SnapshotPatch<'d> {
    fn new(mut snapshot: Snapshot, table: &'d ComponentTable, limits: &'d Limits) -> Result<Self> {
        limits.step(snapshot.components.len() + table.components().len())?;
        let carried: HashSet<u32> = snapshot.carried.iter().map(|record| record.column.component).collect();
        let mut by_key: HashMap<&str, u32> = HashMap::new();
        for (known, number) in
            snapshot.components.iter().zip(0..).filter(|(_, number)| !carried.contains(number))
        {
            by_key.entry(&known.key).or_insert(number);
        }
        let (mut numbers, mut new) = (Vec::new(), Vec::new());
        for component in table.components() {
            let known = by_key.get(&*component.key).copied();
            if let Some(number) = known
                && snapshot.components[number as usize].schema_fingerprint != component.schema_fingerprint
            {
                let message = "the delta is of a build with another type than the save";
                return Err(Error::schema(message).in_key(&component.key));
            }
            numbers.push(known.unwrap_or_else(|| {
                new.push(component.clone());
                (snapshot.components.len() + new.len()) as u32 - 1
            }));
        }
        snapshot.components.extend(new);
        Ok(Self { snapshot, table, numbers, context: LoadContext::new(limits) })
    }

    pub(super) fn dense(&self, column: &Column, rows: usize) -> Result<DenseRows> {
        self.context.limits.step(rows)?;
        self.snapshot.dense(column, rows, self.context.limits, &|_| false)
    }

    /// A value of the table's component as it is encoded.
    fn encoded(&self, number: u32, bytes: &Bytes) -> Result<Bytes> {
        let component = self.table.get(number);
        if component.row.stride == 0 {
            return Ok(bytes.clone());
        }
        let leaves = component.row.check(component.schema()?)?;
        let size: usize = leaves.iter().map(|leaf| leaf.size as usize).sum();
        let moves = component.row.moves_to_encoded(leaves);
        let mut dense = vec![0; size];
        copy_leaves(bytes, component.row.stride as usize, &mut dense, size, &moves);
        Ok(dense.into())
    }

    fn entities(&mut self, delta: &Delta) -> Result<()> {
        let mut cells = CellMap::of(delta, &self.context)?;
        let gone: HashSet<EntityId> = delta.despawned.iter().copied().collect();
        let mut new_rows: Vec<(EntityId, Row)> = Vec::new();
        let mut archetypes = std::mem::take(&mut self.snapshot.archetypes);
        for archetype in &mut archetypes {
            *archetype = self.archetype(archetype, &gone, &mut cells, &mut new_rows)?;
        }
        for (id, entity) in cells.into_entities() {
            if !entity.spawned {
                return Err(Error::corrupt(format!("entity {id} has changed, and is not there")));
            }
            new_rows.push((id, self.applied(Row::new(), &entity)?));
        }
        archetypes.retain(|archetype| archetype.rows > 0);
        self.place(&mut archetypes, new_rows)?;
        self.snapshot.archetypes = archetypes;
        if !gone.is_empty() && !self.snapshot.carried.is_empty() {
            let mut carried = Vec::new();
            for record in &self.snapshot.carried {
                match record.ids().iter().any(|id| gone.contains(id)) {
                    true => {
                        carried.extend(
                            self.snapshot
                                .pick_carried(record, self.context.limits, |id| !gone.contains(&id))?,
                        );
                    }
                    false => carried.push(record.clone()),
                }
            }
            self.snapshot.carried = carried;
        }
        Ok(())
    }

    /// What stays in an archetype, with its changes. What does not goes to `new_rows`.
    fn archetype(
        &self,
        archetype: &Archetype,
        gone: &HashSet<EntityId>,
        cells: &mut CellMap,
        new_rows: &mut Vec<(EntityId, Row)>,
    ) -> Result<Archetype> {
        let ids = archetype.ids();
        self.context.limits.step(ids.len() + archetype.columns.len())?;
        let columns: HashMap<u32, &Column> =
            archetype.columns.iter().map(|column| (column.component, column)).collect();
        let has = |number: u32, row: usize| {
            let column = columns.get(&self.numbers[number as usize]);
            column.is_some_and(|column| column.present.as_ref().is_none_or(|present| present.get(row)))
        };
        let mut kept: Vec<usize> = Vec::with_capacity(ids.len());
        let mut patches: HashMap<u32, Vec<(usize, u32, Cell)>> = HashMap::new();
        let mut leaving: Vec<(usize, EntityCells)> = Vec::new();
        for (row, id) in ids.iter().enumerate() {
            let Some(told) = cells.get(*id) else {
                if !gone.contains(id) {
                    kept.push(row);
                }
                continue;
            };
            if told.spawned {
                continue;
            }
            let in_place = told.cells.iter().all(|(number, cell)| match cell {
                Cell::Removed => !has(*number, row),
                Cell::Value { .. } => has(*number, row),
            });
            let Some(told) = cells.remove(*id) else { continue };
            if !in_place {
                leaving.push((row, told));
                continue;
            }
            for (number, cell) in told.cells {
                if let Cell::Value { .. } = cell {
                    patches.entry(self.numbers[number as usize]).or_default().push((row, number, cell));
                }
            }
            kept.push(row);
        }
        if !leaving.is_empty() {
            let (empty, filled): (Vec<&Column>, Vec<&Column>) =
                archetype.columns.iter().partition(|column| is_empty(column));
            let dense = |column: &Column| Ok((column.component, self.dense(column, ids.len())?));
            let filled = filled.into_iter().map(dense).collect::<Result<Vec<_>>>()?;
            self.claim_rows(leaving.len(), empty.len())?;
            for (row, told) in leaving {
                let mut values: Row = empty.iter().map(|column| (column.component, Bytes::new())).collect();
                let shared = |(number, dense): &(u32, DenseRows)| Some((*number, dense.shared(row)?));
                values.extend(filled.iter().filter_map(shared));
                new_rows.push((ids[row], self.applied(values, &told)?));
            }
        }
        let whole = kept.len() == ids.len();
        let mut patched = Archetype { rows: kept.len(), ids: archetype.ids.clone(), columns: Vec::new() };
        if !whole {
            let left: Vec<EntityId> = kept.iter().map(|&row| ids[row]).collect();
            patched.set_ids(&left);
        }
        for column in &archetype.columns {
            match patches.get(&column.component) {
                None if whole => patched.columns.push(column.clone()),
                patches => patched.columns.extend(self.column(column, ids.len(), &kept, patches)?),
            }
        }
        Ok(patched)
    }

    /// Accounts for rows that are moved with so many columns that have no bytes.
    fn claim_rows(&self, rows: usize, empty: usize) -> Result<()> {
        self.context.limits.step(rows.saturating_mul(1 + empty))?;
        self.context.claim_memory(rows, empty.saturating_sub(FREE_CELLS) * CELL_BYTES)
    }

    /// A column with some of its rows, and some of these changed.
    fn column(
        &self,
        column: &Column,
        rows: usize,
        kept: &[usize],
        patches: Option<&Vec<(usize, u32, Cell)>>,
    ) -> Result<Option<Column>> {
        let component = &self.snapshot.components[column.component as usize];
        let none = Vec::new();
        let patches = patches.unwrap_or(&none);
        if let Some(column) = self.patched_raw(column, component, rows, kept, patches)? {
            return Ok(Some(column));
        }
        let told = |(_, _, cell): &(usize, u32, Cell)| matches!(cell, Cell::Value { bytes, .. } if !bytes.is_empty());
        if is_empty(column) && !patches.iter().any(told) {
            return Ok(empty_column(column.component, kept.len()));
        }
        let dense = self.dense(column, rows)?;
        let mut changed: HashMap<usize, Bytes> = HashMap::new();
        for (row, number, cell) in patches {
            let Cell::Value { fields, bytes, .. } = cell else { continue };
            if *fields != 0 {
                return Err(Error::unsupported(
                    "fields of a component whose rows are laid out in another way",
                ));
            }
            changed.insert(*row, self.encoded(*number, bytes)?);
        }
        let values: Vec<Option<&[u8]>> = kept
            .iter()
            .map(|row| changed.get(row).map(|bytes| &**bytes).or_else(|| dense.get(*row)))
            .collect();
        column_from(column.component, component, values.into_iter())
    }

    /// The usual case: raw rows of the table's layout, some of them written over.
    fn patched_raw(
        &self,
        column: &Column,
        component: &Component,
        rows: usize,
        kept: &[usize],
        patches: &[(usize, u32, Cell)],
    ) -> Result<Option<Column>> {
        let Body::Raw(rope) = &column.body else { return Ok(None) };
        let same = patches.iter().all(|(_, number, _)| self.table.get(*number).row == component.row);
        if column.present.is_some() || !same {
            return Ok(None);
        }
        let stride = component.row.stride as usize;
        let mut bytes = AlignedBuf::copy_from(&rope.contiguous());
        for (row, number, cell) in patches {
            let Cell::Value { fields, bytes: value, .. } = cell else { continue };
            let place = &mut bytes.as_mut()[row * stride..(row + 1) * stride];
            match fields {
                0 => place.copy_from_slice(value),
                _ => {
                    let merged = overlay(self.table.get(*number), place, *fields, value)?;
                    place.copy_from_slice(&merged);
                }
            }
        }
        if kept.len() < rows {
            let mut left = AlignedBuf::zeroed(kept.len() * stride);
            for (to, row) in left.as_mut().chunks_exact_mut(stride).zip(kept) {
                to.copy_from_slice(&bytes.as_ref()[row * stride..(row + 1) * stride]);
            }
            bytes = left;
        }
        if kept.is_empty() {
            return Ok(None);
        }
        let body = Body::Raw(bytes.share().into());
        Ok(Some(Column { component: column.component, present: None, rows: kept.len(), body }))
    }

    /// Values of an entity after what is told of it.
    fn applied(&self, mut row: Row, told: &EntityCells) -> Result<Row> {
        for (number, cell) in &told.cells {
            let place = self.numbers[*number as usize];
            match cell {
                Cell::Removed => drop(row.remove(&place)),
                Cell::Value { fields: 0, bytes, .. } => {
                    row.insert(place, self.encoded(*number, bytes)?);
                }
                Cell::Value { fields, bytes, op } => {
                    let component = self.table.get(*number);
                    let Some(before) = row.get(&place).filter(|_| *op == DeltaOp::Changed) else { continue };
                    let raw = raw_row(component, before)?;
                    let merged = overlay(component, &raw, *fields, bytes)?;
                    row.insert(place, self.encoded(*number, &merged)?);
                }
            }
        }
        Ok(row)
    }

    fn resources(&mut self, delta: &Delta) -> Result<()> {
        let place = |number: u32| self.numbers[number as usize];
        let told: HashSet<u32> = delta.resources.iter().map(|(number, _)| place(*number)).collect();
        self.context.limits.step(self.snapshot.resources.len() + told.len())?;
        self.snapshot.resources.retain(|column| !told.contains(&column.component));
        for (number, told) in &delta.resources {
            let place = self.numbers[*number as usize];
            let Some(column) = told else { continue };
            let bytes = match &column.body {
                Body::Tag => Bytes::new(),
                Body::Raw(rope) => self.encoded(*number, &rope.shared())?,
                Body::Rows(groups) => groups.bytes.clone(),
                _ => return Err(Error::misuse("a delta has plain rows only")),
            };
            let component = &self.snapshot.components[place as usize];
            self.snapshot.resources.extend(column_from(place, component, [Some(&*bytes)].into_iter())?);
        }
        Ok(())
    }
}

/// An encoded value as a raw row.
fn raw_row(component: &Component, encoded: &[u8]) -> Result<Vec<u8>> {
    let leaves = component.row.check(component.schema()?)?;
    let moves = component.row.moves_from_encoded(leaves);
    let mut row = vec![0; component.row.stride as usize];
    copy_leaves(encoded, encoded.len(), &mut row, component.row.stride as usize, &moves);
    Ok(row)
}
