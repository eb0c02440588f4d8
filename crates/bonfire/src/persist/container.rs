//! Lists, arrays, options and results.
//!
//! Lists of dense elements (`Vec<f32>`, `Vec<[u8; 4]>`) are one copy.

use std::borrow::Cow;
use std::collections::{BinaryHeap, LinkedList, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::Persist;
use super::dense::{dense_array, dense_bytes, dense_vec};
use crate::bulk;
use crate::error::Result;
use crate::layout::{Layout, LayoutOf};
use crate::schema::{Node, SchemaBuilder, Type, Variant};
use crate::wire::{Reader, Writer};

pub(super) fn encode_slice<T: Persist>(slice: &[T], out: &mut Writer) {
    out.varint(slice.len() as u64);
    if let Some(bytes) = dense_bytes(slice) {
        check_empty(slice.len(), bytes.len(), out);
        return out.raw(bytes);
    }
    let start = out.len();
    out.nested(|out| slice.iter().for_each(|element| element.encode(out)));
    check_empty(slice.len(), out.len() - start, out);
}

/// Elements without bytes have a limit on load, so they have one on save.
fn check_empty(count: usize, bytes: usize, out: &mut Writer) {
    let max = crate::limits::Limits::default().empty_elements_max;
    if bytes == 0 && count as u64 > max {
        out.fail(crate::error::Error::limit(format!(
            "{count} elements without bytes, at most {max} can be loaded"
        )));
    }
}

pub(super) fn decode_vec<T: Persist>(input: &mut Reader<'_>) -> Result<Vec<T>> {
    let count = input.count(size_of::<T>())?;
    if let Some(list) = dense_vec(input, count) {
        return list;
    }
    input.nested(|input| {
        let mut list = bulk::reserve(count)?;
        for i in 0..count {
            let before = input.context().dangling_so_far();
            let element = T::decode(input).map_err(|error| error.in_field(i))?;
            if !(element.is_null() && input.context().removes_element(before)) {
                list.push(element);
            }
        }
        Ok(list)
    })
}

impl<T: Persist> Persist for Vec<T> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        let element = T::schema(types);
        // The same bytes either way; tools show them as what they are.
        types.add(if *types.get(element) == Type::U8 { Type::Bytes } else { Type::List(element) })
    }
    #[inline]
    fn encode(&self, out: &mut Writer) {
        encode_slice(self, out);
    }
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        decode_vec(input)
    }
}

/// Owners of a slice, filled from a `Vec`.
macro_rules! slice_owner {
    ($($owner:ty),*) => {$(
        impl<T: Persist> Persist for $owner {
            fn schema(types: &mut SchemaBuilder) -> Node {
                Vec::<T>::schema(types)
            }
            fn encode(&self, out: &mut Writer) {
                encode_slice(self, out);
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                decode_vec::<T>(input).map(Self::from)
            }
        }
    )*};
}
slice_owner!(Box<[T]>, Rc<[T]>, Arc<[T]>);

impl<T: Persist + Clone> Persist for Cow<'static, [T]> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        Vec::<T>::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        encode_slice(self, out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        decode_vec(input).map(Cow::Owned)
    }
}

/// Sequences that are not one slice.
macro_rules! sequence {
    ($($list:ident $(: $bound:ident)?),*) => {$(
        impl<T: Persist $(+ $bound)?> Persist for $list<T> {
            fn schema(types: &mut SchemaBuilder) -> Node {
                Vec::<T>::schema(types)
            }
            fn encode(&self, out: &mut Writer) {
                out.varint(self.len() as u64);
                out.nested(|out| self.iter().for_each(|element| element.encode(out)));
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                decode_vec::<T>(input).map(|list| list.into_iter().collect())
            }
        }
    )*};
}
// The order inside a heap is an accident of its history, but it is what makes the next `pop` the same.
sequence!(VecDeque, LinkedList, BinaryHeap: Ord);

impl<T: Persist, const N: usize> Persist for [T; N] {
    #[expect(unsafe_code, reason = "promises the layout of an array")]
    // SAFETY: an array is its elements, one after the other, in memory as in the save.
    const LAYOUT: LayoutOf<Self> = unsafe { LayoutOf::new(Layout::array(T::LAYOUT.get(), N)) };

    fn schema(types: &mut SchemaBuilder) -> Node {
        let element = T::schema(types);
        types.add(Type::Array(element, N as u64))
    }
    fn encode(&self, out: &mut Writer) {
        match dense_bytes(self) {
            Some(bytes) => out.raw(bytes),
            None => out.nested(|out| self.iter().for_each(|element| element.encode(out))),
        }
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        if let Some(array) = dense_array(input) {
            return array;
        }
        input.nested(|input| {
            let mut error = None;
            let array: [Option<T>; N] = std::array::from_fn(|i| match &error {
                Some(_) => None,
                None => T::decode(input).map_err(|e| error = Some(e.in_field(i))).ok(),
            });
            match error {
                Some(error) => Err(error),
                // Without an error, every element is there.
                None => Ok(array.map(|element| element.unwrap_or_else(|| unreachable!("no element failed")))),
            }
        })
    }
}

impl<T: Persist> Persist for Option<T> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        let some = T::schema(types);
        types.add(Type::Option(some))
    }
    #[inline]
    fn encode(&self, out: &mut Writer) {
        match self {
            None => out.u8(0),
            Some(value) => {
                out.u8(1);
                out.nested(|out| value.encode(out));
            }
        }
    }
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        match input.u8()? {
            0 => Ok(None),
            1 => input.nested(T::decode).map(|value| (!value.is_null()).then_some(value)),
            byte => Err(input.corrupt(format!("{byte} is neither some nor none"))),
        }
    }
    #[inline]
    fn is_null(&self) -> bool {
        false
    }
}

impl<T: Persist, E: Persist> Persist for Result<T, E> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        types.define::<Self>(|types| {
            let (ok, err) = (T::schema(types), E::schema(types));
            let (ok, err) = (types.add(Type::tuple([ok])), types.add(Type::tuple([err])));
            Type::Enum(vec![Variant::new("Ok", ok), Variant::new("Err", err)])
        })
    }
    fn encode(&self, out: &mut Writer) {
        match self {
            Ok(value) => {
                out.u8(0);
                out.nested(|out| value.encode(out));
            }
            Err(value) => {
                out.u8(1);
                out.nested(|out| value.encode(out));
            }
        }
    }
    fn decode(input: &mut Reader<'_>) -> crate::error::Result<Self> {
        match input.u8()? {
            0 => input.nested(T::decode).map(Ok),
            1 => input.nested(E::decode).map(Err),
            byte => Err(input.corrupt(format!("{byte} is neither ok nor an error"))),
        }
    }
}
