//! Fields that an older build carried because it did not know them, put back into their values for a build that does.
//!
//! Entities whose values have such fields are saved alike no longer, so they become an archetype of their own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::context::LoadContext;
use crate::descriptor::ColumnKind;
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

/// The snapshot with carried fields where they belong, known to this build or not: what runs on the values must see all of
/// them, and what is still unknown at the end is carried again. Nothing if there are none.
pub(super) fn merge(snapshot: &Snapshot, registry: &Registry) -> Result<Option<Snapshot>> {
    if !is_needed(snapshot, registry) {
        return Ok(None);
    }
    let limits = Limits::default();
    let mut merged = snapshot.clone();
    let belongs = |record: &Carried| has_owner(snapshot, registry, record);
    let (back, rest): (Vec<Carried>, Vec<Carried>) = snapshot.carried.iter().cloned().partition(belongs);
    merged.carried = rest;
    for record in &back {
        Merge { from: snapshot, registry, record, limits: &limits }.run(&mut merged)?;
    }
    merged.order_components();
    Ok(Some(merged))
}

/// Whether there are carried fields whose component is in the save.
pub(super) fn is_needed(snapshot: &Snapshot, registry: &Registry) -> bool {
    snapshot.carried.iter().any(|record| has_owner(snapshot, registry, record))
}

fn has_owner(snapshot: &Snapshot, registry: &Registry, record: &Carried) -> bool {
    if record.kind != CarryKind::Fields {
        return false;
    }
    let part = &snapshot.components[record.column.component as usize];
    let columns = snapshot.archetypes.iter().flat_map(|archetype| &archetype.columns);
    let carried = snapshot.carried.iter().filter(|record| record.kind != CarryKind::Fields);
    let mut columns = columns.chain(&snapshot.resources).chain(carried.map(|record| &record.column));
    columns.any(|column| is_owner(registry, &snapshot.components[column.component as usize], part))
}

/// Whether fields were once part of a component, which may have got another key since.
fn is_owner(registry: &Registry, component: &Component, part: &Component) -> bool {
    let same = || {
        let number = registry.index_of_saved(&component.key);
        number.is_some() && number == registry.index_of_saved(&part.key)
    };
    component.version == part.version && (component.key == part.key || same())
}

struct Merge<'a> {
    from: &'a Snapshot,
    registry: &'a Registry,
    record: &'a Carried,
    limits: &'a Limits,
}

