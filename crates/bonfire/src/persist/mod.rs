//! What makes a Rust type saveable.
//!
//! [`Persist`] is about values: a schema, and bytes both ways. [`Keyed`] adds the name and version under which a type is
//! a component, a resource or a save of its own. Both come from `#[derive(Persist)]`. [`Adapter`] is the bridge for
//! types of other crates.

/// Makes the entity type of an engine, which turns into an `EntityId` and back, a reference. One that dangles is `None`
/// in an option and `$null` elsewhere.
#[cfg(any(feature = "bevy_ecs_0_20", feature = "hecs_0_11"))]
macro_rules! reference {
    ($entity:ty, $null:expr) => {
        impl $crate::Persist for $entity {
            fn schema(types: &mut $crate::schema::SchemaBuilder) -> $crate::schema::Node {
                types.add($crate::schema::Type::Entity)
            }
            #[inline]
            fn encode(&self, out: &mut $crate::Writer) {
                out.entity((*self).into());
            }
            #[inline]
            fn decode(input: &mut $crate::Reader<'_>) -> $crate::Result<Self> {
                input.entity().map(Self::from)
            }
            #[inline]
            fn is_null(&self) -> bool {
                *self == $null
            }
        }
    };
}
#[cfg(any(feature = "bevy_ecs_0_20", feature = "hecs_0_11"))]
use reference;

#[cfg(feature = "bevy_ecs_0_20")]
mod bevy;
#[cfg(feature = "bevy_color_0_20")]
mod bevy_color;
#[cfg(feature = "bevy_math_0_20")]
mod bevy_math;
#[cfg(feature = "bevy_shape_0_20")]
mod bevy_shape;
#[cfg(feature = "bevy_time_0_20")]
mod bevy_time;
#[cfg(feature = "bevy_transform_0_20")]
mod bevy_transform;
mod container;
mod dense;
mod derived_layout;
#[cfg(any(
    feature = "bevy_color_0_20",
    feature = "bevy_math_0_20",
    feature = "bevy_shape_0_20",
    feature = "bevy_time_0_20",
    feature = "bevy_transform_0_20",
))]
mod foreign;
#[cfg(feature = "glam_0_33")]
mod glam;
#[cfg(feature = "hecs_0_11")]
mod hecs;
mod map;
mod number;
mod text;
mod tuple;
mod wrapper;

pub use text::AsText;

use crate::context::LoadContext;
use crate::error::Result;
use crate::layout::LayoutOf;
use crate::schema::{Node, Schema, SchemaBuilder};
use crate::wire::{Reader, Writer};

/// A value that can be saved and loaded. Derive it.
///
/// ```
/// use bonfire::Persist;
///
/// #[derive(Persist)]
/// #[persist(key = "game.health")]
/// struct Health {
///     current: f32,
///     #[persist(default = 100.0)] // for saves older than this field
///     max: f32,
///     #[persist(skip)] // never saved
///     flash: f32,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved: it does not implement `Persist`",
    label = "this type has no saved form",
    note = "derive it: `#[derive(Persist)]`",
    note = "for a field whose type is from another crate: `#[persist(with = SomeAdapter)]`, or `#[persist(skip)]`",
    note = "types of Bevy and glam have features: `time`, `transform`, `color` and `shape` of `bevy_bonfire`"
)]
pub trait Persist: Sized + 'static {
    /// Where the persisted bytes lie in memory, if they lie still. [`LayoutOf::ROWS`] is always right.
    const LAYOUT: LayoutOf<Self> = LayoutOf::ROWS;

    /// Describes the type.
    fn schema(types: &mut SchemaBuilder) -> Node;

    /// Writes the value in the form that the schema describes.
    fn encode(&self, out: &mut Writer);

    /// Reads a value back. It must consume exactly what `encode` wrote.
    fn decode(input: &mut Reader<'_>) -> Result<Self>;

    /// Whether this is a reference to nothing, so that an option around it becomes `None`.
    /// The derive passes it on for a struct with one field, such as a handle around an [`EntityId`](crate::EntityId).
    #[inline]
    fn is_null(&self) -> bool {
        false
    }
}

/// Saves a `T` as something else: the bridge for types of other crates, used by `#[persist(with = Adapter)]`.
///
/// ```
/// use bonfire::{Adapter, LoadContext, Persist, Result};
///
/// /// `std::net::Ipv4Addr` as its four bytes.
/// struct AsOctets;
/// impl Adapter<std::net::Ipv4Addr> for AsOctets {
///     type Saved = [u8; 4];
///     fn save(value: &std::net::Ipv4Addr) -> Result<[u8; 4]> {
///         Ok(value.octets())
///     }
///     fn load(saved: [u8; 4], _: &LoadContext<'_>) -> Result<std::net::Ipv4Addr> {
///         Ok(saved.into())
///     }
/// }
///
/// #[derive(Persist)]
/// struct Server {
///     #[persist(with = AsOctets)]
///     address: std::net::Ipv4Addr,
/// }
/// ```
pub trait Adapter<T: 'static>: 'static {
    /// What is saved in its place.
    type Saved: Persist;

    /// Where the bytes of `Saved` lie in a `T`, if they lie there as they are saved and everything else is padding.
    const LAYOUT: LayoutOf<T> = LayoutOf::ROWS;

    /// Converts for saving; an error makes the whole save fail.
    fn save(value: &T) -> Result<Self::Saved>;

    /// Writes a value. The default converts it first; an adapter that can write the same bytes without making a copy
    /// says so here.
    #[inline]
    fn encode(value: &T, out: &mut Writer) {
        match Self::save(value) {
            Ok(saved) => saved.encode(out),
            Err(error) => out.fail(error),
        }
    }

    /// Converts back; fails if the saved value is not a `T`.
    fn load(saved: Self::Saved, context: &LoadContext<'_>) -> Result<T>;
}

impl Schema {
    /// The schema of a type.
    pub fn of<T: Persist>() -> Self {
        let mut builder = SchemaBuilder::new();
        let root = T::schema(&mut builder);
        builder.finish(root)
    }
}
