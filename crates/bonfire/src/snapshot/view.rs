//! Reading a snapshot where it lies: ids, columns as `&[T]`, or as values without types.

use std::borrow::Cow;

use super::{Archetype, Snapshot};
use crate::bulk;
use crate::column::{Column, Component};
use crate::entity::{EntityId, ids_from_bytes};
use crate::error::Result;
use crate::limits::Limits;
use crate::persist::Persist;
use crate::schema::Schema;
use crate::value::{Value, decode_value};
use crate::wire::Reader;

impl Snapshot {
    /// All archetypes.
    pub fn archetypes(&self) -> impl ExactSizeIterator<Item = ArchetypeView<'_>> {
        self.archetypes.iter().map(|archetype| ArchetypeView { snapshot: self, archetype })
    }

    /// All resources; each is a column of one row.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = ColumnView<'_>> {
        self.resources.iter().map(|column| ColumnView { snapshot: self, column, rows: 1 })
    }

    /// Columns that the saving build carried without knowing them, with the entities they belong to (none for a
    /// resource).
    pub fn carried(&self) -> impl ExactSizeIterator<Item = (Cow<'_, [EntityId]>, ColumnView<'_>)> {
        (self.carried.iter()).map(|record| {
            (record.ids(), ColumnView { snapshot: self, column: &record.column, rows: record.rows })
        })
    }
}

/// Entities with the same components.
#[derive(Clone, Copy)]
pub struct ArchetypeView<'s> {
    snapshot: &'s Snapshot,
    archetype: &'s Archetype,
}

impl<'s> ArchetypeView<'s> {
    /// How many entities there are.
    pub fn len(&self) -> usize {
        self.archetype.rows
    }
    /// Never, in a snapshot: archetypes without entities are not saved.
    pub fn is_empty(&self) -> bool {
        self.archetype.rows == 0
    }
    /// Their ids, in row order.
    pub fn ids(&self) -> Cow<'s, [EntityId]> {
        self.archetype.ids()
    }
    /// The same, part by part where they lie in several: in a capture that shares memory with others, 2048 in each part but
    /// the last.
    pub fn id_parts(&self) -> impl Iterator<Item = Cow<'s, [EntityId]>> + use<'s> {
        self.archetype.ids.parts().iter().map(|part| ids_from_bytes(Cow::Borrowed(part)))
    }
    /// Their columns, sorted by component.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = ColumnView<'s>> + use<'s> {
        let (snapshot, rows) = (self.snapshot, self.archetype.rows);
        self.archetype.columns.iter().map(move |column| ColumnView { snapshot, column, rows })
    }
    /// The column of a component.
    pub fn column(&self, key: &str) -> Option<ColumnView<'s>> {
        self.columns().find(|column| column.component().key == key)
    }
}

/// The values of one component in one archetype.
#[derive(Clone, Copy)]
pub struct ColumnView<'s> {
    snapshot: &'s Snapshot,
    column: &'s Column,
    rows: usize,
}

impl<'s> ColumnView<'s> {
    /// Which component it is.
    pub fn component(&self) -> &'s Component {
        &self.snapshot.components[self.column.component as usize]
    }
    /// How it is stored: `tag`, `raw`, `rows`, `dictionary` or `shared`.
    pub fn encoding(&self) -> &'static str {
        self.column.body.encoding()
    }
    /// How many entities have a value.
    pub fn len(&self) -> usize {
        self.column.rows
    }
    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.column.rows == 0
    }
    /// Whether only some entities of the archetype have a value.
    pub fn is_sparse(&self) -> bool {
        self.column.present.is_some()
    }
    /// Whether the entity in this row has a value.
    pub fn is_present(&self, row: usize) -> bool {
        row < self.rows && self.column.present.as_ref().is_none_or(|present| present.get(row))
    }
    /// The bytes of all values.
    pub fn byte_len(&self) -> usize {
        self.column.body.len()
    }

    /// The values where they lie, if that is possible: a raw column of the same schema and layout as `T`, aligned, on a
    /// little-endian host, whose every value is one that `T` has. If some entities have none, theirs are left out.
    #[expect(unsafe_code, reason = "bytes as values")]
    pub fn as_slice<T: Persist>(&self) -> Option<&'s [T]> {
        let crate::column::Body::Raw(rope) = &self.column.body else { return None };
        let Cow::Borrowed(bytes) = rope.contiguous() else { return None };
        if self.component().schema_fingerprint != Schema::of::<T>().fingerprint() {
            return None;
        }
        // SAFETY: the layout is that of `T`.
        unsafe { bulk::view(bytes, &self.component().row, &T::LAYOUT.get(), self.column.rows) }?.ok()
    }

    /// One value or nothing per entity of the archetype, read by the saved schema.
    pub fn values(&self, limits: &Limits) -> Result<Vec<Option<Value>>> {
        let component = self.component();
        let context = crate::context::LoadContext::new(limits);
        context.grant_rows(self.rows);
        let read = || {
            let schema = component.schema()?;
            let dense = self.snapshot.dense(self.column, self.rows, limits, &|_| false)?;
            let value = |(row, bytes): (usize, Option<&[u8]>)| {
                let Some(bytes) = bytes else { return Ok(None) };
                let mut input = Reader::new(bytes, &context);
                let value = decode_value(schema, crate::schema::Node::ROOT, &mut input)
                    .and_then(|value| input.finish().map(|()| value));
                value.map(Some).map_err(|error| error.in_field(format_args!("row {row}")))
            };
            dense.iter().enumerate().map(value).collect::<Result<Vec<_>>>()
        };
        read().map_err(|error: crate::error::Error| error.in_key(&component.key))
    }
}
