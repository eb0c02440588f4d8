//! How a world is saved.

use bevy_ecs::entity::Entity;
use bevy_ecs::query::QueryFilter;
use bonfire::engine::CommonSaveOptions;
use bonfire_store::Details;

use crate::registry::ComponentEntry;
use crate::selection::Selection;

/// How a world is saved. The default saves everything that is registered, uncompressed.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::SaveOptions;
/// # #[derive(Component)] struct Player;
///
/// let options = SaveOptions::new()
///     .matching::<With<Player>>()
///     .metadata("name", "Before the dragon")
///     .data("game.seed", &42_u64)?;
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct SaveOptions {
    pub(crate) selection: Selection,
    pub(crate) common: CommonSaveOptions,
    pub(crate) details: Details,
    pub(crate) relationships: Relationships,
}

/// The treatment of relationships in a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Relationships {
    #[default]
    Saved,
    LeftOut,
}

impl SaveOptions {
    bonfire::engine::save_options_methods!(Selection, Entity);

    /// Chooses entities by a query filter of Bevy; may be repeated: see [`Selection`].
    pub fn matching<F: QueryFilter + 'static>(mut self) -> Self {
        self.selection = self.selection.matching::<F>();
        self
    }
    /// Sets what a menu shows of the save, if it goes into a slot: label, play time, thumbnail. Observers of
    /// [`SaveStarting`](crate::SaveStarting) may add details, and change none that are set here.
    pub fn details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }
    /// Leaves all relationships out: entities come back without parents, and without the relationships of the game.
    pub fn without_relationships(mut self) -> Self {
        self.relationships = Relationships::LeftOut;
        self
    }

    /// Returns true if the save has values of a registered component.
    pub(crate) fn has(&self, entry: &ComponentEntry) -> bool {
        self.relationships == Relationships::Saved || entry.relation.is_none()
    }
}
