//! Components of Bevy that games expect to be saved.

#[cfg(feature = "asset")]
pub(crate) mod asset;
#[cfg(feature = "reflect")]
pub(crate) mod reflect;
#[cfg(feature = "state")]
pub(crate) mod state;
#[cfg(feature = "time")]
pub(crate) mod time;
#[cfg(feature = "visibility")]
mod visibility;

use std::sync::Arc;

use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::hierarchy::ChildOf;
use bevy_ecs::name::Name;
use bevy_ecs::query::Allow;
use bevy_ecs::world::World;
#[cfg(feature = "transform")]
use bevy_transform::components::Transform;
use bonfire::engine::{Layout, LayoutOf, WorldNumber};
use bonfire::{Adapter, Descriptor, LoadContext, Result};

use crate::pending::PendingEntities;
use crate::registry::{Carried, ComponentRegistry, InsertMode, SaveRegistry, or_panic};
use crate::selection::{Saved, SavedTree};
use crate::stable_id::{StableId, StableIds};

/// Components without fields: a column of them is the fact that they are there.
struct Mark;

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
marks!(Saved, SavedTree, Disabled);

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

impl SaveRegistry {
    /// Makes the registry of a world that does not have one: with the marks of this crate and the components of Bevy that
    /// games expect to be saved, and without components of the game.
    pub(crate) fn ensure(world: &mut World) {
        if !world.contains_resource::<Self>() {
            let registry = with_builtins(world);
            world.insert_resource(Self(Arc::new(registry)));
        }
    }

    /// Changes the registry of a world, which is made if it is not there yet.
    pub(crate) fn edit<T>(
        world: &mut World,
        edit: impl FnOnce(&mut World, &mut ComponentRegistry) -> T,
    ) -> T {
        Self::ensure(world);
        // A capture or load that holds the registry keeps the one it has.
        let mut registry = std::mem::take(&mut world.resource_mut::<Self>().0);
        let result = edit(world, Arc::make_mut(&mut registry));
        world.resource_mut::<Self>().0 = registry;
        result
    }
}

fn with_builtins(world: &mut World) -> ComponentRegistry {
    let mut registry = ComponentRegistry::new(WorldNumber::new());
    register_marks(world, &mut registry);
    let mut ids = StableIds::default();
    let mut known = world.query_filtered::<(Entity, &StableId), Allow<Disabled>>();
    known.iter(world).for_each(|(entity, id)| ids.insert(*id, entity));
    world.insert_resource(ids);
    world.init_resource::<Carried>();
    world.init_resource::<InsertMode>();
    world.init_resource::<PendingEntities>();
    register_components(world, &mut registry);
    registry
}

fn register_marks(world: &mut World, registry: &mut ComponentRegistry) {
    let numbers = [
        registry.add::<Saved>(world, Descriptor::adapted::<Saved, Mark>("bonfire.saved")),
        registry.add::<SavedTree>(world, Descriptor::adapted::<SavedTree, Mark>("bonfire.saved_tree")),
        registry.add::<StableId>(world, Descriptor::of::<StableId>()),
        registry.add::<Disabled>(world, Descriptor::adapted::<Disabled, Mark>("bevy.disabled")),
    ];
    set_incidental(registry, numbers);
}

fn register_components(world: &mut World, registry: &mut ComponentRegistry) {
    let numbers = [
        registry.add::<Name>(world, Descriptor::new::<Name>("bevy.name")),
        registry
            .add_relationship::<ChildOf>(world, Descriptor::adapted::<ChildOf, AsParent>("bevy.child_of")),
        #[cfg(feature = "transform")]
        registry.add::<Transform>(world, Descriptor::new::<Transform>("bevy.transform")),
        #[cfg(feature = "visibility")]
        visibility::register(world, registry),
    ];
    set_incidental(registry, numbers);
}

/// The components are saved where they are met, but are no reason to save an entity.
fn set_incidental(registry: &mut ComponentRegistry, numbers: impl IntoIterator<Item = Result<usize>>) {
    for number in numbers {
        registry.entries[or_panic(number)].incidental = true;
    }
}
