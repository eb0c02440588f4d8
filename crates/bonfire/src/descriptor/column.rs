//! A column of one component, out of a world and back.
//!
//! Each bulk path has a portable twin that goes through `encode` and `decode` row by row and gives the same bytes and
//! the same values; big-endian hosts use only the twins, and property tests compare the two.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::Unencodable;
use super::codec::RowCodec;
use super::erased_column::{EncodeFailure, Encoded, EncodedBody, Encoding, ErasedColumn, RowEnds, Treatment};
use super::staged::StagedColumn;
use crate::bulk::{self, CopyPath, LITTLE_ENDIAN, RawRows};
use crate::column::{Arena, Body, Column, Component, GroupCutter, Groups};
use crate::context::{LoadContext, SaveContext, Sessions};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::row::{Move, RowLayout, copy_leaves};
use crate::storage::{Bitmap, Rope};
use crate::wire::{Reader, Writer};

type SkipIf<T> = Arc<dyn Fn(&T) -> bool + Send + Sync>;
type Replace<T> = Arc<dyn Fn(&T) -> T + Send + Sync>;
type ShareValue<T> = fn(&T) -> T;

pub(super) struct TypedColumn<C: RowCodec> {
    codec: Arc<C>,
    layout: Layout,
    row: RowLayout,
    skip: Option<SkipIf<C::Row>>,
    replace: Option<Replace<C::Row>>,
    share: Option<ShareValue<C::Row>>,
}

impl<C: RowCodec> Clone for TypedColumn<C> {
    fn clone(&self) -> Self {
        Self {
            codec: Arc::clone(&self.codec),
            layout: self.layout,
            row: self.row.clone(),
            skip: self.skip.clone(),
            replace: self.replace.clone(),
            share: self.share,
        }
    }
}

impl<C: RowCodec> TypedColumn<C> {
    pub(super) fn new(codec: C, layout: Layout, row: RowLayout) -> Self {
        Self { codec: Arc::new(codec), layout, row, skip: None, replace: None, share: None }
    }

    /// The name of its session.
    fn session_address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes the session of the save or load, or a new one.
    fn take_session(&self, sessions: &Sessions) -> C::Session {
        if size_of::<C::Session>() == 0 {
            return C::Session::default();
        }
        let open = sessions.take(self.session_address()).and_then(|session| session.downcast().ok());
        open.map_or_else(C::Session::default, |session| *session)
    }

    fn keep_session(&self, sessions: &Sessions, session: C::Session) {
        if size_of::<C::Session>() > 0 {
            sessions.keep(self.session_address(), Box::new(session));
        }
    }

