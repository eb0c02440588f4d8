//! The components that a delta speaks of by number.

use std::sync::Arc;

use crate::column::{ColumnKind, Component};
use crate::context::LoadContext;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::registry::Registry;
use crate::row::RowLayout;
use crate::schema::{Fingerprint, ROW_LEAVES_MAX, Schema};
use crate::wire::{Reader, Writer};

/// All components of a registry that are saved, sorted by key: what deltas leave out, because both sides know it.
///
/// Two tables with the same fingerprint mean the same. How rows are laid out may still differ between builds, which is why
/// the first message of a stream and the head of a journal bring their table along.
#[derive(Clone, Debug)]
pub struct ComponentTable {
    pub(super) components: Vec<Component>,
    fingerprint: Fingerprint,
}

impl ComponentTable {
    /// The table of a registry.
    pub fn of(registry: &Registry) -> Arc<Self> {
        Arc::clone(DeltaSchema::new(registry).table())
    }

    fn new(components: Vec<Component>) -> Self {
        let mut out = Writer::new();
        for component in &components {
            out.text(&component.key);
            out.u32(component.version);
            out.raw(&component.schema_fingerprint.0);
        }
        Self { fingerprint: Fingerprint::of(out.as_bytes()), components }
    }

    /// The components; their numbers are their positions.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// One hash of all keys, versions and schemas: the one of [`Registry::fingerprint`].
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The number of the component with this key.
    pub fn number(&self, key: &str) -> Option<u32> {
        self.components.binary_search_by(|component| (*component.key).cmp(key)).ok().map(|at| at as u32)
    }

    pub(crate) fn get(&self, number: u32) -> &Component {
        &self.components[number as usize]
    }

    /// Whether rows can be copied from one to the other as they are.
    pub(crate) fn same_rows(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.fingerprint == other.fingerprint
                && self.components.iter().zip(&other.components).all(|(a, b)| a.row == b.row))
    }

    /// What is different about the other one, component by component; for messages.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for component in &self.components {
            let key = &component.key;
            let Some(there) = other.number(key).map(|number| other.get(number)) else {
                found.push(format!("`{key}` is here and not there"));
                continue;
            };
            if component.version != there.version {
                found.push(format!("`{key}` is version {} here, {} there", component.version, there.version));
            } else if component.schema_fingerprint != there.schema_fingerprint {
                let (Some(here), Some(there)) = (&component.schema, &there.schema) else { continue };
                let difference = here.difference(there).unwrap_or_else(|| "another schema".to_owned());
                found.push(format!("`{key}`: {difference}"));
            }
        }
        let missing = other.components.iter().filter(|component| self.number(&component.key).is_none());
        found.extend(missing.map(|component| format!("`{}` is there and not here", component.key)));
        found
    }

    /// The table as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.varint(self.components.len() as u64);
        for component in &self.components {
            out.text(&component.key);
            out.varint(u64::from(component.version));
            out.u8(ColumnKind::ALL.iter().position(|kind| *kind == component.kind).unwrap_or(0) as u8);
            let RowLayout { stride, offsets } = &component.row;
            out.varint(u64::from(*stride));
            out.varint(offsets.len() as u64);
            offsets.iter().for_each(|offset| out.varint(u64::from(*offset)));
            out.blob(&component.schema.as_ref().map(|schema| schema.to_bytes()).unwrap_or_default());
        }
        out.as_bytes().to_vec()
    }

    /// A table from its bytes.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Arc<Self>> {
        let context = LoadContext::new(limits);
        let mut input = Reader::new(bytes, &context);
        let count = input.bounded(u64::from(limits.components_max), "components")?;
        let mut components: Vec<Component> = Vec::new();
        for _ in 0..count {
            let component = component(&mut input, limits)?;
            if components.last().is_some_and(|last| last.key >= component.key) {
                return Err(Error::corrupt("components are not sorted by key").in_key(&component.key));
            }
            components.push(component);
        }
        input.finish()?;
        Ok(Arc::new(Self::new(components)))
    }
}

fn component(input: &mut Reader<'_>, limits: &Limits) -> Result<Component> {
    let key = input.text()?.to_owned();
    let mut read = || -> Result<Component> {
        let version = input.bounded(u64::from(u32::MAX), "as a version")? as u32;
        let kind = ColumnKind::ALL.get(usize::from(input.u8()?)).copied().unwrap_or(ColumnKind::Custom);
        let stride = input.bounded(1 << 30, "bytes per row")? as u32;
        let leaves = input.bounded(ROW_LEAVES_MAX as u64, "leaves")?;
        let mut row = RowLayout { stride, offsets: Vec::new() };
        for _ in 0..leaves {
            row.offsets.push(input.bounded(u64::from(stride), "as an offset")? as u32);
        }
        let schema = Schema::decode(input.blob()?, limits)?;
        if stride > 0 {
            row.check(&schema)?;
        }
        let (schema_fingerprint, schema) = (schema.fingerprint(), Some(Arc::new(schema)));
        Ok(Component { key: String::new(), version, kind, schema_fingerprint, row, schema })
    };
    let component = read().map_err(|error| error.in_key(&key))?;
    Ok(Component { key, ..component })
}

/// A registry as deltas see it: the table, and which of its components is which of the registry's. Made once, after everything
/// is registered.
#[derive(Clone, Debug)]
pub struct DeltaSchema {
    table: Arc<ComponentTable>,
    /// By number in the table, the number in the registry.
    registered: Vec<usize>,
    /// By number in the registry, the number in the table.
    numbers: Vec<Option<u32>>,
}

impl DeltaSchema {
    /// For everything in the registry that is not transient.
    pub fn new(registry: &Registry) -> Self {
        Self::without(registry, None)
    }

    /// As [`DeltaSchema::new`], without the components that have these numbers in the registry.
    pub fn without(registry: &Registry, left_out: impl IntoIterator<Item = usize>) -> Self {
        let left_out: Vec<usize> = left_out.into_iter().collect();
        let descriptors = registry.descriptors();
        let is_told = |number: &usize| !descriptors[*number].is_transient() && !left_out.contains(number);
        let mut registered: Vec<usize> = (0..descriptors.len()).filter(is_told).collect();
        registered.sort_by(|&a, &b| descriptors[a].key().cmp(descriptors[b].key()));
        let mut numbers = vec![None; descriptors.len()];
        registered.iter().zip(0..).for_each(|(&number, place)| numbers[number] = Some(place));
        let components = registered.iter().map(|&number| descriptors[number].component()).collect();
        Self { table: Arc::new(ComponentTable::new(components)), registered, numbers }
    }

    /// The table.
    pub fn table(&self) -> &Arc<ComponentTable> {
        &self.table
    }

    /// The number in the table of a registered component; `None` if it is transient.
    pub fn number(&self, registered: usize) -> Option<u32> {
        self.numbers.get(registered).copied().flatten()
    }

    /// The number in the registry of a component of the table, or of any table with the same fingerprint.
    pub fn registered(&self, number: u32) -> usize {
        self.registered[number as usize]
    }

    /// Fails if a delta was made by another registry, and says what is different.
    pub fn check(&self, other: &ComponentTable) -> Result<()> {
        if self.table.fingerprint() == other.fingerprint() {
            return Ok(());
        }
        let mut differences = self.table.differences(other);
        let more = differences.len().saturating_sub(3);
        differences.truncate(3);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        Err(Error::schema(format!("other components: {}{more}", differences.join(", "))))
    }
}
