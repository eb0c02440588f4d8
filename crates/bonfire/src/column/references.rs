//! The entities that the values of a column refer to.

use super::{Body, Column, Component, Groups, dense_rows};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::schema::{Node, Schema, Type};
use crate::value::{Value, decode_value};
use crate::wire::Reader;

/// Calls `found` with every entity that a value of the column refers to, once per reference. `shared` are the values that
/// the column shares with others, `rows` is the number of rows of its archetype.
pub(crate) fn column_references(
    column: &Column,
    component: &Component,
    shared: Option<&Groups>,
    rows: usize,
    found: &mut impl FnMut(EntityId),
) -> Result<()> {
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
    let rows = dense_rows(column, component, shared, rows, &Limits::default(), &|_| false)?;
    { rows.iter() }.flatten().try_for_each(|bytes| value_references(schema, bytes, found))
}

/// Returns true if every value is a single reference and nothing else, as in `ChildOf`.
fn is_one_reference(schema: &Schema) -> bool {
    matches!(only_leaf(schema), Some(Type::Entity))
}

/// The type that every value is made of, if it is a single one.
pub(crate) fn only_leaf(schema: &Schema) -> Option<&Type> {
    let mut node = Node::ROOT;
    // A type may contain itself.
    for _ in schema.nodes() {
        match &schema.nodes()[node.index()] {
            Type::Struct(fields) | Type::Tuple(fields) if fields.len() == 1 => node = fields[0].node,
            leaf => return Some(leaf),
        }
    }
    None
}

/// Calls `found` with every entity that an encoded value refers to.
pub(crate) fn value_references(
    schema: &Schema,
    bytes: &[u8],
    found: &mut impl FnMut(EntityId),
) -> Result<()> {
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
