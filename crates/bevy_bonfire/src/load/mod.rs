//! Snapshot to world.
//!
//! Everything that may fail happens before anything is changed: the plan, the new ids, the staging. The commit spawns
//! all entities, archetype by archetype in the order of the save, and applies what their hooks asked for once all of
//! them exist, so that relationships find their targets in whatever order they come.

mod commit;
mod fill;
mod moved;
mod relation;
mod row;

pub(crate) use self::commit::panic_message;
#[cfg(any(feature = "state", feature = "time"))]
pub(crate) use self::moved::typed_resource;

use std::collections::BTreeMap;

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::{
    DataEntry, EntityId, EntityMap, Error, LoadContext, LoadOptions, LoadPlan, LoadReport, Prelude,
};
use bonfire::{Result, Snapshot, Unknown};

use crate::capture::{self, ORDER_KEY, Order};
use crate::event::LoadStarting;
use crate::registry::{Carried, Registered, SaveRegistry};
use crate::selection::Selection;

/// What a load does with the entities that are there.
#[derive(Clone, Default)]
pub enum LoadMode {
    /// The snapshot's entities take the place of all that a save without a selection would have (also of those that
    /// observers of `SaveStarting` would exclude), which are despawned when the new ones are complete. Resources are
    /// overwritten. Despawning is Bevy's: children go with their parents, also those that are not part of saves.
    #[default]
    Replace,
    /// As [`LoadMode::Replace`], for the entities of a selection: the counterpart of a save that had it. Select whole
    /// families: children outside of the selection go with parents inside of it.
    ReplaceSelected(Selection),
    /// The snapshot's entities come beside those that are there. Resources that the world has stay as they are.
    Merge,
}

/// What a load did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The head of the save.
    pub prelude: Prelude,
    /// What became of everything in it.
    pub report: LoadReport,
    /// Resources of this game that the save does not have. They are as they were.
    pub resources_not_saved: Vec<String>,
    map: EntityMap,
}

impl Loaded {
    /// What a saved entity became. An [`Entity`] of the world that was saved will do, or the id that a tool shows.
    pub fn entity(&self, saved: impl Into<EntityId>) -> Option<Entity> {
        self.map.get(saved.into()).map(Entity::from)
    }

    /// All saved entities and what they became, in no particular order.
    pub fn entities(&self) -> impl Iterator<Item = (EntityId, Entity)> + '_ {
        self.map.iter().map(|(saved, new)| (saved, new.into()))
    }
}

