//! Components of Bevy that games expect to be saved.

use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::hierarchy::ChildOf;
use bevy_ecs::name::Name;
use bevy_ecs::world::World;
use bonfire::engine::{Layout, LayoutOf};
use bonfire::{Adapter, Descriptor, LoadContext, Result, Writer};

use crate::Saved;
use crate::registry::Registered;

/// Components without fields: a column of them is the fact that they are there.
pub(crate) struct Mark;

macro_rules! marks {
    ($($mark:ident),*) => {$(
        impl Adapter<$mark> for Mark {
            type Saved = ();

            #[expect(unsafe_code, reason = "promises the layout of a type without fields")]
            // SAFETY: it has no fields and no bytes, and anybody may make one.
            const LAYOUT: LayoutOf<$mark> = unsafe { LayoutOf::new(Layout::UNIT) };

            fn save(_: &$mark) -> Result<()> {
                Ok(())
            }
            fn load((): (), _: &LoadContext<'_>) -> Result<$mark> {
                Ok($mark)
            }
        }
    )*};
}
marks!(Saved, Disabled);

struct AsText;

impl Adapter<Name> for AsText {
    type Saved = String;

    fn save(name: &Name) -> Result<String> {
        Ok(name.as_str().to_owned())
    }
    fn encode(name: &Name, out: &mut Writer) {
        out.text(name.as_str());
    }
    fn load(saved: String, _: &LoadContext<'_>) -> Result<Name> {
        Ok(Name::new(saved))
    }
}

struct AsParent;

impl Adapter<ChildOf> for AsParent {
    type Saved = bevy_ecs::entity::Entity;

    fn save(child: &ChildOf) -> Result<Self::Saved> {
        Ok(child.0)
    }
    fn load(saved: Self::Saved, _: &LoadContext<'_>) -> Result<ChildOf> {
        Ok(ChildOf(saved))
    }
}

pub(crate) fn register(world: &mut World, registry: &mut Registered) {
    let numbers = [
        registry.add::<Name>(world, Descriptor::adapted::<Name, AsText>("bevy.name")),
        registry
            .add_relationship::<ChildOf>(world, Descriptor::adapted::<ChildOf, AsParent>("bevy.child_of")),
        #[cfg(feature = "transform")]
        transform::register(world, registry),
        #[cfg(feature = "visibility")]
        visibility::register(world, registry),
    ];
    for number in numbers {
        match number {
            Ok(number) => registry.entries[number].incidental = true,
            Err(error) => panic!("{error}"),
        }
    }
}

#[cfg(feature = "asset")]
pub(crate) mod asset;
#[cfg(feature = "reflect")]
pub(crate) mod reflect;
#[cfg(feature = "state")]
pub(crate) mod state;
#[cfg(feature = "time")]
pub(crate) mod time;
#[cfg(feature = "transform")]
mod transform;
#[cfg(feature = "visibility")]
mod visibility;
