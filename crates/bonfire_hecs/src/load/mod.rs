//! Snapshot to world. Everything that may fail happens before anything is changed: the plan, the ids, the staging.

mod options;
mod outside;
mod restore;
mod row_order;
mod staged_rows;

use std::collections::HashSet;
use std::sync::Arc;

use bonfire::engine::{EntityMap, LoadPlan, Resources, Staged, WorldNumber};
use bonfire::{DataEntry, EntityId, LoadContext, Result, RowOrder, Snapshot, Unknown};
use hecs::{Entity, World};

pub use self::options::{LoadMode, LoadOptions};
use self::outside::{Outside, OutsideSearch, Places};
use self::staged_rows::{LiveArchetypes, RowTarget, move_archetype};
use crate::free_ids::{FreeIds, IdOrder, StayingEntities};
use crate::mark::Saved;
use crate::registration::Bonfire;
use crate::registry::ComponentRegistry;
use crate::selection::{Exclusions, Selection, choose};
use crate::stable_id::StandIn;

/// What a load did. [`take_resource`](bonfire::engine::Loaded::take_resource) gives back what
/// [`SaveOptions::resource`](crate::SaveOptions::resource) saved.
pub type Loaded = bonfire::engine::Loaded<Entity, Resources>;

impl Bonfire {
    /// Loads a snapshot. If this fails, the world is as it was. A [`LoadMode`] will do as options.
    pub fn load(
        &mut self,
        world: &mut World,
        snapshot: &Snapshot,
        options: impl Into<LoadOptions>,
    ) -> Result<Loaded> {
        load(self, world, snapshot, options.into(), RespawnedIds::New)
    }
}

/// The ids of entities that a restore spawns again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RespawnedIds {
    /// The next ones of the world.
    New,
    /// Those that they had. Ids that the world gives out go back in time, too.
    Same,
}

pub(crate) fn load(
    bonfire: &mut Bonfire,
    world: &mut World,
    snapshot: &Snapshot,
    options: LoadOptions,
    respawned_ids: RespawnedIds,
) -> Result<Loaded> {
    world.flush();
    let (mode, options) = options.split_mode();
    let (dangling, unknown, row_order) = (options.dangling, options.unknown, options.row_order);
    let migrated = snapshot.migrated(&bonfire.registry.core)?;
    let snapshot = &*migrated;
    let plan = LoadPlan::new(snapshot, &bonfire.registry.core, options)?;
    let limits = plan.limits().clone();
    let whole = matches!(mode, LoadMode::Replace | LoadMode::SameIds | LoadMode::Restore);
    let restored = matches!(mode, LoadMode::Restore | LoadMode::RestoreSelected(_));
    let same_ids = matches!(mode, LoadMode::SameIds) || respawned_ids == RespawnedIds::Same;
    let own = restored && snapshot.world() == Some(bonfire.world);
    if plan.outside()?.is_some_and(|outside| !outside.is_empty()) {
        // hecs does not tell what has come and gone since.
        bonfire.stable_ids.update(world);
    }
    let CommittedLoad { map, outside, respawned, rest } = match mode {
        LoadMode::Restore => restore::restore(bonfire, world, plan, &Selection::new(), respawned_ids)?,
        LoadMode::RestoreSelected(selection) => {
            restore::restore(bonfire, world, plan, &selection, respawned_ids)?
        }
        mode => spawn_all(bonfire, world, plan, &mode)?,
    };
    if same_ids {
        // Ids mean other entities now than they did in earlier captures, whatever a hook does from here on.
        bonfire.world = WorldNumber::new();
    }
    let Staged { resources, extras, mut carry, mut report, .. } = rest;
    for extra in extras {
        let entities: Vec<Option<Entity>> =
            extra.ids.iter().map(|&id| map.get(id).map(Entity::from)).collect();
        (bonfire.registry.entries[extra.component].insert)(extra.column, world, &entities);
    }
    if restored && row_order == RowOrder::Restore {
        let saved: Vec<_> = snapshot.archetypes().map(|archetype| archetype.ids()).collect();
        let saved = saved.iter().flat_map(|ids| ids.iter());
        row_order::restore_row_order(world, saved.filter_map(|&id| map.get(id)).map(Entity::from));
    }
    let mut loaded_resources = Resources::default();
    for (number, column) in resources {
        (bonfire.registry.entries[number].resource)(column)
            .into_iter()
            .for_each(|value| loaded_resources.add(value));
    }

    bonfire.stable_ids.update(world);
    report.duplicate_stable_ids = bonfire.stable_ids.prefer(map.iter().map(|(_, entity)| entity.into()));
    let prelude = snapshot.prelude();
    let others: HashSet<EntityId> = match own && snapshot.data().iter().any(has_references) {
        true => world.iter().map(|entity| entity.entity().into()).collect(),
        false => HashSet::new(),
    };
    let alive = |id: EntityId| others.contains(&id);
    let context = LoadContext::new(&limits).entities(&map, dangling).alive(&alive).outside(&outside);
    let unclaimed = bonfire
        .with_hooks(|_, hooks| hooks.run_load(world, &prelude, snapshot.data(), &context, &mut report));
    carry.forget_data();
    if unknown == Unknown::Keep {
        carry.keep_data(unclaimed, &context);
    }
    match whole {
        true => bonfire.carry = carry,
        // Rows of entities that are gone are not written again.
        false => bonfire.carry.extend(carry),
    }
    // Hooks may have spawned and despawned.
    match bonfire.hooks.is_empty() {
        true => bonfire.indexes.iter_mut().for_each(|index| index.update(world)),
        false => bonfire.update_indexes(world),
    }
    Ok(bonfire::engine::Loaded::new(prelude, report, map)
        .with_respawned(respawned)
        .with_resources(loaded_resources))
}

