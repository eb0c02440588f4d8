//! Colours of `bevy_color`: a struct of four numbers per colour space, and the enum over all of them.

use bevy_color::{
    Color, Hsla, Hsva, Hwba, Laba, Lcha, LinearRgba, Okhsla, Okhsva, Okhwba, Oklaba, Oklcha, Srgba, Xyza,
};

use super::Persist;
use super::foreign::structs;
use crate::error::Result;
use crate::schema::{Node, SchemaBuilder, Type, Variant};
use crate::wire::{Reader, Writer};

structs! {
    Srgba { red: f32, green: f32, blue: f32, alpha: f32 }
    LinearRgba { red: f32, green: f32, blue: f32, alpha: f32 }
    Hsla { hue: f32, saturation: f32, lightness: f32, alpha: f32 }
    Hsva { hue: f32, saturation: f32, value: f32, alpha: f32 }
    Hwba { hue: f32, whiteness: f32, blackness: f32, alpha: f32 }
    Laba { lightness: f32, a: f32, b: f32, alpha: f32 }
    Lcha { lightness: f32, chroma: f32, hue: f32, alpha: f32 }
    Oklaba { lightness: f32, a: f32, b: f32, alpha: f32 }
    Oklcha { lightness: f32, chroma: f32, hue: f32, alpha: f32 }
    Xyza { x: f32, y: f32, z: f32, alpha: f32 }
    Okhsla { hue: f32, saturation: f32, lightness: f32, alpha: f32 }
    Okhsva { hue: f32, saturation: f32, value: f32, alpha: f32 }
    Okhwba { hue: f32, whiteness: f32, blackness: f32, alpha: f32 }
}

macro_rules! color {
    ($($number:literal $space:ident),*) => {
        /// A colour comes back in the space that it was given in.
        impl Persist for Color {
            fn schema(types: &mut SchemaBuilder) -> Node {
                let variants = vec![$({
                    let space = <$space>::schema(types);
                    Variant::new(stringify!($space), types.add(Type::tuple([space])))
                }),*];
                types.add(Type::Enum(variants))
            }
            fn encode(&self, out: &mut Writer) {
                match self {
                    $(Self::$space(color) => {
                        out.varint($number);
                        out.nested(|out| color.encode(out));
                    })*
                }
            }
            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                match input.varint()? {
                    $($number => input
                        .nested(<$space>::decode)
                        .map(Self::$space)
                        .map_err(|error| error.in_field(stringify!($space))),)*
                    number => Err(input.corrupt(format!("colour space {number} is unknown"))),
                }
            }
        }
    };
}
color!(
    0 Srgba, 1 LinearRgba, 2 Hsla, 3 Hsva, 4 Hwba, 5 Laba, 6 Lcha, 7 Oklaba, 8 Oklcha, 9 Xyza, 10 Okhsla, 11 Okhsva,
    12 Okhwba
);
