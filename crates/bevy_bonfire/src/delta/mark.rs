//! What is replicated and what is mirrored: the marks of entities, and the registry of components.

use std::any::TypeId;
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

use crate::registry::{ComponentRegistry, SaveRegistry, or_panic};
use crate::selection::{Saved, SavedTree};

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
pub(crate) struct ReplicationRegistry {
    components: Arc<ComponentRegistry>,
    /// The registry of saves whose components it has all of, if it shall have all.
    persisted: Option<Arc<ComponentRegistry>>,
    /// The components that it was made of, and the same ones, also of entities that are mirrored.
    relayed: Option<[Arc<ComponentRegistry>; 2]>,
}

impl ReplicationRegistry {
    pub(crate) fn of(world: &mut World) -> Arc<ComponentRegistry> {
        SaveRegistry::ensure(world);
        if !world.contains_resource::<Self>() {
            let mark = world.register_component::<Replicated>();
            let mirrored = world.register_component::<Mirrored>();
            // Mirrors are not saved on purpose.
            SaveRegistry::edit(world, |_, saves| saves.ignore(mirrored));
            let components = Arc::new(ComponentRegistry::marked(mark));
            world.insert_resource(Self { components, persisted: None, relayed: None });
        }
        let saves = Arc::clone(&world.resource::<SaveRegistry>().0);
        let mut registry = world.resource_mut::<Self>();
        if registry.persisted.as_ref().is_some_and(|known| !Arc::ptr_eq(known, &saves)) {
            registry.add_persisted(&saves);
            registry.persisted = Some(saves);
        }
        Arc::clone(&registry.components)
    }

    /// Replicates everything that is saved now or will be.
    pub(crate) fn replicate_persisted(world: &mut World) {
        Self::of(world);
        // Not the registry of the world: the next look finds that it lacks something.
        world.resource_mut::<Self>().persisted = Some(Arc::default());
        Self::of(world);
    }

    fn add_persisted(&mut self, saves: &ComponentRegistry) {
        let components = Arc::make_mut(&mut self.components);
        for (number, descriptor) in saves.core.descriptors().iter().enumerate() {
            let is_mark = [TypeId::of::<Saved>(), TypeId::of::<SavedTree>()].contains(&descriptor.type_id());
            if !is_mark && !descriptor.is_transient() {
                // A component that is replicated in another form stays as it is.
                or_panic(components.add_from(saves, number));
            }
        }
    }

    /// The same components, of entities that are mirrored.
    pub(crate) fn of_mirror(world: &mut World) -> Arc<ComponentRegistry> {
        let mut registered = Self::of(world);
        let mark = world.register_component::<Mirrored>();
        Arc::make_mut(&mut registered).other_marks = vec![mark];
        registered
    }

    /// The same components, of entities that are replicated or mirrored.
    pub(crate) fn of_relay(world: &mut World) -> Arc<ComponentRegistry> {
        let components = Self::of(world);
        let mark = world.register_component::<Mirrored>();
        let mut registry = world.resource_mut::<Self>();
        if let Some([of, relayed]) = &registry.relayed
            && Arc::ptr_eq(of, &components)
        {
            return Arc::clone(relayed);
        }
        let mut relayed = Arc::clone(&components);
        Arc::make_mut(&mut relayed).other_marks.push(mark);
        registry.relayed = Some([components, Arc::clone(&relayed)]);
        relayed
    }

    pub(crate) fn edit(
        world: &mut World,
        edit: impl FnOnce(&mut World, &ComponentRegistry, &mut ComponentRegistry) -> Result<()>,
    ) -> Result<()> {
        let mut components = Self::of(world);
        let saves = SaveRegistry::of(world)?;
        edit(world, &saves, Arc::make_mut(&mut components))?;
        world.resource_mut::<Self>().components = components;
        Ok(())
    }
}
