//! Loads in slices, for games that run on meanwhile.
//!
//! | part | in slices | |
//! |---|---|---|
//! | 1 | by column | columns that need the world are decoded |
//! | 2 | yes | all entities are spawned, in the order of the save, as [`Pending`](crate::pending::Pending) |
//! | 3 | yes | relationships, late components and carried components are inserted; marks; lists are put in order |
//! | 4 | no | the switch: the new entities become part of the world; replaced ones are despawned; resources and data |
//!
//! The load changes no existing entity before the switch. If it fails, is cancelled or dropped before, it takes everything
//! back. In parts 2 and 3, commands of hooks are applied after each few hundred rows, when not all entities exist: that is
//! why relationships come later than in a load in one go.

mod activate;
mod commit;
mod late_column;

use std::sync::Arc;
use std::time::Duration;

use bevy_ecs::world::World;
use bevy_platform::time::Instant;
use bonfire::{Error, Result, Snapshot};

use self::commit::SlicedCommit;
use super::{LoadFinished, LoadOptions, Loaded, PreparedLoad, reclaim};
use crate::pending::IdReserve;
use crate::registry::SaveRegistry;

/// A load that is spread over frames. The new entities come in the background, where queries, captures, stable ids and
/// indexes do not see them, and no existing entity changes. When all of them are complete, everything switches in the last
/// step: replaced entities are despawned, and the new entities, resources and data are in the world.
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
/// - Commands of hooks are applied when not all entities exist. Components that look at other entities should be
///   loaded late ([`PersistExt::load_late`](crate::PersistExt::load_late)). Relationships always are.
/// - [`LoadMode::Restore`](crate::LoadMode::Restore) is done in one step.
///
/// A load that fails, is [cancelled](SlicedLoad::cancel) or whose hooks panic before the last step leaves the world as it
/// was. If it is dropped, the next load or step of another in its world takes back what has come so far.
pub struct SlicedLoad {
    load: PreparedLoad<'static>,
    state: State,
}

enum State {
    /// Part 1. A restore is done in one step from here.
    Prepared,
    /// Parts 2 to 4.
    Committing(Box<SlicedCommit>),
    /// Done, or failed.
    Over,
}

impl SlicedLoad {
    /// Decodes a snapshot, on this thread. Nothing is in the world before the first step.
    pub fn new(world: &World, snapshot: Snapshot, options: impl Into<LoadOptions>) -> Result<Self> {
        let (registry, reserve) = (SaveRegistry::of(world)?, IdReserve::of(world)?);
        let prepared = PreparedLoad::new(snapshot, registry, &reserve, options.into(), &|_, _, _| {})?;
        Ok(Self::from_prepared(prepared))
    }

    pub(crate) fn from_prepared(load: PreparedLoad<'static>) -> Self {
        Self { load, state: State::Prepared }
    }

    /// Goes on for about as long as the budget says, and returns what the load did when it is done. Then, or after an
    /// error, it triggers [`LoadFinished`].
    pub fn step(&mut self, world: &mut World, budget: Duration) -> Result<Option<Arc<Loaded>>> {
        if matches!(self.state, State::Over) {
            return Err(Error::misuse("this load is over"));
        }
        let result = match self.advance(world, budget) {
            Ok(None) => return Ok(None),
            Ok(Some(loaded)) => Ok(Arc::new(loaded)),
            Err(error) => Err(error),
        };
        LoadFinished { source: None, skipped: Vec::new(), journal: None, result: result.clone() }
            .trigger(world);
        result.map(Some)
    }

    /// The part of the load that is done, from 0 to 1.
    pub fn progress(&self) -> f32 {
        let (done, total) = self.progress_counts();
        done as f32 / total as f32
    }

    /// Takes back everything that has come so far, without [`LoadFinished`].
    pub fn cancel(self, world: &mut World) {
        drop(self);
        reclaim(world);
    }

    /// Counts what is done, and what there is: entities, and what is inserted when they exist.
    pub(crate) fn progress_counts(&self) -> (usize, usize) {
        match &self.state {
            State::Prepared => (0, self.load.snapshot.entity_count().max(1)),
            State::Committing(commit) => (commit.done, commit.total),
            State::Over => (1, 1),
        }
    }

    /// As [`SlicedLoad::step`], without [`LoadFinished`]. Runs one part at least. The switch is one part, however long it
    /// takes. After an error the world is as it was.
    pub(crate) fn advance(&mut self, world: &mut World, budget: Duration) -> Result<Option<Loaded>> {
        let start = Instant::now();
        world.flush();
        reclaim(world);
        let mut is_first = true;
        loop {
            // The switch gets a frame of its own.
            if !is_first && self.is_ready() {
                return Ok(None);
            }
            is_first = false;
            let done = self.run_part(world);
            if !matches!(done, Ok(None)) {
                self.state = State::Over;
                reclaim(world);
                return done;
            }
            if start.elapsed() >= budget {
                return Ok(None);
            }
        }
    }

    /// Returns true if only the switch is left.
    fn is_ready(&self) -> bool {
        matches!(&self.state, State::Committing(commit) if commit.is_complete())
    }

    /// Runs the next part. If it fails or panics, its entities are dropped and the load is over.
    fn run_part(&mut self, world: &mut World) -> Result<Option<Loaded>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => Err(Error::misuse("this load is over")),
            State::Prepared => {
                let Some(entities) = self.load.entities.take() else {
                    return self.load.commit_entities(world).map(Some);
                };
                let mut entities = entities.settle(world, &self.load)?;
                if entities.stage_next_deferred(world, &self.load)? {
                    self.load.entities = Some(entities);
                    self.state = State::Prepared;
                } else {
                    let commit = SlicedCommit::new(world, &self.load, entities);
                    self.state = State::Committing(Box::new(commit));
                }
                Ok(None)
            }
            State::Committing(mut commit) => {
                commit.ids.check(world)?;
                if commit.is_complete() {
                    return commit.switch(world, &self.load).map(Some);
                }
                commit.commit_part(world)?;
                self.state = State::Committing(commit);
                Ok(None)
            }
        }
    }
}
