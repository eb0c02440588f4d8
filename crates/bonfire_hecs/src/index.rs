//! An index over a field: entities by name, by number, by whatever a component says.

use std::any::Any;

use bonfire::engine::{FieldIndex, Key};
use hecs::{Component, Entity, World};

/// Entities by a key that is read from their component `C`. Made by [`Bonfire::index_by`](crate::Bonfire::index_by), and
/// brought up to date after every load and by [`Bonfire::update_indexes`](crate::Bonfire::update_indexes).
///
/// ```
/// use bonfire_hecs::{Bonfire, Persist};
///
/// #[derive(Persist)]
/// #[persist(key = "game.slot")]
/// struct Slot(u32);
///
/// let (mut world, mut bonfire) = (hecs::World::new(), Bonfire::new());
/// bonfire.persist::<Slot>()?.index_by(|slot: &Slot| slot.0);
/// let entity = world.spawn((Slot(7),));
/// bonfire.update_indexes(&world);
/// assert_eq!(bonfire.index::<Slot, u32>()?.one(&7), Some(entity));
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
pub struct Index<C: Component, K: Key> {
    read: Box<dyn Fn(&C) -> K + Send + Sync>,
    entities: FieldIndex<Entity, K>,
}

bonfire::engine::index_methods!(Component, Entity);

impl<C: Component, K: Key> Index<C, K> {
    pub(crate) fn new(read: impl Fn(&C) -> K + Send + Sync + 'static) -> Self {
        Self { read: Box::new(read), entities: FieldIndex::default() }
    }
}

/// An index whatever its types.
pub(crate) trait AnyIndex: Send + Sync {
    /// Finds all entities of the world that belong to it.
    fn update(&mut self, world: &World);
    fn as_any(&self) -> &dyn Any;
}

impl<C: Component, K: Key> AnyIndex for Index<C, K> {
    fn update(&mut self, world: &World) {
        self.entities.retain(|entity| world.satisfies::<&C>(entity));
        for (entity, component) in world.query::<(Entity, &C)>().iter() {
            self.entities.put(entity, (self.read)(component));
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