    /// The rows of a column that lies in several parts, each of whole rows, where they are.
    ///
    /// # Safety
    /// The layout must be that of the row type.
    #[expect(unsafe_code, reason = "bytes as values")]
    unsafe fn view_parts<'s>(
        &self,
        rope: &'s Rope,
        component: &Component,
    ) -> Option<Result<Vec<&'s [C::Row]>>> {
        let stride = (component.row.stride as usize).max(1);
        let whole = |part: &bytes::Bytes| part.len().is_multiple_of(stride);
        if rope.parts().len() < 2 || !rope.parts().iter().all(whole) {
            return None;
        }
        let views = rope.parts().iter().map(|part| {
            // SAFETY: the caller vouches for the layout.
            unsafe { bulk::view::<C::Row>(part, &component.row, &self.layout, part.len() / stride) }
        });
        let views: Option<Vec<_>> = views.collect();
        views.map(|views| views.into_iter().collect())
    }

    /// Takes a column whose rows need no decoding, by view or by copy. Returns nothing for all others.
    #[expect(unsafe_code, reason = "rows become values of their type")]
    fn decode_bulk<'s>(&self, column: &'s Column, component: &Component) -> Option<Result<StagedColumn<'s>>> {
        let (count, present) = (column.rows, || column.present.clone());
        let owned = |rows: Result<Vec<C::Row>>| Some(rows.map(|rows| StagedColumn::owned(rows, present())));
        match &column.body {
            Body::Tag if self.layout.data_size() == 0 => {
                // SAFETY: the layout and what fills its gaps are those of the row type.
                owned(unsafe {
                    bulk::scatter(&[], &RowLayout::default(), &self.layout, count, fill_skipped::<C>)
                })
            }
            Body::Raw(rope) => {
                // SAFETY: the layout is that of the row type.
                if let Some(parts) = unsafe { self.view_parts(rope, component) } {
                    return Some(parts.map(|parts| StagedColumn::in_parts(parts, present())));
                }
                let bytes = rope.contiguous();
                if let Cow::Borrowed(bytes) = bytes {
                    // SAFETY: the layout is that of the row type.
                    let rows = unsafe { bulk::view::<C::Row>(bytes, &component.row, &self.layout, count) };
                    if let Some(rows) = rows {
                        return Some(rows.map(|rows| StagedColumn::borrowed(rows, present())));
                    }
                }
                // SAFETY: the layout and what fills its gaps are those of the row type.
                owned(unsafe {
                    bulk::scatter(&bytes, &component.row, &self.layout, count, fill_skipped::<C>)
                })
            }
            _ => None,
        }
    }

    fn staging<'a>(
        &'a self,
        context: &'a LoadContext<'a>,
        count: usize,
        share: Option<ShareValue<C::Row>>,
    ) -> Result<RowStaging<'a, C>> {
        let (rows, session) = (bulk::reserve(count)?, self.take_session(&context.sessions));
        Ok(RowStaging { codec: &self.codec, context, session, count, share, rows, lost: vec![] })
    }

    fn staged<'s>(&self, staging: RowStaging<'_, C>, present: Option<&Bitmap>) -> StagedColumn<'s> {
        let RowStaging { rows, lost, count, session, context, .. } = staging;
        self.keep_session(&context.sessions, session);
        StagedColumn::owned(rows, Bitmap::without(present, count, &lost))
    }

    /// Encodes rows one by one. Returns which were left out, if any.
    fn encode_rows<'a>(
        &self,
        rows: impl ExactSizeIterator<Item = &'a C::Row>,
        out: &mut Writer,
        (session, context): (&mut C::Session, &SaveContext<'_>),
        mut failed: impl FnMut(usize, Error, Treatment) -> Result<()>,
        mut ended: impl FnMut(usize),
    ) -> Result<Option<Bitmap>> {
        let mut present: Option<Bitmap> = None;
        let count = rows.len();
        for (i, row) in rows.enumerate() {
            let start = out.len();
            let mut kept = !self.skip.as_ref().is_some_and(|skip| skip(row))
                && self.codec.encode(row, out, session, context);
            if out.has_failed()
                && let Err(error) = out.take_error()
            {
                out.truncate(start);
                let treatment = self.replace_row(row, start, out, (session, context));
                failed(i, error, treatment)?;
                kept = treatment == Treatment::Replaced;
            }
            if kept {
                ended(out.len());
            } else {
                present.get_or_insert_with(|| Bitmap::full(count)).clear(i);
            }
        }
        Ok(present)
    }

    /// Encodes the replacement of a row that could not be encoded, if there is one and it can be.
    #[cold]
    fn replace_row(
        &self,
        row: &C::Row,
        start: usize,
        out: &mut Writer,
        (session, context): (&mut C::Session, &SaveContext<'_>),
    ) -> Treatment {
        let is_written = { self.replace.as_ref() }
            .is_some_and(|replace| self.codec.encode(&replace(row), out, session, context));
        match out.take_error() {
            Ok(()) if is_written => Treatment::Replaced,
            _ => {
                out.truncate(start);
                Treatment::Skipped
            }
        }
    }
}

