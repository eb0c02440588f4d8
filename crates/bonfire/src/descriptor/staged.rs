//! Decoded rows, ready to be moved into a world.

use std::any::{Any, TypeId};

use crate::error::{Error, Result};
use crate::snapshot::bitmap::Bitmap;

/// The rows of one component in one archetype: decoded, or lying in the snapshot exactly as they will lie in the world.
///
/// A front end that can take typed vectors uses [`StagedColumn::into_rows`]. One that moves rows by pointer uses
/// [`StagedColumn::as_ptr`] and then [`StagedColumn::forget_rows`].
pub struct StagedColumn<'s> {
    present: Option<Bitmap>,
    rows: Box<dyn ErasedRows + 's>,
}

/// A vector or a slice whose element type is known again by `TypeId`.
trait ErasedRows {
    fn row_type(&self) -> TypeId;
    fn len(&self) -> usize;
    fn stride(&self) -> usize;
    fn as_ptr(&self) -> *const u8;
    fn is_borrowed(&self) -> bool;
    /// Makes the rows somebody else's: they are not dropped here.
    fn forget(&mut self);
    /// Copies or moves all rows into `target`, an `Option<Vec<T>>`.
    fn take(&mut self, target: &mut dyn Any);
}

struct Owned<T>(Vec<T>);
struct Borrowed<'s, T>(&'s [T]);

impl<T: 'static> ErasedRows for Owned<T> {
    fn row_type(&self) -> TypeId {
        TypeId::of::<T>()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn stride(&self) -> usize {
        size_of::<T>()
    }
    fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
    fn is_borrowed(&self) -> bool {
        false
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
}

impl<T: 'static> ErasedRows for Borrowed<'_, T> {
    fn row_type(&self) -> TypeId {
        TypeId::of::<T>()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn stride(&self) -> usize {
        size_of::<T>()
    }
    fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
    fn is_borrowed(&self) -> bool {
        true
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
}

impl<'s> StagedColumn<'s> {
    pub(crate) fn owned<T: 'static>(rows: Vec<T>, present: Option<Bitmap>) -> Self {
        Self { present, rows: Box::new(Owned(rows)) }
    }
    pub(crate) fn borrowed<T: 'static>(rows: &'s [T], present: Option<Bitmap>) -> Self {
        Self { present, rows: Box::new(Borrowed(rows)) }
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
        self.rows.row_type()
    }
    /// Whether every entity of the archetype has it.
    pub fn is_everywhere(&self) -> bool {
        self.present.is_none()
    }
    /// Whether the rows lie in the snapshot itself, not copied.
    pub fn is_borrowed(&self) -> bool {
        self.rows.is_borrowed()
    }

    /// Whether the rows are of this type.
    pub fn holds<T: 'static>(&self) -> bool {
        self.rows.row_type() == TypeId::of::<T>()
    }

    /// The rows as a vector. Fails if `T` is not the component's type.
    pub fn into_rows<T: 'static>(mut self) -> Result<Vec<T>> {
        let mut target: Option<Vec<T>> = None;
        self.rows.take(&mut target);
        target.ok_or_else(|| {
            Error::misuse(format!("the column does not hold `{}`", std::any::type_name::<T>()))
        })
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
    /// Bytes from one row to the next.
    pub fn stride(&self) -> usize {
        self.rows.stride()
    }

    /// Declares that the rows were moved out through [`StagedColumn::as_ptr`], so that they are not dropped again.
    pub fn forget_rows(&mut self) {
        self.rows.forget();
    }
}
