//! What is remarked while a world is saved: losses that do not stop the save, and numbers that are none.

use std::collections::BTreeMap;

use super::Snapshot;
use super::column::{Body, Column};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::registry::Registry;
use crate::schema::{Node, Schema, Type};
use crate::value::{Value, decode_value};
use crate::wire::Reader;

/// What a save does with values that hold a number which is none (NaN) or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// They are saved bit for bit like all others, and nobody looks.
    #[default]
    Keep,
    /// They are saved bit for bit, and the snapshot's notes say how many there are and where the first is.
    Report,
    /// The save fails, and the error names the entity.
    Refuse,
}

/// Something that a save remarked about a component.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The component or resource.
    pub key: String,
    /// What about it.
    pub remark: String,
    /// How many values it is about.
    pub count: usize,
}

/// Remarks of columns, counted.
#[derive(Default)]
pub(super) struct Notes(BTreeMap<(String, &'static str), usize>);

impl Notes {
    pub(super) fn add(&mut self, key: &str, remarks: Vec<&'static str>) {
        for remark in remarks {
            self.count(key, remark, 1);
        }
    }

    pub(super) fn count(&mut self, key: &str, remark: &'static str, count: usize) {
        *self.0.entry((key.to_owned(), remark)).or_default() += count;
    }

    pub(super) fn finish(self) -> Vec<Note> {
        let note =
            |((key, remark), count): ((String, &str), usize)| Note { key, remark: remark.to_owned(), count };
        self.0.into_iter().map(note).collect()
    }
}

impl Snapshot {
    /// Looks for numbers that are none in components whose registration asks for it.
    pub(super) fn check_finite(&mut self, registry: &Registry) -> Result<()> {
        let policy = |key: &str| registry.by_key(key).map_or(NonFinite::Keep, |known| known.non_finite);
        let policies: Vec<NonFinite> =
            self.components.iter().map(|component| policy(&component.key)).collect();
        let mut found: BTreeMap<u32, (usize, EntityId)> = BTreeMap::new();
        let archetypes =
            self.archetypes.iter().map(|archetype| (archetype.rows, &archetype.columns, Some(archetype)));
        for (rows, columns, archetype) in archetypes.chain([(1, &self.resources, None)]) {
            for column in
                columns.iter().filter(|column| policies[column.component as usize] != NonFinite::Keep)
            {
                let bad = self.non_finite_rows(column, rows)?;
                if let Some(&first) = bad.first() {
                    let id = || archetype.map_or(EntityId::NULL, |archetype| archetype.ids()[first]);
                    found.entry(column.component).or_insert_with(|| (0, id())).0 += bad.len();
                }
            }
        }
        for (number, (count, first)) in found {
            let key = &self.components[number as usize].key;
            let place = if first.is_null() { "the resource".to_owned() } else { format!("entity {first}") };
            if policies[number as usize] == NonFinite::Refuse {
                let message = format!("{count} values hold NaN or infinity, the first on {place}");
                return Err(Error::custom(message).in_key(key));
            }
            let remark = format!("holds NaN or infinity, first on {place}");
            self.notes.push(Note { key: key.clone(), remark, count });
        }
        Ok(())
    }

    fn non_finite_rows(&self, column: &Column, rows: usize) -> Result<Vec<usize>> {
        let component = &self.components[column.component as usize];
        let schema = component.schema()?;
        if let (Body::Raw(rope), None, Some(floats)) = (&column.body, &column.present, floats(schema)) {
            let offsets: Vec<(usize, usize)> = component
                .row
                .offsets
                .iter()
                .zip(floats)
                .filter(|(_, size)| *size > 0)
                .map(|(&offset, size)| (offset as usize, size))
                .collect();
            let bad = |row: &[u8]| {
                offsets.iter().any(|&(offset, size)| match size {
                    4 => row[offset..]
                        .first_chunk()
                        .is_some_and(|bytes| !f32::from_le_bytes(*bytes).is_finite()),
                    _ => row[offset..]
                        .first_chunk()
                        .is_some_and(|bytes| !f64::from_le_bytes(*bytes).is_finite()),
                })
            };
            // Parts of a captured column are whole rows.
            let rows = rope
                .parts()
                .iter()
                .flat_map(|part| part.chunks_exact((component.row.stride as usize).max(1)));
            return Ok(rows.enumerate().filter(|(_, row)| bad(row)).map(|(number, _)| number).collect());
        }
        let limits = Limits::default();
        let context = LoadContext::new(&limits);
        let dense = self.dense(column, rows, &limits, &|_| false)?;
        let mut bad = Vec::new();
        for (number, row) in dense.iter().enumerate() {
            if let Some(row) = row
                && has_non_finite(&decode_value(schema, Node::ROOT, &mut Reader::new(row, &context))?)
            {
                bad.push(number);
            }
        }
        Ok(bad)
    }
}

/// Per leaf of a fixed schema, its bytes if it is a float and 0 if it holds none; `None` if a leaf is more than that.
fn floats(schema: &Schema) -> Option<Vec<usize>> {
    let leaves = schema.fixed_leaves(crate::row::ROW_LEAVES_MAX)?;
    let float = |leaf: &crate::schema::FixedLeaf| match schema.get(leaf.node) {
        Type::F32 => Some(4),
        Type::F64 => Some(8),
        other => other.children().next().is_none().then_some(0),
    };
    leaves.iter().map(float).collect()
}

fn has_non_finite(value: &Value) -> bool {
    match value {
        Value::F32(number) => !number.is_finite(),
        Value::F64(number) => !number.is_finite(),
        Value::Some(inner) | Value::Enum(_, inner) => has_non_finite(inner),
        Value::List(items) | Value::Tuple(items) => items.iter().any(has_non_finite),
        Value::Map(pairs) => pairs.iter().any(|(key, value)| has_non_finite(key) || has_non_finite(value)),
        Value::Struct(fields) => fields.iter().any(|(_, value)| has_non_finite(value)),
        _ => false,
    }
}
