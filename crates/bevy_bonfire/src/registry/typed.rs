//! Functions of the game that take a component by its type, stored as functions that take a pointer.

use std::sync::Arc;

use bevy_ecs::component::{Component, ComponentId};
use bevy_ecs::ptr::{OwningPtr, Ptr};
use bevy_ecs::world::World;
use bonfire::Result;

/// Puts a loaded resource into a world in another way than by inserting it.
pub(crate) type LoadResource = Arc<dyn Fn(&mut World, OwningPtr<'_>) -> Result<()> + Send + Sync>;

/// A [`LoadResource`] that calls `load` with the resource by value. It is stored with the component whose type is `T`, and
/// gets values of that component only.
#[cfg(any(feature = "state", feature = "time"))]
#[expect(unsafe_code, reason = "gives a pointer its type back")]
pub(crate) fn load_resource_with<T: 'static>(
    load: impl Fn(&mut World, T) -> Result<()> + Send + Sync + 'static,
) -> LoadResource {
    // SAFETY: the pointer owns a value of the component that the function was stored with, whose type is `T`.
    Arc::new(move |world: &mut World, value: OwningPtr<'_>| load(world, unsafe { value.read::<T>() }))
}

/// Reads the layer of an entity from one of its components.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) id: ComponentId,
    pub(crate) read: Arc<dyn Fn(Ptr<'_>) -> u8 + Send + Sync>,
}

impl Layer {
    /// Reads the layer from component `T`.
    #[expect(unsafe_code, reason = "gives a pointer its type back")]
    pub(crate) fn of<T: Component>(
        world: &mut World,
        layer: impl Fn(&T) -> u8 + Send + Sync + 'static,
    ) -> Self {
        let id = world.register_component::<T>();
        // SAFETY: the function is stored with the component's id and gets values of that component, whose type is `T`.
        Self { id, read: Arc::new(move |value: Ptr<'_>| layer(unsafe { value.deref::<T>() })) }
    }
}
