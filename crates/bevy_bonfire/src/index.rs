//! An index over a field: entities by name, by number, by whatever a component says.
//!
//! Observers keep it while components come and go, also during a load. What is changed in place is seen at the end of
//! the frame.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityHashMap};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::lifecycle::{Discard, Insert};
use bevy_ecs::observer::On;
use bevy_ecs::query::{Allow, Changed, Without};
use bevy_ecs::resource::Resource;
use bevy_ecs::system::{Query, ResMut};
use bevy_ecs::world::{Mut, World};
use bonfire::{Error, Result};

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
    /// By key, in the order in which they got it.
    entities: HashMap<K, BTreeMap<u64, Entity>>,
    keys: EntityHashMap<(K, u64)>,
    next: u64,
}

/// Entities that are not pending, disabled or not.
type InWorld = (Allow<Disabled>, Without<Pending>);

/// What an [`Index`] can go by: text, numbers, and everything like them.
pub trait Key: Eq + Hash + Clone + Debug + Send + Sync + 'static {}
impl<T: Eq + Hash + Clone + Debug + Send + Sync + 'static> Key for T {}

impl<C: Component, K: Key> Index<C, K> {
    /// All entities with this key, in the order in which they got it.
    pub fn get(&self, key: &K) -> impl Iterator<Item = Entity> + '_ {
        self.entities.get(key).into_iter().flat_map(BTreeMap::values).copied()
    }

    /// The entity with this key, if there is exactly one.
    pub fn one(&self, key: &K) -> Option<Entity> {
        let mut entities = self.get(key);
        entities.next().filter(|_| entities.next().is_none())
    }

    /// The entity with this key; an error if there is none or more than one.
    pub fn require(&self, key: &K) -> Result<Entity> {
        self.one(key).ok_or_else(|| {
            let count = self.entities.get(key).map_or(0, BTreeMap::len);
            Error::custom(format!("{count} entities have the key {key:?}, one is required"))
        })
    }

    /// How many entities there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn put(&mut self, entity: Entity, component: &C) {
        let key = (self.read)(component);
        if self.keys.get(&entity).is_some_and(|(known, _)| *known == key) {
            return;
        }
        self.take(entity);
        self.next += 1;
        self.entities.entry(key.clone()).or_default().insert(self.next, entity);
        self.keys.insert(entity, (key, self.next));
    }

    fn take(&mut self, entity: Entity) {
        let Some((key, number)) = self.keys.remove(&entity) else { return };
        if let Some(entities) = self.entities.get_mut(&key) {
            entities.remove(&number);
            if entities.is_empty() {
                self.entities.remove(&key);
            }
        }
    }

    /// Makes the index of a world.
    pub(crate) fn install(world: &mut World, read: impl Fn(&C) -> K + Send + Sync + 'static) {
        let mut index =
            Self { read: Arc::new(read), entities: HashMap::new(), keys: EntityHashMap::default(), next: 0 };
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
        index.take(event.entity);
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
