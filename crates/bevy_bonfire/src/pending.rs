//! Entities of a load that is not complete: the ids that are reserved for them, and the mark that hides them.
//!
//! A pending entity has [`Pending`] and Bevy's `Disabled`. Queries of the game do not see it, captures leave it out, and
//! stable ids and indexes do not lead to it. Removing both marks from all of them makes them part of the world.
//!
//! Reserved ids that are not used go back to their world, on whichever thread they are dropped: through a queue that the
//! world empties when it loads (`load::reclaim`).

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
#[cfg(not(target_arch = "wasm32"))]
use std::time::Duration;

use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, RemoteAllocator};
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::{Error, Result};

/// Marks an entity of a load that is not complete yet.
#[derive(Component)]
pub(crate) struct Pending;

/// The state of a world that concerns pending entities.
#[derive(Resource, Default)]
pub(crate) struct PendingEntities {
    abandoned: Arc<Mutex<Vec<AbandonedIds>>>,
    lock: IdAllocLock,
    listeners: Vec<ActivationListener>,
}

/// Called with entities that are pending no longer: for indexes, which ignore pending ones.
pub(crate) type ActivationListener = fn(&mut World, &[Entity]);

impl PendingEntities {
    pub(crate) fn listen(&mut self, listener: ActivationListener) {
        self.listeners.push(listener);
    }

    pub(crate) fn listeners(&self) -> Vec<ActivationListener> {
        self.listeners.clone()
    }

    /// Takes the ids that loads have given up.
    pub(crate) fn take_abandoned(&self) -> Vec<AbandonedIds> {
        std::mem::take(&mut *self.abandoned.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Locks the allocation of entity ids. A batch frees its ids and allocates them again; an id that another thread allocates
/// in between breaks the batch.
#[derive(Clone, Default)]
pub(crate) struct IdAllocLock(Arc<Mutex<()>>);

/// How often [`IdAllocLock::try_lock_for_a_while`] tries, once per millisecond.
const LOCK_TRIES: u32 = 1000;

thread_local! {
    /// This thread holds the lock. Hooks of a batch run meanwhile, and may prepare a load.
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
}

impl IdAllocLock {
    /// The lock of a world; `None` if nothing is registered in it.
    pub(crate) fn of(world: &World) -> Option<Self> {
        world.get_resource::<PendingEntities>().map(|pending| pending.lock.clone())
    }

    /// Waits for the lock, but not for ever: the holder runs code of the game, which may wait for this thread. A caller that
    /// goes on without the lock may break a batch, which then fails and is undone.
    fn try_lock_for_a_while(&self) -> Option<IdAllocGuard<'_>> {
        if IS_HELD.get() {
            return None;
        }
        for _ in 0..LOCK_TRIES {
            match self.0.try_lock() {
                Ok(guard) => {
                    IS_HELD.set(true);
                    return Some(IdAllocGuard { was_held: false, _guard: Some(guard) });
                }
                Err(TryLockError::Poisoned(poisoned)) => {
                    IS_HELD.set(true);
                    return Some(IdAllocGuard { was_held: false, _guard: Some(poisoned.into_inner()) });
                }
                #[cfg(not(target_arch = "wasm32"))]
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                #[cfg(target_arch = "wasm32")]
                Err(TryLockError::WouldBlock) => {}
            }
        }
        None
    }

    /// Waits for the lock. Does nothing on a thread that holds it already.
    pub(crate) fn lock(&self) -> IdAllocGuard<'_> {
        let was_held = IS_HELD.replace(true);
        let guard = (!was_held).then(|| self.0.lock().unwrap_or_else(PoisonError::into_inner));
        IdAllocGuard { was_held, _guard: guard }
    }
}

/// Holds an [`IdAllocLock`] until it is dropped.
pub(crate) struct IdAllocGuard<'t> {
    was_held: bool,
    _guard: Option<MutexGuard<'t, ()>>,
}

impl Drop for IdAllocGuard<'_> {
    fn drop(&mut self) {
        IS_HELD.set(self.was_held);
    }
}

/// Ids that a load has reserved and given up.
pub(crate) struct AbandonedIds {
    pub(crate) entities: Vec<Entity>,
    /// This many of the first may be spawned.
    pub(crate) spawned: usize,
}

/// Reserves ids of a world, on any thread.
#[derive(Clone)]
pub(crate) struct IdReserve {
    allocator: RemoteAllocator,
    abandoned: Arc<Mutex<Vec<AbandonedIds>>>,
    lock: IdAllocLock,
}

impl IdReserve {
    pub(crate) fn of(world: &World) -> Result<Self> {
        let pending = world.get_resource::<PendingEntities>();
        let pending = pending.ok_or_else(|| Error::misuse("nothing is registered in this world"))?;
        let allocator = world.entity_allocator().build_remote_allocator();
        Ok(Self { allocator, abandoned: Arc::clone(&pending.abandoned), lock: pending.lock.clone() })
    }

    /// Allocates ids one by one, as any thread may.
    pub(crate) fn reserve(&self, count: usize) -> Result<ReservedIds> {
        let count = id_count(count)?;
        let _guard = self.lock.try_lock_for_a_while();
        let entities = (0..count).map(|_| self.allocator.alloc()).collect();
        Ok(ReservedIds { reserve: self.clone(), entities, spawned: 0 })
    }
}

fn id_count(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::misuse("more entities than Bevy can have"))
}

/// Ids for the entities of a load. Those that are not used go back to their world.
pub(crate) struct ReservedIds {
    reserve: IdReserve,
    entities: Vec<Entity>,
    spawned: usize,
}

impl ReservedIds {
    /// Allocates ids all at once, on the thread that has the world.
    pub(crate) fn allocate(world: &World, count: usize) -> Result<Self> {
        let count = id_count(count)?;
        let reserve = IdReserve::of(world)?;
        let entities = world.entity_allocator().alloc_many(count).collect();
        Ok(Self { reserve, entities, spawned: 0 })
    }

    pub(crate) fn entities(&self) -> &[Entity] {
        &self.entities
    }

    pub(crate) fn entities_mut(&mut self) -> &mut [Entity] {
        &mut self.entities
    }

    /// Notes that the ids before this one may be spawned from now on.
    pub(crate) fn set_spawned_until(&mut self, end: usize) {
        self.spawned = self.spawned.max(end);
    }

    /// Returns the ids, which the caller then owns.
    pub(crate) fn into_entities(mut self) -> Vec<Entity> {
        std::mem::take(&mut self.entities)
    }

    /// Leaves the ids to the world: they are its entities now.
    pub(crate) fn keep(&mut self) {
        self.entities.clear();
    }

    /// Fails if the ids were reserved in another world.
    pub(crate) fn check(&self, world: &World) -> Result<()> {
        match world.entity_allocator().has_remote_allocator(&self.reserve.allocator) {
            true => Ok(()),
            false => {
                Err(Error::misuse("the load was prepared for another world, or this one was cleared since"))
            }
        }
    }
}

impl Drop for ReservedIds {
    fn drop(&mut self) {
        if !self.entities.is_empty() {
            let entities = std::mem::take(&mut self.entities);
            let abandoned = AbandonedIds { entities, spawned: self.spawned };
            self.reserve.abandoned.lock().unwrap_or_else(PoisonError::into_inner).push(abandoned);
        }
    }
}
