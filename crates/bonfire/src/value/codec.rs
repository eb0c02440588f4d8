//! Values by schema: the same bytes that the typed value has.

use std::collections::{HashMap, HashSet};

use super::Value;
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::schema::{Node, Schema, Type};
use crate::wire::{Reader, Writer};

/// Reads a value of type `node` of `schema`.
pub fn decode_value(schema: &Schema, node: Node, input: &mut Reader<'_>) -> Result<Value> {
    let start = input.offset();
    let list = |input: &mut Reader<'_>, element: Node, count: usize, kind: ListKind| {
        let before = input.remaining();
        let mut values = crate::bulk::reserve(count.min(before + 1))?;
        for i in 0..count {
            let dangling = input.context().dangling_so_far();
            let value = decode_value(schema, element, input).map_err(|error| error.in_field(i))?;
            let is_removed = value.is_null() && input.context().removes_element(dangling);
            if kind == ListKind::Array || !is_removed {
                values.push(value);
            }
        }
        // More elements than there are bytes were claimed by their count.
        if count <= before && count > before - input.remaining() {
            input.context().claim_empty((count - (before - input.remaining())) as u64)?;
        }
        Ok(values)
    };
    let value = match schema.get(node) {
        Type::Unit => Value::Unit,
        Type::Bool => Value::Bool(bool::decode(input)?),
        Type::U8 => u8::decode(input)?.into(),
        Type::U16 => u16::decode(input)?.into(),
        Type::U32 => u32::decode(input)?.into(),
        Type::U64 => u64::decode(input)?.into(),
        Type::U128 => u128::decode(input)?.into(),
        Type::I8 => i8::decode(input)?.into(),
        Type::I16 => i16::decode(input)?.into(),
        Type::I32 => i32::decode(input)?.into(),
        Type::I64 => i64::decode(input)?.into(),
        Type::I128 => i128::decode(input)?.into(),
        Type::F32 => f32::decode(input)?.into(),
        Type::F64 => f64::decode(input)?.into(),
        Type::Char => char::decode(input)?.into(),
        Type::Text => Value::Text(String::decode(input)?),
        Type::Bytes => Value::Bytes(Vec::decode(input)?),
        Type::Entity => Value::Entity(input.entity()?),
        Type::Dynamic => return Value::decode(input),
        Type::Option(some) => match input.u8()? {
            0 => Value::None,
            1 => {
                let dangling = input.context().dangling_so_far();
                let value = input.nested_untyped(|input| decode_value(schema, *some, input))?;
                match value.is_null() && input.context().removes_element(dangling) {
                    true => Value::None,
                    false => Value::Some(Box::new(value)),
                }
            }
            byte => return Err(input.corrupt(format!("{byte} is neither some nor none"))),
        },
        Type::List(element) | Type::Set(element) => {
            let count = input.count(size_of::<Value>())?;
            let values = input.nested_untyped(|input| list(input, *element, count, ListKind::Growing))?;
            match schema.get(node) {
                Type::Set(_) => Value::List(merge_equal(schema, *element, values, |value| value, input)?),
                _ => Value::List(values),
            }
        }
        Type::Array(element, len) => {
            let count = usize::try_from(*len).unwrap_or(usize::MAX);
            if *len > input.remaining() as u64 {
                input.context().claim_empty(*len)?;
            }
            input.context().limits.step(count)?;
            input.context().claim_memory(count, size_of::<Value>())?;
            Value::List(input.nested_untyped(|input| list(input, *element, count, ListKind::Array))?)
        }
        Type::Map(key, value) => {
            let count = input.count(size_of::<(Value, Value)>())?;
            let entries = input.nested_untyped(|input| {
                let mut entries = crate::bulk::reserve(count.min(input.remaining() + 1))?;
                for i in 0..count {
                    let dangling = input.context().dangling_so_far();
                    let key = decode_value(schema, *key, input).map_err(|error| error.in_field(i))?;
                    let value = decode_value(schema, *value, input).map_err(|error| error.in_field(i))?;
                    if !((key.is_null() || value.is_null()) && input.context().removes_element(dangling)) {
                        entries.push((key, value));
                    }
                }
                Ok(entries)
            })?;
            Value::Map(merge_equal(schema, *key, entries, |(key, _)| key, input)?)
        }
        Type::Tuple(fields) => {
            input.context().limits.step(fields.len())?;
            input.context().claim_memory(fields.len(), size_of::<Value>())?;
            let values = input.inside(|input| {
                fields.iter().map(|field| decode_value(schema, field.node, input)).collect::<Result<Vec<_>>>()
            })?;
            claim_empty_fields(fields.len(), start, input)?;
            Value::Tuple(values)
        }
        Type::Struct(fields) => {
            input.context().limits.step(fields.len())?;
            input.context().claim_memory(fields.len(), size_of::<(String, Value)>())?;
            let values = input.inside(|input| {
                let one = |field: &crate::schema::Field, input: &mut Reader<'_>| {
                    let value = decode_value(schema, field.node, input);
                    Ok((field.name.to_string(), value.map_err(|error| error.in_field(&field.name))?))
                };
                fields.iter().map(|field| one(field, input)).collect::<Result<Vec<_>>>()
            })?;
            claim_empty_fields(fields.len(), start, input)?;
            Value::Struct(values)
        }
        Type::Enum(variants) => {
            let number = input.varint()?;
            let variant = usize::try_from(number).ok().and_then(|number| variants.get(number));
            let variant =
                variant.ok_or_else(|| input.corrupt(format!("variant {number} of {}", variants.len())))?;
            let content = input.nested_untyped(|input| decode_value(schema, variant.node, input));
            let content = content.map_err(|error| error.in_field(&variant.name))?;
            Value::Enum(variant.name.to_string(), Box::new(content))
        }
    };
    if input.offset() == start {
        // A schema can nest types without bytes so that a value of no bytes is endless work.
        input.context().claim_empty(schema.get(node).children().count() as u64)?;
    }
    Ok(value)
}

