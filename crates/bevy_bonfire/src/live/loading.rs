//! A load that is going on: prepared by the other thread, committed at the end of a tick or over several.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bevy_ecs::world::World;
use bonfire::engine::SnapshotWriter;
use bonfire::{Error, Result, Snapshot};
use bonfire_store::engine::{Promise, submit_delete, submit_load};
use bonfire_store::{Handle, JournalReplay, LoadSource, Phase, Progress, SaveTarget, SkippedSave};

use super::Saves;
use super::moment::{BegunReturn, MomentKeeper, NothingLeft, ReturnedMoment};
use super::request::log_failure;
use super::run::cancelled;
use crate::load::{
    self, LoadFinished, LoadMode, LoadOptions, LoadPhase, Loaded, PreparedLoad, SlicedLoad, StartedOver,
};
use crate::pending::IdReserve;
use crate::registry::SaveRegistry;
use crate::selection;

/// A request that is going on. No other one is begun before it is over.
pub(super) enum Loading {
    /// The other thread reads and decodes.
    Preparing(ActiveLoad, Handle<PreparationSlot>),
    /// Slice by slice.
    Committing(ActiveLoad, Box<SlicedLoad>),
    /// The saves of a slot are being deleted.
    StartingOver(StartingOver),
}

/// A new beginning whose saves are being deleted.
pub(super) struct StartingOver {
    slot: String,
    deletion: Handle<u64>,
    promise: Promise<u64>,
    keeper: Option<Arc<dyn MomentKeeper>>,
}

/// A load that was begun.
pub(super) struct ActiveLoad {
    source: LoadSource,
    promise: Promise<Arc<Loaded>>,
    /// Time per frame, if the commit is sliced.
    budget: Option<Duration>,
    origin: LoadOrigin,
    /// The part that is saved apart, which stands still meanwhile.
    keeper: Option<Arc<dyn MomentKeeper>>,
    /// It is at the moment of the save.
    returned: Option<ReturnedMoment>,
}

/// Damaged saves that were passed over, and the use of the save's journal.
#[derive(Default)]
struct LoadOrigin {
    skipped: Vec<SkippedSave>,
    journal: Option<JournalReplay>,
}

/// Where the other thread puts a preparation, and this one takes it.
type PreparationSlot = Arc<Mutex<Option<Preparation>>>;

/// A load that is prepared.
pub(super) struct Preparation {
    load: PreparedLoad<'static>,
    origin: LoadOrigin,
    returned: Option<ReturnedMoment>,
}

impl Loading {
    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Preparing(_, preparation) if preparation.is_complete() => {
                Progress::new(Phase::Committing, 0, 1)
            }
            Self::Preparing(_, preparation) => preparation.progress(),
            Self::Committing(_, slices) => commit_progress(slices),
            Self::StartingOver(starting) => starting.deletion.progress(),
        }
    }

    /// Ends it with an error, and triggers its event.
    pub(super) fn fail(self, world: &mut World, error: Error) {
        match self {
            Self::Preparing(mut load, preparation) => {
                preparation.cancel();
                match preparation.result() {
                    Some(Ok(slot)) => {
                        let prepared = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                        load.returned = prepared.and_then(|prepared| prepared.returned);
                    }
                    Some(Err(_)) => {}
                    // The thread may yet take the other part to the moment. It stands still, so that nothing is saved on top.
                    None => load.keeper = None,
                }
                load.end(world, Err(error));
            }
            Self::Committing(load, _) => load.end(world, Err(error)),
            Self::StartingOver(StartingOver { slot, promise, keeper, .. }) => {
                end_start_over(world, slot, Err(error), promise, keeper);
            }
        }
    }
}

fn commit_progress(slices: &SlicedLoad) -> Progress {
    let (done, total) = slices.progress_counts();
    Progress::new(Phase::Committing, done as u64, total as u64)
}

/// Begins a load: the other thread reads and decodes.
pub(super) fn begin_load(
    world: &mut World,
    source: LoadSource,
    options: LoadOptions,
    promise: Promise<Arc<Loaded>>,
) {
    let origin = LoadOrigin::default();
    let mut load =
        ActiveLoad { source, promise, budget: options.budget, origin, keeper: None, returned: None };
    let preparation = match load.promise.is_cancelled() {
        true => Err(cancelled("the load")),
        false => begin_return(world, &mut load, &options.mode)
            .and_then(|go| prepare(world, &load.source, options, go)),
    };
    match preparation {
        Ok(handle) => world.resource_mut::<Saves>().loading = Some(Loading::Preparing(load, handle)),
        Err(error) => load.end(world, Err(error)),
    }
}

/// Stops the part that is saved apart, if the load is about the whole game.
fn begin_return(world: &mut World, load: &mut ActiveLoad, mode: &LoadMode) -> Result<Option<BegunReturn>> {
    let is_whole = matches!(mode, LoadMode::Replace | LoadMode::Restore(_));
    let is_in_slot = matches!(load.source.target(), SaveTarget::Slot(_));
    let keeper = world.resource::<Saves>().moments.keeper.clone().filter(|_| is_whole && is_in_slot);
    let Some(keeper) = keeper else { return Ok(None) };
    let go = keeper.begin_load(world)?;
    load.keeper = Some(keeper);
    Ok(Some(go))
}

