//! What is asked for, and how saving is set up.

#[cfg(not(target_arch = "wasm32"))]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bevy_ecs::resource::Resource;
use bevy_ecs::schedule::SystemSet;
use bevy_ecs::system::Res;
use bonfire::{Error, Result, Snapshot};
use bonfire_store::engine::{self, NextRequest, Promise, RefusedRequest};
use bonfire_store::{
    Handle, LoadSource, MemoryStore, Progress, SaveHandle, SaveReport, SaveTarget, Saver, SaverStatus, Slots,
};

use super::autosave::{Autosave, Timer};
use super::exit::ExitOptions;
use super::journal::Journal;
use super::loading::Loading;
use super::moment::Moments;
use super::request::{RefusalEvent, Request};
use crate::capture::{IncrementalCapture, SaveOptions};
use crate::load::{LoadOptions, Loaded};

/// Follows a load into a world.
pub type LoadHandle = Handle<Arc<Loaded>>;

/// Whether the game goes on while it is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SavePolicy {
    /// It does: what is saved is a copy.
    #[default]
    Background,
    /// Systems in [`SimulationSet`] do not run from the tick after the request until [`SaveFinished`](crate::SaveFinished): for
    /// games in which nothing may happen that a player could lose.
    PauseUntilDurable,
    /// It does, and saves into the slot of [`autosave`](Saves::autosave) are a journal: the whole world now and then, and between that
    /// what has changed, appended to it. So an autosave every second costs what a second has changed, in the frame and on the
    /// disk. A load of the slot leads to the last of it.
    ///
    /// Observers of [`SaveStarting`](crate::SaveStarting) run each time, those of [`SaveCaptured`](crate::SaveCaptured) only when the whole world
    /// is saved; label, play time and thumbnail are those of the last whole save. If something cannot be appended, the
    /// save fails, and the next one is whole.
    Journal,
}

/// The systems that are the game's simulation: they do not run while it [is paused](Saves::is_paused). In all schedules of
/// the main loop and the fixed one. Whether they run is decided once, in [`First`](bevy_app::First): a tick runs whole or not
/// at all.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimulationSet;

/// The set of systems that capture saves, commit loads and trigger events: at the end of the tick, in
/// [`Last`](bevy_app::Last). Systems whose changes must be part of a save run before it.
#[derive(SystemSet, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaveSystems;

pub(crate) fn simulation_runs(saves: Option<Res<'_, Saves>>) -> bool {
    saves.is_none_or(|saves| !saves.simulation_stopped)
}

/// Saving and loading while the game runs.
///
/// Requests are made here, or with [commands](crate::CommandsSaveExt), and done in their order at the end of the tick: a save has
/// everything that the tick did. No call waits. Handles are complete when the outcome is final, and
/// [`SaveFinished`](crate::SaveFinished) and [`LoadFinished`](crate::LoadFinished) tell observers.
///
/// A save costs the tick what has changed since the last one, and what has changed is what Bevy's change detection says: see
/// [`IncrementalCapture`]. Components that change without it are registered with
/// [`changes_unseen`](crate::PersistExt::changes_unseen).
///
/// ```
/// # use bevy_app::App;
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::store::{MemoryStore, Slots};
///
/// # #[derive(Component, Persist)]
/// # #[persist(key = "game.health")]
/// # struct Health(f32);
/// let mut app = App::new();
/// app.add_plugins(BonfirePlugin::new().slots(Slots::new(MemoryStore::new()))); // DirStore::for_app("Moon Studio", "Comet")?
/// app.persist::<Health>();
///
/// let save = app.world_mut().resource_mut::<Saves>().save("quick");
/// app.update(); // captured
/// assert_eq!(save.wait()?.entities, 0); // durable
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Resource)]
pub struct Saves {
    /// Saves by itself.
    pub autosave: Autosave,
    /// Whether the game goes on while it is saved.
    pub policy: SavePolicy,
    /// What happens when the app exits.
    pub on_exit: ExitOptions,
    /// How long a tick works on saves and loads if there is no thread for them, as in browsers. Default: 2 ms.
    pub work_budget: Duration,
    pub(super) saver: Saver,
    has_slots: bool,
    enabled: bool,
    paused: bool,
    /// Decided at the start of a tick, so that no tick runs by half.
    pub(super) simulation_stopped: bool,
    /// Saves that failed while the app exits.
    pub(super) failed_on_exit: Option<Vec<(SaveTarget, Error)>>,
    /// Saves that were requested, in their order, until observers got their event.
    pub(super) saving: Vec<Saving>,
    /// Events of requests that were not begun.
    pub(super) refused: Vec<RefusalEvent>,
    pub(super) loading: Option<Loading>,
    pub(super) captures: IncrementalCapture,
    pub(super) journal: Journal,
    pub(super) compared: bool,
    pub(super) initial: Option<Snapshot>,
    pub(super) timer: Timer,
    pub(super) moments: Moments,
}

