//! The places of entities that are away, by stable id: where references to them lead.
//!
//! | place | the entity there |
//! |---|---|
//! | kept | is a stand-in: something that is complete may refer to it |
//! | referred to by loads | is or will be a stand-in: it goes if none of these loads is completed |
//! | taken | will be the entity itself, when the load that took the place is completed |
//!
//! The table is shared with threads that prepare loads. The world may be cleared meanwhile, so a load looks again where the
//! world is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bevy_ecs::entity::{Entity, EntityHashSet};

/// All places of a world, by the bits of the stable id.
#[derive(Clone, Default)]
pub(crate) struct StandInTable(Arc<Mutex<HashMap<u64, Place>>>);

#[derive(Clone, Copy)]
struct Place {
    entity: Entity,
    /// How many loads refer to it that are not complete.
    loads: u32,
    taken: bool,
    kept: bool,
}

/// A place that a load has taken for one of its entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenPlace {
    pub(crate) stable_id: u64,
    pub(crate) entity: Entity,
}

impl StandInTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn get(&self, stable_id: u64) -> Option<Entity> {
        self.lock().get(&stable_id).map(|place| place.entity)
    }

    /// The entities that have places.
    pub(crate) fn entities(&self) -> EntityHashSet {
        self.lock().values().map(|place| place.entity).collect()
    }

    /// Adds a stand-in that came into the world. One that stands in for the same entity already stays.
    pub(crate) fn insert(&self, stable_id: u64, entity: Entity) {
        let mut places = self.lock();
        let place = places.entry(stable_id).or_insert(Place { entity, loads: 0, taken: false, kept: true });
        // A place without a spawned entity yields to a stand-in that is there.
        if place.entity != entity && place.taken {
            *place = Place { entity, loads: place.loads, taken: false, kept: true };
        }
    }

    /// Removes a place, if this entity has it.
    pub(crate) fn remove(&self, stable_id: u64, entity: Entity) {
        let mut places = self.lock();
        if places.get(&stable_id).is_some_and(|place| place.entity == entity) {
            places.remove(&stable_id);
        }
    }

    /// Takes a place for an entity of a load. Returns `None` if another load has taken it.
    pub(crate) fn take(&self, stable_id: u64) -> Option<TakenPlace> {
        let mut places = self.lock();
        let place = places.get_mut(&stable_id).filter(|place| !place.taken)?;
        place.taken = true;
        Some(TakenPlace { stable_id, entity: place.entity })
    }

    /// Announces an entity of a load that takes a while, if there is no place for it: loads in between refer to it.
    pub(crate) fn announce(&self, stable_id: u64, entity: Entity) -> Option<TakenPlace> {
        let mut places = self.lock();
        if places.contains_key(&stable_id) {
            return None;
        }
        places.insert(stable_id, Place { entity, loads: 0, taken: true, kept: false });
        Some(TakenPlace { stable_id, entity })
    }

    /// Returns true if there is a place that no load has taken.
    pub(crate) fn is_free(&self, stable_id: u64) -> bool {
        self.lock().get(&stable_id).is_some_and(|place| !place.taken)
    }

    /// Returns true if a place is what a load has taken it for.
    pub(crate) fn is_taken(&self, taken: &TakenPlace) -> bool {
        self.lock().get(&taken.stable_id).is_some_and(|place| place.taken && place.entity == taken.entity)
    }

    /// Refers to a place, which is made with this entity if there is none. Returns the entity there.
    pub(crate) fn refer(&self, stable_id: u64, new: impl FnOnce() -> Entity) -> Entity {
        let mut places = self.lock();
        let place = places.entry(stable_id).or_insert_with(|| Place {
            entity: new(),
            loads: 0,
            taken: false,
            kept: false,
        });
        place.loads += 1;
        place.entity
    }

    /// A load that referred to a place is complete.
    pub(crate) fn keep(&self, stable_id: u64, entity: Entity) {
        if let Some(place) = self.lock().get_mut(&stable_id).filter(|place| place.entity == entity) {
            place.loads = place.loads.saturating_sub(1);
            place.kept = true;
        }
    }

    /// A load that referred to a place is given up. Returns true if nothing needs the place any more: then it is gone.
    pub(crate) fn give_up_reference(&self, stable_id: u64, entity: Entity) -> bool {
        self.give_up(stable_id, entity, |place| place.loads = place.loads.saturating_sub(1))
    }

    /// A load that had taken a place is given up. Returns true if nothing needs the place any more: then it is gone.
    pub(crate) fn give_up_taken(&self, taken: &TakenPlace) -> bool {
        self.give_up(taken.stable_id, taken.entity, |place| place.taken = false)
    }

    fn give_up(&self, stable_id: u64, entity: Entity, change: impl FnOnce(&mut Place)) -> bool {
        let mut places = self.lock();
        let Some(place) = places.get_mut(&stable_id).filter(|place| place.entity == entity) else {
            return false;
        };
        change(place);
        let is_needed = place.kept || place.taken || place.loads > 0;
        if !is_needed {
            places.remove(&stable_id);
        }
        !is_needed
    }

    /// The stand-ins that only complete values can refer to: those that a sweep may remove.
    pub(crate) fn kept(&self) -> Vec<(u64, Entity)> {
        let places = self.lock();
        let kept = places.iter().filter(|(_, place)| place.kept && !place.taken && place.loads == 0);
        let mut kept: Vec<(u64, Entity)> = kept.map(|(&id, place)| (id, place.entity)).collect();
        kept.sort_unstable();
        kept
    }
}
