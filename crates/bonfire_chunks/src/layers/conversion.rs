//! From stored cells, of any release, to cells in memory of this one.

use std::collections::HashMap;
use std::fmt;

use bonfire::{Error, Result};

use super::cells::{CellMask, Span};
use super::materials::MaterialMap;
use super::registry::Upgrade;
use super::set::{LayerSet, StoredLayer};
use super::{Layer, Layers, RemovedLayers};

/// What is different between the cells of a file and those of the game, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerChanges {
    /// Layers that the file does not have: all cells have the default.
    pub added: Vec<String>,
    /// Layers that the game does not have, and that are carried along.
    pub carried: Vec<String>,
    /// Layers that the game does not have, or no longer persists, and that are dropped.
    pub dropped: Vec<String>,
    /// Layers that are brought to a newer version.
    pub upgraded: Vec<String>,
    /// Materials that the game does not have, and that become the missing one.
    pub missing_materials: Vec<String>,
}

/// How stored cells of one [`LayerSet`] become cells in memory. It is computed once, for all chunks of that set.
pub(crate) struct Conversion {
    stored_bytes: usize,
    cell_bytes: usize,
    /// A cell of defaults, if there are bytes that come from nowhere.
    template: Option<Vec<u8>>,
    spans: Vec<Span>,
    mask: CellMask,
    upgrades: Vec<LayerUpgrade>,
    materials: Option<(usize, MaterialMap)>,
    carried: Vec<StoredLayer>,
    carried_spans: Vec<Span>,
    changes: LayerChanges,
}

/// A layer that has an older version in the file.
struct LayerUpgrade {
    name: String,
    from: usize,
    from_bytes: usize,
    to: usize,
    to_bytes: usize,
    /// What the bits are in that did not persist in the file.
    old: CellMask,
    new: CellMask,
    steps: Vec<(u32, Upgrade)>,
}

impl Conversion {
    /// From cells of `set` to those of `layers`. It fails with an error that names the layer or the materials if the file
    /// is newer than the game, an upgrade is not there, or the game no longer has a material.
    pub(crate) fn new(set: &LayerSet, layers: &Layers) -> Result<Self> {
        layers.check()?;
        let mut offsets = HashMap::new();
        let mut from = 0;
        for layer in &set.layers {
            offsets.insert(layer.name.as_str(), (from, layer));
            from += layer.bytes;
        }
        let mut conversion = Self {
            stored_bytes: set.stored_bytes(),
            cell_bytes: layers.cell_bytes(),
            template: None,
            spans: Vec::new(),
            mask: CellMask::new(Vec::new(), &[]),
            upgrades: Vec::new(),
            materials: None,
            carried: Vec::new(),
            carried_spans: Vec::new(),
            changes: LayerChanges::default(),
        };
        let mut keep = Vec::new();
        let mut template = Vec::new();
        let mut has_gaps = false;
        for layer in &layers.layers {
            let to = template.len();
            template.extend_from_slice(&layer.default);
            keep.resize(template.len(), 0xFF);
            match offsets.get(layer.name.as_str()) {
                Some((from, stored)) if layer.is_stored() => {
                    conversion.add(layers, layer, stored, *from, to, &mut keep[to..])?;
                }
                Some(_) => {
                    conversion.changes.dropped.push(layer.name.clone());
                    has_gaps = true;
                }
                None => {
                    if layer.is_stored() {
                        conversion.changes.added.push(layer.name.clone());
                    }
                    has_gaps = true;
                }
            }
        }
        conversion.mask = CellMask::new(keep, &template);
        conversion.template = has_gaps.then_some(template);
        conversion.match_materials(set, layers)?;
        conversion.carry(set, layers);
        Ok(conversion)
    }

    /// A layer that both have. `keep` are its bits that are taken from the file.
    fn add(
        &mut self,
        layers: &Layers,
        layer: &Layer,
        stored: &StoredLayer,
        from: usize,
        to: usize,
        keep: &mut [u8],
    ) -> Result<()> {
        let (name, old, new) = (&layer.name, stored.version, layer.version);
        if old > new {
            return Err(Error::newer_format(format_args!(
                "layer `{name}` is of version {old} in the file, newer than this build ({new})"
            )));
        }
        let mask = |byte: usize| layer.mask().map_or(0xFF, |mask| mask[byte]);
        if old < new {
            let old_keep = (0..stored.bytes).map(|byte| stored.mask(byte)).collect();
            self.upgrades.push(LayerUpgrade {
                name: name.clone(),
                from,
                from_bytes: stored.bytes,
                to,
                to_bytes: layer.bytes,
                old: CellMask::new(old_keep, &stored.default),
                new: CellMask::new((0..layer.bytes).map(mask).collect(), &layer.default),
                steps: layers.upgrades(name, old, new)?,
            });
            self.changes.upgraded.push(name.clone());
            return Ok(());
        }
        if stored.bytes != layer.bytes {
            let (stored, bytes) = (stored.bytes, layer.bytes);
            return Err(Error::unsupported(format_args!(
                "layer `{name}` of version {new} has {stored} bytes in the file and {bytes} in the game: give it another \
                 version, and an upgrade"
            )));
        }
        for (byte, keep) in keep.iter_mut().enumerate() {
            *keep = mask(byte) & stored.mask(byte);
        }
        Span { from, to, len: layer.bytes }.push(&mut self.spans);
        Ok(())
    }

