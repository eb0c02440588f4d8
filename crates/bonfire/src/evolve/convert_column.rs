//! Runs steps on bytes over the rows of a column, one by one, between two buffers that are swapped.

use std::sync::Arc;

use bytes::Bytes;

use super::upgrade_path::{ByteStep, UpgradeContext};
use crate::column::{Body, Column, Component, Group, Groups, group_rows};
use crate::context::LoadContext;
use crate::convert::{ConversionScratch, FixedRows, skip, write_dynamic};
use crate::error::{Error, Result};
use crate::row::{Move, RowLayout, copy_leaves};
use crate::schema::{Node, Schema, Type, fixed_sizes};
use crate::value::decode_value;
use crate::wire::{Reader, Writer};

/// The steps that a row goes through, and what they need.
pub(super) struct RowConverter<'j> {
    steps: &'j [ByteStep],
    context: &'j LoadContext<'j>,
    scratch: &'j mut ConversionScratch,
    /// What steps with even numbers write, and what the others do.
    buffers: (Writer, Writer),
    end: RowEnd,
    done: usize,
}

impl<'j> RowConverter<'j> {
    pub(super) fn new(
        steps: &'j [ByteStep],
        rows: usize,
        context: &'j LoadContext<'j>,
        scratch: &'j mut ConversionScratch,
    ) -> Self {
        // A row may have several parts without bytes: as many as its type has, and not more.
        let parts = steps.iter().map(ByteStep::parts).sum::<usize>();
        context.grant_rows(rows.saturating_mul(parts));
        let end = RowEnd::of(steps[0].source());
        Self { steps, context, scratch, buffers: (Writer::new(), Writer::new()), end, done: 0 }
    }

    /// Takes the next row of `input` through all steps.
    #[inline]
    pub(super) fn one(&mut self, input: &mut Reader<'_>, out: &mut Writer) -> Result<()> {
        let number = self.done;
        self.done += 1;
        self.all_steps(input, out).map_err(|error| error.in_field(format_args!("row {number}")))
    }

    fn all_steps(&mut self, input: &mut Reader<'_>, out: &mut Writer) -> Result<()> {
        let Self { steps, context, scratch, buffers: (even, odd), end, .. } = self;
        let last = steps.len() - 1;
        for (number, step) in steps.iter().enumerate() {
            // Each step reads what the one before it wrote.
            let (read, written) = if number % 2 == 0 { (&*odd, &mut *even) } else { (&*even, &mut *odd) };
            let out = if number == last {
                &mut *out
            } else {
                written.clear();
                written
            };
            match step {
                ByteStep::ByName { conversion, .. } if number == 0 => conversion.run(input, out, scratch)?,
                step if number == 0 => {
                    let row = end.row(step.source(), input)?;
                    run(step, row, out, context, scratch)?;
                }
                step => run(step, read.as_bytes(), out, context, scratch)?,
            }
            out.take_error()?;
        }
        Ok(())
    }

    /// Takes all rows of some groups through all steps.
    fn groups(mut self, groups: &Groups) -> Result<Groups> {
        self.context.grant_rows(groups.rows() as usize);
        let mut rows = Converted::with_capacity(groups.rows() as usize, groups.bytes.len());
        for (group, bytes) in groups.iter() {
            let mut input = Reader::new(bytes, self.context);
            for _ in 0..group.rows {
                rows.add(self.context, |out| self.one(&mut input, out))?;
            }
            input.finish()?;
        }
        Ok(rows.finish())
    }
}

/// How the end of a row is found, for steps that must be told.
enum RowEnd {
    Fixed(usize),
    /// It begins with its length.
    Counted,
    Walked(Vec<Option<u64>>),
}

impl RowEnd {
    fn of(schema: &Schema) -> Self {
        let sizes = fixed_sizes(schema.nodes(), Some(8));
        if let Some(size) = sizes[0].and_then(|size| usize::try_from(size).ok()) {
            return Self::Fixed(size);
        }
        let mut ty = schema.root();
        // What a value is wrapped in leaves no trace. A type that wraps itself has no values.
        for _ in 0..schema.nodes().len() {
            match ty {
                Type::Text | Type::Bytes => return Self::Counted,
                Type::Tuple(fields) | Type::Struct(fields) if fields.len() == 1 => {
                    ty = schema.get(fields[0].node);
                }
                _ => break,
            }
        }
        Self::Walked(sizes)
    }

