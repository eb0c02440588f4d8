//! The options of a save that do not depend on the engine, and the builder methods that all front ends share.

use crate::descriptor::Unencodable;
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::snapshot::{Compression, DataEntry, EncodeOptions, RESERVED_PREFIX};
use crate::value::Value;

/// The options of a save that do not depend on the engine. A front end keeps them in its own `SaveOptions`, beside a
/// [`Selection`](crate::engine::Selection), and gets the builder methods from
/// [`save_options_methods`](crate::engine::save_options_methods).
#[derive(Clone, Debug, Default)]
pub struct CommonSaveOptions {
    /// The game's own data, in order.
    pub data: Vec<DataEntry>,
    /// Values that can be read without the rest of the save.
    pub metadata: Vec<(String, Value)>,
    /// How the bytes are written. None: as the slots do, or uncompressed.
    pub encode: Option<EncodeOptions>,
    /// Computes checksums while columns are copied.
    pub checksums: bool,
    /// The treatment of values that cannot be encoded.
    pub unencodable: Unencodable,
    /// Stores the stable ids of entities that the save refers to and does not have.
    pub outside_references: bool,
}

impl CommonSaveOptions {
    /// Returns how a file is written. An uncompressed file gets its checksums while columns are copied.
    pub fn prepare_file(&mut self) -> EncodeOptions {
        let encode = self.encode.clone().unwrap_or_default();
        self.checksums = encode.compression == Compression::None;
        encode
    }
}

/// Makes a data entry under a key of the game. Fails if the key belongs to Bonfire.
pub fn game_data<T: Persist>(key: &str, value: &T) -> Result<DataEntry> {
    check_game_key(key)?;
    DataEntry::new(key.to_owned(), value).map_err(|error| error.in_key(key))
}

/// Fails if the key of a data entry belongs to Bonfire.
pub fn check_game_key(key: &str) -> Result<()> {
    match key.starts_with(RESERVED_PREFIX) {
        true => Err(Error::misuse("keys that begin so belong to Bonfire: choose another").in_key(key)),
        false => Ok(()),
    }
}

/// The builder methods that the `SaveOptions` of all front ends share. Invoke it in their `impl`; the struct needs the fields
/// `selection` and `common`. The arguments are the front end's selection and its entity.
#[doc(hidden)]
#[macro_export]
macro_rules! __save_options_methods {
    ($Selection:ty, $Entity:ty) => {
        /// Saves everything that is registered, uncompressed.
        pub fn new() -> Self {
            Self::default()
        }
        /// Chooses among the entities.
        pub fn selection(mut self, selection: $Selection) -> Self {
            self.selection = selection;
            self
        }
        /// Chooses entities by key and layer.
        pub fn filter(mut self, filter: $crate::Filter) -> Self {
            self.selection.filter = filter;
            self
        }
        /// Chooses these entities, as far as they would be saved.
        pub fn entities(mut self, entities: impl IntoIterator<Item = $Entity>) -> Self {
            self.selection = self.selection.entities(entities);
            self
        }
        /// Leaves out entities that have this component, registered or not; may be repeated.
        pub fn exclude<C: 'static>(mut self) -> Self {
            self.selection = self.selection.exclude::<C>();
            self
        }
        /// Adds data of the game's own, kept in the order of the calls. Use keys with the owner in front: `"game.seed"`.
        pub fn data<T: $crate::__private::Persist>(mut self, key: &str, value: &T) -> $crate::Result<Self> {
            self.common.data.push($crate::__private::game_data(key, value)?);
            Ok(self)
        }
        /// Adds a value that can be read without the rest of the save, such as its name.
        pub fn metadata(mut self, name: impl Into<String>, value: impl Into<$crate::Value>) -> Self {
            self.common.metadata.push((name.into(), value.into()));
            self
        }
        /// Computes checksums while columns are copied: for captures that will be encoded without compression, which takes
        /// less time in all. Saves to a file do it by themselves.
        pub fn with_checksums(mut self) -> Self {
            self.common.checksums = true;
            self
        }
        /// Chooses what happens to values that cannot be encoded, unless their registration says. Default: they are left out
        /// and noted, so that one value does not cost the save.
        pub fn unencodable(mut self, policy: $crate::Unencodable) -> Self {
            self.common.unencodable = policy;
            self
        }
        /// Stores the `StableId` of each entity that the save refers to and does not have. References and relationships to such an
        /// entity lead to it again after a load, also if it comes later. Default: they are treated as references to missing
        /// entities.
        pub fn outside_references(mut self) -> Self {
            self.common.outside_references = true;
            self
        }
        /// Compresses what is written. Default: as the slots do, else not.
        pub fn compression(mut self, compression: $crate::Compression) -> Self {
            self.common.encode.get_or_insert_default().compression = compression;
            self
        }
        /// Sets all choices about the bytes that are written.
        pub fn encode_options(mut self, options: $crate::EncodeOptions) -> Self {
            self.common.encode = Some(options);
            self
        }
    };
}
