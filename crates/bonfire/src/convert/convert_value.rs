//! Runs a conversion: bytes of the saved schema in, bytes of this build's schema out.

use std::collections::BTreeSet;

use super::conversion::{FieldStep, FieldsStep, Step, VariantStep};
use super::number::widen;
use super::{Conversion, convert_dynamic};
use crate::context::{LoadContext, SchemaChange};
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::schema::{Node, Type};
use crate::value::{decode_value, write_sorted};
use crate::wire::{Reader, Writer};

/// What a conversion needs while it runs, and what it found out.
#[derive(Default)]
pub(crate) struct ConversionScratch {
    /// Where the fields of structs that are read out of order begin.
    starts: Vec<usize>,
    /// Fields of values with types of their own that this build does not have.
    pub(crate) lost: BTreeSet<String>,
}

impl Conversion {
    /// Converts the next value of `input`.
    #[inline]
    pub(crate) fn run(
        &self,
        input: &mut Reader<'_>,
        out: &mut Writer,
        scratch: &mut ConversionScratch,
    ) -> Result<()> {
        self.step(0, input, out, scratch)
    }

    fn step(
        &self,
        number: usize,
        input: &mut Reader<'_>,
        out: &mut Writer,
        scratch: &mut ConversionScratch,
    ) -> Result<()> {
        match &self.steps[number] {
            Step::Bytes(len) => out.raw(input.raw(*len)?),
            Step::Same => {
                let bytes = input.rest();
                let start = input.offset();
                self.skip(self.nodes[number].0, input)?;
                out.raw(&bytes[..input.offset() - start]);
            }
            Step::Number(from, to) => widen(from, to, input, out)?,
            Step::Some(inner) => {
                out.u8(1);
                input.nested_untyped(|input| self.step(*inner, input, out, scratch))?;
            }
            Step::Option(inner) => match input.u8()? {
                0 => out.u8(0),
                1 => {
                    out.u8(1);
                    input.nested_untyped(|input| self.step(*inner, input, out, scratch))?;
                }
                byte => return Err(input.corrupt(format!("{byte} is neither some nor none"))),
            },
            Step::List(element) => {
                let count = input.count(0)?;
                out.varint(count as u64);
                self.elements(*element, count as u64, input, out, scratch)?;
            }
            Step::Array { element, len, counted } => {
                if *len > input.remaining() as u64 {
                    input.context().claim_empty(*len)?;
                }
                if *counted {
                    out.varint(*len);
                }
                self.elements(*element, *len, input, out, scratch)?;
            }
            Step::Set(element) => {
                let count = input.count(0)?;
                let mut elements = Vec::new();
                for _ in 0..count {
                    elements.push((self.apart(*element, input, scratch)?, vec![]));
                }
                write_sorted(elements, out)?;
            }
            Step::Map(key, value) => {
                let count = input.count(0)?;
                if matches!(self.steps[*key], Step::Bytes(_) | Step::Same) {
                    out.varint(count as u64);
                    return input.nested_untyped(|input| {
                        (0..count).try_for_each(|_| {
                            self.step(*key, input, out, scratch)?;
                            self.step(*value, input, out, scratch)
                        })
                    });
                }
                let mut entries = Vec::new();
                for _ in 0..count {
                    let key = self.apart(*key, input, scratch)?;
                    entries.push((key, self.apart(*value, input, scratch)?));
                }
                write_sorted(entries, out)?;
            }
            Step::Fields(fields) => {
                let start = input.offset();
                input.inside(|input| self.fields(fields, input, out, scratch))?;
                if input.offset() == start {
                    // A schema can nest types without bytes so that a value of no bytes is endless work.
                    input.context().claim_empty(1)?;
                }
            }
            Step::Enum(variants) => {
                let variant = input.varint()?;
                let step = usize::try_from(variant).ok().and_then(|number| variants.get(number));
                match step {
                    Some(VariantStep::To(number, step)) => {
                        out.varint(*number);
                        input.nested_untyped(|input| self.step(*step, input, out, scratch))?;
                    }
                    Some(VariantStep::Gone(name)) => {
                        return Err(Error::schema(format!(
                            "the save has a `{}`, which is no variant of this build. If it was renamed, say so: \
                             `#[persist(alias = \"{0}\")]`",
                            name.escape_debug()
                        )));
                    }
                    None => return Err(input.corrupt(format!("variant {variant} of {}", variants.len()))),
                }
            }
            Step::FromDynamic(node) => {
                let value = crate::value::Value::decode(input)?;
                convert_dynamic::write(self.target.ruled_nodes(), *node, &value, out, &mut scratch.lost)?;
            }
            Step::ToDynamic => decode_value(&self.source, self.nodes[number].0, input)?.encode(out),
        }
        Ok(())
    }

