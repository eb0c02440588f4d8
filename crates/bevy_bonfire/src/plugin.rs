//! The plugin and the mark.

use bevy_app::{App, Plugin};
use bevy_ecs::component::Component;

use crate::SaveScope;
use crate::registry::{Batches, SaveRegistry};

/// Marks an entity as part of the save. Give it to entities when they are spawned, or to all that have some component:
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_bonfire::prelude::*;
/// #[derive(Component, Persist)]
/// #[require(Saved)] // every Health is part of the save
/// #[persist(key = "game.health")]
/// struct Health(f32);
/// ```
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "reflect", derive(bevy_reflect::Reflect), reflect(Component, Default, Debug))]
pub struct Saved;

#[cfg(feature = "reflect")]
use bevy_ecs::reflect::ReflectComponent;
#[cfg(feature = "reflect")]
use bevy_reflect::prelude::ReflectDefault;

/// Saves and loads the world of an app. Registers nothing of the game's own: see [`PersistExt`](crate::PersistExt).
#[derive(Clone, Debug, Default)]
pub struct BonfirePlugin {
    scope: SaveScope,
    batches: Batches,
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
        #[cfg(feature = "reflect")]
        app.register_type::<Saved>();
    }
}
