//! The entities that values refer to.

use std::collections::{BTreeMap, HashSet};

use super::between::data_edits;
use super::{Change, Delta};
use crate::column::{Column, column_references, value_references};
use crate::entity::EntityId;
use crate::error::Result;
use crate::schema::Schema;
use crate::snapshot::{DataEntry, OutsideTarget};

impl Delta {
    /// For front ends: calls `found` with every entity that a value of the delta refers to, once per reference.
    pub fn for_each_reference(&self, mut found: impl FnMut(EntityId)) -> Result<()> {
        let whole = |change: &&Change| change.fields == 0;
        for group in &self.groups {
            for change in group.changes.iter().filter(whole) {
                self.column_references(&change.column, group.ids.len(), &mut found)?;
            }
        }
        let resources = self.resources.iter().filter_map(|(_, column)| column.as_ref());
        { resources }.try_for_each(|column| self.column_references(column, 1, &mut found))
    }

    fn column_references(
        &self,
        column: &Column,
        rows: usize,
        found: &mut impl FnMut(EntityId),
    ) -> Result<()> {
        column_references(column, self.table.get(column.component), None, rows, found)
    }

    /// For front ends: adds to `pairs` the stable ids of entities that the delta refers to and the save does not have. `target`
    /// returns `None` for those that the save has.
    pub fn note_outside(
        &self,
        pairs: &mut BTreeMap<EntityId, u64>,
        mut target: impl FnMut(EntityId) -> Option<OutsideTarget>,
    ) -> Result<()> {
        self.for_each_reference(|id| {
            if !id.is_null()
                && !pairs.contains_key(&id)
                && let Some(OutsideTarget::Stable(stable_id)) = target(id)
            {
                pairs.insert(id, stable_id);
            }
        })
    }

    /// For front ends: the same with other data. It was `before`, and is `after` now.
    pub fn with_data(mut self, before: &[DataEntry], after: &[DataEntry]) -> Self {
        self.data = data_edits(before, after);
        self
    }
}

/// Returns true if an encoded value refers to one of these entities.
pub(super) fn refers_to(schema: &Schema, bytes: &[u8], entities: &HashSet<EntityId>) -> Result<bool> {
    let mut refers = false;
    value_references(schema, bytes, &mut |id| refers |= entities.contains(&id))?;
    Ok(refers)
}
