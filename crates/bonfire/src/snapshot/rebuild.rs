//! Snapshots that are made of others: with some of the rows, and with components in their order.

use std::collections::HashSet;

use super::carry::Carried;
use super::{Archetype, SharedTable, Snapshot};
use crate::column::{Body, Column, column_from};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::storage::{AlignedBuf, Rope};

impl Snapshot {
    /// Those rows of an archetype for which `keep` is true.
    pub(crate) fn pick_rows(
        &self,
        archetype: &Archetype,
        limits: &Limits,
        keep: impl Fn(EntityId) -> bool,
    ) -> Result<Archetype> {
        let ids = archetype.ids();
        let rows: Vec<usize> = (0..ids.len()).filter(|&row| keep(ids[row])).collect();
        let mut picked = self.split_rows(archetype, limits, &[rows])?;
        Ok(picked.pop().unwrap_or_default())
    }

    /// An archetype in several parts, each with these rows of it. Columns are looked at once, however many parts there are.
    pub(crate) fn split_rows(
        &self,
        archetype: &Archetype,
        limits: &Limits,
        parts: &[Vec<usize>],
    ) -> Result<Vec<Archetype>> {
        let ids = archetype.ids();
        let mut split: Vec<Archetype> = Vec::with_capacity(parts.len());
        for rows in parts {
            let kept: Vec<EntityId> = rows.iter().map(|&row| ids[row]).collect();
            let mut part = Archetype { rows: rows.len(), ..Archetype::default() };
            part.set_ids(&kept);
            split.push(part);
        }
        // A column without bytes becomes one in every part.
        LoadContext::new(limits).claim_memory(parts.len(), archetype.columns.len() * size_of::<Column>())?;
        for column in &archetype.columns {
            limits.step(ids.len() + parts.len())?;
            let dense = self.dense(column, ids.len(), limits, &|_| false)?;
            let component = &self.components[column.component as usize];
            for (part, rows) in split.iter_mut().zip(parts) {
                let values = rows.iter().map(|&row| dense.get(row));
                part.columns.extend(column_from(column.component, component, values)?);
            }
        }
        Ok(split)
    }

    /// Forgets all rows of entities for which `keep` is not true.
    pub(crate) fn retain_rows(&mut self, limits: &Limits, keep: impl Fn(EntityId) -> bool) -> Result<()> {
        let mut archetypes = Vec::with_capacity(self.archetypes.len());
        for archetype in &self.archetypes {
            if archetype.ids().iter().all(|id| keep(*id)) {
                archetypes.push(archetype.clone());
                continue;
            }
            let picked = self.pick_rows(archetype, limits, &keep)?;
            if picked.rows > 0 {
                archetypes.push(picked);
            }
        }
        self.archetypes = archetypes;
        let mut carried = Vec::with_capacity(self.carried.len());
        for record in &self.carried {
            let ids = record.ids();
            if ids.iter().all(|id| id.is_null() || keep(*id)) {
                carried.push(record.clone());
            } else {
                carried.extend(self.pick_carried(record, limits, |id| id.is_null() || keep(id))?);
            }
        }
        self.carried = carried;
        Ok(())
    }

    /// Those rows of a carried column for which `keep` is true.
    pub(crate) fn pick_carried(
        &self,
        record: &Carried,
        limits: &Limits,
        keep: impl Fn(EntityId) -> bool,
    ) -> Result<Option<Carried>> {
        let ids = record.ids();
        let rows: Vec<usize> = (0..ids.len()).filter(|&row| keep(ids[row])).collect();
        let dense = self.dense(&record.column, ids.len(), limits, &|_| false)?;
        let component = &self.components[record.column.component as usize];
        let values = rows.iter().map(|&row| dense.get(row));
        let Some(column) = column_from(record.column.component, component, values)? else { return Ok(None) };
        let bytes: Vec<u8> = rows.iter().flat_map(|&row| ids[row].to_bits().to_le_bytes()).collect();
        let ids: Rope = AlignedBuf::copy_from(&bytes).share().into();
        Ok(Some(Carried { kind: record.kind, rows: rows.len(), ids, column }))
    }

    /// Puts components into the order of the format, those of columns before those of carried ones, each sorted by key, and
    /// forgets those that nobody refers to.
    pub(crate) fn order_components(&mut self) {
        let used = |snapshot: &Self| -> HashSet<u32> {
            let columns = snapshot.archetypes.iter().flat_map(|archetype| &archetype.columns);
            columns.chain(&snapshot.resources).map(|column| column.component).collect()
        };
        let own = used(self);
        let carried: HashSet<u32> = self.carried.iter().map(|record| record.column.component).collect();
        let mut order: Vec<u32> = (0..self.components.len() as u32)
            .filter(|number| own.contains(number) || carried.contains(number))
            .collect();
        order.sort_by_key(|number| (!own.contains(number), &self.components[*number as usize].key));
        let mut numbers = vec![0; self.components.len()];
        for (new, old) in order.iter().enumerate() {
            numbers[*old as usize] = new as u32;
        }
        let columns = self.archetypes.iter_mut().flat_map(|archetype| &mut archetype.columns);
        let carried = self.carried.iter_mut().map(|record| &mut record.column);
        // By table, its new number, given out when somebody refers to it.
        let mut tables: Vec<Option<u32>> = vec![None; self.shared.len()];
        let mut shared: Vec<SharedTable> = Vec::new();
        for column in columns.chain(&mut self.resources).chain(carried) {
            column.component = numbers[column.component as usize];
            if let Body::Shared { table, .. } = &mut column.body {
                *table = *tables[*table as usize].get_or_insert_with(|| {
                    let values = self.shared[*table as usize].values.clone();
                    shared.push(SharedTable { component: column.component, values });
                    shared.len() as u32 - 1
                });
            }
        }
        self.shared = shared;
        for archetype in &mut self.archetypes {
            archetype.columns.sort_by_key(|column| column.component);
        }
        self.resources.sort_by_key(|column| column.component);
        self.components = order.into_iter().map(|number| self.components[number as usize].clone()).collect();
    }
}
