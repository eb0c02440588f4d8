//! Values that carry their own types: one tag byte in front of each.

use super::Value;
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::schema::{Node, SchemaBuilder, Type};
use crate::wire::{Reader, Writer};

/// The tags of FORMAT.md, "Dynamic values".
mod tag {
    pub(super) const UNIT: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const U64: u8 = 3;
    pub(super) const I64: u8 = 4;
    pub(super) const U128: u8 = 5;
    pub(super) const I128: u8 = 6;
    pub(super) const F32: u8 = 7;
    pub(super) const F64: u8 = 8;
    pub(super) const CHAR: u8 = 9;
    pub(super) const TEXT: u8 = 10;
    pub(super) const BYTES: u8 = 11;
    pub(super) const ENTITY: u8 = 12;
    pub(super) const NONE: u8 = 13;
    pub(super) const SOME: u8 = 14;
    pub(super) const LIST: u8 = 15;
    pub(super) const MAP: u8 = 16;
    pub(super) const TUPLE: u8 = 17;
    pub(super) const STRUCT: u8 = 18;
    pub(super) const ENUM: u8 = 19;
}

impl Persist for Value {
    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Dynamic)
    }

    fn encode(&self, out: &mut Writer) {
        let list = |tag: u8, values: &[Self], out: &mut Writer| {
            out.u8(tag);
            out.varint(values.len() as u64);
            out.nested(|out| values.iter().for_each(|value| value.encode(out)));
        };
        match self {
            Self::Unit => out.u8(tag::UNIT),
            Self::Bool(value) => out.u8(if *value { tag::TRUE } else { tag::FALSE }),
            Self::U64(value) => {
                out.u8(tag::U64);
                out.varint(*value);
            }
            Self::I64(value) => {
                out.u8(tag::I64);
                out.varint(zigzag(*value));
            }
            Self::U128(value) => {
                out.u8(tag::U128);
                value.encode(out);
            }
            Self::I128(value) => {
                out.u8(tag::I128);
                value.encode(out);
            }
            Self::F32(value) => {
                out.u8(tag::F32);
                value.encode(out);
            }
            Self::F64(value) => {
                out.u8(tag::F64);
                value.encode(out);
            }
            Self::Char(value) => {
                out.u8(tag::CHAR);
                value.encode(out);
            }
            Self::Text(value) => {
                out.u8(tag::TEXT);
                out.text(value);
            }
            Self::Bytes(value) => {
                out.u8(tag::BYTES);
                out.blob(value);
            }
            Self::Entity(value) => {
                out.u8(tag::ENTITY);
                out.entity(*value);
            }
            Self::None => out.u8(tag::NONE),
            Self::Some(value) => {
                out.u8(tag::SOME);
                out.nested(|out| value.encode(out));
            }
            Self::List(values) => list(tag::LIST, values, out),
            Self::Tuple(values) => list(tag::TUPLE, values, out),
            Self::Map(entries) => {
                out.u8(tag::MAP);
                out.varint(entries.len() as u64);
                out.nested(|out| {
                    for (key, value) in entries {
                        key.encode(out);
                        value.encode(out);
                    }
                });
            }
            Self::Struct(fields) => {
                out.u8(tag::STRUCT);
                out.varint(fields.len() as u64);
                out.nested(|out| {
                    for (name, value) in fields {
                        out.text(name);
                        value.encode(out);
                    }
                });
            }
            Self::Enum(name, content) => {
                out.u8(tag::ENUM);
                out.text(name);
                out.nested(|out| content.encode(out));
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let tuple = |input: &mut Reader<'_>| {
            let count = input.count(size_of::<Self>())?;
            input.nested(|input| (0..count).map(|_| Self::decode(input)).collect::<Result<Vec<_>>>())
        };
        Ok(match input.u8()? {
            tag::UNIT => Self::Unit,
            tag::FALSE => Self::Bool(false),
            tag::TRUE => Self::Bool(true),
            tag::U64 => Self::U64(input.varint()?),
            tag::I64 => Self::I64(unzigzag(input.varint()?)),
            tag::U128 => Self::U128(u128::decode(input)?),
            tag::I128 => Self::I128(i128::decode(input)?),
            tag::F32 => Self::F32(f32::decode(input)?),
            tag::F64 => Self::F64(f64::decode(input)?),
            tag::CHAR => Self::Char(char::decode(input)?),
            tag::TEXT => Self::Text(String::decode(input)?),
            tag::BYTES => Self::Bytes(Vec::decode(input)?),
            tag::ENTITY => Self::Entity(input.entity()?),
            tag::NONE => Self::None,
            tag::SOME => {
                let dangling = input.context().dangling_so_far();
                let value = input.nested(Self::decode)?;
                match value.is_null() && input.context().removes_element(dangling) {
                    true => Self::None,
                    false => Self::Some(Box::new(value)),
                }
            }
            tag::LIST => Self::List(Vec::decode(input)?),
            tag::TUPLE => Self::Tuple(tuple(input)?),
            tag::MAP => {
                let count = input.count(size_of::<(Self, Self)>())?;
                let entry = |input: &mut Reader<'_>| {
                    let dangling = input.context().dangling_so_far();
                    let (key, value) = (Self::decode(input)?, Self::decode(input)?);
                    let is_removed =
                        (key.is_null() || value.is_null()) && input.context().removes_element(dangling);
                    Ok((!is_removed).then_some((key, value)))
                };
                let entries =
                    input.nested(|input| (0..count).map(|_| entry(input)).collect::<Result<Vec<_>>>())?;
                Self::Map(entries.into_iter().flatten().collect())
            }
            tag::STRUCT => {
                let count = input.count(size_of::<(String, Self)>())?;
                let field = |input: &mut Reader<'_>| Ok((String::decode(input)?, Self::decode(input)?));
                Self::Struct(input.nested(|input| (0..count).map(|_| field(input)).collect::<Result<_>>())?)
            }
            tag::ENUM => {
                let name = String::decode(input)?;
                Self::Enum(name, Box::new(input.nested(Self::decode)?))
            }
            tag => {
                return Err(Error::newer_format(format!("value tag {tag} is not known to this version"))
                    .at(input.offset()));
            }
        })
    }

    /// Returns true for a null reference, also as the only part of a tuple or struct.
    fn is_null(&self) -> bool {
        match self {
            Self::Entity(id) => id.is_null(),
            Self::Tuple(parts) => matches!(&parts[..], [part] if part.is_null()),
            Self::Struct(fields) => matches!(&fields[..], [(_, field)] if field.is_null()),
            _ => false,
        }
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