impl<C: RowCodec> ErasedColumn for TypedColumn<C> {
    #[expect(unsafe_code, reason = "rows without their type")]
    unsafe fn encode(
        &self,
        rows: RawRows<'_>,
        arena: &mut Arena,
        Encoding { row_ends, unencodable, context }: Encoding<'_>,
    ) -> Result<Encoded> {
        let count = rows.len();
        let encoded = |present, rows, body| Encoded { present, rows, body, notes: vec![], failures: vec![] };
        let raw = self.layout.is_bulk();
        if raw && self.skip.is_none() && arena.copies.is_bulk() {
            if self.row.stride == 0 {
                return Ok(encoded(None, count, EncodedBody::Tag));
            }
            let checked = arena.checksums;
            let (mut slot, memory) = arena.claim(count * self.row.stride as usize);
            if checked {
                // SAFETY: the caller vouches for the rows; the layout is that of the row type.
                let checksums = unsafe { bulk::gather_checked(rows, &self.layout, &self.row, memory) };
                slot.checksums = Some(checksums);
            } else {
                // SAFETY: as above.
                unsafe { bulk::gather(rows, &self.layout, &self.row, memory) };
            }
            return Ok(encoded(None, count, EncodedBody::Raw(slot)));
        }
        // SAFETY: the caller vouches for the rows.
        let rows = unsafe { rows.iter::<C::Row>() };
        let mut out = arena.scratch();
        let mut ends = Vec::with_capacity(if row_ends == RowEnds::Keep { count } else { 0 });
        let mut groups = GroupCutter::default();
        let mut failures: Vec<EncodeFailure> = Vec::new();
        let failed = |row, error, treatment| {
            if treatment == Treatment::Skipped && unencodable == Unencodable::Refuse {
                return Err(error);
            }
            match failures.iter_mut().find(|failure| failure.treatment == treatment) {
                Some(failure) => failure.rows += 1,
                None => failures.push(EncodeFailure { treatment, error, first_row: row, rows: 1 }),
            }
            Ok(())
        };
        let mut session = self.take_session(&context.sessions);
        let present = self.encode_rows(rows, &mut out, (&mut session, context), failed, |end| {
            groups.row(end);
            if row_ends == RowEnds::Keep {
                ends.push(end);
            }
        })?;
        self.keep_session(&context.sessions, session);
        let (kept, groups) = groups.finish();
        let notes = out.take_notes();
        if !raw {
            let body = EncodedBody::Rows { bytes: out, groups, ends };
            return Ok(Encoded { present, rows: kept, body, notes, failures });
        }
        // The portable twin: encoded rows have their leaves in the order of the schema; put them where they belong.
        let body = if self.row.stride == 0 {
            EncodedBody::Tag
        } else {
            let (slot, memory) = arena.claim(kept * self.row.stride as usize);
            let moves = dense_moves(&self.layout, &self.row);
            copy_leaves(out.as_bytes(), self.layout.data_size(), memory, self.row.stride as usize, &moves);
            EncodedBody::Raw(slot)
        };
        arena.recycle(out);
        Ok(Encoded { present, rows: kept, body, notes, failures })
    }

    fn end_save(&self, sessions: &Sessions) -> Result<()> {
        self.codec.end_save(self.take_session(sessions))
    }

    fn end_load(&self, sessions: &Sessions) -> Result<()> {
        self.codec.end_load(self.take_session(sessions))
    }

    fn raw_stride(&self) -> Option<usize> {
        let raw = self.layout.is_bulk() && self.skip.is_none() && LITTLE_ENDIAN && self.row.stride > 0;
        raw.then_some(self.row.stride as usize)
    }

    #[expect(unsafe_code, reason = "rows without their type")]
    unsafe fn gather(&self, rows: RawRows<'_>, range: Range<usize>, out: &mut [u8]) {
        // SAFETY: the caller vouches for the rows; the layout is that of the row type.
        unsafe { bulk::gather_some(rows, range, &self.layout, &self.row, out) };
    }