/// Lists that may lose elements, and those that may not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListKind {
    Growing,
    Array,
}

/// Fields beyond a few that a value may have without a byte for each.
const FREE_FIELDS: usize = 16;

/// A value of few bytes may have very many fields without any, and so may each row of a column.
fn claim_empty_fields(fields: usize, start: usize, input: &Reader<'_>) -> Result<()> {
    let bytes = input.offset() - start;
    match fields.saturating_sub(bytes.saturating_add(FREE_FIELDS)) {
        0 => Ok(()),
        empty => input.context().claim_empty(empty as u64),
    }
}

/// Keys that refer to entities may become equal when the entities are gone. Then the last one stays, as in a map that is
/// filled in order.
fn merge_equal<T>(
    schema: &Schema,
    key_type: Node,
    entries: Vec<T>,
    key: impl Fn(&T) -> &Value,
    input: &Reader<'_>,
) -> Result<Vec<T>> {
    if !input.context().has_dangling() {
        return Ok(entries);
    }
    let apart = Writer::new();
    let mut last = HashMap::new();
    for (number, entry) in entries.iter().enumerate() {
        last.insert(part(schema, key_type, key(entry), &apart)?, number);
    }
    let kept: HashSet<usize> = last.into_values().collect();
    let entries = entries.into_iter().enumerate().filter(|(number, _)| kept.contains(number));
    Ok(entries.map(|(_, entry)| entry).collect())
}

