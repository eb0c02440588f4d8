//! Rows of any column as encoded values, one by one: for tools, for the JSON table, for carrying, for the canonical
//! form, for salvage. The fast paths never come here.

use std::collections::HashMap;

use bytes::Bytes;

use super::{Body, Column, Component, Groups, Indices, group_rows, row_spans};
use crate::context::LoadContext;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::row::copy_leaves;
use crate::schema::{Node, Schema};
use crate::storage::Bitmap;
use crate::value::{decode_value, encode_value};
use crate::wire::{Reader, Writer};

/// The rows of an archetype for one component; `None` for entities that do not have it.
pub(crate) struct DenseRows {
    bytes: Bytes,
    spans: Vec<Option<(usize, usize)>>,
}

impl DenseRows {
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        self.spans[row].map(|(start, end)| &self.bytes[start..end])
    }
    /// As [`DenseRows::get`], sharing memory with all rows that have the same value.
    pub(crate) fn shared(&self, row: usize) -> Option<Bytes> {
        self.spans[row].map(|(start, end)| self.bytes.slice(start..end))
    }
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }
}

pub(crate) fn dense_rows(
    column: &Column,
    component: &Component,
    shared: Option<&Groups>,
    rows: usize,
    limits: &Limits,
    lost: &dyn Fn(usize) -> bool,
) -> Result<DenseRows> {
    let schema = component.schema()?;
    let (bytes, spans): (Bytes, Vec<(usize, usize)>) = match &column.body {
        Body::Tag => (Bytes::new(), vec![(0, 0); column.rows]),
        Body::Raw(rope) => {
            let leaves = component.row.check(schema)?;
            let size: usize = leaves.iter().map(|leaf| leaf.size as usize).sum();
            let moves = component.row.moves_to_encoded(leaves);
            let raw = rope.shared();
            let spans = (0..column.rows).map(|row| (row * size, (row + 1) * size)).collect();
            let dense = if moves.len() == 1 && size == component.row.stride as usize {
                raw
            } else {
                LoadContext::new(limits).claim_memory(column.rows, size)?;
                let mut dense = vec![0; size * column.rows];
                copy_leaves(&raw, component.row.stride as usize, &mut dense, size, &moves);
                dense.into()
            };
            (dense, spans)
        }
        Body::Rows(groups) => (groups.bytes.clone(), row_spans(groups, schema, limits, lost)?),
        Body::Dictionary { values, indices } => {
            let spans = pick(values.spans(schema, limits)?, indices.iter(), lost)?;
            (values.bytes.clone(), spans)
        }
        Body::Shared { indices, .. } => {
            let values = shared.ok_or_else(|| Error::corrupt("shared values are missing"))?;
            let spans = pick(values.spans(schema, limits)?, indices.iter(), lost)?;
            (values.bytes.clone(), spans)
        }
    };
    let mut own = 0;
    let spans = (0..rows)
        .map(|row| {
            if column.present.as_ref().is_some_and(|present| !present.get(row)) {
                return None;
            }
            own += 1;
            if lost(own - 1) { None } else { spans.get(own - 1).copied() }
        })
        .collect();
    Ok(DenseRows { bytes, spans })
}

fn pick(
    spans: &[(usize, usize)],
    indices: impl Iterator<Item = u32>,
    lost: &dyn Fn(usize) -> bool,
) -> Result<Vec<(usize, usize)>> {
    indices
        .enumerate()
        .map(|(row, index)| match spans.get(index as usize) {
            Some(&span) => Ok(span),
            None if lost(row) => Ok((0, 0)),
            None => Err(Error::corrupt(format!("row {row} refers to value {index} of {}", spans.len()))),
        })
        .collect()
}

/// A column made of encoded values: raw if the component has a row layout, else rows, or a dictionary of values that share
/// their memory if that is smaller by half. `None` if nobody has it.
pub(crate) fn column_from<'a>(
    number: u32,
    component: &Component,
    rows: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
) -> Result<Option<Column>> {
    column_with(number, component, rows, true)
}

