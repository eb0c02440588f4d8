//! Loads in slices, for games that run on meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bevy_ecs::world::World;
use bonfire::{Error, LoadOptions, Result, Snapshot};

use super::{LoadMode, Loaded, Prepared, Reserve, Slices};
use crate::LoadFinished;
use crate::registry::SaveRegistry;

/// A load that is spread over frames. The new entities come in the background, where queries, captures, stable ids and
/// indexes do not see them, and nothing that is there changes. When all of them are complete, everything switches in the
/// last step: what is replaced goes, the new entities, resources and data are there.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use std::time::Duration;
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::{LoadOptions, SlicedLoad};
///
/// #[derive(Component, Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// # let mut world = World::new();
/// # world.persist::<Health>();
/// # world.spawn((Health(3.0), Saved));
/// let snapshot = world.capture(&SaveOptions::new())?;
/// let mut load = SlicedLoad::new(&world, snapshot, LoadMode::Replace, LoadOptions::default())?;
/// // .. and once per frame:
/// loop {
///     if let Some(loaded) = load.step(&mut world, Duration::from_millis(2))? {
///         break;
///     }
///     println!("{:.0} %", load.progress() * 100.0);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is different from a load in one go
/// - Every step takes about as long as its budget, but for the first, which also sorts out all columns, and for the last.
///   That takes 0.2 to 0.4 microseconds for each new entity, as much for each one that goes, and what the game's hooks and
///   observers take. A load in one go takes less than that for entities without hooks and observers: slices are for
///   games whose hooks take long, or whose entities come back with much that is loaded late.
/// - New entities are `Disabled` until the last step. Observers that look at them by a query must allow that; those of
///   `Add<Disabled>` and `Remove<Disabled>` see them come and go.
/// - Commands of hooks are applied when not all entities are there. Components that look at other entities should be
///   loaded late ([`PersistExt::load_late`](crate::PersistExt::load_late)). Relationships always are.
/// - [`LoadMode::Restore`] is done in one step.
///
/// A load that fails, is [cancelled](SlicedLoad::cancel) or whose hooks panic before the last step leaves the world as it
/// was. If it is dropped, the next load or step of another in its world takes back what has come so far.
pub struct SlicedLoad(Slices);

impl SlicedLoad {
    /// Decodes a snapshot, on this thread. Nothing is in the world before the first step.
    pub fn new(world: &World, snapshot: Snapshot, mode: LoadMode, options: LoadOptions) -> Result<Self> {
        let (registry, reserve) = (SaveRegistry::of(world)?, Reserve::of(world)?);
        let prepared = Prepared::new(snapshot, registry, &reserve, mode, options, &|_, _, _| {})?;
        Ok(Self(Slices::new(prepared)))
    }

    /// Goes on for about as long as the budget says, and returns what the load did when it is done. Then, or after an
    /// error, [`LoadFinished`] tells observers.
    pub fn step(&mut self, world: &mut World, budget: Duration) -> Result<Option<Arc<Loaded>>> {
        if self.0.is_over() {
            return Err(Error::misuse("this load is over"));
        }
        let result = match self.0.step(world, budget) {
            Ok(None) => return Ok(None),
            Ok(Some(loaded)) => Ok(Arc::new(loaded)),
            Err(error) => Err(error),
        };
        world.trigger(LoadFinished { source: None, skipped: Vec::new(), result: result.clone() });
        result.map(Some)
    }

    /// How far it is, from 0 to 1.
    pub fn progress(&self) -> f32 {
        let (done, total) = self.0.progress();
        done as f32 / total as f32
    }

    /// Takes back everything that has come so far. Observers are not told.
    pub fn cancel(self, world: &mut World) {
        self.0.cancel(world);
    }
}
