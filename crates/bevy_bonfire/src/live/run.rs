//! What happens at the end of every tick.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bevy_platform::time::Instant;
use bonfire::{Error, Result, Snapshot, SnapshotWriter};
use bonfire_store::{Handle, Progress, Promise, SaveReport, SaveTarget, Skipped, Stage};

use super::request::{LoadSettings, Request, WAITING_MAX};
use super::{Saves, autosave, exit};
use crate::event::{LoadFinished, SaveFinished, StartedOver};
use crate::load::{self, Loaded, Prepared, Preparing, Reserve, Slices};
use crate::registry::SaveRegistry;
use crate::world::save_world;
use crate::{LoadMode, LoadOptions, SaveOptions};

/// Tells of what is done, goes on with a load, and begins what was asked for.
pub(crate) fn run(world: &mut World) {
    // Observers may take `Saves` out of the world: then nobody saves any more.
    for step in [finish_saves, go_on_a_frame, autosave::run, begin_all, exit::run] {
        if !world.contains_resource::<Saves>() {
            return;
        }
        step(world);
    }
}

fn go_on_a_frame(world: &mut World) {
    go_on(world, None);
}

/// What observers ask for meanwhile is for the next tick.
fn begin_all(world: &mut World) {
    for _ in 0..world.resource::<Saves>().waiting.len() {
        let Some(mut saves) = world.get_resource_mut::<Saves>() else { return };
        if saves.loading.is_some() {
            return;
        }
        let Some(request) = saves.waiting.pop() else { return };
        begin(world, request);
    }
}

/// How many requests are done in one go. Observers that ask for more each time would keep it going for ever.
const ROUNDS_MAX: usize = 4 * WAITING_MAX;

/// Does everything that was asked for, also by observers meanwhile, and waits for it: false if the time was not enough. What is
/// left then is refused.
pub(super) fn complete_all(world: &mut World, time: Duration) -> bool {
    let start = Instant::now();
    let left = || time.saturating_sub(start.elapsed());
    let saver = world.resource::<Saves>().saver.clone();
    let mut in_time = true;
    for _ in 0..ROUNDS_MAX {
        while in_time && world.resource::<Saves>().loading.is_some() {
            in_time = go_on(world, Some(left()));
        }
        if !in_time {
            break;
        }
        if let Some(request) = world.resource_mut::<Saves>().waiting.pop() {
            begin(world, request);
            in_time = !left().is_zero();
            continue;
        }
        in_time = saver.finish(left());
        finish_saves(world);
        let saves = world.resource::<Saves>();
        if !in_time || saves.waiting.len() == 0 && saves.loading.is_none() {
            break;
        }
    }
    if !in_time {
        // The end of the app does not wait for it either.
        saver.finish(Duration::ZERO);
    }
    in_time
}

/// Refuses what waits and what is going on, and tells observers.
pub(super) fn refuse_all(world: &mut World, error: &Error) {
    match world.resource_mut::<Saves>().loading.take() {
        Some(Loading::Preparing { source, promise, .. } | Loading::Committing { source, promise, .. }) => {
            end_load(world, source, Vec::new(), Err(error.clone()), promise);
        }
        Some(Loading::StartingOver { slot, promise, .. }) => {
            start_over(world, slot, Err(error.clone()), promise);
        }
        None => {}
    }
    // Observers may ask for more, which is refused in its turn; those that never stop are not told for ever.
    for _ in 0..2 {
        let mut saves = world.resource_mut::<Saves>();
        while let Some(request) = saves.waiting.pop() {
            saves.refuse(request, error.clone());
        }
        finish_saves(world);
    }
}

/// In the world of an app that has the plugin.
#[derive(Resource)]
pub(crate) struct HasSaves;

