//! What a cell is made of, and how that changes between releases of a game.
//!
//! A cell in memory is the bytes of all [`Layer`]s in the order in which they were added. A *stored* cell is the bytes
//! of those that persist, in that order, with the bits that do not persist set to 0. After a load, every bit that does
//! not persist has its layer's default. The file keeps a [`LayerSet`] for each release that wrote into it; a
//! [`Conversion`] takes stored cells of such a set to what the game has in memory today.
//!
//! Nothing here reads or writes files.

mod cells;
mod conversion;
mod materials;
mod registry;
mod set;
#[cfg(test)]
mod tests;

pub(crate) use self::conversion::Conversion;
pub use self::conversion::LayerChanges;
pub use self::registry::Layers;
pub use self::set::{LayerSet, StoredLayer};

/// The most layers of a cell.
pub(crate) const LAYERS_MAX: usize = 64;

/// The most bytes of a cell in memory, with the layers that do not persist.
pub(crate) const MEMORY_BYTES_MAX: usize = 256;

/// The most materials in a table of names.
pub(crate) const MATERIALS_MAX: usize = 65_536;

/// The most bytes in the name of a layer or of a material.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// One part of every cell, such as its material or its color.
///
/// ```
/// use bonfire_chunks::{Layer, Persistence};
///
/// let flags = Layer::new("flags", 1).persistence(Persistence::Partial(vec![0b0000_0010])).version(2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    name: String,
    bytes: usize,
    default: Vec<u8>,
    version: u32,
    persistence: Persistence,
}

impl Layer {
    /// A layer of so many bytes per cell: zeros by default, of version 1, that persists.
    pub fn new(name: impl Into<String>, bytes: usize) -> Self {
        Self { name: name.into(), bytes, default: vec![0; bytes], version: 1, persistence: Persistence::Yes }
    }

    /// What cells have that were saved before there was this layer, and in bits that do not persist.
    #[must_use]
    pub fn default_value(mut self, value: &[u8]) -> Self {
        self.default = value.to_vec();
        self
    }

    /// Counts up whenever the meaning or the number of bytes changes. See [`Layers::upgrade`].
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Whether it is saved.
    #[must_use]
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.persistence = persistence;
        self
    }

    /// The bits that are saved, or `None` for all of them.
    fn mask(&self) -> Option<&[u8]> {
        match &self.persistence {
            Persistence::Partial(mask) => Some(mask),
            Persistence::Always | Persistence::Yes | Persistence::No => None,
        }
    }

    fn is_stored(&self) -> bool {
        self.persistence != Persistence::No
    }
}

/// Whether a layer is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It is what the cell is, and every game that reads the file has it. There is at least one such layer.
    Always,
    /// All of it.
    Yes,
    /// The bits that are set in this mask, which is as long as the layer.
    Partial(Vec<u8>),
    /// Nothing: the game makes it anew.
    No,
}

/// The treatment of layers that are in a file but no longer in the game.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemovedLayers {
    /// They are carried along, and written again with their chunk. The default.
    #[default]
    Keep,
    /// They are gone when their chunk is saved again.
    Drop,
}
