//! What is replicated.

use std::sync::Arc;

use bevy_app::App;
use bevy_ecs::component::Component;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::{Descriptor, Keyed, Result};

use super::{Mirrored, Replicated};
use crate::registry::{Registered, SaveRegistry};

/// The components of a world that are replicated. Cheap to share; changed by registration only.
#[derive(Resource, Clone)]
pub(crate) struct ReplicationRegistry(Arc<Registered>);

impl ReplicationRegistry {
    pub(crate) fn of(world: &mut World) -> Arc<Registered> {
        if let Some(registry) = world.get_resource::<Self>() {
            return Arc::clone(&registry.0);
        }
        SaveRegistry::ensure(world);
        let mark = world.register_component::<Replicated>();
        let registered = Arc::new(Registered::marked(mark));
        world.insert_resource(Self(Arc::clone(&registered)));
        registered
    }

    pub(crate) fn registered(&self) -> &Registered {
        &self.0
    }

    /// The same components, of entities that are mirrored.
    pub(crate) fn of_mirror(world: &mut World) -> Arc<Registered> {
        let mut registered = Self::of(world);
        let mark = world.register_component::<Mirrored>();
        Arc::make_mut(&mut registered).other_mark = Some(mark);
        registered
    }

    fn edit(
        world: &mut World,
        edit: impl FnOnce(&mut World, &Registered, &mut Registered) -> Result<()>,
    ) -> Result<()> {
        let mut registry = Self::of(world);
        let saves = SaveRegistry::of(world)?;
        edit(world, &saves, Arc::make_mut(&mut registry))?;
        world.insert_resource(Self(registry));
        Ok(())
    }
}

/// Registers what is replicated, on an [`App`] or on a bare [`World`]. Both sides must register the same.
///
/// Mistakes are found here: these calls panic if a component is not known, as those of [`PersistExt`](crate::PersistExt) do.
pub trait ReplicateExt: Sized {
    #[doc(hidden)]
    fn replication_world(&mut self) -> &mut World;

    /// Replicates a component or resource that is saved, in the way in which it is saved: see
    /// [`PersistExt::persist`](crate::PersistExt::persist). Components of Bevy that every world saves, such as `Transform`, `Name` and
    /// `ChildOf`, are known already.
    ///
    /// Entities are replicated if they have [`Replicated`], resources if they are registered.
    #[track_caller]
    fn replicate<T: Component>(&mut self) -> &mut Self {
        checked(ReplicationRegistry::edit(self.replication_world(), |_, saves, registry| {
            let number = saves.require::<T>()?;
            registry.add_from(saves, number)
        }));
        self
    }

    /// Replicates a component or resource that is not saved.
    #[track_caller]
    fn replicate_only<T: Component + Keyed>(&mut self) -> &mut Self {
        self.replicate_as::<T>(Descriptor::of::<T>())
    }

    /// Replicates a component in the way that a descriptor says, whether it is saved or not: for components that are told to
    /// clients in another form than to a save.
    #[track_caller]
    fn replicate_as<T: Component>(&mut self, descriptor: Descriptor) -> &mut Self {
        checked(ReplicationRegistry::edit(self.replication_world(), |world, _, registry| {
            registry.add::<T>(world, descriptor).map(drop)
        }));
        self
    }
}

#[track_caller]
fn checked(result: Result<()>) {
    if let Err(error) = result {
        panic!("{error}");
    }
}

impl ReplicateExt for App {
    fn replication_world(&mut self) -> &mut World {
        self.world_mut()
    }
}

impl ReplicateExt for World {
    fn replication_world(&mut self) -> &mut World {
        self
    }
}
