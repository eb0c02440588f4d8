//! Ids: those of the rows of a world, and how a world gives out the next ones.
//!
//! hecs keeps free ids in a list that can be read and written. Entities get chosen ids by making exactly these the free
//! ones, spawning, and putting the list right afterwards: each step costs the same per entity, whatever ids and holes
//! there are. (`spawn_column_batch_at` searches the list once per entity.)

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bonfire::{EntityId, Error, Result, Snapshot};
use hecs::{ColumnBatch, ColumnBatchType, Entity, World};

use crate::selection::ChosenArchetype;
use crate::stable_id::{StableId, StandIn};

/// The entity in a row of an archetype of this world.
#[inline]
#[expect(unsafe_code, reason = "a row has its id without the generation: `hecs_capture_*`")]
fn entity(world: &World, id: u32) -> Entity {
    // SAFETY: the id comes from a row of an archetype, so that it is allocated.
    unsafe { world.find_entity_from_id(id) }
}

impl ChosenArchetype<'_> {
    /// The id of a chosen row.
    #[inline]
    pub(crate) fn id(&self, world: &World, row: usize) -> EntityId {
        entity(world, self.archetype.ids()[self.row(row)]).into()
    }

    /// The entities of the chosen rows from one on, in their order.
    fn entities_from<'a>(&'a self, world: &'a World, row: usize) -> impl Iterator<Item = Entity> + 'a {
        (row..self.len()).map(|row| entity(world, self.archetype.ids()[self.row(row)]))
    }

    /// The entities of the chosen rows, in their order.
    pub(crate) fn entities<'a>(&'a self, world: &'a World) -> impl Iterator<Item = Entity> + 'a {
        self.entities_from(world, 0)
    }

    /// Writes the ids of chosen rows, one range after the other.
    pub(crate) fn fill_ids<'a>(&'a self, world: &'a World) -> impl FnMut(Range<usize>, &mut [EntityId]) + 'a {
        let (mut batch, mut next) = (self.batch.take(), 0);
        move |rows, ids| {
            if next != rows.start {
                batch = None;
            }
            next = rows.end;
            let ids = ids.iter_mut();
            match &mut batch {
                Some(batch) => ids.zip(batch.by_ref()).for_each(|(to, entity)| *to = entity.into()),
                None => {
                    let entities = self.entities_from(world, rows.start);
                    ids.zip(entities).for_each(|(to, entity)| *to = entity.into());
                }
            }
        }
    }

    /// How many of `ids`, from the first on, are those of the rows from `row` on.
    pub(crate) fn matching(&self, world: &World, row: usize, ids: &[EntityId]) -> usize {
        let same = |(entity, id): &(Entity, &EntityId)| EntityId::from(*entity) == **id;
        match self.batch.take() {
            Some(batch) if row == 0 => batch.zip(ids).take_while(same).count(),
            _ => self.entities_from(world, row).zip(ids).take_while(same).count(),
        }
    }
}

/// How many ids the world has given out so far, whether they are in use or not.
pub(crate) fn slot_count(world: &World) -> u32 {
    world.len() + world.freelist().len() as u32
}

/// What the id of an entity becomes when it is despawned.
fn despawned(entity: Entity) -> Entity {
    let id = EntityId::from(entity);
    let generation = id.generation().wrapping_add(1).max(1);
    EntityId::new(id.index(), generation).into()
}

/// A generation that no entity has had.
const UNUSED_GENERATION: u32 = 1 << 31;

/// Empties a world. If a value panics when it is dropped, hecs stops half-way: then until nothing is left.
fn clear(world: &mut World) -> std::thread::Result<()> {
    let first = catch_unwind(AssertUnwindSafe(|| world.clear()));
    if first.is_err() {
        while catch_unwind(AssertUnwindSafe(|| world.clear())).is_err() {}
    }
    first
}

/// The ids of a batch, compared with the free list of its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdOrder {
    /// They are the next ones of the list.
    Next,
    /// They are any of the list.
    Chosen,
}

/// The error about a saved entity whose slot another one has that stays.
fn in_the_way(saved: EntityId, entity: Entity) -> Error {
    Error::misuse(format!(
        "entity {saved} of the save cannot keep its id: entity {} has its slot and is not part of saves. Despawn that one, or \
         load with `LoadMode::Replace`",
        EntityId::from(entity)
    ))
}

/// Entities that a load leaves where they are, and what the world knows of all slots. The default is those of a world that is
/// cleared.
#[derive(Default)]
pub(crate) struct StayingEntities {
    /// By slot.
    entities: HashMap<u32, Entity>,
    /// By slot, the generation that the next entity there would have. Empty if no entity stays.
    generations: Vec<u32>,
    /// How many slots the world has: a table of slots does not become shorter.
    slots: u32,
}

impl StayingEntities {
    /// No entities, of a world that is not cleared.
    pub(crate) fn none(world: &World) -> Self {
        Self { slots: slot_count(world), ..Self::default() }
    }

