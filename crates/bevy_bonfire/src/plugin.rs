//! The plugin.

use std::time::Duration;

use bevy_app::{
    App, First, FixedFirst, FixedLast, FixedPostUpdate, FixedPreUpdate, FixedUpdate, Last, Plugin,
    PostUpdate, PreUpdate, Update,
};
use bevy_ecs::schedule::{IntoScheduleConfigs, ScheduleLabel};
use bonfire::engine::SaveScope;
use bonfire_store::Slots;

use crate::live::{self, Autosave, ExitOptions, SavePolicy, SaveSystems, Saves, SimulationSet, WORK_BUDGET};
use crate::registry::{Batches, SaveRegistry};
#[cfg(any(doc, feature = "reflect"))]
use crate::selection::Saved;

/// Saves and loads the world of an app. Registers nothing of the game's own: see [`PersistExt`](crate::PersistExt).
#[derive(Clone)]
pub struct BonfirePlugin {
    scope: SaveScope,
    batches: Batches,
    slots: Option<Slots>,
    autosave: Autosave,
    policy: SavePolicy,
    on_exit: ExitOptions,
    work_budget: Duration,
    has_thread: bool,
}

impl Default for BonfirePlugin {
    fn default() -> Self {
        Self {
            scope: SaveScope::Marked,
            batches: Batches::default(),
            slots: None,
            autosave: Autosave::default(),
            policy: SavePolicy::default(),
            on_exit: ExitOptions::default(),
            work_budget: WORK_BUDGET,
            has_thread: true,
        }
    }
}

impl BonfirePlugin {
    /// Entities with the component [`Saved`] are saved.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses which entities are saved. Default: those with the component [`Saved`].
    pub fn scope(mut self, scope: SaveScope) -> Self {
        self.scope = scope;
        self
    }

    /// Where slots are: `commands.save("quick")` saves there. Default: nowhere, and only files and stores can be saved to.
    pub fn slots(mut self, slots: Slots) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Saves by itself. Default: every minute into slot `autosave`, if there are slots.
    pub fn autosave(mut self, autosave: Autosave) -> Self {
        self.autosave = autosave;
        self
    }

    /// Whether the game goes on while it is saved. Default: it does.
    pub fn policy(mut self, policy: SavePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// How long a tick works on saves and loads if there is no thread for them, as in browsers. Default: 2 ms. A tick does one
    /// slice at least, of about 256 KiB.
    pub fn work_budget(mut self, budget: Duration) -> Self {
        self.work_budget = budget;
        self
    }

    /// Does all work in ticks, within the [budget](Self::work_budget), instead of on a thread. In browsers it is always so.
    pub fn without_thread(mut self) -> Self {
        self.has_thread = false;
        self
    }

    /// What happens when the app exits. Default: it waits up to ten seconds for what was asked for. In a browser it does what
    /// needs no waiting: there, save when the page is hidden.
    pub fn on_exit(mut self, on_exit: ExitOptions) -> Self {
        self.on_exit = on_exit;
        self
    }

    /// Loads by documented calls of Bevy only, one entity at a time: about three times slower. The fast way is checked
    /// once per process and left by itself if it does not work; this is for those who want to be sure.
    pub fn spawn_one_by_one(mut self) -> Self {
        self.batches.sets_max = 0;
        self
    }

    /// Spawns only so many sets of components by batches: for tests of what happens when there are more.
    #[doc(hidden)]
    pub fn batches_max(mut self, sets: usize) -> Self {
        self.batches = Batches { sets_max: sets, rows_min: 1 };
        self
    }
}

impl Plugin for BonfirePlugin {
    fn build(&self, app: &mut App) {
        SaveRegistry::edit(app.world_mut(), |_, registry| {
            registry.scope = self.scope;
            registry.batches = self.batches;
        });
        let mut saves = Saves::new(self.slots.clone());
        saves.autosave = self.autosave.clone();
        saves.policy = self.policy;
        saves.on_exit = self.on_exit.clone();
        saves.work_budget = self.work_budget;
        let saves = if self.has_thread { saves } else { saves.without_thread() };
        app.insert_resource(saves).insert_resource(live::HasSaves);
        app.add_systems(First, live::begin_tick.before(SimulationSet))
            .add_systems(Last, live::run.in_set(SaveSystems));
        pause_with(app);
        #[cfg(feature = "reflect")]
        app.register_type::<Saved>();
    }
}

/// Stops the simulation wherever a game may have it.
fn pause_with(app: &mut App) {
    fn configure(app: &mut App, schedule: impl ScheduleLabel) {
        app.configure_sets(schedule, SimulationSet.run_if(live::simulation_runs));
    }
    configure(app, First);
    configure(app, PreUpdate);
    configure(app, Update);
    configure(app, PostUpdate);
    configure(app, FixedFirst);
    configure(app, FixedPreUpdate);
    configure(app, FixedUpdate);
    configure(app, FixedPostUpdate);
    configure(app, FixedLast);
}
