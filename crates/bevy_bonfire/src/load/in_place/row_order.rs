//! The order of entities within their tables and archetypes. Queries visit them in it, so a simulation may depend on it.
//!
//! Bevy has no call that reorders rows. An entity that moves to another table and back becomes the last one of its own, and the
//! last one takes its row. If few entities are out of place, they are exchanged so one by one. If many are, all entities
//! behind the first of them leave and come back in the wanted order. Change ticks move along, and no hook of the game runs.
//!
//! Where components lie in sparse sets, archetypes may share a table, and have another order than it. A snapshot has one
//! order per archetype; [`SparseOrder`] has the rest.

use std::collections::BTreeMap;

use bevy_ecs::archetype::{Archetype, ArchetypeEntity, ArchetypeId};
use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::storage::TableId;
use bevy_ecs::world::World;
use bonfire::engine::row_exchanges;

use super::overwrite::whole_table;

/// On entities that are out of their table.
#[derive(Component, Default)]
struct OutOfTable;

/// On entities that are out of their archetype, and still in their table.
#[derive(Component, Default)]
#[component(storage = "SparseSet")]
struct OutOfArchetype;

/// Puts entities in this order, archetype by archetype. Other entities of the same archetypes come after them.
pub(crate) fn restore_row_order(world: &mut World, saved: impl Iterator<Item = Entity>) {
    for (id, wanted) in by_archetype(world, saved) {
        let archetype = &world.archetypes()[id];
        match whole_table(world, archetype).is_some() {
            true => reorder_table(world, archetype.table_id(), wanted),
            false => reorder_archetype(world, id, wanted),
        }
    }
}

/// The order of rows that a snapshot does not have: of tables that several archetypes share, and of archetypes that have
/// another order than their table.
#[derive(Default)]
pub(crate) struct SparseOrder {
    tables: Vec<Vec<Entity>>,
    archetypes: Vec<Vec<Entity>>,
}

impl SparseOrder {
    pub(crate) fn of(world: &World) -> Self {
        let mut by_table: BTreeMap<usize, Vec<&Archetype>> = BTreeMap::new();
        for archetype in world.archetypes().iter().filter(|archetype| !archetype.is_empty()) {
            by_table.entry(archetype.table_id().as_usize()).or_default().push(archetype);
        }
        let mut order = Self::default();
        for archetypes in by_table.into_values() {
            let Some(table) = world.storages().tables.get(archetypes[0].table_id()) else { continue };
            let is_shared = archetypes.len() > 1;
            if is_shared {
                order.tables.push(table.entities().to_vec());
            }
            for archetype in archetypes {
                let entities = || archetype.entities().iter().map(ArchetypeEntity::id);
                if is_shared || !entities().eq(table.entities().iter().copied()) {
                    order.archetypes.push(entities().collect());
                }
            }
        }
        order
    }

    /// Brings the order back. `now` returns what an entity became.
    pub(crate) fn restore(&self, world: &mut World, now: impl Fn(Entity) -> Option<Entity>) {
        for table in &self.tables {
            let mut wanted: BTreeMap<usize, (TableId, Vec<Entity>)> = BTreeMap::new();
            for entity in table.iter().filter_map(|&entity| now(entity)) {
                let Ok(location) = world.entities().get_spawned(entity) else { continue };
                let id = location.table_id;
                wanted.entry(id.as_usize()).or_insert((id, Vec::new())).1.push(entity);
            }
            wanted.into_values().for_each(|(id, wanted)| reorder_table(world, id, wanted));
        }
        for archetype in &self.archetypes {
            let entities = archetype.iter().filter_map(|&entity| now(entity));
            for (id, wanted) in by_archetype(world, entities) {
                reorder_archetype(world, id, wanted);
            }
        }
    }
}

fn by_archetype(world: &World, entities: impl Iterator<Item = Entity>) -> Vec<(ArchetypeId, Vec<Entity>)> {
    let mut all: Vec<Vec<Entity>> = Vec::new();
    for entity in entities {
        let Ok(location) = world.entities().get_spawned(entity) else { continue };
        let index = location.archetype_id.index();
        all.resize_with(all.len().max(index + 1), Vec::new);
        all[index].push(entity);
    }
    let filled = all.into_iter().enumerate().filter(|(_, wanted)| !wanted.is_empty());
    filled.map(|(index, wanted)| (ArchetypeId::new(index), wanted)).collect()
}

fn reorder_table(world: &mut World, id: TableId, wanted: Vec<Entity>) {
    let live = world.storages().tables.get(id).map_or(Vec::new(), |table| table.entities().to_vec());
    reorder::<OutOfTable>(world, &live, wanted);
}

fn reorder_archetype(world: &mut World, id: ArchetypeId, wanted: Vec<Entity>) {
    let live: Vec<Entity> = world.archetypes()[id].entities().iter().map(ArchetypeEntity::id).collect();
    reorder::<OutOfArchetype>(world, &live, wanted);
}

/// Moves entities out and back, so that `wanted` are in the order of `live`, and those that are not wanted behind them.
fn reorder<Out: Component + Default>(world: &mut World, live: &[Entity], mut wanted: Vec<Entity>) {
    if wanted.len() < live.len() {
        let known: EntityHashSet = wanted.iter().copied().collect();
        wanted.extend(live.iter().filter(|entity| !known.contains(*entity)));
    }
    let in_place = live.iter().zip(&wanted).take_while(|(live, wanted)| live == wanted).count();
    let displaced = live.iter().zip(&wanted).filter(|(live, wanted)| live != wanted).count();
    // An exchange moves two entities, and a third one back.
    if 2 * displaced < live.len() - in_place {
        let mut rows = live.to_vec();
        for row in row_exchanges(live, &wanted) {
            world.entity_mut(rows[row]).insert(Out::default()).remove::<Out>();
            let last = rows.len() - 1;
            rows.swap(row, last);
        }
        return;
    }
    // From the last one on: each leaves the rows before it as they are.
    for &entity in live[in_place..].iter().rev() {
        world.entity_mut(entity).insert(Out::default());
    }
    for &entity in &wanted[in_place..] {
        world.entity_mut(entity).remove::<Out>();
    }
}
