//! Which entities a save is about: by the components they have, and by layer. Front ends share it, so that a filter
//! means the same in every engine.

use crate::error::{Error, Result};
use crate::registry::Registry;

/// Layers are numbered from 0 to one below this.
pub const LAYER_COUNT: u8 = 32;

/// Chooses entities by their components and their layer. The default lets everything pass.
///
/// ```
/// # use bonfire::Filter;
/// let filter = Filter::new().include("game.saved").exclude("game.particle").layers([2, 3])?;
/// assert!(Filter::new().layers([32]).is_err());
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Filter {
    include: Vec<String>,
    include_any: Vec<String>,
    exclude: Vec<String>,
    layers: Option<u32>,
}

impl Filter {
    /// Everything.
    pub fn new() -> Self {
        Self::default()
    }
    /// Only entities that have this component; may be repeated.
    pub fn include(mut self, key: impl Into<String>) -> Self {
        self.include.push(key.into());
        self
    }
    /// Only entities that have at least one of the components given in this way.
    pub fn include_any(mut self, key: impl Into<String>) -> Self {
        self.include_any.push(key.into());
        self
    }
    /// No entities that have this component, and not the resource of this key; may be repeated.
    pub fn exclude(mut self, key: impl Into<String>) -> Self {
        self.exclude.push(key.into());
        self
    }
    /// Only entities on one of these layers (0 to 31). Entities without a layer pass.
    pub fn layers(mut self, layers: impl IntoIterator<Item = u8>) -> Result<Self> {
        let mut mask = 0;
        for layer in layers {
            if layer >= LAYER_COUNT {
                return Err(Error::misuse(format!("layer {layer} is out of range 0..{}", LAYER_COUNT - 1)));
            }
            mask |= 1 << layer;
        }
        self.layers = Some(mask);
        Ok(self)
    }

    /// Whether it lets everything pass.
    pub fn is_everything(&self) -> bool {
        self.include.is_empty()
            && self.include_any.is_empty()
            && self.exclude.is_empty()
            && self.layers.is_none()
    }

    /// Returns true if it names components that entities must have.
    pub(crate) fn names_components(&self) -> bool {
        !self.include.is_empty() || !self.include_any.is_empty()
    }

    /// Returns true if it leaves out what has this key.
    pub(crate) fn excludes(&self, key: &str) -> bool {
        self.exclude.iter().any(|excluded| excluded == key)
    }

    /// For front ends: looks up the keys, and adds what save hooks excluded. The filter itself is not changed, so
    /// exclusions do not pile up from save to save.
    pub fn resolve(&self, registry: &Registry, excluded: &[usize]) -> Result<ResolvedFilter> {
        let find = |keys: &[String]| {
            let index = |key: &String| {
                let index = registry.index_of_key(key);
                index.ok_or_else(|| {
                    Error::misuse("the filter names a component that is not registered").in_key(key)
                })
            };
            keys.iter().map(index).collect::<Result<Vec<_>>>()
        };
        let mut exclude = find(&self.exclude)?;
        exclude.extend_from_slice(excluded);
        let (include, include_any) = (find(&self.include)?, find(&self.include_any)?);
        Ok(ResolvedFilter { include, include_any, exclude, layers: self.layers })
    }
}

/// A [`Filter`] with the numbers of a registry.
#[derive(Clone, Debug)]
pub struct ResolvedFilter {
    include: Vec<usize>,
    include_any: Vec<usize>,
    exclude: Vec<usize>,
    layers: Option<u32>,
}

impl ResolvedFilter {
    /// Whether entities with these components pass. Decided once per archetype.
    pub fn accepts(&self, has: impl Fn(usize) -> bool) -> bool {
        self.include.iter().all(|&component| has(component))
            && (self.include_any.is_empty() || self.include_any.iter().any(|&component| has(component)))
            && !self.exclude.iter().any(|&component| has(component))
    }

    /// Whether an entity on this layer passes; one without a layer does.
    pub fn accepts_layer(&self, layer: Option<u8>) -> bool {
        match (self.layers, layer) {
            (Some(mask), Some(layer)) => layer < LAYER_COUNT && mask >> layer & 1 == 1,
            _ => true,
        }
    }

    /// Whether entities must be asked for their layer at all.
    pub fn has_layers(&self) -> bool {
        self.layers.is_some()
    }
}
