//! [`Bonfire`]: the front door, and registration. Saving is in `capture`, loading in `load`, deltas are in `delta`, and the
//! indexes in `identity`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use bonfire::engine::{BufferPool, Carry, Hooks, SaveScope, WorldNumber};
use bonfire::{Descriptor, Keyed, NonFinite, Registry, Result, Unencodable, Upgrader, WorldEdit};
use hecs::{Component, World};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::index::AnyIndex;
use crate::mark::Saved;
use crate::registry::{ComponentRegistry, Layer};
use crate::stable_id::{StableId, StableIds};

/// All that is saved of a world, and what must be remembered from one save or load to the next. One per world.
pub struct Bonfire {
    pub(crate) world: WorldNumber,
    pub(crate) registry: ComponentRegistry,
    /// Callbacks around saves and loads: data of plugins, exclusion of entities, work after a load.
    pub hooks: Hooks<World>,
    pub(crate) carry: Carry,
    pub(crate) pool: BufferPool,
    pub(crate) replicated: ComponentRegistry,
    /// All that is saved is replicated, also what is registered later.
    replicates_persisted: bool,
    pub(crate) stable_ids: StableIds,
    pub(crate) indexes: Vec<Box<dyn AnyIndex>>,
}

impl Default for Bonfire {
    fn default() -> Self {
        let mut registry = ComponentRegistry::default();
        let own = [
            registry.add::<Saved>(Descriptor::of::<Saved>()),
            registry.add::<StableId>(Descriptor::of::<StableId>()),
        ];
        // The first keys cannot be taken.
        own.into_iter().flatten().for_each(|number| registry.entries[number].incidental = true);
        Self {
            world: WorldNumber::new(),
            registry,
            hooks: Hooks::new(),
            carry: Carry::default(),
            pool: BufferPool::default(),
            replicated: ComponentRegistry::of_replication(),
            replicates_persisted: false,
            stable_ids: StableIds::default(),
            indexes: Vec::new(),
        }
    }
}

impl Bonfire {
    /// Nothing is registered yet but the mark [`Saved`] and [`StableId`]s, which are saved with entities that are saved.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses which entities are saved and replicated if nothing else is said. Default: [`SaveScope::Persisted`], because a hecs world holds what the game spawned and nothing else.
    pub fn scope(mut self, scope: SaveScope) -> Self {
        (self.registry.scope, self.replicated.scope) = (scope, scope);
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
        self.follow_persisted()
    }

    /// Saves a component that only has serde.
    pub fn persist_serde<T>(&mut self, key: &'static str) -> Result<&mut Self>
    where
        T: Component + Serialize + DeserializeOwned,
    {
        self.persist_as::<T>(Descriptor::serde::<T>(key))
    }

    /// Replicates a component that is saved, in the way in which it is saved: see [`persist`](Self::persist).
    pub fn replicate<T: Component>(&mut self) -> Result<&mut Self> {
        let number = self.registry.require::<T>()?;
        self.replicated.add_from(&self.registry, number)?;
        Ok(self)
    }

    /// Replicates all components that are saved, also those that are registered later. The mark of saved entities is not among
    /// them.
    pub fn replicate_persisted(&mut self) -> Result<&mut Self> {
        self.replicates_persisted = true;
        self.follow_persisted()
    }

    /// Replicates a component that is not saved.
    pub fn replicate_only<T: Keyed + Component>(&mut self) -> Result<&mut Self> {
        self.replicate_as::<T>(Descriptor::of::<T>())
    }

    /// Replicates a component in the way that a descriptor says, whether it is saved or not: for components that are told to
    /// clients in another form than to a save.
    pub fn replicate_as<T: Component>(&mut self, descriptor: Descriptor) -> Result<&mut Self> {
        self.replicated.add::<T>(descriptor)?;
        Ok(self)
    }

    fn follow_persisted(&mut self) -> Result<&mut Self> {
        if self.replicates_persisted {
            self.replicated.add_all_from(&self.registry)?;
        }
        Ok(self)
    }

    /// Chooses what happens to values that hold NaN or infinity. Default: they are saved like all others.
    pub fn persist_non_finite<T: Component>(&mut self, policy: NonFinite) -> Result<&mut Self> {
        let number = self.registry.require::<T>()?;
        self.registry.core.set_non_finite(number, policy);
        if let Some(number) = self.replicated.core.index_of::<T>() {
            self.replicated.core.set_non_finite(number, policy);
        }
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
        let read: Layer =
            Arc::new(move |archetype| Some(archetype.get::<&C>()?.iter().map(&layer).collect()));
        (self.registry.layer, self.replicated.layer) = (Some(Arc::clone(&read)), Some(read));
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
