//! The values of a snapshot, component by component of a table and row by row.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use bytes::Bytes;

use super::ComponentTable;
use crate::column::{Body, Column, Component, DenseRows, plain_column_from};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::snapshot::Snapshot;
use crate::storage::{AlignedBuf, PageLayout};

/// A column of a snapshot.
pub(super) struct Cells<'s> {
    snapshot: &'s Snapshot,
    column: &'s Column,
    rows: usize,
    raw: Option<RawCells<'s>>,
    dense: OnceCell<DenseRows>,
}

/// Rows as the table has them, where they lie.
struct RawCells<'s> {
    parts: &'s [Bytes],
    rows_each: usize,
    stride: usize,
}

impl<'s> RawCells<'s> {
    fn of(column: &'s Column, stride: usize) -> Option<Self> {
        let Body::Raw(rope) = &column.body else { return None };
        let (parts, cut) = (rope.parts(), PageLayout::of(stride));
        let paged = parts.iter().rev().skip(1).all(|part| part.len() == cut.page_bytes);
        let rows_each = if parts.len() == 1 { column.rows } else { cut.page_rows };
        (column.present.is_none() && paged).then_some(Self { parts, rows_each, stride })
    }

    /// Rows from `row` on that lie in one piece, at most `len`.
    fn stretch(&self, row: usize, len: usize) -> &'s [u8] {
        let (part, at) = (row / self.rows_each, row % self.rows_each);
        let len = len.min(self.rows_each - at);
        let bytes = &self.parts[part][at * self.stride..];
        &bytes[..bytes.len().min(len * self.stride)]
    }
}

impl<'s> Cells<'s> {
    fn new(snapshot: &'s Snapshot, column: &'s Column, rows: usize, component: &Component) -> Result<Self> {
        let own = &snapshot.components[column.component as usize];
        if own.schema_fingerprint != component.schema_fingerprint {
            let message = "it was saved by a build with another type: load the save first";
            return Err(Error::schema(message).in_key(&own.key));
        }
        let raw = (own.row == component.row && own.row.stride > 0)
            .then(|| RawCells::of(column, own.row.stride as usize))
            .flatten();
        Ok(Self { snapshot, column, rows, raw, dense: OnceCell::new() })
    }

    fn is_plain_tag(&self) -> bool {
        matches!(self.column.body, Body::Tag) && self.column.present.is_none()
    }

    pub(super) fn dense(&self) -> Result<&DenseRows> {
        if let Some(dense) = self.dense.get() {
            return Ok(dense);
        }
        let dense = self.snapshot.dense(self.column, self.rows, &Limits::default(), &|_| false)?;
        Ok(self.dense.get_or_init(|| dense))
    }

    /// Whether a row has a value.
    pub(super) fn has(&self, row: usize) -> bool {
        self.column.present.as_ref().is_none_or(|present| present.get(row))
    }

    /// Calls `found` with those of `len` rows, from the given ones on, that are not the same.
    pub(super) fn differing(
        &self,
        row: usize,
        other: &Self,
        other_row: usize,
        len: usize,
        mut found: impl FnMut(usize),
    ) -> Result<()> {
        if self.is_plain_tag() && other.is_plain_tag() {
            return Ok(());
        }
        if let (Some(a), Some(b)) = (&self.raw, &other.raw) {
            let mut at = 0;
            while at < len {
                let (a, b) = (a.stretch(row + at, len - at), b.stretch(other_row + at, len - at));
                let bytes = a.len().min(b.len());
                let stride = bytes_per_row(&self.raw);
                // Pages that two captures share are the same.
                let same = std::ptr::eq(a.as_ptr(), b.as_ptr()) || a[..bytes] == b[..bytes];
                if !same {
                    let rows = a[..bytes].chunks_exact(stride).zip(b[..bytes].chunks_exact(stride));
                    rows.enumerate().filter(|(_, (a, b))| a != b).for_each(|(place, _)| found(at + place));
                }
                at += bytes / stride;
            }
            return Ok(());
        }
        let (a, b) = (self.dense()?, other.dense()?);
        for place in 0..len {
            if a.get(row + place) != b.get(other_row + place) {
                found(place);
            }
        }
        Ok(())
    }
}

fn bytes_per_row(raw: &Option<RawCells<'_>>) -> usize {
    raw.as_ref().map_or(1, |raw| raw.stride)
}

/// Each archetype's columns, by number in the table.
pub(super) struct AllCells<'s>(Vec<BTreeMap<u32, Cells<'s>>>);

impl<'s> AllCells<'s> {
    pub(super) fn new(table: &ComponentTable, snapshot: &'s Snapshot) -> Result<Self> {
        let archetypes = snapshot.archetypes.iter().map(|archetype| {
            cells_of(table, snapshot, &archetype.columns, archetype.rows).collect::<Result<_>>()
        });
        archetypes.collect::<Result<_>>().map(Self)
    }

    pub(super) fn of(&self, archetype: usize) -> &BTreeMap<u32, Cells<'s>> {
        &self.0[archetype]
    }

    /// A column of these rows, which all have a value.
    pub(super) fn column(
        &self,
        number: u32,
        component: &Component,
        rows: &[(usize, usize)],
    ) -> Result<Column> {
        let cells = |archetype: usize| &self.0[archetype][&number];
        let raw: Option<Vec<&RawCells<'_>>> = rows.iter().map(|&(at, _)| cells(at).raw.as_ref()).collect();
        if let Some(raw) = raw {
            let stride = component.row.stride as usize;
            let mut bytes = AlignedBuf::zeroed(stride * rows.len());
            for ((to, raw), &(_, row)) in bytes.as_mut().chunks_exact_mut(stride).zip(raw).zip(rows) {
                to.copy_from_slice(raw.stretch(row, 1));
            }
            let body = Body::Raw(bytes.share().into());
            return Ok(Column { component: number, present: None, rows: rows.len(), body });
        }
        let values = rows.iter().map(|&(at, row)| Ok(cells(at).dense()?.get(row)));
        let values = values.collect::<Result<Vec<_>>>()?;
        let nothing = || Column { component: number, present: None, rows: 0, body: Body::Tag };
        Ok(plain_column_from(number, component, values.into_iter())?.unwrap_or_else(nothing))
    }
}

/// Columns by number in the table. What the table does not have is carried, and not told.
pub(super) fn cells_of<'s>(
    table: &ComponentTable,
    snapshot: &'s Snapshot,
    columns: &'s [Column],
    rows: usize,
) -> impl Iterator<Item = Result<(u32, Cells<'s>)>> {
    columns.iter().filter_map(move |column| {
        let key = &snapshot.components[column.component as usize].key;
        let number = table.number(key)?;
        Some(Cells::new(snapshot, column, rows, table.get(number)).map(|cells| (number, cells)))
    })
}
