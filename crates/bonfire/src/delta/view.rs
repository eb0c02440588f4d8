//! A delta as tools show it.

use super::fields::{FIELDS_MAX, chosen};
use super::{Delta, DeltaOp, Group};
use crate::column::{Body, Column, Component, dense_rows};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::schema::{Node, Schema, Type};
use crate::value::{Value, decode_value};
use crate::wire::Reader;

/// Names of fields that lie deeper are cut.
const NAMED_DEPTH_MAX: usize = 8;

/// How much a delta tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct DeltaStats {
    pub spawned: usize,
    pub despawned: usize,
    /// Entities of which something else is told.
    pub changed: usize,
    pub added_components: usize,
    pub removed_components: usize,
    pub changed_values: usize,
    pub resources: usize,
    /// Bytes of all values.
    pub value_bytes: usize,
}

/// Entities of which the same is told.
#[derive(Clone, Copy)]
pub struct GroupView<'d> {
    delta: &'d Delta,
    group: &'d Group,
}

/// What is told of one component of a group.
pub struct ColumnChange<'d> {
    /// Which component.
    pub component: &'d Component,
    /// What became of it.
    pub op: DeltaOp,
    /// Which of its fields are told, by their place among the leaves; all if it is empty.
    pub fields: Vec<usize>,
    /// How many of the entities have it afterwards, with a value that is told.
    pub rows: usize,
    /// Bytes of the values.
    pub byte_len: usize,
    group: &'d Group,
    change: &'d super::Change,
}

impl Delta {
    /// How much it tells.
    pub fn stats(&self) -> DeltaStats {
        let mut stats = DeltaStats {
            despawned: self.despawned.len(),
            resources: self.resources.len(),
            ..DeltaStats::default()
        };
        for group in &self.groups {
            let rows = group.ids.len();
            *if group.spawned { &mut stats.spawned } else { &mut stats.changed } += rows;
            for change in &group.changes {
                stats.value_bytes += change.column.body.len();
                match change.op {
                    _ if group.spawned => {}
                    DeltaOp::Removed => stats.removed_components += rows,
                    DeltaOp::Added => stats.added_components += change.column.rows,
                    DeltaOp::Changed => stats.changed_values += change.column.rows,
                }
            }
        }
        let resources = self.resources.iter().flat_map(|(_, column)| column);
        stats.value_bytes += resources.map(|column| column.body.len()).sum::<usize>();
        stats
    }

    /// Its groups.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = GroupView<'_>> {
        self.groups.iter().map(|group| GroupView { delta: self, group })
    }

    /// The keys of resources that it tells of, and whether they are there.
    pub fn resources(&self) -> impl Iterator<Item = (&str, bool)> {
        self.resources.iter().map(|(number, column)| (&*self.table.get(*number).key, column.is_some()))
    }

    /// The value of a resource that it tells of; `None` if the resource is gone, or not told of.
    pub fn resource_value(&self, key: &str, limits: &Limits) -> Result<Option<Value>> {
        let found = self.resources.iter().find(|(number, _)| self.table.get(*number).key == key);
        let Some((number, Some(column))) = found else { return Ok(None) };
        let values = values(column, self.table.get(*number), 1, limits)?;
        Ok(values.into_iter().next().flatten())
    }

    /// Lists of sources in their order: the key of the relationship, the target, the sources.
    pub fn lists_by_key(&self) -> impl ExactSizeIterator<Item = (&str, EntityId, &[EntityId])> {
        let table = &self.table;
        self.lists.iter().map(|list| (&*table.get(list.component).key, list.target, &*list.sources))
    }
}

impl<'d> GroupView<'d> {
    /// Whether they have come.
    pub fn spawned(&self) -> bool {
        self.group.spawned
    }
    /// Their ids.
    pub fn ids(&self) -> &'d [EntityId] {
        &self.group.ids
    }
    /// What is told of them.
    pub fn changes(&self) -> impl Iterator<Item = ColumnChange<'d>> + use<'d> {
        let Self { delta, group } = *self;
        group.changes.iter().map(move |change| {
            let fields = (0..64).filter(|bit| change.fields >> bit & 1 == 1).collect();
            let component = delta.table.get(change.column.component);
            let (rows, byte_len) = (change.column.rows, change.column.body.len());
            ColumnChange { component, op: change.op, fields, rows, byte_len, group, change }
        })
    }
}

