//! The last tick: what was asked for becomes durable before the process ends.

use std::time::Duration;

use bevy_app::AppExit;
use bevy_ecs::event::Event;
use bevy_ecs::message::Messages;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::Error;
use bonfire_store::SaveTarget;

use super::Saves;
use super::autosave::has_entities;
use super::run::{complete_all, refuse_all, too_late};
use crate::capture::SaveOptions;

/// What happens in the tick in which the app exits: whatever was asked for is done first, also a load that is going on.
#[derive(Clone)]
#[non_exhaustive]
pub struct ExitOptions {
    /// Saves the world before the app exits, if it has entities that are saved: an exit from a menu does not push the saves of
    /// the last game out. Default: no.
    pub save: Option<SaveTarget>,
    /// What of it. Default: everything that is registered.
    pub options: SaveOptions,
    /// How long the app waits. Default: ten seconds. [`SavedOnExit`] tells what was not durable by then.
    pub deadline: Duration,
}

impl Default for ExitOptions {
    fn default() -> Self {
        Self { save: None, options: SaveOptions::new(), deadline: Duration::from_secs(10) }
    }
}

impl ExitOptions {
    /// Saves the world before the app exits.
    pub fn save(target: impl Into<SaveTarget>) -> Self {
        Self { save: Some(target.into()), ..Self::default() }
    }
    /// What of it is saved.
    pub fn options(mut self, options: SaveOptions) -> Self {
        self.options = options;
        self
    }
    /// How long the app waits.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

/// The app exits, and everything that was asked for is done; or the deadline has passed.
#[derive(Event, Clone, Debug)]
#[non_exhaustive]
pub struct SavedOnExit {
    /// Saves that were not durable when the deadline had passed. They may become so if the process lives on.
    pub unfinished: Vec<SaveTarget>,
    /// Saves that failed while the app exited, in their order.
    pub failed: Vec<(SaveTarget, Error)>,
}

/// The app exits, and it was seen to.
#[derive(Resource)]
struct Exited;

/// In the tick in which the app exits, does what was asked for and waits.
pub(super) fn run(world: &mut World) {
    let exits = world.get_resource::<Messages<AppExit>>().is_some_and(|exits| !exits.is_empty());
    if !exits {
        // The app went on: the next exit is another one.
        world.remove_resource::<Exited>();
        return;
    }
    if world.contains_resource::<Exited>() {
        return;
    }
    world.insert_resource(Exited);
    let saves = world.resource::<Saves>();
    let is_enabled = saves.is_enabled();
    // A load that is asked for may bring entities.
    let may_load = saves.loading.is_some() || saves.waiting() > 0;
    let ExitOptions { save, options, deadline } = saves.on_exit.clone();
    if let Some(target) = save.filter(|_| is_enabled) {
        match may_load || has_entities(world, &options) {
            true => _ = world.resource_mut::<Saves>().save_with(target, options),
            false => log::info!("{target} is not saved on exit: no entity would be part of it"),
        }
    }
    world.resource_mut::<Saves>().failed_on_exit = Some(Vec::new());
    let in_time = complete_all(world, deadline);
    let failed = world.get_resource_mut::<Saves>().and_then(|mut saves| saves.failed_on_exit.take());
    let saving = world.get_resource::<Saves>().map_or(&[][..], |saves| &saves.saving);
    let unfinished: Vec<SaveTarget> = saving
        .iter()
        .filter(|saving| !saving.handle.is_complete())
        .map(|saving| saving.target.clone())
        .collect();
    refuse_all(world, &too_late());
    if !in_time || !unfinished.is_empty() {
        let names: Vec<String> = unfinished.iter().map(ToString::to_string).collect();
        log::error!(
            "the app exits, and after {deadline:?} these saves are not durable: {}",
            names.join(", ")
        );
    }
    world.trigger(SavedOnExit { unfinished, failed: failed.unwrap_or_default() });
}
