//! Which entities came, went and changed their components: by comparing lists of entities with remembered ones. Nothing is
//! added to the game's world for it, and the cost is one pass over the ids.

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::entity::Entity;

use crate::capture::ChosenArchetype;

const NOWHERE: u32 = u32::MAX;

/// The entities of a world at the last update.
#[derive(Default)]
pub(super) struct EntityTracker {
    /// By archetype.
    archetypes: Vec<ArchetypeEntities>,
    /// By index of the entity.
    records: Vec<EntityRecord>,
    /// Counts the updates.
    stamp: u32,
}

#[derive(Default, Clone)]
struct ArchetypeEntities {
    entities: Vec<Entity>,
    stamp: u32,
}

#[derive(Clone, Copy)]
struct EntityRecord {
    generation: u32,
    archetype: u32,
    stamp: u32,
}

/// Where an entity was before it entered its archetype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrigin {
    Spawned,
    Archetype(ArchetypeId),
}

/// The difference between two updates. Rows are in ascending order.
#[derive(Default)]
pub(super) struct EntityChanges {
    pub(super) despawned: Vec<Entity>,
    /// Per chosen archetype: rows whose entities were not in it before.
    pub(super) entered: Vec<Vec<(usize, RowOrigin)>>,
}

impl EntityTracker {
    /// A tracker that knows these entities.
    pub(super) fn of(chosen: &[ChosenArchetype<'_>]) -> Self {
        let mut tracker = Self::default();
        tracker.update(chosen);
        tracker
    }

    /// Compares entities with those of the last update, and remembers them.
    pub(super) fn update(&mut self, chosen: &[ChosenArchetype<'_>]) -> EntityChanges {
        self.stamp = self.stamp.wrapping_add(1);
        let mut gone: Vec<Entity> = Vec::new();
        // Rows with another entity than before.
        let mut others: Vec<Vec<usize>> = Vec::with_capacity(chosen.len());
        for chosen in chosen {
            let index = chosen.archetype.id().index();
            if self.archetypes.len() <= index {
                self.archetypes.resize_with(index + 1, ArchetypeEntities::default);
            }
            let known = &mut self.archetypes[index];
            known.stamp = self.stamp;
            others.push(compare(&mut known.entities, chosen.rows.entities(), &mut gone));
        }
        for known in self.archetypes.iter_mut().filter(|known| known.stamp != self.stamp) {
            gone.append(&mut known.entities);
        }
        let mut changes = EntityChanges::default();
        for (chosen, rows) in chosen.iter().zip(others) {
            let archetype = chosen.archetype.id();
            let entities = chosen.rows.entities();
            let enter = |row: usize| self.enter(entities[row], archetype).map(|origin| (row, origin));
            changes.entered.push(rows.into_iter().filter_map(enter).collect());
        }
        for entity in gone {
            let record = &mut self.records[entity.index_u32() as usize];
            let same = record.generation == entity.generation().to_bits();
            if same && record.stamp == self.stamp {
                continue;
            }
            changes.despawned.push(entity);
            if same {
                record.archetype = NOWHERE;
            }
        }
        changes
    }

    /// Returns true if an entity was among those of the last update.
    pub(super) fn contains(&self, entity: Entity) -> bool {
        self.records.get(entity.index_u32() as usize).is_some_and(|record| {
            record.generation == entity.generation().to_bits() && record.archetype != NOWHERE
        })
    }

    /// Records that an entity is in an archetype. Returns where it was, if that is another one.
    fn enter(&mut self, entity: Entity, archetype: ArchetypeId) -> Option<RowOrigin> {
        let (index, generation) = (entity.index_u32() as usize, entity.generation().to_bits());
        if self.records.len() <= index {
            let empty = EntityRecord { generation: 0, archetype: NOWHERE, stamp: 0 };
            self.records.resize(index + 1, empty);
        }
        let record = &mut self.records[index];
        let before = *record;
        let here = archetype.index() as u32;
        *record = EntityRecord { generation, archetype: here, stamp: self.stamp };
        match before.archetype {
            before_archetype if before.generation != generation || before_archetype == NOWHERE => {
                Some(RowOrigin::Spawned)
            }
            same if same == here => None,
            other => Some(RowOrigin::Archetype(ArchetypeId::new(other as usize))),
        }
    }
}

/// Returns the rows whose entity is another one than before. Entities that were there go to `gone`; `known` becomes `now`.
fn compare(known: &mut Vec<Entity>, now: &[Entity], gone: &mut Vec<Entity>) -> Vec<usize> {
    let mut others = Vec::new();
    let both = known.len().min(now.len());
    for start in (0..both).step_by(64) {
        let end = (start + 64).min(both);
        let (old, new) = (&mut known[start..end], &now[start..end]);
        if same(old, new) {
            continue;
        }
        for (row, (old, new)) in old.iter_mut().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
            gone.push(std::mem::replace(old, *new));
            others.push(start + row);
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