    fn decode<'s>(
        &self,
        column: &'s Column,
        component: &Component,
        shared: Option<&'s Groups>,
        context: &LoadContext<'_>,
        copies: CopyPath,
    ) -> Result<StagedColumn<'s>> {
        let count = column.rows;
        context.claim_memory(count, size_of::<C::Row>())?;
        let bulk = self.layout.is_bulk() && copies.is_bulk();
        if bulk && let Some(rows) = self.decode_bulk(column, component) {
            return rows;
        }
        let mut staging = self.staging(context, count, self.share)?;
        match &column.body {
            Body::Tag => {
                let mut input = Reader::new(&[], context);
                (0..count).try_for_each(|row| staging.row(row, &mut input))?;
            }
            Body::Raw(rope) => {
                let bytes = rope.contiguous();
                let leaves = component.row.check(component.schema()?)?;
                let moves = component.row.moves_to_encoded(leaves);
                let dense = leaves.iter().map(|leaf| leaf.size as usize).sum();
                let mut row_bytes = vec![0; dense];
                for (i, row) in bytes.chunks_exact(component.row.stride as usize).enumerate() {
                    copy_leaves(row, row.len(), &mut row_bytes, dense, &moves);
                    let mut input = Reader::new(&row_bytes, context);
                    staging.row(i, &mut input)?;
                    input.finish()?;
                }
            }
            Body::Rows(groups) => staging.groups(groups)?,
            Body::Dictionary { values, indices } => {
                let spans = values.spans(component.schema()?, context.limits)?;
                staging.indexed(&values.bytes, spans, indices.iter())?;
            }
            Body::Shared { indices, .. } => {
                let values = shared.ok_or_else(|| Error::corrupt("shared values are missing"))?;
                let spans = values.spans(component.schema()?, context.limits)?;
                staging.indexed(&values.bytes, spans, indices.iter())?;
            }
        }
        Ok(self.staged(staging, column.present.as_ref()))
    }

    fn decode_each<'s>(
        &self,
        count: usize,
        present: Option<&Bitmap>,
        context: &LoadContext<'_>,
        next: &mut dyn FnMut(&mut Writer) -> Result<()>,
    ) -> Result<StagedColumn<'s>> {
        context.claim_memory(count, size_of::<C::Row>())?;
        let mut staging = self.staging(context, count, None)?;
        let mut bytes = Writer::new();
        for number in 0..count {
            bytes.clear();
            next(&mut bytes)?;
            let mut input = Reader::new(bytes.as_bytes(), context);
            staging.row(number, &mut input)?;
            input.finish()?;
        }
        Ok(self.staged(staging, present))
    }

    #[expect(unsafe_code, reason = "rows without their type")]
    unsafe fn differing(&self, a: *const u8, b: *const u8, len: usize, found: &mut dyn FnMut(usize)) {
        if self.layout.is_bulk() && LITTLE_ENDIAN && self.skip.is_none() {
            // SAFETY: the layout is that of the row type, and the caller vouches for the rows.
            return unsafe { bulk::differing(a, b, len, &self.layout, &self.row, found) };
        }
        let (mut left, mut right) = (Writer::new(), Writer::new());
        let (mut session, context) = (C::Session::default(), SaveContext::new());
        // SAFETY: the caller vouches for the rows.
        let (a, b) = unsafe {
            (std::slice::from_raw_parts(a.cast::<C::Row>(), len), std::slice::from_raw_parts(b.cast(), len))
        };
        for (row, (a, b)) in a.iter().zip(b).enumerate() {
            left.clear();
            right.clear();
            let mut kept = |value, out: &mut Writer| {
                let kept = !self.skip.as_ref().is_some_and(|skip| skip(value))
                    && self.codec.encode(value, out, &mut session, &context);
                // What cannot be saved is like nothing else.
                (out.take_error().is_ok(), kept)
            };
            let same = kept(a, &mut left) == (true, true)
                && kept(b, &mut right) == (true, true)
                && left.as_bytes() == right.as_bytes();
            if !same {
                found(row);
            }
        }
    }

    fn with_skip(&self, skip: Arc<dyn Any + Send + Sync>) -> Arc<dyn ErasedColumn> {
        let skip = skip.downcast::<SkipIf<C::Row>>().ok().map(|skip| Arc::clone(&*skip));
        Arc::new(Self { skip, ..self.clone() })
    }

    fn with_replacement(&self, replace: Arc<dyn Any + Send + Sync>) -> Arc<dyn ErasedColumn> {
        let replace = replace.downcast::<Replace<C::Row>>().ok().map(|replace| Arc::clone(&*replace));
        Arc::new(Self { replace, ..self.clone() })
    }

    fn with_share(&self, share: Arc<dyn Any + Send + Sync>) -> Arc<dyn ErasedColumn> {
        let share = share.downcast::<ShareValue<C::Row>>().ok().map(|share| *share);
        Arc::new(Self { share, ..self.clone() })
    }
}

