//! What happens to the rows of one saved component: nothing, a conversion by name, or a chain of steps between versions.
//!
//! Steps on bytes run row by row between two scratch buffers that are swapped, typed steps run column by column. Where the
//! two meet, rows are decoded or encoded. References are mapped once, when rows become values of this build.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::change::Change;
use super::convert::Conversion;
use super::fields::UnknownFields;
use super::fixed::FixedRows;
use super::lenient;
use super::run::{Running, row};
use super::step::{Convert, OnBytes, OnValues, Step, StepKind};
use crate::context::LoadContext;
use crate::descriptor::{Descriptor, StagedColumn, group_rows, permute};
use crate::error::{Error, Result};
use crate::row::RowLayout;
use crate::schema::{Node, Schema, fixed_sizes};
use crate::snapshot::Component;
use crate::snapshot::column::{Body, Column, Groups};
use crate::value::decode_value;
use crate::wire::{Reader, Writer};

/// From the bytes of a saved component to rows of a registered one.
pub(crate) struct Way {
    links: Vec<Link>,
    pub(crate) changes: Vec<Change>,
    /// How many steps between versions there are.
    pub(crate) steps: usize,
    /// Fields that are carried if unknown things are kept.
    pub(crate) unknown: Option<UnknownFields>,
}

enum Link {
    /// Rows as bytes, by steps that run one after the other for each row.
    Bytes(Vec<ByteStep>),
    /// Rows as values of older types, up to the one that is written again, if any.
    Typed { old: Box<Descriptor>, converts: Vec<Convert>, again: Option<Box<Descriptor>> },
}

enum ByteStep {
    ByName { conversion: Conversion, row: RowLayout, fixed: OnceLock<Option<FixedRows>> },
    Upgrade { source: Arc<Schema>, target: Arc<Schema>, upgrade: Arc<OnBytes> },
    Values { source: Arc<Schema>, target: Arc<Schema>, upgrades: Vec<Arc<OnValues>> },
}

impl ByteStep {
    fn target(&self) -> &Arc<Schema> {
        match self {
            Self::ByName { conversion, .. } => conversion.target(),
            Self::Upgrade { target, .. } | Self::Values { target, .. } => target,
        }
    }
    fn source(&self) -> &Arc<Schema> {
        match self {
            Self::ByName { conversion, .. } => conversion.source(),
            Self::Upgrade { source, .. } | Self::Values { source, .. } => source,
        }
    }
}

impl Way {
    /// From a saved schema through some steps to a registered component.
    pub(crate) fn new(saved: &Arc<Schema>, path: Vec<Step>, descriptor: &Descriptor) -> Result<Self> {
        let mut way = Self { links: Vec::new(), changes: Vec::new(), steps: path.len(), unknown: None };
        let mut at = Arc::clone(saved);
        let mut path = path.into_iter().peekable();
        let mut is_typed = false;
        while let Some(step) = path.next() {
            is_typed = false;
            match step.kind {
                StepKind::Typed { old, new, convert } => {
                    at = way
                        .by_name(at, &old.schema, &old.row)
                        .map_err(|error| in_version(error, step.from))?;
                    let (mut converts, mut last) = (vec![convert], new);
                    while let Some(StepKind::Typed { .. }) = path.peek().map(|step| &step.kind)
                        && let Some(Step { kind: StepKind::Typed { new, convert, .. }, .. }) = path.next()
                    {
                        converts.push(convert);
                        last = new;
                    }
                    is_typed = path.peek().is_none();
                    if !is_typed {
                        at = Arc::clone(&last.schema);
                    }
                    let again = (!is_typed).then_some(last);
                    way.links.push(Link::Typed { old, converts, again });
                }
                StepKind::Bytes { source, target, upgrade } => {
                    way.by_name(at, &source, &RowLayout::default())
                        .map_err(|error| in_version(error, step.from))?;
                    at = Arc::clone(&target);
                    way.bytes(ByteStep::Upgrade { source, target, upgrade });
                }
                StepKind::Values(upgrade) => {
                    let mut upgrades = vec![upgrade];
                    while let Some(StepKind::Values(_)) = path.peek().map(|step| &step.kind)
                        && let Some(Step { kind: StepKind::Values(upgrade), .. }) = path.next()
                    {
                        upgrades.push(upgrade);
                    }
                    let next = path.peek().and_then(|step| step.kind.source()).unwrap_or(&descriptor.schema);
                    let target = Arc::clone(next);
                    way.bytes(ByteStep::Values { source: at, target: Arc::clone(&target), upgrades });
                    at = target;
                }
            }
        }
        if !is_typed {
            way.by_name(at, &descriptor.schema, &descriptor.row)?;
        }
        if let ([Link::Bytes(steps)], 0) = (&*way.links, way.steps)
            && let [ByteStep::ByName { conversion, .. }] = &**steps
        {
            way.unknown = UnknownFields::of(conversion);
        } else {
            way.changes.iter_mut().for_each(|change| {
                if let Change::Unknown { field } = change {
                    *change = Change::Dropped { field: std::mem::take(field) };
                }
            });
        }
        Ok(way)
    }