/// How long a tick works on saves and loads, unless the game says otherwise.
pub(crate) const WORK_BUDGET: Duration = Duration::from_millis(2);

/// A save that was asked for.
pub(super) struct Saving {
    pub(super) target: SaveTarget,
    pub(super) handle: SaveHandle,
}

impl Saves {
    /// Takes the place of what somebody has taken out of the world, until what was asked for is refused.
    pub(super) fn stand_in() -> Self {
        Self { has_slots: true, ..Self::new(None) }
    }

    pub(crate) fn new(slots: Option<Slots>) -> Self {
        let has_slots = slots.is_some();
        Self {
            autosave: Autosave::default(),
            policy: SavePolicy::default(),
            on_exit: ExitOptions::default(),
            work_budget: WORK_BUDGET,
            saver: Saver::new(slots.unwrap_or_else(|| Slots::new(MemoryStore::new()))),
            has_slots,
            enabled: true,
            paused: false,
            simulation_stopped: false,
            failed_on_exit: None,
            saving: Vec::new(),
            refused: Vec::new(),
            loading: None,
            captures: IncrementalCapture::new(),
            journal: Journal::default(),
            compared: false,
            initial: None,
            timer: Timer::default(),
            moments: Moments::default(),
        }
    }

    /// Does the work in ticks from now on instead of on a thread.
    pub(crate) fn without_thread(mut self) -> Self {
        self.saver = Saver::without_thread(self.saver.slots().clone());
        self
    }

    /// Saves at the end of this tick: into a slot, to a path, or into a store.
    pub fn save(&mut self, target: impl Into<SaveTarget>) -> SaveHandle {
        self.save_with(target, SaveOptions::new())
    }

    /// The same, with options.
    pub fn save_with(&mut self, target: impl Into<SaveTarget>, options: SaveOptions) -> SaveHandle {
        let (promise, handle) = Promise::new();
        self.request_save(target.into(), options, promise, handle.clone());
        handle
    }

    pub(crate) fn request_save(
        &mut self,
        target: SaveTarget,
        options: SaveOptions,
        promise: Promise<SaveReport>,
        handle: SaveHandle,
    ) {
        self.saving.push(Saving { target: target.clone(), handle });
        match self.check(&target) {
            Ok(()) => engine::request_save(&self.saver, target, options, promise),
            Err(error) => promise.complete(Err(error)),
        }
    }

