//! Columns that a load in slices inserts when all entities exist.

use std::ops::Range;

use bevy_ecs::entity::Entity;
use bonfire::LoadReport;

use crate::load::spawn::{ExtraColumn, PendingArchetype, RawColumn};
use crate::registry::{ComponentRegistry, Relation};

/// A column that is inserted when all entities exist.
pub(super) struct LateColumn {
    pub(super) column: RawColumn<'static>,
    pub(super) owners: ColumnOwners,
    pub(super) relation: Option<Relation>,
    /// Its line in the report.
    pub(super) line: Option<usize>,
    /// The first row that is not inserted.
    pub(super) next: usize,
}

/// The entities of a column.
pub(super) enum ColumnOwners {
    /// An archetype, as a range of all entities.
    Archetype(Range<usize>),
    Listed(Vec<Option<Entity>>),
}

impl LateColumn {
    /// Takes the columns of relationships and then those of late components out of their archetypes, in the order of the
    /// save.
    pub(super) fn take_from(
        registry: &ComponentRegistry,
        pending: &mut [PendingArchetype<'static>],
        report: &LoadReport,
    ) -> Vec<Self> {
        let (mut relations, mut late) = (Vec::new(), Vec::new());
        for archetype in pending {
            let waits = |column: &mut RawColumn<'_>| {
                let entry = &registry.entries[column.number];
                entry.late || entry.relation.is_some()
            };
            for column in archetype.columns.extract_if(.., waits) {
                let entry = &registry.entries[column.number];
                let key = registry.core.descriptors()[column.number].key();
                let list = if entry.late { &mut late } else { &mut relations };
                list.push(Self {
                    column,
                    owners: ColumnOwners::Archetype(archetype.entities.clone()),
                    relation: entry.relation,
                    line: report.components.iter().position(|line| line.key == key),
                    next: 0,
                });
            }
        }
        relations.extend(late);
        relations
    }

    /// The number of its rows.
    pub(super) fn rows(&self) -> usize {
        match &self.owners {
            ColumnOwners::Archetype(range) => range.len(),
            ColumnOwners::Listed(entities) => entities.len(),
        }
    }

    /// The entity of a row. `entities` are all entities of the load.
    pub(super) fn owner(&self, row: usize, entities: &[Entity]) -> Option<Entity> {
        match &self.owners {
            ColumnOwners::Archetype(range) => Some(entities[range.start + row]),
            ColumnOwners::Listed(listed) => listed[row],
        }
    }
}

impl From<ExtraColumn<'static>> for LateColumn {
    fn from(ExtraColumn { column, entities }: ExtraColumn<'static>) -> Self {
        Self { column, owners: ColumnOwners::Listed(entities), relation: None, line: None, next: 0 }
    }
}
