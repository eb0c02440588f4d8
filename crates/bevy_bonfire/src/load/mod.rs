//! Snapshot to world.
//!
//! | step | |
//! |---|---|
//! | `prepare` | everything that may fail, before the world is changed: the plan, the new ids, the staging |
//! | `commit`, or `restore`, or `sliced_load` | staged rows go into the world: in one go, over a running world, or over frames |
//! | `completion` | the end of every load: unknown components, and data for observers |
//!
//! `outside` finds what references to entities of other saves lead to. `spawn` is shared by all three and by deltas, `in_place` by restores and deltas. A commit spawns all entities, archetype
//! by archetype in the order of the save. It applies the commands of their hooks once all of them exist, so that
//! relationships find their targets.

pub(crate) mod commit;
mod completion;
mod event;
pub(crate) mod in_place;
mod options;
mod outside;
#[cfg(feature = "chunks")]
mod part;
mod prepare;
mod restore;
mod sliced_load;
pub(crate) mod spawn;

use std::sync::Arc;

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::{Result, Snapshot};
use bonfire_store::LoadSource;

pub use self::event::{LoadFinished, LoadStarting, StartedOver};
pub use self::options::{LoadMode, LoadOptions, Ticks};
#[cfg(feature = "chunks")]
pub(crate) use self::part::{LoadRemains, LoadedPart};
pub(crate) use self::prepare::{LoadPhase, PreparedLoad};
pub use self::sliced_load::SlicedLoad;
pub(crate) use self::spawn::reclaim;
#[cfg(feature = "chunks")]
pub(crate) use self::spawn::{CommonValue, is_spawning};
use crate::registry::SaveRegistry;

/// The result of a load: its report, and what each saved entity became.
pub type Loaded = bonfire::engine::Loaded<Entity>;

/// Loads a snapshot and triggers [`LoadFinished`].
pub(crate) fn load_with_events(
    world: &mut World,
    source: Option<LoadSource>,
    snapshot: Result<&Snapshot>,
    options: LoadOptions,
) -> Result<Arc<Loaded>> {
    let result = snapshot.and_then(|snapshot| load(world, snapshot, options)).map(Arc::new);
    LoadFinished { source, skipped: Vec::new(), journal: None, result: result.clone() }.trigger(world);
    result
}

/// Loads a snapshot, without [`LoadFinished`].
pub(crate) fn load(world: &mut World, snapshot: &Snapshot, options: LoadOptions) -> Result<Loaded> {
    world.flush();
    reclaim(world);
    let registry = SaveRegistry::of(world)?;
    let migrated = snapshot.migrated(&registry.core)?;
    let prepared = PreparedLoad::in_world(world, registry, &migrated, options);
    let loaded = prepared.and_then(|prepared| prepared.commit(world));
    // A load that could not be prepared has given up its ids.
    reclaim(world);
    loaded
}