    fn match_materials(&mut self, set: &LayerSet, layers: &Layers) -> Result<()> {
        let (Some((stored, stored_names)), Some((name, names))) = (set.materials(), &layers.materials) else {
            return Ok(());
        };
        let mut offset = 0;
        for layer in &layers.layers {
            if layer.name == *name && stored.name == *name {
                let map = MaterialMap::new(stored_names, names, layers.missing_material, layer.bytes)?;
                self.changes.missing_materials = map.iter().flat_map(|map| map.missing.clone()).collect();
                self.materials = map.map(|map| (offset, map));
            }
            offset += layer.bytes;
        }
        Ok(())
    }

    fn carry(&mut self, set: &LayerSet, layers: &Layers) {
        let mut from = 0;
        let mut to = 0;
        for stored in &set.layers {
            if !layers.layers.iter().any(|layer| layer.name == stored.name) {
                if layers.removed == RemovedLayers::Keep {
                    Span { from, to, len: stored.bytes }.push(&mut self.carried_spans);
                    to += stored.bytes;
                    self.changes.carried.push(stored.name.clone());
                    self.carried.push(stored.clone());
                } else {
                    self.changes.dropped.push(stored.name.clone());
                }
            }
            from += stored.bytes;
        }
    }

    /// Whether stored cells are cells in memory as they are.
    pub(crate) fn is_identity(&self) -> bool {
        let whole = Span { from: 0, to: 0, len: self.cell_bytes };
        self.stored_bytes == self.cell_bytes
            && self.spans == [whole]
            && self.mask.is_identity()
            && self.materials.is_none()
    }

    /// Bytes of a cell in the file.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// What is different between the file and the game.
    pub(crate) fn changes(&self) -> &LayerChanges {
        &self.changes
    }

    /// Sets `out` to the cells in memory. Both are of the same number of cells.
    pub(crate) fn to_memory(&self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let count = self.count(stored)?;
        if count.checked_mul(self.cell_bytes) != Some(out.len()) {
            let (bytes, cell_bytes) = (out.len(), self.cell_bytes);
            return Err(Error::misuse(format_args!("{count} cells of {cell_bytes} bytes for {bytes} bytes")));
        }
        if let Some(template) = &self.template {
            crate::codec::fill(out, template);
        }
        for span in &self.spans {
            span.copy(stored, self.stored_bytes, out, self.cell_bytes);
        }
        self.mask.apply(out);
        for upgrade in &self.upgrades {
            upgrade.apply(stored, self.stored_bytes, out, self.cell_bytes)?;
        }
        if let Some((offset, map)) = &self.materials {
            map.apply(out, self.cell_bytes, *offset)?;
        }
        Ok(())
    }

    /// The layers that are carried along: they go into the set that a chunk with them is saved under.
    pub(crate) fn carried_layers(&self) -> &[StoredLayer] {
        &self.carried
    }

    /// Appends the bytes of the layers that are carried along, cell by cell. Nothing if there are none.
    pub(crate) fn carried(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let count = self.count(stored)?;
        let carried_bytes: usize = self.carried.iter().map(|layer| layer.bytes).sum();
        if carried_bytes > 0 {
            let start = out.len();
            out.resize(start + count * carried_bytes, 0);
            for span in &self.carried_spans {
                span.copy(stored, self.stored_bytes, &mut out[start..], carried_bytes);
            }
        }
        Ok(())
    }

    fn count(&self, stored: &[u8]) -> Result<usize> {
        if self.stored_bytes == 0 || !stored.len().is_multiple_of(self.stored_bytes) {
            let (bytes, stored_bytes) = (stored.len(), self.stored_bytes);
            return Err(Error::misuse(format_args!(
                "{bytes} bytes are no stored cells of {stored_bytes} bytes"
            )));
        }
        Ok(stored.len() / self.stored_bytes)
    }
}

impl LayerUpgrade {
    fn apply(&self, stored: &[u8], stored_bytes: usize, out: &mut [u8], cell_bytes: usize) -> Result<()> {
        let cells = stored.chunks_exact(stored_bytes).zip(out.chunks_exact_mut(cell_bytes));
        let cells = cells.map(|(stored, cell)| {
            (&stored[self.from..self.from + self.from_bytes], &mut cell[self.to..self.to + self.to_bytes])
        });
        // Few different values are in a chunk, and each is upgraded once.
        if self.from_bytes == 1 {
            let mut known: [Option<Vec<u8>>; 256] = [const { None }; 256];
            for (old, cell) in cells {
                match &mut known[usize::from(old[0])] {
                    Some(new) => cell.copy_from_slice(new),
                    unknown => cell.copy_from_slice(unknown.insert(self.upgraded(old)?)),
                }
            }
        } else {
            let mut known: HashMap<&[u8], Vec<u8>> = HashMap::new();
            for (old, cell) in cells {
                match known.get(old) {
                    Some(new) => cell.copy_from_slice(new),
                    None => cell.copy_from_slice(known.entry(old).or_insert(self.upgraded(old)?)),
                }
            }
        }
        Ok(())
    }

    fn upgraded(&self, old: &[u8]) -> Result<Vec<u8>> {
        let mut value = old.to_vec();
        self.old.apply(&mut value);
        for (_, step) in &self.steps {
            value = step(&value);
        }
        if value.len() != self.to_bytes {
            let (name, bytes, expected) = (&self.name, value.len(), self.to_bytes);
            let version = self.steps.last().map_or(0, |(version, _)| *version);
            return Err(Error::misuse(format_args!(
                "the upgrade of layer `{name}` from version {version} gives {bytes} bytes instead of {expected}"
            )));
        }
        self.new.apply(&mut value);
        Ok(value)
    }
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion")
            .field("stored_bytes", &self.stored_bytes)
            .field("cell_bytes", &self.cell_bytes)
            .field("is_identity", &self.is_identity())
            .field("changes", &self.changes)
            .finish_non_exhaustive()
    }
}
