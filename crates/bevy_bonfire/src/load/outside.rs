//! Entities outside of a save: what references to them become, and the places that entities of the save take.
//!
//! | step | on any thread | where the world is |
//! |---|---|---|
//! | entities of the save take the places where stand-ins are for them | yes, as the table knows them | looked at again |
//! | entities outside are found by their stable ids | no: columns that refer to them wait | yes |

use std::collections::HashMap;

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{EntityMap, LoadPlan};
use bonfire::{EntityId, Result};

use crate::pending::{ReservedIds, TakenPlace};
use crate::stable_id::{StableId, StableIds, stand_in};

/// The entities that a save refers to and does not have.
#[derive(Default)]
pub(super) struct OutsideEntities {
    /// Their saved ids and their stable ids; `None` if the save was not asked to store them.
    saved: Option<Vec<(EntityId, u64)>>,
    /// Their places in the world. Null before they are looked for.
    pub(super) map: EntityMap,
}

/// The time that a load takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    /// Nothing else happens in its world meanwhile.
    AtOnce,
    /// Other loads may be completed meanwhile.
    Steps,
}

impl OutsideEntities {
    /// Reads the entities outside of a save.
    pub(super) fn read(plan: &LoadPlan<'_, '_>) -> Result<Self> {
        let saved = plan.outside()?;
        let pairs = saved.iter().flatten().map(|&(id, _)| (id, EntityId::NULL)).collect::<Vec<_>>();
        Ok(Self { saved, map: EntityMap::from_pairs(pairs.into_iter())? })
    }

    /// Takes the places where stand-ins are for entities of the save.
    pub(super) fn take_places(&self, plan: &LoadPlan<'_, '_>, ids: &mut ReservedIds, span: Span) {
        let announces = span == Span::Steps && self.saved.is_some();
        if announces || !ids.stand_ins().is_empty() {
            ids.take_places(&plan.stable_ids(), announces);
        }
    }

    /// Takes the places where stand-ins are for some entities of the save, whose saved ids are in the order of `ids`.
    pub(super) fn take_places_of(plan: &LoadPlan<'_, '_>, missing: &[EntityId], ids: &mut ReservedIds) {
        if ids.stand_ins().is_empty() || missing.is_empty() {
            return;
        }
        let numbers: HashMap<EntityId, usize> = missing.iter().copied().zip(0..).collect();
        let saved = plan.entities();
        let stable_ids = plan.stable_ids().into_iter();
        let stable_ids: Vec<(usize, u64)> =
            stable_ids.filter_map(|(number, id)| Some((*numbers.get(&saved[number])?, id))).collect();
        ids.take_places(&stable_ids, false);
    }

    /// Returns true if there is nothing to look for: no entity is away, and the save refers to none that it does not have.
    pub(super) fn is_settled(&self, ids: &ReservedIds) -> bool {
        Self::has_no_places(ids) && self.saved.as_ref().is_none_or(Vec::is_empty)
    }

    /// Returns true if the load has taken no place, and there is none that it could take.
    fn has_no_places(ids: &ReservedIds) -> bool {
        ids.stand_ins().is_empty() && ids.places().taken.is_empty()
    }

    /// Returns true if the right places are taken, as far as the world is now. If not, they are taken anew, and everything
    /// must be staged again.
    pub(super) fn check_places(&self, world: &World, plan: &LoadPlan<'_, '_>, ids: &mut ReservedIds) -> bool {
        if Self::has_no_places(ids) {
            return true;
        }
        let stable_ids = plan.stable_ids();
        let is_there = |taken: &TakenPlace| {
            let is_spawned = world.entities().contains_spawned(taken.entity);
            let stands_in = stand_in(world, StableId::from_bits(taken.stable_id)) == Some(taken.entity);
            // An announced entity has an id and is not spawned.
            stands_in || !is_spawned && world.entities().contains(taken.entity)
        };
        if ids.has_all_places(&stable_ids, is_there) {
            return true;
        }
        ids.leave_places();
        ids.take_places(&stable_ids, self.saved.is_some());
        false
    }

    /// Finds the entities outside. Those that are not in the world get stand-ins, which are spawned when the load begins to
    /// change the world. `map` is what the saved entities become.
    pub(super) fn find(
        &mut self,
        world: &World,
        plan: &LoadPlan<'_, '_>,
        ids: &mut ReservedIds,
        map: &EntityMap,
    ) -> Result<()> {
        let Some(pairs) = self.saved.as_ref().filter(|saved| !saved.is_empty()) else { return Ok(()) };
        let saved = plan.entities();
        let own = |(number, id): (usize, u64)| Some((id, Entity::from(map.get(saved[number])?)));
        let mut found: HashMap<u64, Entity> = plan.stable_ids().into_iter().filter_map(own).collect();
        let mut targets = Vec::with_capacity(pairs.len());
        for &(id, stable_id) in pairs {
            let entity = *found.entry(stable_id).or_insert_with(|| {
                let live = world.resource::<StableIds>().get(StableId::from_bits(stable_id));
                live.unwrap_or_else(|| ids.refer(stable_id))
            });
            targets.push((id, entity.into()));
        }
        self.map = EntityMap::from_pairs(targets.into_iter())?;
        Ok(())
    }

    /// The entities of the world that references to the outside lead to.
    pub(super) fn targets(&self) -> impl Iterator<Item = Entity> + '_ {
        self.map.iter().filter(|(_, entity)| !entity.is_null()).map(|(_, entity)| entity.into())
    }
}
