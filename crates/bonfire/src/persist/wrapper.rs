//! Boxes, cells, and the small structs of the standard library.

use std::cell::{Cell, RefCell};
use std::cmp::{Ordering, Reverse};
use std::ops::{Range, RangeFrom, RangeInclusive, RangeTo};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

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
        if nanos >= 1_000_000_000 {
            return Err(input.corrupt(format!("{nanos} nanoseconds are more than a second")));
        }
        Ok(Self::new(secs, nanos))
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
