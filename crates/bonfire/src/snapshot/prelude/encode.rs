//! Puts columns into their section and writes down where they went.

use std::sync::Arc;

use bytes::Bytes;

use super::{SCHEMA_INLINE, encoding};
use crate::column::{Body, Column, ColumnKind, Component, Groups, Indices};
use crate::entity::EntityId;
use crate::schema::Schema;
use crate::snapshot::carry::Carried;
use crate::snapshot::section::SectionPieces;
use crate::snapshot::{FORMAT_VERSION, Snapshot};
use crate::storage::{BLOCK_BYTES, Rope};
use crate::wire::Writer;

/// Puts columns into their section and writes down where they went.
pub(in crate::snapshot) struct Describer<'a> {
    pub(in crate::snapshot) out: Writer,
    pub(in crate::snapshot) columns: &'a mut SectionPieces,
}

impl Describer<'_> {
    fn part(&mut self, offset: u64, len: usize) {
        self.out.varint(offset);
        self.out.varint(len as u64);
    }

    fn bytes(&mut self, bytes: &Bytes) {
        let offset = self.columns.len();
        self.columns.push_parts([bytes.clone()], bytes.len() >= BLOCK_BYTES);
        self.part(offset, bytes.len());
    }

    /// Raw rows and ids, aligned.
    fn rope(&mut self, rope: &Rope, stride: usize) {
        self.columns.align();
        let offset = self.columns.len();
        self.columns.push_rows(rope, stride);
        self.part(offset, rope.len());
    }

    fn groups(&mut self, groups: &Groups) {
        self.out.varint(groups.groups.len() as u64);
        for group in &groups.groups {
            self.out.varint(u64::from(group.rows));
            self.out.varint(group.bytes);
        }
        let offset = self.columns.len();
        let mut at = 0;
        for group in &groups.groups {
            let end = at + group.bytes as usize;
            self.columns.push_parts([groups.bytes.slice(at..end)], groups.groups.len() > 1);
            at = end;
        }
        self.part(offset, groups.bytes.len());
    }

    fn indices(&mut self, indices: &Indices) {
        self.out.u8(indices.width);
        self.bytes(&indices.bytes);
    }

    fn column(&mut self, column: &Column, components: &[Component]) {
        self.out.varint(u64::from(column.component));
        let encoding = match &column.body {
            Body::Tag => encoding::TAG,
            Body::Raw(_) => encoding::RAW,
            Body::Rows(_) => encoding::ROWS,
            Body::Dictionary { .. } => encoding::DICTIONARY,
            Body::Shared { .. } => encoding::SHARED,
        };
        match &column.present {
            None => self.out.u8(encoding),
            Some(present) => {
                self.out.u8(encoding | encoding::PRESENCE);
                self.out.varint(column.rows as u64);
                self.bytes(&Bytes::copy_from_slice(present.as_bytes()));
            }
        }
        match &column.body {
            Body::Tag => {}
            Body::Raw(rope) => self.rope(rope, components[column.component as usize].row.stride as usize),
            Body::Rows(groups) => self.groups(groups),
            Body::Dictionary { values, indices } => {
                self.groups(values);
                self.indices(indices);
            }
            Body::Shared { table, indices } => {
                self.out.varint(u64::from(*table));
                self.indices(indices);
            }
        }
    }

    pub(in crate::snapshot) fn prelude(&mut self, snapshot: &Snapshot, inline: &dyn Fn(usize) -> bool) {
        self.out.u16(FORMAT_VERSION);
        self.out.u64(snapshot.next_entity_id);
        self.out.varint(snapshot.entity_count() as u64);
        self.out.varint(snapshot.components.len() as u64);
        for (number, component) in snapshot.components.iter().enumerate() {
            let out = &mut self.out;
            out.text(&component.key);
            out.varint(u64::from(component.version));
            out.u8(ColumnKind::ALL.iter().position(|kind| *kind == component.kind).unwrap_or(0) as u8);
            out.u8(if inline(number) && component.schema.is_some() { SCHEMA_INLINE } else { 0 });
            out.raw(&component.schema_fingerprint.0);
            out.varint(u64::from(component.row.stride));
            if component.row.stride > 0 {
                out.varint(component.row.offsets.len() as u64);
                component.row.offsets.iter().for_each(|offset| out.varint(u64::from(*offset)));
                out.raw(&component.layout_fingerprint().0);
            }
        }
        self.out.varint(snapshot.shared.len() as u64);
        for table in &snapshot.shared {
            self.out.varint(u64::from(table.component));
            self.groups(&table.values);
        }
        self.out.varint(snapshot.archetypes.len() as u64);
        for archetype in &snapshot.archetypes {
            self.out.varint(archetype.rows as u64);
            self.rope(&archetype.ids, size_of::<EntityId>());
            self.out.varint(archetype.columns.len() as u64);
            archetype.columns.iter().for_each(|column| self.column(column, &snapshot.components));
        }
        self.out.varint(snapshot.resources.len() as u64);
        snapshot.resources.iter().for_each(|column| self.column(column, &snapshot.components));
        self.out.varint(0); // extensions
    }

    pub(in crate::snapshot) fn carry(&mut self, carried: &[Carried], components: &[Component]) {
        self.out.varint(carried.len() as u64);
        for record in carried {
            self.out.u8(record.kind.number());
            self.out.varint(record.rows as u64);
            self.rope(&record.ids, size_of::<EntityId>());
            self.column(&record.column, components);
        }
    }
}

/// Every distinct schema once, by its fingerprint.
pub(in crate::snapshot) fn encode_schemas(mut schemas: Vec<&Arc<Schema>>) -> Vec<u8> {
    if schemas.is_empty() {
        return Vec::new();
    }
    schemas.sort_by_key(|schema| schema.fingerprint());
    schemas.dedup_by_key(|schema| schema.fingerprint());
    let mut out = Writer::new();
    out.varint(schemas.len() as u64);
    for schema in schemas {
        out.raw(&schema.fingerprint().0);
        out.blob(&schema.to_bytes());
    }
    out.into_memory()
}