    fn by_name(&mut self, from: Arc<Schema>, to: &Arc<Schema>, row: &RowLayout) -> Result<Arc<Schema>> {
        if from.fingerprint() == to.fingerprint() {
            return Ok(from);
        }
        let conversion = Conversion::new(from, Arc::clone(to))?;
        self.changes.extend(conversion.changes.iter().cloned());
        if !conversion.is_identity() {
            self.bytes(ByteStep::ByName { conversion, row: row.clone(), fixed: OnceLock::new() });
        }
        Ok(Arc::clone(to))
    }

    fn bytes(&mut self, step: ByteStep) {
        match self.links.last_mut() {
            Some(Link::Bytes(steps)) => steps.push(step),
            _ => self.links.push(Link::Bytes(vec![step])),
        }
    }
}

fn in_version(error: Error, version: u32) -> Error {
    error.in_field(format_args!("version {version}"))
}

/// A load that rows go through.
pub(crate) struct Journey<'a> {
    pub(crate) mapped: &'a LoadContext<'a>,
    pub(crate) unmapped: &'a LoadContext<'a>,
    pub(crate) portable: bool,
    /// Shared values of a component that were converted already, by their table.
    pub(crate) tables: &'a mut HashMap<u32, Groups>,
    pub(crate) running: &'a mut Running,
}

impl Way {
    /// Takes a column to rows of the registered component.
    pub(crate) fn load<'s>(
        &self,
        column: &Column,
        component: &Component,
        shared: Option<&Groups>,
        descriptor: &Descriptor,
        journey: &mut Journey<'_>,
    ) -> Result<StagedColumn<'s>> {
        let mut at: (Cow<'_, Column>, Cow<'_, Component>) = (Cow::Borrowed(column), Cow::Borrowed(component));
        let mut converted = None;
        for link in &self.links {
            let (column, component) = &at;
            let table = converted.as_ref().or(shared);
            match link {
                Link::Bytes(steps) => {
                    let (column, component, values) = convert(steps, column, component, table, journey)?;
                    converted = values;
                    at = (Cow::Owned(column), Cow::Owned(component));
                }
                Link::Typed { old, converts, again } => {
                    let context = if again.is_some() { journey.unmapped } else { journey.mapped };
                    let rows = old.column.decode(column, component, table, context, journey.portable)?;
                    let rows = converts.iter().try_fold(rows, |rows, convert| convert(rows))?;
                    let Some(again) = again else { return Ok(rows.into_owned()) };
                    let column = Column { component: column.component, ..again.encode_staged(&rows)? };
                    drop(rows);
                    converted = None;
                    at = (Cow::Owned(column), Cow::Owned(again.component()));
                }
            }
        }
        let (column, component) = &at;
        let table = converted.as_ref().or(shared);
        let rows = descriptor.column.decode(column, component, table, journey.mapped, journey.portable)?;
        Ok(rows.into_owned())
    }
}

/// Runs steps over all rows of a column. Values that are stored once are converted once.
fn convert(
    steps: &[ByteStep],
    column: &Column,
    component: &Component,
    shared: Option<&Groups>,
    journey: &mut Journey<'_>,
) -> Result<(Column, Component, Option<Groups>)> {
    let target = steps[steps.len() - 1].target();
    let mut result = Component {
        row: RowLayout::default(),
        schema_fingerprint: target.fingerprint(),
        schema: Some(Arc::clone(target)),
        ..component.clone()
    };
    if let ([ByteStep::ByName { conversion, row, fixed }], Body::Raw(rope)) = (steps, &column.body)
        && let Some(fixed) = fixed.get_or_init(|| FixedRows::new(conversion, &component.row, row))
    {
        let rows = fixed.run(&rope.contiguous(), journey.unmapped)?;
        result.row = row.clone();
        return Ok((Column { body: Body::Raw(rows.share().into()), ..shape(column) }, result, None));
    }
    let mut rows = Rows::new(steps, journey);
    let mut table = None;
    let body = match &column.body {
        Body::Tag => {
            for _ in 0..column.rows {
                rows.one(&mut Reader::new(&[], rows.context))?;
            }
            Body::Rows(rows.finish())
        }
        Body::Raw(rope) => {
            let leaves = component.row.check(component.schema()?)?;
            let moves = component.row.moves_encoded(&leaves, true);
            let mut encoded = vec![0; leaves.iter().map(|leaf| leaf.size as usize).sum()];
            for row in rope.contiguous().chunks_exact(component.row.stride as usize) {
                let size = encoded.len();
                permute(row, row.len(), &mut encoded, size, &moves);
                rows.one(&mut Reader::new(&encoded, rows.context))?;
            }
            Body::Rows(rows.finish())
        }
        Body::Rows(groups) => {
            rows.groups(groups)?;
            Body::Rows(rows.finish())
        }
        Body::Dictionary { values, indices } => {
            rows.groups(values)?;
            Body::Dictionary { values: rows.finish(), indices: indices.clone() }
        }
        Body::Shared { table: number, indices } => {
            let values = match rows.tables.get(number) {
                Some(values) => values.clone(),
                None => {
                    rows.groups(shared.ok_or_else(|| Error::corrupt("shared values are missing"))?)?;
                    let (values, tables) = rows.finish_table();
                    tables.insert(*number, values.clone());
                    values
                }
            };
            table = Some(values);
            Body::Shared { table: *number, indices: indices.clone() }
        }
    };
    let body = match body {
        Body::Rows(groups) if groups.bytes.is_empty() => Body::Tag,
        body => body,
    };
    Ok((Column { body, ..shape(column) }, result, table))
}

