//! Values that were left out of a delta: by their codec, or because they cannot be encoded.
//!
//! A delta says what entities have afterwards, so a value that is left out reads as removed. That is right for a save, which
//! does not have it. A mirror would lose a component that the world still has, so its deltas do not mention the value.

use std::collections::HashSet;

use super::cell_map::{Cell, CellMap};
use super::{Delta, DeltaOp, DeltaSchema, Group};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;

/// A component of an entity, or a resource, by its number in the table.
pub(super) type CellPlace = (u32, Option<EntityId>);

impl Delta {
    /// For mirrors: drops removals of components and resources that the world still has, because their values were left
    /// out. `has` gets the number of the component in the registry, and the entity; a resource has none.
    pub fn keeping_left_out(
        self,
        schema: &DeltaSchema,
        has: impl Fn(usize, Option<EntityId>) -> bool,
    ) -> Result<Self> {
        self.keep_left_out(schema, &has).map(|(delta, _)| delta)
    }

    /// As [`Delta::keeping_left_out`]. Returns the removals that were dropped, too.
    pub(super) fn keep_left_out(
        mut self,
        schema: &DeltaSchema,
        has: &dyn Fn(usize, Option<EntityId>) -> bool,
    ) -> Result<(Self, Vec<CellPlace>)> {
        let mut dropped: Vec<CellPlace> = Vec::new();
        let is_there = |(number, entity): CellPlace| has(schema.registered(number), entity);
        self.resources.retain(|(number, column)| {
            let is_kept = column.is_some() || !is_there((*number, None));
            if !is_kept {
                dropped.push((*number, None));
            }
            is_kept
        });
        if !self.groups.iter().any(|group| may_leave_out(group, &is_there)) {
            return Ok((self, dropped));
        }
        let mut kept = CellMap::default();
        for (id, mut entity) in CellMap::of(&self, &LoadContext::new(&Limits::default()))?.into_entities() {
            if !entity.spawned {
                entity.cells.retain(|number, cell| {
                    let is_left_out = matches!(cell, Cell::Removed) && is_there((*number, Some(id)));
                    if is_left_out {
                        dropped.push((*number, Some(id)));
                    }
                    !is_left_out
                });
            }
            if entity.spawned || !entity.cells.is_empty() {
                *kept.entry(id) = entity;
            }
        }
        self.groups = kept.into_groups(&self.table)?;
        Ok((self, dropped))
    }

    /// Adds removals of components of entities that it does not despawn, and of resources.
    pub(super) fn with_removals(mut self, removals: &HashSet<CellPlace>) -> Result<Self> {
        let mut cells = CellMap::of(&self, &LoadContext::new(&Limits::default()))?;
        for &(number, entity) in removals {
            match entity {
                Some(id) => drop(cells.entry(id).cells.insert(number, Cell::Removed)),
                None if self.resources.iter().any(|(known, _)| *known == number) => {}
                None => self.resources.push((number, None)),
            }
        }
        self.groups = cells.into_groups(&self.table)?;
        self.resources.sort_by_key(|(number, _)| *number);
        Ok(self)
    }
}

/// Returns true if a group tells the removal of something that is still there. Looks at no values.
fn may_leave_out(group: &Group, is_there: &impl Fn(CellPlace) -> bool) -> bool {
    let is_hidden = |change: &super::Change| match change.op {
        DeltaOp::Removed => group.ids.iter().any(|id| is_there((change.column.component, Some(*id)))),
        DeltaOp::Added | DeltaOp::Changed => change.column.present.is_some(),
    };
    !group.spawned && group.changes.iter().any(is_hidden)
}