    /// Saves to a file, which is replaced as a whole or not at all.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn save_to(&mut self, path: impl Into<PathBuf>) -> SaveHandle {
        self.save(path.into())
    }

    /// Loads the newest good save of a slot, or the save at a path or in a store.
    pub fn load(&mut self, source: impl Into<LoadSource>) -> LoadHandle {
        self.load_with(source, LoadOptions::new())
    }

    /// The same, with a choice of how.
    pub fn load_with(
        &mut self,
        source: impl Into<LoadSource>,
        options: impl Into<LoadOptions>,
    ) -> LoadHandle {
        let (promise, handle) = Promise::new();
        let (source, options) = (source.into(), Box::new(options.into()));
        self.request(Request::Load { source, options, promise });
        handle
    }

    /// Deletes all saves of a slot that are not locked. A slot that does not exist has none.
    pub fn delete_saves(&mut self, slot: impl Into<String>) -> Handle<u64> {
        let (promise, handle) = Promise::new();
        self.request(Request::DeleteSaves { slot: slot.into(), promise });
        handle
    }

    /// Begins again: deletes the saves of a slot and, when that is durable, takes the world back to
    /// [its beginning](Self::set_initial), or removes all entities that a save would have. Then
    /// [`StartedOver`](crate::StartedOver) tells observers. Resources that the beginning does not have are as they were: set
    /// them there.
    pub fn start_over(&mut self, slot: impl Into<String>) -> Handle<u64> {
        let (promise, handle) = Promise::new();
        self.request(Request::StartOver { slot: slot.into(), promise });
        handle
    }

    /// The beginning of the game, for [`start_over`](Self::start_over): a capture of the world when it was new.
    pub fn set_initial(&mut self, snapshot: impl Into<Option<Snapshot>>) {
        self.initial = snapshot.into();
    }

    pub(crate) fn request(&mut self, request: Request) {
        let refused = match self.check(&request.target()) {
            Ok(()) => engine::request(&self.saver, request.description(), request.scope(), request).err(),
            Err(error) => Some(RefusedRequest { request, error }),
        };
        if let Some(RefusedRequest { request, error }) = refused {
            self.refused.extend(request.refuse(error));
        }
    }

    /// Takes the oldest request that waits.
    pub(super) fn next_request(&self) -> Option<NextRequest<SaveOptions, Request>> {
        engine::next_request(&self.saver)
    }

    /// Fails everything that waits. Observers get the events at the end of the tick.
    pub(super) fn refuse_waiting(&mut self, error: &Error) {
        while let Some(next) = self.next_request() {
            match next {
                NextRequest::Save(turn) => turn.fail(error),
                NextRequest::Other(request) => self.refused.extend(request.refuse(error.clone())),
            }
        }
    }

    fn check(&self, target: &SaveTarget) -> Result<()> {
        if !self.enabled {
            return Err(Error::misuse("saving and loading are disabled: call `Saves::enable` first"));
        }
        match self.can_save(target) {
            true => Ok(()),
            false => Err(Error::misuse("this app has no slots: add `BonfirePlugin::new().slots(..)`")),
        }
    }

    pub(super) fn can_save(&self, target: &SaveTarget) -> bool {
        self.has_slots || !is_in_slot(target)
    }

    /// Other slots from now on: those of the player who was chosen in a menu. Refused while anything is going on.
    pub fn set_slots(&mut self, slots: Slots) -> Result<()> {
        if self.is_busy() {
            return Err(Error::misuse("something is being saved or loaded: set the slots when that is done"));
        }
        let saver = if self.saver.has_thread() { Saver::new(slots) } else { Saver::without_thread(slots) };
        (self.saver, self.has_slots) = (saver, true);
        self.journal.forget();
        Ok(())
    }

    /// Compares bytes from now on instead of trusting change detection: see [`IncrementalCapture::compared`]. Default: no.
    pub fn compare_bytes(&mut self) {
        self.compared = true;
    }

    /// Permits saving and loading again.
    pub fn enable(&mut self) {
        self.enabled = true;
        self.timer.restart();
    }

    /// Forbids saving and loading, for editors and replays: there is no autosave, nothing is saved on exit, and requests fail at
    /// once. What was asked for before is done.
    pub fn disable(&mut self) {
        self.enabled = false;
    }

    /// Whether saving and loading are permitted.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Stops the systems in [`SimulationSet`] from the next tick on, until [`resume`](Self::resume). The current tick runs to its
    /// end.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Lets the systems in [`SimulationSet`] run again from the next tick on, unless [`SavePolicy::PauseUntilDurable`] stops
    /// them.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Returns true if the systems in [`SimulationSet`] will not run in the next tick.
    pub fn is_paused(&self) -> bool {
        self.paused || self.policy == SavePolicy::PauseUntilDurable && !self.saving.is_empty()
    }

    /// Whether anything was asked for that is not done: saves, loads, deletions.
    pub fn is_busy(&self) -> bool {
        let untold = !self.saving.is_empty() || !self.refused.is_empty();
        untold || self.waiting() > 0 || self.loading.is_some() || !self.saver.is_idle()
    }

    /// How far the load is that is going on, if one is.
    pub fn loading(&self) -> Option<Progress> {
        self.loading.as_ref().map(Loading::progress)
    }

    /// How the thread that saves is doing: how much waits, when a save was last durable, how fast it is.
    pub fn status(&self) -> SaverStatus {
        self.saver.status()
    }

    /// How many requests wait for the end of the tick, or of a load. With those that wait for the thread there are at most 64:
    /// see [`Saver::queue_max`].
    pub fn waiting(&self) -> usize {
        engine::request_count(&self.saver)
    }

    /// The slots, for menus: lists and thumbnails. `None` if the app has none. Calls that wait keep their thread;
    /// [`Saver::run`] of [`saver`](Self::saver) does them in the order of the requests.
    pub fn slots(&self) -> Option<&Slots> {
        self.has_slots.then(|| self.saver.slots())
    }

    /// The saver that does the work. Requests made here do not wait for the end of the tick, and so come before those that do.
    pub fn saver(&self) -> &Saver {
        &self.saver
    }
}

fn is_in_slot(target: &SaveTarget) -> bool {
    matches!(target, SaveTarget::Slot(_))
}
