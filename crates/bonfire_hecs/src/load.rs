//! Snapshot to world. Everything that may fail happens before anything is changed: the plan, the ids, the staging.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use bonfire::engine::{EntityMap, LoadPlan, Staged, WorldNumber};
use bonfire::inspect::Prelude;
use bonfire::{DataEntry, EntityId, Error, LoadContext, LoadOptions, LoadReport, Result, Snapshot, Unknown};
use hecs::{Entity, World};

use crate::place::{self, Live, Rows};
use crate::registry::{Bonfire, Saved};
use crate::restore;
use crate::selection::{Selection, choose};
use crate::slots::FreeIds;

/// What a load does with the entities that are there.
#[derive(Clone, Default)]
pub enum LoadMode {
    /// The snapshot's entities take the place of all that a save without a selection would have. They get new ids: handles
    /// from before find nothing.
    #[default]
    Replace,
    /// As [`LoadMode::Replace`], for the entities of a selection: the counterpart of a save that had it.
    ReplaceSelected(Selection),
    /// The snapshot's entities come beside those that are there.
    Merge,
    /// The snapshot's entities take the place of all that is there and get the ids and generations that they had. The ids
    /// that the world gives out afterwards are those that the saved world would have given out. Handles that were taken
    /// since the save must be thrown away: they may mean entities that are yet to come, and so may ids in earlier captures,
    /// which a later [`LoadMode::Restore`] takes for those of another world. Refused while the world has entities that are
    /// not part of saves, and for saves of other engines.
    SameIds,
    /// Takes a running world back to a snapshot of its own past. Entities that are still there keep their ids, and
    /// everything that is not saved; their values are overwritten in place. Those that have come since go, those that are
    /// gone come back with new ids ([`Loaded::respawned`]), and references follow.
    ///
    /// A snapshot of another world is loaded as by [`LoadMode::Replace`], because ids mean nothing across worlds. A file does not
    /// know which world it is of: then ids are taken to mean entities that are part of saves, and nothing else. Use
    /// [`LoadMode::Replace`] or [`LoadMode::SameIds`] for files of other sessions.
    Restore,
    /// As [`LoadMode::Restore`], for the entities of a selection.
    RestoreSelected(Selection),
}

/// What a load did.
pub struct Loaded {
    /// The head of the save.
    pub prelude: Prelude,
    /// What became of everything in it.
    pub report: LoadReport,
    /// What a restore had to spawn again: the ids that entities had, and those that they have now.
    pub respawned: Vec<(EntityId, Entity)>,
    map: EntityMap,
    resources: Vec<Box<dyn Any + Send + Sync>>,
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

    /// Takes out something that was saved once, beside the world.
    pub fn take_resource<T: 'static>(&mut self) -> Option<T> {
        let index = self.resources.iter().position(|value| value.is::<T>())?;
        self.resources.swap_remove(index).downcast().ok().map(|value| *value)
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded")
            .field("prelude", &self.prelude)
            .field("report", &self.report)
            .field("respawned", &self.respawned)
            .finish_non_exhaustive()
    }
}

pub(crate) fn load(
    bonfire: &mut Bonfire,
    world: &mut World,
    snapshot: &Snapshot,
    mode: LoadMode,
    options: LoadOptions,
) -> Result<Loaded> {
    world.flush();
    let (limits, dangling, unknown) = (options.limits.clone(), options.dangling, options.unknown);
    let migrated = snapshot.migrated(&bonfire.registry)?;
    let snapshot = &*migrated;
    let plan = LoadPlan::new(snapshot, &bonfire.registry, options)?;
    let whole = matches!(mode, LoadMode::Replace | LoadMode::SameIds | LoadMode::Restore);
    let restored = matches!(mode, LoadMode::Restore | LoadMode::RestoreSelected(_));
    let same_ids = matches!(mode, LoadMode::SameIds);
    let Committed { map, respawned, rest } = match mode {
        LoadMode::Restore => restore::restore(bonfire, world, &plan, &Selection::new())?,
        LoadMode::RestoreSelected(selection) => restore::restore(bonfire, world, &plan, &selection)?,
        mode => spawn_all(bonfire, world, &plan, &mode)?,
    };
    if same_ids {
        // Ids mean other entities now than they did in earlier captures, whatever a hook does from here on.
        bonfire.world = WorldNumber::new();
    }
    let Staged { resources, extras, mut carry, mut report, .. } = rest;
    for extra in extras {
        let entities: Vec<Option<Entity>> =
            extra.ids.iter().map(|&id| map.get(id).map(Entity::from)).collect();
        (bonfire.entries[extra.component].insert)(extra.column, world, &entities);
    }
    let resources = (resources.into_iter())
        .filter_map(|(number, column)| (bonfire.entries[number].resource)(column))
        .collect();

    let prelude = snapshot.prelude();
    let others: HashSet<EntityId> = match restored
        && snapshot.world() == Some(bonfire.world)
        && snapshot.data().iter().any(has_references)
    {
        true => world.iter().map(|entity| entity.entity().into()).collect(),
        false => HashSet::new(),
    };
    let alive = |id: EntityId| others.contains(&id);
    let context = LoadContext::new(&limits).entities(&map, dangling).alive(&alive);
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
    Ok(Loaded { prelude, report, respawned, map, resources })
}

