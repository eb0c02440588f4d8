//! What the derive needs for fields that say nothing about older saves: their type's own default, if it has one.
//!
//! A method that is found on a value is preferred to one that is found on a reference to it, so the implementation that
//! asks for `Default` is taken where it can be, and the other one elsewhere. Type parameters have no default here, whatever
//! they become later.

use std::marker::PhantomData;

use super::Keyed;
use crate::persist::{Adapter, Persist};
use crate::wire::Writer;

type Write = fn(&mut Writer);

/// A field of type `T`.
pub struct DefaultOf<T>(PhantomData<T>);

impl<T> DefaultOf<T> {
    /// Stands for the type.
    pub const NEW: Self = Self(PhantomData);
}

/// A field of type `T` that is saved through `A`.
pub struct DefaultThrough<T, A>(PhantomData<(T, A)>);

impl<T, A> DefaultThrough<T, A> {
    /// Stands for the type.
    pub const NEW: Self = Self(PhantomData);
}

/// The type has a default.
pub trait HasDefault {
    /// Writes it.
    fn default(&self) -> Option<Write>;
}

impl<T: Persist + Default> HasDefault for DefaultOf<T> {
    fn default(&self) -> Option<Write> {
        Some(|out| T::default().encode(out))
    }
}
impl<T: Default + 'static, A: Adapter<T>> HasDefault for DefaultThrough<T, A> {
    fn default(&self) -> Option<Write> {
        Some(|out| A::encode(&T::default(), out))
    }
}

/// The type has none.
pub trait NoDefault {
    /// Nothing.
    fn default(&self) -> Option<Write> {
        None
    }
}

impl<T> NoDefault for &DefaultOf<T> {}
impl<T, A> NoDefault for &DefaultThrough<T, A> {}

/// Fails to compile if `Old` is no earlier version of `New`.
pub const fn check_from<Old: Keyed, New: Keyed>() {
    assert!(
        same(Old::KEY, New::KEY),
        "`from` names a type with another key: versions of one component share their key"
    );
    assert!(
        Old::VERSION < New::VERSION,
        "`from` names a type whose version is not below this one's: give the older type the version that it was saved with"
    );
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
