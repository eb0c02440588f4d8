//! The order of siblings.
//!
//! A relationship is saved at its source (`ChildOf`), and the target's list (`Children`) is made again from the sources
//! in the order in which they come. That is the order of rows. A list that has another order, or sources in several
//! archetypes, is saved beside them: the entry `bonfire.order`.

use std::collections::{BTreeMap, HashMap};

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::{DataEntry, EntityId, Result};

use super::column::for_each_source;
use super::{Chosen, Rows};
use crate::registry::Registered;
use crate::selection::EntitySet;

/// The data entry with the order of sources.
pub(crate) const ORDER_KEY: &str = "bonfire.order";

/// Per relationship, by key, the sources of each target whose order is not that of rows.
pub(crate) type Order = BTreeMap<String, BTreeMap<EntityId, Vec<EntityId>>>;

/// The lists whose order must be saved.
pub(super) fn sources(
    world: &World,
    registry: &Registered,
    chosen: &[Chosen<'_>],
) -> Result<Option<DataEntry>> {
    let mut order = Order::new();
    let mut saved: Option<SavedRows> = None;
    for (number, entry) in registry.entries.iter().enumerate() {
        let descriptor = &registry.registry.descriptors()[number];
        let Some(relation) = entry.relation.filter(|_| !descriptor.is_transient()) else { continue };
        let mut lists = BTreeMap::new();
        for target in chosen.iter().filter(|chosen| chosen.archetype.contains(relation.targets)) {
            let saved = saved.get_or_insert_with(|| SavedRows::new(chosen));
            for &entity in target.rows.entities() {
                let mut list: Vec<Entity> = Vec::new();
                let (mut last, mut natural) = (None, true);
                for_each_source(world, entity, relation.targets, |source| {
                    if let Some((archetype, row)) = saved.place(world, source) {
                        natural &=
                            last.is_none_or(|(before, last_row)| before == archetype && last_row < row);
                        last = Some((archetype, row));
                        list.push(source);
                    }
                });
                if !natural {
                    lists.insert(entity.into(), list.into_iter().map(EntityId::from).collect());
                }
            }
        }
        if !lists.is_empty() {
            order.insert(descriptor.key().to_owned(), lists);
        }
    }
    if order.is_empty() { Ok(None) } else { DataEntry::new(ORDER_KEY.to_owned(), &order).map(Some) }
}

/// Where saved entities lie.
struct SavedRows {
    /// Of archetypes of which only some rows are saved, which.
    archetypes: HashMap<ArchetypeId, Option<EntitySet>>,
}

impl SavedRows {
    fn new(chosen: &[Chosen<'_>]) -> Self {
        let archetypes = chosen.iter().map(|chosen| {
            let picked = match &chosen.rows {
                Rows::Table(_) => None,
                Rows::Picked { entities, .. } => Some(entities.iter().copied().collect()),
            };
            (chosen.archetype.id(), picked)
        });
        Self { archetypes: archetypes.collect() }
    }

    /// The archetype and the row of an entity, if it is saved.
    fn place(&self, world: &World, entity: Entity) -> Option<(ArchetypeId, u32)> {
        let place = world.entities().get_spawned(entity).ok()?;
        let saved = self.archetypes.get(&place.archetype_id)?;
        saved.as_ref().is_none_or(|picked| picked.contains(entity)).then(|| {
            // Whole tables are written in the table's order, picked rows in the archetype's.
            let row =
                if saved.is_none() { place.table_row.index_u32() } else { place.archetype_row.index_u32() };
            (place.archetype_id, row)
        })
    }
}
