//! Tuples and the unit.

use std::marker::PhantomData;
use std::mem::offset_of;

use super::Persist;
use crate::error::Result;
use crate::layout::{Layout, LayoutOf};
use crate::schema::{Node, SchemaBuilder, Type};
use crate::wire::{Reader, Writer};

impl Persist for () {
    #[expect(unsafe_code, reason = "promises the layout of nothing")]
    // SAFETY: a type without bytes has no leaves and nothing to initialise.
    const LAYOUT: LayoutOf<Self> = unsafe { LayoutOf::new(Layout::UNIT) };

    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Unit)
    }
    fn encode(&self, _: &mut Writer) {}
    fn decode(_: &mut Reader<'_>) -> Result<Self> {
        Ok(())
    }
}

impl<T: 'static> Persist for PhantomData<T> {
    #[expect(unsafe_code, reason = "promises the layout of nothing")]
    // SAFETY: a type without bytes has no leaves and nothing to initialise.
    const LAYOUT: LayoutOf<Self> = unsafe { LayoutOf::new(Layout::UNIT) };

    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Unit)
    }
    fn encode(&self, _: &mut Writer) {}
    fn decode(_: &mut Reader<'_>) -> Result<Self> {
        Ok(Self)
    }
}

macro_rules! tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Persist),*> Persist for ($($name,)*) {
            #[expect(unsafe_code, reason = "promises the layout of a tuple")]
            // SAFETY: these are all fields of the tuple, once each, at their offsets. Who fills a row vouches for it, and each
            // field lies inside it.
            const LAYOUT: LayoutOf<Self> = unsafe {
                LayoutOf::with_fill(
                    Layout::aggregate(
                        size_of::<Self>(),
                        &[$((offset_of!(Self, $index), $name::LAYOUT.get())),*],
                    ),
                    |row: *mut Self| {
                        $($name::LAYOUT.fill(&raw mut (*row).$index);)*
                    },
                )
            };

            fn schema(types: &mut SchemaBuilder) -> Node {
                let fields = vec![$($name::schema(types)),*];
                types.add(Type::tuple(fields))
            }
            #[inline]
            fn encode(&self, out: &mut Writer) {
                $(self.$index.encode(out);)*
            }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                Ok(($($name::decode(input).map_err(|error| error.in_field($index))?,)*))
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
