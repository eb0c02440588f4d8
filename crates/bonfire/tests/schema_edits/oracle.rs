//! The rules, once more: which types may become which, what values become, and what is lost. On trees and values, without a
//! line of the library's own conversion.

use std::collections::{BTreeMap, BTreeSet};

use bonfire::Value;
use bonfire::schema::Type;
use bonfire_testkit::shape::{Part, Shape};

/// How many bits hold the magnitude of an integer, and whether it has a sign.
fn bits(ty: &Type) -> Option<(u32, bool)> {
    Some(match ty {
        Type::U8 => (8, false),
        Type::U16 => (16, false),
        Type::U32 => (32, false),
        Type::U64 => (64, false),
        Type::U128 => (128, false),
        Type::I8 => (7, true),
        Type::I16 => (15, true),
        Type::I32 => (31, true),
        Type::I64 => (63, true),
        Type::I128 => (127, true),
        _ => return None,
    })
}

/// A number may become one that has all of its values.
fn widens(from: &Type, to: &Type) -> bool {
    match (bits(from), bits(to), from, to) {
        (Some((a, signed)), Some((b, wide_signed)), ..) => a <= b && (!signed || wide_signed),
        (Some((a, _)), None, _, Type::F32) => a <= 24,
        (Some((a, _)), None, _, Type::F64) => a <= 53,
        (None, None, Type::F32, Type::F64) => true,
        _ => false,
    }
}

fn widened(value: &Value, to: &Type) -> Value {
    let whole = match *value {
        Value::U64(number) => Some(i128::from(number)),
        Value::I64(number) => Some(i128::from(number)),
        Value::I128(number) => Some(number),
        Value::U128(number) if *to == Type::U128 => return Value::U128(number),
        _ => None,
    };
    match (to, whole, value) {
        (Type::U8 | Type::U16 | Type::U32 | Type::U64, Some(number), _) => Value::U64(number as u64),
        (Type::I8 | Type::I16 | Type::I32 | Type::I64, Some(number), _) => Value::I64(number as i64),
        (Type::U128, Some(number), _) => Value::U128(number as u128),
        (Type::I128, Some(number), _) => Value::I128(number),
        (Type::F32, Some(number), _) => Value::F32(number as f32),
        (Type::F64, Some(number), _) => Value::F64(number as f64),
        (Type::F64, None, Value::F32(number)) => Value::F64(f64::from(*number)),
        _ => value.clone(),
    }
}

/// Which saved field each field of the target reads: under its own name, or one that it had, if no field before has read it.
fn matches(source: &[Part], target: &[Part]) -> Vec<Option<usize>> {
    let mut left: BTreeMap<&str, usize> = source.iter().map(|part| &*part.name).zip(0..).collect();
    let find = |part: &Part| {
        let mut names = std::iter::once(&part.name).chain(&part.aliases);
        names.find_map(|name| left.remove(name.as_str()))
    };
    target.iter().map(find).collect()
}

fn variant<'t>(target: &'t [Part], name: &str) -> Option<&'t Part> {
    let by_name = target.iter().find(|part| part.name == name);
    by_name.or_else(|| target.iter().find(|part| part.aliases.iter().any(|alias| alias == name)))
}

/// What a field is in saves that do not have it.
fn missing(part: &Part) -> Option<Value> {
    match (&part.default, &part.shape) {
        (Some(default), _) => Some(default.clone()),
        (None, Shape::Option(_)) => Some(Value::None),
        (None, Shape::Leaf(Type::Unit)) => Some(Value::Unit),
        _ => None,
    }
}

/// Whether saves of one type can be read as another at all.
pub(crate) fn is_compatible(source: &Shape, target: &Shape) -> bool {
    use Shape::{Array, Enum, Leaf, List, Map, Option, Set, Struct, Tuple};
    let fields = |source: &[Part], target: &[Part], found: Vec<std::option::Option<usize>>| {
        target.iter().zip(found).all(|(part, found)| match found {
            Some(number) => is_compatible(&source[number].shape, &part.shape),
            None => missing(part).is_some(),
        })
    };
    match (source, target) {
        (Leaf(Type::Dynamic), _) | (_, Leaf(Type::Dynamic)) => true,
        (Option(a), Option(b)) => is_compatible(a, b),
        (a, Option(b)) => is_compatible(a, b),
        (List(a) | Set(a) | Array(a, _), List(b)) | (Set(a), Set(b)) => is_compatible(a, b),
        (Array(a, len), Array(b, other)) => len == other && is_compatible(a, b),
        (Array(a, _) | Set(a), Leaf(Type::Bytes)) => **a == Leaf(Type::U8),
        (Leaf(Type::Bytes), List(b)) => byte_as(b, 0).is_some(),
        (Map(a, x), Map(b, y)) => is_compatible(a, b) && is_compatible(x, y),
        (Struct(a, _), Struct(b, _)) => fields(a, b, matches(a, b)),
        (Tuple(a), Tuple(b)) => fields(a, b, (0..b.len()).map(|i| (i < a.len()).then_some(i)).collect()),
        (Leaf(Type::Unit), Struct(b, _) | Tuple(b)) => b.iter().all(|part| missing(part).is_some()),
        (Struct(..) | Tuple(_), Leaf(Type::Unit)) => true,
        (Enum(a), Enum(b)) => a.iter().all(|saved| {
            variant(b, &saved.name).is_none_or(|variant| is_compatible(&saved.shape, &variant.shape))
        }),
        (Leaf(a), Leaf(b)) => a == b || widens(a, b),
        _ => false,
    }
}