    #[inline]
    fn row<'a>(&self, schema: &Schema, input: &mut Reader<'a>) -> Result<&'a [u8]> {
        let (bytes, start) = (input.rest(), input.offset());
        match self {
            Self::Fixed(size) => return input.raw(*size),
            Self::Counted => {
                input.blob()?;
            }
            Self::Walked(sizes) => skip(schema.nodes(), sizes, Node::ROOT, input)?,
        }
        Ok(&bytes[..input.offset() - start])
    }
}

/// One step of one row.
#[inline]
fn run(
    step: &ByteStep,
    row: &[u8],
    out: &mut Writer,
    context: &LoadContext<'_>,
    scratch: &mut ConversionScratch,
) -> Result<()> {
    let mut input = Reader::new(row, context);
    match step {
        ByteStep::ByName { conversion, .. } => conversion.run(&mut input, out, scratch)?,
        ByteStep::Upgrade { upgrade, .. } => upgrade(&mut input, out)?,
        ByteStep::Values { source, target, upgrades } => {
            let value = decode_value(source, Node::ROOT, &mut input)?;
            let value = upgrades.iter().try_fold(value, |value, upgrade| upgrade(value))?;
            write_dynamic(target.ruled_nodes(), Node::ROOT, &value, out, &mut scratch.lost)?;
        }
    }
    match input.remaining() {
        0 => Ok(()),
        left => Err(Error::schema(format!("an upgrader left {left} bytes of the old value unread"))),
    }
}

