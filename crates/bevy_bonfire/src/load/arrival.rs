//! Entities of a load that is not done: their ids, and the mark that keeps them out of everything.
//!
//! An entity that is arriving has [`Arriving`] and Bevy's `Disabled`, so queries of the game do not see it, captures leave
//! it out, and stable ids and indexes do not lead to it. Taking both away from all of them at once makes them part of the
//! world.
//!
//! Ids that were reserved and are not used go back to their world, whoever drops them, on whatever thread: through a
//! queue that the world empties when it loads ([`settle`]).

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
#[cfg(not(target_arch = "wasm32"))]
use std::time::Duration;

use bevy_ecs::archetype::Archetype;
use bevy_ecs::component::{Component, ComponentId};
use bevy_ecs::entity::{Entity, RemoteAllocator};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::{Error, Result};

use super::commit;
use crate::StableIds;
use crate::registry::SaveRegistry;
use crate::selection::EntitySet;

/// On an entity of a load that is not complete yet.
#[derive(Component)]
pub(crate) struct Arriving;

/// What a world knows of entities that are arriving.
#[derive(Resource, Default)]
pub(crate) struct Arrivals {
    left: Arc<Mutex<Vec<Left>>>,
    turn: Turn,
    /// Told of entities that have arrived: indexes, which did not see them come.
    listeners: Vec<fn(&mut World, &[Entity])>,
}

impl Arrivals {
    pub(crate) fn listen(&mut self, listener: fn(&mut World, &[Entity])) {
        self.listeners.push(listener);
    }
}

/// Whose turn it is to take ids: batches give theirs back and take them again, and whoever took one in between would break
/// the batch.
#[derive(Clone, Default)]
pub(super) struct Turn(Arc<Mutex<()>>);

/// Milliseconds.
const TRIES: u32 = 1000;

thread_local! {
    /// Hooks of a batch run while it is its turn, and may prepare a load.
    static MINE: Cell<bool> = const { Cell::new(false) };
}

impl Turn {
    /// `None` in a world that nothing is registered in.
    pub(super) fn of(world: &World) -> Option<Self> {
        world.get_resource::<Arrivals>().map(|arrivals| arrivals.turn.clone())
    }

    /// Waits for it, but not for ever: code of the game runs in the other's turn, and may wait for this thread. Whoever goes on
    /// without it may break a batch, which then fails and is undone.
    fn take_or_go_on(&self) -> Option<Mine<'_>> {
        if MINE.get() {
            return None;
        }
        for _ in 0..TRIES {
            match self.0.try_lock() {
                Ok(guard) => {
                    MINE.set(true);
                    return Some(Mine { had: false, _guard: Some(guard) });
                }
                Err(TryLockError::Poisoned(poisoned)) => {
                    MINE.set(true);
                    return Some(Mine { had: false, _guard: Some(poisoned.into_inner()) });
                }
                #[cfg(not(target_arch = "wasm32"))]
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                #[cfg(target_arch = "wasm32")]
                Err(TryLockError::WouldBlock) => {}
            }
        }
        None
    }

    /// Waits for it. On a thread that has it already this is nothing.
    pub(super) fn take(&self) -> Mine<'_> {
        let had = MINE.replace(true);
        Mine { had, _guard: (!had).then(|| self.0.lock().unwrap_or_else(PoisonError::into_inner)) }
    }
}

/// Until this is dropped.
pub(super) struct Mine<'t> {
    had: bool,
    _guard: Option<MutexGuard<'t, ()>>,
}

impl Drop for Mine<'_> {
    fn drop(&mut self) {
        MINE.set(self.had);
    }
}

/// Ids that nobody has any more.
struct Left {
    entities: Vec<Entity>,
    /// So many of the first may be in the world.
    spawned: usize,
}

/// Gives out ids of a world, on any thread.
#[derive(Clone)]
pub(crate) struct Reserve {
    allocator: RemoteAllocator,
    left: Arc<Mutex<Vec<Left>>>,
    turn: Turn,
}