    /// All entities of a world but those that are despawned and those that are loaded.
    pub(crate) fn of(world: &World, despawning: &[Entity], loaded: &HashSet<Entity>) -> Self {
        let going: HashSet<Entity> = despawning.iter().copied().collect();
        let all = world.iter().map(|entity| entity.entity());
        let staying = all.filter(|&entity| !going.contains(&entity) && !loaded.contains(&entity));
        let entities: HashMap<u32, Entity> = staying.map(|entity| (entity.id(), entity)).collect();
        if entities.is_empty() {
            return Self::none(world);
        }
        let slots = slot_count(world);
        let mut generations = vec![0; slots as usize];
        let free = world.freelist().chain(going.into_iter().map(despawned));
        free.for_each(|free| generations[free.id() as usize] = EntityId::from(free).generation());
        Self { entities, generations, slots }
    }

    /// Returns the entity in the slot of an id.
    pub(crate) fn at(&self, id: EntityId) -> Option<Entity> {
        self.entities.get(&id.index()).copied()
    }

    /// Returns an id that is free, with the generation that the world has for its slot if that is later.
    fn later(&self, id: EntityId) -> EntityId {
        let known = self.generations.get(id.index() as usize).copied().unwrap_or(0);
        EntityId::new(id.index(), id.generation().max(known))
    }
}

/// The ids that a world will give out next.
pub(crate) struct FreeIds {
    /// The next one last.
    list: Vec<Entity>,
    /// The first that was never given out.
    fresh: u32,
    /// The world's own list is another one while this is at work.
    borrowed: bool,
}

impl FreeIds {
    /// Those of a world whose entities are flushed, after these entities will have been despawned.
    pub(crate) fn of(world: &World, despawning: &[Entity]) -> Self {
        let mut list: Vec<Entity> = world.freelist().collect();
        list.extend(despawning.iter().map(|&entity| despawned(entity)));
        Self { list, fresh: slot_count(world), borrowed: false }
    }

    /// Those that a save says the world had, beside entities that stay. Every slot that has neither is listed, too.
    ///
    /// Entities that stay may have handles to others that are dead. For their sake a free slot has the later one of the two
    /// generations that the save and the world know.
    ///
    /// `held` are ids that stand-ins get. None of them has the slot of another entity.
    pub(crate) fn saved(
        snapshot: &Snapshot,
        saved: &[EntityId],
        held: &[EntityId],
        staying: &StayingEntities,
    ) -> Result<Self> {
        let listed = snapshot.free_list()?;
        let next = u32::try_from(snapshot.prelude().next_entity_id).unwrap_or(u32::MAX);
        let count = |ids: &[EntityId]| ids.iter().map(|id| u64::from(id.index()) + 1).max().unwrap_or(0);
        let own_slots = u64::from(next).max(count(saved)).max(count(held)).max(count(&listed));
        // Every id of a world of hecs is in use or free, so there cannot be many more of them.
        let slots_max = (saved.len() as u64 + held.len() as u64 + listed.len() as u64) * 4 + (64 << 10);
        if own_slots > slots_max {
            return Err(Error::limit(format!(
                "{} entities have ids up to {own_slots}, which they cannot keep: load with `LoadMode::Replace`",
                saved.len()
            )));
        }
        let slots = own_slots.max(u64::from(staying.slots));
        let mut known = vec![false; slots as usize];
        staying.entities.keys().for_each(|&slot| known[slot as usize] = true);
        let mut take = |id: EntityId| {
            if id.generation() == 0 {
                return Err(Error::misuse(format!(
                    "entity {id} cannot keep its id: generations of hecs begin with 1, so this is the save of another engine. Load with \
                     `LoadMode::Replace`"
                )));
            }
            Ok(std::mem::replace(&mut known[id.index() as usize], true))
        };
        let twice = |id: EntityId| Error::corrupt(format!("id {} is there twice", id.index()));
        for &id in saved {
            if take(id)? {
                return Err(staying.at(id).map_or_else(|| twice(id), |entity| in_the_way(id, entity)));
            }
        }
        let is_held: HashSet<u32> = held.iter().map(|id| id.index()).collect();
        for &id in held {
            take(id)?;
        }
        let mut free = Vec::with_capacity(listed.len());
        for id in listed {
            match take(id)? {
                false => free.push(staying.later(id)),
                true if staying.at(id).is_some() || is_held.contains(&id.index()) => {}
                true => return Err(twice(id)),
            }
        }
        // First slots that only this world has, as if they were new. Then ids that were reserved when the world was saved, or that
        // another writer did not list: they come after the others, with a generation that no handle has.
        let own_slots = own_slots as u32;
        let unknown = |slots: Range<u32>, generation: u32| {
            let slots = slots.rev().filter(|&slot| !known[slot as usize]);
            slots.map(move |slot| Entity::from(staying.later(EntityId::new(slot, generation))))
        };
        let mut list: Vec<Entity> = unknown(own_slots..slots as u32, 1).collect();
        list.extend(unknown(0..own_slots, UNUSED_GENERATION));
        list.extend(free.into_iter().map(Entity::from));
        Ok(Self { list, fresh: slots as u32, borrowed: true })
    }

