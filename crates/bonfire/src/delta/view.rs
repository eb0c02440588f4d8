//! A delta as tools show it.

use super::fields::chosen;
use super::{Delta, Group, Op};
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::schema::Node;
use crate::snapshot::Component;
use crate::snapshot::column::Body;
use crate::snapshot::dense::dense_rows;
use crate::value::{Value, decode_value};
use crate::{context::LoadContext, wire::Reader};

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
    pub op: Op,
    /// Which of its fields are told, by their place among the leaves; all if it is empty.
    pub fields: Vec<usize>,
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
                    Op::Removed => stats.removed_components += rows,
                    Op::Added => stats.added_components += change.column.rows,
                    Op::Changed => stats.changed_values += change.column.rows,
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
            let byte_len = change.column.body.len();
            ColumnChange { component, op: change.op, fields, byte_len, group, change }
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
        if self.op == Op::Removed {
            return Ok(Some(vec![None; rows]));
        }
        let schema = self.component.schema()?;
        let dense = dense_rows(&self.change.column, self.component, None, rows, limits, &|_| false)?;
        let context = LoadContext::new(limits);
        context.grant_rows(rows);
        let value = |bytes: Option<&[u8]>| {
            let Some(bytes) = bytes else { return Ok(None) };
            decode_value(schema, Node::ROOT, &mut Reader::new(bytes, &context)).map(Some)
        };
        dense.iter().map(value).collect::<Result<_>>().map(Some)
    }

    /// The values of some fields, if only those are told: per entity, field by field.
    pub fn field_values(&self, limits: &Limits) -> Result<Vec<Vec<Value>>> {
        let Some(leaves) = super::fields::leaves(self.component) else { return Ok(Vec::new()) };
        let (Body::Raw(rope), schema) = (&self.change.column.body, self.component.schema()?) else {
            return Ok(Vec::new());
        };
        let context = LoadContext::new(limits);
        let bytes = rope.contiguous();
        let mut input = Reader::new(&bytes, &context);
        let mut row = || {
            let leaves = chosen(&leaves, self.change.fields);
            leaves.map(|(_, leaf)| decode_value(schema, leaf.node, &mut input)).collect()
        };
        (0..self.change.column.rows).map(|_| row()).collect()
    }
}
