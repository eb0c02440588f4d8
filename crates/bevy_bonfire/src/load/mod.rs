//! Snapshot to world.
//!
//! Everything that may fail happens before anything is changed: the plan, the new ids, the staging. The commit spawns
//! all entities, archetype by archetype in the order of the save, and applies what their hooks asked for once all of
//! them exist, so that relationships find their targets in whatever order they come.

mod commit;
mod fill;
mod living;
mod moved;
mod overwrite;
mod relation;
mod restore;
mod row;

pub(crate) use self::commit::panic_message;
#[cfg(any(feature = "state", feature = "time"))]
pub(crate) use self::moved::typed_resource;

use std::collections::{BTreeMap, HashSet};

use bevy_ecs::archetype::Archetype;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::{
    Carry, DataEntry, EntityId, EntityMap, Error, Limits, LoadContext, LoadOptions, LoadPlan, LoadReport,
    Prelude, Result, Snapshot, Staged, Unknown,
};

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
    /// Takes a running world back to a snapshot of its own past, at memory speed as long as the same entities have the same
    /// components. Entities that are still there keep their ids and everything that is not saved; their values are
    /// overwritten in place. Those that have come since go (also those that observers of `SaveStarting` would exclude), those
    /// that are gone come back with new ids ([`Loaded::respawned`]), and references follow. Resources are overwritten.
    ///
    /// Hooks and observers run for what is spawned, despawned, added and removed, and for immutable components whose
    /// saved fields differ; values that are overwritten in place are seen by change detection. An error leaves the world as
    /// it was; a panic in a hook, an observer or a `Drop` is passed on, and the world is then partly restored.
    ///
    /// A snapshot of another world is loaded as by [`LoadMode::Replace`], because ids mean nothing across worlds. A file does not
    /// know which world it is of: then ids are taken to mean entities that are part of saves, and nothing else. Use
    /// [`LoadMode::Replace`] for files of other sessions.
    Restore(Ticks),
    /// As [`LoadMode::Restore`], for the entities of a selection.
    RestoreSelected(Selection, Ticks),
}

/// What counts as changed after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ticks {
    /// Every value that was overwritten.
    #[default]
    All,
    /// Only values whose saved fields are now others than before. Finding out costs about one more pass over memory.
    Differing,
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
    /// What a restore had to spawn again: the ids that entities had, and those that they have now.
    pub respawned: Vec<(EntityId, Entity)>,
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
    let migrated = snapshot.migrated(&registry.registry)?;
    let snapshot = &*migrated;
    let plan = LoadPlan::new(snapshot, &registry.registry, options)?;
    let whole = matches!(mode, LoadMode::Replace | LoadMode::Restore(_));
    let restored = matches!(mode, LoadMode::Restore(_) | LoadMode::RestoreSelected(..));
    let committed = match mode {
        LoadMode::Restore(ticks) => {
            restore::restore(world, &registry, &plan, &limits, &Selection::new(), ticks)?
        }
        LoadMode::RestoreSelected(selection, ticks) => {
            selection.prepare(world);
            restore::restore(world, &registry, &plan, &limits, &selection, ticks)?
        }
        LoadMode::Replace => {
            let replaced = capture::selected(world, &Selection::new())?;
            spawn_all(world, &registry, &plan, &limits, replaced, false)?
        }
        LoadMode::ReplaceSelected(selection) => {
            selection.prepare(world);
            let replaced = capture::selected(world, &selection)?;
            spawn_all(world, &registry, &plan, &limits, replaced, false)?
        }
        LoadMode::Merge => spawn_all(world, &registry, &plan, &limits, Vec::new(), true)?,
    };
    let Committed { map, mut report, mut carry, respawned, unknown_order } = committed;
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
    match whole {
        true => carried.0 = carry,
        // Rows of entities that are gone are not written again.
        false => carried.0.extend(carry),
    }
    let others =
        match restored && snapshot.world() == registry.world && snapshot.data().iter().any(has_references) {
            true => all_entities(world),
            false => HashSet::new(),
        };
    let alive = |id: EntityId| others.contains(&id);
    let context = LoadContext::new(&limits).entities(&map, dangling).alive(&alive);
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
    Ok(Loaded { prelude: snapshot.prelude(), report, resources_not_saved, respawned, map })
}

