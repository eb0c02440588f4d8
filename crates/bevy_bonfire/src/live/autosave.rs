//! The timer of automatic saves.

use std::time::Duration;

use bevy_ecs::change_detection::DetectChangesMut;
use bevy_ecs::world::World;
use bevy_platform::time::Instant;
use bonfire_store::SaveTarget;

use super::Saves;
use crate::capture::{self, SaveOptions};
use crate::selection;

/// Saves by itself, now and then.
///
/// The time counts from the end of the last save, whoever asked for it and whether it succeeded. It stands still while
/// something is being saved or loaded. If the world has a `Time<Real>`, that is the clock. A world without any entity that
/// would be saved is not: menus have no game. A game that stands still is saved all the same; set `enabled` with the state of
/// the game if that is not wanted.
#[derive(Clone)]
#[non_exhaustive]
pub struct Autosave {
    /// Whether it does. Default: yes.
    pub enabled: bool,
    /// The time from the end of a save to the next. Default: a minute.
    pub interval: Duration,
    /// Where it saves. Default: slot `autosave`.
    pub target: SaveTarget,
    /// What it saves. Default: everything that is registered.
    pub options: SaveOptions,
}

impl Default for Autosave {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: Duration::from_secs(60),
            target: "autosave".into(),
            options: SaveOptions::new(),
        }
    }
}

impl Autosave {
    /// Into slot `autosave`, so long after the last save.
    pub fn every(interval: Duration) -> Self {
        Self { interval, ..Self::default() }
    }
    /// Never.
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }
    /// Where it saves.
    pub fn target(mut self, target: impl Into<SaveTarget>) -> Self {
        self.target = target.into();
        self
    }
    /// What it saves.
    pub fn options(mut self, options: SaveOptions) -> Self {
        self.options = options;
        self
    }
}

/// How much time has passed since the last save.
#[derive(Default)]
pub(super) struct Timer {
    elapsed: Duration,
    looked: Option<Instant>,
}

impl Timer {
    pub(super) fn restart(&mut self) {
        self.elapsed = Duration::ZERO;
    }
}

/// Asks for a save if it is time.
pub(super) fn run(world: &mut World) {
    let real = real_time(world);
    let mut saves = world.resource_mut::<Saves>();
    // A clock that goes on is no news.
    let saves = saves.bypass_change_detection();
    let now = Instant::now();
    let since = saves.timer.looked.replace(now).map_or(Duration::ZERO, |before| now - before);
    let delta = real.unwrap_or(since);
    if !saves.autosave.enabled
        || !saves.is_enabled()
        || !saves.can_save(&saves.autosave.target)
        || saves.is_busy()
    {
        return;
    }
    saves.timer.elapsed += delta;
    if saves.timer.elapsed < saves.autosave.interval {
        return;
    }
    saves.timer.restart();
    let Autosave { target, options, .. } = saves.autosave.clone();
    if has_entities(world, &options)
        && let Some(mut saves) = world.get_resource_mut::<Saves>()
    {
        saves.save_with(target, options);
    }
}

/// Returns true if a save would have entities. A menu without a game would push the saves of the last game out.
pub(super) fn has_entities(world: &mut World, options: &SaveOptions) -> bool {
    selection::prepare(&options.selection, world);
    let keeper = world.get_resource::<Saves>().and_then(|saves| saves.moments.keeper.clone());
    if keeper.is_some_and(|keeper| keeper.has_content(world)) {
        return true;
    }
    capture::selected(world, &options.selection).map_or(true, |entities| !entities.is_empty())
}

/// What the clock of the app says, if it has one.
fn real_time(world: &World) -> Option<Duration> {
    #[cfg(feature = "time")]
    return world.get_resource::<bevy_time::Time<bevy_time::Real>>().map(bevy_time::Time::delta);
    #[cfg(not(feature = "time"))]
    {
        let _ = world;
        None
    }
}
