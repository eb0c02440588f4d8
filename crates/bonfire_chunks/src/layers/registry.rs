//! The layers of the game that is running.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use bonfire::{Error, Result};

use super::cells::{CellMask, Span};
use super::set::{LayerSet, StoredLayer, fits};
use super::{Layer, MEMORY_BYTES_MAX, Persistence, RemovedLayers};

/// Takes the bytes of a layer in one cell from one version to the next.
pub(super) type Upgrade = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// All layers of the game's cells, and what to do with cells of its earlier releases.
///
/// ```
/// use bonfire_chunks::{Layer, Layers, Persistence};
///
/// let layers = Layers::new()
///     .with(Layer::new("material", 1).persistence(Persistence::Always))
///     .with(Layer::new("color", 1))
///     .with(Layer::new("flags", 1).persistence(Persistence::Partial(vec![0b10])))
///     .with(Layer::new("heat", 1).persistence(Persistence::No))
///     .materials("material", [(0, "game.air"), (1, "game.stone")]);
/// layers.check()?;
/// assert_eq!((layers.cell_bytes(), layers.stored_bytes()), (4, 3));
///
/// let mut stored = Vec::new();
/// layers.to_stored(&[1, 7, 0b11, 99], None, &mut stored)?;
/// assert_eq!(stored, [1, 7, 0b10]);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Layers {
    pub(super) layers: Vec<Layer>,
    pub(super) materials: Option<(String, Vec<(u32, String)>)>,
    pub(super) missing_material: Option<u32>,
    pub(super) removed: RemovedLayers,
    upgrades: Vec<(String, u32, Upgrade)>,
}

impl Layers {
    /// No layers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The layers that a file was written with, for programs that do not know the game.
    pub fn of_set(set: &LayerSet) -> Self {
        let of = |layer: &StoredLayer| Layer {
            name: layer.name.clone(),
            bytes: layer.bytes,
            default: layer.default.clone(),
            version: layer.version,
            persistence: layer.persistence.clone(),
        };
        let materials = set.materials().map(|(layer, names)| (layer.name.clone(), names.to_vec()));
        Self { layers: set.layers().iter().map(of).collect(), materials, ..Self::default() }
    }

    /// A cell of which nothing was said.
    pub fn default_cell(&self) -> Vec<u8> {
        self.layers.iter().flat_map(|layer| layer.default.iter().copied()).collect()
    }

