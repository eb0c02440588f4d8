//! What a game saves, and what is done with columns of each type: hecs has no columns without a type, so a component
//! brings a function for each thing that is done with them.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use bonfire::engine::{
    ArchetypeWriter, BufferPool, Carry, Hooks, RESERVED_PREFIX, StagedColumn, WorldNumber,
};
use bonfire::{
    Compression, Descriptor, Error, Keyed, LoadOptions, NonFinite, Persist, Registry, Result, Snapshot,
    Upgrader, WorldEdit,
};
use hecs::{Archetype, ColumnBatchType, Component, Entity, EntityBuilder, World};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::capture::{self, SaveOptions, SaveSummary};
use crate::delta;
use crate::load::{self, LoadMode, Loaded};
use crate::place::{self, Placement};
use crate::selection::SaveScope;

/// Entities with this component are saved in [`SaveScope::Marked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Persist)]
#[persist(crate = bonfire, key = "bonfire.saved")]
pub struct Saved;

/// All that is saved of a world, and what must be remembered from one save or load to the next. One per world.
pub struct Bonfire {
    pub(crate) world: WorldNumber,
    pub(crate) registry: Registry,
    pub(crate) entries: Vec<Entry>,
    pub(crate) scope: SaveScope,
    pub(crate) layer: Option<Layer>,
    /// Callbacks around saves and loads: data of plugins, exclusion of entities, work after a load.
    pub hooks: Hooks<World>,
    pub(crate) carry: Carry,
    pub(crate) pool: BufferPool,
}

/// By row, components that entities get which did not have them.
pub(crate) type NewComponents = BTreeMap<usize, EntityBuilder>;

