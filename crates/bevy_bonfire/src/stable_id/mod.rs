//! Identity that outlives processes, loads and Bevy's own ids.
//!
//! Hooks of the component [`StableId`] keep the core's index up to date. A [`StableRef`] refers to an id whether or not it
//! is loaded: while it is not, the reference is unresolved, and it resolves when its target comes back, in this save or in
//! another.

mod stand_in;

use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityHashMap};
use bevy_ecs::lifecycle::HookContext;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::DeferredWorld;
use bonfire::Persist;
use bonfire::engine::StableIdIndex;

pub use self::stand_in::StandIn;
pub(crate) use self::stand_in::stand_in;
use crate::pending::Pending;

/// An id of an entity that never changes and is never given out twice. New ones are made by [`StableId::new`], which is
/// also the default, so that `#[require(StableId)]` gives one to every entity of a kind.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::{StableId, StableIds, StableRef};
///
/// #[derive(Component, Persist)]
/// #[persist(key = "game.key")]
/// struct Key {
///     opens: StableRef,
/// }
///
/// let mut world = World::new();
/// world.persist::<Key>();
/// let door = StableId::new();
/// let key = Key { opens: door.into() };
/// assert!(key.opens.resolve(world.resource::<StableIds>()).is_err()); // not loaded yet
/// let entity = world.spawn(door).id();
/// assert_eq!(key.opens.resolve(world.resource::<StableIds>()), Ok(entity));
/// ```
#[derive(Component, Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[component(immutable, on_insert = inserted, on_discard = discarded)]
#[persist(key = "bonfire.stable_id")]
pub struct StableId(u64);

/// Where every [`StableId`] of the world is. If several entities have one, it leads to the one that got it last.
#[derive(Resource, Default, Debug)]
pub struct StableIds {
    index: StableIdIndex<Entity>,
    /// A load puts new entities beside those that they replace: no reason to warn.
    loading: bool,
    /// The ids of pending entities.
    pending: EntityHashMap<StableId>,
}

impl StableIds {
    /// Lets the ids of these entities lead to them, and returns those that other entities have, too.
    pub(crate) fn prefer(&mut self, entities: impl Iterator<Item = Entity>) -> Vec<StableId> {
        self.index.prefer(entities).into_iter().map(StableId).collect()
    }

    pub(crate) fn begin_load(&mut self) {
        self.loading = true;
    }

    pub(crate) fn end_load(&mut self) {
        self.loading = false;
    }

    pub(crate) fn insert(&mut self, id: StableId, entity: Entity) {
        if let Some(other) = self.index.insert(id.0, entity)
            && !self.loading
        {
            log::warn!("stable id {id} is on entity {other} and on {entity}: references lead to the latter");
        }
    }

    /// Lets the ids of entities that were pending lead to them.
    pub(crate) fn activate(&mut self, entities: &[Entity]) {
        if self.pending.is_empty() {
            return;
        }
        let loading = std::mem::replace(&mut self.loading, true);
        for &entity in entities {
            if let Some(id) = self.pending.remove(&entity) {
                self.insert(id, entity);
            }
        }
        self.loading = loading;
    }

    fn remove(&mut self, id: StableId, entity: Entity) {
        if self.pending.remove(&entity).is_none() {
            self.index.remove(id.0, entity);
        }
    }
}

fn inserted(mut world: DeferredWorld<'_>, context: HookContext) {
    let is_pending = world.get::<Pending>(context.entity).is_some();
    if let Some(id) = world.get::<StableId>(context.entity).copied()
        && let Some(mut ids) = world.get_resource_mut::<StableIds>()
    {
        match is_pending {
            true => _ = ids.pending.insert(context.entity, id),
            false => ids.insert(id, context.entity),
        }
    }
    stand_in::end_standing_in(&mut world, context.entity);
}

fn discarded(mut world: DeferredWorld<'_>, context: HookContext) {
    if let Some(id) = world.get::<StableId>(context.entity).copied()
        && let Some(mut ids) = world.get_resource_mut::<StableIds>()
    {
        ids.remove(id, context.entity);
    }
}

/// A reference to an entity by its [`StableId`]. Unlike an `Entity`, it keeps its meaning when the target is not loaded.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StableRef(StableId);

bonfire::engine::stable_id_methods!(Entity);
