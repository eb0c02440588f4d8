//! The path of one saved component to rows of this build: a conversion by name, or a chain of steps between versions.
//!
//! Steps on bytes run row by row between two scratch buffers that are swapped, typed steps run column by column. Where the
//! two meet, rows are decoded or encoded. References are mapped once, when rows become values of this build.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::convert_column::{RowConverter, SavedRows, convert_column, is_direct};
use crate::bulk::CopyPath;
use crate::column::{Column, Component, Groups};
use crate::context::{LoadContext, SchemaChange};
use crate::convert::{Conversion, ConversionScratch, FixedRows, UnknownFields};
use crate::descriptor::{Convert, Descriptor, OnBytes, OnValues, StagedColumn, Step, StepKind};
use crate::error::{Error, Result};
use crate::row::RowLayout;
use crate::schema::Schema;
use crate::wire::Writer;

/// The conversions and steps that turn the bytes of a saved component into rows of a registered one.
pub(crate) struct UpgradePath {
    segments: Vec<PathSegment>,
    pub(crate) changes: Vec<SchemaChange>,
    /// How many steps between versions there are.
    pub(crate) steps: usize,
    /// Fields that are carried if unknown things are kept.
    pub(crate) unknown: Option<UnknownFields>,
}

enum PathSegment {
    /// Rows as bytes, by steps that run one after the other for each row.
    Bytes(Vec<ByteStep>),
    /// Rows as values of older types, up to the one that is written again, if any.
    Typed { old: Box<Descriptor>, converts: Vec<Convert>, again: Option<Box<Descriptor>> },
}

pub(super) enum ByteStep {
    ByName { conversion: Box<Conversion>, row: RowLayout, fixed: OnceLock<Option<Box<FixedRows>>> },
    Upgrade { source: Arc<Schema>, target: Arc<Schema>, upgrade: Arc<OnBytes> },
    Values { source: Arc<Schema>, target: Arc<Schema>, upgrades: Vec<Arc<OnValues>> },
}

impl ByteStep {
    pub(super) fn target(&self) -> &Arc<Schema> {
        match self {
            Self::ByName { conversion, .. } => conversion.target(),
            Self::Upgrade { target, .. } | Self::Values { target, .. } => target,
        }
    }
    /// How many parts a row has, as far as that is not absurd.
    pub(super) fn parts(&self) -> usize {
        match self {
            Self::ByName { conversion, .. } => conversion.step_count().min(64),
            _ => 1,
        }
    }
    pub(super) fn source(&self) -> &Arc<Schema> {
        match self {
            Self::ByName { conversion, .. } => conversion.source(),
            Self::Upgrade { source, .. } | Self::Values { source, .. } => source,
        }
    }
}

impl UpgradePath {
    /// From a saved schema through some steps to a registered component.
    pub(crate) fn new(saved: &Arc<Schema>, steps: Vec<Step>, descriptor: &Descriptor) -> Result<Self> {
        let mut path = Self { segments: Vec::new(), changes: Vec::new(), steps: steps.len(), unknown: None };
        let mut at = Arc::clone(saved);
        let mut steps = steps.into_iter().peekable();
        let mut is_typed = false;
        while let Some(step) = steps.next() {
            is_typed = false;
            match step.kind {
                StepKind::Typed { old, new, convert } => {
                    at = path
                        .by_name(at, &old.schema, &old.row)
                        .map_err(|error| in_version(error, step.from))?;
                    let (mut converts, mut last) = (vec![convert], new);
                    while let Some(StepKind::Typed { .. }) = steps.peek().map(|step| &step.kind)
                        && let Some(Step { kind: StepKind::Typed { new, convert, .. }, .. }) = steps.next()
                    {
                        converts.push(convert);
                        last = new;
                    }
                    is_typed = steps.peek().is_none();
                    if !is_typed {
                        at = Arc::clone(&last.schema);
                    }
                    let again = (!is_typed).then_some(last);
                    path.segments.push(PathSegment::Typed { old, converts, again });
                }
                StepKind::Bytes { source, target, upgrade } => {
                    path.by_name(at, &source, &RowLayout::default())
                        .map_err(|error| in_version(error, step.from))?;
                    at = Arc::clone(&target);
                    path.bytes(ByteStep::Upgrade { source, target, upgrade });
                }
                StepKind::Values(upgrade) => {
                    let mut upgrades = vec![upgrade];
                    while let Some(StepKind::Values(_)) = steps.peek().map(|step| &step.kind)
                        && let Some(Step { kind: StepKind::Values(upgrade), .. }) = steps.next()
                    {
                        upgrades.push(upgrade);
                    }
                    let next = steps.peek().and_then(|step| step.kind.source()).unwrap_or(&descriptor.schema);
                    let target = Arc::clone(next);
                    path.bytes(ByteStep::Values { source: at, target: Arc::clone(&target), upgrades });
                    at = target;
                }
            }
        }
        if !is_typed {
            path.by_name(at, &descriptor.schema, &descriptor.row)?;
        }
        if let ([PathSegment::Bytes(steps)], 0) = (&*path.segments, path.steps)
            && let [ByteStep::ByName { conversion, .. }] = &**steps
        {
            path.unknown = UnknownFields::of(conversion);
        }
        if path.unknown.is_none() {
            // Between versions, names have no place where they could wait.
            for change in &mut path.changes {
                if let SchemaChange::Unknown { field } = change {
                    *change = SchemaChange::Dropped { field: std::mem::take(field) };
                }
            }
        }
        Ok(path)
    }

