//! The layouts of derived types. The derive writes no `unsafe`: it calls these macros, which are sound whatever they are
//! given.
//!
//! `#[persist(crate = path)]` may name any module, also one that has items of its own under the names of the core's. The
//! paths in here begin with `$crate`, so a module can pass these macros on or leave them out, and cannot change what they
//! promise.

/// The layout of a struct, from all of its fields: those that are saved, each with its type and its adapter if it has one,
/// and those that are not, each with the value that a load gives it.
///
/// Why the promise holds, whatever is passed:
/// - the patterns compile only for a struct that has just these fields, each once;
/// - `fill` compiles only if each saved field has just the type that is named, whose own layout is a promise that holds;
/// - a field of a packed struct may lie where its type must not: then nothing is promised;
/// - values of fields that are not saved are computed outside of the `unsafe` blocks.
#[doc(hidden)]
#[macro_export]
macro_rules! __struct_layout {
    (saved { $($member:tt: $type:ty $(, $with:ty)?;)* } skipped { $($skipped:tt: $value:expr;)* }) => {{
        let _ = |__value: &Self| {
            let Self { $($member: _,)* $($skipped: _,)* } = __value;
            // Fails to compile for a union, which has no such pattern.
            let Self { .. } = __value;
        };
        let __is_packed = false $(|| ::core::mem::align_of::<$type>() > ::core::mem::align_of::<Self>())*;
        let __layout = if __is_packed {
            $crate::__private::Layout::ROWS
        } else {
            $crate::__private::Layout::aggregate(
                ::core::mem::size_of::<Self>(),
                &[$((
                    ::core::mem::offset_of!(Self, $member),
                    $crate::__private::layout_of!($type $(, $with)?).get(),
                )),*],
            )
        };
        let __skipped: &[&str] = &[$(stringify!($skipped)),*];
        let __layout = if __skipped.is_empty() { __layout } else { __layout.with_skipped_fields() };
        // Outside of the block below, because of the values: they must not call what is unsafe.
        let __fill: unsafe fn(*mut Self) = |__row: *mut Self| {
            let _ = __row;
            $(
                // SAFETY: the caller vouches for the row. The field lies inside it, and is aligned as the row is.
                unsafe { $crate::__private::layout_of!($type $(, $with)?).fill(&raw mut (*__row).$member) };
            )*
            $(
                let __value = $value;
                // SAFETY: the caller vouches for the row. The field lies inside it; it may be packed.
                unsafe { ::core::ptr::write_unaligned(&raw mut (*__row).$skipped, __value) };
            )*
        };
        // SAFETY: see above. A struct has no validity rule beyond those of its fields.
        unsafe { $crate::__private::LayoutOf::with_fill(__layout, __fill) }
    }};
}

/// The layout of a field: of its type, or what its adapter says.
#[doc(hidden)]
#[macro_export]
macro_rules! __layout_of {
    ($type:ty) => {
        <$type as $crate::__private::Persist>::LAYOUT
    };
    ($type:ty, $with:ty) => {
        <$with as $crate::__private::Adapter<$type>>::LAYOUT
    };
}

/// The layout of an enum without data, from all of its variants.
///
/// Why the promise holds, whatever is passed: the match compiles only if these are all values that there are, and
/// `unit_enum` checks that each is the byte of its number.
#[doc(hidden)]
#[macro_export]
macro_rules! __unit_enum_layout {
    ($($variant:ident),*) => {{
        let _ = |__value: &Self| match __value {
            $(Self::$variant => {})*
        };
        // SAFETY: see above.
        unsafe { $crate::__private::LayoutOf::new($crate::__private::Layout::unit_enum(&[$(Self::$variant),*])) }
    }};
}
