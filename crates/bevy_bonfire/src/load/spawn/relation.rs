//! Relationships: those without a target are left out, and sources get the order that they had.
//!
//! A target's list is made by Bevy in the order in which the sources come. That is the order of rows, unless some rows
//! are spawned by batches and others are inserted after them. Lists that must have another order are put right when they
//! are complete.

use std::cell::LazyCell;

use bevy_ecs::archetype::{Archetype, ArchetypeEntity};
use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::{Entity, EntityHashMap, EntityHashSet};
use bevy_ecs::relationship::RelationshipAccessor;
use bevy_ecs::world::World;
use bonfire::LoadReport;
use bonfire::engine::SavedOrder;

use super::pending_archetype::PendingArchetype;
use super::raw_column::RawColumn;
use crate::registry::{ComponentRegistry, Relation, RelationshipSources, live_target};

/// The columns of relationships: archetype, column, what is known of the relationship.
fn columns(registry: &ComponentRegistry, pending: &[PendingArchetype<'_>]) -> Vec<(usize, usize, Relation)> {
    let mut columns = Vec::new();
    for (archetype, pending) in pending.iter().enumerate() {
        for (column, raw) in pending.columns.iter().enumerate() {
            columns
                .extend(registry.entries[raw.number].relation.map(|relation| (archetype, column, relation)));
        }
    }
    columns
}

/// Leaves out relationships without a target, which was not saved.
pub(crate) fn drop_without_target(
    registry: &ComponentRegistry,
    pending: &mut [PendingArchetype<'_>],
    report: &mut LoadReport,
) {
    for (archetype, column, relation) in columns(registry, pending) {
        let rows = pending[archetype].entities.len();
        let column = &mut pending[archetype].columns[column];
        let key = registry.core.descriptors()[column.number].key();
        let left_out = discard_null(column, rows, relation);
        if let Some(line) = report.components.iter_mut().find(|line| line.key == key) {
            line.left_out += left_out;
        }
    }
}

/// Takes rows out whose target is nothing, and returns how many.
pub(super) fn discard_null(column: &mut RawColumn<'_>, rows: usize, relation: Relation) -> usize {
    let mut left_out = 0;
    for row in 0..rows {
        if column.target(row, relation.offset) == Some(Entity::PLACEHOLDER)
            && let Some(taken) = column.take_row(row)
        {
            column.discard(taken);
            left_out += 1;
        }
    }
    left_out
}

/// Takes entities that are about to be despawned out of the lists of their targets, each list in one go: Bevy would
/// search it once per source, and would go down a chain of parents by recursion.
pub(super) fn release(world: &mut World, registry: &ComponentRegistry, doomed: &[Entity]) {
    if doomed.is_empty() {
        return;
    }
    // Computed only if there are lists.
    let set = LazyCell::new(|| -> EntityHashSet { doomed.iter().copied().collect() });
    for relation in registry.entries.iter().filter_map(|entry| entry.relation) {
        let archetypes = world.archetypes().iter().filter(|archetype| archetype.contains(relation.targets));
        let targets: Vec<Entity> =
            archetypes.flat_map(Archetype::entities).map(ArchetypeEntity::id).collect();
        for target in targets {
            (relation.release)(world, target, &set);
        }
    }
    world.flush();
}

/// Removes the relationships of entities that stay to entities that are about to be despawned, so that Bevy does not despawn
/// them, too.
pub(crate) fn release_sources(world: &mut World, registry: &ComponentRegistry, doomed: &[Entity]) {
    let set: EntityHashSet = doomed.iter().copied().collect();
    for entry in &registry.entries {
        let Some(sources) =
            entry.relation.and_then(|relation| RelationshipSources::of(world, relation.targets))
        else {
            continue;
        };
        let mut staying: Vec<Entity> = Vec::new();
        for &target in doomed.iter().filter(|target| world.get_entity(**target).is_ok()) {
            sources.for_each(target, |source| {
                staying.extend(Some(source).filter(|source| !set.contains(source)));
            });
        }
        for source in staying {
            if let Ok(mut source) = world.get_entity_mut(source) {
                source.remove_by_id(entry.id);
            }
        }
    }
    world.flush();
}

/// Returns true if an entity is the target of a relationship, registered or not.
pub(crate) fn has_sources(world: &World, entity: Entity) -> bool {
    let is_list = |id: ComponentId| {
        let accessor = world.components().get_info(id).and_then(|info| info.relationship_accessor());
        matches!(accessor, Some(RelationshipAccessor::RelationshipTarget { .. }))
    };
    world.get_entity(entity).is_ok_and(|entity| entity.archetype().iter_components().any(is_list))
}

/// Sources by target, in the order of rows, of relationships of which some sources are spawned by batches and others are
/// inserted.
pub(crate) struct RowOrder(Vec<(Relation, EntityHashMap<Vec<Entity>>)>);

impl RowOrder {
    pub(crate) fn new(
        registry: &ComponentRegistry,
        pending: &[PendingArchetype<'_>],
        entities: &[Entity],
        existing: &EntityHashSet,
    ) -> Self {
        let mut by_component: Vec<(usize, Relation, bool, bool)> = Vec::new();
        let columns = columns(registry, pending);
        for &(archetype, column, relation) in &columns {
            let number = pending[archetype].columns[column].number;
            let segments = &pending[archetype].segments;
            let batched = segments.iter().any(|segment| segment.slot.is_some());
            // Entities that exist get their values after the batches.
            let inserted = !existing.is_empty() || segments.iter().any(|segment| segment.slot.is_none());
            match by_component.iter_mut().find(|(known, ..)| *known == number) {
                Some((_, _, some_batched, some_inserted)) => {
                    *some_batched |= batched;
                    *some_inserted |= inserted;
                }
                None => by_component.push((number, relation, batched, inserted)),
            }
        }
        let mixed = by_component.into_iter().filter(|(_, _, batched, inserted)| *batched && *inserted);
        let orders = mixed.map(|(number, relation, ..)| {
            let mut sources: EntityHashMap<Vec<Entity>> = EntityHashMap::default();
            for &(archetype, column, _) in &columns {
                let (pending, column) = (&pending[archetype], &pending[archetype].columns[column]);
                for row in (0..pending.entities.len()).filter(|_| column.number == number) {
                    if let Some(target) = column.target(row, relation.offset) {
                        sources.entry(target).or_default().push(entities[pending.entities.start + row]);
                    }
                }
            }
            (relation, sources)
        });
        Self(orders.collect())
    }

    /// Puts the lists right: those of which only the order of rows is known, then those that were saved.
    pub(crate) fn apply(self, world: &mut World, registry: &ComponentRegistry, saved: &SavedOrder) {
        for (relation, sources) in self.0 {
            for (target, sources) in sources.into_iter().filter(|(_, sources)| sources.len() > 1) {
                (relation.reorder)(world, target, &sources);
            }
        }
        saved_lists(registry, saved).for_each(|list| list.apply(world));
    }
}

/// A list whose order was saved.
pub(crate) struct SavedList {
    relation: Relation,
    target: Entity,
    sources: Vec<Entity>,
}

impl SavedList {
    pub(crate) fn apply(&self, world: &mut World) {
        (self.relation.reorder)(world, self.target, &self.sources);
    }
}

/// All lists whose order was saved, of relationships that this build knows.
pub(crate) fn saved_lists<'a>(
    registry: &'a ComponentRegistry,
    saved: &'a SavedOrder,
) -> impl Iterator<Item = SavedList> + 'a {
    let relation = |key: &String| registry.entries[registry.core.index_of_key(key)?].relation;
    let known = saved.iter().filter_map(move |(key, lists)| Some((relation(key)?, lists)));
    known.flat_map(|(relation, lists)| {
        lists.iter().map(move |(&target, sources)| {
            let sources = sources.iter().map(|&source| source.into()).collect();
            SavedList { relation, target: target.into(), sources }
        })
    })
}

/// All sources and their targets by relationship, in the order of the save: the lists that a restored world must have.
#[derive(Default)]
pub(crate) struct ListOrder(Vec<(usize, Relation, Pairs)>);

type Pairs = Vec<(Entity, Entity)>;

impl ListOrder {
    pub(crate) fn new(
        registry: &ComponentRegistry,
        pending: &[PendingArchetype<'_>],
        entity: impl Fn(usize, usize) -> Option<Entity>,
    ) -> Self {
        let mut relations: Vec<(usize, Relation, Pairs)> = Vec::new();
        for (archetype, column, relation) in columns(registry, pending) {
            let rows = pending[archetype].entities.len();
            let column = &pending[archetype].columns[column];
            let known = relations.iter().position(|(number, ..)| *number == column.number);
            let index = known.unwrap_or_else(|| {
                relations.push((column.number, relation, Vec::new()));
                relations.len() - 1
            });
            let pair = |row: usize| Some((entity(archetype, row)?, column.target(row, relation.offset)?));
            relations[index].2.extend((0..rows).filter_map(pair));
        }
        Self(relations)
    }

    /// Puts those lists right whose saved sources have another order. Sources that are not saved keep their places among
    /// the others, unless the list is wrong: then they come last.
    pub(crate) fn apply(mut self, world: &mut World, registry: &ComponentRegistry, saved: &SavedOrder) {
        for (number, relation, pairs) in &mut self.0 {
            let lists = saved.get(registry.core.descriptors()[*number].key());
            let lists: Vec<(Entity, Vec<Entity>)> = (lists.into_iter().flatten())
                .map(|(&target, sources)| (target.into(), sources.iter().map(|&id| id.into()).collect()))
                .collect();
            // Lists that were saved have an order of their own.
            let listed: EntityHashSet = lists.iter().map(|(target, _)| *target).collect();
            pairs.retain(|(_, target)| !listed.contains(target));
            pairs.extend(
                lists
                    .into_iter()
                    .flat_map(|(target, sources)| sources.into_iter().map(move |source| (source, target))),
            );
            let wrong = wrong_lists(world, *relation, pairs);
            let mut lists: EntityHashMap<Vec<Entity>> = EntityHashMap::default();
            for &(source, target) in pairs.iter().filter(|(_, target)| wrong.contains(target)) {
                lists.entry(target).or_default().push(source);
            }
            for (target, sources) in lists {
                (relation.reorder)(world, target, &sources);
            }
        }
    }
}

/// The targets whose lists do not have their sources in this order.
fn wrong_lists(world: &World, relation: Relation, pairs: &[(Entity, Entity)]) -> EntityHashSet {
    let mut wrong = EntityHashSet::default();
    let Some(sources) = RelationshipSources::of(world, relation.targets) else { return wrong };
    // By index of the source, its number among all.
    let mut numbers = vec![u32::MAX; world.entities().len() as usize];
    for (&(source, _), number) in pairs.iter().zip(0..) {
        if let Some(slot) = numbers.get_mut(source.index_u32() as usize) {
            *slot = number;
        }
    }
    for archetype in world.archetypes().iter().filter(|archetype| archetype.contains(relation.targets)) {
        for target in archetype.entities() {
            let mut last = None;
            sources.for_each(target.id(), |source| {
                let number = numbers.get(source.index_u32() as usize).copied().unwrap_or(u32::MAX);
                if number == u32::MAX {
                    return;
                }
                if last.is_some_and(|last| number < last) {
                    wrong.insert(target.id());
                }
                last = Some(number);
            });
        }
    }
    wrong
}

/// Returns entities that are despawned, with all sources that Bevy despawns with them, except those that are saved.
pub(crate) fn with_dependants(
    world: &World,
    registry: &ComponentRegistry,
    going: &[Entity],
    is_saved: impl Fn(Entity) -> bool,
) -> EntityHashSet {
    let mut all: EntityHashSet = going.iter().copied().collect();
    let relations =
        registry.entries.iter().filter_map(|entry| RelationshipSources::of(world, entry.relation?.targets));
    let linked: Vec<RelationshipSources<'_>> = relations.filter(|sources| sources.linked).collect();
    let mut next = going.to_vec();
    while let Some(target) = next.pop() {
        for sources in &linked {
            sources.for_each(target, |source| {
                if !is_saved(source) && all.insert(source) {
                    next.push(source);
                }
            });
        }
    }
    all
}

/// Removes sources that get another target, or none, from the lists of the targets that they have: each list at once.
pub(crate) fn remove_from_lists(
    world: &mut World,
    relation: Relation,
    id: ComponentId,
    leaving: &EntityHashSet,
) {
    let target = |&source: &Entity| live_target(world, source, id, relation.offset);
    let targets: EntityHashSet = leaving.iter().filter_map(target).collect();
    for target in targets {
        (relation.release)(world, target, leaving);
    }
}
