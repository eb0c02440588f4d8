//! Which entities came, went and changed their components: by comparing lists of entities with remembered ones. Nothing is
//! added to the game's world for it, and the cost is one pass over the ids.

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::entity::Entity;

use crate::capture::Chosen;

const NOWHERE: u32 = u32::MAX;

/// The entities of a world as they were told last.
#[derive(Default)]
pub(super) struct Structure {
    /// By archetype.
    archetypes: Vec<Known>,
    /// By index of the entity.
    places: Vec<Place>,
    /// Counts the updates.
    stamp: u32,
}

#[derive(Default, Clone)]
struct Known {
    entities: Vec<Entity>,
    stamp: u32,
}

#[derive(Clone, Copy)]
struct Place {
    generation: u32,
    archetype: u32,
    stamp: u32,
}

/// An entity that was not in its archetype before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Spawned,
    From(ArchetypeId),
}

/// What has changed. Rows are told in ascending order.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) despawned: Vec<Entity>,
    /// Per chosen archetype: rows and where their entities were.
    pub(super) arrivals: Vec<Vec<(usize, Arrival)>>,
}

impl Structure {
    /// Takes a world's entities for known.
    pub(super) fn of(chosen: &[Chosen<'_>]) -> Self {
        let mut structure = Self::default();
        structure.update(chosen);
        structure
    }

    /// Compares with what was known, and takes what there is for known.
    pub(super) fn update(&mut self, chosen: &[Chosen<'_>]) -> Changes {
        self.stamp = self.stamp.wrapping_add(1);
        let mut gone: Vec<Entity> = Vec::new();
        // Rows with another entity than before.
        let mut others: Vec<Vec<usize>> = Vec::with_capacity(chosen.len());
        for chosen in chosen {
            let index = chosen.archetype.id().index();
            if self.archetypes.len() <= index {
                self.archetypes.resize_with(index + 1, Known::default);
            }
            let known = &mut self.archetypes[index];
            known.stamp = self.stamp;
            others.push(compare(&mut known.entities, chosen.rows.entities(), &mut gone));
        }
        for known in self.archetypes.iter_mut().filter(|known| known.stamp != self.stamp) {
            gone.append(&mut known.entities);
        }
        let mut changes = Changes::default();
        for (chosen, rows) in chosen.iter().zip(others) {
            let archetype = chosen.archetype.id();
            let entities = chosen.rows.entities();
            let arrival = |row: usize| self.arrive(entities[row], archetype).map(|arrival| (row, arrival));
            changes.arrivals.push(rows.into_iter().filter_map(arrival).collect());
        }
        for entity in gone {
            let place = &mut self.places[entity.index_u32() as usize];
            let same = place.generation == entity.generation().to_bits();
            if same && place.stamp == self.stamp {
                continue;
            }
            changes.despawned.push(entity);
            if same {
                place.archetype = NOWHERE;
            }
        }
        changes
    }

    fn arrive(&mut self, entity: Entity, archetype: ArchetypeId) -> Option<Arrival> {
        let (index, generation) = (entity.index_u32() as usize, entity.generation().to_bits());
        if self.places.len() <= index {
            let nobody = Place { generation: 0, archetype: NOWHERE, stamp: 0 };
            self.places.resize(index + 1, nobody);
        }
        let place = &mut self.places[index];
        let before = *place;
        let here = archetype.index() as u32;
        *place = Place { generation, archetype: here, stamp: self.stamp };
        match before.archetype {
            before_archetype if before.generation != generation || before_archetype == NOWHERE => {
                Some(Arrival::Spawned)
            }
            same if same == here => None,
            other => Some(Arrival::From(ArchetypeId::new(other as usize))),
        }
    }
}

/// The rows whose entity is another one than before. Who was there goes to `gone`, and what there is becomes known.
fn compare(known: &mut Vec<Entity>, now: &[Entity], gone: &mut Vec<Entity>) -> Vec<usize> {
    let mut others = Vec::new();
    let both = known.len().min(now.len());
    for start in (0..both).step_by(64) {
        let end = (start + 64).min(both);
        let (old, new) = (&mut known[start..end], &now[start..end]);
        if same(old, new) {
            continue;
        }
        for (place, (old, new)) in old.iter_mut().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
            gone.push(std::mem::replace(old, *new));
            others.push(start + place);
        }
    }
    gone.extend(known.drain(both..));
    others.extend(both..now.len());
    known.extend_from_slice(&now[both..]);
    others
}

/// Whether these are the same entities, at most 64.
fn same(a: &[Entity], b: &[Entity]) -> bool {
    let difference = |(a, b): (&Entity, &Entity)| a.to_bits() ^ b.to_bits();
    match (a.as_array::<64>(), b.as_array::<64>()) {
        (Some(a), Some(b)) => a.iter().zip(b).fold(0, |all, pair| all | difference(pair)) == 0,
        _ => a == b,
    }
}
