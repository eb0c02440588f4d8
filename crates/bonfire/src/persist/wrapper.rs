//! Boxes, cells, and the small structs of the standard library.
//!
//! A `SystemTime` is a value like others: the core takes and returns it, and reads no clock.

use std::cell::{Cell, RefCell};
use std::cmp::{Ordering, Reverse};
use std::ops::{Range, RangeFrom, RangeInclusive, RangeTo};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Persist;
use crate::error::{Error, Result};
use crate::schema::{Field, Node, SchemaBuilder, Type, Variant};
use crate::wire::{Reader, Writer};

macro_rules! pointer {
    ($($pointer:ident),*) => {$(
        impl<T: Persist> Persist for $pointer<T> {
            fn schema(types: &mut SchemaBuilder) -> Node {
                T::schema(types)
            }
            fn encode(&self, out: &mut Writer) {
                out.nested(|out| T::encode(self, out));
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                input.context().claim_memory(1, size_of::<T>())?;
                input.nested(T::decode).map(Self::new)
            }
            fn is_null(&self) -> bool {
                T::is_null(self)
            }
        }
    )*};
}
pointer!(Box, Rc, Arc);

impl<T: Persist + Copy> Persist for Cell<T> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        T::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        self.get().encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        T::decode(input).map(Self::new)
    }
}

impl<T: Persist> Persist for RefCell<T> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        T::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        match self.try_borrow() {
            Ok(value) => value.encode(out),
            Err(_) => out.fail(Error::misuse("a RefCell is borrowed mutably while it is saved")),
        }
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        T::decode(input).map(Self::new)
    }
}

impl<T: Persist> Persist for Reverse<T> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        T::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        self.0.encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        T::decode(input).map(Self)
    }
}

const NANOS_PER_SECOND: u32 = 1_000_000_000;

impl Persist for Duration {
    fn schema(types: &mut SchemaBuilder) -> Node {
        let (secs, nanos) = (u64::schema(types), u32::schema(types));
        types.add(Type::Struct(vec![Field::new("secs", secs), Field::new("nanos", nanos)].into()))
    }
    fn encode(&self, out: &mut Writer) {
        out.u64(self.as_secs());
        out.u32(self.subsec_nanos());
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (secs, nanos) = (input.u64()?, input.u32()?);
        if nanos >= NANOS_PER_SECOND {
            return Err(input.corrupt(format!("{nanos} nanoseconds are more than a second")));
        }
        Ok(Self::new(secs, nanos))
    }
}

/// Saved as seconds since 1970, below zero for earlier times, and nanoseconds after that second. Systems whose clocks are
/// coarser (100 ns on Windows) round down, and a time that the system cannot express is refused.
impl Persist for SystemTime {
    fn schema(types: &mut SchemaBuilder) -> Node {
        let (secs, nanos) = (i64::schema(types), u32::schema(types));
        types.add(Type::Struct(vec![Field::new("secs", secs), Field::new("nanos", nanos)].into()))
    }
    fn encode(&self, out: &mut Writer) {
        let (secs, nanos) = match self.duration_since(Self::UNIX_EPOCH) {
            Ok(after) => (i128::from(after.as_secs()), after.subsec_nanos()),
            Err(error) => {
                let before = error.duration();
                match before.subsec_nanos() {
                    0 => (-i128::from(before.as_secs()), 0),
                    nanos => (-i128::from(before.as_secs()) - 1, NANOS_PER_SECOND - nanos),
                }
            }
        };
        match i64::try_from(secs) {
            Ok(secs) => secs.encode(out),
            Err(_) => out.fail(Error::misuse(format!("{secs} seconds since 1970 do not fit into 64 bits"))),
        }
        out.u32(nanos);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (secs, nanos) = (i64::decode(input)?, input.u32()?);
        if nanos >= NANOS_PER_SECOND {
            return Err(input.corrupt(format!("{nanos} nanoseconds are more than a second")));
        }
        let distance = Duration::from_secs(secs.unsigned_abs());
        let second = match secs < 0 {
            true => Self::UNIX_EPOCH.checked_sub(distance),
            false => Self::UNIX_EPOCH.checked_add(distance),
        };
        second
            .and_then(|second| second.checked_add(Duration::from_nanos(u64::from(nanos))))
            .ok_or_else(|| input.corrupt(format!("no clock of this system shows {secs} seconds since 1970")))
    }
}

/// Ranges are structs of their ends.
macro_rules! range {
    ($($range:ident { $($end:ident),* } = $make:expr;)*) => {$(
        impl<T: Persist> Persist for $range<T> {
            fn schema(types: &mut SchemaBuilder) -> Node {
                let end = T::schema(types);
                types.add(Type::Struct(vec![$(Field::new(stringify!($end), end)),*].into()))
            }
            fn encode(&self, out: &mut Writer) {
                $(range!(@get self, $range, $end).encode(out);)*
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                $(let $end = T::decode(input).map_err(|error| error.in_field(stringify!($end)))?;)*
                Ok($make($($end),*))
            }
        }
    )*};
    (@get $self:ident, RangeInclusive, $end:ident) => { $self.$end() };
    (@get $self:ident, $range:ident, $end:ident) => { $self.$end };
}
range! {
    Range { start, end } = |start, end| start..end;
    RangeFrom { start } = |start| start..;
    RangeTo { end } = |end| ..end;
    RangeInclusive { start, end } = RangeInclusive::new;
}

impl Persist for Ordering {
    fn schema(types: &mut SchemaBuilder) -> Node {
        let unit = types.add(Type::Unit);
        types.add(Type::Enum(["Less", "Equal", "Greater"].map(|name| Variant::new(name, unit)).to_vec()))
    }
    fn encode(&self, out: &mut Writer) {
        out.u8((*self as i8 + 1) as u8);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        match input.u8()? {
            0 => Ok(Self::Less),
            1 => Ok(Self::Equal),
            2 => Ok(Self::Greater),
            byte => Err(input.corrupt(format!("{byte} is not an ordering"))),
        }
    }
}