/// Whether a value that carries its own types meets a type that does not.
pub(crate) fn reads_dynamic(source: &Shape, target: &Shape) -> bool {
    use Shape::{Array, Enum, Leaf, List, Map, Option, Set, Struct, Tuple};
    match (source, target) {
        (_, Leaf(Type::Dynamic)) => false,
        (Leaf(Type::Dynamic), _) => true,
        (Option(a), Option(b)) => reads_dynamic(a, b),
        (a, Option(b)) => reads_dynamic(a, b),
        (List(a) | Set(a) | Array(a, _), List(b) | Set(b) | Array(b, _)) => reads_dynamic(a, b),
        (Map(a, x), Map(b, y)) => reads_dynamic(a, b) || reads_dynamic(x, y),
        (Struct(a, _), Struct(b, _)) => {
            let read = matches(a, b);
            let mut pairs =
                b.iter().zip(read).filter_map(|(part, number)| Some((&a[number?].shape, &part.shape)));
            pairs.any(|(a, b)| reads_dynamic(a, b))
        }
        (Tuple(a), Tuple(b)) => a.iter().zip(b).any(|(a, b)| reads_dynamic(&a.shape, &b.shape)),
        (Enum(a), Enum(b)) => a.iter().any(|saved| {
            variant(b, &saved.name).is_some_and(|variant| reads_dynamic(&saved.shape, &variant.shape))
        }),
        _ => false,
    }
}

/// What a value becomes. Nothing if this one is refused: a variant is gone, or two keys became one. Values that carry their
/// own types become typed ones in a way that has a test of its own.
pub(crate) fn turn(source: &Shape, target: &Shape, value: &Value) -> Option<Value> {
    match (source, target, value) {
        (_, Shape::Leaf(Type::Dynamic), _) => Some(value.clone()),
        (Shape::Option(_), Shape::Option(_), Value::None) => Some(Value::None),
        (Shape::Option(a), Shape::Option(b), Value::Some(value)) => {
            Some(Value::Some(Box::new(turn(a, b, value)?)))
        }
        (a, Shape::Option(b), _) => Some(Value::Some(Box::new(turn(a, b, value)?))),
        (
            Shape::List(a) | Shape::Set(a) | Shape::Array(a, _),
            Shape::List(b) | Shape::Array(b, _),
            Value::List(values),
        ) => values.iter().map(|value| turn(a, b, value)).collect::<Option<_>>().map(Value::List),
        (Shape::Set(a), Shape::Set(b), Value::List(values)) => {
            let entries = values.iter().map(|value| Some((turn(a, b, value)?, Value::Unit)));
            let sorted = sorted(b, entries.collect::<Option<_>>()?)?;
            Some(Value::List(sorted.into_iter().map(|(value, _)| value).collect()))
        }
        (Shape::Map(a, x), Shape::Map(b, y), Value::Map(entries)) => {
            let entries = entries.iter().map(|(key, value)| Some((turn(a, b, key)?, turn(x, y, value)?)));
            sorted(b, entries.collect::<Option<_>>()?).map(Value::Map)
        }
        (Shape::Array(..) | Shape::Set(_), Shape::Leaf(_), Value::List(values)) => {
            let byte = |value: &Value| if let Value::U64(byte) = value { *byte as u8 } else { 0 };
            Some(Value::Bytes(values.iter().map(byte).collect()))
        }
        (Shape::Leaf(_), Shape::List(element), Value::Bytes(bytes)) => {
            bytes.iter().map(|byte| byte_as(element, *byte)).collect::<Option<_>>().map(Value::List)
        }
        (Shape::Struct(a, _), Shape::Struct(b, _), Value::Struct(values)) => {
            let field = |(part, found): (&Part, Option<usize>)| {
                let value = match found {
                    Some(number) => turn(&a[number].shape, &part.shape, &values[number].1),
                    None => missing(part),
                };
                Some((part.name.clone(), value?))
            };
            b.iter().zip(matches(a, b)).map(field).collect::<Option<_>>().map(Value::Struct)
        }
        (Shape::Tuple(a), Shape::Tuple(b), Value::Tuple(values)) => {
            let field = |(i, part): (usize, &Part)| match a.get(i) {
                Some(saved) => turn(&saved.shape, &part.shape, &values[i]),
                None => missing(part),
            };
            b.iter().enumerate().map(field).collect::<Option<_>>().map(Value::Tuple)
        }
        (_, Shape::Struct(b, _), Value::Unit) => b
            .iter()
            .map(|part| Some((part.name.clone(), missing(part)?)))
            .collect::<Option<_>>()
            .map(Value::Struct),
        (_, Shape::Tuple(b), Value::Unit) => b.iter().map(missing).collect::<Option<_>>().map(Value::Tuple),
        (Shape::Struct(..) | Shape::Tuple(_), Shape::Leaf(_), _) => Some(Value::Unit),
        (Shape::Enum(a), Shape::Enum(b), Value::Enum(name, content)) => {
            let saved = a.iter().find(|part| part.name == *name)?;
            let variant = variant(b, name)?;
            Some(Value::Enum(variant.name.clone(), Box::new(turn(&saved.shape, &variant.shape, content)?)))
        }
        (Shape::Leaf(_), Shape::Leaf(ty), _) => Some(widened(value, ty)),
        _ => None,
    }
}

