//! What a file keeps about the layers of the cells in it.
//!
//! Its bytes are in FORMAT.md, "Layer sets".

use std::collections::HashSet;

use bonfire::{Error, Result};

use super::{LAYERS_MAX, MATERIALS_MAX, NAME_BYTES_MAX, Persistence};
use crate::codec::CELL_BYTES_MAX;

const NO_MATERIALS: u8 = 0xFF;

/// A layer as cells in a file have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLayer {
    pub(super) name: String,
    pub(super) bytes: usize,
    pub(super) version: u32,
    pub(super) persistence: Persistence,
    pub(super) default: Vec<u8>,
}

impl StoredLayer {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its bytes in a cell.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Its version.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// Which part of it persists; never [`Persistence::No`].
    pub fn persistence(&self) -> &Persistence {
        &self.persistence
    }
    /// What it is where nothing else was said.
    pub fn default_value(&self) -> &[u8] {
        &self.default
    }

    /// The bits of a byte of it that persist.
    pub(super) fn mask(&self, byte: usize) -> u8 {
        match &self.persistence {
            Persistence::Partial(mask) => mask[byte],
            Persistence::Always | Persistence::Yes | Persistence::No => 0xFF,
        }
    }
}

/// What stored cells are made of: the layers that persist, the names of materials, and the version of the generator that
/// deltas were made against. Two are equal if their bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSet {
    pub(super) generator_version: u32,
    pub(super) layers: Vec<StoredLayer>,
    /// Which layer, and the names by id, ascending.
    pub(super) materials: Option<(usize, Vec<(u32, String)>)>,
}

impl LayerSet {
    /// The version of the generator.
    pub fn generator_version(&self) -> u32 {
        self.generator_version
    }

    /// The layers in the order of their bytes.
    pub fn layers(&self) -> &[StoredLayer] {
        &self.layers
    }

    /// The layer that holds the material, and the names of materials by id, ascending.
    pub fn materials(&self) -> Option<(&StoredLayer, &[(u32, String)])> {
        self.materials.as_ref().map(|(layer, names)| (&self.layers[*layer], names.as_slice()))
    }