    fn elements(
        &self,
        element: usize,
        count: u64,
        input: &mut Reader<'_>,
        out: &mut Writer,
        scratch: &mut ConversionScratch,
    ) -> Result<()> {
        input.nested_untyped(|input| {
            (0..count).try_for_each(|i| {
                self.step(element, input, out, scratch).map_err(|error| error.in_field(i))?;
                if out.len() as u64 > input.context().limits.memory_bytes_max {
                    return Err(Error::limit("a converted list is larger than the limits allow"));
                }
                Ok(())
            })
        })
    }

    /// An element on its own, so that it can be sorted.
    fn apart(&self, step: usize, input: &mut Reader<'_>, scratch: &mut ConversionScratch) -> Result<Vec<u8>> {
        let mut out = Writer::new();
        input.nested_untyped(|input| self.step(step, input, &mut out, scratch))?;
        let bytes = out.finish()?;
        input.context().claim_memory(bytes.len() + 48, 1)?;
        Ok(bytes)
    }

    fn fields(
        &self,
        fields: &FieldsStep,
        input: &mut Reader<'_>,
        out: &mut Writer,
        scratch: &mut ConversionScratch,
    ) -> Result<()> {
        if !fields.in_order {
            return self.fields_by_place(fields, input, out, scratch);
        }
        let mut next = 0;
        for field in &fields.target {
            match field {
                FieldStep::Default(bytes) => out.raw(bytes),
                FieldStep::Saved(number, step) => {
                    for &node in &fields.source[next..*number] {
                        self.skip(node, input)?;
                    }
                    self.step(*step, input, out, scratch)?;
                    next = number + 1;
                }
            }
        }
        fields.source[next..].iter().try_for_each(|&node| self.skip(node, input))
    }

    fn fields_by_place(
        &self,
        fields: &FieldsStep,
        input: &mut Reader<'_>,
        out: &mut Writer,
        scratch: &mut ConversionScratch,
    ) -> Result<()> {
        let (first, all) = (scratch.starts.len(), input.clone());
        for &node in &fields.source {
            scratch.starts.push(input.offset());
            self.skip(node, input)?;
        }
        for field in &fields.target {
            match field {
                FieldStep::Default(bytes) => out.raw(bytes),
                FieldStep::Saved(number, step) => {
                    let mut at = all.clone();
                    at.raw(scratch.starts[first + number] - all.offset())?;
                    self.step(*step, &mut at, out, scratch)?;
                }
            }
        }
        scratch.starts.truncate(first);
        Ok(())
    }

    /// Passes over a saved value.
    #[inline]
    fn skip(&self, node: Node, input: &mut Reader<'_>) -> Result<()> {
        skip(self.source.nodes(), &self.sizes, node, input)
    }
}

