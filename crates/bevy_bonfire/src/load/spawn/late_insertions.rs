//! Values and marks that are inserted when all entities exist.

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{EntityMap, StagedExtra};

use super::pending_archetype::PendingArchetype;
use super::raw_column::{RawColumn, TakenRow, insert};
use super::relation::discard_null;
use crate::registry::ComponentRegistry;
use crate::selection::{Saved, is_in_tree};

/// Everything that is inserted when all entities exist, in the order of the fields.
#[derive(Default)]
pub(crate) struct LateInsertions<'s> {
    /// Values of components that are registered as late: [`take_late`].
    pub(crate) values: Vec<LateValue>,
    pub(crate) extras: Vec<ExtraColumn<'s>>,
    /// Entities that get the mark of saves.
    pub(crate) unmarked: Vec<Entity>,
}

impl LateInsertions<'_> {
    /// Inserts everything. `pending` are the archetypes that the values were taken from.
    pub(crate) fn insert(self, world: &mut World, pending: &[PendingArchetype<'_>]) {
        for LateValue { entity, archetype, column, row } in self.values {
            insert(world, entity, &pending[archetype].columns[column], row);
        }
        for extra in self.extras {
            extra.insert(world);
        }
        mark(world, self.unmarked);
    }
}

/// A value of a component that is registered as late.
pub(crate) struct LateValue {
    entity: Entity,
    archetype: usize,
    column: usize,
    row: TakenRow,
}

/// Takes out the components that are registered as late, in the order of the save.
pub(crate) fn take_late(
    registry: &ComponentRegistry,
    pending: &mut [PendingArchetype<'_>],
    entities: &[Entity],
) -> Vec<LateValue> {
    let mut late = Vec::new();
    for (archetype, pending) in pending.iter_mut().enumerate() {
        for (column, raw) in pending.columns.iter_mut().enumerate() {
            if registry.entries[raw.number].late {
                for (row, &entity) in entities[pending.entities.clone()].iter().enumerate() {
                    late.extend(raw.take_row(row).map(|row| LateValue { entity, archetype, column, row }));
                }
            }
        }
    }
    late
}

/// Rows of a component that was carried as unknown and is known now.
pub(crate) struct ExtraColumn<'s> {
    pub(crate) column: RawColumn<'s>,
    pub(crate) entities: Vec<Option<Entity>>,
}

impl<'s> ExtraColumn<'s> {
    /// Takes over all columns of staged extras.
    pub(crate) fn from_staged(
        world: &World,
        registry: &ComponentRegistry,
        extras: Vec<StagedExtra<'s>>,
        map: &EntityMap,
    ) -> Vec<Self> {
        extras.into_iter().filter_map(|extra| Self::new(world, registry, extra, map)).collect()
    }

    fn new(
        world: &World,
        registry: &ComponentRegistry,
        extra: StagedExtra<'s>,
        map: &EntityMap,
    ) -> Option<Self> {
        let entities: Vec<_> = extra.ids.iter().map(|&id| map.get(id).map(Entity::from)).collect();
        let mut column = RawColumn::new(world, registry, extra.component, extra.column, entities.len())?;
        if let Some(relation) = registry.entries[extra.component].relation {
            discard_null(&mut column, entities.len(), relation);
        }
        Some(Self { column, entities })
    }

    fn insert(mut self, world: &mut World) {
        for row in 0..self.entities.len() {
            match (self.entities[row], self.column.take_row(row)) {
                (Some(entity), Some(taken)) => insert(world, entity, &self.column, taken),
                (None, Some(taken)) => self.column.discard(taken),
                (_, None) => {}
            }
        }
    }
}

/// Returns the entities that the next save would not have. They need the mark.
pub(crate) fn unmarked(
    world: &World,
    registry: &ComponentRegistry,
    pending: &[PendingArchetype<'_>],
    entities: &[Entity],
) -> Vec<Entity> {
    let without = pending.iter().filter(|archetype| archetype.needs_mark(world, registry));
    without.flat_map(|archetype| &entities[archetype.entities.clone()]).copied().collect()
}

/// Makes entities part of saves, unless they are by an ancestor.
pub(crate) fn mark(world: &mut World, entities: Vec<Entity>) {
    for entity in entities {
        if is_in_tree(world, entity) {
            continue;
        }
        if let Ok(mut entity) = world.get_entity_mut(entity)
            && !entity.contains::<Saved>()
        {
            entity.insert(Saved);
        }
    }
}