#[inline]
#[expect(unsafe_code, reason = "completes rows that were copied in bulk")]
fn fill_skipped<C: RowCodec>(row: *mut C::Row) {
    // SAFETY: `scatter` calls it for rows whose leaves are written and checked.
    unsafe { C::LAYOUT.fill(row) }
}

/// Rows as they are decoded. A row may decide to be left out; its place among the column's rows is remembered.
struct RowStaging<'a, C: RowCodec> {
    codec: &'a C,
    context: &'a LoadContext<'a>,
    session: C::Session,
    count: usize,
    share: Option<ShareValue<C::Row>>,
    rows: Vec<C::Row>,
    lost: Vec<usize>,
}

impl<C: RowCodec> RowStaging<'_, C> {
    #[inline]
    fn row(&mut self, number: usize, input: &mut Reader<'_>) -> Result<()> {
        let row = self.codec.decode(input, &mut self.session);
        match row.map_err(|error| error.in_field(format_args!("row {number}")))? {
            Some(row) if !self.context.row_is_dropped() => self.rows.push(row),
            _ => self.lost.push(number),
        }
        Ok(())
    }

    fn groups(&mut self, groups: &Groups) -> Result<()> {
        let mut number = 0;
        for (group, bytes) in groups.iter() {
            let mut input = Reader::new(bytes, self.context);
            for _ in 0..group.rows {
                self.row(number, &mut input)?;
                number += 1;
            }
            input.finish()?;
        }
        if number != self.count {
            return Err(Error::corrupt(format!("{number} rows of {}", self.count)));
        }
        Ok(())
    }

    fn indexed(
        &mut self,
        bytes: &[u8],
        spans: &[(usize, usize)],
        indices: impl Iterator<Item = u32>,
    ) -> Result<()> {
        // By value, the row that was made of it first.
        let mut made: Vec<Option<usize>> = vec![None; if self.share.is_some() { spans.len() } else { 0 }];
        for (number, index) in indices.enumerate() {
            let Some(&(start, end)) = spans.get(index as usize) else {
                return Err(Error::corrupt(format!(
                    "row {number} refers to value {index} of {}",
                    spans.len()
                )));
            };
            if let (Some(share), Some(Some(first))) = (self.share, made.get(index as usize)) {
                self.rows.push(share(&self.rows[*first]));
                continue;
            }
            let before = self.rows.len();
            self.row(number, &mut Reader::new(&bytes[start..end], self.context))?;
            if let Some(made) = made.get_mut(index as usize) {
                *made = (self.rows.len() > before).then_some(before);
            }
        }
        Ok(())
    }
}

/// From encoded rows, whose leaves are in the order of the schema, to raw ones.
fn dense_moves(layout: &Layout, row: &RowLayout) -> Vec<Move> {
    let mut at = 0;
    let step = |(leaf, &offset): (&crate::layout::Leaf, &u32)| {
        let (from, len) = (at, leaf.size as usize);
        at += len;
        Move { from, to: offset as usize, len }
    };
    layout.leaves().iter().zip(&row.offsets).map(step).collect()
}