fn has_references(entry: &DataEntry) -> bool {
    entry.schema().is_ok_and(|schema| schema.has_entities())
}

/// What is left of a load when its entities are in the world.
pub(crate) struct Committed<'s> {
    pub(crate) map: EntityMap,
    pub(crate) respawned: Vec<(EntityId, Entity)>,
    /// Without the archetypes.
    pub(crate) rest: Staged<'s>,
}

/// Loads everything as new entities.
fn spawn_all<'s>(
    bonfire: &Bonfire,
    world: &mut World,
    plan: &LoadPlan<'s, '_>,
    mode: &LoadMode,
) -> Result<Committed<'s>> {
    let selected = |selection: &Selection| -> Result<Vec<Entity>> {
        let mut all = world.query();
        let chosen = choose(bonfire, world, &mut all, selection, &[])?;
        Ok(chosen.iter().flat_map(|chosen| chosen.entities(world)).collect())
    };
    let replaced = match mode {
        LoadMode::ReplaceSelected(selection) => selected(selection)?,
        LoadMode::Replace | LoadMode::SameIds => selected(&Selection::new())?,
        _ => Vec::new(),
    };
    let all = replaced.len() == world.len() as usize;
    let same_ids = matches!(mode, LoadMode::SameIds);
    if same_ids && !all {
        let others = world.len() as usize - replaced.len();
        return Err(Error::misuse(format!(
            "{others} entities of the world are not part of saves, and ids cannot be kept while they are there: despawn \
             them, or load with `LoadMode::Replace`"
        )));
    }

    let mut unmarked: Vec<EntityId> = Vec::new();
    let (free, map, new) = match same_ids {
        true => {
            let saved = plan.entities();
            (FreeIds::saved(plan.snapshot(), &saved)?, plan.same_entities()?, Arc::new(saved))
        }
        false => {
            let mut free = FreeIds::of(world, &replaced);
            let mut new = Vec::with_capacity(plan.snapshot().entity_count());
            plan.snapshot().archetypes().try_for_each(|archetype| free.take(archetype.len(), &mut new))?;
            let new = Arc::new(new);
            (free, plan.entity_map(Arc::clone(&new))?, new)
        }
    };
    let mut staged = plan.stage(&map, Some(world))?;

    // From here on nothing fails.
    let archetypes = std::mem::take(&mut staged.archetypes);
    free.working(world, &new, |world, free| {
        if same_ids {
            free.make_slots(world);
        } else if all && !replaced.is_empty() {
            FreeIds::reset(world, &replaced);
        } else {
            replaced.iter().for_each(|&entity| _ = world.despawn(entity));
        }
        let mut start = 0;
        for archetype in archetypes {
            let len = archetype.ids.len();
            let ids = &new[start..start + len];
            if bonfire.needs_mark(&archetype.columns) {
                unmarked.extend_from_slice(ids);
            }
            let layout = vec![(0..len, Rows::New)];
            place::place(bonfire, &Live::default(), archetype.columns, &layout, |row| ids[row].into())
                .spawn(world, free, ids);
            start += len;
        }
    });
    for id in unmarked {
        let _ = world.insert_one(id.into(), Saved);
    }
    Ok(Committed { map, respawned: Vec::new(), rest: staged })
}
