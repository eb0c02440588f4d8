//! The table format: a snapshot as JSON, for people, scripts and other engines.
//!
//! The shape is that of the systems before us: `version`, `nextEntityId`, `componentTable`, `archetypes` with
//! `columnIndices` (counted from 1) and `entities` as rows `[id, value, ..]`, and `data`. Beside it stand schemas, row
//! layouts, resources, metadata and carried columns, so that nothing is lost. A table without them, written by hand or
//! by another tool, loads where its components are registered.
//!
//! How each type of value looks in JSON is in FORMAT.md, "The JSON table".

mod export;
mod export_value;
mod import;
mod import_value;
mod text;

use crate::error::Result;
use crate::limits::Limits;
use crate::registry::Registry;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// The snapshot as a JSON table.
    pub fn to_json(&self) -> Result<String> {
        export::export(self, &Limits::default())
    }

    /// The snapshot as a JSON table, if that takes no more than the limits allow.
    pub fn to_json_with(&self, limits: &Limits) -> Result<String> {
        export::export(self, limits)
    }

    /// Reads a JSON table. Components without a schema in it must be registered.
    pub fn from_json(json: &str, registry: &Registry) -> Result<Self> {
        Self::from_json_with(json, registry, &Limits::default())
    }

    /// Reads a JSON table within limits: of components, archetypes, entities, data, and the nodes of schemas.
    pub fn from_json_with(json: &str, registry: &Registry, limits: &Limits) -> Result<Self> {
        import::import(json, registry, limits)
    }
}

/// Whether a value of this type may be `null` in JSON, so that an option around it needs a mark of its own.
fn is_nullable(schema: &crate::schema::Schema, node: crate::schema::Node) -> bool {
    use crate::schema::Type;
    let mut node = node;
    // One-element tuples look like their element; a tuple that contains itself in this way has no values.
    for _ in 0..64 {
        match schema.get(node) {
            Type::Unit | Type::Option(_) | Type::Entity | Type::Dynamic => return true,
            Type::Tuple(fields) if fields.len() == 1 => node = fields[0].node,
            _ => return false,
        }
    }
    true
}
