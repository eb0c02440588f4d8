//! Components of Bevy that games expect to be saved.

use bevy_ecs::hierarchy::{ChildOf, Children};
use bevy_ecs::name::Name;
use bevy_ecs::world::World;
use bonfire::{Adapter, Descriptor, LoadContext, Result};

use crate::registry::Registered;

/// A component without fields.
pub(crate) struct Mark;

impl<T: Default + 'static> Adapter<T> for Mark {
    type Saved = ();

    fn save(_: &T) -> Result<()> {
        Ok(())
    }
    fn load((): (), _: &LoadContext<'_>) -> Result<T> {
        Ok(T::default())
    }
}

struct AsText;

impl Adapter<Name> for AsText {
    type Saved = String;

    fn save(name: &Name) -> Result<String> {
        Ok(name.as_str().to_owned())
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
    world.register_component::<Children>();
    let numbers = [
        registry.add::<Name>(world, Descriptor::adapted::<Name, AsText>("bevy.name")),
        registry.add::<ChildOf>(world, Descriptor::adapted::<ChildOf, AsParent>("bevy.child_of")),
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