    fn by_name(&mut self, from: Arc<Schema>, to: &Arc<Schema>, row: &RowLayout) -> Result<Arc<Schema>> {
        if from.fingerprint() == to.fingerprint() {
            return Ok(from);
        }
        let conversion = Box::new(Conversion::new(from, Arc::clone(to))?);
        self.changes.extend(conversion.changes.iter().cloned());
        if !conversion.is_identity() {
            self.bytes(ByteStep::ByName { conversion, row: row.clone(), fixed: OnceLock::new() });
        }
        Ok(Arc::clone(to))
    }

    fn bytes(&mut self, step: ByteStep) {
        match self.segments.last_mut() {
            Some(PathSegment::Bytes(steps)) => steps.push(step),
            _ => self.segments.push(PathSegment::Bytes(vec![step])),
        }
    }
}

fn in_version(error: Error, version: u32) -> Error {
    error.in_field(format_args!("version {version}"))
}

/// A load that rows go through.
pub(crate) struct UpgradeContext<'a> {
    pub(crate) mapped: &'a LoadContext<'a>,
    pub(crate) unmapped: &'a LoadContext<'a>,
    pub(crate) copies: CopyPath,
    /// Shared values of a component that were converted already, by their table.
    pub(crate) tables: &'a mut HashMap<u32, Groups>,
    pub(crate) scratch: &'a mut ConversionScratch,
}

impl UpgradePath {
    /// Takes a column to rows of the registered component.
    pub(crate) fn load<'s>(
        &self,
        column: &Column,
        component: &Component,
        shared: Option<&Groups>,
        descriptor: &Descriptor,
        upgrade: &mut UpgradeContext<'_>,
    ) -> Result<StagedColumn<'s>> {
        let mut at: (Cow<'_, Column>, Cow<'_, Component>) = (Cow::Borrowed(column), Cow::Borrowed(component));
        let mut converted = None;
        for (number, segment) in self.segments.iter().enumerate() {
            let (column, component) = &at;
            let table = converted.as_ref().or(shared);
            match segment {
                PathSegment::Bytes(steps)
                    if number + 1 == self.segments.len() && is_direct(steps, column, component) =>
                {
                    let mut source = SavedRows::new(column, component, upgrade.unmapped)?;
                    let mut rows = RowConverter::new(steps, column.rows, upgrade.unmapped, upgrade.scratch);
                    let next = &mut |out: &mut Writer| source.next(|input| rows.one(input, out));
                    let context = upgrade.mapped;
                    return descriptor.column.decode_each(
                        column.rows,
                        column.present.as_ref(),
                        context,
                        next,
                    );
                }
                PathSegment::Bytes(steps) => {
                    let (column, component, values) =
                        convert_column(steps, column, component, table, upgrade)?;
                    converted = values;
                    at = (Cow::Owned(column), Cow::Owned(component));
                }
                PathSegment::Typed { old, converts, again } => {
                    let context = if again.is_some() { upgrade.unmapped } else { upgrade.mapped };
                    let rows = old.column.decode(column, component, table, context, upgrade.copies)?;
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
        let rows = descriptor.column.decode(column, component, table, upgrade.mapped, upgrade.copies)?;
        Ok(rows.into_owned())
    }
}
