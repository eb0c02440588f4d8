//! What is replicated and what is mirrored: the marks of entities, and the registry of components.

use std::collections::HashSet;
use std::sync::Arc;

use bevy_ecs::component::{Component, ComponentId};
#[cfg(feature = "reflect")]
use bevy_ecs::reflect::ReflectComponent;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
#[cfg(feature = "reflect")]
use bevy_reflect::prelude::ReflectDefault;
use bonfire::Result;

use crate::registry::{ComponentRegistry, SaveRegistry};

/// Marks an entity that a server tells its clients of.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_bonfire::replication::Replicated;
/// # use bevy_bonfire::prelude::*;
/// #[derive(Component, Persist)]
/// #[require(Replicated)] // clients see every ship
/// #[persist(key = "game.ship")]
/// struct Ship;
/// ```
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "reflect", derive(bevy_reflect::Reflect), reflect(Component, Default, Debug))]
pub struct Replicated;

/// On an entity that follows one of another world. It comes and goes as that one does, and whatever a client does to
/// its replicated components is overwritten by the next change of them there. A stream of this world does not tell of it.
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "reflect", derive(bevy_reflect::Reflect), reflect(Component, Default, Debug))]
pub struct Mirrored;

/// Resources that follow those of another world.
#[derive(Resource, Default)]
pub(crate) struct MirroredResources(HashSet<ComponentId>);

impl MirroredResources {
    pub(crate) fn contains(&self, id: ComponentId) -> bool {
        self.0.contains(&id)
    }

    pub(crate) fn insert(&mut self, id: ComponentId) {
        self.0.insert(id);
    }
}

/// The components of a world that are replicated. Cheap to share; changed by registration only.
#[derive(Resource, Clone)]
pub(crate) struct ReplicationRegistry(Arc<ComponentRegistry>);

impl ReplicationRegistry {
    pub(crate) fn of(world: &mut World) -> Arc<ComponentRegistry> {
        if let Some(registry) = world.get_resource::<Self>() {
            return Arc::clone(&registry.0);
        }
        SaveRegistry::ensure(world);
        let mark = world.register_component::<Replicated>();
        let registered = Arc::new(ComponentRegistry::marked(mark));
        world.insert_resource(Self(Arc::clone(&registered)));
        registered
    }

    /// The same components, of entities that are mirrored.
    pub(crate) fn of_mirror(world: &mut World) -> Arc<ComponentRegistry> {
        let mut registered = Self::of(world);
        let mark = world.register_component::<Mirrored>();
        Arc::make_mut(&mut registered).other_mark = Some(mark);
        registered
    }

    pub(crate) fn edit(
        world: &mut World,
        edit: impl FnOnce(&mut World, &ComponentRegistry, &mut ComponentRegistry) -> Result<()>,
    ) -> Result<()> {
        let mut registry = Self::of(world);
        let saves = SaveRegistry::of(world)?;
        edit(world, &saves, Arc::make_mut(&mut registry))?;
        world.insert_resource(Self(registry));
        Ok(())
    }
}