/// What is done with columns of one component.
pub(crate) struct Entry {
    /// Saved where it is met, but no reason to save an entity.
    pub(crate) incidental: bool,
    pub(crate) add_to: fn(&mut ColumnBatchType),
    pub(crate) write: fn(&mut ArchetypeWriter<'_, '_>, &Archetype, Option<&[u32]>) -> Result<()>,
    pub(crate) place: fn(StagedColumn<'_>, &mut Placement<'_>),
    pub(crate) insert: fn(StagedColumn<'_>, &mut World, &[Option<Entity>]),
    pub(crate) update: fn(StagedColumn<'_>, &mut World, &[Option<Entity>], &mut NewComponents),
    pub(crate) pointer: fn(&World, Entity) -> Option<*const u8>,
    pub(crate) remove: fn(&mut World, Entity),
    pub(crate) resource: fn(StagedColumn<'_>) -> Option<Box<dyn Any + Send + Sync>>,
}

impl Entry {
    fn of<T: Component>() -> Self {
        Self {
            incidental: false,
            add_to: |types| _ = types.add::<T>(),
            write: capture::write_column::<T>,
            place: place::place_column::<T>,
            insert: place::insert_column::<T>,
            update: delta::update_column::<T>,
            pointer: |world, entity| Some(std::ptr::from_ref(&*world.get::<&T>(entity).ok()?).cast()),
            remove: |world, entity| _ = world.remove_one::<T>(entity),
            resource: |column| Some(Box::new(column.into_values::<T>().ok()?.next()?)),
        }
    }
}

/// Reads the layers of the rows of an archetype, if it has the component that tells them.
pub(crate) type Layer = Arc<dyn Fn(&Archetype) -> Option<Vec<u8>> + Send + Sync>;

impl Default for Bonfire {
    fn default() -> Self {
        let mut bonfire = Self {
            world: WorldNumber::new(),
            registry: Registry::new(),
            entries: Vec::new(),
            scope: SaveScope::default(),
            layer: None,
            hooks: Hooks::new(),
            carry: Carry::default(),
            pool: BufferPool::default(),
        };
        // The first key cannot be taken.
        if bonfire.persist::<Saved>().is_ok() {
            bonfire.entries[0].incidental = true;
        }
        bonfire
    }
}

impl Bonfire {
    /// Nothing is registered yet but the mark [`Saved`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses which entities are saved if nothing else is said. Default: those that have a registered component.
    pub fn scope(mut self, scope: SaveScope) -> Self {
        self.scope = scope;
        self
    }

    /// Saves a component that derives `Persist`. The same again is fine; two types under one key are an error that names
    /// both.
    pub fn persist<T: Keyed + Component>(&mut self) -> Result<&mut Self> {
        self.persist_as::<T>(Descriptor::of::<T>())
    }

    /// Saves a component by a descriptor: types of other crates, functions of the game's own.
    pub fn persist_as<T: Component>(&mut self, descriptor: Descriptor) -> Result<&mut Self> {
        if descriptor.type_id() != std::any::TypeId::of::<T>() {
            let (key, holds, given) = (descriptor.key(), descriptor.type_name(), std::any::type_name::<T>());
            return Err(Error::misuse(format!(
                "the descriptor of `{key}` is for `{holds}`, not for `{given}`"
            )));
        }
        let number = self.registry.add(descriptor)?;
        if number == self.entries.len() {
            self.entries.push(Entry::of::<T>());
        }
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
        let number = self.registry.index_of::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Error::misuse(format!("`{name}` is not registered: call `persist::<{name}>()` first"))
        })?;
        self.registry.set_non_finite(number, policy);
        Ok(self)
    }

    /// Adds a step between two versions of the component with this key, for changes that no pair of types expresses.
    pub fn upgrade(&mut self, key: &str, upgrader: Upgrader) -> Result<&mut Self> {
        self.registry.upgrade(key, upgrader)?;
        Ok(self)
    }

    /// Names a version line of the game, or of a plugin that saves state of its own: every save lists it.
    pub fn track(&mut self, name: &str, version: u32) -> Result<&mut Self> {
        self.registry.track(name, version)?;
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
        self.registry.migration(track, from, to, migrate)?;
        Ok(self)
    }

    /// Says which component tells the layer of an entity, from 0 to 31, for filters that name layers. Entities without it
    /// are on all of them.
    pub fn save_layer<C: Component>(
        &mut self,
        layer: impl Fn(&C) -> u8 + Send + Sync + 'static,
    ) -> &mut Self {
        self.layer =
            Some(Arc::new(move |archetype| Some(archetype.get::<&C>()?.iter().map(&layer).collect())));
        self
    }

    /// Whether a component is a reason to save the entities that have it.
    pub(crate) fn is_reason(&self, number: usize) -> bool {
        self.scope == SaveScope::Persisted && !self.entries[number].incidental
    }

    /// Whether entities with these columns would not be part of the next save: they came from a save that was made without
    /// marks, or this build knows nothing of them. They get the mark.
    pub(crate) fn needs_mark(&self, columns: &[(usize, StagedColumn<'_>)]) -> bool {
        !columns.iter().any(|(number, column)| column.holds::<Saved>() || self.is_reason(*number))
    }

    /// Runs callbacks, which keep their place whatever they do.
    pub(crate) fn with_hooks<T>(&mut self, run: impl FnOnce(&mut Self, &mut Hooks<World>) -> T) -> T {
        let mut hooks = std::mem::take(&mut self.hooks);
        let done = catch_unwind(AssertUnwindSafe(|| run(self, &mut hooks)));
        self.hooks = hooks;
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Whether a restore takes a component away from entities that did not have it: not if it is never saved, and not if
    /// it is what makes them part of saves.
    pub(crate) fn is_restored(&self, number: usize) -> bool {
        let mark = self.scope == SaveScope::Marked && self.registry.index_of::<Saved>() == Some(number);
        !self.registry.descriptors()[number].is_transient() && !mark
    }

    /// What is registered.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Captures the world and nothing else: no hook runs. All memory that it needs comes from a pool and goes back there
    /// with the snapshot.
    pub fn capture(&self, world: &World, options: &SaveOptions) -> Result<Snapshot> {
        capture::capture(self, world, options, &[], &[])
    }

    /// Captures the world, with what hooks add and exclude.
    pub fn save(&mut self, world: &World, options: &SaveOptions) -> Result<Snapshot> {
        self.with_hooks(|bonfire, hooks| {
            let starting = hooks.run_save(world, &bonfire.registry)?;
            if let Some(entry) = starting.data().iter().find(|entry| entry.key().starts_with(RESERVED_PREFIX))
            {
                return Err(capture::reserved(entry.key()));
            }
            capture::capture(bonfire, world, options, starting.data(), starting.excluded())
        })
    }

    /// Saves to a file, which is replaced as a whole or not at all.
    pub fn save_to(
        &mut self,
        world: &World,
        path: impl AsRef<Path>,
        options: &SaveOptions,
    ) -> Result<SaveSummary> {
        let mut options = options.clone();
        options.checksums = options.encode.compression == Compression::None;
        let snapshot = self.save(world, &options)?;
        let rope = snapshot.encode(&options.encode)?;
        bonfire_store::write(path.as_ref(), &rope)?;
        Ok(SaveSummary { bytes: rope.len() as u64, entities: snapshot.entity_count() })
    }

    /// Loads a snapshot. If this fails, the world is as it was.
    pub fn load(&mut self, world: &mut World, snapshot: &Snapshot, mode: LoadMode) -> Result<Loaded> {
        self.load_with(world, snapshot, mode, LoadOptions::default())
    }

    /// Loads a snapshot, with a choice for what is unknown and for references to nothing.
    pub fn load_with(
        &mut self,
        world: &mut World,
        snapshot: &Snapshot,
        mode: LoadMode,
        options: LoadOptions,
    ) -> Result<Loaded> {
        load::load(self, world, snapshot, mode, options)
    }

    /// Loads a file. If this fails, the world is as it was.
    pub fn load_from(&mut self, world: &mut World, path: impl AsRef<Path>, mode: LoadMode) -> Result<Loaded> {
        self.load_from_with(world, path, mode, LoadOptions::default())
    }

    /// Loads a file, with a choice for what is unknown and for references to nothing.
    pub fn load_from_with(
        &mut self,
        world: &mut World,
        path: impl AsRef<Path>,
        mode: LoadMode,
        options: LoadOptions,
    ) -> Result<Loaded> {
        let snapshot = bonfire_store::read(path.as_ref(), &options.limits)?;
        self.load_with(world, &snapshot, mode, options)
    }
}