    /// Adds a layer. Its bytes are behind those of all others in memory.
    #[must_use]
    pub fn with(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Names the values of a layer, so that ids may change between releases: cells are matched by name.
    #[must_use]
    pub fn materials<N: Into<String>>(
        mut self,
        layer: impl Into<String>,
        names: impl IntoIterator<Item = (u32, N)>,
    ) -> Self {
        let mut names: Vec<_> = names.into_iter().map(|(id, name)| (id, name.into())).collect();
        names.sort_by_key(|(id, _)| *id);
        self.materials = Some((layer.into(), names));
        self
    }

    /// What cells become whose material the game no longer has. Without it such a file is refused.
    #[must_use]
    pub fn missing_material(mut self, id: u32) -> Self {
        self.missing_material = Some(id);
        self
    }

    /// What becomes of layers that the game no longer has. [`RemovedLayers::Keep`] unless said otherwise.
    #[must_use]
    pub fn removed(mut self, removed: RemovedLayers) -> Self {
        self.removed = removed;
        self
    }

    /// How the bytes of a layer in one cell become those of the next version. It may be called once per cell, or once for
    /// all cells with the same bytes. Bits that did not persist have the default that they had in that release.
    ///
    /// ```
    /// use bonfire_chunks::{Layer, Layers};
    ///
    /// // Damage was a byte, and is a number of two bytes in hundredths.
    /// let layers = Layers::new()
    ///     .with(Layer::new("damage", 2).version(2))
    ///     .upgrade("damage", 1, |old| (u16::from(old[0]) * 100).to_le_bytes());
    /// ```
    #[must_use]
    pub fn upgrade<B: AsRef<[u8]>>(
        mut self,
        layer: impl Into<String>,
        from_version: u32,
        upgrade: impl Fn(&[u8]) -> B + Send + Sync + 'static,
    ) -> Self {
        let upgrade = Arc::new(move |old: &[u8]| upgrade(old).as_ref().to_vec());
        self.upgrades.push((layer.into(), from_version, upgrade));
        self
    }

    /// Bytes of a cell in memory.
    pub fn cell_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bytes).sum()
    }

    /// Bytes of a stored cell, without layers that are carried along.
    pub fn stored_bytes(&self) -> usize {
        self.stored_layers().map(|layer| layer.bytes).sum()
    }

    fn stored_layers(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| layer.is_stored())
    }

    /// Whether cells are stored as they are in memory.
    pub fn is_plain(&self) -> bool {
        let all_bits = |mask: &[u8]| mask.iter().all(|byte| *byte == 0xFF);
        self.layers.iter().all(|layer| layer.is_stored() && layer.mask().is_none_or(all_bits))
    }

    /// What a file keeps about cells of these layers, with `carried` ones behind them. Fails if [`Layers::check`] does, or
    /// if the carried layers do not fit.
    pub fn set(&self, generator_version: u32, carried: &[StoredLayer]) -> Result<LayerSet> {
        let own = self.stored_layers().map(|layer| StoredLayer {
            name: layer.name.clone(),
            bytes: layer.bytes,
            version: layer.version,
            persistence: layer.persistence.clone(),
            default: layer.default.clone(),
        });
        let layers: Vec<_> = own.chain(carried.iter().cloned()).collect();
        let mut materials = None;
        if let Some((name, names)) = &self.materials {
            let layer = self.stored_layers().position(|layer| layer.name == *name);
            let layer = layer.ok_or_else(|| {
                Error::misuse(format_args!("there is no layer `{name}` that persists, for the materials"))
            })?;
            materials = Some((layer, names.clone()));
        }
        let set = LayerSet { generator_version, layers, materials };
        set.check().map_err(Error::misuse)?;
        Ok(set)
    }

    /// Whether these layers can be: different names, at least one that is always there, defaults and masks as long as
    /// their layer, materials that fit theirs, upgrades that lead somewhere.
    pub fn check(&self) -> Result<()> {
        let mut names = HashSet::new();
        for layer in &self.layers {
            let name = &layer.name;
            if !names.insert(name) {
                return Err(Error::misuse(format_args!("two layers are called `{name}`")));
            }
            if layer.bytes == 0 || layer.default.len() != layer.bytes {
                let (bytes, default) = (layer.bytes, layer.default.len());
                return Err(Error::misuse(format_args!(
                    "layer `{name}` has {bytes} bytes and a default of {default}"
                )));
            }
        }
        if !self.layers.iter().any(|layer| layer.persistence == Persistence::Always) {
            return Err(Error::misuse("no layer is one that persists always"));
        }
        if self.cell_bytes() > MEMORY_BYTES_MAX {
            let bytes = self.cell_bytes();
            return Err(Error::misuse(format_args!(
                "a cell has {bytes} bytes, more than {MEMORY_BYTES_MAX}"
            )));
        }
        let set = self.set(0, &[])?;
        if let Some(id) = self.missing_material {
            match set.materials() {
                Some((layer, _)) if fits(id, layer.bytes) => {}
                _ => {
                    return Err(Error::misuse(format_args!("the missing material {id} is none that can be")));
                }
            }
        }
        self.check_upgrades()
    }

    fn check_upgrades(&self) -> Result<()> {
        let mut known = HashSet::new();
        for (name, from, _) in &self.upgrades {
            let layer = self.layers.iter().find(|layer| layer.name == *name);
            if layer.is_none_or(|layer| *from >= layer.version) {
                return Err(Error::misuse(format_args!(
                    "there is no layer `{name}` of a version above {from}, to upgrade to"
                )));
            }
            if !known.insert((name, from)) {
                return Err(Error::misuse(format_args!(
                    "two upgrades of layer `{name}` from version {from}"
                )));
            }
        }
        Ok(())
    }

    /// The steps from a version of a layer to the one before `to`.
    pub(super) fn upgrades(&self, layer: &str, from: u32, to: u32) -> Result<Vec<(u32, Upgrade)>> {
        let mut steps = Vec::new();
        for version in from..to {
            let known = self.upgrades.iter().find(|(name, from, _)| name == layer && *from == version);
            let (_, _, upgrade) = known.ok_or_else(|| {
                Error::unsupported(format_args!(
                    "layer `{layer}` is of version {from} in the file and {to} in the game, and there is no upgrade \
                     from version {version}"
                ))
            })?;
            steps.push((version, Arc::clone(upgrade)));
        }
        Ok(steps)
    }

    /// The bits of a cell in memory that persist.
    pub(crate) fn stored_bits(&self) -> Vec<u8> {
        let mut bits = Vec::new();
        for layer in &self.layers {
            match &layer.persistence {
                Persistence::Always | Persistence::Yes => bits.resize(bits.len() + layer.bytes, 0xFF),
                Persistence::Partial(mask) => bits.extend_from_slice(mask),
                Persistence::No => bits.resize(bits.len() + layer.bytes, 0),
            }
        }
        bits
    }

    fn persistent_bits(&self) -> CellMask {
        CellMask::new(self.stored_bits(), &self.default_cell())
    }

    /// Sets all bits that do not persist to their defaults, as they are after a load.
    pub fn normalise(&self, memory: &mut [u8]) {
        if !self.layers.is_empty() {
            self.persistent_bits().apply(memory);
        }
    }

    /// Appends the stored cells of a chunk, each with the bytes of its `carried` layers behind it: those that
    /// the file has for this chunk.
    pub fn to_stored(&self, memory: &[u8], carried: Option<&[u8]>, out: &mut Vec<u8>) -> Result<()> {
        let cell_bytes = self.cell_bytes();
        if cell_bytes == 0 || !memory.len().is_multiple_of(cell_bytes) {
            let bytes = memory.len();
            return Err(Error::misuse(format_args!("{bytes} bytes are no cells of {cell_bytes} bytes")));
        }
        let count = memory.len() / cell_bytes;
        let carried = carried.unwrap_or(&[]);
        let carried_bytes = carried.len().checked_div(count).unwrap_or(0);
        if carried_bytes * count != carried.len() {
            let bytes = carried.len();
            return Err(Error::misuse(format_args!("{bytes} carried bytes are not those of {count} cells")));
        }
        if carried_bytes == 0 && self.is_plain() {
            out.extend_from_slice(memory);
            return Ok(());
        }
        let (spans, keep) = self.stored_spans();
        let own_bytes = keep.len();
        let stored_bytes = own_bytes + carried_bytes;
        let start = out.len();
        out.resize(start + count * stored_bytes, 0);
        let stored = &mut out[start..];
        if stored_bytes > 0 {
            for span in spans {
                span.copy(memory, cell_bytes, stored, stored_bytes);
            }
            let keep = [keep, vec![0xFF; carried_bytes]].concat();
            CellMask::new(keep, &vec![0; stored_bytes]).apply(stored);
        }
        if carried_bytes > 0 {
            let span = Span { from: 0, to: own_bytes, len: carried_bytes };
            span.copy(carried, carried_bytes, stored, stored_bytes);
        }
        Ok(())
    }

    /// Where the bytes of a stored cell are in memory, and which of their bits persist.
    fn stored_spans(&self) -> (Vec<Span>, Vec<u8>) {
        let mut spans = Vec::new();
        let mut keep = Vec::new();
        let mut from = 0;
        for layer in &self.layers {
            if layer.is_stored() {
                Span { from, to: keep.len(), len: layer.bytes }.push(&mut spans);
                match layer.mask() {
                    Some(mask) => keep.extend_from_slice(mask),
                    None => keep.resize(keep.len() + layer.bytes, 0xFF),
                }
            }
            from += layer.bytes;
        }
        (spans, keep)
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upgrades: Vec<_> = self.upgrades.iter().map(|(layer, from, _)| (layer, from)).collect();
        f.debug_struct("Layers")
            .field("layers", &self.layers)
            .field("materials", &self.materials)
            .field("missing_material", &self.missing_material)
            .field("removed", &self.removed)
            .field("upgrades", &upgrades)
            .finish()
    }
}
