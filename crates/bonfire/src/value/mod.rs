//! Values without Rust types: what tools see, what dynamic components hold, what the JSON table carries.
//!
//! A [`Value`] is read and written either by a [`Schema`] (the bytes are those of the typed value) or dynamically (the
//! bytes carry their own types).

mod codec;
mod dynamic;
#[cfg(feature = "serde")]
mod serde;

use std::fmt;

pub(crate) use self::codec::write_sorted;
pub use self::codec::{decode_value, encode_value};
#[cfg(feature = "serde")]
pub use self::serde::{Serde, from_value, to_value};

use crate::entity::EntityId;
use crate::persist::Persist;
use crate::schema::Schema;
use crate::wire::Writer;

/// Any saved value.
///
/// Two values are equal if they would be saved as the same bytes; so a NaN equals itself and `0.0` is not `-0.0`.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants mirror `Type`")]
pub enum Value {
    Unit,
    Bool(bool),
    /// Any unsigned number up to 64 bits.
    U64(u64),
    /// Any signed number up to 64 bits.
    I64(i64),
    U128(u128),
    I128(i128),
    F32(f32),
    F64(f64),
    Char(char),
    Text(String),
    Bytes(Vec<u8>),
    Entity(EntityId),
    None,
    Some(Box<Value>),
    /// Lists, sets and arrays.
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Tuple(Vec<Value>),
    Struct(Vec<(String, Value)>),
    /// A variant's name and content; the content of a variant without data is `Unit`.
    Enum(String, Box<Value>),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unit, Self::Unit) | (Self::None, Self::None) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::U64(a), Self::U64(b)) => a == b,
            (Self::I64(a), Self::I64(b)) => a == b,
            (Self::U128(a), Self::U128(b)) => a == b,
            (Self::I128(a), Self::I128(b)) => a == b,
            (Self::F32(a), Self::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::F64(a), Self::F64(b)) => a.to_bits() == b.to_bits(),
            (Self::Char(a), Self::Char(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Entity(a), Self::Entity(b)) => a == b,
            (Self::Some(a), Self::Some(b)) => a == b,
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Struct(a), Self::Struct(b)) => a == b,
            (Self::Enum(a, x), Self::Enum(b, y)) => a == b && x == y,
            _ => false,
        }
    }
}
impl Eq for Value {}

macro_rules! from {
    ($($rust:ty => $variant:ident as $inner:ty),* $(,)?) => {$(
        impl From<$rust> for Value {
            fn from(value: $rust) -> Self {
                Self::$variant(<$inner>::from(value))
            }
        }
    )*};
}
from!(
    bool => Bool as bool, u8 => U64 as u64, u16 => U64 as u64, u32 => U64 as u64, u64 => U64 as u64,
    u128 => U128 as u128, i8 => I64 as i64, i16 => I64 as i64, i32 => I64 as i64, i64 => I64 as i64,
    i128 => I128 as i128, f32 => F32 as f32, f64 => F64 as f64, char => Char as char, &str => Text as String,
    String => Text as String, EntityId => Entity as EntityId,
);

impl Value {
    /// The field of a struct, or the entry of a map with text keys.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(field, _)| field == name).map(|(_, value)| value),
            Self::Map(entries) => {
                let named = |key: &Value| matches!(key, Self::Text(text) if text == name);
                entries.iter().find(|(key, _)| named(key)).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Sorts the entries of all maps by their keys. Maps that came through serde have the order of their owner.
    pub(crate) fn sort_maps(&mut self) {
        match self {
            Self::Some(value) | Self::Enum(_, value) => value.sort_maps(),
            Self::List(values) | Self::Tuple(values) => values.iter_mut().for_each(Self::sort_maps),
            Self::Struct(fields) => fields.iter_mut().for_each(|(_, value)| value.sort_maps()),
            Self::Map(entries) => {
                for (key, value) in &mut *entries {
                    key.sort_maps();
                    value.sort_maps();
                }
                entries.sort_by_cached_key(|(key, _)| {
                    let mut out = Writer::new();
                    key.encode(&mut out);
                    out.into_memory()
                });
            }
            _ => {}
        }
    }

    /// The schema of values that carry their own types.
    pub fn schema() -> Schema {
        Schema::of::<Self>()
    }
}

/// Compact and for people: `{current: 3.5, max: 10}`. Text from a save is escaped.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T>(
            f: &mut fmt::Formatter<'_>,
            ends: [&str; 2],
            items: &[T],
            mut show: impl FnMut(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
        ) -> fmt::Result {
            f.write_str(ends[0])?;
            for (i, item) in items.iter().enumerate() {
                f.write_str(if i > 0 { ", " } else { "" })?;
                show(item, f)?;
            }
            f.write_str(ends[1])
        }
        match self {
            Self::Unit => f.write_str("()"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::U64(value) => write!(f, "{value}"),
            Self::I64(value) => write!(f, "{value}"),
            Self::U128(value) => write!(f, "{value}"),
            Self::I128(value) => write!(f, "{value}"),
            Self::F32(value) => write!(f, "{value}"),
            Self::F64(value) => write!(f, "{value}"),
            Self::Char(value) => write!(f, "'{}'", value.escape_debug()),
            Self::Text(value) => write!(f, "\"{}\"", value.escape_debug()),
            Self::Bytes(value) => write!(f, "<{} bytes>", value.len()),
            Self::Entity(value) => write!(f, "@{value}"),
            Self::None => f.write_str("none"),
            Self::Some(value) => write!(f, "{value}"),
            Self::List(values) => list(f, ["[", "]"], values, |value, f| write!(f, "{value}")),
            Self::Tuple(values) => list(f, ["(", ")"], values, |value, f| write!(f, "{value}")),
            Self::Map(entries) => list(f, ["{", "}"], entries, |(key, value), f| write!(f, "{key}: {value}")),
            Self::Struct(fields) => {
                list(f, ["{", "}"], fields, |(name, value), f| write!(f, "{}: {value}", name.escape_debug()))
            }
            Self::Enum(name, content) => match &**content {
                Self::Unit => write!(f, "{}", name.escape_debug()),
                content => write!(f, "{}{content}", name.escape_debug()),
            },
        }
    }
}