    /// Bytes of a stored cell.
    pub fn stored_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bytes).sum()
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let byte = |number: usize| u8::try_from(number).expect("a set is checked when it is made");
        let put_name = |name: &str, out: &mut Vec<u8>| {
            out.push(byte(name.len()));
            out.extend_from_slice(name.as_bytes());
        };
        out.extend_from_slice(&self.generator_version.to_le_bytes());
        out.push(byte(self.layers.len()));
        out.push(self.materials.as_ref().map_or(NO_MATERIALS, |(layer, _)| byte(*layer)));
        for layer in &self.layers {
            put_name(&layer.name, out);
            out.push(byte(layer.bytes));
            out.extend_from_slice(&layer.version.to_le_bytes());
            out.push(match layer.persistence {
                Persistence::Always => 0,
                Persistence::Yes | Persistence::No => 1,
                Persistence::Partial(_) => 2,
            });
            out.extend_from_slice(&layer.default);
            if let Persistence::Partial(mask) = &layer.persistence {
                out.extend_from_slice(mask);
            }
        }
        if let Some((_, names)) = &self.materials {
            let count = u32::try_from(names.len()).expect("a set is checked when it is made");
            out.extend_from_slice(&count.to_le_bytes());
            for (id, name) in names {
                out.extend_from_slice(&id.to_le_bytes());
                put_name(name, out);
            }
        }
    }

    /// Reads a set that [`LayerSet::encode`] has written, and nothing else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let generator_version = reader.u32()?;
        let layer_count = usize::from(reader.u8()?);
        let material_layer = reader.u8()?;
        if layer_count > LAYERS_MAX {
            return Err(Error::corrupt(format_args!("{layer_count} layers are more than {LAYERS_MAX}")));
        }
        let mut layers = Vec::with_capacity(layer_count);
        for _ in 0..layer_count {
            layers.push(reader.layer()?);
        }
        let mut materials = None;
        if material_layer != NO_MATERIALS {
            let count = reader.u32()? as usize;
            if count > MATERIALS_MAX {
                return Err(Error::corrupt(format_args!("{count} materials are more than {MATERIALS_MAX}")));
            }
            // A material takes at least an id, the length of its name, and a name.
            let mut names = Vec::with_capacity(count.min(reader.0.len() / 6));
            for _ in 0..count {
                names.push((reader.u32()?, reader.name()?));
            }
            materials = Some((usize::from(material_layer), names));
        }
        if !reader.0.is_empty() {
            let left = reader.0.len();
            return Err(Error::corrupt(format_args!("{left} bytes are left over behind a set of layers")));
        }
        let set = Self { generator_version, layers, materials };
        set.check().map_err(Error::corrupt)?;
        Ok(set)
    }

    /// What is wrong with it, if anything.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.layers.is_empty() || self.layers.len() > LAYERS_MAX {
            return Err(format!("a cell has 1 to {LAYERS_MAX} layers, not {}", self.layers.len()));
        }
        let mut names = HashSet::new();
        for layer in &self.layers {
            let name = &layer.name;
            check_name(name, "layer")?;
            if !names.insert(name.as_str()) {
                return Err(format!("two layers are called `{name}`"));
            }
            if layer.bytes == 0 || layer.default.len() != layer.bytes {
                let (bytes, default) = (layer.bytes, layer.default.len());
                return Err(format!("layer `{name}` has {bytes} bytes and a default of {default}"));
            }
            if let Persistence::Partial(mask) = &layer.persistence
                && mask.len() != layer.bytes
            {
                let (bytes, mask) = (layer.bytes, mask.len());
                return Err(format!("layer `{name}` has {bytes} bytes and a mask of {mask}"));
            }
        }
        if self.stored_bytes() > CELL_BYTES_MAX {
            return Err(format!(
                "a stored cell has {} bytes, more than {CELL_BYTES_MAX}",
                self.stored_bytes()
            ));
        }
        match &self.materials {
            Some((at, names)) => self.check_materials(*at, names),
            None => Ok(()),
        }
    }

    fn check_materials(&self, at: usize, names: &[(u32, String)]) -> Result<(), String> {
        let Some(layer) = self.layers.get(at) else {
            return Err(format!("the materials are in layer {at} of {}", self.layers.len()));
        };
        let name = &layer.name;
        if ![1, 2, 4].contains(&layer.bytes) || matches!(layer.persistence, Persistence::Partial(_)) {
            return Err(format!(
                "layer `{name}` cannot hold materials: it is not 1, 2 or 4 bytes that persist"
            ));
        }
        if names.len() > MATERIALS_MAX {
            return Err(format!("{} materials are more than {MATERIALS_MAX}", names.len()));
        }
        let mut known = HashSet::new();
        for (id, material) in names {
            check_name(material, "material")?;
            if !fits(*id, layer.bytes) {
                return Err(format!("material `{material}` has id {id}, too large for layer `{name}`"));
            }
            if !known.insert(material.as_str()) {
                return Err(format!("two materials are called `{material}`"));
            }
        }
        match names.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            Some(pair) => {
                Err(format!("materials `{}` and `{}` share or swap their ids", pair[0].1, pair[1].1))
            }
            None => Ok(()),
        }
    }
}

/// Whether an id is small enough for a layer of so many bytes.
pub(super) fn fits(id: u32, bytes: usize) -> bool {
    bytes >= 4 || id >> (8 * bytes) == 0
}

fn check_name(name: &str, what: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!("the name of a {what} has 1 to {NAME_BYTES_MAX} bytes, not {}", name.len()));
    }
    Ok(())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(len).ok_or_else(|| Error::corrupt("a set of layers is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn name(&mut self) -> Result<String> {
        let len = self.u8()?;
        let name = std::str::from_utf8(self.take(usize::from(len))?)
            .map_err(|error| Error::corrupt(format_args!("a name in a set of layers: {error}")))?;
        Ok(name.to_owned())
    }

    fn layer(&mut self) -> Result<StoredLayer> {
        let name = self.name()?;
        let bytes = usize::from(self.u8()?);
        let version = self.u32()?;
        let persistence = self.u8()?;
        let default = self.take(bytes)?.to_vec();
        let persistence = match persistence {
            0 => Persistence::Always,
            1 => Persistence::Yes,
            2 => Persistence::Partial(self.take(bytes)?.to_vec()),
            other => return Err(Error::corrupt(format_args!("layer `{name}` has persistence {other}"))),
        };
        Ok(StoredLayer { name, bytes, version, persistence, default })
    }
}
