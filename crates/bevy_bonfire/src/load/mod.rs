//! Snapshot to world.
//!
//! Everything that may fail happens before anything is changed: the plan, the new ids, the staging. The commit spawns
//! all entities, archetype by archetype in the order of the save, and applies what their hooks asked for once all of
//! them exist, so that relationships find their targets in whatever order they come.

mod activate;
mod batch_spawn;
pub(crate) mod commit;
mod completion;
mod event;
mod live_archetypes;
mod options;
pub(crate) mod overwrite;
mod prepare;
pub(crate) mod raw_column;
pub(crate) mod relation;
mod restore;
mod sliced_commit;
mod sliced_load;
pub(crate) mod structural_changes;
mod table_fill;

use std::sync::Arc;

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{EntityMap, LoadPlan};
use bonfire::inspect::Prelude;
use bonfire::{EntityId, LoadReport, Result, Snapshot};
use bonfire_store::LoadSource;

pub(crate) use self::activate::reclaim;
use self::commit::ExistingResources;
use self::completion::LoadCompletion;
pub use self::event::{LoadFinished, LoadStarting, StartedOver};
pub use self::options::{LoadMode, LoadOptions, Ticks};
pub(crate) use self::prepare::{LoadPhase, PreparedLoad};
use self::prepare::{StagedEntities, replaced};
pub(crate) use self::sliced_load::LoadSlices;
pub use self::sliced_load::SlicedLoad;
use crate::registry::{ComponentRegistry, SaveRegistry};
use crate::selection::{self, Selection};

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

/// Loads a snapshot and triggers [`LoadFinished`].
pub(crate) fn load_with_events(
    world: &mut World,
    source: Option<LoadSource>,
    snapshot: Result<&Snapshot>,
    options: LoadOptions,
) -> Result<Arc<Loaded>> {
    let result = snapshot.and_then(|snapshot| load(world, snapshot, options)).map(Arc::new);
    world.trigger(LoadFinished { source, skipped: Vec::new(), result: result.clone() });
    result
}

/// Loads a snapshot, without [`LoadFinished`].
pub(crate) fn load(world: &mut World, snapshot: &Snapshot, options: LoadOptions) -> Result<Loaded> {
    world.flush();
    reclaim(world);
    let registry = SaveRegistry::of(world)?;
    let migrated = snapshot.migrated(&registry.core)?;
    let (mode, options) = options.split_mode();
    load_migrated(world, &registry, &migrated, mode, options)
}

/// Loads a snapshot after all migrations.
fn load_migrated(
    world: &mut World,
    registry: &ComponentRegistry,
    snapshot: &Snapshot,
    mode: LoadMode,
    options: bonfire::LoadOptions,
) -> Result<Loaded> {
    let completion = LoadCompletion::new(&mode, &options);
    let plan = LoadPlan::new(snapshot, &registry.core, options)?;
    let committed = match mode {
        LoadMode::Restore(ticks) => restore::restore(world, registry, &plan, &Selection::new(), ticks)?,
        LoadMode::RestoreSelected(selection, ticks) => {
            selection::prepare(&selection, world);
            restore::restore(world, registry, &plan, &selection, ticks)?
        }
        LoadMode::Replace | LoadMode::ReplaceSelected(_) | LoadMode::Merge => {
            let replaced = replaced(world, &mode)?;
            let existing = ExistingResources::of(&mode);
            StagedEntities::stage(world, registry, &plan)?
                .commit(world, registry, snapshot, replaced, existing)?
        }
    };
    Ok(completion.run(world, registry, snapshot, committed))
}
