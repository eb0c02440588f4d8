//! Which numbers may become which: only those that hold every value of the other, exactly.

use crate::error::Result;
use crate::persist::Persist;
use crate::schema::Type;
use crate::wire::{Reader, Writer};

/// A number from a save as something that every number fits in.
#[derive(Clone, Copy)]
enum Number {
    Unsigned(u128),
    Signed(i128),
    Float(f64),
}

/// Integers as their bits: how many hold the magnitude, and whether there is a sign.
fn integer(ty: &Type) -> Option<(u32, bool)> {
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

/// How many bits of an integer a float holds exactly.
fn mantissa(ty: &Type) -> Option<u32> {
    match ty {
        Type::F32 => Some(24),
        Type::F64 => Some(53),
        _ => None,
    }
}

pub(super) fn is_number(ty: &Type) -> bool {
    integer(ty).is_some() || mantissa(ty).is_some()
}

/// Whether every value of `from` is one of `to`.
pub(super) fn widens(from: &Type, to: &Type) -> bool {
    match (integer(from), integer(to), mantissa(to)) {
        (Some((bits, signed)), Some((wide, wide_signed)), _) => bits <= wide && (wide_signed || !signed),
        (Some((bits, _)), _, Some(exact)) => bits <= exact,
        _ => matches!((from, to), (Type::F32, Type::F64)),
    }
}

/// Reads a `from` and writes it as a `to`, which is wider.
#[inline]
pub(super) fn widen(from: &Type, to: &Type, input: &mut Reader<'_>, out: &mut Writer) -> Result<()> {
    use Number::{Float, Signed, Unsigned};
    let number = match from {
        Type::U8 => Unsigned(u8::decode(input)?.into()),
        Type::U16 => Unsigned(u16::decode(input)?.into()),
        Type::U32 => Unsigned(u32::decode(input)?.into()),
        Type::U64 => Unsigned(u64::decode(input)?.into()),
        Type::U128 => Unsigned(u128::decode(input)?),
        Type::I8 => Signed(i8::decode(input)?.into()),
        Type::I16 => Signed(i16::decode(input)?.into()),
        Type::I32 => Signed(i32::decode(input)?.into()),
        Type::I64 => Signed(i64::decode(input)?.into()),
        Type::I128 => Signed(i128::decode(input)?),
        Type::F32 => Float(f32::decode(input)?.into()),
        _ => Float(f64::decode(input)?),
    };
    // A wider number has the same low bytes, and what comes before them is the sign.
    let bits = match number {
        Unsigned(number) => number,
        Signed(number) => number as u128,
        Float(_) => 0,
    };
    let float = match number {
        Unsigned(number) => number as f64,
        Signed(number) => number as f64,
        Float(number) => number,
    };
    match to {
        Type::U8 | Type::I8 => out.u8(bits as u8),
        Type::U16 | Type::I16 => out.u16(bits as u16),
        Type::U32 | Type::I32 => out.u32(bits as u32),
        Type::U64 | Type::I64 => out.u64(bits as u64),
        Type::F32 => (float as f32).encode(out),
        Type::F64 => float.encode(out),
        _ => bits.encode(out),
    }
    Ok(())
}
