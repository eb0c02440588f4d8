//! The result of a load. Front ends share it, so that it has the same names in every engine.

use std::any::Any;
use std::fmt;

use super::LoadReport;
use crate::entity::{EntityId, EntityMap};
use crate::snapshot::Prelude;

/// What a load did. `Entity` is the engine's; `R` holds resources if the engine's world has no place for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loaded<Entity, R = ()> {
    /// The head of the save.
    pub prelude: Prelude,
    /// What became of everything in the save.
    pub report: LoadReport,
    /// Entities that a restore had to spawn again: the ids that they had, and the entities that they are now.
    pub respawned: Vec<(EntityId, Entity)>,
    map: EntityMap,
    resources: R,
}

impl<Entity: From<EntityId>> Loaded<Entity> {
    /// For front ends: the result of a load whose resources are in the world.
    pub fn new(prelude: Prelude, report: LoadReport, map: EntityMap) -> Self {
        Self { prelude, report, respawned: Vec::new(), map, resources: () }
    }
}

impl<Entity: From<EntityId>, R> Loaded<Entity, R> {
    /// For front ends: adds the entities that a restore had to spawn again.
    pub fn with_respawned(self, respawned: Vec<(EntityId, Entity)>) -> Self {
        Self { respawned, ..self }
    }

    /// For front ends: adds resources that lie outside of the world.
    pub fn with_resources(self, resources: Resources) -> Loaded<Entity, Resources> {
        let Self { prelude, report, respawned, map, .. } = self;
        Loaded { prelude, report, respawned, map, resources }
    }

    /// Returns what a saved entity became. An entity of the world that was saved will do, or the id that a tool shows.
    pub fn entity(&self, saved: impl Into<EntityId>) -> Option<Entity> {
        self.map.get(saved.into()).map(Entity::from)
    }

    /// All saved entities and what they became, in no particular order.
    pub fn entities(&self) -> impl Iterator<Item = (EntityId, Entity)> + '_ {
        self.map.iter().map(|(saved, new)| (saved, new.into()))
    }
}

impl<Entity> Loaded<Entity, Resources> {
    /// Takes out something that was saved once, beside the world.
    pub fn take_resource<T: 'static>(&mut self) -> Option<T> {
        self.resources.take()
    }
}

/// Values of components that exist once, outside of the world: at most one of each type.
#[derive(Default)]
pub struct Resources(Vec<Box<dyn Any + Send + Sync>>);

impl Resources {
    /// Adds a value.
    pub fn add(&mut self, value: Box<dyn Any + Send + Sync>) {
        self.0.push(value);
    }

    /// Takes the value of a type.
    pub fn take<T: 'static>(&mut self) -> Option<T> {
        let index = self.0.iter().position(|value| value.is::<T>())?;
        self.0.swap_remove(index).downcast().ok().map(|value| *value)
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources").field("len", &self.0.len()).finish_non_exhaustive()
    }
}
