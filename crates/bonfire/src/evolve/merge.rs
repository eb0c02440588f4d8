//! Fields that an older build carried because it did not know them, put back into their values for a build that does.
//!
//! Entities whose values have such fields are saved alike no longer, so they become an archetype of their own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::context::LoadContext;
use crate::descriptor::{ColumnKind, Descriptor};
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::registry::Registry;
use crate::row::RowLayout;
use crate::schema::{Field, Fields, Node, Schema, Type};
use crate::snapshot::carry::{Carried, CarryKind};
use crate::snapshot::column::Column;
use crate::snapshot::dense::column_from;
use crate::snapshot::{Archetype, Component, Snapshot};
use crate::value::{Value, decode_value, encode_value};
use crate::wire::{Reader, Writer};

/// The snapshot with carried fields where they belong. Nothing if this build knows none of them.
pub(super) fn merge(snapshot: &Snapshot, registry: &Registry) -> Result<Option<Snapshot>> {
    if !is_needed(snapshot, registry) {
        return Ok(None);
    }
    let known = |record: &Carried| is_known(snapshot, registry, record);
    let limits = Limits::default();
    let mut merged = snapshot.clone();
    let (back, rest) = snapshot.carried.iter().cloned().partition(known);
    merged.carried = rest;
    let back: Vec<Carried> = back;
    for record in &back {
        merge_record(&mut merged, snapshot, record, &limits)?;
    }
    merged.order_components();
    Ok(Some(merged))
}

/// Whether there are carried fields that this build knows.
pub(super) fn is_needed(snapshot: &Snapshot, registry: &Registry) -> bool {
    snapshot.carried.iter().any(|record| is_known(snapshot, registry, record))
}

fn is_known(snapshot: &Snapshot, registry: &Registry, record: &Carried) -> bool {
    let component = &snapshot.components[record.column.component as usize];
    let target = registry.index_of_saved(&component.key).map(|index| &registry.descriptors()[index]);
    record.kind == CarryKind::Fields && target.is_some_and(|target| knows(target, component))
}

/// Whether a type has one of some carried fields.
fn knows(target: &Descriptor, carried: &Component) -> bool {
    let Ok(schema) = carried.schema() else { return false };
    let nodes = target.schema.ruled_nodes();
    carried.version == target.version && knows_at(nodes, Node::ROOT, schema.nodes(), Node::ROOT, 0)
}

fn knows_at(target: &[Type], at: Node, carried: &[Type], from: Node, depth: usize) -> bool {
    let (Type::Struct(target_fields), Type::Struct(carried_fields)) =
        (&target[at.index()], &carried[from.index()])
    else {
        // Inside a struct that both know, only other structs were taken apart.
        return depth > 0;
    };
    let find = |name: &str| {
        target_fields
            .iter()
            .find(|field| field.name == name || field.rules.aliases.iter().any(|alias| alias == name))
    };
    depth < 32
        && carried_fields.iter().any(|field| {
            find(&field.name)
                .is_some_and(|known| knows_at(target, known.node, carried, field.node, depth + 1))
        })
}

fn merge_record(merged: &mut Snapshot, from: &Snapshot, record: &Carried, limits: &Limits) -> Result<()> {
    let part = &from.components[record.column.component as usize];
    let ids = record.ids();
    let dense = from.dense(&record.column, ids.len(), limits, &|_| false)?;
    let parts: HashMap<EntityId, &[u8]> =
        ids.iter().zip(dense.iter()).filter_map(|(id, bytes)| Some((*id, bytes?))).collect();
    let mut archetypes = Vec::with_capacity(merged.archetypes.len());
    for archetype in std::mem::take(&mut merged.archetypes) {
        let key_of = |column: &Column| &merged.components[column.component as usize].key;
        let has = archetype.columns.iter().any(|column| *key_of(column) == part.key);
        let owners: HashSet<EntityId> =
            archetype.ids().iter().copied().filter(|id| has && parts.contains_key(id)).collect();
        if owners.is_empty() {
            archetypes.push(archetype);
            continue;
        }
        let rest = merged.pick_rows(&archetype, limits, |id| !owners.contains(&id))?;
        if rest.rows > 0 {
            archetypes.push(rest);
        }
        let mut own = merged.pick_rows(&archetype, limits, |id| owners.contains(&id))?;
        complete(merged, &mut own, part, &parts, limits)?;
        archetypes.push(own);
    }
    merged.archetypes = archetypes;
    if parts.contains_key(&EntityId::NULL) {
        let mut resources =
            Archetype { rows: 1, columns: std::mem::take(&mut merged.resources), ..Archetype::default() };
        resources.set_ids(&[EntityId::NULL]);
        complete(merged, &mut resources, part, &parts, limits)?;
        merged.resources = resources.columns;
    }
    Ok(())
}

