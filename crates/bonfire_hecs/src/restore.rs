//! A running world back to what it was. Values of entities that are still there are overwritten where they lie; only
//! the difference in structure is made good.

use std::cell::OnceCell;
use std::collections::HashMap;

use bonfire::{EntityId, LiveWorld, LoadPlan, Result};
use hecs::{Entity, World};

use crate::load::Committed;
use crate::place::{self, KeptRows, Layout, Live, Placed, Rows};
use crate::registry::Bonfire;
use crate::selection::{Chosen, Selection, choose};
use crate::slots::{self, FreeIds};

pub(crate) fn restore<'s>(
    bonfire: &Bonfire,
    world: &mut World,
    plan: &LoadPlan<'s, '_>,
    selection: &Selection,
) -> Result<Committed<'s>> {
    let living = Living::new(world, choose(bonfire, world, selection, &[])?);
    let found = plan.compare(&living)?;
    let extra: Vec<Entity> =
        found.extra.iter().map(|&(group, row)| living.entity(group, row).into()).collect();
    let mut free = FreeIds::of(world, &extra);
    let mut new = Vec::with_capacity(found.missing.len());
    let mut layouts: Vec<Layout> = vec![Vec::new(); plan.snapshot().archetypes().len()];
    for run in &found.runs {
        let chosen = &living.groups[run.group];
        let rows = match &chosen.rows {
            None => KeptRows::From(run.row),
            Some(rows) => KeptRows::Picked(rows[run.row..run.row + run.len].to_vec()),
        };
        let rows = Rows::Kept { archetype: run.group, rows };
        layouts[run.archetype].push((run.saved_row..run.saved_row + run.len, rows));
    }
    for missing in found.missing.chunk_by(|a, b| a.0 == b.0) {
        free.take(missing.len(), &mut new)?;
        layouts[missing[0].0].extend(missing.iter().map(|&(_, row)| (row..row + 1, Rows::New)));
    }
    for layout in &mut layouts {
        layout.sort_by_key(|(rows, _)| rows.start);
    }
    let map = found.entity_map(&new)?;
    let mut staged = plan.stage(&map, Some(world))?;
    let respawned: Vec<(EntityId, Entity)> =
        found.missing_ids().iter().copied().zip(new.iter().map(|&id| Entity::from(id))).collect();

    // From here on nothing fails.
    let live = Live {
        archetypes: living.groups.iter().map(|chosen| chosen.archetype).collect(),
        numbers: living.groups.iter().map(|chosen| chosen.numbers.clone()).collect(),
    };
    let new: Vec<Entity> = respawned.iter().map(|&(_, entity)| entity).collect();
    let mut placed: Vec<(Placed, usize)> = Vec::new();
    for (archetype, layout) in std::mem::take(&mut staged.archetypes).into_iter().zip(&layouts) {
        let ids = &archetype.ids;
        let done = place::place(bonfire, &live, archetype.columns, layout, |row| ids[row].into());
        let count = layout.iter().filter(|(_, to)| matches!(to, Rows::New)).count();
        placed.push((done, count));
    }
    drop((live, living));
    for entity in extra {
        let _ = world.despawn(entity);
    }
    let mut new = &*new;
    for (mut placed, count) in placed {
        let (ids, others) = new.split_at(count);
        new = others;
        placed.spawn(world, &mut free, ids);
        for (entity, number) in placed.removed {
            (bonfire.entries[number].remove)(world, entity);
        }
        for (entity, mut components) in placed.inserted {
            let _ = world.insert(entity, components.build());
        }
    }
    free.give_back(world);
    Ok(Committed { map, respawned, rest: staged })
}

/// The entities of a world that are part of saves, and where they are.
struct Living<'w> {
    world: &'w World,
    groups: Vec<Chosen<'w>>,
    /// Groups by their first entity: mostly that is all that is asked for.
    firsts: HashMap<EntityId, usize>,
    /// By slot, group and row. hecs does not tell where an entity is.
    places: OnceCell<Vec<Option<(u32, u32)>>>,
}

impl<'w> Living<'w> {
    fn new(world: &'w World, groups: Vec<Chosen<'w>>) -> Self {
        let first =
            |(number, group): (usize, &Chosen<'w>)| Some((group.entities(world).next()?.into(), number));
        let firsts = groups.iter().enumerate().filter_map(first).collect();
        Self { world, groups, firsts, places: OnceCell::new() }
    }

    fn entity(&self, group: usize, row: usize) -> EntityId {
        self.groups[group].id(self.world, row)
    }

    fn places(&self) -> &[Option<(u32, u32)>] {
        self.places.get_or_init(|| {
            let mut places = vec![None; slots::slot_count(self.world) as usize];
            for (number, group) in self.groups.iter().enumerate() {
                for (row, entity) in group.entities(self.world).enumerate() {
                    places[entity.id() as usize] = Some((number as u32, row as u32));
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
    fn find(&self, id: EntityId) -> Option<(usize, usize)> {
        if let Some(&group) = self.firsts.get(&id) {
            return Some((group, 0));
        }
        let (group, row) = (*self.places().get(id.index() as usize)?)?;
        let place = (group as usize, row as usize);
        (self.entity(place.0, place.1) == id).then_some(place)
    }
    fn matching(&self, group: usize, row: usize, ids: &[EntityId]) -> usize {
        self.groups[group].matching(self.world, row, ids)
    }
}