/// Asks for something. In a world without the plugin nobody else sees to it: then it is done at once.
pub(crate) fn request(world: &mut World, ask: impl FnOnce(&mut Saves)) {
    if let Some(mut saves) = world.get_resource_mut::<Saves>() {
        return ask(&mut saves);
    }
    let taken_out = world.contains_resource::<HasSaves>();
    let mut saves = if taken_out { Saves::stand_in() } else { Saves::new(None) };
    ask(&mut saves);
    world.insert_resource(saves);
    if taken_out {
        refuse_all(
            world,
            &Error::misuse("somebody has taken `Saves` out of the world: ask again when it is back"),
        );
    } else {
        complete_all(world, Duration::MAX);
        refuse_all(world, &Error::limit("observers ask for more with every save or load"));
    }
    world.remove_resource::<Saves>();
}

/// A load or a new beginning that was not begun.
pub(super) enum Refused {
    Load(SaveTarget, Error),
    StartOver(String, Error),
}

impl Refused {
    pub(super) fn of(request: &Request, error: &Error) -> Option<Self> {
        match request {
            Request::Load { source, .. } => Some(Self::Load(source.clone(), error.clone())),
            Request::StartOver { slot, .. } => Some(Self::StartOver(slot.clone(), error.clone())),
            Request::Save { .. } | Request::Remove { .. } => None,
        }
    }

    fn tell(self, world: &mut World) {
        match self {
            Self::Load(source, error) => {
                log::error!("the load of {source} failed: {error}");
                world.trigger(LoadFinished { source: Some(source), skipped: Vec::new(), result: Err(error) });
            }
            Self::StartOver(slot, error) => {
                log::error!("slot `{slot}` could not be started over: {error}");
                world.trigger(StartedOver { slot, result: Err(error) });
            }
        }
    }
}

/// Tells observers of what was refused, and of the saves that are done, in the order in which they were asked for.
pub(crate) fn finish_saves(world: &mut World) {
    let Some(mut saves) = world.get_resource_mut::<Saves>() else { return };
    let refused = std::mem::take(&mut saves.refused);
    let done: Vec<_> = saves.saving.extract_if(.., |saving| saving.handle.is_complete()).collect();
    if done.is_empty() && refused.is_empty() {
        return;
    }
    if !done.is_empty() {
        saves.timer.restart();
    }
    refused.into_iter().for_each(|refused| refused.tell(world));
    for saving in done {
        let result = saving.handle.result().unwrap_or_else(|| Err(too_late()));
        if let Err(error) = &result {
            log_failure(&format!("the save to {}", saving.target), error);
        }
        world.trigger(SaveFinished { target: saving.target, result });
    }
    world.flush();
}

/// What somebody wanted is no error.
fn log_failure(what: &str, error: &Error) {
    if error.is_cancelled() {
        log::debug!("{what}: {error}");
    } else {
        log::error!("{what} failed: {error}");
    }
}

pub(super) fn too_late() -> Error {
    Error::custom("the app exits, and the time for saving is over")
}

fn cancelled(what: &str) -> Error {
    Error::cancelled(format!("{what} was cancelled"))
}

/// Begins what was asked for.
pub(super) fn begin(world: &mut World, request: Request) {
    match request {
        Request::Save { target, options, promises } => begin_save(world, target, &options, promises),
        Request::Load { source, settings, promise } => begin_load(world, source, *settings, promise),
        Request::Remove { slot, promise } => {
            // In its turn; whoever asked is told by the saver.
            let saver = world.resource::<Saves>().saver.clone();
            saver.remove_with(&slot, promise);
        }
        Request::StartOver { slot, promise } => {
            if promise.is_cancelled() {
                return start_over(world, slot, Err(cancelled("the new beginning")), promise);
            }
            let mut saves = world.resource_mut::<Saves>();
            let removal = saves.saver.remove(&slot);
            saves.loading = Some(Loading::StartingOver { slot, removal, promise });
        }
    }
}