impl Reserve {
    pub(crate) fn of(world: &World) -> Result<Self> {
        let arrivals = world.get_resource::<Arrivals>();
        let arrivals = arrivals.ok_or_else(|| Error::misuse("nothing is registered in this world"))?;
        let allocator = world.entity_allocator().build_remote_allocator();
        Ok(Self { allocator, left: Arc::clone(&arrivals.left), turn: arrivals.turn.clone() })
    }

    pub(super) fn take(&self, count: usize) -> Reserved {
        let _mine = self.turn.take_or_go_on();
        let entities = (0..count).map(|_| self.allocator.alloc()).collect();
        Reserved { reserve: self.clone(), entities, spawned: 0 }
    }
}

/// Ids for entities that are to come.
pub(super) struct Reserved {
    reserve: Reserve,
    entities: Vec<Entity>,
    spawned: usize,
}

impl Reserved {
    pub(super) fn entities(&self) -> &[Entity] {
        &self.entities
    }

    pub(super) fn entities_mut(&mut self) -> &mut [Entity] {
        &mut self.entities
    }

    /// Says that the first so many may be in the world from now on.
    pub(super) fn spawn_until(&mut self, end: usize) {
        self.spawned = self.spawned.max(end);
    }

    /// Makes them the caller's.
    pub(super) fn into_entities(mut self) -> Vec<Entity> {
        std::mem::take(&mut self.entities)
    }

    /// They are entities of the world now.
    pub(super) fn keep(&mut self) {
        self.entities.clear();
    }

    /// Fails if the ids mean nothing in this world.
    pub(super) fn check(&self, world: &World) -> Result<()> {
        match world.entity_allocator().has_remote_allocator(&self.reserve.allocator) {
            true => Ok(()),
            false => {
                Err(Error::misuse("the load was prepared for another world, or this one was cleared since"))
            }
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.entities.is_empty() {
            let left = Left { entities: std::mem::take(&mut self.entities), spawned: self.spawned };
            self.reserve.left.lock().unwrap_or_else(PoisonError::into_inner).push(left);
        }
    }
}

/// Takes back what loads that did not come to an end have left: ids, and entities that were arriving. A world that is
/// cleared loses its queue, and its ids mean nothing any more.
pub(crate) fn settle(world: &mut World) {
    let Some(arrivals) = world.get_resource::<Arrivals>() else { return };
    let left = std::mem::take(&mut *arrivals.left.lock().unwrap_or_else(PoisonError::into_inner));
    for Left { entities, spawned } in left {
        let (spawned, unused) = entities.split_at(spawned);
        world.entity_allocator_mut().free_many(unused);
        if let Ok(registry) = SaveRegistry::of(world)
            && !spawned.is_empty()
        {
            commit::undo(world, &registry, spawned);
        }
    }
}

/// The components that an entity has while it arrives, sorted. `Disabled` may be its own as well.
pub(super) fn tags(world: &mut World) -> [ComponentId; 2] {
    let mut tags = [world.register_component::<Arriving>(), world.register_component::<Disabled>()];
    tags.sort();
    tags
}

/// Whether no code of the game runs when entities arrive.
pub(super) fn is_quiet(world: &World) -> bool {
    let Some(arriving) = world.components().component_id::<Arriving>() else { return true };
    let heard = |archetype: &Archetype| {
        archetype.has_remove_hook()
            || archetype.has_remove_observer()
            || archetype.has_discard_hook()
            || archetype.has_discard_observer()
    };
    !world
        .archetypes()
        .iter()
        .any(|archetype| archetype.contains(arriving) && !archetype.is_empty() && heard(archetype))
}

/// Makes entities that were arriving part of the world, all but what the game has despawned. Some stay disabled.
pub(super) fn arrive(world: &mut World, entities: &[Entity], stay_disabled: &EntitySet) {
    world.resource_mut::<StableIds>().arrived(entities);
    // In the order of the save, which is then the order of rows.
    for &entity in entities {
        let Ok(mut arriving) = world.get_entity_mut(entity) else { continue };
        if stay_disabled.contains(entity) {
            arriving.remove::<Arriving>();
        } else {
            arriving.remove::<(Arriving, Disabled)>();
        }
    }
    for listener in world.resource::<Arrivals>().listeners.clone() {
        listener(world, entities);
    }
}
