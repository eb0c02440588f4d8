//! Decoded rows, ready to be moved into a world.

use std::any::{Any, TypeId};
use std::cell::OnceCell;
use std::mem::ManuallyDrop;

use crate::error::{Error, Result};
use crate::storage::Bitmap;

/// The rows of one component in one archetype: decoded, or lying in the snapshot exactly as they will lie in the world.
///
/// A front end that can take typed vectors uses [`StagedColumn::into_rows`]. One that moves rows by pointer uses
/// [`StagedColumn::as_ptr`] and then [`StagedColumn::forget_rows`].
pub struct StagedColumn<'s> {
    present: Option<Bitmap>,
    row_type: TypeId,
    stride: usize,
    /// Whether the rows lie in the snapshot, where nothing may write to them.
    borrowed: bool,
    rows: Box<dyn ErasedRows + 's>,
}

/// A vector or a slice whose element type is known again by `TypeId`.
trait ErasedRows {
    fn len(&self) -> usize;
    fn as_ptr(&self) -> *const u8;
    fn as_mut_ptr(&mut self) -> *mut u8;
    /// Makes the rows somebody else's: they are not dropped here.
    fn forget(&mut self);
    /// Copies or moves all rows into `target`, an `Option<Vec<T>>`.
    fn take(&mut self, target: &mut dyn Any);
    /// The rows in memory of their own.
    fn into_owned(self: Box<Self>) -> Box<dyn ErasedRows>;
    /// Where the rows lie, without moving them, and how many in each place.
    fn parts(&self) -> Vec<(*const u8, usize)> {
        vec![(self.as_ptr(), self.len())]
    }
}

struct Owned<T>(Vec<T>);
struct Borrowed<'s, T>(&'s [T]);

/// Rows that lie in several places of the snapshot, and in one once somebody asks for that.
struct Parts<'s, T> {
    parts: Vec<&'s [T]>,
    /// Copies of bytes, which are no values before somebody takes them.
    joined: OnceCell<Vec<ManuallyDrop<T>>>,
}

impl<T> Parts<'_, T> {
    #[expect(unsafe_code, reason = "a value of plain bytes is made by copying them")]
    fn join<R>(&self) -> Vec<R> {
        assert_eq!(size_of::<R>(), size_of::<T>());
        let len = self.parts.iter().map(|part| part.len()).sum();
        let mut rows: Vec<R> = Vec::with_capacity(len);
        for part in &self.parts {
            // SAFETY: there is room for all parts. `R` is `T` or a `ManuallyDrop` of it, which has the same layout. The
            // rows are plain (only `bulk::view` makes them): checked bytes that were never a value in a world, so that a
            // copy of them is a new value, even if the type is not `Copy`.
            unsafe {
                let end = rows.as_mut_ptr().add(rows.len());
                part.as_ptr().cast::<R>().copy_to_nonoverlapping(end, part.len());
                rows.set_len(rows.len() + part.len());
            }
        }
        rows
    }
}

impl<T: 'static> ErasedRows for Parts<'_, T> {
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
    fn as_ptr(&self) -> *const u8 {
        self.joined.get_or_init(|| self.join()).as_ptr().cast()
    }
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.as_ptr().cast_mut()
    }
    fn forget(&mut self) {}
    fn take(&mut self, target: &mut dyn Any) {
        if let Some(target) = target.downcast_mut::<Option<Vec<T>>>() {
            *target = Some(self.join());
        }
    }
    fn into_owned(self: Box<Self>) -> Box<dyn ErasedRows> {
        Box::new(Owned(self.join::<T>()))
    }
    fn parts(&self) -> Vec<(*const u8, usize)> {
        self.parts.iter().map(|part| (part.as_ptr().cast(), part.len())).collect()
    }
}