/// The encoded rows of a column, one by one.
pub(super) enum SavedRows<'a> {
    Tag(Reader<'a>),
    Raw {
        rows: Vec<u8>,
        stride: usize,
        next: usize,
        encoded: Vec<u8>,
        moves: Vec<Move>,
        context: &'a LoadContext<'a>,
    },
    Rows {
        groups: Box<dyn Iterator<Item = (Group, &'a [u8])> + 'a>,
        left: u32,
        input: Reader<'a>,
        context: &'a LoadContext<'a>,
    },
}

impl<'a> SavedRows<'a> {
    pub(super) fn new(
        column: &'a Column,
        component: &Component,
        context: &'a LoadContext<'a>,
    ) -> Result<Self> {
        context.grant_rows(column.rows);
        Ok(match &column.body {
            Body::Raw(rope) => {
                let leaves = component.row.check(component.schema()?)?;
                Self::Raw {
                    rows: rope.to_vec(),
                    stride: component.row.stride as usize,
                    next: 0,
                    encoded: vec![0; leaves.iter().map(|leaf| leaf.size as usize).sum()],
                    moves: component.row.moves_to_encoded(leaves),
                    context,
                }
            }
            Body::Rows(groups) => Self::Rows {
                groups: Box::new(groups.iter()),
                left: 0,
                input: Reader::new(&[], context),
                context,
            },
            _ => Self::Tag(Reader::new(&[], context)),
        })
    }

    /// Hands over the next row.
    #[inline]
    pub(super) fn next(&mut self, take: impl FnOnce(&mut Reader<'_>) -> Result<()>) -> Result<()> {
        let short = || Error::corrupt("a column has fewer rows than it says");
        match self {
            Self::Tag(input) => take(input),
            Self::Raw { rows, stride, next, encoded, moves, context } => {
                let row = rows.get(*next..*next + *stride).ok_or_else(short)?;
                *next += *stride;
                let size = encoded.len();
                copy_leaves(row, row.len(), encoded, size, moves);
                let mut input = Reader::new(encoded, context);
                take(&mut input)?;
                input.finish()
            }
            Self::Rows { groups, left, input, context } => {
                while *left == 0 {
                    let (group, bytes) = groups.next().ok_or_else(short)?;
                    (*left, *input) = (group.rows, Reader::new(bytes, context));
                }
                *left -= 1;
                take(input)?;
                if *left == 0 { input.clone().finish() } else { Ok(()) }
            }
        }
    }
}

/// Whether rows of a column can be decoded as they come out of the last step: they are not stored once for many, and there
/// is no faster way.
pub(super) fn is_direct(steps: &[ByteStep], column: &Column, component: &Component) -> bool {
    match &column.body {
        Body::Tag | Body::Rows(_) => true,
        Body::Raw(_) => fixed(steps, component).is_none(),
        Body::Dictionary { .. } | Body::Shared { .. } => false,
    }
}

/// The way for whole raw columns, if there is one.
fn fixed<'s>(steps: &'s [ByteStep], component: &Component) -> Option<(&'s FixedRows, &'s RowLayout)> {
    let [ByteStep::ByName { conversion, row, fixed }] = steps else { return None };
    let fixed = fixed.get_or_init(|| FixedRows::new(conversion, &component.row, row).map(Box::new));
    fixed.as_deref().map(|fixed| (fixed, row))
}

/// Takes all rows of a column through steps. Values that are stored once are converted once; shared ones are returned too.
pub(super) fn convert_column(
    steps: &[ByteStep],
    column: &Column,
    component: &Component,
    shared: Option<&Groups>,
    upgrade: &mut UpgradeContext<'_>,
) -> Result<(Column, Component, Option<Groups>)> {
    let target = steps[steps.len() - 1].target();
    let mut result = Component {
        row: RowLayout::default(),
        schema_fingerprint: target.fingerprint(),
        schema: Some(Arc::clone(target)),
        ..component.clone()
    };
    let context = upgrade.unmapped;
    let mut table = None;
    let body = match &column.body {
        Body::Raw(rope) if let Some((fixed, row)) = fixed(steps, component) => {
            result.row = row.clone();
            Body::Raw(fixed.run(&rope.contiguous(), context)?.share().into())
        }
        Body::Tag | Body::Raw(_) | Body::Rows(_) => {
            let mut source = SavedRows::new(column, component, context)?;
            let mut rows = RowConverter::new(steps, column.rows, context, upgrade.scratch);
            let mut converted = Converted::with_capacity(column.rows, column.body.len());
            for _ in 0..column.rows {
                converted.add(context, |out| source.next(|input| rows.one(input, out)))?;
            }
            let groups = converted.finish();
            if groups.bytes.is_empty() { Body::Tag } else { Body::Rows(groups) }
        }
        Body::Dictionary { values, indices } => {
            let values =
                RowConverter::new(steps, values.rows() as usize, context, upgrade.scratch).groups(values)?;
            Body::Dictionary { values, indices: indices.clone() }
        }
        Body::Shared { table: number, indices } => {
            let values = match upgrade.tables.get(number) {
                Some(values) => values.clone(),
                None => {
                    let shared = shared.ok_or_else(|| Error::corrupt("shared values are missing"))?;
                    let values = RowConverter::new(steps, shared.rows() as usize, context, upgrade.scratch)
                        .groups(shared)?;
                    upgrade.tables.insert(*number, values.clone());
                    values
                }
            };
            table = Some(values);
            Body::Shared { table: *number, indices: indices.clone() }
        }
    };
    let Column { component, present, rows, .. } = column;
    Ok((Column { component: *component, present: present.clone(), rows: *rows, body }, result, table))
}

/// Rows that came out of the last step.
struct Converted {
    bytes: Writer,
    ends: Vec<usize>,
}

impl Converted {
    fn with_capacity(rows: usize, bytes: usize) -> Self {
        // A save of a few bytes may say that it has very many rows.
        let ends = Vec::with_capacity(rows.min(1 << 20));
        Self { bytes: Writer::with_memory(Vec::with_capacity(bytes + bytes / 2)), ends }
    }

    fn add(&mut self, context: &LoadContext<'_>, row: impl FnOnce(&mut Writer) -> Result<()>) -> Result<()> {
        let before = self.bytes.len();
        row(&mut self.bytes)?;
        self.ends.push(self.bytes.len());
        context.claim_memory(self.bytes.len() - before + size_of::<usize>(), 1)
    }

    fn finish(self) -> Groups {
        Groups::new(Bytes::from(self.bytes.into_memory()), group_rows(&self.ends))
    }
}
