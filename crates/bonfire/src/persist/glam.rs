//! The vectors, quaternions and matrices of glam, as structs of their lanes: `{x, y, z}`, `{x_axis, y_axis}`.
//!
//! Types whose lanes fill them are plain. Those with a lane of padding (`Vec3A`, `Mat3A`, `Affine3A`) are rows.

use glam::*;

use super::Persist;
use crate::error::Result;
use crate::layout::{Layout, LayoutOf};
use crate::schema::{Field, Node, SchemaBuilder, Type};
use crate::wire::{Reader, Writer};

fn structure<E: Persist>(types: &mut SchemaBuilder, names: &[&'static str]) -> Node {
    let node = E::schema(types);
    let fields = names.iter().map(|&name| Field::new(name, node)).collect();
    types.add(Type::Struct(fields))
}

/// `N` lanes one after the other, if they fill the type.
const fn lanes<E: Persist, const N: usize>(size: usize) -> Layout {
    if size != N * size_of::<E>() {
        return Layout::ROWS;
    }
    let mut fields = [(0, Layout::UNIT); N];
    let mut lane = 0;
    while lane < N {
        fields[lane] = (lane * size_of::<E>(), E::LAYOUT.get());
        lane += 1;
    }
    Layout::aggregate(size, &fields)
}

macro_rules! vectors {
    ($lanes:literal, $names:expr, $($vector:ident: $element:ty),*) => {$(
        impl Persist for $vector {
            #[expect(unsafe_code, reason = "promises the layout of a vector")]
            const LAYOUT: LayoutOf<Self> = {
                let layout = lanes::<$element, $lanes>(size_of::<Self>());
                // SAFETY: a vector whose size is that of its lanes has them in order and nothing else, whether it is a
                // struct or a SIMD register; glam's own `AsRef<[E; N]>` relies on it. `encode` writes them in order.
                unsafe { LayoutOf::new(layout) }
            };

            fn schema(types: &mut SchemaBuilder) -> Node {
                structure::<$element>(types, &$names)
            }
            #[inline]
            fn encode(&self, out: &mut Writer) {
                <[$element; $lanes]>::from(*self).iter().for_each(|lane| lane.encode(out));
            }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                let mut lanes = [<$element>::default(); $lanes];
                for lane in &mut lanes {
                    *lane = <$element>::decode(input)?;
                }
                Ok(Self::from_array(lanes))
            }
        }
    )*};
}
vectors!(2, ["x", "y"], Vec2: f32, DVec2: f64, IVec2: i32, UVec2: u32, I64Vec2: i64, U64Vec2: u64,
    I16Vec2: i16, U16Vec2: u16, I8Vec2: i8, U8Vec2: u8);
vectors!(3, ["x", "y", "z"], Vec3: f32, Vec3A: f32, DVec3: f64, IVec3: i32, UVec3: u32, I64Vec3: i64,
    U64Vec3: u64, I16Vec3: i16, U16Vec3: u16, I8Vec3: i8, U8Vec3: u8);
vectors!(4, ["x", "y", "z", "w"], Vec4: f32, Quat: f32, DVec4: f64, DQuat: f64, IVec4: i32, UVec4: u32,
    I64Vec4: i64, U64Vec4: u64, I16Vec4: i16, U16Vec4: u16, I8Vec4: i8, U8Vec4: u8);

macro_rules! boolean_vectors {
    ($($vector:ident($($name:literal = $lane:ident),*)),*) => {$(
        impl Persist for $vector {
            fn schema(types: &mut SchemaBuilder) -> Node {
                structure::<bool>(types, &[$($name),*])
            }
            fn encode(&self, out: &mut Writer) {
                $(self.$lane.encode(out);)*
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                $(let $lane = bool::decode(input)?;)*
                Ok(Self::new($($lane),*))
            }
        }
    )*};
}
boolean_vectors!(
    BVec2("x" = x, "y" = y),
    BVec3("x" = x, "y" = y, "z" = z),
    BVec4("x" = x, "y" = y, "z" = z, "w" = w)
);

