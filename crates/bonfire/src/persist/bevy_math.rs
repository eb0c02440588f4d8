//! Rectangles, directions, rotations and poses of `bevy_math`.
//!
//! A direction has the length 1 and a ratio is a number above or below zero, also after a load of forged bytes. The
//! same is checked before a save, because a save that was written can be loaded.

use bevy_math::{
    AspectRatio, CompassOctant, CompassQuadrant, Dir2, Dir3, Dir3A, Dir4, FloatOrd, IRect, IVec2, Isometry2d,
    Isometry3d, Quat, Rect, Rot2, URect, UVec2, Vec2, Vec3, Vec3A, Vec4,
};

use super::Persist;
use super::foreign::{structs, unit_enums};
use crate::error::{Error, Result};
use crate::layout::LayoutOf;
use crate::schema::{Node, SchemaBuilder};
use crate::wire::{Reader, Writer};

structs! {
    Rect { min: Vec2, max: Vec2 }
    IRect { min: IVec2, max: IVec2 }
    URect { min: UVec2, max: UVec2 }
    Rot2 { cos: f32, sin: f32 }
    Isometry2d { rotation: Rot2, translation: Vec2 }
    Isometry3d { rotation: Quat, translation: Vec3A }
}

unit_enums! {
    CompassQuadrant { North, East, South, West }
    CompassOctant { North, NorthEast, East, SouthEast, South, SouthWest, West, NorthWest }
}

/// Directions are saved as the lanes of their vector. One that is normalised comes back bit for bit; another one is
/// normalised, or refused if it has no direction.
macro_rules! directions {
    ($($direction:ident($vector:ty)),*) => {$(
        impl Persist for $direction {
            fn schema(types: &mut SchemaBuilder) -> Node {
                <$vector>::schema(types)
            }
            #[inline]
            fn encode(&self, out: &mut Writer) {
                let vector = <$vector>::from(*self);
                if !vector.is_normalized() && Self::new(vector).is_err() {
                    out.fail(Error::misuse(format!("{vector:?} is no direction: it cannot be normalized")));
                }
                vector.encode(out);
            }
            #[inline]
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                let vector = <$vector>::decode(input)?;
                if vector.is_normalized() {
                    return Ok(Self::new_unchecked(vector));
                }
                Self::new(vector)
                    .map_err(|_| input.corrupt(format!("{vector:?} is no direction: it cannot be normalized")))
            }
        }
    )*};
}
directions!(Dir2(Vec2), Dir3(Vec3), Dir3A(Vec3A), Dir4(Vec4));

/// Saved as its number.
impl Persist for FloatOrd {
    #[expect(unsafe_code, reason = "the macro promises a layout that it computes from the field")]
    const LAYOUT: LayoutOf<Self> = crate::__struct_layout! { saved { 0: f32; } skipped {} };

    fn schema(types: &mut SchemaBuilder) -> Node {
        f32::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        self.0.encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        f32::decode(input).map(Self)
    }
}

/// Saved as its number: width divided by height.
impl Persist for AspectRatio {
    fn schema(types: &mut SchemaBuilder) -> Node {
        f32::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        let ratio = self.ratio();
        if let Err(error) = Self::try_new(ratio, 1.0) {
            out.fail(Error::misuse(format!("{ratio} is no aspect ratio: {error}")));
        }
        ratio.encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let ratio = f32::decode(input)?;
        Self::try_new(ratio, 1.0)
            .map_err(|error| input.corrupt(format!("{ratio} is no aspect ratio: {error}")))
    }
}
