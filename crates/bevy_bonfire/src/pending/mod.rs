//! Entities of a load that is not complete: the ids that are reserved for them, and the mark that hides them.
//!
//! A pending entity has [`Pending`] and Bevy's `Disabled`. Queries of the game do not see it, captures leave it out, and
//! stable ids and indexes do not lead to it. Removing both marks from all of them makes them part of the world.
//!
//! Reserved ids that are not used go back to their world, on whichever thread they are dropped: through a queue that the
//! world empties when it loads (`load::reclaim`).
//!
//! `stand_ins` has the places of entities that are away, which loads take and refer to. `id_alloc_lock` keeps other threads from
//! the allocator of ids while a batch is spawned.

mod id_alloc_lock;
mod stand_ins;

use std::sync::{Arc, Mutex, PoisonError};

use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityHashMap, RemoteAllocator};
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::{Error, Result};

pub(crate) use self::id_alloc_lock::IdAllocLock;
pub(crate) use self::stand_ins::{StandInTable, TakenPlace};

/// Marks an entity of a load that is not complete yet.
#[derive(Component)]
pub(crate) struct Pending;

/// The state of a world that concerns pending entities.
#[derive(Resource, Default)]
pub(crate) struct PendingEntities {
    abandoned: Arc<Mutex<Vec<AbandonedIds>>>,
    lock: IdAllocLock,
    stand_ins: StandInTable,
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

    /// The places of entities that are away.
    pub(crate) fn stand_ins(&self) -> &StandInTable {
        &self.stand_ins
    }

    /// Takes the ids that loads have given up.
    pub(crate) fn take_abandoned(&self) -> Vec<AbandonedIds> {
        std::mem::take(&mut *self.abandoned.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ids that a load has reserved and given up.
pub(crate) struct AbandonedIds {
    pub(crate) entities: Vec<Entity>,
    /// This many of the first may be spawned.
    pub(crate) spawned: usize,
    /// The places among them.
    pub(crate) places: LoadPlaces,
}

/// The places of entities that are away, as far as a load has to do with them.
#[derive(Default)]
pub(crate) struct LoadPlaces {
    /// Its own entities are put there.
    pub(crate) taken: Vec<TakenPlace>,
    /// Its values refer to them, by stable id.
    pub(crate) referred: Vec<(u64, Entity)>,
    /// Reserved ids that it does not need.
    pub(crate) unused: Vec<Entity>,
}

impl LoadPlaces {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.referred.is_empty() && self.unused.is_empty()
    }
}

/// Reserves ids of a world, on any thread.
#[derive(Clone)]
pub(crate) struct IdReserve {
    allocator: RemoteAllocator,
    abandoned: Arc<Mutex<Vec<AbandonedIds>>>,
    lock: IdAllocLock,
    pub(crate) stand_ins: StandInTable,
}

impl IdReserve {
    pub(crate) fn of(world: &World) -> Result<Self> {
        let pending = world.get_resource::<PendingEntities>();
        let pending = pending.ok_or_else(|| Error::misuse("nothing is registered in this world"))?;
        let allocator = world.entity_allocator().build_remote_allocator();
        let (lock, stand_ins) = (pending.lock.clone(), pending.stand_ins.clone());
        Ok(Self { allocator, abandoned: Arc::clone(&pending.abandoned), lock, stand_ins })
    }

    /// Allocates ids one by one, as any thread may.
    pub(crate) fn reserve(&self, count: usize) -> Result<ReservedIds> {
        let count = id_count(count)?;
        let _guard = self.lock.try_lock_for_a_while();
        let entities = (0..count).map(|_| self.allocator.alloc()).collect();
        Ok(ReservedIds { reserve: self.clone(), entities, spawned: 0, places: LoadPlaces::default() })
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
    places: LoadPlaces,
}

impl ReservedIds {
    /// Allocates ids all at once, on the thread that has the world.
    pub(crate) fn allocate(world: &World, count: usize) -> Result<Self> {
        let count = id_count(count)?;
        let reserve = IdReserve::of(world)?;
        let entities = world.entity_allocator().alloc_many(count).collect();
        Ok(Self { reserve, entities, spawned: 0, places: LoadPlaces::default() })
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

    /// Returns the ids and the places, which the caller then owns.
    pub(crate) fn into_parts(mut self) -> (Vec<Entity>, LoadPlaces) {
        (std::mem::take(&mut self.entities), std::mem::take(&mut self.places))
    }

    /// The table of the places of its world.
    pub(crate) fn stand_ins(&self) -> &StandInTable {
        &self.reserve.stand_ins
    }

    /// Puts entities of the load where stand-ins are for them. `stable_ids` are those of the load, by the number of the
    /// entity. If the load takes a while, the other entities are announced.
    pub(crate) fn take_places(&mut self, stable_ids: &[(usize, u64)], takes_a_while: bool) {
        for &(number, stable_id) in stable_ids {
            let entity = self.entities[number];
            let announced = || takes_a_while.then(|| self.reserve.stand_ins.announce(stable_id, entity));
            let taken = self.reserve.stand_ins.take(stable_id).or_else(|| announced().flatten());
            let Some(taken) = taken else { continue };
            self.places.taken.push(taken);
            if taken.entity != entity {
                self.places.unused.push(std::mem::replace(&mut self.entities[number], taken.entity));
            }
        }
    }

    /// Returns true if the places are taken that there are for the entities of the load, and no others.
    pub(crate) fn has_all_places(
        &self,
        stable_ids: &[(usize, u64)],
        is_there: impl Fn(&TakenPlace) -> bool,
    ) -> bool {
        let table = &self.reserve.stand_ins;
        let is_free = |&(_, stable_id): &(usize, u64)| table.is_free(stable_id);
        self.places.taken.iter().all(|taken| table.is_taken(taken) && is_there(taken))
            && !stable_ids.iter().any(is_free)
    }

    /// Gives all places back that are taken for entities, which get ids of their own.
    pub(crate) fn leave_places(&mut self) {
        let taken = std::mem::take(&mut self.places.taken);
        let own = taken.iter().map(|taken| (taken.entity, self.reserve.allocator.alloc()));
        let own: EntityHashMap<Entity> = own.collect();
        for entity in &mut self.entities {
            *entity = own.get(entity).copied().unwrap_or(*entity);
        }
        let gone = taken.iter().filter(|taken| self.reserve.stand_ins.give_up_taken(taken));
        self.places.unused.extend(gone.map(|taken| taken.entity));
    }

    pub(crate) fn places(&self) -> &LoadPlaces {
        &self.places
    }

    /// Refers to the place of an entity that is away, and returns the entity there. It may not be spawned.
    pub(crate) fn refer(&mut self, stable_id: u64) -> Entity {
        let entity = self.reserve.stand_ins.refer(stable_id, || self.reserve.allocator.alloc());
        self.places.referred.push((stable_id, entity));
        entity
    }

    /// Leaves the ids to the world: they are its entities now. Returns the places.
    pub(crate) fn keep(&mut self) -> LoadPlaces {
        self.entities.clear();
        std::mem::take(&mut self.places)
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
        if !self.entities.is_empty() || !self.places.is_empty() {
            let entities = std::mem::take(&mut self.entities);
            let places = std::mem::take(&mut self.places);
            let abandoned = AbandonedIds { entities, spawned: self.spawned, places };
            self.reserve.abandoned.lock().unwrap_or_else(PoisonError::into_inner).push(abandoned);
        }
    }
}