fn has_references(entry: &DataEntry) -> bool {
    entry.schema().is_ok_and(|schema| schema.has_entities())
}

/// What is left of a load when its entities are in the world.
pub(crate) struct CommittedLoad<'s> {
    pub(crate) map: EntityMap,
    /// The places of entities outside of the save.
    pub(crate) outside: EntityMap,
    pub(crate) respawned: Vec<(EntityId, Entity)>,
    /// Without the archetypes.
    pub(crate) rest: Staged<'s>,
}

/// Loads everything as new entities.
fn spawn_all<'s>(
    bonfire: &Bonfire,
    world: &mut World,
    plan: LoadPlan<'s, '_>,
    mode: &LoadMode,
) -> Result<CommittedLoad<'s>> {
    let registry = &bonfire.registry;
    let replaced = replaced(registry, world, mode)?;
    let same_ids = matches!(mode, LoadMode::SameIds);
    let PlannedIds { free, map, new, places, outside, replaced } = match same_ids {
        true => PlannedIds::saved(bonfire, world, &plan, replaced)?,
        false => PlannedIds::new(bonfire, world, &plan, replaced)?,
    };
    let replaces_all = replaced.len() == world.len() as usize;
    let mut staged = plan.with_outside(outside.map.clone()).stage(&map, Some(world))?;

    // From here on nothing fails.
    let archetypes = std::mem::take(&mut staged.archetypes);
    let mut unmarked: Vec<EntityId> = Vec::new();
    let order = if places.is_untouched() { IdOrder::Next } else { IdOrder::Chosen };
    let all_new: Vec<EntityId> = new.iter().copied().chain(outside.ids()).collect();
    free.scoped(world, &all_new, |world, free| {
        if same_ids {
            free.make_slots(world, &replaced);
        } else if replaces_all && !replaced.is_empty() {
            FreeIds::reset(world, &replaced);
        } else {
            replaced.iter().for_each(|&entity| _ = world.despawn(entity));
        }
        places.clear(world);
        let mut start = 0;
        for archetype in archetypes {
            let len = archetype.ids.len();
            let ids = &new[start..start + len];
            if registry.needs_mark(&archetype.columns) {
                unmarked.extend_from_slice(ids);
            }
            let targets = vec![(0..len, RowTarget::New)];
            let live = LiveArchetypes::default();
            move_archetype(registry, &live, archetype.columns, &targets, |row| ids[row].into())
                .spawn(world, free, ids, order);
            start += len;
        }
        outside.spawn(world, free);
    });
    mark(world, unmarked);
    Ok(CommittedLoad { map, outside: outside.map, respawned: Vec::new(), rest: staged })
}