/// Hands the part of a load that needs no world to the other thread.
fn prepare(
    world: &mut World,
    source: &LoadSource,
    mut options: LoadOptions,
    go: Option<BegunReturn>,
) -> Result<Handle<PreparationSlot>> {
    world.flush();
    let (registry, reserve) = (SaveRegistry::of(world)?, IdReserve::of(world)?);
    let limits = || world.resource::<Saves>().saver.slots().limits().clone();
    let limits = options.limits.get_or_insert_with(limits).clone();
    if let LoadMode::ReplaceSelected(selection) | LoadMode::RestoreSelected(selection, _) = &options.mode {
        selection::prepare(selection, world);
    }
    let open = Snapshot::options().limits(limits);
    let saver = &world.resource::<Saves>().saver;
    Ok(submit_load(saver, source.clone(), open, move |save, reporter| {
        let watch = |what, done, total| reporter.set(progress_of(what, done, total));
        let named = go.is_some().then(|| save.snapshot.clone());
        let load = PreparedLoad::new(save.snapshot, registry, &reserve, options, &watch)?;
        let origin = LoadOrigin { skipped: save.skipped, journal: save.journal };
        // Nothing can fail any more but the commit, and that can be taken back.
        let returned = match go.zip(named) {
            Some((go, named)) => go(&named)?,
            None => None,
        };
        Ok(Arc::new(Mutex::new(Some(Preparation { load, origin, returned }))))
    }))
}

fn progress_of(what: LoadPhase, done: u64, total: u64) -> Progress {
    match what {
        LoadPhase::Migrating => Progress::new(Phase::Migrating, done, total),
        LoadPhase::Decoding => Progress::new(Phase::Decoding, done, total),
        // Progress does not go back for it.
        LoadPhase::Copying => Progress::new(Phase::Decoding, 1, 1),
    }
}

/// Advances the request that is going on. With `wait`, blocks up to that long for the other thread, and then commits at once.
/// Returns false if the time was not enough.
pub(super) fn advance(world: &mut World, wait: Option<Duration>) -> bool {
    if world.resource::<Saves>().loading.is_none() {
        return true;
    }
    let Some(loading) = world.resource_mut::<Saves>().loading.take() else { return true };
    let next = match loading {
        Loading::Preparing(load, preparation) => load.take_prepared(world, preparation, wait),
        Loading::Committing(load, slices) => load.commit_slice(world, slices, wait),
        Loading::StartingOver(starting) => advance_start_over(world, starting, wait),
    };
    let Some(next) = next else { return true };
    let waits_for_thread = !matches!(next, Loading::Committing(..));
    // If a hook has taken `Saves` out of the world, the load is given up and taken back.
    if let Some(mut saves) = world.get_resource_mut::<Saves>() {
        saves.loading = Some(next);
    }
    !waits_for_thread || wait.is_none()
}

/// The result of the other thread, if it is there in time.
fn result_of<T: Clone>(handle: &Handle<T>, wait: Option<Duration>) -> Option<Result<T>> {
    match wait {
        Some(time) => handle.wait_timeout(time),
        None => handle.result(),
    }
}

impl ActiveLoad {
    /// Commits what the other thread has prepared. Returns the load if it is not over.
    fn take_prepared(
        mut self,
        world: &mut World,
        preparation: Handle<PreparationSlot>,
        wait: Option<Duration>,
    ) -> Option<Loading> {
        if self.promise.is_cancelled() {
            // What the other thread makes of it is dropped.
            preparation.cancel();
            // The other part may have gone to the moment: then it has to come back.
            if self.keeper.is_none() {
                self.end(world, Err(cancelled("the load")));
                return None;
            }
        }
        let result = result_of(&preparation, wait);
        self.promise.set_progress(preparation.progress());
        let Some(result) = result else { return Some(Loading::Preparing(self, preparation)) };
        let prepared = result.and_then(|slot| {
            let prepared = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Preparation { load, origin, returned } = prepared.ok_or_else(|| cancelled("the load"))?;
            (self.origin, self.returned) = (origin, returned);
            if self.promise.is_cancelled() { Err(cancelled("the load")) } else { Ok(load) }
        });
        let load = match prepared {
            Ok(load) => load,
            Err(error) => {
                self.end(world, Err(error));
                return None;
            }
        };
        if self.budget.is_some() && wait.is_none() {
            return self.commit_slice(world, Box::new(SlicedLoad::from_prepared(load)), wait);
        }
        let result = load.commit(world).map(Arc::new);
        self.end(world, result);
        None
    }

