//! Interruptions of a change of a world: code of the game that panics, or another thread that allocates ids.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bevy_ecs::world::World;

use super::batch_spawn::IdsTaken;
use crate::registry::InsertMode;
use crate::stable_id::StableIds;

/// The reason why a change of a world is not complete.
pub(crate) enum Interruption {
    /// A hook, an observer or a `Drop` of the game panicked.
    Panicked(Box<dyn Any + Send>),
    /// Another thread allocated ids that were reserved for new entities.
    IdsTaken,
}

impl From<IdsTaken> for Interruption {
    fn from(IdsTaken: IdsTaken) -> Self {
        Self::IdsTaken
    }
}

/// Runs the part of a load, restore or delta that changes entities. The caller undoes what is not complete, or passes the
/// panic on. Stable ids may lead to two entities meanwhile, because new entities come before old ones go.
pub(crate) fn change_world<T>(
    world: &mut World,
    change: impl FnOnce(&mut World) -> Result<T, IdsTaken>,
) -> Result<T, Interruption> {
    world.resource_mut::<StableIds>().begin_load();
    let changed = catch_unwind(AssertUnwindSafe(|| change(world)));
    world.resource_mut::<StableIds>().end_load();
    after_catch(world, changed)
}

/// As [`change_world`], for entities that are pending: their stable ids lead to no entity.
pub(crate) fn catch_interruption<T>(
    world: &mut World,
    change: impl FnOnce(&mut World) -> Result<T, IdsTaken>,
) -> Result<T, Interruption> {
    let changed = catch_unwind(AssertUnwindSafe(|| change(world)));
    after_catch(world, changed)
}

/// Makes later loads insert components one by one if this one panicked: see [`InsertMode::OneByOne`].
fn after_catch<T>(
    world: &mut World,
    changed: std::thread::Result<Result<T, IdsTaken>>,
) -> Result<T, Interruption> {
    match changed {
        Ok(changed) => Ok(changed?),
        Err(panic) => {
            *world.resource_mut::<InsertMode>() = InsertMode::OneByOne;
            Err(Interruption::Panicked(panic))
        }
    }
}