/// Masks of SIMD vectors, whose lanes are no fields.
macro_rules! masks {
    ($($mask:ident($($name:literal $lane:ident $index:literal),*)),*) => {$(
        impl Persist for $mask {
            fn schema(types: &mut SchemaBuilder) -> Node {
                structure::<bool>(types, &[$($name),*])
            }
            fn encode(&self, out: &mut Writer) {
                $(self.test($index).encode(out);)*
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                $(let $lane = bool::decode(input)?;)*
                Ok(Self::new($($lane),*))
            }
        }
    )*};
}
masks!(BVec3A("x" x 0, "y" y 1, "z" z 2), BVec4A("x" x 0, "y" y 1, "z" z 2, "w" w 3));

macro_rules! matrices {
    ($($matrix:ident [$($name:literal $axis:ident: $vector:ty),*]),* $(,)?) => {$(
        impl Persist for $matrix {
            #[expect(unsafe_code, reason = "promises the layout of a matrix")]
            // SAFETY: the axes are public fields at these offsets, each with the layout of its vector.
            const LAYOUT: LayoutOf<Self> = unsafe {
                LayoutOf::new(Layout::aggregate(
                    size_of::<Self>(),
                    &[$((std::mem::offset_of!(Self, $axis), <$vector>::LAYOUT.get())),*],
                ))
            };

            fn schema(types: &mut SchemaBuilder) -> Node {
                let fields = vec![$(Field::new($name, <$vector>::schema(types))),*];
                types.add(Type::Struct(fields.into()))
            }
            fn encode(&self, out: &mut Writer) {
                $(self.$axis.encode(out);)*
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                $(let $axis = <$vector>::decode(input)?;)*
                Ok(Self { $($axis),* })
            }
        }
    )*};
}
matrices!(
    Mat3["x_axis" x_axis: Vec3, "y_axis" y_axis: Vec3, "z_axis" z_axis: Vec3],
    Mat3A["x_axis" x_axis: Vec3A, "y_axis" y_axis: Vec3A, "z_axis" z_axis: Vec3A],
    Mat4["x_axis" x_axis: Vec4, "y_axis" y_axis: Vec4, "z_axis" z_axis: Vec4, "w_axis" w_axis: Vec4],
    DMat2["x_axis" x_axis: DVec2, "y_axis" y_axis: DVec2],
    DMat3["x_axis" x_axis: DVec3, "y_axis" y_axis: DVec3, "z_axis" z_axis: DVec3],
    DMat4["x_axis" x_axis: DVec4, "y_axis" y_axis: DVec4, "z_axis" z_axis: DVec4, "w_axis" w_axis: DVec4],
    Affine2["matrix2" matrix2: Mat2, "translation" translation: Vec2],
    Affine3["matrix3" matrix3: Mat3, "translation" translation: Vec3],
    Affine3A["matrix3" matrix3: Mat3A, "translation" translation: Vec3A],
    DAffine2["matrix2" matrix2: DMat2, "translation" translation: DVec2],
    DAffine3["matrix3" matrix3: DMat3, "translation" translation: DVec3],
);

/// Its axes are no fields where it is a SIMD register.
impl Persist for Mat2 {
    #[expect(unsafe_code, reason = "promises the layout of a matrix")]
    // SAFETY: four numbers, column after column, whether it is a struct or a register.
    const LAYOUT: LayoutOf<Self> = unsafe { LayoutOf::new(lanes::<f32, 4>(size_of::<Self>())) };

    fn schema(types: &mut SchemaBuilder) -> Node {
        structure::<Vec2>(types, &["x_axis", "y_axis"])
    }
    fn encode(&self, out: &mut Writer) {
        self.to_cols_array().iter().for_each(|lane| lane.encode(out));
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self::from_cols(Vec2::decode(input)?, Vec2::decode(input)?))
    }
}
