//! A load on its way: prepared by the other thread, committed at the end of a tick or over several.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bevy_ecs::world::World;
use bonfire::engine::SnapshotWriter;
use bonfire::{Result, Snapshot};
use bonfire_store::engine::{Promise, submit_load};
use bonfire_store::{Handle, LoadSource, Phase, Progress, SkippedSave};

use super::Saves;
use super::run::{cancelled, log_failure};
use crate::load::{
    self, LoadFinished, LoadMode, LoadOptions, LoadPhase, Loaded, PreparedLoad, SlicedLoad, StartedOver,
};
use crate::pending::IdReserve;
use crate::registry::SaveRegistry;
use crate::selection;

/// A load that is going on.
pub(super) enum Loading {
    /// On the other thread.
    Preparing {
        source: LoadSource,
        budget: Option<Duration>,
        preparation: Handle<PreparationSlot>,
        promise: Promise<Arc<Loaded>>,
    },
    /// Slice by slice.
    Committing {
        source: LoadSource,
        skipped: Vec<SkippedSave>,
        budget: Duration,
        slices: Box<SlicedLoad>,
        promise: Promise<Arc<Loaded>>,
    },
    /// The saves of a slot are being removed.
    StartingOver { slot: String, deletion: Handle<u64>, promise: Promise<u64> },
}

/// Where the other thread puts a preparation, and this one takes it.
pub(super) type PreparationSlot = Arc<Mutex<Option<Preparation>>>;

/// A load that is prepared, and damaged saves that were passed over for it.
pub(super) struct Preparation {
    load: PreparedLoad<'static>,
    skipped: Vec<SkippedSave>,
}

impl Loading {
    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Preparing { preparation, .. } => match preparation.is_complete() {
                true => Progress::new(Phase::Committing, 0, 1),
                false => preparation.progress(),
            },
            Self::Committing { slices, .. } => {
                let (done, total) = slices.progress_counts();
                Progress::new(Phase::Committing, done as u64, total as u64)
            }
            Self::StartingOver { deletion, .. } => deletion.progress(),
        }
    }
}

pub(super) fn begin_load(
    world: &mut World,
    source: LoadSource,
    mut options: LoadOptions,
    promise: Promise<Arc<Loaded>>,
) {
    if promise.is_cancelled() {
        return end_load(world, source, Vec::new(), Err(cancelled("the load")), promise);
    }
    world.flush();
    let (registry, reserve) =
        match SaveRegistry::of(world).and_then(|known| Ok((known, IdReserve::of(world)?))) {
            Ok(known) => known,
            Err(error) => return end_load(world, source, Vec::new(), Err(error), promise),
        };
    let budget = options.budget;
    let limits = || world.resource::<Saves>().saver.slots().limits().clone();
    let limits = options.limits.get_or_insert_with(limits).clone();
    if let LoadMode::ReplaceSelected(selection) | LoadMode::RestoreSelected(selection, _) = &options.mode {
        selection::prepare(selection, world);
    }
    let open = Snapshot::options().limits(limits);
    let (inner, preparation) = Promise::new();
    let mut saves = world.resource_mut::<Saves>();
    submit_load(&saves.saver, source.clone(), open, inner, move |save, reporter| {
        let watch = |what, done, total| reporter.set(progress_of(what, done, total));
        let load = PreparedLoad::new(save.snapshot, registry, &reserve, options, &watch)?;
        Ok(Arc::new(Mutex::new(Some(Preparation { load, skipped: save.skipped }))))
    });
    saves.loading = Some(Loading::Preparing { source, budget, preparation, promise });
}

fn progress_of(what: LoadPhase, done: u64, total: u64) -> Progress {
    match what {
        LoadPhase::Migrating => Progress::new(Phase::Migrating, done, total),
        LoadPhase::Decoding => Progress::new(Phase::Decoding, done, total),
        // Progress does not go back for it.
        LoadPhase::Copying => Progress::new(Phase::Decoding, 1, 1),
    }
}

/// Advances the load that is going on. With `wait`, blocks up to that long for the other thread, and then commits at once.
/// Returns false if the time was not enough.
pub(super) fn advance(world: &mut World, wait: Option<Duration>) -> bool {
    if world.resource::<Saves>().loading.is_none() {
        return true;
    }
    let Some(loading) = world.resource_mut::<Saves>().loading.take() else { return true };
    let waiting = match loading {
        Loading::Preparing { source, budget, preparation, promise } => {
            advance_preparation(world, source, budget, preparation, promise, wait)
        }
        Loading::Committing { source, skipped, budget, slices, promise } => {
            let budget = wait.map_or(budget, |_| Duration::MAX);
            commit(world, Commit { source, skipped, budget, slices, promise });
            None
        }
        Loading::StartingOver { slot, deletion, promise } => {
            advance_start_over(world, slot, deletion, promise, wait)
        }
    };
    match waiting {
        Some(loading) => {
            world.resource_mut::<Saves>().loading = Some(loading);
            wait.is_none()
        }
        None => true,
    }
}