/// Passes over a value, looking at no more of it than is needed to find its end.
pub(crate) fn skip(nodes: &[Type], sizes: &[Option<u64>], node: Node, input: &mut Reader<'_>) -> Result<()> {
    if let Some(size) = sizes[node.index()] {
        let size = usize::try_from(size).map_err(|_| input.corrupt("a value is larger than memory"))?;
        return input.raw(size).map(|_| ());
    }
    match &nodes[node.index()] {
        Type::Text | Type::Bytes => {
            input.blob()?;
        }
        Type::Option(some) => match input.u8()? {
            0 => {}
            1 => input.nested_untyped(|input| skip(nodes, sizes, *some, input))?,
            byte => return Err(input.corrupt(format!("{byte} is neither some nor none"))),
        },
        Type::List(element) | Type::Set(element) => {
            let count = input.count(0)?;
            skip_many(nodes, sizes, &[*element], count as u64, input)?;
        }
        Type::Map(key, value) => {
            let count = input.count(0)?;
            skip_many(nodes, sizes, &[*key, *value], count as u64, input)?;
        }
        Type::Array(element, len) => skip_many(nodes, sizes, &[*element], *len, input)?,
        Type::Tuple(fields) | Type::Struct(fields) => {
            let start = input.offset();
            input
                .inside(|input| fields.iter().try_for_each(|field| skip(nodes, sizes, field.node, input)))?;
            if input.offset() == start {
                input.context().claim_empty(1)?;
            }
        }
        Type::Enum(variants) => {
            let number = input.varint()?;
            let variant = usize::try_from(number).ok().and_then(|number| variants.get(number));
            let variant =
                variant.ok_or_else(|| input.corrupt(format!("variant {number} of {}", variants.len())))?;
            input.nested_untyped(|input| skip(nodes, sizes, variant.node, input))?;
        }
        Type::Dynamic => {
            crate::value::Value::decode(input)?;
        }
        Type::Entity => {
            input.u64()?;
        }
        // All others have a fixed size.
        _ => {}
    }
    Ok(())
}

fn skip_many(
    nodes: &[Type],
    sizes: &[Option<u64>],
    parts: &[Node],
    count: u64,
    input: &mut Reader<'_>,
) -> Result<()> {
    let fixed = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(sizes[part.index()]?));
    if let Some(size) = fixed {
        let bytes = size.checked_mul(count).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| input.corrupt("a list is longer than memory"))?;
        return input.raw(bytes).map(|_| ());
    }
    input.nested_untyped(|input| {
        (0..count).try_for_each(|_| {
            let start = input.offset();
            parts.iter().try_for_each(|part| skip(nodes, sizes, *part, input))?;
            if input.offset() == start {
                input.context().claim_empty(1)?;
            }
            Ok(())
        })
    })
}

/// A value of one schema as a `T`, by name. What was different is noted in the context, under the key.
pub(crate) fn decode_by_name<T: Persist>(
    key: &str,
    source: &std::sync::Arc<crate::schema::Schema>,
    bytes: &[u8],
    context: &LoadContext<'_>,
) -> Result<T> {
    let target = crate::schema::Schema::of::<T>();
    let decode = |bytes: &[u8]| {
        let mut input = Reader::new(bytes, context);
        T::decode(&mut input).and_then(|value| input.finish().map(|()| value))
    };
    if source.fingerprint() == target.fingerprint() {
        return decode(bytes);
    }
    let conversion = Conversion::new(source.clone(), target.into())?;
    // References are mapped when the value is decoded, and not before.
    let unmapped = LoadContext::new(context.limits);
    let mut input = Reader::new(bytes, &unmapped);
    let (mut out, mut scratch) = (Writer::new(), ConversionScratch::default());
    conversion.run(&mut input, &mut out, &mut scratch)?;
    input.finish()?;
    // Nobody carries what a value of its own has lost.
    let dropped = |change: &SchemaChange| match change {
        SchemaChange::Unknown { field } => SchemaChange::Dropped { field: field.clone() },
        change => change.clone(),
    };
    let lost = scratch.lost.into_iter().map(|field| SchemaChange::Dropped { field });
    context.note_changes(key, conversion.changes.iter().map(dropped).chain(lost));
    decode(&out.finish()?)
}