    /// Commits as much as fits into this frame, or all of it if somebody waits. Returns the load if it is not over.
    fn commit_slice(
        self,
        world: &mut World,
        mut slices: Box<SlicedLoad>,
        wait: Option<Duration>,
    ) -> Option<Loading> {
        if self.promise.is_cancelled() {
            slices.cancel(world);
            self.end(world, Err(cancelled("the load")));
            return None;
        }
        let budget = self.budget.filter(|_| wait.is_none()).unwrap_or(Duration::MAX);
        match slices.advance(world, budget) {
            Ok(Some(loaded)) => self.end(world, Ok(Arc::new(loaded))),
            Ok(None) => {
                self.promise.set_progress(commit_progress(&slices));
                return Some(Loading::Committing(self, slices));
            }
            Err(error) => self.end(world, Err(error)),
        }
        None
    }

    /// Completes the handle and triggers [`LoadFinished`].
    fn end(self, world: &mut World, result: Result<Arc<Loaded>>) {
        let Self { source, promise, origin: LoadOrigin { skipped, journal }, keeper, returned, .. } = self;
        if let Some(keeper) = keeper {
            let saver = world.get_resource::<Saves>().map(|saves| saves.saver.clone());
            match (saver, &result, returned) {
                (Some(saver), Ok(_), Some(returned)) => keeper.finish_load(world, &saver, returned),
                (Some(saver), _, returned) => keeper.undo_load(world, &saver, returned),
                (None, ..) => {}
            }
        }
        if let Err(error) = &result {
            log_failure(&format!("the load of {source}"), error);
        }
        forget_journal(world);
        promise.complete(result.clone());
        LoadFinished { source: Some(source), skipped, journal, result }.trigger(world);
        world.flush();
    }
}

/// Begins a new beginning: the saves of the slot are deleted, and what is saved apart is emptied.
pub(super) fn begin_start_over(world: &mut World, slot: String, promise: Promise<u64>) {
    if promise.is_cancelled() {
        return end_start_over(world, slot, Err(cancelled("the new beginning")), promise, None);
    }
    let keeper = world.resource::<Saves>().moments.keeper.clone();
    let empty = match keeper.as_ref().map(|keeper| keeper.start_over(world)).transpose() {
        Ok(empty) => empty,
        Err(error) => return end_start_over(world, slot, Err(error), promise, None),
    };
    let (deleting, deletion) = Promise::new();
    let mut saves = world.resource_mut::<Saves>();
    submit_delete(&saves.saver, &slot, deleting);
    let deletion = match empty {
        None => deletion,
        // The thread does one after the other.
        Some(empty) => saves.saver.run(move |_| {
            let deleted = deletion.result().unwrap_or_else(|| Err(cancelled("the new beginning")))?;
            empty().map(|()| deleted)
        }),
    };
    saves.loading = Some(Loading::StartingOver(StartingOver { slot, deletion, promise, keeper }));
}

/// Starts over when the saves are deleted. Returns the request if they are not.
fn advance_start_over(world: &mut World, loading: StartingOver, wait: Option<Duration>) -> Option<Loading> {
    let StartingOver { slot, deletion, promise, keeper } = loading;
    if promise.is_cancelled() {
        deletion.cancel();
    }
    let Some(deleted) = result_of(&deletion, wait) else {
        return Some(Loading::StartingOver(StartingOver { slot, deletion, promise, keeper }));
    };
    end_start_over(world, slot, deleted, promise, keeper);
    None
}

/// Takes the world back to its beginning, if the saves are deleted. Completes the handle and triggers [`StartedOver`].
fn end_start_over(
    world: &mut World,
    slot: String,
    deleted: Result<u64>,
    promise: Promise<u64>,
    keeper: Option<Arc<dyn MomentKeeper>>,
) {
    let saver = world.get_resource::<Saves>().map(|saves| saves.saver.clone());
    if let Some((keeper, saver)) = keeper.zip(saver) {
        match deleted {
            Ok(_) => keeper.finish_load(world, &saver, Box::new(NothingLeft)),
            Err(_) => keeper.undo_load(world, &saver, None),
        }
    }
    let result = deleted.and_then(|deleted| load_beginning(world).map(|_| deleted));
    if let Err(error) = &result {
        log_failure(&format!("starting slot `{slot}` over"), error);
    }
    forget_journal(world);
    if let Some(mut saves) = world.get_resource_mut::<Saves>() {
        saves.collect_moments();
    }
    promise.complete(result.clone());
    world.trigger(StartedOver { slot, result });
    world.flush();
}

fn load_beginning(world: &mut World) -> Result<Loaded> {
    let initial = world.get_resource::<Saves>().and_then(|saves| saves.initial.clone());
    let beginning = match initial {
        Some(snapshot) => snapshot,
        None => SnapshotWriter::new(&SaveRegistry::of(world)?.core).finish()?,
    };
    load::load(world, &beginning, LoadOptions::new())
}

/// Makes the next save of the journal a whole one: the world has been replaced.
fn forget_journal(world: &mut World) {
    if let Some(mut saves) = world.get_resource_mut::<Saves>() {
        saves.journal.forget();
    }
}