/// Puts the carried part of each value into the column of its component.
fn complete(
    snapshot: &mut Snapshot,
    archetype: &mut Archetype,
    part: &Component,
    parts: &HashMap<EntityId, &[u8]>,
    limits: &Limits,
) -> Result<()> {
    let key_of = |column: &Column| &snapshot.components[column.component as usize].key;
    let Some(number) = archetype.columns.iter().position(|column| *key_of(column) == part.key) else {
        return Ok(());
    };
    let column = archetype.columns.remove(number);
    let component = snapshot.components[column.component as usize].clone();
    let (schema, part_schema) = (component.schema()?, part.schema()?);
    let whole = Arc::new(merged_schema(schema, part_schema));
    let ids = archetype.ids();
    let dense = snapshot.dense(&column, ids.len(), limits, &|_| false)?;
    let context = LoadContext::new(limits);
    let value =
        |schema: &Schema, bytes: &[u8]| decode_value(schema, Node::ROOT, &mut Reader::new(bytes, &context));
    let mut rows: Vec<Option<Vec<u8>>> = Vec::with_capacity(ids.len());
    for (id, bytes) in ids.iter().zip(dense.iter()) {
        let (Some(bytes), Some(part)) = (bytes, parts.get(id)) else {
            rows.push(None);
            continue;
        };
        let value = merged_value(value(schema, bytes)?, value(part_schema, part)?);
        let mut out = Writer::new();
        encode_value(&whole, Node::ROOT, &value, &mut out)?;
        rows.push(Some(out.finish()?));
    }
    let component = Component {
        kind: ColumnKind::Rows,
        schema_fingerprint: whole.fingerprint(),
        row: RowLayout::default(),
        schema: Some(whole),
        ..component
    };
    let number = snapshot.components.len() as u32;
    let column = column_from(number, &component, rows.iter().map(Option::as_deref))?;
    drop(dense);
    archetype.columns.extend(column);
    snapshot.components.push(component);
    Ok(())
}

fn merged_schema(saved: &Schema, part: &Schema) -> Schema {
    let mut nodes = saved.nodes().to_vec();
    let offset = nodes.len() as u32;
    for ty in part.nodes() {
        let mut ty = ty.clone();
        ty.children_mut().into_iter().for_each(|child| child.0 += offset);
        nodes.push(ty);
    }
    let root = merged_node(&mut nodes, Node::ROOT, Node(offset), 0);
    Schema::rooted(&nodes, root)
}

fn merged_node(nodes: &mut Vec<Type>, saved: Node, part: Node, depth: usize) -> Node {
    let (Type::Struct(a), Type::Struct(b)) = (&nodes[saved.index()], &nodes[part.index()]) else {
        return saved;
    };
    let (a, b): (Fields, Fields) = (a.clone(), b.clone());
    let mut fields: Vec<Field> = Vec::with_capacity(a.len() + b.len());
    for field in &a {
        let node = match b.iter().find(|part| part.name == field.name) {
            Some(part) if depth < 32 => merged_node(nodes, field.node, part.node, depth + 1),
            _ => field.node,
        };
        fields.push(Field::new(field.name.clone(), node));
    }
    fields.extend(b.iter().filter(|part| !a.iter().any(|field| field.name == part.name)).cloned());
    nodes.push(Type::Struct(fields.into()));
    Node(nodes.len() as u32 - 1)
}

fn merged_value(saved: Value, part: Value) -> Value {
    match (saved, part) {
        (Value::Struct(mut fields), Value::Struct(parts)) => {
            for (name, part) in parts {
                match fields.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, value)) => {
                        let saved = std::mem::replace(value, Value::Unit);
                        *value = merged_value(saved, part);
                    }
                    None => fields.push((name, part)),
                }
            }
            Value::Struct(fields)
        }
        (saved, _) => saved,
    }
}