/// As [`column_from`], never as a dictionary.
pub(crate) fn plain_column_from<'a>(
    number: u32,
    component: &Component,
    rows: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
) -> Result<Option<Column>> {
    column_with(number, component, rows, false)
}

fn column_with<'a>(
    number: u32,
    component: &Component,
    rows: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
    repeats: bool,
) -> Result<Option<Column>> {
    let count = rows.clone().flatten().count();
    if count == 0 {
        return Ok(None);
    }
    let present = Bitmap::from_rows(rows.clone().map(|row| row.is_some()));
    let body = if component.row.stride > 0 {
        let leaves = component.row.check(component.schema()?)?;
        let size: usize = leaves.iter().map(|leaf| leaf.size as usize).sum();
        let moves = component.row.moves_from_encoded(leaves);
        let stride = component.row.stride as usize;
        let mut raw = crate::storage::AlignedBuf::zeroed(stride * count);
        for (to, from) in raw.as_mut().chunks_exact_mut(stride).zip(rows.flatten()) {
            if from.len() != size {
                return Err(Error::corrupt(format!("a row of {} bytes, {size} expected", from.len())));
            }
            copy_leaves(from, size, to, stride, &moves);
        }
        Body::Raw(raw.share().into())
    } else if let Some(body) = repeats.then(|| dictionary_from(rows.clone().flatten(), count)).flatten() {
        body
    } else {
        let groups = groups_from(rows.flatten());
        if groups.bytes.is_empty() { Body::Tag } else { Body::Rows(groups) }
    };
    Ok(Some(Column { component: number, present, rows: count, body }))
}

fn groups_from<'a>(rows: impl Iterator<Item = &'a [u8]>) -> Groups {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for row in rows {
        bytes.extend_from_slice(row);
        ends.push(bytes.len());
    }
    Groups::new(Bytes::from(bytes), group_rows(&ends))
}

/// Values that lie in the same place are one. What a few bytes of a dictionary stood for must not be spelled out.
fn dictionary_from<'a>(rows: impl Iterator<Item = &'a [u8]>, count: usize) -> Option<Body> {
    let mut known: HashMap<(*const u8, usize), u32> = HashMap::new();
    let (mut values, mut numbers) = (Vec::new(), Vec::with_capacity(count));
    let (mut all, mut distinct) = (0, 0);
    for row in rows {
        all += row.len();
        let place = if row.is_empty() { std::ptr::null() } else { row.as_ptr() };
        numbers.push(*known.entry((place, row.len())).or_insert_with(|| {
            values.push(row);
            distinct += row.len();
            values.len() as u32 - 1
        }));
    }
    let width = Indices::width_for(values.len());
    if distinct == 0 || all < 2 * (distinct + numbers.len() * usize::from(width)) {
        return None;
    }
    let indices = Indices { width, bytes: Bytes::from(Indices::encode(&numbers, width)) };
    Some(Body::Dictionary { values: groups_from(values.into_iter()), indices })
}

/// An encoded value with its references mapped.
pub(crate) fn remap(schema: &Schema, bytes: &[u8], context: &LoadContext<'_>) -> Result<Vec<u8>> {
    transform(schema, bytes, context, |_| {})
}

/// An encoded value, changed on the way.
pub(crate) fn transform(
    schema: &Schema,
    bytes: &[u8],
    context: &LoadContext<'_>,
    change: impl FnOnce(&mut crate::value::Value),
) -> Result<Vec<u8>> {
    let mut input = Reader::new(bytes, context);
    let mut value = decode_value(schema, Node::ROOT, &mut input)?;
    input.finish()?;
    change(&mut value);
    let mut out = Writer::new();
    encode_value(schema, Node::ROOT, &value, &mut out)?;
    out.finish()
}
