//! JSON to values, by schema and by their own marks.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::is_nullable;
use super::text::{bytes_from, parse_f32, parse_f64};
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::schema::{Field, Node, Schema, Type};
use crate::value::Value;

/// Numbers may have become text on their way through tools that know only doubles.
pub(super) fn as_u64(json: &Json) -> Option<u64> {
    json.as_u64().or_else(|| json.as_str()?.parse().ok())
}

pub(super) fn entity(json: &Json) -> Result<EntityId> {
    match json {
        Json::Null => Ok(EntityId::NULL),
        json => as_u64(json)
            .map(EntityId::from_bits)
            .ok_or_else(|| Error::corrupt(format!("{json} is not an id"))),
    }
}

pub(super) fn value(schema: &Schema, node: Node, json: &Json, depth: u32) -> Result<Value> {
    let ty = schema.get(node);
    let bad = || Error::schema(format!("{:.60} is not of type {}", json.to_string(), ty.name()));
    // JSON that was parsed is finite, but a schema may turn in circles without consuming any of it.
    if depth > 256 {
        return Err(Error::limit("a value nests deeper than 256 levels"));
    }
    let inner = |node: Node, json: &Json| value(schema, node, json, depth + 1);
    let list = |element: Node| {
        let items = json.as_array().ok_or_else(bad)?.iter();
        Ok(Value::List(items.map(|item| inner(element, item)).collect::<Result<_>>()?))
    };
    Ok(match ty {
        Type::Unit => json.is_null().then_some(Value::Unit).ok_or_else(bad)?,
        Type::Bool => Value::Bool(json.as_bool().ok_or_else(bad)?),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Value::U64(as_u64(json).ok_or_else(bad)?),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            Value::I64(json.as_i64().or_else(|| json.as_str()?.parse().ok()).ok_or_else(bad)?)
        }
        Type::U128 => {
            let number = json.as_str().and_then(|text| text.parse().ok());
            Value::U128(number.or_else(|| json.as_u64().map(u128::from)).ok_or_else(bad)?)
        }
        Type::I128 => {
            let number = json.as_str().and_then(|text| text.parse().ok());
            Value::I128(number.or_else(|| json.as_i64().map(i128::from)).ok_or_else(bad)?)
        }
        Type::F32 => match json {
            Json::String(text) => Value::F32(parse_f32(text).ok_or_else(bad)?),
            json => Value::F32(json.as_f64().ok_or_else(bad)? as f32),
        },
        Type::F64 => match json {
            Json::String(text) => Value::F64(parse_f64(text).ok_or_else(bad)?),
            json => Value::F64(json.as_f64().ok_or_else(bad)?),
        },
        Type::Char => {
            let mut chars = json.as_str().ok_or_else(bad)?.chars();
            match (chars.next(), chars.next()) {
                (Some(char), None) => Value::Char(char),
                _ => return Err(bad()),
            }
        }
        Type::Text => Value::Text(json.as_str().ok_or_else(bad)?.to_owned()),
        Type::Bytes => Value::Bytes(bytes_from(json.as_str().ok_or_else(bad)?)?),
        Type::Entity => Value::Entity(entity(json)?),
        Type::Dynamic => dynamic(json)?,
        Type::Option(_) if json.is_null() => Value::None,
        Type::Option(some) if is_nullable(schema, *some) => {
            Value::Some(Box::new(inner(*some, json.get("$some").ok_or_else(bad)?)?))
        }
        Type::Option(some) => Value::Some(Box::new(inner(*some, json)?)),
        Type::List(element) | Type::Set(element) | Type::Array(element, _) => list(*element)?,
        Type::Map(key, of) if matches!(schema.get(*key), Type::Text) && json.is_object() => {
            let entries = json.as_object().ok_or_else(bad)?.iter();
            let entry = |(key, json): (&String, &Json)| Ok((Value::Text(key.clone()), inner(*of, json)?));
            Value::Map(entries.map(entry).collect::<Result<_>>()?)
        }
        Type::Map(key, of) => {
            let entry = |pair: &Json| match pair.as_array().map(Vec::as_slice) {
                Some([a, b]) => Ok((inner(*key, a)?, inner(*of, b)?)),
                _ => Err(bad()),
            };
            let entries = json.as_array().ok_or_else(bad)?.iter();
            Value::Map(entries.map(entry).collect::<Result<_>>()?)
        }
        Type::Tuple(fields) if fields.len() == 1 => Value::Tuple(vec![inner(fields[0].node, json)?]),
        Type::Tuple(fields) => {
            let items = json.as_array().filter(|items| items.len() == fields.len()).ok_or_else(bad)?;
            let pairs = fields.iter().zip(items);
            Value::Tuple(pairs.map(|(field, item)| inner(field.node, item)).collect::<Result<_>>()?)
        }
        Type::Struct(fields) => {
            let object = json.as_object().ok_or_else(bad)?;
            let names: HashSet<&str> = fields.iter().map(|field| &*field.name).collect();
            if let Some(name) = object.keys().find(|name| !names.contains(name.as_str())) {
                return Err(Error::schema(format!("there is no field `{}`", name.escape_debug())));
            }
            let one = |field: &Field| {
                let json = object.get(&*field.name).ok_or_else(|| Error::schema("the field is missing"));
                let value = json.and_then(|json| inner(field.node, json));
                Ok((field.name.to_string(), value.map_err(|error| error.in_field(&field.name))?))
            };
            Value::Struct(fields.iter().map(one).collect::<Result<_>>()?)
        }
        Type::Enum(variants) => {
            let (name, content) = match json {
                Json::String(name) => (name, None),
                Json::Object(object) if object.len() == 1 => match object.iter().next() {
                    Some((name, content)) => (name, Some(content)),
                    None => return Err(bad()),
                },
                _ => return Err(bad()),
            };
            let variant = &variants[schema.variant_number(node, name).ok_or_else(bad)?];
            let content = inner(variant.node, content.unwrap_or(&Json::Null))?;
            Value::Enum(name.clone(), Box::new(content))
        }
    })
}