impl<T: 'static> ErasedRows for Owned<T> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
    #[expect(unsafe_code, reason = "rows were moved out by pointer")]
    fn forget(&mut self) {
        // SAFETY: 0 is within the capacity, and no element has to be initialised for it.
        unsafe { self.0.set_len(0) };
    }
    fn take(&mut self, target: &mut dyn Any) {
        if let Some(target) = target.downcast_mut::<Option<Vec<T>>>() {
            *target = Some(std::mem::take(&mut self.0));
        }
    }
    fn into_owned(self: Box<Self>) -> Box<dyn ErasedRows> {
        self
    }
}

impl<T: 'static> ErasedRows for Borrowed<'_, T> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.as_ptr().cast_mut()
    }
    fn forget(&mut self) {}
    #[expect(unsafe_code, reason = "a value of plain bytes is made by copying them")]
    fn take(&mut self, target: &mut dyn Any) {
        if let Some(target) = target.downcast_mut::<Option<Vec<T>>>() {
            let mut rows = Vec::with_capacity(self.0.len());
            // SAFETY: these rows are plain (only `bulk::view` makes them): checked bytes that were never a value in a
            // world, so that a copy of them is a new value, even if the type is not `Copy`.
            unsafe {
                self.0.as_ptr().copy_to_nonoverlapping(rows.as_mut_ptr(), self.0.len());
                rows.set_len(self.0.len());
            }
            *target = Some(rows);
        }
    }
    fn into_owned(mut self: Box<Self>) -> Box<dyn ErasedRows> {
        let mut rows: Option<Vec<T>> = None;
        self.take(&mut rows);
        Box::new(Owned(rows.unwrap_or_default()))
    }
}

impl<'s> StagedColumn<'s> {
    pub(crate) fn owned<T: 'static>(rows: Vec<T>, present: Option<Bitmap>) -> Self {
        Self { borrowed: false, ..Self::of::<T>(Box::new(Owned(rows)), present) }
    }
    pub(crate) fn borrowed<T: 'static>(rows: &'s [T], present: Option<Bitmap>) -> Self {
        Self::of::<T>(Box::new(Borrowed(rows)), present)
    }
    pub(crate) fn in_parts<T: 'static>(parts: Vec<&'s [T]>, present: Option<Bitmap>) -> Self {
        Self::of::<T>(Box::new(Parts { parts, joined: OnceCell::new() }), present)
    }
    fn of<T: 'static>(rows: Box<dyn ErasedRows + 's>, present: Option<Bitmap>) -> Self {
        Self { present, row_type: TypeId::of::<T>(), stride: size_of::<T>(), borrowed: true, rows }
    }

    /// How many rows have the component: all of the archetype's, or those that [`StagedColumn::is_present`] names.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Whether no row has the component.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether an entity of the archetype has the component.
    pub fn is_present(&self, row: usize) -> bool {
        self.present.as_ref().is_none_or(|present| present.get(row))
    }
    /// Which entities of the archetype have it, if not all do.
    pub fn presence(&self) -> Option<&Bitmap> {
        self.present.as_ref()
    }
    /// The Rust type of the rows.
    pub fn row_type(&self) -> TypeId {
        self.row_type
    }
    /// Whether every entity of the archetype has it.
    pub fn is_everywhere(&self) -> bool {
        self.present.is_none()
    }
    /// Whether the rows lie in the snapshot itself, not copied.
    pub fn is_borrowed(&self) -> bool {
        self.borrowed
    }

    /// Whether the rows are of this type.
    pub fn holds<T: 'static>(&self) -> bool {
        self.row_type == TypeId::of::<T>()
    }

    /// The rows as a vector. Fails if `T` is not the component's type.
    pub fn into_rows<T: 'static>(mut self) -> Result<Vec<T>> {
        let mut target: Option<Vec<T>> = None;
        self.rows.take(&mut target);
        target.ok_or_else(not_of::<T>)
    }

    /// The rows one by one, without a copy of all of them. Fails if `T` is not the component's type.
    pub fn into_values<T: 'static>(self) -> Result<StagedRows<'s, T>> {
        if !self.holds::<T>() {
            return Err(not_of::<T>());
        }
        Ok(StagedRows { first: self.as_ptr().cast(), next: 0, end: self.len(), column: self })
    }

    /// Rows made of these rows, one by one.
    pub(crate) fn map_rows<A: 'static, B: 'static>(mut self, map: impl FnMut(A) -> B) -> Result<Self> {
        let present = self.present.take();
        Ok(Self::owned(self.into_values::<A>()?.map(map).collect(), present))
    }

    /// The rows in memory of their own.
    pub(crate) fn into_owned<'o>(self) -> StagedColumn<'o> {
        let Self { present, row_type, stride, rows, .. } = self;
        StagedColumn { present, row_type, stride, borrowed: false, rows: rows.into_owned() }
    }

    /// The rows as a slice, if `T` is the component's type.
    #[expect(unsafe_code, reason = "gives rows their type back")]
    pub fn as_slice<T: 'static>(&self) -> Option<&[T]> {
        // SAFETY: the type is the one the rows were made with.
        self.holds::<T>()
            .then(|| unsafe { std::slice::from_raw_parts(self.rows.as_ptr().cast(), self.rows.len()) })
    }

    /// The first row, aligned for its type; the others follow at [`StagedColumn::stride`].
    pub fn as_ptr(&self) -> *const u8 {
        self.rows.as_ptr()
    }
    /// As [`StagedColumn::as_ptr`], for rows that are moved out or exchanged. Rows that are
    /// [borrowed](StagedColumn::is_borrowed) must not be written to.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.rows.as_mut_ptr()
    }
    /// Bytes from one row to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Where the rows lie, aligned for their type, and how many in each place: more than one if the capture shares memory
    /// with others. All places but the last have the same number of rows. Unlike [`StagedColumn::as_ptr`], this moves nothing.
    pub fn parts(&self) -> Vec<(*const u8, usize)> {
        self.rows.parts()
    }

    /// Declares that the rows were moved out through [`StagedColumn::as_ptr`], so that they are not dropped again.
    pub fn forget_rows(&mut self) {
        self.rows.forget();
    }
}

