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
use bonfire::engine::LoadPlan;
use bonfire::{Result, Snapshot};
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
pub type Loaded = bonfire::engine::Loaded<Entity>;

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
