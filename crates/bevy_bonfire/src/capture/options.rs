//! How a world is saved.

use bevy_ecs::query::QueryFilter;
use bonfire::engine::RESERVED_PREFIX;
use bonfire::{Compression, DataEntry, EncodeOptions, Error, Filter, Persist, Result, Value};
use bonfire_store::Details;

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
    pub(crate) data: Vec<DataEntry>,
    pub(crate) metadata: Vec<(String, Value)>,
    /// None: as the slots do, or uncompressed.
    pub(crate) encode: Option<EncodeOptions>,
    pub(crate) details: Details,
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
    /// Chooses by a query filter: see [`Selection::matching`].
    pub fn matching<F: QueryFilter + 'static>(mut self) -> Self {
        self.selection = self.selection.matching::<F>();
        self
    }
    /// Adds data of the game's own, kept in the order of the calls. Use keys with the owner in front: `"game.seed"`.
    pub fn data<T: Persist>(mut self, key: &str, value: &T) -> Result<Self> {
        self.data.push(data_entry(key, value)?);
        Ok(self)
    }
    /// Says something about the save that can be read without the rest, such as its name.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }
    /// What a menu shows of the save, if it goes into a slot: label, play time, thumbnail. Observers of
    /// [`SaveStarting`](crate::SaveStarting) may change it.
    pub fn details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }
    /// Computes checksums while columns are copied: for captures that will be encoded without compression, which takes
    /// less time in all. Saves to a file do it by themselves.
    pub fn with_checksums(mut self) -> Self {
        self.checksums = true;
        self
    }
    /// Compresses what is written. Default: as the slots do, else not.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.encode.get_or_insert_default().compression = compression;
        self
    }
    /// All choices about the bytes that are written to a file.
    pub fn encode_options(mut self, options: EncodeOptions) -> Self {
        self.encode = Some(options);
        self
    }
}

/// Makes an entry of data under a key of the game's own.
pub(crate) fn data_entry<T: Persist>(key: &str, value: &T) -> Result<DataEntry> {
    if key.starts_with(RESERVED_PREFIX) {
        return Err(Error::misuse("keys that begin so belong to Bonfire: choose another").in_key(key));
    }
    DataEntry::new(key.to_owned(), value).map_err(|error| error.in_key(key))
}