impl ColumnChange<'_> {
    /// One value or nothing per entity. `None` if only some fields are told.
    pub fn values(&self, limits: &Limits) -> Result<Option<Vec<Option<Value>>>> {
        if self.change.fields != 0 {
            return Ok(None);
        }
        let rows = self.group.ids.len();
        if self.op == DeltaOp::Removed {
            return Ok(Some(vec![None; rows]));
        }
        values(&self.change.column, self.component, rows, limits).map(Some)
    }

    /// The names of the fields that are told, in the order of [`fields`](Self::fields): `x`, `rotation.w`. What has no name
    /// has its place among the leaves.
    pub fn field_names(&self) -> Vec<String> {
        let names = self.component.schema().map(|schema| leaf_names(schema)).unwrap_or_default();
        let name = |&place: &usize| names.get(place).cloned().unwrap_or_else(|| place.to_string());
        self.fields.iter().map(name).collect()
    }

    /// The values of some fields, if only those are told: per entity, field by field, or nothing.
    pub fn field_values(&self, limits: &Limits) -> Result<Vec<Option<Vec<Value>>>> {
        let Some(leaves) = super::fields::leaves(self.component) else { return Ok(Vec::new()) };
        let column = &self.change.column;
        let (Body::Raw(rope), schema) = (&column.body, self.component.schema()?) else {
            return Ok(Vec::new());
        };
        let context = LoadContext::new(limits);
        let bytes = rope.contiguous();
        let mut input = Reader::new(&bytes, &context);
        let mut row = |place: usize| {
            if column.present.as_ref().is_some_and(|present| !present.get(place)) {
                return Ok(None);
            }
            let leaves = chosen(leaves, self.change.fields);
            leaves
                .map(|(_, leaf)| decode_value(schema, leaf.node, &mut input))
                .collect::<Result<_>>()
                .map(Some)
        };
        (0..self.group.ids.len()).map(&mut row).collect()
    }
}

/// One value or nothing per row of a column.
fn values(
    column: &Column,
    component: &Component,
    rows: usize,
    limits: &Limits,
) -> Result<Vec<Option<Value>>> {
    let schema = component.schema()?;
    let dense = dense_rows(column, component, None, rows, limits, &|_| false)?;
    let context = LoadContext::new(limits);
    context.grant_rows(rows);
    let value = |bytes: Option<&[u8]>| {
        let Some(bytes) = bytes else { return Ok(None) };
        decode_value(schema, Node::ROOT, &mut Reader::new(bytes, &context)).map(Some)
    };
    dense.iter().map(value).collect()
}

/// The names of all leaves of a raw row, in the order of [`Schema::fixed_leaves`].
fn leaf_names(schema: &Schema) -> Vec<String> {
    let sizes = schema.fixed_sizes();
    let mut names = Vec::new();
    let mut stack = vec![(Node::ROOT, String::new(), 0)];
    while let Some((node, name, depth)) = stack.pop() {
        let parts: Vec<(Node, String)> = match schema.get(node) {
            Type::Struct(fields) => fields.iter().map(|field| (field.node, field.name.to_string())).collect(),
            ty @ Type::Tuple(_) => {
                ty.children().enumerate().map(|(place, node)| (node, place.to_string())).collect()
            }
            _ => {
                names.push(name);
                continue;
            }
        };
        for (node, part) in parts.into_iter().rev() {
            let size = sizes[node.index()];
            if size == Some(0) {
                continue;
            }
            // What cannot be a raw row has no leaves, and hostile schemas are large.
            if size.is_none() || names.len() + stack.len() > FIELDS_MAX {
                return Vec::new();
            }
            let part = match name.as_str() {
                "" => part,
                _ if depth >= NAMED_DEPTH_MAX => name.clone(),
                name => format!("{name}.{part}"),
            };
            stack.push((node, part, depth + 1));
        }
    }
    names
}
