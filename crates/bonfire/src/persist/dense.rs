//! **Unsafe**: lists and arrays of values whose memory is their encoded form, copied in one piece.
//!
//! Everything rests on the promise of [`LayoutOf`](crate::engine::LayoutOf): a dense value is nothing but initialised leaves. Bytes are
//! checked to be values before they become some.
#![expect(unsafe_code, reason = "lists of numbers are copied, not decoded one by one")]

use super::Persist;
use crate::bulk::{LITTLE_ENDIAN, reserve};
use crate::error::{Error, Result};
use crate::row::{RowLayout, check_rows};
use crate::wire::Reader;

/// The bytes of a slice whose memory is its encoded form.
#[inline]
pub(crate) fn dense_bytes<T: Persist>(slice: &[T]) -> Option<&[u8]> {
    if !(LITTLE_ENDIAN && const { T::LAYOUT.get().is_dense() && T::LAYOUT.get().size() == size_of::<T>() }) {
        return None;
    }
    // SAFETY: dense values are nothing but initialised leaves.
    Some(unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice)) })
}

/// Reads `count` values whose memory is their encoded form.
#[inline]
pub(crate) fn dense_vec<T: Persist>(input: &mut Reader<'_>, count: usize) -> Option<Result<Vec<T>>> {
    if !(LITTLE_ENDIAN && const { T::LAYOUT.get().is_dense() && T::LAYOUT.get().size() == size_of::<T>() }) {
        return None;
    }
    let read = |input: &mut Reader<'_>| {
        let Some(len) = count.checked_mul(size_of::<T>()) else {
            return Err(input.corrupt("a list is longer than memory"));
        };
        let start = input.offset();
        let bytes = input.raw(len)?;
        if const { T::LAYOUT.get().is_checked() } {
            let layout = T::LAYOUT.get();
            check_rows(bytes, &RowLayout::of(&layout), &layout)
                .map_err(|_| Error::corrupt("a list has a value that its type does not have").at(start))?;
        }
        let mut values = reserve::<T>(count)?;
        // SAFETY: there is room for `count` values, and the bytes were checked to be values.
        unsafe {
            bytes.as_ptr().copy_to_nonoverlapping(values.as_mut_ptr().cast(), len);
            values.set_len(count);
        }
        Ok(values)
    };
    Some(read(input))
}

/// Reads an array whose memory is its encoded form.
#[inline]
pub(crate) fn dense_array<T: Persist, const N: usize>(input: &mut Reader<'_>) -> Option<Result<[T; N]>> {
    if !(LITTLE_ENDIAN && const { T::LAYOUT.get().is_dense() && T::LAYOUT.get().size() == size_of::<T>() }) {
        return None;
    }
    let read = |input: &mut Reader<'_>| {
        let start = input.offset();
        let bytes = input.raw(size_of::<[T; N]>())?;
        if const { T::LAYOUT.get().is_checked() } {
            let layout = T::LAYOUT.get();
            check_rows(bytes, &RowLayout::of(&layout), &layout)
                .map_err(|_| Error::corrupt("an array has a value that its type does not have").at(start))?;
        }
        let mut array = std::mem::MaybeUninit::<[T; N]>::uninit();
        // SAFETY: there are as many bytes as the array has, and they were checked to be values.
        unsafe {
            bytes.as_ptr().copy_to_nonoverlapping(array.as_mut_ptr().cast(), bytes.len());
            Ok(array.assume_init())
        }
    };
    Some(read(input))
}