    /// Gives a world all these slots and no entities but those that stay. One archetype after the other would let the table of
    /// slots grow several times, each time into memory twice as large.
    pub(crate) fn make_slots(&self, world: &mut World, replaced: &[Entity]) {
        if replaced.len() == world.len() as usize {
            clear(world).unwrap_or_else(|panic| resume_unwind(panic));
        } else {
            replaced.iter().for_each(|&entity| _ = world.despawn(entity));
        }
        if let Some(last) = self.fresh.checked_sub(1).filter(|&last| last >= slot_count(world)) {
            world.set_freelist(&[EntityId::new(last, 1).into()]);
        }
    }

    /// Despawns all entities of a world at once: the same as one by one, and its memory is kept.
    pub(crate) fn reset(world: &mut World, despawning: &[Entity]) {
        let list = Self::of(world, despawning).list;
        let cleared = clear(world);
        world.set_freelist(&list);
        cleared.unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Takes ids for a batch, in the order in which hecs gives them to its rows.
    pub(crate) fn take(&mut self, count: usize, out: &mut Vec<EntityId>) -> Result<()> {
        let listed = self.list.len().saturating_sub(count);
        let fresh = count - (self.list.len() - listed);
        let end = u32::try_from(fresh).ok().and_then(|fresh| self.fresh.checked_add(fresh));
        let end = end
            .filter(|&end| end < u32::MAX)
            .ok_or_else(|| Error::limit("more entities than hecs can have"))?;
        out.extend(self.list.drain(listed..).map(EntityId::from));
        out.extend((self.fresh..end).map(|slot| EntityId::new(slot, 1)));
        self.fresh = end;
        Ok(())
    }

    /// Spawns stand-ins with these ids.
    pub(crate) fn spawn_stand_ins(&mut self, world: &mut World, stand_ins: &[(Entity, StableId)]) {
        if stand_ins.is_empty() {
            return;
        }
        let mut types = ColumnBatchType::new();
        types.add::<StandIn>();
        let builder = types.into_batch(stand_ins.len() as u32);
        if let Some(mut writer) = builder.writer::<StandIn>() {
            // It was made for as many rows.
            stand_ins.iter().for_each(|&(_, id)| _ = writer.push(StandIn::new(id)));
        }
        let Ok(batch) = builder.build() else { unreachable!("all rows of a batch were written") };
        let ids: Vec<EntityId> = stand_ins.iter().map(|&(entity, _)| entity.into()).collect();
        self.spawn(world, batch, &ids, IdOrder::Chosen);
    }

    /// Spawns a batch with these ids.
    pub(crate) fn spawn(&mut self, world: &mut World, batch: ColumnBatch, ids: &[EntityId], order: IdOrder) {
        if order == IdOrder::Chosen || self.borrowed {
            world.set_freelist(&ids.iter().map(|&id| id.into()).collect::<Vec<Entity>>());
            self.borrowed = true;
        }
        let spawned = world.spawn_column_batch(batch);
        let in_order = || spawned.map(EntityId::from).eq(ids.iter().copied());
        debug_assert!(in_order(), "ids are given out in the order of the list");
    }

    /// Runs `work`, which spawns and despawns, and gives the world its list back, also if a value panics when it is dropped.
    /// `new` are the ids that were taken.
    pub(crate) fn scoped<T>(
        mut self,
        world: &mut World,
        new: &[EntityId],
        work: impl FnOnce(&mut World, &mut Self) -> T,
    ) -> T {
        let done = catch_unwind(AssertUnwindSafe(|| work(world, &mut self)));
        if done.is_err() {
            // Not all has come and gone that should have. Every slot is in use or free.
            let used: HashSet<u32> = world.iter().map(|entity| entity.entity().id()).collect();
            self.list.extend(new.iter().map(|&id| Entity::from(id)));
            self.list.retain(|free| !used.contains(&free.id()));
            self.borrowed = true;
        }
        if self.borrowed {
            world.set_freelist(&self.list);
        }
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// The free ids of a world for a save, the next one last. Those of entities that are not part of the save are free in the
/// world that is loaded from it, and come after all others.
pub(crate) fn free_list(world: &World, chosen: &[ChosenArchetype<'_>]) -> Vec<EntityId> {
    let saved: usize = chosen.iter().map(ChosenArchetype::len).sum();
    let mut list = Vec::new();
    if saved < world.len() as usize {
        let saved: HashSet<Entity> = chosen.iter().flat_map(|chosen| chosen.entities(world)).collect();
        let others = world.iter().map(|entity| entity.entity()).filter(|entity| !saved.contains(entity));
        list.extend(others.map(|entity| EntityId::from(despawned(entity))));
    }
    list.extend(world.freelist().map(EntityId::from));
    list
}
