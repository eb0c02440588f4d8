//! The events of a load, for observers.
//!
//! | event | when | what it is for |
//! |---|---|---|
//! | [`LoadStarting`] | all entities and resources are loaded | ask for data |
//! | [`LoadFinished`] | everything is loaded, or nothing | rebuild what is not saved, tell the player |
//! | [`StartedOver`] | a slot is empty and the world is at its beginning, or nothing has changed | tell the player |

use std::sync::Arc;

use bevy_ecs::event::Event;
use bevy_ecs::world::World;
use bonfire::engine::catch_panic;
use bonfire::{DataEntry, LoadContext, LoadReport, Persist, Result};
use bonfire_store::{JournalReplay, LoadSource, SkippedSave};

use super::Loaded;

/// All entities and resources of a load are in the world. Observers ask for the data that they attached to the save.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_bonfire::prelude::*;
/// # #[derive(Resource)] struct Weather { wind: f32 }
/// fn on_load(mut starting: On<LoadStarting>) {
///     starting.on_data("weather.wind", |world: &mut World, wind: f32| {
///         world.insert_resource(Weather { wind });
///         Ok(())
///     });
/// }
/// # let mut world = World::new();
/// # world.add_observer(on_load);
/// ```
#[derive(Event, Default)]
pub struct LoadStarting(pub(super) bonfire::engine::DataCallbacks<World>);

impl LoadStarting {
    /// Calls `callback` with every value saved under this key, once the observers are done. Several observers may ask
    /// for one key; they are called in the order in which they asked. Errors and panics are in the report of the load.
    pub fn on_data<T: Persist>(
        &mut self,
        key: impl Into<String>,
        mut callback: impl FnMut(&mut World, T) -> Result<()> + Send + Sync + 'static,
    ) {
        self.0.on_data(key, move |world: &mut World, entry, context| {
            let value = entry.get_in(context)?;
            catch_panic("a data callback panicked", || callback(world, value))
        });
    }

    /// Gives the data of a save to the callbacks for its key, and returns the data without one.
    pub(crate) fn dispatch<'d>(
        &mut self,
        world: &mut World,
        data: impl IntoIterator<Item = &'d DataEntry>,
        context: &LoadContext<'_>,
        report: &mut LoadReport,
    ) -> Vec<DataEntry> {
        self.0.dispatch(world, data, context, report)
    }
}

/// A load is done, or has failed and left the world as it was.
#[derive(Event, Clone, Debug)]
#[non_exhaustive]
pub struct LoadFinished {
    /// The save that was loaded, if it was not a snapshot.
    pub source: Option<LoadSource>,
    /// Newer saves of the slot that are damaged and were passed over. If there are any, this is not what the player saved last.
    pub skipped: Vec<SkippedSave>,
    /// The use of the save's journal, if it has one. If [`lost`](JournalReplay::lost) is set, appends of it are missing.
    pub journal: Option<JournalReplay>,
    /// The head of the save, the report, and what each saved entity became; or why nothing was loaded.
    pub result: Result<Arc<Loaded>>,
}

impl LoadFinished {
    /// Returns true if the player has everything back that was saved last: the load succeeded, it did not fall back to an older
    /// save, no append of the journal is lost, and everything in the save is in the world.
    pub fn is_complete(&self) -> bool {
        self.result.is_ok() && self.losses().is_empty()
    }

    /// Everything that was saved and did not come back, a line each. A load that failed has none: it changed nothing.
    pub fn losses(&self) -> Vec<String> {
        let Ok(loaded) = &self.result else { return Vec::new() };
        let mut losses: Vec<String> = self.skipped.iter().map(ToString::to_string).collect();
        losses
            .extend(self.journal.iter().filter_map(|journal| journal.lost.as_ref()).map(ToString::to_string));
        losses.extend(loaded.report.losses());
        losses
    }

    /// Triggers the event, and logs what did not come back.
    pub(crate) fn trigger(self, world: &mut World) {
        if let Some(line) = self.loss_line() {
            log::warn!("{line}");
        }
        world.trigger(self);
    }

    /// Returns the losses as one line for the log.
    fn loss_line(&self) -> Option<String> {
        let losses = self.losses();
        let (first, rest) = losses.split_first()?;
        let source = self.source.as_ref().map_or("a snapshot".to_owned(), ToString::to_string);
        let more = match rest.len() {
            0 => String::new(),
            more => format!("; {more} more in `LoadFinished::losses`"),
        };
        Some(format!("the load of {source} is not complete: {first}{more}"))
    }
}

/// The saves of a slot are removed and the world is at its beginning, or that has failed:
/// [`Saves::start_over`](crate::Saves::start_over).
#[derive(Event, Clone, Debug)]
#[non_exhaustive]
pub struct StartedOver {
    /// The slot.
    pub slot: String,
    /// The number of saves that were removed, or the reason why the world is as it was.
    pub result: Result<u64>,
}