/// The entities that a load replaces.
fn replaced(registry: &ComponentRegistry, world: &World, mode: &LoadMode) -> Result<Vec<Entity>> {
    let everything = Selection::new();
    let selection = match mode {
        LoadMode::ReplaceSelected(selection) => selection,
        LoadMode::Replace | LoadMode::SameIds => &everything,
        _ => return Ok(Vec::new()),
    };
    let mut all = world.query();
    let chosen = choose(registry, world, &mut all, selection, Exclusions::default())?;
    Ok(chosen.iter().flat_map(|chosen| chosen.entities(world)).collect())
}

/// The ids of the entities of a load, archetype by archetype, and of stand-ins.
struct PlannedIds {
    /// The free ids of the world when they are taken.
    free: FreeIds,
    map: EntityMap,
    new: Arc<Vec<EntityId>>,
    places: Places,
    outside: Outside,
    /// The entities that are despawned.
    replaced: Vec<Entity>,
}

impl PlannedIds {
    /// The ids that the entities had. Stand-ins go with the entities that are replaced; new ones have the ids of the entities
    /// for which they stand in, if these are free.
    fn saved(
        bonfire: &Bonfire,
        world: &World,
        plan: &LoadPlan<'_, '_>,
        mut replaced: Vec<Entity>,
    ) -> Result<Self> {
        replaced.extend(StandIn::all(world).into_values());
        let saved = plan.entities();
        let staying = match replaced.len() == world.len() as usize {
            true => StayingEntities::default(),
            false => StayingEntities::of(world, &replaced, &HashSet::new()),
        };
        let (map, places) = (plan.same_entities()?, Places::none());
        let search = OutsideSearch::new(bonfire, plan, &places, &replaced, false)?;
        let kept = search.ids_to_keep(&saved, &staying);
        let held: Vec<EntityId> = kept.iter().copied().flatten().collect();
        let mut free = FreeIds::saved(plan.snapshot(), &saved, &held, &staying)?;
        let mut ids = Vec::with_capacity(kept.len());
        for id in kept {
            match id {
                Some(id) => ids.push(id),
                None => free.take(1, &mut ids)?,
            }
        }
        let outside = search.assign(plan, &map, &ids)?;
        Ok(Self { free, map, new: Arc::new(saved), places, outside, replaced })
    }

    /// The next ids of the world, after entities are despawned, and those of stand-ins for entities of the load.
    fn new(bonfire: &Bonfire, world: &World, plan: &LoadPlan<'_, '_>, replaced: Vec<Entity>) -> Result<Self> {
        let places = Places::of(world, plan, Some);
        let search = OutsideSearch::new(bonfire, plan, &places, &replaced, true)?;
        let replaced = search.without_standing(replaced);
        let mut free = FreeIds::of(world, &replaced);
        let mut new = Vec::with_capacity(plan.snapshot().entity_count());
        for archetype in plan.snapshot().archetypes() {
            places.take_ids(&mut free, new.len(), archetype.len(), &mut new)?;
        }
        let new = Arc::new(new);
        let map = plan.entity_map(Arc::clone(&new))?;
        let mut ids = Vec::with_capacity(search.missing());
        free.take(search.missing(), &mut ids)?;
        let outside = search.assign(plan, &map, &ids)?;
        Ok(Self { free, map, new, places, outside, replaced })
    }
}

/// Makes entities part of saves.
fn mark(world: &mut World, entities: Vec<EntityId>) {
    for id in entities {
        let _ = world.insert_one(id.into(), Saved);
    }
}