fn not_of<T>() -> Error {
    Error::misuse(format!("the column does not hold `{}`", std::any::type_name::<T>()))
}

/// The rows of a [`StagedColumn`], one by one.
pub struct StagedRows<'s, T> {
    first: *const T,
    next: usize,
    end: usize,
    /// Keeps the memory.
    column: StagedColumn<'s>,
}

impl<T> Iterator for StagedRows<'_, T> {
    type Item = T;

    #[inline]
    #[expect(unsafe_code, reason = "moves a row out")]
    fn next(&mut self) -> Option<T> {
        let row = self.next;
        if row == self.end {
            return None;
        }
        self.next += 1;
        // SAFETY: the column holds `end` rows of this type. Each is read once, and dropping this drops the others only;
        // reading plain rows of a snapshot makes new values.
        Some(unsafe { self.first.add(row).read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl<T> ExactSizeIterator for StagedRows<'_, T> {}

impl<T> StagedRows<'_, T> {
    /// Puts the next rows in the place of other values, which are dropped. Panics if there are not as many.
    #[expect(unsafe_code, reason = "one copy for all rows that have nothing to drop")]
    pub fn put(&mut self, target: &mut [T]) {
        assert!(target.len() <= self.len(), "{} rows are left", self.len());
        if std::mem::needs_drop::<T>() {
            return target.iter_mut().zip(self).for_each(|(slot, value)| *slot = value);
        }
        // SAFETY: as many rows are left, and each is read once, as by `next`. What they replace has nothing to drop.
        unsafe { self.first.add(self.next).copy_to_nonoverlapping(target.as_mut_ptr(), target.len()) };
        self.next += target.len();
    }
}

impl<T> Drop for StagedRows<'_, T> {
    fn drop(&mut self) {
        // The rows that were read are somebody else's. If dropping one of the others panics, the rest is leaked.
        self.column.forget_rows();
        if std::mem::needs_drop::<T>() && !self.column.is_borrowed() {
            self.for_each(drop);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn values_are_moved_once_and_the_rest_is_dropped() {
        let value = Rc::new(5);
        let column = StagedColumn::owned(vec![Rc::clone(&value), Rc::clone(&value), Rc::clone(&value)], None);
        let mut values = column.into_values::<Rc<i32>>().unwrap();
        let first = values.next();
        assert_eq!((Rc::strong_count(&value), values.len()), (4, 2));
        drop(values);
        assert_eq!(Rc::strong_count(&value), 2);
        drop(first);
        assert_eq!(Rc::strong_count(&value), 1);
        assert!(StagedColumn::owned(vec![1_u8], None).into_values::<i8>().is_err());
    }

    #[test]
    fn rows_in_several_places_are_joined_when_somebody_asks() {
        let (a, b) = ([1_u16, 2, 3], [4_u16]);
        let column = || StagedColumn::in_parts(vec![&a[..], &b[..]], None);
        let lengths: Vec<usize> = column().parts().iter().map(|(_, len)| *len).collect();
        assert_eq!((lengths, column().len()), (vec![3, 1], 4));
        assert_eq!(column().as_slice::<u16>(), Some(&[1, 2, 3, 4][..]));
        assert_eq!(column().into_rows::<u16>().unwrap(), [1, 2, 3, 4]);
        assert_eq!(column().into_owned().into_values::<u16>().unwrap().collect::<Vec<_>>(), [1, 2, 3, 4]);
        let mut values = column().into_values::<u16>().unwrap();
        assert_eq!((values.next(), values.len()), (Some(1), 3));
        assert!(column().is_borrowed() && column().into_rows::<u8>().is_err());
    }

    #[test]
    fn what_is_put_takes_the_place_of_what_was_there() {
        let (old, new) = (Rc::new(1), Rc::new(2));
        let mut world = [Rc::clone(&old), Rc::clone(&old)];
        let column = StagedColumn::owned(vec![Rc::clone(&new), Rc::clone(&new), Rc::clone(&new)], None);
        let mut values = column.into_values().unwrap();
        values.put(&mut world);
        assert_eq!((*world[1], Rc::strong_count(&old), Rc::strong_count(&new)), (2, 1, 4));
        drop(values);
        assert_eq!(Rc::strong_count(&new), 3);
        let mut numbers = StagedColumn::owned(vec![1, 2, 3], None).into_values().unwrap();
        let mut two = [0, 0];
        numbers.put(&mut two);
        assert_eq!((two, numbers.next(), numbers.next()), ([1, 2], Some(3), None));
    }

    #[test]
    fn rows_of_the_snapshot_are_copied_even_if_their_type_has_something_to_drop() {
        thread_local!(static DROPPED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
        struct Loud(u32);
        impl Drop for Loud {
            fn drop(&mut self) {
                DROPPED.set(DROPPED.get() + self.0);
            }
        }
        let saved = [std::mem::ManuallyDrop::new(Loud(1)), std::mem::ManuallyDrop::new(Loud(2))];
        #[expect(unsafe_code, reason = "bytes of a snapshot are no values")]
        // SAFETY: `ManuallyDrop` is transparent.
        let rows: &[Loud] = unsafe { std::slice::from_raw_parts(saved.as_ptr().cast(), 2) };
        let mut world = [Loud(10)];
        let mut values = StagedColumn::borrowed(rows, None).into_values::<Loud>().unwrap();
        values.put(&mut world);
        drop(values);
        // The row that nobody took never was a value.
        assert_eq!((world[0].0, DROPPED.get()), (1, 10));
        drop(world);
        assert_eq!(DROPPED.get(), 11);
    }
}