pub(super) fn dynamic(json: &Json) -> Result<Value> {
    let list = |items: &[Json]| items.iter().map(dynamic).collect::<Result<Vec<_>>>();
    Ok(match json {
        Json::Null => Value::Unit,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Value::U64(number),
            (None, Some(number)) => Value::I64(number),
            (None, None) => Value::F64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::List(list(items)?),
        Json::Object(object) => match object.iter().next() {
            Some((tag, content)) if tag.starts_with('$') && object.len() == 1 => tagged(tag, content)?,
            _ => {
                let field = |(name, json): (&String, &Json)| Ok((name.clone(), dynamic(json)?));
                Value::Struct(object.iter().map(field).collect::<Result<_>>()?)
            }
        },
    })
}

fn tagged(tag: &str, json: &Json) -> Result<Value> {
    let bad = || Error::corrupt(format!("{:.60} is not a value of `{tag}`", json.to_string()));
    let text = || json.as_str().ok_or_else(bad);
    let pair = |json: &Json| match json.as_array().map(Vec::as_slice) {
        Some([a, b]) => Ok((a.clone(), b.clone())),
        _ => Err(bad()),
    };
    let items = || json.as_array().ok_or_else(bad);
    Ok(match tag {
        "$u64" => Value::U64(text()?.parse().map_err(|_| bad())?),
        "$i64" => Value::I64(text()?.parse().map_err(|_| bad())?),
        "$u128" => Value::U128(text()?.parse().map_err(|_| bad())?),
        "$i128" => Value::I128(text()?.parse().map_err(|_| bad())?),
        "$f32" => Value::F32(f32::from_bits(u32::from_str_radix(text()?, 16).map_err(|_| bad())?)),
        "$f64" => Value::F64(f64::from_bits(u64::from_str_radix(text()?, 16).map_err(|_| bad())?)),
        "$char" => Value::Char(text()?.parse().map_err(|_| bad())?),
        "$bytes" => Value::Bytes(bytes_from(text()?)?),
        "$entity" => Value::Entity(EntityId::from_bits(text()?.parse().map_err(|_| bad())?)),
        "$none" => Value::None,
        "$some" => Value::Some(Box::new(dynamic(json)?)),
        "$tuple" => Value::Tuple(items()?.iter().map(dynamic).collect::<Result<_>>()?),
        "$map" => {
            let entry =
                |json: &Json| pair(json).and_then(|(key, value)| Ok((dynamic(&key)?, dynamic(&value)?)));
            Value::Map(items()?.iter().map(entry).collect::<Result<_>>()?)
        }
        "$struct" => {
            let field = |json: &Json| {
                let (name, value) = pair(json)?;
                Ok((name.as_str().ok_or_else(bad)?.to_owned(), dynamic(&value)?))
            };
            Value::Struct(items()?.iter().map(field).collect::<Result<_>>()?)
        }
        "$enum" => {
            let (name, content) = pair(json)?;
            Value::Enum(name.as_str().ok_or_else(bad)?.to_owned(), Box::new(dynamic(&content)?))
        }
        _ => return Err(bad()),
    })
}
