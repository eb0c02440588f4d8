//! Fields that an older build carried because it did not know them, put back into their values for a build that does.
//!
//! Entities whose values have such fields are saved alike no longer, so they become an archetype of their own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::column::{Column, ColumnKind, Component, DenseRows, column_from};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::registry::Registry;
use crate::row::RowLayout;
use crate::schema::{Field, Fields, Node, Schema, Type};
use crate::snapshot::carry::{Carried, CarryKind};
use crate::snapshot::{Archetype, Snapshot};
use crate::value::{Value, decode_value, encode_value};
use crate::wire::{Reader, Writer};

/// The snapshot with carried fields where they belong, known to this build or not: what runs on the values must see all of
/// them, and what is still unknown at the end is carried again. Nothing if there are none.
pub(super) fn merge(snapshot: &Snapshot, registry: &Registry, limits: &Limits) -> Result<Option<Snapshot>> {
    let owners = owners(snapshot, registry);
    let belongs = |record: &Carried| is_part(snapshot, registry, &owners, record);
    if !snapshot.carried.iter().any(belongs) {
        return Ok(None);
    }
    let (back, rest): (Vec<Carried>, Vec<Carried>) = snapshot.carried.iter().cloned().partition(belongs);
    let mut parts: HashMap<ComponentIdentity, CarriedFields> = HashMap::new();
    for record in &back {
        let component = record.column.component;
        let rows = snapshot.dense(&record.column, record.rows, limits, &|_| false)?;
        let numbers: HashMap<EntityId, usize> = record.ids().iter().copied().zip(0..).collect();
        let parts = parts.entry(identity(registry, &snapshot.components[component as usize])).or_default();
        numbers.keys().for_each(|id| parts.by_entity.entry(*id).or_default().push(parts.list.len()));
        parts.list.push(FieldsOfSchema { component, rows, numbers });
    }
    let mut merged = snapshot.clone();
    let mut merge = Merge { registry, parts, limits, made: HashMap::new() };
    merged.archetypes = Vec::with_capacity(snapshot.archetypes.len());
    for archetype in &snapshot.archetypes {
        let archetypes = merge.archetype(&mut merged, archetype)?;
        merged.archetypes.extend(archetypes);
    }
    let mut resources = Archetype { rows: 1, columns: snapshot.resources.clone(), ..Archetype::default() };
    resources.set_ids(&[EntityId::NULL]);
    merged.resources = merge.archetype(&mut merged, &resources)?.pop().unwrap_or_default().columns;
    merged.carried = Vec::with_capacity(rest.len());
    for record in rest {
        let carried = merge.carried(&mut merged, record)?;
        merged.carried.extend(carried);
    }
    merged.order_components();
    Ok(Some(merged))
}

/// Whether there are carried fields whose component is in the save.
pub(super) fn is_needed(snapshot: &Snapshot, registry: &Registry) -> bool {
    let owners = owners(snapshot, registry);
    snapshot.carried.iter().any(|record| is_part(snapshot, registry, &owners, record))
}

/// What a component is, whatever key it had when it was saved: its number in this build or else its key, and its version.
type ComponentIdentity = (Option<usize>, Option<String>, u32);

fn identity(registry: &Registry, component: &Component) -> ComponentIdentity {
    let number = registry.index_of_saved(&component.key);
    let key = number.is_none().then(|| component.key.clone());
    (number, key, component.version)
}

/// The components that fields may be part of.
fn owners(snapshot: &Snapshot, registry: &Registry) -> HashSet<ComponentIdentity> {
    let mut fields = snapshot.carried.iter().filter(|record| record.kind == CarryKind::Fields).peekable();
    if fields.peek().is_none() {
        return HashSet::new();
    }
    let fields: HashSet<u32> = fields.map(|record| record.column.component).collect();
    let components = snapshot.components.iter().zip(0..).filter(|(_, number)| !fields.contains(number));
    components.map(|(component, _)| identity(registry, component)).collect()
}

