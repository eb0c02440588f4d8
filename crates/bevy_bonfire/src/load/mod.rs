//! Snapshot to world.
//!
//! Everything that may fail happens before anything is changed: the plan, the new ids, the staging. The commit spawns
//! all entities, archetype by archetype in the order of the save, and applies what their hooks asked for once all of
//! them exist, so that relationships find their targets in whatever order they come.

mod apply;
mod arrival;
mod commit;
mod fill;
mod finish;
mod living;
mod moved;
mod overwrite;
mod prepare;
mod relation;
mod restore;
mod row;
mod sliced;
mod slices;

pub(crate) use self::apply::apply;
pub(crate) use self::arrival::{Arrivals, Arriving, Reserve, settle};
pub(crate) use self::commit::panic_message;
#[cfg(any(feature = "state", feature = "time"))]
pub(crate) use self::moved::typed_resource;
pub(crate) use self::overwrite::live_target;
pub(crate) use self::prepare::{Prepared, Preparing};
pub use self::sliced::SlicedLoad;
pub(crate) use self::slices::Slices;

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{EntityMap, LoadPlan};
use bonfire::inspect::Prelude;
use bonfire::{EntityId, LoadOptions, LoadReport, Result, Snapshot};

use self::finish::Finish;
use self::prepare::{Ready, replaced};
use crate::registry::{Registered, SaveRegistry};
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

impl LoadMode {
    fn is_restore(&self) -> bool {
        matches!(self, Self::Restore(_) | Self::RestoreSelected(..))
    }
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
    settle(world);
    let registry = SaveRegistry::of(world)?;
    let migrated = snapshot.migrated(&registry.registry)?;
    load_migrated(world, &registry, &migrated, mode, options)
}

/// Loads a snapshot after all migrations.
fn load_migrated(
    world: &mut World,
    registry: &Registered,
    snapshot: &Snapshot,
    mode: LoadMode,
    options: LoadOptions,
) -> Result<Loaded> {
    let (finish, limits) = (Finish::new(&mode, &options), options.limits.clone());
    let plan = LoadPlan::new(snapshot, &registry.registry, options)?;
    let committed = match mode {
        LoadMode::Restore(ticks) => {
            restore::restore(world, registry, &plan, &limits, &Selection::new(), ticks)?
        }
        LoadMode::RestoreSelected(selection, ticks) => {
            selection.prepare(world);
            restore::restore(world, registry, &plan, &limits, &selection, ticks)?
        }
        LoadMode::Replace | LoadMode::ReplaceSelected(_) | LoadMode::Merge => {
            let replaced = replaced(world, &mode)?;
            let merge = matches!(mode, LoadMode::Merge);
            Ready::stage(world, registry, &plan, &limits)?
                .commit(world, registry, snapshot, replaced, merge)?
        }
    };
    Ok(finish.run(world, registry, snapshot, committed))
}
