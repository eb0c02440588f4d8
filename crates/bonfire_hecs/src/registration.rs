//! [`Bonfire`]: the front door, and registration. Saving is in `capture`, loading in `load`, deltas are in `delta`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use bonfire::engine::{BufferPool, Carry, Hooks, SaveScope, WorldNumber};
use bonfire::{Descriptor, Keyed, NonFinite, Registry, Result, Unencodable, Upgrader, WorldEdit};
use hecs::{Component, World};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::registry::{ComponentRegistry, Saved};

/// All that is saved of a world, and what must be remembered from one save or load to the next. One per world.
pub struct Bonfire {
    pub(crate) world: WorldNumber,
    pub(crate) registry: ComponentRegistry,
    /// Callbacks around saves and loads: data of plugins, exclusion of entities, work after a load.
    pub hooks: Hooks<World>,
    pub(crate) carry: Carry,
    pub(crate) pool: BufferPool,
}

impl Default for Bonfire {
    fn default() -> Self {
        let mut registry = ComponentRegistry::default();
        // The first key cannot be taken.
        if let Ok(mark) = registry.add::<Saved>(Descriptor::of::<Saved>()) {
            registry.entries[mark].incidental = true;
        }
        Self {
            world: WorldNumber::new(),
            registry,
            hooks: Hooks::new(),
            carry: Carry::default(),
            pool: BufferPool::default(),
        }
    }
}

impl Bonfire {
    /// Nothing is registered yet but the mark [`Saved`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses which entities are saved if nothing else is said. Default: [`SaveScope::Persisted`], because
    /// a hecs world holds what the game spawned and nothing else.
    pub fn scope(mut self, scope: SaveScope) -> Self {
        self.registry.scope = scope;
        self
    }

    /// Saves a component that derives `Persist`. The same again is fine; two types under one key are an error that names
    /// both.
    pub fn persist<T: Keyed + Component>(&mut self) -> Result<&mut Self> {
        self.persist_as::<T>(Descriptor::of::<T>())
    }

    /// Saves a component by a descriptor: types of other crates, functions of the game's own.
    pub fn persist_as<T: Component>(&mut self, descriptor: Descriptor) -> Result<&mut Self> {
        self.registry.add::<T>(descriptor)?;
        Ok(self)
    }

    /// Saves a component that only has serde.
    pub fn persist_serde<T>(&mut self, key: &'static str) -> Result<&mut Self>
    where
        T: Component + Serialize + DeserializeOwned,
    {
        self.persist_as::<T>(Descriptor::serde::<T>(key))
    }

    /// Chooses what happens to values that hold NaN or infinity. Default: they are saved like all others.
    pub fn persist_non_finite<T: Component>(&mut self, policy: NonFinite) -> Result<&mut Self> {
        let number = self.registry.require::<T>()?;
        self.registry.core.set_non_finite(number, policy);
        Ok(self)
    }

    /// Chooses what happens to values that cannot be encoded. Default: they are left out and noted.
    pub fn persist_unencodable<T: Component>(&mut self, policy: Unencodable) -> Result<&mut Self> {
        let number = self.registry.require::<T>()?;
        self.registry.core.set_unencodable(number, policy);
        Ok(self)
    }

    /// Adds a step between two versions of the component with this key, for changes that no pair of types expresses.
    pub fn upgrade(&mut self, key: &str, upgrader: Upgrader) -> Result<&mut Self> {
        self.registry.core.upgrade(key, upgrader)?;
        Ok(self)
    }

    /// Names a version line of the game, or of a plugin that saves state of its own: every save lists it.
    pub fn track(&mut self, name: &str, version: u32) -> Result<&mut Self> {
        self.registry.core.track(name, version)?;
        Ok(self)
    }

    /// Adds a function that brings saved worlds from one version of a track to a later one, before anything is loaded.
    pub fn migration(
        &mut self,
        track: &str,
        from: u32,
        to: u32,
        migrate: impl Fn(&mut WorldEdit) -> Result<()> + Send + Sync + 'static,
    ) -> Result<&mut Self> {
        self.registry.core.migration(track, from, to, migrate)?;
        Ok(self)
    }

    /// Says which component tells the layer of an entity, from 0 to 31, for filters that name layers. Entities without it
    /// are on all of them.
    pub fn save_layer<C: Component>(
        &mut self,
        layer: impl Fn(&C) -> u8 + Send + Sync + 'static,
    ) -> &mut Self {
        self.registry.layer =
            Some(Arc::new(move |archetype| Some(archetype.get::<&C>()?.iter().map(&layer).collect())));
        self
    }

    /// Runs callbacks, which keep their place whatever they do.
    pub(crate) fn with_hooks<T>(&mut self, run: impl FnOnce(&mut Self, &mut Hooks<World>) -> T) -> T {
        let mut hooks = std::mem::take(&mut self.hooks);
        let done = catch_unwind(AssertUnwindSafe(|| run(self, &mut hooks)));
        self.hooks = hooks;
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// What is registered.
    pub fn registry(&self) -> &Registry {
        &self.registry.core
    }
}