fn is_part(
    snapshot: &Snapshot,
    registry: &Registry,
    owners: &HashSet<ComponentIdentity>,
    record: &Carried,
) -> bool {
    let component = &snapshot.components[record.column.component as usize];
    record.kind == CarryKind::Fields && owners.contains(&identity(registry, component))
}

/// All carried fields of one component.
#[derive(Default)]
struct CarriedFields {
    list: Vec<FieldsOfSchema>,
    by_entity: HashMap<EntityId, Vec<usize>>,
}

/// Carried fields that have one schema.
struct FieldsOfSchema {
    component: u32,
    rows: DenseRows,
    /// By entity, its row.
    numbers: HashMap<EntityId, usize>,
}

struct Merge<'a> {
    registry: &'a Registry,
    parts: HashMap<ComponentIdentity, CarriedFields>,
    limits: &'a Limits,
    /// The component of values of one with the fields of another in them.
    made: HashMap<(u32, u32), u32>,
}

/// The parts that a row gets: the column, and the number of the part among those of its component.
type RowParts = Vec<(usize, usize)>;

impl Merge<'_> {
    /// An archetype with its fields in place: several if not all of its entities have the same ones.
    fn archetype(&mut self, merged: &mut Snapshot, archetype: &Archetype) -> Result<Vec<Archetype>> {
        let mut wanted: BTreeMap<RowParts, Vec<usize>> = BTreeMap::new();
        let parts: Vec<(usize, &CarriedFields)> = (archetype.columns.iter().enumerate())
            .filter_map(|(number, column)| {
                let identity = identity(self.registry, &merged.components[column.component as usize]);
                self.parts.get(&identity).map(|parts| (number, parts))
            })
            .collect();
        if parts.is_empty() {
            return Ok(vec![archetype.clone()]);
        }
        for (row, id) in archetype.ids().iter().enumerate() {
            let mut own = RowParts::new();
            for (column, parts) in &parts {
                own.extend(parts.by_entity.get(id).into_iter().flatten().map(|part| (*column, *part)));
            }
            wanted.entry(own).or_default().push(row);
        }
        let (wanted, rows): (Vec<RowParts>, Vec<Vec<usize>>) = wanted.into_iter().unzip();
        let picked = match rows.len() {
            1 => vec![archetype.clone()],
            _ => merged.split_rows(archetype, self.limits, &rows)?,
        };
        let mut archetypes = Vec::with_capacity(wanted.len());
        for (wanted, mut picked) in wanted.into_iter().zip(picked) {
            for (column, part) in wanted {
                let component = archetype.columns[column].component;
                self.complete(merged, &mut picked, component, part)?;
            }
            archetypes.push(picked);
        }
        Ok(archetypes)
    }

    /// A component that is carried itself.
    fn carried(&mut self, merged: &mut Snapshot, record: Carried) -> Result<Vec<Carried>> {
        if record.kind == CarryKind::Fields {
            return Ok(vec![record]);
        }
        let is_resource = record.kind == CarryKind::Resource;
        let ids = if is_resource { vec![EntityId::NULL] } else { record.ids().into_owned() };
        let mut whole = Archetype { rows: ids.len(), columns: vec![record.column], ..Archetype::default() };
        whole.set_ids(&ids);
        let archetypes = self.archetype(merged, &whole)?;
        let carried = archetypes.into_iter().filter_map(|mut archetype| {
            let ids = if is_resource { record.ids.clone() } else { archetype.ids };
            Some(Carried { kind: record.kind, rows: archetype.rows, ids, column: archetype.columns.pop()? })
        });
        Ok(carried.collect())
    }

    /// Puts one part of the values of a component into the column that they have in an archetype.
    fn complete(
        &mut self,
        merged: &mut Snapshot,
        archetype: &mut Archetype,
        component: u32,
        part: usize,
    ) -> Result<()> {
        let identity = identity(self.registry, &merged.components[component as usize]);
        let of_it = |column: &Column| {
            self::identity(self.registry, &merged.components[column.component as usize]) == identity
        };
        let Some(number) = archetype.columns.iter().position(of_it) else { return Ok(()) };
        let column = archetype.columns.remove(number);
        let fields = self.parts[&identity].list[part].component;
        let component = self.component(merged, column.component, fields)?;
        let part = &self.parts[&identity].list[part];
        let saved = merged.components[column.component as usize].schema()?;
        let fields = merged.components[part.component as usize].schema()?;
        let whole = merged.components[component as usize].schema()?;
        let ids = archetype.ids();
        let dense = merged.dense(&column, ids.len(), self.limits, &|_| false)?;
        let context = LoadContext::new(self.limits);
        let value = |schema: &Schema, bytes: &[u8]| {
            decode_value(schema, Node::ROOT, &mut Reader::new(bytes, &context))
        };
        // What was one value stays one.
        let mut known: HashMap<[(*const u8, usize); 2], Bytes> = HashMap::new();
        let mut rows: Vec<Option<Bytes>> = Vec::with_capacity(ids.len());
        for (id, bytes) in ids.iter().zip(dense.iter()) {
            let row = part.numbers.get(id).and_then(|row| part.rows.get(*row));
            let (Some(bytes), Some(row)) = (bytes, row) else {
                rows.push(None);
                continue;
            };
            let place = [(bytes.as_ptr(), bytes.len()), (row.as_ptr(), row.len())];
            if let Some(merged) = known.get(&place) {
                rows.push(Some(merged.clone()));
                continue;
            }
            let value = merged_value(value(saved, bytes)?, value(fields, row)?);
            let mut out = Writer::new();
            encode_value(whole, Node::ROOT, &value, &mut out)?;
            let bytes = Bytes::from(out.finish()?);
            context.claim_memory(bytes.len(), 1)?;
            known.insert(place, bytes.clone());
            rows.push(Some(bytes));
        }
        let rows = rows.iter().map(Option::as_deref);
        let column = column_from(component, &merged.components[component as usize], rows)?;
        archetype.columns.extend(column);
        Ok(())
    }

    /// The component of one component's values with the fields of another in them.
    fn component(&mut self, merged: &mut Snapshot, saved: u32, part: u32) -> Result<u32> {
        if let Some(&number) = self.made.get(&(saved, part)) {
            return Ok(number);
        }
        let component = &merged.components[saved as usize];
        let whole = merged_schema(component.schema()?, merged.components[part as usize].schema()?);
        let component = Component {
            kind: ColumnKind::Rows,
            schema_fingerprint: whole.fingerprint(),
            row: RowLayout::default(),
            schema: Some(Arc::new(whole)),
            ..component.clone()
        };
        let number = merged.components.len() as u32;
        merged.components.push(component);
        self.made.insert((saved, part), number);
        Ok(number)
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
    let root = merged_node(&mut nodes, &mut HashMap::new(), Node::ROOT, Node(offset), 0);
    Schema::rooted(&nodes, root)
}

/// A node with the fields of both. Each pair is merged once, however often it is used.
fn merged_node(
    nodes: &mut Vec<Type>,
    known: &mut HashMap<(Node, Node), Node>,
    saved: Node,
    part: Node,
    depth: usize,
) -> Node {
    if let Some(&node) = known.get(&(saved, part)) {
        return node;
    }
    let (Type::Struct(a), Type::Struct(b)) = (&nodes[saved.index()], &nodes[part.index()]) else {
        return saved;
    };
    let (a, b): (Fields, Fields) = (a.clone(), b.clone());
    let mut fields: Vec<Field> = Vec::with_capacity(a.len() + b.len());
    for field in &a {
        let node = match b.iter().find(|part| part.name == field.name) {
            Some(part) if depth < 32 => merged_node(nodes, known, field.node, part.node, depth + 1),
            _ => field.node,
        };
        fields.push(Field::new(field.name.clone(), node));
    }
    fields.extend(b.iter().filter(|part| !a.iter().any(|field| field.name == part.name)).cloned());
    nodes.push(Type::Struct(fields.into()));
    let node = Node(nodes.len() as u32 - 1);
    known.insert((saved, part), node);
    node
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