/// A column with the rows of another, and nothing in it yet.
fn shape(column: &Column) -> Column {
    Column {
        component: column.component,
        present: column.present.clone(),
        rows: column.rows,
        body: Body::Tag,
    }
}

/// Rows on their way through steps.
struct Rows<'j> {
    steps: &'j [ByteStep],
    context: &'j LoadContext<'j>,
    tables: &'j mut HashMap<u32, Groups>,
    running: &'j mut Running,
    /// What a step reads, and what it writes.
    scratch: (Writer, Writer),
    out: Writer,
    ends: Vec<usize>,
    sizes: Vec<Option<u64>>,
}

impl<'j> Rows<'j> {
    fn new<'a: 'j>(steps: &'j [ByteStep], journey: &'j mut Journey<'a>) -> Self {
        Self {
            steps,
            context: journey.unmapped,
            tables: journey.tables,
            running: journey.running,
            scratch: (Writer::new(), Writer::new()),
            out: Writer::new(),
            ends: Vec::new(),
            sizes: fixed_sizes(steps[0].source().nodes(), Some(8)),
        }
    }

    fn groups(&mut self, groups: &Groups) -> Result<()> {
        self.context.grant_rows(groups.rows() as usize);
        for (group, bytes) in groups.iter() {
            let mut input = Reader::new(bytes, self.context);
            for _ in 0..group.rows {
                self.one(&mut input)?;
            }
            input.finish()?;
        }
        Ok(())
    }

    fn one(&mut self, input: &mut Reader<'_>) -> Result<()> {
        let number = self.ends.len();
        let before = self.out.len();
        self.steps_of(input).map_err(|error| error.in_field(format_args!("row {number}")))?;
        self.context.claim_memory(self.out.len() - before + size_of::<usize>(), 1)?;
        self.ends.push(self.out.len());
        Ok(())
    }

    fn steps_of(&mut self, input: &mut Reader<'_>) -> Result<()> {
        let Self { steps, context, running, scratch: (read, written), out, sizes, .. } = self;
        let last = steps.len() - 1;
        for (number, step) in steps.iter().enumerate() {
            let out = if number == last {
                &mut *out
            } else {
                written.clear();
                &mut *written
            };
            if number == 0 {
                if let ByteStep::ByName { conversion, .. } = step {
                    conversion.run(input, out, running)?;
                } else {
                    let row = row(step.source().nodes(), sizes, input)?;
                    run(step, row, out, context, running)?;
                }
            } else {
                run(step, read.as_bytes(), out, context, running)?;
            }
            out.take_error()?;
            std::mem::swap(read, written);
        }
        Ok(())
    }

    fn finish(self) -> Groups {
        Groups::new(Bytes::from(self.out.into_memory()), group_rows(&self.ends))
    }

    fn finish_table(self) -> (Groups, &'j mut HashMap<u32, Groups>) {
        (Groups::new(Bytes::from(self.out.into_memory()), group_rows(&self.ends)), self.tables)
    }
}

/// One step of one row.
fn run(
    step: &ByteStep,
    row: &[u8],
    out: &mut Writer,
    context: &LoadContext<'_>,
    running: &mut Running,
) -> Result<()> {
    let mut input = Reader::new(row, context);
    match step {
        ByteStep::ByName { conversion, .. } => conversion.run(&mut input, out, running)?,
        ByteStep::Upgrade { upgrade, .. } => upgrade(&mut input, out)?,
        ByteStep::Values { source, target, upgrades } => {
            let value = decode_value(source, Node::ROOT, &mut input)?;
            let value = upgrades.iter().try_fold(value, |value, upgrade| upgrade(value))?;
            lenient::write(target.ruled_nodes(), Node::ROOT, &value, out, &mut running.lost)?;
        }
    }
    match input.remaining() {
        0 => Ok(()),
        left => Err(Error::schema(format!("an upgrader left {left} bytes of the old value unread"))),
    }
}
