//! An index over a field: entities by name, by number, by whatever a component says.
//!
//! Observers keep it while components come and go, also during a load. What is changed in place is seen at the end of
//! the frame.

use std::sync::Arc;

use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityHash};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::lifecycle::{Discard, Insert};
use bevy_ecs::observer::On;
use bevy_ecs::query::{Allow, Changed, Without};
use bevy_ecs::resource::Resource;
use bevy_ecs::system::{Query, ResMut};
use bevy_ecs::world::{Mut, World};
use bonfire::engine::FieldIndex;
use bonfire::engine::Key;

use crate::pending::{Pending, PendingEntities};

/// Entities by a key that is read from their component `C`. Made by [`PersistExt::index_by`](crate::PersistExt::index_by).
///
/// ```
/// # use bevy_app::App;
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::Index;
///
/// #[derive(Component, Persist)]
/// #[require(Saved)]
/// #[persist(key = "game.slot")]
/// struct Slot(u32);
///
/// let mut app = App::new();
/// app.add_plugins(BonfirePlugin::default()).persist::<Slot>().index_by(|slot: &Slot| slot.0);
/// let entity = app.world_mut().spawn(Slot(7)).id();
/// assert_eq!(app.world().resource::<Index<Slot, u32>>().one(&7), Some(entity));
/// ```
#[derive(Resource)]
pub struct Index<C: Component, K: Key> {
    read: Arc<dyn Fn(&C) -> K + Send + Sync>,
    entities: FieldIndex<Entity, K, EntityHash>,
}

/// Entities that are not pending, disabled or not.
type InWorld = (Allow<Disabled>, Without<Pending>);

bonfire::engine::index_methods!(Component, Entity);

impl<C: Component, K: Key> Index<C, K> {
    fn put(&mut self, entity: Entity, component: &C) {
        self.entities.put(entity, (self.read)(component));
    }

    /// Makes the index of a world.
    pub(crate) fn install(world: &mut World, read: impl Fn(&C) -> K + Send + Sync + 'static) {
        let mut index = Self { read: Arc::new(read), entities: FieldIndex::default() };
        let mut known = world.query_filtered::<(Entity, &C), InWorld>();
        known.iter(world).for_each(|(entity, component)| index.put(entity, component));
        if world.get_resource::<Self>().is_none() {
            world.add_observer(Self::inserted);
            world.add_observer(Self::discarded);
            world.get_resource_or_init::<PendingEntities>().listen(Self::activated);
        }
        world.insert_resource(index);
    }

    fn inserted(event: On<Insert<C>>, components: Query<&C, InWorld>, mut index: ResMut<Self>) {
        if let Ok(component) = components.get(event.entity) {
            index.put(event.entity, component);
        }
    }

    fn discarded(event: On<Discard<C>>, mut index: ResMut<Self>) {
        index.entities.remove(event.entity);
    }

    /// Adds entities that are pending no longer.
    fn activated(world: &mut World, entities: &[Entity]) {
        world.resource_scope(|world, mut index: Mut<'_, Self>| {
            for &entity in entities {
                if let Some(component) = world.get::<C>(entity) {
                    index.put(entity, component);
                }
            }
        });
    }

    /// Sees what was changed in place.
    pub(crate) fn refresh(changed: Query<(Entity, &C), (Changed<C>, InWorld)>, mut index: ResMut<Self>) {
        changed.iter().for_each(|(entity, component)| index.put(entity, component));
    }
}
