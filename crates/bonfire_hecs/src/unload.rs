//! Entities that leave the world and may come back: they become stand-ins, so that references to them last.

use std::collections::HashSet;

use bonfire::{EntityId, Result};
use hecs::{DynamicBundle, Entity, World};

use crate::capture::for_each_reference;
use crate::free_ids::FreeIds;
use crate::registration::Bonfire;
use crate::stable_id::{StableId, StandIn};

impl Bonfire {
    /// Removes entities that may come back, such as those of a chunk, after they were saved. Each entity with a [`StableId`] becomes
    /// a [`StandIn`]: references to it last, and lead to it again when it is loaded. Entities without a [`StableId`] are
    /// despawned.
    pub fn unload(&mut self, world: &mut World, entities: impl IntoIterator<Item = Entity>) {
        world.flush();
        let mut taken: HashSet<u64> = StandIn::all(world).into_keys().collect();
        let (mut seen, mut gone, mut standing) = (HashSet::new(), Vec::new(), Vec::new());
        for entity in entities {
            let Ok(found) = world.entity(entity) else { continue };
            let id = found.get::<&StableId>().map(|id| *id);
            if found.has::<StandIn>() && id.is_none() || !seen.insert(entity) {
                continue;
            }
            if let Some(id) = id {
                self.stable_ids.remove(id, entity);
            }
            match id.filter(|id| taken.insert(id.to_bits())) {
                Some(id) => standing.push((entity, id)),
                None => gone.push(entity),
            }
        }
        let ids: Vec<EntityId> = standing.iter().map(|(entity, _)| (*entity).into()).collect();
        FreeIds::of(world, &gone).scoped(world, &ids, |world, free| {
            gone.iter().for_each(|&entity| _ = world.despawn(entity));
            standing.iter().for_each(|&(entity, _)| _ = world.despawn(entity));
            free.spawn_stand_ins(world, &standing);
        });
    }

    /// Spawns an entity with a stable id where references to it lead: it takes over the [`StandIn`], if there is one. A plain
    /// `spawn` leaves these references at the stand-in until what refers to it is saved and loaded again. The index knows the id at
    /// once.
    pub fn spawn_stable(
        &mut self,
        world: &mut World,
        id: StableId,
        components: impl DynamicBundle,
    ) -> Entity {
        let entity = match StandIn::all(world).get(&id.to_bits()) {
            None => world.spawn(components),
            Some(&entity) => {
                let _ = world.remove_one::<StandIn>(entity);
                let _ = world.insert(entity, components);
                entity
            }
        };
        let _ = world.insert_one(entity, id);
        self.stable_ids.insert(id, None, entity);
        entity
    }

    /// Despawns the stand-ins to which no registered component refers, and returns their number. It looks at all values that can
    /// refer to entities, so call it now and then, not in every frame. Without it, stand-ins stay.
    pub fn sweep_stand_ins(&mut self, world: &mut World) -> Result<usize> {
        world.flush();
        let mut unused: HashSet<Entity> = StandIn::all(world).into_values().collect();
        if unused.is_empty() {
            return Ok(0);
        }
        for_each_reference(self, world, |target| _ = unused.remove(&target))?;
        let mut unused: Vec<Entity> = unused.into_iter().collect();
        // The order decides about the next ids.
        unused.sort_unstable();
        unused.iter().for_each(|&entity| _ = world.despawn(entity));
        Ok(unused.len())
    }
}
