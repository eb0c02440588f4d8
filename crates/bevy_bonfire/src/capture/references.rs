//! The entities that the values of a world refer to.

use bevy_ecs::archetype::{Archetype, ArchetypeEntity};
use bevy_ecs::entity::Entity;
use bevy_ecs::resource::IS_RESOURCE;
use bevy_ecs::world::World;
use bonfire::Result;
use bonfire::engine::SnapshotWriter;

use super::column::{self, Rows};
use crate::registry::{Carried, ComponentRegistry};
use crate::selection::Selection;

/// Calls `found` with every entity that a registered component or resource of the world refers to, or a carried value.
pub(crate) fn for_each_reference(
    world: &World,
    registry: &ComponentRegistry,
    mut found: impl FnMut(Entity),
) -> Result<()> {
    let mut writer = SnapshotWriter::new(&registry.core).with_world(world).pool(&registry.pool);
    let carried = world.get_resource::<Carried>().map(|carried| &carried.0).filter(|carry| !carry.is_empty());
    let has_references = |&number: &usize| registry.core.descriptors()[number].schema().has_entities();
    for archetype in world.archetypes().iter() {
        let numbers = archetype.iter_components().filter_map(|id| registry.number(id));
        let numbers: Vec<usize> = numbers.filter(has_references).collect();
        if archetype.is_empty() || archetype.contains(IS_RESOURCE) || numbers.is_empty() && carried.is_none()
        {
            continue;
        }
        let Some(rows) = all_rows(world, archetype) else { continue };
        let mut out = writer.archetype_with(rows.len(), |ids| rows.write_ids(0..rows.len(), ids))?;
        for number in numbers {
            column::write(&mut out, registry, number, world, &rows, None)?;
        }
    }
    let everything = Selection::new();
    let resources = (0..registry.entries.len()).filter(has_references);
    for number in resources.filter(|&number| registry.has_resource(world, &everything, number)) {
        column::write_resource(&mut writer.resources(), registry, number, world, None)?;
    }
    if let Some(carry) = carried {
        writer.carry(carry);
    }
    writer.finish()?.for_each_reference(|_, id| found(id.into()))
}

fn all_rows<'w>(world: &'w World, archetype: &Archetype) -> Option<Rows<'w>> {
    let table = world.storages().tables.get(archetype.table_id())?;
    if archetype.len() as usize == table.entities().len() {
        return Some(Rows::Table(table));
    }
    let entities = archetype.entities().iter().map(ArchetypeEntity::id).collect();
    let rows = archetype.entities().iter().map(|row| row.table_row().index_u32()).collect();
    Some(Rows::Picked { table, entities, rows })
}
