//! A running world back to what it was. Values of entities that are still there are overwritten where they lie; only
//! the difference in structure is made good.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use bonfire::engine::{Comparison, LiveWorld, LoadPlan};
use bonfire::{EntityId, Result};
use hecs::{Entity, World};

use super::outside::{OutsideSearch, Places};
use super::staged_rows::{LiveArchetypes, RowTarget, RowTargets, StructuralChanges, move_archetype};
use super::{CommittedLoad, RespawnedIds, mark};
use crate::free_ids::{FreeIds, IdOrder, StayingEntities};
use crate::registration::Bonfire;
use crate::registry::ComponentRegistry;
use crate::selection::{ArchetypeChoice, Chooser, ChosenArchetype, Exclusions, Selection, archetypes};
use crate::stable_id::StandIn;

pub(crate) fn restore<'s>(
    bonfire: &Bonfire,
    world: &mut World,
    plan: LoadPlan<'s, '_>,
    selection: &Selection,
    ids: RespawnedIds,
) -> Result<CommittedLoad<'s>> {
    let registry = &bonfire.registry;
    let mut all = world.query();
    // A file does not know which world it is of.
    let own = plan.snapshot().world().map(|number| number == bonfire.world);
    let groups = archetypes(registry, world, &mut all).collect();
    let index = LiveWorldIndex::new(registry, world, groups, selection, own)?;
    let found = plan.compare(&index)?;
    let extra: Vec<Entity> = found.extra.iter().filter_map(|&(group, row)| index.extra(group, row)).collect();
    let missing: HashMap<EntityId, usize> = found.missing_ids().iter().copied().zip(0..).collect();
    let places = match ids {
        RespawnedIds::New => {
            // Most worlds have no stand-ins, and then nobody asks.
            let saved = std::cell::LazyCell::new(|| plan.entities());
            Places::of(world, &plan, |number| missing.get(&saved[number]).copied())
        }
        RespawnedIds::Same => Places::of(world, &plan, |_| None),
    };
    let search = OutsideSearch::new(bonfire, &plan, &places, &extra, true)?;
    let extra = search.without_standing(extra);
    let NewIds { mut free, new } = match ids {
        RespawnedIds::New => NewIds::next(world, &found, &extra, &places)?,
        RespawnedIds::Same => NewIds::same(world, &plan, &found, &extra, || index.kept(&found))?,
    };
    let mut stand_in_ids = Vec::with_capacity(search.missing());
    free.take(search.missing(), &mut stand_in_ids)?;
    let targets = row_targets(&found, plan.snapshot().archetypes().len());
    let map = found.entity_map(&new)?;
    let outside = search.assign(&plan, &map, &stand_in_ids)?;
    let restored = index.stand_ins(&found);
    let going: HashSet<Entity> = extra.iter().copied().collect();
    let same_world = index.own == Some(true);
    let alive = |id: EntityId| same_world && world.contains(id.into()) && !going.contains(&id.into());
    let plan = plan.with_outside(outside.map.clone());
    let mut staged = plan.stage_over(&map, Some(world), &alive)?;
    let respawned: Vec<(EntityId, Entity)> =
        found.missing_ids().iter().copied().zip(new.iter().map(|&id| Entity::from(id))).collect();

    // From here on nothing fails.
    let live = index.archetypes();
    let mut changes: Vec<(StructuralChanges, usize)> = Vec::new();
    let mut unmarked: Vec<EntityId> = Vec::new();
    for (archetype, targets) in std::mem::take(&mut staged.archetypes).into_iter().zip(&targets) {
        let ids = &archetype.ids;
        if registry.needs_mark(&archetype.columns) {
            unmarked.extend(ids.iter().filter_map(|&id| map.get(id)));
        }
        let left = move_archetype(registry, &live, archetype.columns, targets, |row| ids[row].into());
        let count = targets.iter().filter(|(_, to)| matches!(to, RowTarget::New)).count();
        changes.push((left, count));
    }
    drop((live, index));
    drop(all);
    let order = if places.is_untouched() { IdOrder::Next } else { IdOrder::Chosen };
    let all_new: Vec<EntityId> = new.iter().copied().chain(outside.ids()).collect();
    free.scoped(world, &all_new, |world, free| {
        extra.iter().for_each(|&entity| _ = world.despawn(entity));
        places.clear(world);
        let mut rest = &*new;
        for (mut changes, count) in changes {
            let (ids, others) = rest.split_at(count);
            rest = others;
            changes.spawn(world, free, ids, order);
            for (entity, number) in changes.removed {
                (registry.entries[number].remove)(world, entity);
            }
            for (entity, mut components) in changes.inserted {
                let _ = world.insert(entity, components.build());
            }
        }
        outside.spawn(world, free);
    });
    // They were the saved entities themselves when the snapshot was made.
    restored.into_iter().for_each(|entity| _ = world.remove_one::<StandIn>(entity));
    mark(world, unmarked);
    Ok(CommittedLoad { map, outside: outside.map, respawned, rest: staged })
}