fn begin_save(
    world: &mut World,
    target: SaveTarget,
    options: &SaveOptions,
    promises: Vec<Promise<SaveReport>>,
) {
    if !promises.is_empty() && promises.iter().all(Promise::is_cancelled) {
        return promises.into_iter().for_each(|promise| promise.complete(Err(cancelled("the save"))));
    }
    let mut saves = world.resource_mut::<Saves>();
    let mut captures = std::mem::take(&mut saves.captures);
    captures.set_compared(saves.compared);
    let captured = save_world(world, options, Some(&target), Some(&mut captures));
    let Some(mut saves) = world.get_resource_mut::<Saves>() else { return };
    saves.captures = captures;
    let (snapshot, details) = match captured {
        Ok(captured) => captured,
        Err(error) => return promises.into_iter().for_each(|promise| promise.complete(Err(error.clone()))),
    };
    saves.saver.save_with(target, snapshot, details, options.encode.clone(), promises);
}

/// A load that is going on.
pub(super) enum Loading {
    /// On the other thread.
    Preparing {
        source: SaveTarget,
        budget: Option<Duration>,
        preparation: Handle<Parcel>,
        promise: Promise<Arc<Loaded>>,
    },
    /// Slice by slice.
    Committing {
        source: SaveTarget,
        skipped: Vec<Skipped>,
        budget: Duration,
        slices: Box<Slices>,
        promise: Promise<Arc<Loaded>>,
    },
    /// The saves of a slot are being removed.
    StartingOver { slot: String, removal: Handle<u64>, promise: Promise<u64> },
}

/// What the other thread has made, until somebody takes it.
pub(super) type Parcel = Arc<Mutex<Option<Prepare>>>;

pub(super) struct Prepare {
    prepared: Prepared,
    skipped: Vec<Skipped>,
}

impl Loading {
    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Preparing { preparation, .. } => match preparation.is_complete() {
                true => Progress::new(Stage::Committing, 0, 1),
                false => preparation.progress(),
            },
            Self::Committing { slices, .. } => {
                let (done, total) = slices.progress();
                Progress::new(Stage::Committing, done as u64, total as u64)
            }
            Self::StartingOver { removal, .. } => removal.progress(),
        }
    }
}

fn begin_load(world: &mut World, source: SaveTarget, settings: LoadSettings, promise: Promise<Arc<Loaded>>) {
    if promise.is_cancelled() {
        return end_load(world, source, Vec::new(), Err(cancelled("the load")), promise);
    }
    world.flush();
    let (registry, reserve) = match SaveRegistry::of(world).and_then(|known| Ok((known, Reserve::of(world)?)))
    {
        Ok(known) => known,
        Err(error) => return end_load(world, source, Vec::new(), Err(error), promise),
    };
    let LoadSettings { mode, options, budget } = settings;
    let limits = || world.resource::<Saves>().saver.slots().limits().clone();
    let options = options.unwrap_or_else(|| LoadOptions { limits: limits(), ..LoadOptions::default() });
    if let LoadMode::ReplaceSelected(selection) | LoadMode::RestoreSelected(selection, _) = &mode {
        selection.prepare(world);
    }
    let open = Snapshot::options().limits(options.limits.clone());
    let (inner, preparation) = Promise::new();
    let mut saves = world.resource_mut::<Saves>();
    saves.saver.load_then(source.clone(), open, inner, move |save, watch| {
        let watch = |what, done, total| watch.set(progress_of(what, done, total));
        let prepared = Prepared::new(save.snapshot, registry, &reserve, mode, options, &watch)?;
        Ok(Arc::new(Mutex::new(Some(Prepare { prepared, skipped: save.skipped }))))
    });
    saves.loading = Some(Loading::Preparing { source, budget, preparation, promise });
}

fn progress_of(what: Preparing, done: u64, total: u64) -> Progress {
    match what {
        Preparing::Migrating => Progress::new(Stage::Migrating, done, total),
        Preparing::Decoding => Progress::new(Stage::Decoding, done, total),
        // Progress does not go back for it.
        Preparing::Copying => Progress::new(Stage::Decoding, 1, 1),
    }
}

