//! Entities outside of a save: what references to them become, and the stand-ins whose ids entities of the save take.

use std::collections::{HashMap, HashSet};

use bonfire::engine::{EntityMap, LoadPlan};
use bonfire::{EntityId, Result};
use hecs::{Entity, World};

use crate::free_ids::{FreeIds, StayingEntities};
use crate::registration::Bonfire;
use crate::stable_id::{StableId, StandIn};

/// The stand-ins of a world, and those that entities of a load take over.
pub(crate) struct Places {
    /// By the bits of the stable id, those that stay.
    staying: HashMap<u64, Entity>,
    /// By the number of the entity in the load.
    taken: HashMap<usize, Entity>,
}

impl Places {
    /// No stand-ins: those of the world go with everything else.
    pub(crate) fn none() -> Self {
        Self { staying: HashMap::new(), taken: HashMap::new() }
    }

    /// The places for the entities of a load. `number` gives the number of a saved entity that is new.
    pub(crate) fn of(
        world: &World,
        plan: &LoadPlan<'_, '_>,
        number: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        let mut places = Self { staying: StandIn::all(world), taken: HashMap::new() };
        if places.staying.is_empty() {
            return places;
        }
        for (saved, stable_id) in plan.stable_ids() {
            if let Some(number) = number(saved)
                && let Some(entity) = places.staying.remove(&stable_id)
            {
                places.taken.insert(number, entity);
            }
        }
        places
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.taken.is_empty()
    }

    /// Takes ids for consecutive entities of a load: those of stand-ins, or else the next ones.
    pub(crate) fn take_ids(
        &self,
        free: &mut FreeIds,
        first: usize,
        count: usize,
        out: &mut Vec<EntityId>,
    ) -> Result<()> {
        let taken = |number: &usize| self.taken.contains_key(number);
        let taken_count =
            if self.taken.is_empty() { 0 } else { (first..first + count).filter(taken).count() };
        if taken_count == 0 {
            return free.take(count, out);
        }
        let mut own = Vec::with_capacity(count - taken_count);
        free.take(count - taken_count, &mut own)?;
        let mut own = own.into_iter();
        let id = |number: usize| self.taken.get(&number).map(|&entity| entity.into()).or_else(|| own.next());
        out.extend((first..first + count).filter_map(id));
        Ok(())
    }

    /// Despawns the stand-ins that are taken over.
    pub(crate) fn clear(&self, world: &mut World) {
        self.taken.values().for_each(|&entity| _ = world.despawn(entity));
    }
}

/// Entities outside of a save that are looked for.
#[derive(Default)]
pub(crate) struct OutsideSearch {
    /// Their saved ids and their stable ids.
    saved: Vec<(EntityId, u64)>,
    /// By stable id, the numbers of saved entities.
    own: HashMap<u64, usize>,
    found: HashMap<u64, Entity>,
    /// Entities that the load removes and the save refers to: they become stand-ins.
    standing: Vec<(Entity, StableId)>,
    /// Those that are not in the world, each once: they get stand-ins.
    missing: Vec<(EntityId, StableId)>,
}

/// The entities outside of a save: their places in the world, and the stand-ins that come.
#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) map: EntityMap,
    standing: Vec<(Entity, StableId)>,
    new: Vec<(Entity, StableId)>,
}

impl OutsideSearch {
    /// Looks for the entities outside. Entities that are `going` become stand-ins if they keep their ids, or else are not found.
    pub(crate) fn new(
        bonfire: &Bonfire,
        plan: &LoadPlan<'_, '_>,
        places: &Places,
        going: &[Entity],
        keeps_ids: bool,
    ) -> Result<Self> {
        let Some(saved) = plan.outside()?.filter(|saved| !saved.is_empty()) else {
            return Ok(Self::default());
        };
        let going: HashSet<Entity> = going.iter().copied().collect();
        let own = plan.stable_ids().into_iter().map(|(number, id)| (id, number)).collect();
        let mut search = Self { own, ..Self::default() };
        for &(saved, stable_id) in &saved {
            if search.own.contains_key(&stable_id) || search.found.contains_key(&stable_id) {
                continue;
            }
            let id = StableId::from_bits(stable_id);
            let live = bonfire.stable_ids.get(id).filter(|entity| keeps_ids || !going.contains(entity));
            search.standing.extend(live.filter(|entity| going.contains(entity)).map(|entity| (entity, id)));
            let entity = live.or_else(|| places.staying.get(&stable_id).copied());
            if entity.is_none() {
                search.missing.push((saved, id));
            }
            // A stand-in that comes has its id later.
            search.found.insert(stable_id, entity.unwrap_or(Entity::DANGLING));
        }
        search.saved = saved;
        Ok(search)
    }

    /// Leaves out the entities that become stand-ins.
    pub(crate) fn without_standing(&self, mut going: Vec<Entity>) -> Vec<Entity> {
        if !self.standing.is_empty() {
            let standing: HashSet<Entity> = self.standing.iter().map(|(entity, _)| *entity).collect();
            going.retain(|entity| !standing.contains(entity));
        }
        going
    }

    /// The number of stand-ins that need ids.
    pub(crate) fn missing(&self) -> usize {
        self.missing.len()
    }

    /// The saved ids of entities that get stand-ins, as far as these can have them, too.
    pub(crate) fn ids_to_keep(&self, saved: &[EntityId], staying: &StayingEntities) -> Vec<Option<EntityId>> {
        if self.missing.is_empty() {
            return Vec::new();
        }
        let mut slots: HashSet<u32> = saved.iter().map(|id| id.index()).collect();
        let keeps = |id: EntityId| id.generation() != 0 && staying.at(id).is_none();
        let missing = self.missing.iter();
        missing.map(|&(id, _)| Some(id).filter(|&id| keeps(id) && slots.insert(id.index()))).collect()
    }

    /// Gives ids to the stand-ins. `map` is what the saved entities become.
    pub(crate) fn assign(
        self,
        plan: &LoadPlan<'_, '_>,
        map: &EntityMap,
        ids: &[EntityId],
    ) -> Result<Outside> {
        let Self { saved, own, mut found, standing, missing } = self;
        if saved.is_empty() {
            return Ok(Outside::default());
        }
        let new: Vec<(Entity, StableId)> =
            missing.into_iter().zip(ids).map(|((_, id), &entity)| (entity.into(), id)).collect();
        found.extend(new.iter().map(|&(entity, id)| (id.to_bits(), entity)));
        let entities = plan.entities();
        let target = |id: u64| match own.get(&id) {
            Some(&number) => map.get(entities[number]),
            None => found.get(&id).map(|&entity| entity.into()),
        };
        let pairs: Vec<(EntityId, EntityId)> =
            saved.into_iter().filter_map(|(saved, id)| Some((saved, target(id)?))).collect();
        Ok(Outside { map: EntityMap::from_pairs(pairs.into_iter())?, standing, new })
    }
}

impl Outside {
    /// The ids of all stand-ins that the load spawns.
    pub(crate) fn ids(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.standing.iter().chain(&self.new).map(|(entity, _)| (*entity).into())
    }

    /// Spawns the stand-ins, in the place of the entities themselves if these are there.
    pub(crate) fn spawn(&self, world: &mut World, free: &mut FreeIds) {
        self.standing.iter().for_each(|&(entity, _)| _ = world.despawn(entity));
        free.spawn_stand_ins(world, &self.standing);
        free.spawn_stand_ins(world, &self.new);
    }
}