impl Merge<'_> {
    fn run(&self, merged: &mut Snapshot) -> Result<()> {
        let Self { from, registry, record, limits } = *self;
        let part = &from.components[record.column.component as usize];
        let ids = record.ids();
        let dense = from.dense(&record.column, ids.len(), limits, &|_| false)?;
        let parts: HashMap<EntityId, &[u8]> =
            ids.iter().zip(dense.iter()).filter_map(|(id, bytes)| Some((*id, bytes?))).collect();
        let mut archetypes = Vec::with_capacity(merged.archetypes.len());
        for archetype in std::mem::take(&mut merged.archetypes) {
            let owns =
                |column: &Column| is_owner(registry, &merged.components[column.component as usize], part);
            let owners: HashSet<EntityId> = match archetype.columns.iter().any(owns) {
                true => archetype.ids().iter().copied().filter(|id| parts.contains_key(id)).collect(),
                false => HashSet::new(),
            };
            if owners.is_empty() {
                archetypes.push(archetype);
                continue;
            }
            let rest = merged.pick_rows(&archetype, limits, |id| !owners.contains(&id))?;
            if rest.rows > 0 {
                archetypes.push(rest);
            }
            let mut own = merged.pick_rows(&archetype, limits, |id| owners.contains(&id))?;
            self.complete(merged, &mut own, part, &parts)?;
            archetypes.push(own);
        }
        merged.archetypes = archetypes;
        if parts.contains_key(&EntityId::NULL) {
            let columns = std::mem::take(&mut merged.resources);
            let mut resources = Archetype { rows: 1, columns, ..Archetype::default() };
            resources.set_ids(&[EntityId::NULL]);
            self.complete(merged, &mut resources, part, &parts)?;
            merged.resources = resources.columns;
        }
        self.carried(merged, part, &parts)
    }

    /// Components that are carried themselves.
    fn carried(
        &self,
        merged: &mut Snapshot,
        part: &Component,
        parts: &HashMap<EntityId, &[u8]>,
    ) -> Result<()> {
        let mut carried = Vec::with_capacity(merged.carried.len());
        for record in std::mem::take(&mut merged.carried) {
            let component = &merged.components[record.column.component as usize];
            let null = [EntityId::NULL];
            let ids = if record.kind == CarryKind::Resource { null.as_slice().into() } else { record.ids() };
            let has = ids.iter().any(|id| parts.contains_key(id));
            if record.kind == CarryKind::Fields || !has || !is_owner(self.registry, component, part) {
                carried.push(record);
                continue;
            }
            let mut whole =
                Archetype { rows: ids.len(), columns: vec![record.column.clone()], ..Archetype::default() };
            whole.set_ids(&ids);
            let rest = merged.pick_rows(&whole, self.limits, |id| !parts.contains_key(&id))?;
            let mut own = merged.pick_rows(&whole, self.limits, |id| parts.contains_key(&id))?;
            self.complete(merged, &mut own, part, parts)?;
            for mut picked in [rest, own].into_iter().filter(|picked| picked.rows > 0) {
                let Some(column) = picked.columns.pop() else { continue };
                let ids = if record.kind == CarryKind::Resource { record.ids.clone() } else { picked.ids };
                carried.push(Carried { kind: record.kind, rows: picked.rows, ids, column });
            }
        }
        merged.carried = carried;
        Ok(())
    }

    /// Puts the carried part of each value into the column of its component.
    fn complete(
        &self,
        snapshot: &mut Snapshot,
        archetype: &mut Archetype,
        part: &Component,
        parts: &HashMap<EntityId, &[u8]>,
    ) -> Result<()> {
        let owns =
            |column: &Column| is_owner(self.registry, &snapshot.components[column.component as usize], part);
        let Some(number) = archetype.columns.iter().position(owns) else { return Ok(()) };
        let column = archetype.columns.remove(number);
        let component = snapshot.components[column.component as usize].clone();
        let (schema, part_schema) = (component.schema()?, part.schema()?);
        let whole = Arc::new(merged_schema(schema, part_schema));
        let ids = archetype.ids();
        let dense = snapshot.dense(&column, ids.len(), self.limits, &|_| false)?;
        let context = LoadContext::new(self.limits);
        let value = |schema: &Schema, bytes: &[u8]| {
            decode_value(schema, Node::ROOT, &mut Reader::new(bytes, &context))
        };
        // What was one value stays one.
        let mut known: HashMap<[(*const u8, usize); 2], Bytes> = HashMap::new();
        let mut rows: Vec<Option<Bytes>> = Vec::with_capacity(ids.len());
        for (id, bytes) in ids.iter().zip(dense.iter()) {
            let (Some(bytes), Some(part)) = (bytes, parts.get(id)) else {
                rows.push(None);
                continue;
            };
            let place = [(bytes.as_ptr(), bytes.len()), (part.as_ptr(), part.len())];
            if let Some(merged) = known.get(&place) {
                rows.push(Some(merged.clone()));
                continue;
            }
            let value = merged_value(value(schema, bytes)?, value(part_schema, part)?);
            let mut out = Writer::new();
            encode_value(&whole, Node::ROOT, &value, &mut out)?;
            let merged = Bytes::from(out.finish()?);
            context.claim_memory(merged.len(), 1)?;
            known.insert(place, merged.clone());
            rows.push(Some(merged));
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
