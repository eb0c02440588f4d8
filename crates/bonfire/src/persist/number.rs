//! Numbers, `bool`, `char`, and what is stored like them.

use std::num::{NonZero, Saturating, Wrapping};
use std::sync::atomic;
use std::sync::atomic::Ordering::Relaxed;

use super::Persist;
use crate::entity::EntityId;
use crate::error::Result;
use crate::layout::{Layout, LayoutOf, LeafCheck};
use crate::schema::{Node, SchemaBuilder, Type};
use crate::wire::{Reader, Writer};

/// Numbers whose bytes in memory (on a little-endian host) are their saved bytes.
macro_rules! number {
    ($($rust:ty => $node:ident),*) => {$(
        impl Persist for $rust {
            #[expect(unsafe_code, reason = "promises the layout of a primitive")]
            // SAFETY: a primitive number has no padding, all its bit patterns are values, and `encode` writes its
            // little-endian bytes.
            const LAYOUT: LayoutOf<Self> = unsafe { LayoutOf::new(Layout::leaf(size_of::<Self>(), LeafCheck::Any)) };

            fn schema(types: &mut SchemaBuilder) -> Node {
                types.add(Type::$node)
            }
            #[inline]
            fn encode(&self, out: &mut Writer) {
                out.raw(&self.to_le_bytes());
            }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                input.array().map(Self::from_le_bytes)
            }
        }
    )*};
}
number!(
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, u128 => U128,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, i128 => I128,
    f32 => F32, f64 => F64
);

/// Numbers as wide as a pointer are saved with 64 bits.
macro_rules! pointer_sized {
    ($($rust:ty as $saved:ty),*) => {$(
        impl Persist for $rust {
            #[expect(unsafe_code, reason = "promises the layout of a primitive")]
            const LAYOUT: LayoutOf<Self> = if cfg!(target_pointer_width = "64") {
                // SAFETY: with 64-bit pointers it is the same number with the same bytes.
                unsafe { LayoutOf::new(<$saved>::LAYOUT.get()) }
            } else {
                LayoutOf::ROWS
            };

            fn schema(types: &mut SchemaBuilder) -> Node {
                <$saved>::schema(types)
            }
            #[inline]
            fn encode(&self, out: &mut Writer) {
                (*self as $saved).encode(out);
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                let number = <$saved>::decode(input)?;
                Self::try_from(number).map_err(|_| input.corrupt(format!("{number} does not fit this machine")))
            }
        }
    )*};
}
pointer_sized!(usize as u64, isize as i64);

macro_rules! non_zero {
    ($($number:ty),*) => {$(
        impl Persist for NonZero<$number> {
            #[expect(unsafe_code, reason = "promises the layout of a primitive")]
            const LAYOUT: LayoutOf<Self> = if <$number>::LAYOUT.get().is_bulk() {
                // SAFETY: `NonZero` has the layout of its number and all patterns but zero are values.
                unsafe { LayoutOf::new(Layout::leaf(size_of::<Self>(), LeafCheck::NonZero)) }
            } else {
                LayoutOf::ROWS
            };

            fn schema(types: &mut SchemaBuilder) -> Node {
                <$number>::schema(types)
            }
            #[inline]
            fn encode(&self, out: &mut Writer) {
                self.get().encode(out);
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                Self::new(<$number>::decode(input)?).ok_or_else(|| input.corrupt("a number that must not be 0 is 0"))
            }
        }
    )*};
}
non_zero!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

/// Wrappers with the layout of what they wrap.
macro_rules! transparent {
    ($($wrapper:ident),*) => {$(
        impl<T: Persist> Persist for $wrapper<T> {
            #[expect(unsafe_code, reason = "promises the layout of a wrapper")]
            // SAFETY: the wrapper is `repr(transparent)` and encoded as what it wraps. Who fills a row vouches for it, and a
            // pointer to the wrapper is one to the wrapped value.
            const LAYOUT: LayoutOf<Self> = unsafe {
                LayoutOf::with_fill(T::LAYOUT.get(), |row: *mut Self| T::LAYOUT.fill(row.cast()))
            };

            fn schema(types: &mut SchemaBuilder) -> Node {
                T::schema(types)
            }
            #[inline]
            fn encode(&self, out: &mut Writer) {
                self.0.encode(out);
            }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                T::decode(input).map(Self)
            }
        }
    )*};
}
transparent!(Wrapping, Saturating);

macro_rules! atomic {
    ($($atomic:ident => $number:ty),*) => {$(
        impl Persist for atomic::$atomic {
            fn schema(types: &mut SchemaBuilder) -> Node {
                <$number>::schema(types)
            }
            fn encode(&self, out: &mut Writer) {
                self.load(Relaxed).encode(out);
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                <$number>::decode(input).map(Self::new)
            }
        }
    )*};
}
atomic!(
    AtomicBool => bool, AtomicU8 => u8, AtomicU16 => u16, AtomicU32 => u32, AtomicU64 => u64, AtomicUsize => usize,
    AtomicI8 => i8, AtomicI16 => i16, AtomicI32 => i32, AtomicI64 => i64, AtomicIsize => isize
);

impl Persist for bool {
    #[expect(unsafe_code, reason = "promises the layout of a primitive")]
    // SAFETY: one byte, 0 or 1 in memory as in the save; the check refuses all others.
    const LAYOUT: LayoutOf<Self> = unsafe { LayoutOf::new(Layout::leaf(1, LeafCheck::Bool)) };

    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Bool)
    }
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.u8(u8::from(*self));
    }
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        match input.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            byte => Err(input.corrupt(format!("{byte} is not a bool"))),
        }
    }
}

impl Persist for char {
    #[expect(unsafe_code, reason = "promises the layout of a primitive")]
    // SAFETY: four bytes that hold a `u32`; the check refuses all that are not Unicode scalar values.
    const LAYOUT: LayoutOf<Self> = unsafe { LayoutOf::new(Layout::leaf(4, LeafCheck::Char)) };

    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Char)
    }
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.u32(u32::from(*self));
    }
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let code = input.u32()?;
        Self::from_u32(code).ok_or_else(|| input.corrupt(format!("{code:#x} is not a character")))
    }
}

impl Persist for EntityId {
    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Entity)
    }
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.entity(*self);
    }
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        input.entity()
    }
    #[inline]
    fn is_null(&self) -> bool {
        EntityId::is_null(*self)
    }
}
