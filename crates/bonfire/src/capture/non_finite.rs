//! Finds NaN and infinity in what was captured, for components whose registration asks for it.

use std::collections::BTreeMap;

use crate::column::{Body, Column};
use crate::context::LoadContext;
use crate::descriptor::NonFinite;
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::registry::Registry;
use crate::schema::{FixedLeaf, Node, ROW_LEAVES_MAX, Schema, Type};
use crate::snapshot::{Note, Snapshot};
use crate::value::{Value, decode_value};
use crate::wire::Reader;

/// Applies the [`NonFinite`] policy of each component: counts such values in the notes, or fails.
pub(super) fn check(snapshot: &mut Snapshot, registry: &Registry) -> Result<()> {
    let policy = |key: &str| registry.by_key(key).map_or(NonFinite::Keep, |known| known.non_finite);
    let policies: Vec<NonFinite> =
        snapshot.components.iter().map(|component| policy(&component.key)).collect();
    let mut found: BTreeMap<u32, (usize, EntityId)> = BTreeMap::new();
    let archetypes =
        snapshot.archetypes.iter().map(|archetype| (archetype.rows, &archetype.columns, Some(archetype)));
    for (rows, columns, archetype) in archetypes.chain([(1, &snapshot.resources, None)]) {
        for column in columns.iter().filter(|column| policies[column.component as usize] != NonFinite::Keep) {
            let bad = non_finite_rows(snapshot, column, rows)?;
            if let Some(&first) = bad.first() {
                let id = || archetype.map_or(EntityId::NULL, |archetype| archetype.ids()[first]);
                found.entry(column.component).or_insert_with(|| (0, id())).0 += bad.len();
            }
        }
    }
    for (number, (count, first)) in found {
        let key = &snapshot.components[number as usize].key;
        let place = if first.is_null() { "the resource".to_owned() } else { format!("entity {first}") };
        if policies[number as usize] == NonFinite::Refuse {
            let message = format!("{count} values hold NaN or infinity, the first on {place}");
            return Err(Error::custom(message).in_key(key));
        }
        let remark = format!("holds NaN or infinity, first on {place}");
        snapshot.notes.push(Note { key: key.clone(), remark, count });
    }
    Ok(())
}

fn non_finite_rows(snapshot: &Snapshot, column: &Column, rows: usize) -> Result<Vec<usize>> {
    let component = &snapshot.components[column.component as usize];
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
                4 => row[offset..].first_chunk().is_some_and(|bytes| !f32::from_le_bytes(*bytes).is_finite()),
                _ => row[offset..].first_chunk().is_some_and(|bytes| !f64::from_le_bytes(*bytes).is_finite()),
            })
        };
        // Parts of a captured column are whole rows.
        let rows =
            rope.parts().iter().flat_map(|part| part.chunks_exact((component.row.stride as usize).max(1)));
        return Ok(rows.enumerate().filter(|(_, row)| bad(row)).map(|(number, _)| number).collect());
    }
    let limits = Limits::default();
    let context = LoadContext::new(&limits);
    let dense = snapshot.dense(column, rows, &limits, &|_| false)?;
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

/// Per leaf of a fixed schema, its bytes if it is a float and 0 if it holds none; `None` if a leaf is more than that.
fn floats(schema: &Schema) -> Option<Vec<usize>> {
    let leaves = schema.fixed_leaves(ROW_LEAVES_MAX)?;
    let float = |leaf: &FixedLeaf| match schema.get(leaf.node) {
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