/// The result of the other thread, if it is there in time.
fn result_of<T: Clone>(handle: &Handle<T>, wait: Option<Duration>) -> Option<Result<T>> {
    match wait {
        Some(time) => handle.wait_timeout(time),
        None => handle.result(),
    }
}

/// Commits what the other thread has prepared, or gives the load back if it is not ready.
fn advance_preparation(
    world: &mut World,
    source: LoadSource,
    budget: Option<Duration>,
    preparation: Handle<PreparationSlot>,
    promise: Promise<Arc<Loaded>>,
    wait: Option<Duration>,
) -> Option<Loading> {
    if promise.is_cancelled() {
        // What the other thread makes of it is dropped.
        preparation.cancel();
        end_load(world, source, Vec::new(), Err(cancelled("the load")), promise);
        return None;
    }
    let result = result_of(&preparation, wait);
    promise.set_progress(preparation.progress());
    let Some(result) = result else {
        return Some(Loading::Preparing { source, budget, preparation, promise });
    };
    let prepared = result.and_then(|slot| {
        let prepared = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        prepared.filter(|_| !promise.is_cancelled()).ok_or_else(|| cancelled("the load"))
    });
    match prepared {
        Ok(Preparation { load, skipped }) => match budget.filter(|_| wait.is_none()) {
            Some(budget) => {
                let slices = Box::new(SlicedLoad::from_prepared(load));
                commit(world, Commit { source, skipped, budget, slices, promise });
            }
            None => {
                let result = load.commit(world).map(Arc::new);
                end_load(world, source, skipped, result, promise);
            }
        },
        Err(error) => end_load(world, source, Vec::new(), Err(error), promise),
    }
    None
}

/// Starts over when the saves are removed, or gives the request back if they are not.
fn advance_start_over(
    world: &mut World,
    slot: String,
    deletion: Handle<u64>,
    promise: Promise<u64>,
    wait: Option<Duration>,
) -> Option<Loading> {
    if promise.is_cancelled() {
        deletion.cancel();
    }
    let Some(result) = result_of(&deletion, wait) else {
        return Some(Loading::StartingOver { slot, deletion, promise });
    };
    start_over(world, slot, result, promise);
    None
}

/// A load that is committed in slices.
struct Commit {
    source: LoadSource,
    skipped: Vec<SkippedSave>,
    budget: Duration,
    slices: Box<SlicedLoad>,
    promise: Promise<Arc<Loaded>>,
}

/// Commits as much as fits into this frame.
fn commit(world: &mut World, commit: Commit) {
    let Commit { source, skipped, budget, mut slices, promise } = commit;
    if promise.is_cancelled() {
        slices.cancel(world);
        return end_load(world, source, skipped, Err(cancelled("the load")), promise);
    }
    match slices.advance(world, budget) {
        Ok(Some(loaded)) => end_load(world, source, skipped, Ok(Arc::new(loaded)), promise),
        Ok(None) => {
            let loading = Loading::Committing { source, skipped, budget, slices, promise };
            if let Loading::Committing { promise, .. } = &loading {
                promise.set_progress(loading.progress());
            }
            // If a hook has taken `Saves` out of the world, the load is given up and taken back.
            if let Some(mut saves) = world.get_resource_mut::<Saves>() {
                saves.loading = Some(loading);
            }
        }
        Err(error) => end_load(world, source, skipped, Err(error), promise),
    }
}

pub(super) fn end_load(
    world: &mut World,
    source: LoadSource,
    skipped: Vec<SkippedSave>,
    result: Result<Arc<Loaded>>,
    promise: Promise<Arc<Loaded>>,
) {
    if let Err(error) = &result {
        log_failure(&format!("the load of {source}"), error);
    }
    forget_journal(world);
    promise.complete(result.clone());
    world.trigger(LoadFinished { source: Some(source), skipped, result });
    world.flush();
}

/// Makes the next save of the journal a whole one: the world has been replaced.
fn forget_journal(world: &mut World) {
    if let Some(mut saves) = world.get_resource_mut::<Saves>() {
        saves.journal.forget();
    }
}

/// Takes the world back to its beginning, after its saves were removed.
pub(super) fn start_over(world: &mut World, slot: String, removed: Result<u64>, promise: Promise<u64>) {
    let initial = world.get_resource::<Saves>().and_then(|saves| saves.initial.clone());
    let result = removed.and_then(|removed| {
        let beginning = match initial {
            Some(snapshot) => snapshot,
            None => SnapshotWriter::new(&SaveRegistry::of(world)?.core).finish()?,
        };
        load::load(world, &beginning, LoadOptions::new())?;
        Ok(removed)
    });
    if let Err(error) = &result {
        log_failure(&format!("starting slot `{slot}` over"), error);
    }
    forget_journal(world);
    promise.complete(result.clone());
    world.trigger(StartedOver { slot, result });
    world.flush();
}