/// The ids of entities that are gone, in the order of [`Comparison::missing`].
struct NewIds {
    /// The free ids of the world when they are taken.
    free: FreeIds,
    new: Vec<EntityId>,
}

impl NewIds {
    /// The next ids of the world, after entities are despawned.
    fn next(world: &World, found: &Comparison, extra: &[Entity], places: &Places) -> Result<Self> {
        let mut free = FreeIds::of(world, extra);
        let mut new = Vec::with_capacity(found.missing.len());
        for missing in found.missing.chunk_by(|a, b| a.0 == b.0) {
            places.take_ids(&mut free, new.len(), missing.len(), &mut new)?;
        }
        Ok(Self { free, new })
    }

    /// The ids that they had. One whose slot an entity has that stays gets the next id. `kept` returns the entities of the world
    /// that are in the save.
    fn same(
        world: &World,
        plan: &LoadPlan<'_, '_>,
        found: &Comparison,
        extra: &[Entity],
        kept: impl FnOnce() -> HashSet<Entity>,
    ) -> Result<Self> {
        let found_count: usize = found.runs.iter().map(|run| run.len).sum();
        let staying = match found_count + extra.len() == world.len() as usize {
            true => StayingEntities::none(world),
            false => StayingEntities::of(world, extra, &kept()),
        };
        let missing = found.missing_ids();
        let displaced: HashSet<EntityId> =
            missing.iter().copied().filter(|&id| staying.at(id).is_some()).collect();
        let mut saved = plan.entities();
        saved.retain(|id| !displaced.contains(id));
        let mut free = FreeIds::saved(plan.snapshot(), &saved, &[], &staying)?;
        let mut new = Vec::with_capacity(missing.len());
        for id in missing {
            match displaced.contains(id) {
                true => free.take(1, &mut new)?,
                false => new.push(*id),
            }
        }
        Ok(Self { free, new })
    }
}

/// The targets of all saved rows, by archetype.
fn row_targets(found: &Comparison, archetypes: usize) -> Vec<RowTargets> {
    let mut targets: Vec<RowTargets> = vec![Vec::new(); archetypes];
    for run in &found.runs {
        let target = RowTarget::Kept { archetype: run.group, row: run.row };
        targets[run.archetype].push((run.saved_row..run.saved_row + run.len, target));
    }
    for &(archetype, row) in &found.missing {
        targets[archetype].push((row..row + 1, RowTarget::New));
    }
    targets.iter_mut().for_each(|targets| targets.sort_by_key(|(rows, _)| rows.start));
    targets
}

/// A running world, for comparing it with a snapshot.
struct LiveWorldIndex<'w> {
    world: &'w World,
    /// Whether ids of the snapshot are ids of this world.
    own: Option<bool>,
    groups: Vec<ChosenArchetype<'w>>,
    /// What a save would have of each.
    choices: Vec<ArchetypeChoice>,
    /// Groups by their first entity: mostly that is all that is asked for.
    firsts: HashMap<EntityId, usize>,
    /// By slot, group and row: hecs does not tell where an entity is.
    rows_by_slot: OnceCell<Vec<Option<(u32, u32)>>>,
}

