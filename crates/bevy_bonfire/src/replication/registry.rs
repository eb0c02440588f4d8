//! Registration of what is replicated.

use bevy_app::App;
use bevy_ecs::component::Component;
use bevy_ecs::world::World;
use bonfire::{Descriptor, Keyed};

use crate::delta::ReplicationRegistry;
use crate::registry::or_panic;

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
    /// Entities are replicated if they have [`Replicated`](super::Replicated), resources if they are registered.
    #[track_caller]
    fn replicate<T: Component>(&mut self) -> &mut Self {
        or_panic(ReplicationRegistry::edit(self.replication_world(), |_, saves, registry| {
            let number = saves.require::<T>()?;
            registry.add_from(saves, number)
        }));
        self
    }

    /// Replicates all components and resources that are saved, also those that are registered later, and what every world saves
    /// of Bevy's own. The marks of saved entities are not among them.
    fn replicate_persisted(&mut self) -> &mut Self {
        ReplicationRegistry::replicate_persisted(self.replication_world());
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
        or_panic(ReplicationRegistry::edit(self.replication_world(), |world, _, registry| {
            registry.add::<T>(world, descriptor).map(drop)
        }));
        self
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