/// Whether data may refer to entities. The order of siblings refers to saved ones only.
fn has_references(entry: &DataEntry) -> bool {
    entry.key() != ORDER_KEY && entry.schema().is_ok_and(|schema| schema.has_entities())
}

fn all_entities(world: &World) -> HashSet<EntityId> {
    let entities = world.archetypes().iter().flat_map(Archetype::entities);
    entities.map(|entity| EntityId::from(entity.id())).collect()
}

/// What a load has done when its entities and resources are in the world.
struct Committed {
    map: EntityMap,
    report: LoadReport,
    carry: Carry,
    respawned: Vec<(EntityId, Entity)>,
    /// The order of relationships that this build does not know.
    unknown_order: Vec<DataEntry>,
}

/// Loads everything as new entities.
fn spawn_all(
    world: &mut World,
    registry: &Registered,
    plan: &LoadPlan<'_, '_>,
    limits: &Limits,
    replaced: Vec<Entity>,
    merge: bool,
) -> Result<Committed> {
    let count = u32::try_from(plan.snapshot().entity_count())
        .map_err(|_| Error::misuse("more entities than Bevy can have"))?;
    let entities: Vec<Entity> = world.entity_allocator().alloc_many(count).collect();
    let map = plan.entity_map(entities.iter().map(|&entity| entity.into()).collect::<Vec<EntityId>>());
    let staged = map.and_then(|map| {
        stage(world, plan, &map, limits, &|_| false).map(|(staged, order)| (map, staged, order))
    });
    let staged = staged.and_then(|staged| check_resources(registry, &staged.1).map(|()| staged));
    let (map, staged, order) = match staged {
        Ok(staged) => staged,
        Err(error) => {
            world.entity_allocator_mut().free_many(&entities);
            return Err(error);
        }
    };
    let unknown_order = unknown_order(plan.snapshot(), registry, &order);
    let mut report = staged.report.clone();
    let plan = commit::Plan { entities, map: &map, order, replaced, merge };
    let carry = commit::commit(world, registry, staged, plan, &mut report)?;
    Ok(Committed { map, report, carry, respawned: Vec::new(), unknown_order })
}

/// A relationship belongs to an entity.
fn check_resources(registry: &Registered, staged: &Staged<'_>) -> Result<()> {
    for (number, _) in &staged.resources {
        if registry.entries[*number].relation.is_some() {
            let key = registry.registry.descriptors()[*number].key();
            return Err(Error::custom("it is a relationship, but saved as a resource").in_key(key));
        }
    }
    Ok(())
}

/// The last step that may fail.
fn stage<'s>(
    world: &World,
    plan: &LoadPlan<'s, '_>,
    map: &EntityMap,
    limits: &Limits,
    alive: &dyn Fn(EntityId) -> bool,
) -> Result<(Staged<'s>, Order)> {
    let staged = plan.stage_over(map, Some(world), alive)?;
    let context = LoadContext::new(limits).entities(map, bonfire::Dangling::Null);
    let mut order: Order = BTreeMap::new();
    for entry in plan.snapshot().data().iter().filter(|entry| entry.key() == ORDER_KEY) {
        order.extend(entry.get_in::<Order>(&context).map_err(|error| error.in_key(ORDER_KEY))?);
    }
    Ok((staged, order))
}

/// The order of relationships that this build does not know, as it was saved.
fn unknown_order(snapshot: &Snapshot, registry: &Registered, order: &Order) -> Vec<DataEntry> {
    let unknown = |key: &String| registry.registry.index_of_key(key).is_none();
    if !order.keys().any(unknown) {
        return Vec::new();
    }
    let entries = snapshot.data().iter().filter(|entry| entry.key() == ORDER_KEY);
    // They were read before, so this cannot fail.
    let entries = entries.filter_map(|entry| {
        let mut order: Order = entry.get().ok()?;
        order.retain(|key, _| unknown(key));
        if order.is_empty() { None } else { DataEntry::new(ORDER_KEY, &order).ok() }
    });
    entries.collect()
}
