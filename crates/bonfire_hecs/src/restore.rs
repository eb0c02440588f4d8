//! A running world back to what it was. Values of entities that are still there are overwritten where they lie; only
//! the difference in structure is made good.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use bonfire::engine::{LiveWorld, LoadPlan};
use bonfire::{EntityId, Result};
use hecs::{Entity, World};

use crate::load::Committed;
use crate::place::{self, Layout, Live, Placed, Rows};
use crate::registry::{Bonfire, Saved};
use crate::selection::{Choice, Chooser, Chosen, Selection, archetypes};
use crate::slots::FreeIds;

pub(crate) fn restore<'s>(
    bonfire: &Bonfire,
    world: &mut World,
    plan: &LoadPlan<'s, '_>,
    selection: &Selection,
) -> Result<Committed<'s>> {
    let mut all = world.query();
    // A file does not know which world it is of.
    let own = plan.snapshot().world().map(|number| number == bonfire.world);
    let groups = archetypes(bonfire, world, &mut all).collect();
    let living = Living::new(bonfire, world, groups, selection, own)?;
    let found = plan.compare(&living)?;
    let extra: Vec<Entity> =
        found.extra.iter().filter_map(|&(group, row)| living.extra(group, row)).collect();
    let mut free = FreeIds::of(world, &extra);
    let mut new = Vec::with_capacity(found.missing.len());
    let mut layouts: Vec<Layout> = vec![Vec::new(); plan.snapshot().archetypes().len()];
    for run in &found.runs {
        let rows = Rows::Kept { archetype: run.group, row: run.row };
        layouts[run.archetype].push((run.saved_row..run.saved_row + run.len, rows));
    }
    for missing in found.missing.chunk_by(|a, b| a.0 == b.0) {
        free.take(missing.len(), &mut new)?;
        layouts[missing[0].0].extend(missing.iter().map(|&(_, row)| (row..row + 1, Rows::New)));
    }
    layouts.iter_mut().for_each(|layout| layout.sort_by_key(|(rows, _)| rows.start));
    let map = found.entity_map(&new)?;
    let going: HashSet<Entity> = extra.iter().copied().collect();
    let same_world = living.own == Some(true);
    let alive = |id: EntityId| same_world && world.contains(id.into()) && !going.contains(&id.into());
    let mut staged = plan.stage_over(&map, Some(world), &alive)?;
    let respawned: Vec<(EntityId, Entity)> =
        found.missing_ids().iter().copied().zip(new.iter().map(|&id| Entity::from(id))).collect();

    // From here on nothing fails.
    let live = living.archetypes();
    let mut placed: Vec<(Placed, usize)> = Vec::new();
    let mut unmarked: Vec<EntityId> = Vec::new();
    for (archetype, layout) in std::mem::take(&mut staged.archetypes).into_iter().zip(&layouts) {
        let ids = &archetype.ids;
        if bonfire.needs_mark(&archetype.columns) {
            unmarked.extend(ids.iter().filter_map(|&id| map.get(id)));
        }
        let done = place::place(bonfire, &live, archetype.columns, layout, |row| ids[row].into());
        let count = layout.iter().filter(|(_, to)| matches!(to, Rows::New)).count();
        placed.push((done, count));
    }
    drop((live, living));
    drop(all);
    free.working(world, &new, |world, free| {
        extra.iter().for_each(|&entity| _ = world.despawn(entity));
        let mut rest = &*new;
        for (mut placed, count) in placed {
            let (ids, others) = rest.split_at(count);
            rest = others;
            placed.spawn(world, free, ids);
            for (entity, number) in placed.removed {
                (bonfire.entries[number].remove)(world, entity);
            }
            for (entity, mut components) in placed.inserted {
                let _ = world.insert(entity, components.build());
            }
        }
    });
    for id in unmarked {
        let _ = world.insert_one(id.into(), Saved);
    }
    Ok(Committed { map, respawned, rest: staged })
}

/// A world by its archetypes.
struct Living<'w> {
    world: &'w World,
    /// Whether ids of the snapshot are ids of this world.
    own: Option<bool>,
    groups: Vec<Chosen<'w>>,
    /// What a save would have of each.
    choices: Vec<Choice>,
    /// Groups by their first entity: mostly that is all that is asked for.
    firsts: HashMap<EntityId, usize>,
    /// By slot, group and row. hecs does not tell where an entity is.
    places: OnceCell<Vec<Option<(u32, u32)>>>,
}

impl<'w> Living<'w> {
    fn new(
        bonfire: &Bonfire,
        world: &'w World,
        groups: Vec<Chosen<'w>>,
        selection: &Selection,
        own: Option<bool>,
    ) -> Result<Self> {
        let chooser = Chooser::new(bonfire, selection, &[])?;
        let choices = groups.iter().map(|group| chooser.choose(group)).collect::<Result<_>>()?;
        let firsts = groups.iter().zip(0..).map(|(group, number)| (group.id(world, 0), number)).collect();
        Ok(Self { world, own, groups, choices, firsts, places: OnceCell::new() })
    }

    fn archetypes(&self) -> Live<'w> {
        Live {
            archetypes: self.groups.iter().map(|group| group.archetype).collect(),
            numbers: self.groups.iter().map(|group| group.numbers.clone()).collect(),
        }
    }

    /// An entity that is not in the save, if a save would have it.
    fn extra(&self, group: usize, row: usize) -> Option<Entity> {
        let saved = match &self.choices[group] {
            Choice::Nothing => false,
            Choice::All => true,
            Choice::Some(rows) => rows.binary_search(&(row as u32)).is_ok(),
        };
        saved.then(|| self.groups[group].id(self.world, row).into())
    }

    fn places(&self) -> &[Option<(u32, u32)>] {
        self.places.get_or_init(|| {
            let ids = self.groups.iter().flat_map(|group| group.archetype.ids());
            let mut places = vec![None; ids.max().map_or(0, |&max| max as usize + 1)];
            for (group, number) in self.groups.iter().zip(0..) {
                for (&id, row) in group.archetype.ids().iter().zip(0..) {
                    places[id as usize] = Some((number, row));
                }
            }
            places
        })
    }
}

impl LiveWorld for Living<'_> {
    fn groups(&self) -> usize {
        self.groups.len()
    }
    fn rows(&self, group: usize) -> usize {
        self.groups[group].len()
    }
    fn is_saved(&self, group: usize) -> bool {
        !matches!(self.choices[group], Choice::Nothing)
    }
    fn find(&self, id: EntityId) -> Option<(usize, usize)> {
        if self.own == Some(false) {
            return None;
        }
        let place = match self.firsts.get(&id) {
            Some(&group) => (group, 0),
            None => {
                let (group, row) = (*self.places().get(id.index() as usize)?)?;
                let place = (group as usize, row as usize);
                (self.groups[place.0].id(self.world, place.1) == id).then_some(place)?
            }
        };
        // If it may be another session's, only what is part of saves can be meant.
        (self.own == Some(true) || self.extra(place.0, place.1).is_some()).then_some(place)
    }
    fn matching(&self, group: usize, row: usize, ids: &[EntityId]) -> usize {
        self.groups[group].matching(self.world, row, ids)
    }
}
