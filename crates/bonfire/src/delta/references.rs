//! The entities that values refer to.

use std::collections::HashSet;

use super::{Change, Delta};
use crate::column::{Body, Column, Component, dense_rows};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::schema::{Node, Schema, Type};
use crate::value::{Value, decode_value};
use crate::wire::Reader;

impl Delta {
    /// For front ends: calls `found` with every entity that a value of the delta refers to, once per reference.
    pub fn for_each_reference(&self, mut found: impl FnMut(EntityId)) -> Result<()> {
        let whole = |change: &&Change| change.fields == 0;
        for group in &self.groups {
            for change in group.changes.iter().filter(whole) {
                self.column_references(&change.column, group.ids.len(), &mut found)?;
            }
        }
        let resources = self.resources.iter().filter_map(|(_, column)| column.as_ref());
        { resources }.try_for_each(|column| self.column_references(column, 1, &mut found))
    }

    fn column_references(
        &self,
        column: &Column,
        rows: usize,
        found: &mut impl FnMut(EntityId),
    ) -> Result<()> {
        let component: &Component = self.table.get(column.component);
        let schema = component.schema()?;
        if !schema.has_entities() {
            return Ok(());
        }
        if let Body::Rows(groups) = &column.body
            && is_one_reference(schema)
        {
            let (references, _) = groups.bytes.as_chunks::<8>();
            references.iter().for_each(|bits| found(EntityId::from_bits(u64::from_le_bytes(*bits))));
            return Ok(());
        }
        let rows = dense_rows(column, component, None, rows, &Limits::default(), &|_| false)?;
        { rows.iter() }.flatten().try_for_each(|bytes| value_references(schema, bytes, found))
    }
}

/// Returns true if every value is a single reference and nothing else, as in `ChildOf`.
fn is_one_reference(schema: &Schema) -> bool {
    let mut node = Node::ROOT;
    // A type may contain itself.
    for _ in schema.nodes() {
        match &schema.nodes()[node.index()] {
            Type::Entity => return true,
            Type::Struct(fields) | Type::Tuple(fields) if fields.len() == 1 => node = fields[0].node,
            _ => return false,
        }
    }
    false
}

fn value_references(schema: &Schema, bytes: &[u8], found: &mut impl FnMut(EntityId)) -> Result<()> {
    let limits = Limits::default();
    let context = LoadContext::new(&limits);
    let value = decode_value(schema, Node::ROOT, &mut Reader::new(bytes, &context))?;
    visit(&value, found);
    Ok(())
}

fn visit(value: &Value, found: &mut impl FnMut(EntityId)) {
    match value {
        Value::Entity(id) => found(*id),
        Value::Some(inner) | Value::Enum(_, inner) => visit(inner, found),
        Value::List(values) | Value::Tuple(values) => values.iter().for_each(|value| visit(value, found)),
        Value::Map(entries) => entries.iter().for_each(|(key, value)| {
            visit(key, found);
            visit(value, found);
        }),
        Value::Struct(fields) => fields.iter().for_each(|(_, value)| visit(value, found)),
        _ => {}
    }
}

/// Returns true if an encoded value refers to one of these entities.
pub(super) fn refers_to(schema: &Schema, bytes: &[u8], entities: &HashSet<EntityId>) -> Result<bool> {
    let mut refers = false;
    value_references(schema, bytes, &mut |id| refers |= entities.contains(&id))?;
    Ok(refers)
}
