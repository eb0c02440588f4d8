//! Changes of structure: components that are removed from entities and inserted into them.

use bevy_ecs::component::{ComponentId, StorageType};
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::SaveScope;

use super::overwrite::{self, MatchedRows};
use crate::load::Ticks;
use crate::load::spawn::{PendingArchetype, RawColumn, insert_row, remove_from_lists};
use crate::registry::{ComponentRegistry, InsertMode};
use crate::selection::Saved;

/// Changes that cannot be made in place.
#[derive(Default)]
pub(crate) struct StructuralChanges {
    pub(crate) removed: Vec<(Entity, ComponentId)>,
    pub(crate) inserted: Vec<Insertion>,
}

/// A value for an entity that does not have the component, or another value of one that is not changed in place.
pub(crate) struct Insertion {
    pub(crate) late: bool,
    pub(crate) archetype: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
    pub(crate) entity: Entity,
}

impl StructuralChanges {
    /// Overwrites the values of matched rows, and notes what cannot be done in place.
    pub(crate) fn overwrite(
        &mut self,
        world: &mut World,
        registry: &ComponentRegistry,
        pending: &mut PendingArchetype<'_>,
        matched: MatchedRows<'_>,
        ticks: Ticks,
    ) {
        let live = matched.group.components(world);
        self.note_removed(world, registry, pending, matched, &live);
        for (number, column) in pending.columns.iter_mut().enumerate() {
            let descriptor = &registry.core.descriptors()[column.number];
            let (id, late) = (column.id, registry.entries[column.number].late);
            let (archetype, entity) = (matched.archetype, |row| matched.entity(row));
            let insertion =
                |row: usize| Insertion { late, archetype, row, column: number, entity: entity(row) };
            if !live.contains(&id) {
                self.inserted.extend(matched.rows().filter(|&row| column.has(row)).map(insertion));
                continue;
            }
            let Some(info) = world.components().get_info(id) else { continue };
            let (in_place, storage) =
                (info.mutable() && !registry.indexed.contains(&id), info.storage_type());
            let absent = |row: usize| self.removed.push((entity(row), id));
            if !in_place {
                let mut found = Vec::new();
                overwrite::differing(world, matched, column, descriptor, |row| found.push(row), absent);
                let mut same = matched.rows();
                for &row in &found {
                    same.by_ref().take_while(|&other| other != row).for_each(|row| column.discard_row(row));
                }
                same.for_each(|row| column.discard_row(row));
                self.inserted.extend(found.into_iter().map(insertion));
            } else if storage == StorageType::Table {
                overwrite::overwrite_table(world, matched, column, descriptor, ticks, absent);
            } else {
                let (present, without): (Vec<usize>, Vec<usize>) =
                    matched.rows().partition(|&row| column.has(row));
                without.into_iter().for_each(absent);
                for row in present {
                    overwrite::overwrite_one(world, entity(row), column, descriptor, row, ticks);
                }
            }
        }
    }

    /// Notes the components that the entities of matched rows have and the save has not.
    fn note_removed(
        &mut self,
        world: &World,
        registry: &ComponentRegistry,
        pending: &PendingArchetype<'_>,
        matched: MatchedRows<'_>,
        live: &[ComponentId],
    ) {
        let mark = world.components().component_id::<Saved>().filter(|_| registry.scope == SaveScope::Marked);
        let is_saved = |id: ComponentId| pending.columns.iter().any(|column| column.id == id);
        let is_restored = |&number: &usize| !registry.core.descriptors()[number].is_transient();
        for &id in live {
            let lost = registry.number(id).filter(is_restored).is_some() && Some(id) != mark && !is_saved(id);
            if lost {
                self.removed.extend(matched.rows().map(|row| (matched.entity(row), id)));
            }
        }
    }

    /// Takes sources of relationships out of the lists that they leave, so that Bevy need not search those for each of them.
    fn leave_lists(&self, world: &mut World, registry: &ComponentRegistry, pending: &[PendingArchetype<'_>]) {
        for entry in &registry.entries {
            let Some(relation) = entry.relation else { continue };
            let removed = self.removed.iter().filter(|(_, id)| *id == entry.id).map(|(entity, _)| *entity);
            let inserted = self
                .inserted
                .iter()
                .filter(|inserted| pending[inserted.archetype].columns[inserted.column].id == entry.id);
            let leaving = removed.chain(inserted.map(|inserted| inserted.entity)).collect();
            remove_from_lists(world, relation, entry.id, &leaving);
        }
    }

    /// Removes and inserts, entity by entity.
    #[expect(unsafe_code, reason = "hands rows over one by one")]
    pub(crate) fn apply(
        mut self,
        world: &mut World,
        registry: &ComponentRegistry,
        pending: &[PendingArchetype<'_>],
    ) {
        self.leave_lists(world, registry, pending);
        let mode = *world.resource::<InsertMode>();
        self.removed.sort_by_key(|(entity, _)| *entity);
        for removed in self.removed.chunk_by(|a, b| a.0 == b.0) {
            let ids: Vec<ComponentId> = removed.iter().map(|&(_, id)| id).collect();
            if let Ok(mut entity) = world.get_entity_mut(removed[0].0) {
                entity.remove_by_ids(&ids);
            }
        }
        self.inserted.sort_by_key(|inserted| (inserted.late, inserted.archetype, inserted.row));
        let same_row =
            |a: &Insertion, b: &Insertion| (a.late, a.archetype, a.row) == (b.late, b.archetype, b.row);
        for inserted in self.inserted.chunk_by(same_row) {
            let Insertion { archetype, row, entity, .. } = inserted[0];
            let columns: Vec<&RawColumn<'_>> =
                inserted.iter().map(|inserted| &pending[archetype].columns[inserted.column]).collect();
            let ids: Vec<ComponentId> = columns.iter().map(|column| column.id).collect();
            // SAFETY: a row of a column is noted once, has a value, and is not overwritten, spawned or discarded.
            unsafe { insert_row(world, entity, &ids, &columns, row, mode) };
        }
    }
}
