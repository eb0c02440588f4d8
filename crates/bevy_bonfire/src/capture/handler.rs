//! State of plugins under a key. Handlers run in the order of their registration, before all observers: Bevy does not say which
//! observer runs first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::engine::{DataHandler, Hooks, check_game_key};
use bonfire::{DataEntry, Persist, Registry, Result};

/// The handlers of a world. They are shared, so that one may look at the world while it runs.
#[derive(Resource, Clone, Default)]
pub(crate) struct DataHandlers(Arc<Mutex<Hooks<World>>>);

impl DataHandlers {
    pub(crate) fn add<T: Persist>(
        world: &mut World,
        key: &str,
        handler: DataHandler<World, T>,
    ) -> Result<()> {
        check_game_key(key)?;
        world.get_resource_or_init::<Self>().lock().handler(key, handler)
    }

    /// The handlers of a world, if it has any.
    pub(crate) fn of(world: &World) -> Option<Self> {
        world.get_resource::<Self>().cloned()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Hooks<World>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data that handlers attach to a save.
    pub(crate) fn save(world: &World, registry: &Registry) -> Result<Vec<DataEntry>> {
        let Some(handlers) = Self::of(world) else { return Ok(Vec::new()) };
        handlers.lock().run_save(world, registry).map(|extras| extras.data().to_vec())
    }
}
