//! World to snapshot, from `&World`: archetype by archetype, column by column.

use std::path::Path;
use std::sync::Arc;

use bonfire::engine::{RESERVED_PREFIX, SnapshotWriter};
use bonfire::{Compression, DataEntry, EncodeOptions, Error, Filter, Persist, Result, Snapshot, Value};
use bonfire_store::{SaveReport, SaveTarget};
use hecs::{Component, Query, World};

use crate::free_ids;
use crate::registration::Bonfire;
use crate::registry::ComponentRegistry;
use crate::selection::{ChosenArchetype, Selection, choose};

type WriteResource = Arc<dyn Fn(&mut SnapshotWriter<'_>) -> Result<()> + Send + Sync>;

/// How a world is saved. The default saves everything that is registered, uncompressed.
///
/// ```
/// use bonfire_hecs::SaveOptions;
/// # struct Player;
///
/// let options = SaveOptions::new()
///     .matching::<&Player>()
///     .metadata("name", "Before the dragon")
///     .data("game.seed", &42_u64)?;
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct SaveOptions {
    selection: Selection,
    resources: Vec<WriteResource>,
    data: Vec<DataEntry>,
    metadata: Vec<(String, Value)>,
    pub(crate) encode: EncodeOptions,
    pub(crate) checksums: bool,
}

impl SaveOptions {
    /// Everything that is registered, uncompressed.
    pub fn new() -> Self {
        Self::default()
    }
    /// Chooses among the entities.
    pub fn selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }
    /// Chooses by key and layer: see [`Selection::filter`].
    pub fn filter(mut self, filter: Filter) -> Self {
        self.selection = self.selection.filter(filter);
        self
    }
    /// Chooses by a query: see [`Selection::matching`].
    pub fn matching<Q: Query>(mut self) -> Self {
        self.selection = self.selection.matching::<Q>();
        self
    }
    /// Adds something that exists once and lies outside of the world. Its type is registered like that of a component;
    /// [`Loaded::take_resource`](crate::Loaded::take_resource) gives it back.
    pub fn resource<T: Component>(mut self, value: T) -> Self {
        self.resources.push(Arc::new(move |writer| writer.resource(&value)));
        self
    }
    /// Adds data of the game's own, kept in the order of the calls. Use keys with the owner in front: `"game.seed"`.
    pub fn data<T: Persist>(mut self, key: &str, value: &T) -> Result<Self> {
        check_key(key)?;
        self.data.push(DataEntry::new(key, value).map_err(|error| error.in_key(key))?);
        Ok(self)
    }
    /// Says something about the save that can be read without the rest, such as its name.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }
    /// Computes checksums while columns are copied: for captures that will be encoded without compression, which takes
    /// less time in all. Saves to a file do it by themselves.
    pub fn with_checksums(mut self) -> Self {
        self.checksums = true;
        self
    }
    /// Compresses what is written to a file. Default: not.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.encode.compression = compression;
        self
    }
    /// All choices about the bytes that are written to a file.
    pub fn encode_options(mut self, options: EncodeOptions) -> Self {
        self.encode = options;
        self
    }
}

fn check_key(key: &str) -> Result<()> {
    match key.starts_with(RESERVED_PREFIX) {
        true => Err(Error::misuse("keys that begin so belong to Bonfire: choose another").in_key(key)),
        false => Ok(()),
    }
}

/// Data and exclusions that hooks add to a capture.
#[derive(Clone, Copy, Default)]
pub(crate) struct CaptureAdditions<'a> {
    data: &'a [DataEntry],
    /// Numbers of components whose entities are left out.
    excluded: &'a [usize],
}

impl Bonfire {
    /// Captures the world and nothing else: no hook runs. All memory that it needs comes from a pool and goes back there
    /// with the snapshot.
    pub fn capture(&self, world: &World, options: &SaveOptions) -> Result<Snapshot> {
        self.capture_with(world, options, CaptureAdditions::default())
    }

    /// Captures the world, with data that hooks attach and without entities that they exclude.
    pub fn capture_with_hooks(&mut self, world: &World, options: &SaveOptions) -> Result<Snapshot> {
        self.with_hooks(|bonfire, hooks| {
            let starting = hooks.run_save(world, &bonfire.registry.core)?;
            starting.data().iter().try_for_each(|entry| check_key(entry.key()))?;
            let added = CaptureAdditions { data: starting.data(), excluded: starting.excluded() };
            bonfire.capture_with(world, options, added)
        })
    }

    /// Saves to a file, which is replaced as a whole or not at all. Hooks run as for
    /// [`capture_with_hooks`](Self::capture_with_hooks).
    pub fn save_to(
        &mut self,
        world: &World,
        path: impl AsRef<Path>,
        options: &SaveOptions,
    ) -> Result<SaveReport> {
        let path = path.as_ref();
        let mut options = options.clone();
        options.checksums = options.encode.compression == Compression::None;
        let snapshot = self.capture_with_hooks(world, &options)?;
        let rope = snapshot.encode(&options.encode)?;
        bonfire_store::write(path, &rope)?;
        Ok(SaveReport::new(SaveTarget::from(path), rope.len() as u64, snapshot.entity_count()))
    }

    fn capture_with(
        &self,
        world: &World,
        options: &SaveOptions,
        added: CaptureAdditions<'_>,
    ) -> Result<Snapshot> {
        let registry = &self.registry;
        let mut all = world.query();
        let chosen = choose(registry, world, &mut all, &options.selection, added.excluded)?;
        let mut writer =
            SnapshotWriter::new(&registry.core).pool(&self.pool).reserve(estimate(registry, &chosen));
        if options.checksums {
            writer = writer.checksums();
        }
        writer.world(self.world);
        writer.next_entity_id(u64::from(free_ids::slot_count(world)));
        for (name, value) in &options.metadata {
            writer.metadata(name.clone(), value.clone());
        }
        for chosen in &chosen {
            let mut out = writer.archetype_with(chosen.len(), |ids| chosen.write_ids(world, ids))?;
            let is_saved = |&&number: &&usize| !registry.core.descriptors()[number].is_transient();
            for &number in chosen.numbers.iter().filter(is_saved) {
                (registry.entries[number].write)(&mut out, chosen.archetype, chosen.rows.as_deref())?;
            }
        }
        for write in &options.resources {
            write(&mut writer)?;
        }
        writer.free_list(free_ids::free_list(world, &chosen))?;
        for entry in added.data.iter().chain(&options.data) {
            writer.data_entry(entry.clone());
        }
        writer.carry(&self.carry);
        writer.finish()
    }
}

/// About how many bytes a capture has, so that it gets one buffer.
fn estimate(registry: &ComponentRegistry, chosen: &[ChosenArchetype<'_>]) -> usize {
    let stride = |&number: &usize| registry.core.descriptors()[number].row_layout().stride as usize;
    let row = |chosen: &ChosenArchetype<'_>| 8 + chosen.numbers.iter().map(stride).sum::<usize>();
    chosen.iter().map(|chosen| chosen.len() * row(chosen) + 64 * (chosen.numbers.len() + 1)).sum()
}
