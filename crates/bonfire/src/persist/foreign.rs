//! Macros for types of other crates whose fields are public.
//!
//! Their impls are what the derive would write, with the same names in the schema.

/// Implements `Persist` for structs, given all of their fields. A struct whose fields are plain is plain.
macro_rules! structs {
    ($($type:ident { $($field:ident: $field_type:ty),+ $(,)? })*) => {$(
        impl $crate::Persist for $type {
            #[expect(unsafe_code, reason = "the macro promises a layout that it computes from all fields")]
            const LAYOUT: $crate::layout::LayoutOf<Self> = $crate::__struct_layout! {
                saved { $($field: $field_type;)+ }
                skipped {}
            };

            fn schema(types: &mut $crate::schema::SchemaBuilder) -> $crate::schema::Node {
                let fields = vec![$(
                    $crate::schema::Field::new(
                        stringify!($field),
                        <$field_type as $crate::Persist>::schema(types),
                    )
                ),+];
                types.add($crate::schema::Type::Struct(fields.into()))
            }
            #[inline]
            fn encode(&self, out: &mut $crate::Writer) {
                $($crate::Persist::encode(&self.$field, out);)+
            }
            #[inline]
            fn decode(input: &mut $crate::Reader<'_>) -> $crate::Result<Self> {
                $(
                    let $field = <$field_type as $crate::Persist>::decode(input)
                        .map_err(|error| error.in_field(stringify!($field)))?;
                )+
                Ok(Self { $($field),+ })
            }
        }
    )*};
}
pub(super) use structs;

/// Implements `Persist` for enums without data, given all of their variants in order.
#[cfg(any(feature = "bevy_math_0_20", feature = "bevy_time_0_20"))]
macro_rules! unit_enums {
    ($($type:ident { $($variant:ident),+ $(,)? })*) => {$(
        impl $crate::Persist for $type {
            #[expect(unsafe_code, reason = "the macro promises a layout that it computes from all variants")]
            const LAYOUT: $crate::layout::LayoutOf<Self> = $crate::__unit_enum_layout!($($variant),+);

            fn schema(types: &mut $crate::schema::SchemaBuilder) -> $crate::schema::Node {
                let unit = types.add($crate::schema::Type::Unit);
                let variants = vec![$($crate::schema::Variant::new(stringify!($variant), unit)),+];
                types.add($crate::schema::Type::Enum(variants))
            }
            #[inline]
            fn encode(&self, out: &mut $crate::Writer) {
                let variants = [$(Self::$variant),+];
                let number = variants.iter().position(|variant| variant == self);
                out.varint(number.unwrap_or_default() as u64);
            }
            #[inline]
            fn decode(input: &mut $crate::Reader<'_>) -> $crate::Result<Self> {
                let variants = [$(Self::$variant),+];
                let number = input.varint()?;
                let known = usize::try_from(number).ok().and_then(|number| variants.get(number));
                known.copied().ok_or_else(|| input.corrupt(format!("variant {number} of {}", variants.len())))
            }
        }
    )*};
}
#[cfg(any(feature = "bevy_math_0_20", feature = "bevy_time_0_20"))]
pub(super) use unit_enums;
