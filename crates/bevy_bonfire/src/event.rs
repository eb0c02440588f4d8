//! What observers hear of saving and loading.
//!
//! | event | when | what it is for |
//! |---|---|---|
//! | [`SaveStarting`] | before anything is captured | attach data, leave entities out |
//! | [`SaveCaptured`] | the world is captured | the game may go on; what was remarked |
//! | [`SaveFinished`] | the bytes are at their place, or not | tell the player |
//! | [`LoadStarting`] | all entities and resources are loaded | ask for data |
//! | [`LoadFinished`] | everything is loaded, or nothing | rebuild what is not saved, tell the player |

use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bevy_ecs::component::ComponentId;
use bevy_ecs::event::Event;
use bevy_ecs::prelude::Component;
use bevy_ecs::world::World;
use bonfire::inspect::Prelude;
use bonfire::{DataEntry, Error, LoadContext, LoadReport, Note, Persist, Result};
use bonfire_store::{Details, LoadSource, SaveReport, SaveTarget, SkippedSave};

use crate::Loaded;
use crate::capture::data_entry;
use crate::load::panic_message;

/// A save begins. Observers may attach data to it and leave entities out of it.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_bonfire::prelude::*;
/// # #[derive(Component)] struct Particle;
/// # #[derive(Resource)] struct Weather { wind: f32 }
/// fn on_save(mut starting: On<SaveStarting>, weather: Res<Weather>) {
///     starting.attach("weather.wind", &weather.wind);
///     starting.exclude::<Particle>();
/// }
/// # let mut world = World::new();
/// # world.add_observer(on_save);
/// ```
#[derive(Event, Default)]
pub struct SaveStarting {
    target: Option<SaveTarget>,
    pub(crate) details: Details,
    data: Vec<DataEntry>,
    excluded: Vec<TypeId>,
    /// The first.
    error: Option<Error>,
}

impl SaveStarting {
    pub(crate) fn new(target: Option<SaveTarget>, details: Details) -> Self {
        Self { target, details, ..Self::default() }
    }

    /// Where the save will go, if it is not only a snapshot.
    pub fn target(&self) -> Option<&SaveTarget> {
        self.target.as_ref()
    }

    /// Says what a menu shall show of the save: label, play time, thumbnail. `add` gets what was said before.
    pub fn describe(&mut self, add: impl FnOnce(Details) -> Details) {
        self.details = add(std::mem::take(&mut self.details));
    }

    /// Attaches data to the save, after what was attached before. Use keys with the owner in front: `"physics.world"`.
    /// A value that cannot be saved makes the save fail.
    pub fn attach<T: Persist>(&mut self, key: &str, value: &T) {
        match data_entry(key, value) {
            Ok(entry) => self.data.push(entry),
            Err(error) => _ = self.error.get_or_insert(error),
        }
    }

    /// Leaves out all entities that have this component, registered or not.
    pub fn exclude<T: Component>(&mut self) {
        self.excluded.push(TypeId::of::<T>());
    }

    /// What was attached, and the components that keep entities out; or the first error.
    pub(crate) fn finish(self, world: &World) -> Result<Additions> {
        let find = |type_id: TypeId| world.components().get_id(type_id);
        let excluded = self.excluded.into_iter().filter_map(find).collect();
        self.error.map_or(Ok(Additions { data: self.data, excluded }), Err)
    }
}

/// What observers of [`SaveStarting`] add to a save.
#[derive(Default)]
pub(crate) struct Additions {
    pub(crate) data: Vec<DataEntry>,
    pub(crate) excluded: Vec<ComponentId>,
}

/// The world is captured: whatever the game does now is not part of the save.
#[derive(Event, Clone, Debug)]
#[non_exhaustive]
pub struct SaveCaptured {
    /// What the save holds.
    pub prelude: Prelude,
    /// Values that were saved with a loss, such as handles to assets without a path.
    pub notes: Vec<Note>,
    /// Components on saved entities that are not registered and therefore not saved. The log names each once in the
    /// life of a world.
    pub unregistered: Vec<String>,
}

/// A save is durable, or has failed.
#[derive(Event, Clone, Debug)]
#[non_exhaustive]
pub struct SaveFinished {
    /// Where it went.
    pub target: SaveTarget,
    /// How many bytes and entities it has, or what went wrong: then what was there before is there still, or, if
    /// only the last step failed, the new one whose name a power cut may still undo.
    pub result: Result<SaveReport>,
}

/// The saves of a slot are removed and the world is at its beginning, or that has failed:
/// [`Saves::start_over`](crate::Saves::start_over).
#[derive(Event, Clone, Debug)]
#[non_exhaustive]
pub struct StartedOver {
    /// The slot.
    pub slot: String,
    /// How many saves were removed, or why the world is as it was.
    pub result: Result<u64>,
}

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
pub struct LoadStarting(bonfire::engine::DataCallbacks<World>);

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
            catch_unwind(AssertUnwindSafe(|| callback(world, value))).unwrap_or_else(|panic| {
                Err(Error::custom(format!("a data callback panicked: {}", panic_message(&*panic))))
            })
        });
    }

    /// Gives the data of a save to those who asked for it, and returns what nobody asked for.
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
    /// Where it came from, if it was not a snapshot.
    pub source: Option<LoadSource>,
    /// Newer saves of the slot that are damaged and were passed over. If there are any, this is not what the player saved last.
    pub skipped: Vec<SkippedSave>,
    /// The head of the save, the report, and what each saved entity became; or why nothing was loaded.
    pub result: Result<Arc<Loaded>>,
}