/// Goes on with the load that is going on. With a time, waits so long for the other thread and then commits in one go. Returns
/// whether there is hope.
fn go_on(world: &mut World, wait: Option<Duration>) -> bool {
    let Some(loading) = world.resource_mut::<Saves>().loading.take() else { return true };
    match loading {
        Loading::Preparing { source, budget, preparation, promise } => {
            if promise.is_cancelled() {
                preparation.cancel();
            }
            let result = match wait {
                Some(time) => preparation.wait_timeout(time),
                None => preparation.result(),
            };
            promise.set_progress(preparation.progress());
            let Some(result) = result else {
                let loading = Loading::Preparing { source, budget, preparation, promise };
                world.resource_mut::<Saves>().loading = Some(loading);
                return wait.is_none();
            };
            let prepare = result.and_then(|parcel| {
                let prepare = parcel.lock().unwrap_or_else(PoisonError::into_inner).take();
                prepare.filter(|_| !promise.is_cancelled()).ok_or_else(|| cancelled("the load"))
            });
            match prepare {
                Ok(Prepare { prepared, skipped }) => match budget.filter(|_| wait.is_none()) {
                    Some(budget) => {
                        let slices = Box::new(Slices::new(prepared));
                        commit(world, Commit { source, skipped, budget, slices, promise });
                    }
                    None => {
                        let result = prepared.commit(world).map(Arc::new);
                        end_load(world, source, skipped, result, promise);
                    }
                },
                Err(error) => end_load(world, source, Vec::new(), Err(error), promise),
            }
        }
        Loading::Committing { source, skipped, budget, slices, promise } => {
            let budget = wait.map_or(budget, |_| Duration::MAX);
            commit(world, Commit { source, skipped, budget, slices, promise });
        }
        Loading::StartingOver { slot, removal, promise } => {
            if promise.is_cancelled() {
                removal.cancel();
            }
            let result = match wait {
                Some(time) => removal.wait_timeout(time),
                None => removal.result(),
            };
            let Some(result) = result else {
                world.resource_mut::<Saves>().loading =
                    Some(Loading::StartingOver { slot, removal, promise });
                return wait.is_none();
            };
            start_over(world, slot, result, promise);
        }
    }
    true
}

/// A load that lacks only its place in the world.
struct Commit {
    source: SaveTarget,
    skipped: Vec<Skipped>,
    budget: Duration,
    slices: Box<Slices>,
    promise: Promise<Arc<Loaded>>,
}

/// As much as fits into this frame.
fn commit(world: &mut World, commit: Commit) {
    let Commit { source, skipped, budget, mut slices, promise } = commit;
    if promise.is_cancelled() {
        slices.cancel(world);
        return end_load(world, source, skipped, Err(cancelled("the load")), promise);
    }
    match slices.step(world, budget) {
        Ok(Some(loaded)) => end_load(world, source, skipped, Ok(Arc::new(loaded)), promise),
        Ok(None) => {
            let loading = Loading::Committing { source, skipped, budget, slices, promise };
            if let Loading::Committing { promise, .. } = &loading {
                promise.set_progress(loading.progress());
            }
            world.resource_mut::<Saves>().loading = Some(loading);
        }
        Err(error) => end_load(world, source, skipped, Err(error), promise),
    }
}

fn end_load(
    world: &mut World,
    source: SaveTarget,
    skipped: Vec<Skipped>,
    result: Result<Arc<Loaded>>,
    promise: Promise<Arc<Loaded>>,
) {
    if let Err(error) = &result {
        log_failure(&format!("the load of {source}"), error);
    }
    promise.complete(result.clone());
    world.trigger(LoadFinished { source: Some(source), skipped, result });
    world.flush();
}

/// The saves are gone: back to the beginning.
fn start_over(world: &mut World, slot: String, removed: Result<u64>, promise: Promise<u64>) {
    let initial = world.resource::<Saves>().initial.clone();
    let result = removed.and_then(|removed| {
        let beginning = match initial {
            Some(snapshot) => snapshot,
            None => SnapshotWriter::new(&SaveRegistry::of(world)?.registry).finish()?,
        };
        load::load(world, &beginning, LoadMode::Replace, LoadOptions::default())?;
        Ok(removed)
    });
    if let Err(error) = &result {
        log::error!("slot `{slot}` could not be started over: {error}");
    }
    promise.complete(result.clone());
    world.trigger(StartedOver { slot, result });
    world.flush();
}
