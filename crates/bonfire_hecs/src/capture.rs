//! World to snapshot, from `&World`: archetype by archetype, column by column.

use std::sync::Arc;

use bonfire::engine::{ArchetypeWriter, RESERVED_PREFIX, SnapshotWriter};
use bonfire::{Compression, DataEntry, EncodeOptions, Error, Filter, Persist, Result, Snapshot, Value};
use hecs::{Archetype, Component, Query, World};

use crate::registry::Bonfire;
use crate::selection::{Chosen, Selection, choose};
use crate::slots;

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
        if key.starts_with(RESERVED_PREFIX) {
            return Err(reserved(key));
        }
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

pub(crate) fn reserved(key: &str) -> Error {
    Error::misuse("keys that begin so belong to Bonfire: choose another").in_key(key)
}

/// What a finished save has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SaveSummary {
    /// Bytes of the file.
    pub bytes: u64,
    /// Entities in it.
    pub entities: usize,
}

pub(crate) fn capture(
    bonfire: &Bonfire,
    world: &World,
    options: &SaveOptions,
    attached: &[DataEntry],
    excluded: &[usize],
) -> Result<Snapshot> {
    let mut all = world.query();
    let chosen = choose(bonfire, world, &mut all, &options.selection, excluded)?;
    let mut writer =
        SnapshotWriter::new(&bonfire.registry).pool(&bonfire.pool).reserve(estimate(bonfire, &chosen));
    if options.checksums {
        writer = writer.checksums();
    }
    writer.world(bonfire.world);
    writer.next_entity_id(u64::from(slots::slot_count(world)));
    for (name, value) in &options.metadata {
        writer.metadata(name.clone(), value.clone());
    }
    for chosen in &chosen {
        let mut out = writer.archetype_with(chosen.len(), |ids| chosen.write_ids(world, ids))?;
        let saved = |&&number: &&usize| !bonfire.registry.descriptors()[number].is_transient();
        for &number in chosen.numbers.iter().filter(saved) {
            (bonfire.entries[number].write)(&mut out, chosen.archetype, chosen.rows.as_deref())?;
        }
    }
    for write in &options.resources {
        write(&mut writer)?;
    }
    writer.free_list(slots::free_list(world, &chosen))?;
    for entry in attached.iter().chain(&options.data) {
        writer.data_entry(entry.clone());
    }
    writer.carry(&bonfire.carry);
    writer.finish()
}

/// Writes one component of some rows.
pub(crate) fn write_column<T: Component>(
    out: &mut ArchetypeWriter<'_, '_>,
    archetype: &Archetype,
    rows: Option<&[u32]>,
) -> Result<()> {
    let Some(column) = archetype.get::<&T>() else { return Ok(()) };
    match rows {
        None => out.column::<T>(&column),
        Some(rows) => out.column_refs(&rows.iter().map(|&row| &column[row as usize]).collect::<Vec<&T>>()),
    }
}

/// About how many bytes a capture has, so that it gets one buffer.
fn estimate(bonfire: &Bonfire, chosen: &[Chosen<'_>]) -> usize {
    let stride = |&number: &usize| bonfire.registry.descriptors()[number].row_layout().stride as usize;
    let row = |chosen: &Chosen<'_>| 8 + chosen.numbers.iter().map(stride).sum::<usize>();
    chosen.iter().map(|chosen| chosen.len() * row(chosen) + 64 * (chosen.numbers.len() + 1)).sum()
}
