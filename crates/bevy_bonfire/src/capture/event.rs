//! The events of a save, for observers.
//!
//! | event | when | what it is for |
//! |---|---|---|
//! | [`SaveStarting`] | before the capture | attach data, exclude entities |
//! | [`SaveCaptured`] | after the capture | the game may go on; notes of the capture |
//! | [`SaveFinished`] | the bytes are durable, or the save has failed | tell the player |

use std::any::TypeId;

use bevy_ecs::component::ComponentId;
use bevy_ecs::event::Event;
use bevy_ecs::prelude::Component;
use bevy_ecs::world::World;
use bonfire::engine::game_data;
use bonfire::inspect::Prelude;
use bonfire::{DataEntry, Error, Note, Persist, Result};
use bonfire_store::{Details, SaveReport, SaveTarget};

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

    /// Says what a menu shall show of the save: label, play time, thumbnail. `add` gets what was said before. Details that the
    /// caller gave with the options of the save stay as they are.
    pub fn describe(&mut self, add: impl FnOnce(Details) -> Details) {
        self.details = add(std::mem::take(&mut self.details));
    }

    /// Attaches data to the save, after what was attached before. Use keys with the owner in front: `"physics.world"`.
    /// A value that cannot be saved makes the save fail.
    pub fn attach<T: Persist>(&mut self, key: &str, value: &T) {
        match game_data(key, value) {
            Ok(entry) => self.data.push(entry),
            Err(error) => _ = self.error.get_or_insert(error),
        }
    }

    /// Leaves out all entities that have this component, registered or not.
    pub fn exclude<T: Component>(&mut self) {
        self.excluded.push(TypeId::of::<T>());
    }

    /// What was attached, and the components that keep entities out; or the first error.
    pub(crate) fn finish(self, world: &World) -> Result<CaptureAdditions> {
        let find = |type_id: TypeId| world.components().get_id(type_id);
        let excluded = self.excluded.into_iter().filter_map(find).collect();
        self.error.map_or(Ok(CaptureAdditions { data: self.data, excluded }), Err)
    }
}

/// Data and exclusions that observers of [`SaveStarting`] add to a capture.
#[derive(Default)]
pub(crate) struct CaptureAdditions {
    pub(crate) data: Vec<DataEntry>,
    pub(crate) excluded: Vec<ComponentId>,
}

/// The world is captured: whatever the game does now is not part of the save.
#[derive(Event, Clone, Debug)]
#[non_exhaustive]
pub struct SaveCaptured {
    /// What the save holds.
    pub prelude: Prelude,
    /// Losses of the capture: values that could not be saved as they are, components and relationships that are not
    /// registered, entities that lack [`Saved`](crate::Saved). The log has each of the omissions once in the life of a world, with
    /// the line to add.
    pub notes: Vec<Note>,
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