/// Entries in the order of the bytes of their keys. Nothing if a key is there twice.
fn sorted(key: &Shape, entries: Vec<(Value, Value)>) -> Option<Vec<(Value, Value)>> {
    let count = entries.len();
    let sorted: BTreeMap<Vec<u8>, (Value, Value)> =
        entries.into_iter().map(|entry| (key.encode(&entry.0), entry)).collect();
    (sorted.len() == count).then(|| sorted.into_values().collect())
}

/// The fields of the source that are not in the result, and whether they are carried.
pub(crate) fn losses(source: &Shape, target: &Shape) -> BTreeSet<(String, bool)> {
    let mut found = BTreeSet::new();
    lose(source, target, "", true, &mut found);
    found
}

fn lose(source: &Shape, target: &Shape, path: &str, in_place: bool, found: &mut BTreeSet<(String, bool)>) {
    use Shape::{Array, Enum, Leaf, List, Map, Option, Set, Struct, Tuple};
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (source, target) {
        (Leaf(Type::Dynamic), _) | (_, Leaf(Type::Dynamic)) => {}
        (Option(a), Option(b)) => lose(a, b, &at("some"), false, found),
        (a, Option(b)) => lose(a, b, path, false, found),
        (List(a) | Set(a) | Array(a, _), List(b) | Set(b) | Array(b, _)) => {
            lose(a, b, &at("element"), false, found);
        }
        (Map(a, x), Map(b, y)) => {
            lose(a, b, &at("key"), false, found);
            lose(x, y, &at("value"), false, found);
        }
        (Struct(a, _), Struct(b, removed)) => {
            let read = matches(a, b);
            for (part, number) in b.iter().zip(&read).filter_map(|(part, number)| Some((part, (*number)?))) {
                lose(&a[number].shape, &part.shape, &at(&part.name), in_place, found);
            }
            let lost = a.iter().enumerate().filter(|(number, _)| !read.contains(&Some(*number)));
            found.extend(lost.map(|(_, part)| (at(&part.name), in_place && !removed.contains(&part.name))));
        }
        (Struct(a, _), Leaf(Type::Unit)) => found.extend(a.iter().map(|part| (at(&part.name), in_place))),
        (Tuple(a), Tuple(b)) => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                lose(&a.shape, &b.shape, &at(&i.to_string()), false, found);
            }
            found.extend((b.len()..a.len()).map(|i| (at(&i.to_string()), false)));
        }
        (Tuple(a), Leaf(Type::Unit)) => found.extend((0..a.len()).map(|i| (at(&i.to_string()), false))),
        (Enum(a), Enum(b)) => {
            for saved in a {
                if let Some(variant) = variant(b, &saved.name) {
                    lose(&saved.shape, &variant.shape, &at(&variant.name), false, found);
                }
            }
        }
        _ => {}
    }
}

/// One of some bytes as an element of a list.
fn byte_as(element: &Shape, byte: u8) -> Option<Value> {
    match element {
        Shape::Leaf(Type::U8) => Some(Value::from(byte)),
        Shape::Leaf(ty) if widens(&Type::U8, ty) => Some(widened(&Value::from(byte), ty)),
        Shape::Option(some) => byte_as(some, byte).map(|value| Value::Some(Box::new(value))),
        _ => None,
    }
}
