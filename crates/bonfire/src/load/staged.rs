//! The result of staging: decoded columns that are ready to be moved into a world.

use std::borrow::Cow;

use super::report::LoadReport;
use crate::descriptor::StagedColumn;
use crate::entity::{EntityId, EntityMap};
use crate::snapshot::carry::Carry;

/// Everything that a commit needs. Dropping it undoes nothing, because nothing was done yet.
pub struct Staged<'s> {
    /// Entities and their columns.
    pub archetypes: Vec<StagedArchetype<'s>>,
    /// Resources, by the number of their registered component; each column has one row.
    pub resources: Vec<(usize, StagedColumn<'s>)>,
    /// Components that come back from being carried, for some of the entities.
    pub extras: Vec<StagedExtra<'s>>,
    /// What this build does not know: keep it and hand it to the next save. All data is in it, too.
    pub carry: Carry,
    /// What was done so far.
    pub report: LoadReport,
}

/// Entities with the same components, ready to be spawned.
pub struct StagedArchetype<'s> {
    /// Their saved ids.
    pub ids: Cow<'s, [EntityId]>,
    /// Their columns, by the number of the registered component.
    pub columns: Vec<(usize, StagedColumn<'s>)>,
}

impl<'s> StagedArchetype<'s> {
    /// Takes the column of a component out, by its Rust type. For components without one, look through `columns`.
    pub fn take<T: 'static>(&mut self) -> Option<StagedColumn<'s>> {
        let index = self.columns.iter().position(|(_, column)| column.holds::<T>())?;
        Some(self.columns.swap_remove(index).1)
    }
}

impl Staged<'_> {
    /// Takes a component out of all archetypes and of what comes back from being carried: new ids and values.
    pub fn take_all<T: 'static>(&mut self, map: &EntityMap) -> Vec<(EntityId, T)> {
        let columns = (self.archetypes.iter_mut())
            .filter_map(|archetype| archetype.take::<T>().map(|column| (archetype.ids.clone(), column)));
        let extras = self.extras.extract_if(.., |extra| extra.column.holds::<T>());
        let mut values = Vec::new();
        for (ids, column) in columns.chain(extras.map(|extra| (extra.ids, extra.column))) {
            let rows = (0..ids.len()).filter(|&row| column.is_present(row));
            let new: Vec<_> = rows.map(|row| map.get(ids[row])).collect();
            let rows = new.into_iter().zip(column.into_rows::<T>().unwrap_or_default());
            values.extend(rows.filter_map(|(id, value)| Some((id?, value))));
        }
        values
    }

    /// The same in memory of its own: what lies in the snapshot is copied, so that it can go to another thread and stay
    /// there.
    pub fn into_owned(self) -> Staged<'static> {
        let columns = |columns: Vec<(usize, StagedColumn<'_>)>| {
            columns.into_iter().map(|(number, column)| (number, column.into_owned())).collect()
        };
        let archetypes = self.archetypes.into_iter().map(|archetype| StagedArchetype {
            ids: Cow::Owned(archetype.ids.into_owned()),
            columns: columns(archetype.columns),
        });
        let extras = self.extras.into_iter().map(|extra| StagedExtra {
            component: extra.component,
            ids: Cow::Owned(extra.ids.into_owned()),
            column: extra.column.into_owned(),
        });
        Staged {
            archetypes: archetypes.collect(),
            resources: columns(self.resources),
            extras: extras.collect(),
            carry: self.carry,
            report: self.report,
        }
    }

    /// Takes a resource out, by its Rust type.
    pub fn take_resource<T: 'static>(&mut self) -> Option<T> {
        let index = self.resources.iter().position(|(_, column)| column.holds::<T>())?;
        self.resources.swap_remove(index).1.into_rows().ok()?.pop()
    }
}

/// A component for entities of any archetypes.
pub struct StagedExtra<'s> {
    /// The number of the registered component.
    pub component: usize,
    /// The saved ids of the entities.
    pub ids: Cow<'s, [EntityId]>,
    /// One row per entity that has a value.
    pub column: StagedColumn<'s>,
}