impl<'w> LiveWorldIndex<'w> {
    fn new(
        registry: &ComponentRegistry,
        world: &'w World,
        groups: Vec<ChosenArchetype<'w>>,
        selection: &Selection,
        own: Option<bool>,
    ) -> Result<Self> {
        let chooser = Chooser::new(registry, world, selection, Exclusions::default())?;
        let choices = groups.iter().map(|group| chooser.choose(group)).collect::<Result<_>>()?;
        let firsts = groups.iter().zip(0..).map(|(group, number)| (group.id(world, 0), number)).collect();
        Ok(Self { world, own, groups, choices, firsts, rows_by_slot: OnceCell::new() })
    }

    fn archetypes(&self) -> LiveArchetypes<'w> {
        LiveArchetypes {
            archetypes: self.groups.iter().map(|group| group.archetype).collect(),
            numbers: self.groups.iter().map(|group| group.numbers.clone()).collect(),
        }
    }

    /// An entity that is not in the save, if a save would have it.
    fn extra(&self, group: usize, row: usize) -> Option<Entity> {
        let saved = match &self.choices[group] {
            ArchetypeChoice::Nothing => false,
            ArchetypeChoice::All => true,
            ArchetypeChoice::Some(rows) => rows.binary_search(&(row as u32)).is_ok(),
        };
        saved.then(|| self.groups[group].id(self.world, row).into())
    }

    /// The entities of the world that were found.
    fn kept(&self, found: &Comparison) -> HashSet<Entity> {
        let rows = found.runs.iter().flat_map(|run| (run.row..run.row + run.len).map(|row| (run.group, row)));
        rows.map(|(group, row)| self.groups[group].id(self.world, row).into()).collect()
    }

    /// The stand-ins of the world that were found.
    fn stand_ins(&self, found: &Comparison) -> Vec<Entity> {
        let runs = found.runs.iter().filter(|run| StandIn::is_in(self.groups[run.group].archetype));
        let rows = runs.flat_map(|run| (run.row..run.row + run.len).map(|row| (run.group, row)));
        rows.map(|(group, row)| self.groups[group].id(self.world, row).into()).collect()
    }

    fn rows_by_slot(&self) -> &[Option<(u32, u32)>] {
        self.rows_by_slot.get_or_init(|| {
            let ids = self.groups.iter().flat_map(|group| group.archetype.ids());
            let mut rows_by_slot = vec![None; ids.max().map_or(0, |&max| max as usize + 1)];
            for (group, number) in self.groups.iter().zip(0..) {
                for (&id, row) in group.archetype.ids().iter().zip(0..) {
                    rows_by_slot[id as usize] = Some((number, row));
                }
            }
            rows_by_slot
        })
    }
}

impl LiveWorld for LiveWorldIndex<'_> {
    fn groups(&self) -> usize {
        self.groups.len()
    }
    fn rows(&self, group: usize) -> usize {
        self.groups[group].len()
    }
    fn is_saved(&self, group: usize) -> bool {
        !matches!(self.choices[group], ArchetypeChoice::Nothing)
    }
    fn find(&self, id: EntityId) -> Option<(usize, usize)> {
        if self.own == Some(false) {
            return None;
        }
        let row = match self.firsts.get(&id) {
            Some(&group) => (group, 0),
            None => {
                let (group, row) = (*self.rows_by_slot().get(id.index() as usize)?)?;
                let found = (group as usize, row as usize);
                (self.groups[found.0].id(self.world, found.1) == id).then_some(found)?
            }
        };
        // If it may be another session's, only what is part of saves can be meant.
        (self.own == Some(true) || self.extra(row.0, row.1).is_some()).then_some(row)
    }
    fn matching(&self, group: usize, row: usize, ids: &[EntityId]) -> usize {
        self.groups[group].matching(self.world, row, ids)
    }
}
