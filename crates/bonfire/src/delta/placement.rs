//! Where entities go that a delta brings, or moves to other components: into the archetype that has just these.

use std::collections::{BTreeMap, HashMap};

use super::apply_to_snapshot::{Row, SnapshotPatch};
use crate::column::{Body, Column, column_from};
use crate::entity::EntityId;
use crate::error::Result;
use crate::snapshot::Archetype;

impl SnapshotPatch<'_> {
    /// Puts entities into the archetypes that have just their components.
    pub(super) fn place(&self, archetypes: &mut Vec<Archetype>, rows: Vec<(EntityId, Row)>) -> Result<()> {
        let mut sets: BTreeMap<Vec<u32>, Vec<(EntityId, Row)>> = BTreeMap::new();
        for (id, row) in rows {
            sets.entry(row.keys().copied().collect()).or_default().push((id, row));
        }
        if sets.is_empty() {
            return Ok(());
        }
        let mut known: HashMap<Vec<u32>, usize> = HashMap::new();
        for (at, archetype) in archetypes.iter_mut().enumerate() {
            self.context.limits.step(archetype.columns.len())?;
            if archetype.columns.iter().all(|column| column.present.is_none()) {
                archetype.columns.sort_by_key(|column| column.component);
                known.entry(archetype.columns.iter().map(|column| column.component).collect()).or_insert(at);
            }
        }
        for (set, rows) in sets {
            let old = known.get(&set).copied();
            let before = old.map_or_else(Archetype::default, |at| std::mem::take(&mut archetypes[at]));
            let archetype = self.extended(&before, &set, &rows)?;
            match old {
                Some(at) => archetypes[at] = archetype,
                None => archetypes.push(archetype),
            }
        }
        Ok(())
    }

    /// An archetype with more rows. It has the columns of `set`, in this order, or no rows at all.
    fn extended(&self, before: &Archetype, set: &[u32], rows: &[(EntityId, Row)]) -> Result<Archetype> {
        self.context.limits.step(rows.len().saturating_mul(1 + set.len()))?;
        let mut ids = before.ids().into_owned();
        ids.extend(rows.iter().map(|(id, _)| *id));
        let mut archetype = Archetype { rows: ids.len(), ..Archetype::default() };
        archetype.set_ids(&ids);
        for (place, &number) in set.iter().enumerate() {
            let old = before.columns.get(place);
            let new = rows.iter().map(|(_, row)| row.get(&number).map(|bytes| &**bytes));
            if old.is_none_or(is_empty) && new.clone().all(|value| value.is_some_and(<[u8]>::is_empty)) {
                archetype.columns.extend(empty_column(number, ids.len()));
                continue;
            }
            let dense = old.map(|column| self.dense(column, before.rows)).transpose()?;
            let old = (0..before.rows).map(|row| dense.as_ref().and_then(|dense| dense.get(row)));
            let values: Vec<Option<&[u8]>> = old.chain(new).collect();
            let component = &self.snapshot.components[number as usize];
            archetype.columns.extend(column_from(number, component, values.into_iter())?);
        }
        Ok(archetype)
    }
}

/// Returns true if all rows have a value, and none of them has bytes.
pub(super) fn is_empty(column: &Column) -> bool {
    let plain = matches!(column.body, Body::Tag | Body::Rows(_));
    plain && column.present.is_none() && column.body.len() == 0
}

/// A column of values without bytes. `None` if there are no rows.
pub(super) fn empty_column(component: u32, rows: usize) -> Option<Column> {
    (rows > 0).then_some(Column { component, present: None, rows, body: Body::Tag })
}