/// Writes a value as type `node` of `schema`. Fails if it is not such a value.
pub fn encode_value(schema: &Schema, node: Node, value: &Value, out: &mut Writer) -> Result<()> {
    let ty = schema.get(node);
    let mismatch = || Error::schema(format!("{value:.40} is not of type {}", ty.name()));
    match (ty, value) {
        (Type::Unit, Value::Unit) => {}
        (Type::Bool, Value::Bool(value)) => value.encode(out),
        (Type::U8, _) => unsigned::<u8>(value).ok_or_else(mismatch)?.encode(out),
        (Type::U16, _) => unsigned::<u16>(value).ok_or_else(mismatch)?.encode(out),
        (Type::U32, _) => unsigned::<u32>(value).ok_or_else(mismatch)?.encode(out),
        (Type::U64, _) => unsigned::<u64>(value).ok_or_else(mismatch)?.encode(out),
        (Type::U128, _) => unsigned::<u128>(value).ok_or_else(mismatch)?.encode(out),
        (Type::I8, _) => signed::<i8>(value).ok_or_else(mismatch)?.encode(out),
        (Type::I16, _) => signed::<i16>(value).ok_or_else(mismatch)?.encode(out),
        (Type::I32, _) => signed::<i32>(value).ok_or_else(mismatch)?.encode(out),
        (Type::I64, _) => signed::<i64>(value).ok_or_else(mismatch)?.encode(out),
        (Type::I128, _) => signed::<i128>(value).ok_or_else(mismatch)?.encode(out),
        (Type::F32, Value::F32(value)) => value.encode(out),
        (Type::F64, Value::F64(value)) => value.encode(out),
        (Type::Char, Value::Char(value)) => value.encode(out),
        (Type::Text, Value::Text(value)) => value.encode(out),
        (Type::Bytes, Value::Bytes(value)) => out.blob(value),
        (Type::Entity, Value::Entity(value)) => value.encode(out),
        (Type::Dynamic, value) => value.encode(out),
        (Type::Option(_), Value::None) => out.u8(0),
        (Type::Option(some), Value::Some(value)) => {
            out.u8(1);
            nested(out, |out| encode_value(schema, *some, value, out))?;
        }
        (Type::List(element), Value::List(values)) => {
            out.varint(values.len() as u64);
            nested(out, |out| {
                values.iter().try_for_each(|value| encode_value(schema, *element, value, out))
            })?;
        }
        (Type::Array(element, len), Value::List(values)) if values.len() as u64 == *len => {
            nested(out, |out| {
                values.iter().try_for_each(|value| encode_value(schema, *element, value, out))
            })?;
        }
        (Type::Set(element), Value::List(values)) => {
            let parts =
                values.iter().map(|value| part(schema, *element, value, out).map(|key| (key, vec![])));
            let parts = parts.collect::<Result<_>>()?;
            write_sorted(parts, out)?;
        }
        (Type::Map(key_type, value_type), Value::Map(entries)) => {
            let parts = entries.iter().map(|(key, value)| {
                Ok((part(schema, *key_type, key, out)?, part(schema, *value_type, value, out)?))
            });
            let parts = parts.collect::<Result<_>>()?;
            write_sorted(parts, out)?;
        }
        (Type::Tuple(fields), Value::Tuple(values)) if fields.len() == values.len() => {
            let mut pairs = fields.iter().zip(values);
            pairs.try_for_each(|(field, value)| encode_value(schema, field.node, value, out))?;
        }
        (Type::Struct(fields), Value::Struct(values)) if fields.len() == values.len() => {
            for (field, (name, value)) in fields.iter().zip(values) {
                if field.name != *name {
                    let (name, belongs) = (name.escape_debug(), field.name.escape_debug());
                    return Err(Error::schema(format!("field `{name}` stands where `{belongs}` belongs")));
                }
                encode_value(schema, field.node, value, out).map_err(|error| error.in_field(name))?;
            }
        }
        (Type::Enum(variants), Value::Enum(name, content)) => {
            let number = schema.variant_number(node, name).ok_or_else(mismatch)?;
            out.varint(number as u64);
            nested(out, |out| encode_value(schema, variants[number].node, content, out))?;
        }
        _ => return Err(mismatch()),
    }
    Ok(())
}

fn nested(out: &mut Writer, write: impl FnOnce(&mut Writer) -> Result<()>) -> Result<()> {
    let mut result = Ok(());
    out.nested(|out| result = write(out));
    result.and_then(|()| out.take_error())
}

/// The bytes of one key or value, encoded apart so that they can be sorted.
fn part(schema: &Schema, node: Node, value: &Value, out: &Writer) -> Result<Vec<u8>> {
    let mut out = out.nested_apart()?;
    encode_value(schema, node, value, &mut out)?;
    out.finish()
}

/// Writes the entries of a map, or the elements of a set with nothing as their values.
pub(crate) fn write_sorted(mut parts: Vec<(Vec<u8>, Vec<u8>)>, out: &mut Writer) -> Result<()> {
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    if parts.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(Error::schema("a key is there twice"));
    }
    out.varint(parts.len() as u64);
    for (key, value) in parts {
        out.raw(&key);
        out.raw(&value);
    }
    Ok(())
}

fn unsigned<N: TryFrom<u128>>(value: &Value) -> Option<N> {
    let number = match *value {
        Value::U64(number) => u128::from(number),
        Value::U128(number) => number,
        Value::I64(number) => u128::try_from(number).ok()?,
        Value::I128(number) => u128::try_from(number).ok()?,
        _ => return None,
    };
    N::try_from(number).ok()
}

fn signed<N: TryFrom<i128>>(value: &Value) -> Option<N> {
    let number = match *value {
        Value::U64(number) => i128::from(number),
        Value::U128(number) => i128::try_from(number).ok()?,
        Value::I64(number) => i128::from(number),
        Value::I128(number) => number,
        _ => return None,
    };
    N::try_from(number).ok()
}
