//! The archetypes of a running world, compared with a snapshot: where the saved entities are now.

use bevy_ecs::archetype::{Archetype, ArchetypeEntity, ArchetypeId};
use bevy_ecs::entity::Entity;
use bevy_ecs::resource::IS_RESOURCE;
use bevy_ecs::world::World;
use bonfire::engine::{Comparison, LiveWorld, LoadPlan};
use bonfire::{EntityId, Result};

use super::overwrite;
use crate::capture::{self, ChosenArchetype, INDEX_BITS, Rows};
use crate::registry::ComponentRegistry;
use crate::selection::{EntityChoice, Selection};

/// Finds the saved entities in the world, and those that a save would have now and this one has not.
pub(crate) fn compare(
    world: &World,
    registry: &ComponentRegistry,
    plan: &LoadPlan<'_, '_>,
    selection: &Selection,
) -> Result<(Comparison, Vec<Entity>)> {
    let mut chosen: Vec<Option<EntityChoice>> = vec![None; world.archetypes().len()];
    for ChosenArchetype { archetype, rows } in capture::choose(world, registry, selection, &[])? {
        chosen[archetype.id().index()] = Some(match rows {
            Rows::Table(_) => EntityChoice::All,
            Rows::Picked { entities, .. } if entities.len() == archetype.len() as usize => EntityChoice::All,
            Rows::Picked { entities, .. } => EntityChoice::Some(entities.into_iter().collect()),
        });
    }
    let live = LiveArchetypes { world, chosen, own: is_same_world(plan, registry) };
    let found = plan.compare(&live)?;
    let extra = found.extra.iter().filter_map(|&(group, row)| live.extra(group, row)).collect();
    Ok((found, extra))
}

/// Returns whether a snapshot was captured in this world, or `None` for one from a file, which does not know.
pub(crate) fn is_same_world(plan: &LoadPlan<'_, '_>, registry: &ComponentRegistry) -> Option<bool> {
    plan.snapshot().world().map(|world| Some(world) == registry.world)
}

/// A world by its archetypes. Rows are those of the table, if it is the archetype's own, else those of the archetype.
struct LiveArchetypes<'w> {
    world: &'w World,
    chosen: Vec<Option<EntityChoice>>,
    /// True if ids of the snapshot are ids of this world; `None` if that is not known.
    own: Option<bool>,
}

impl LiveArchetypes<'_> {
    fn archetype(&self, group: usize) -> &Archetype {
        &self.world.archetypes()[ArchetypeId::new(group)]
    }

    /// An entity that is not in the save, if a save would have it.
    fn extra(&self, group: usize, row: usize) -> Option<Entity> {
        let archetype = self.archetype(group);
        let entity = match overwrite::whole_table(self.world, archetype) {
            Some(table) => table.entities()[row],
            None => archetype.entities()[row].id(),
        };
        self.chosen[group].as_ref()?.contains(entity).then_some(entity)
    }
}

impl LiveWorld for LiveArchetypes<'_> {
    fn groups(&self) -> usize {
        self.chosen.len()
    }
    fn rows(&self, group: usize) -> usize {
        self.archetype(group).len() as usize
    }
    fn is_saved(&self, group: usize) -> bool {
        self.chosen[group].is_some()
    }
    fn find(&self, id: EntityId) -> Option<(usize, usize)> {
        let location = self.world.entities().get_spawned(Entity::from(id)).ok()?;
        let archetype = self.world.archetypes().get(location.archetype_id)?;
        let row = match overwrite::whole_table(self.world, archetype) {
            Some(_) => location.table_row.index(),
            None => location.archetype_row.index(),
        };
        let group = location.archetype_id.index();
        let found = match self.own {
            // What is a resource is no entity of a save.
            Some(true) => !archetype.contains(IS_RESOURCE),
            // It may be another session's: only what is part of saves can be meant.
            None => self.extra(group, row).is_some(),
            Some(false) => false,
        };
        found.then_some((group, row))
    }
    fn matching(&self, group: usize, row: usize, ids: &[EntityId]) -> usize {
        let archetype = self.archetype(group);
        let Some(table) = overwrite::whole_table(self.world, archetype) else {
            let same = |(entity, id): &(&ArchetypeEntity, &EntityId)| EntityId::from(entity.id()) == **id;
            return archetype.entities()[row..].iter().zip(ids).take_while(same).count();
        };
        let entities = &table.entities()[row..];
        let difference = |(entity, id): (&Entity, &EntityId)| entity.to_bits() ^ id.to_bits() ^ INDEX_BITS;
        // Whole blocks without a branch, then one by one.
        const BLOCK: usize = 64;
        let blocks = entities.chunks_exact(BLOCK).zip(ids.chunks_exact(BLOCK));
        let same = |(a, b): &(&[Entity], &[EntityId])| {
            a.iter().zip(*b).fold(0, |all, pair| all | difference(pair)) == 0
        };
        let checked = blocks.take_while(same).count() * BLOCK;
        let rest = entities[checked..].iter().zip(&ids[checked..]);
        checked + rest.take_while(|pair| difference(*pair) == 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_entities_are_those_of_saved_ids_with_another_index() {
        let mut world = World::new();
        let gone = world.spawn_empty().id();
        world.despawn(gone);
        let entities = (0..1000).map(|_| world.spawn_empty().id()).chain([gone, Entity::PLACEHOLDER]);
        for entity in entities {
            let id = EntityId::new(entity.index_u32(), entity.generation().to_bits());
            assert_eq!(entity.to_bits() ^ INDEX_BITS, id.to_bits());
        }
    }
}
