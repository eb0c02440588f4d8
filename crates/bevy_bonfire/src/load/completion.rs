//! The end of every load: unknown components are kept for the next save, and observers get their data.

use std::collections::HashSet;

use bevy_ecs::archetype::Archetype;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{Carry, EntityMap, FinishedLoad, LIST_ORDER_KEY, SavedOrder};
use bonfire::{DataEntry, EntityId, LoadContext, LoadReport, Snapshot, Unknown};

use super::{LoadMode, LoadStarting, Loaded, PreparedLoad};
use crate::capture::DataHandlers;
use crate::registry::{Carried, ComponentRegistry};
use crate::stable_id::{StableId, StableIds};

/// A load whose entities and resources are in the world.
pub(super) struct CommittedLoad {
    pub(super) map: EntityMap,
    /// The places of entities outside of the save.
    pub(super) outside: EntityMap,
    pub(super) report: LoadReport,
    pub(super) carry: Carry,
    /// Saved ids of entities that a restore has spawned again, and their new ids.
    pub(super) respawned: Vec<(EntityId, Entity)>,
    /// The order of relationships that this build does not know.
    pub(super) unknown_order: Vec<DataEntry>,
}

/// Ends a load whose entities and resources are in the world, and returns what it did.
pub(super) fn complete(world: &mut World, load: &PreparedLoad<'_>, committed: CommittedLoad) -> Loaded {
    let PreparedLoad { snapshot, registry, mode, options, .. } = load;
    let CommittedLoad { map, outside, mut report, mut carry, respawned, unknown_order } = committed;
    report.resources_not_saved = resources_not_saved(world, registry, &report);
    let loaded = map.iter().map(|(_, entity)| entity.into());
    report.duplicate_stable_ids = duplicate_stable_ids(world, loaded);
    carry.forget_data();
    // A load or save of an observer, from here on, finds the carry of this load.
    let mut carried = world.get_resource_or_init::<Carried>();
    match mode {
        LoadMode::Replace | LoadMode::Restore(_) => carried.0 = carry,
        // Rows of entities that are gone are not written again.
        _ => carried.0.extend(carry),
    }
    let own = mode.is_restore() && snapshot.world() == registry.world;
    let others = match own && snapshot.data().iter().any(has_references) {
        true => all_entities(world),
        false => HashSet::new(),
    };
    let alive = |id: EntityId| others.contains(&id);
    let limits = options.limits.clone().unwrap_or_default();
    let context = LoadContext::new(&limits).entities(&map, options.dangling).alive(&alive).outside(&outside);
    let mut starting = LoadStarting::default();
    let handlers = DataHandlers::of(world);
    if let Some(handlers) = &handlers {
        handlers.lock().register_callbacks(&mut starting.0);
    }
    world.trigger_ref(&mut starting);
    world.flush();
    let data = snapshot.data().iter().filter(|entry| entry.key() != LIST_ORDER_KEY);
    let mut unclaimed = starting.dispatch(world, data, &context, &mut report);
    if let Some(handlers) = handlers {
        let finished = FinishedLoad { prelude: &snapshot.prelude(), report: &report };
        handlers.lock().run_finish(world, &finished);
    }
    world.flush();
    unclaimed.extend(unknown_order);
    if options.unknown == Unknown::Keep && !unclaimed.is_empty() {
        world.get_resource_or_init::<Carried>().0.keep_data(unclaimed, &context);
    }
    Loaded::new(snapshot.prelude(), report, map).with_respawned(respawned)
}

/// Ends the load of a part of the world, such as a chunk: observers of whole loads and handlers of data hear nothing of it.
/// Returns the stable ids of its entities that others have, too.
#[cfg(feature = "chunks")]
pub(super) fn complete_part(world: &mut World, load: &mut CommittedLoad, entities: &[Entity]) -> Vec<u64> {
    let carry = std::mem::take(&mut load.carry);
    if !carry.is_empty() {
        world.get_resource_or_init::<Carried>().0.extend(carry);
    }
    duplicate_stable_ids(world, entities.iter().copied())
}

/// The stable ids of loaded entities that others have, too. The log names the first.
fn duplicate_stable_ids(world: &mut World, loaded: impl Iterator<Item = Entity>) -> Vec<u64> {
    let Some(mut ids) = world.get_resource_mut::<StableIds>() else { return Vec::new() };
    let duplicates = ids.prefer(loaded);
    if let Some(first) = duplicates.first() {
        log::warn!(
            "{} stable ids are on loaded entities and on others, the first is {first}: references lead to the loaded ones. \
             `LoadMode::Replace` and `ReplaceSelected` remove the others",
            duplicates.len()
        );
    }
    duplicates.into_iter().map(StableId::to_bits).collect()
}

/// The keys of registered resources that the world has and the save has not.
fn resources_not_saved(world: &World, registry: &ComponentRegistry, report: &LoadReport) -> Vec<String> {
    let resources = registry.entries.iter().zip(registry.core.descriptors());
    resources
        .filter(|(entry, descriptor)| {
            world.contains_resource_by_id(entry.id)
                && !descriptor.is_transient()
                && !report.components.iter().any(|line| line.key == descriptor.key())
        })
        .map(|(_, descriptor)| descriptor.key().to_owned())
        .collect()
}

/// Returns true if data may refer to entities. The order of siblings refers to saved ones only.
fn has_references(entry: &DataEntry) -> bool {
    entry.key() != LIST_ORDER_KEY && entry.schema().is_ok_and(|schema| schema.has_entities())
}

fn all_entities(world: &World) -> HashSet<EntityId> {
    let entities = world.archetypes().iter().flat_map(Archetype::entities);
    entities.map(|entity| EntityId::from(entity.id())).collect()
}

/// The order of relationships that this build does not know, as it was saved.
pub(super) fn unknown_order(
    snapshot: &Snapshot,
    registry: &ComponentRegistry,
    order: &SavedOrder,
) -> Vec<DataEntry> {
    let unknown = |key: &String| registry.core.index_of_key(key).is_none();
    if !order.keys().any(unknown) {
        return Vec::new();
    }
    let entries = snapshot.data().iter().filter(|entry| entry.key() == LIST_ORDER_KEY);
    // They were read before, so this cannot fail.
    let entries = entries.filter_map(|entry| {
        let mut order: SavedOrder = entry.get().ok()?;
        order.retain(|key, _| unknown(key));
        if order.is_empty() { None } else { DataEntry::new(LIST_ORDER_KEY, &order).ok() }
    });
    entries.collect()
}
