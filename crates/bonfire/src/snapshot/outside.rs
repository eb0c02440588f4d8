//! Entities that a save refers to and does not have, by their stable ids: the data entry `bonfire.outside`.
//!
//! A save of some entities may refer to others: a parent in another chunk, a target that another save holds. If those have a
//! stable id, the save stores it beside their id, and a load finds them by it.

use std::collections::{BTreeMap, HashMap};

use super::data::{DataEntry, RESERVED_PREFIX};
use super::{Note, Snapshot};
use crate::column::{Column, column_references, only_leaf, value_references};
use crate::context::LoadContext;
use crate::entity::{EntityId, EntityMap};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::schema::Type;

/// The data entry with the entities that a save refers to and does not have, and their stable ids.
pub const OUTSIDE_KEY: &str = "bonfire.outside";

/// The component with the stable id of an entity, in all front ends.
const STABLE_ID_KEY: &str = "bonfire.stable_id";

/// The remark about references that a load cannot follow.
const UNNAMED: &str = "references lead to entities that are not part of the save and have no `StableId`, so a load treats \
    them as missing: give these entities a `StableId`";

/// An entity that a save refers to and does not have, as the front end knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsideTarget {
    /// It has this stable id, or stands in for the entity that has it.
    Stable(u64),
    /// It exists and has no stable id.
    Unnamed,
    /// It does not exist any more.
    Gone,
}

impl Snapshot {
    /// For front ends: stores the stable ids of the entities that the save refers to and does not have. `target` is called once
    /// for each of them. References to those without a stable id are [noted](Self::notes).
    pub fn save_outside(&mut self, target: impl FnMut(EntityId) -> OutsideTarget) -> Result<()> {
        self.data.retain(|entry| entry.key() != OUTSIDE_KEY);
        let inside = EntityMap::identity(&self.entities())?;
        let (pairs, unnamed) = self.outside_targets(&inside, target)?;
        for (key, count) in unnamed {
            self.notes.push(Note { key: key.to_owned(), remark: UNNAMED.to_owned(), count });
        }
        self.notes.sort_by(|a, b| (&a.key, &a.remark).cmp(&(&b.key, &b.remark)));
        // It is there if it is empty, too: the save is one of several.
        self.data.insert(0, DataEntry::new(OUTSIDE_KEY, &pairs)?);
        Ok(())
    }

    /// The stable ids of all entities outside, and by key how many references lead to entities that have none.
    fn outside_targets(
        &self,
        inside: &EntityMap,
        mut target: impl FnMut(EntityId) -> OutsideTarget,
    ) -> Result<(BTreeMap<EntityId, u64>, BTreeMap<String, usize>)> {
        let (mut pairs, mut unnamed) = (BTreeMap::new(), BTreeMap::new());
        let mut known: HashMap<EntityId, OutsideTarget> = HashMap::new();
        self.for_each_reference(|key, id| {
            if id.is_null() || inside.get(id).is_some() {
                return;
            }
            match *known.entry(id).or_insert_with(|| target(id)) {
                OutsideTarget::Stable(stable_id) => _ = pairs.insert(id, stable_id),
                OutsideTarget::Unnamed => *unnamed.entry(key.to_owned()).or_default() += 1,
                OutsideTarget::Gone => {}
            }
        })?;
        Ok((pairs, unnamed))
    }

    /// For front ends: calls `found` with the key and the target of every reference: in components, resources, what is carried,
    /// and data of the game.
    pub fn for_each_reference(&self, mut found: impl FnMut(&str, EntityId)) -> Result<()> {
        let mut visit = |column: &Column, rows: usize| {
            let component = &self.components[column.component as usize];
            // Schemas that are named by hash only are not those of a capture.
            if component.schema.is_none() {
                return Ok(());
            }
            let shared = self.shared_values(column);
            column_references(column, component, shared, rows, &mut |id| found(&component.key, id))
                .map_err(|error| error.in_key(&component.key))
        };
        for archetype in &self.archetypes {
            archetype.columns.iter().try_for_each(|column| visit(column, archetype.rows))?;
        }
        self.resources.iter().try_for_each(|column| visit(column, 1))?;
        self.carried.iter().try_for_each(|record| visit(&record.column, record.rows))?;
        for entry in self.data.iter().filter(|entry| !entry.key().starts_with(RESERVED_PREFIX)) {
            if let Ok(schema) = entry.schema()
                && schema.has_entities()
            {
                value_references(schema, entry.as_bytes(), &mut |id| found(entry.key(), id))?;
            }
        }
        Ok(())
    }

    /// The entities that the save refers to and does not have, with their stable ids, in ascending order. `None` if the save
    /// was not asked to store them.
    pub(crate) fn outside(&self, limits: &Limits) -> Result<Option<Vec<(EntityId, u64)>>> {
        let mut pairs: Option<BTreeMap<EntityId, u64>> = None;
        for entry in self.data.iter().filter(|entry| entry.key() == OUTSIDE_KEY) {
            let more = entry.get_in::<BTreeMap<EntityId, u64>>(&LoadContext::new(limits))?;
            pairs.get_or_insert_default().extend(more);
        }
        let Some(pairs) = pairs else { return Ok(None) };
        if pairs.contains_key(&EntityId::NULL) {
            return Err(Error::corrupt("an entity outside of the save has the null id").in_key(OUTSIDE_KEY));
        }
        let count = pairs.len() + self.entity_count();
        if count as u64 > u64::from(limits.entities_max) {
            let max = limits.entities_max;
            let message = format!("the save has or refers to {count} entities, at most {max} are allowed");
            return Err(Error::limit(message).in_key(OUTSIDE_KEY));
        }
        limits.step(pairs.len())?;
        Ok(Some(pairs.into_iter().collect()))
    }

    /// The stable ids of the saved entities, by their place in the order of the save. Those that cannot be read are left out.
    pub(crate) fn stable_ids(&self, limits: &Limits) -> Vec<(usize, u64)> {
        let (mut ids, mut start) = (Vec::new(), 0);
        for archetype in &self.archetypes {
            let is_id = |column: &&Column| self.components[column.component as usize].key == STABLE_ID_KEY;
            if let Some(column) = archetype.columns.iter().find(is_id) {
                let rows = self.stable_id_rows(column, archetype.rows, limits).unwrap_or_default();
                ids.extend(rows.into_iter().map(|(row, id)| (start + row, id)));
            }
            start += archetype.rows;
        }
        ids
    }

    fn stable_id_rows(&self, column: &Column, rows: usize, limits: &Limits) -> Result<Vec<(usize, u64)>> {
        let schema = self.components[column.component as usize].schema()?;
        if !matches!(only_leaf(schema), Some(Type::U64)) {
            return Ok(Vec::new());
        }
        let dense = self.dense(column, rows, limits, &|_| false)?;
        let id = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        Ok(dense.iter().enumerate().filter_map(|(row, bytes)| Some((row, id(bytes?)?))).collect())
    }
}
