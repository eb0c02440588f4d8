//! Loads in slices, for games that run on meanwhile.

use std::sync::Arc;
use std::time::Duration;

use bevy_ecs::world::World;
use bevy_platform::time::Instant;
use bonfire::{Error, Result, Snapshot};

use super::prepare::{LoadInput, PartlyStaged, PreparedLoad};
use super::sliced_commit::SlicedCommit;
use super::{LoadFinished, LoadOptions, Loaded, load_migrated, reclaim};
use crate::pending::IdReserve;
use crate::registry::SaveRegistry;

/// A load that is spread over frames. The new entities come in the background, where queries, captures, stable ids and
/// indexes do not see them, and nothing that is there changes. When all of them are complete, everything switches in the
/// last step: what is replaced goes, the new entities, resources and data are there.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use std::time::Duration;
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::SlicedLoad;
///
/// #[derive(Component, Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// # let mut world = World::new();
/// # world.persist::<Health>();
/// # world.spawn((Health(3.0), Saved));
/// let snapshot = world.capture(&SaveOptions::new())?;
/// let mut load = SlicedLoad::new(&world, snapshot, LoadMode::Replace)?;
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
/// - [`LoadMode::Restore`](crate::LoadMode::Restore) is done in one step.
///
/// A load that fails, is [cancelled](SlicedLoad::cancel) or whose hooks panic before the last step leaves the world as it
/// was. If it is dropped, the next load or step of another in its world takes back what has come so far.
pub struct SlicedLoad(LoadSlices);

impl SlicedLoad {
    /// Decodes a snapshot, on this thread. Nothing is in the world before the first step.
    pub fn new(world: &World, snapshot: Snapshot, options: impl Into<LoadOptions>) -> Result<Self> {
        let (registry, reserve) = (SaveRegistry::of(world)?, IdReserve::of(world)?);
        let prepared = PreparedLoad::new(snapshot, registry, &reserve, options.into(), &|_, _, _| {})?;
        Ok(Self(LoadSlices::new(prepared)))
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

/// A prepared load on its way into a world, slice by slice.
pub(crate) struct LoadSlices {
    input: LoadInput,
    state: State,
}

enum State {
    /// A restore, which is done at once.
    Restore,
    /// Columns that need the world are being decoded.
    StagingDeferred(Box<PartlyStaged>),
    Committing(Box<SlicedCommit>),
    Done,
}

impl LoadSlices {
    pub(crate) fn new(prepared: PreparedLoad) -> Self {
        let PreparedLoad { input, entities } = prepared;
        Self {
            input,
            state: entities.map_or(State::Restore, |entities| State::StagingDeferred(Box::new(entities))),
        }
    }

    /// How much is done, and how much there is: entities, and what is inserted when they are there.
    pub(crate) fn progress(&self) -> (usize, usize) {
        match &self.state {
            State::Restore | State::StagingDeferred(_) => (0, self.input.snapshot.entity_count().max(1)),
            State::Committing(commit) => (commit.done, commit.total),
            State::Done => (1, 1),
        }
    }

    /// Goes on until the time is up, and for one part at least. The switch is one part, whatever it takes. Returns what the
    /// load did when it is done; after an error the world is as it was.
    pub(crate) fn step(&mut self, world: &mut World, budget: Duration) -> Result<Option<Loaded>> {
        let start = Instant::now();
        world.flush();
        reclaim(world);
        let mut is_first = true;
        loop {
            // The switch takes what it takes: it gets a frame of its own.
            if !is_first && self.is_ready() {
                return Ok(None);
            }
            is_first = false;
            let done = self.run_part(world);
            if !matches!(done, Ok(None)) {
                self.state = State::Done;
                reclaim(world);
                return done;
            }
            if start.elapsed() >= budget {
                return Ok(None);
            }
        }
    }

    /// Whether only the switch is left.
    fn is_ready(&self) -> bool {
        matches!(&self.state, State::Committing(commit) if commit.is_complete())
    }

    /// Whether it is done, or has failed.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes everything back.
    pub(crate) fn cancel(self, world: &mut World) {
        drop(self);
        reclaim(world);
    }

    fn run_part(&mut self, world: &mut World) -> Result<Option<Loaded>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Done => Err(Error::misuse("this load is over")),
            State::Restore => {
                let LoadInput { snapshot, registry, mode, options } = &self.input;
                load_migrated(world, registry, snapshot, mode.clone(), options.clone()).map(Some)
            }
            State::StagingDeferred(mut entities) => {
                entities.ids.check(world)?;
                self.state = match entities.stage_next_deferred(world, &self.input)? {
                    true => State::StagingDeferred(entities),
                    false => State::Committing(Box::new(SlicedCommit::new(world, &self.input, *entities))),
                };
                Ok(None)
            }
            State::Committing(mut commit) => {
                commit.ids.check(world)?;
                if commit.is_complete() {
                    return commit.switch(world, &self.input).map(Some);
                }
                commit.commit_part(world)?;
                self.state = State::Committing(commit);
                Ok(None)
            }
        }
    }
}