/// Loads a snapshot; observers of `LoadFinished` are the caller's.
pub(crate) fn load(
    world: &mut World,
    snapshot: &Snapshot,
    mode: LoadMode,
    options: LoadOptions,
) -> Result<Loaded> {
    world.flush();
    let registry = SaveRegistry::of(world)?;
    let (limits, dangling, unknown) = (options.limits.clone(), options.dangling, options.unknown);
    let plan = LoadPlan::new(snapshot, &registry.registry, options)?;
    let replaced = match &mode {
        LoadMode::Merge => Vec::new(),
        LoadMode::Replace => capture::selected(world, &Selection::new())?,
        LoadMode::ReplaceSelected(selection) => {
            selection.prepare(world);
            capture::selected(world, selection)?
        }
    };

    let count = u32::try_from(snapshot.entity_count())
        .map_err(|_| Error::misuse("more entities than Bevy can have"))?;
    let entities: Vec<Entity> = world.entity_allocator().alloc_many(count).collect();
    let staged = stage(world, &plan, snapshot, &entities, &limits);
    let staged = staged.and_then(|staged| check_resources(&registry, staged));
    let (map, staged, order) = match staged {
        Ok(staged) => staged,
        Err(error) => {
            world.entity_allocator_mut().free_many(&entities);
            return Err(error);
        }
    };

    let unknown_order = match order.keys().all(|key| registry.registry.index_of_key(key).is_some()) {
        true => Vec::new(),
        // They were read before, so this cannot fail.
        false => unknown_order(snapshot, &registry).unwrap_or_default(),
    };

    let merge = matches!(mode, LoadMode::Merge);
    let mut report = staged.report.clone();
    let mut carry = commit::commit(
        world,
        &registry,
        staged,
        commit::Plan { entities, map: &map, order, replaced, merge },
        &mut report,
    )?;
    let resources = registry.entries.iter().zip(registry.registry.descriptors());
    let resources_not_saved = resources
        .filter(|(entry, descriptor)| {
            world.contains_resource_by_id(entry.id)
                && !descriptor.is_transient()
                && !report.components.iter().any(|line| line.key == descriptor.key())
        })
        .map(|(_, descriptor)| descriptor.key().to_owned())
        .collect();

    carry.forget_data();
    // What an observer loads or saves from here on finds the carry of this load.
    let mut carried = world.get_resource_or_init::<Carried>();
    match mode {
        LoadMode::Replace => carried.0 = carry,
        // Rows of entities that are gone are not written again.
        LoadMode::ReplaceSelected(_) | LoadMode::Merge => carried.0.extend(carry),
    }
    let context = LoadContext::new(&limits).entities(&map, dangling);
    let mut starting = LoadStarting::default();
    world.trigger_ref(&mut starting);
    world.flush();
    let data = snapshot.data().iter().filter(|entry| entry.key() != ORDER_KEY);
    let mut unclaimed = starting.dispatch(world, data, &context, &mut report);
    world.flush();
    unclaimed.extend(unknown_order);
    if unknown == Unknown::Keep && !unclaimed.is_empty() {
        world.get_resource_or_init::<Carried>().0.keep_data(unclaimed, &context);
    }
    Ok(Loaded { prelude: snapshot.prelude(), report, resources_not_saved, map })
}

/// A relationship belongs to an entity.
fn check_resources<'s>(registry: &Registered, stage: Stage<'s>) -> Result<Stage<'s>> {
    for (number, _) in &stage.1.resources {
        if registry.entries[*number].relation.is_some() {
            let key = registry.registry.descriptors()[*number].key();
            return Err(Error::custom("it is a relationship, but saved as a resource").in_key(key));
        }
    }
    Ok(stage)
}

type Stage<'s> = (EntityMap, bonfire::Staged<'s>, Order);

/// The last step that may fail.
fn stage<'s>(
    world: &World,
    plan: &LoadPlan<'s, '_>,
    snapshot: &Snapshot,
    entities: &[Entity],
    limits: &bonfire::Limits,
) -> Result<Stage<'s>> {
    let saved = plan.entities();
    let new = entities.iter().map(|&entity| EntityId::from(entity));
    let map = EntityMap::from_pairs(saved.iter().copied().zip(new))?;
    drop(saved);
    let staged = plan.stage(&map, Some(world))?;
    let context = LoadContext::new(limits).entities(&map, bonfire::Dangling::Null);
    let mut order: Order = BTreeMap::new();
    for entry in snapshot.data().iter().filter(|entry| entry.key() == ORDER_KEY) {
        order.extend(entry.get_in::<Order>(&context).map_err(|error| error.in_key(ORDER_KEY))?);
    }
    Ok((map, staged, order))
}

/// The order of relationships that this build does not know, as it was saved.
fn unknown_order(snapshot: &Snapshot, registry: &Registered) -> Result<Vec<DataEntry>> {
    let mut entries = Vec::new();
    for entry in snapshot.data().iter().filter(|entry| entry.key() == ORDER_KEY) {
        let mut order: Order = entry.get().map_err(|error| error.in_key(ORDER_KEY))?;
        order.retain(|key, _| registry.registry.index_of_key(key).is_none());
        if !order.is_empty() {
            entries.push(DataEntry::new(ORDER_KEY, &order)?);
        }
    }
    Ok(entries)
}
