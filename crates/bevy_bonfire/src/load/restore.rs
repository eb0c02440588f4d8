//! A running world back to a snapshot of its own past.
//!
//! | step | |
//! |---|---|
//! | 1 | saved entities are looked for where they were; those that are gone get new ids; everything is staged |
//! | 2 | values of those that are still there are overwritten in place |
//! | 3 | what is gone is spawned again, components are removed and inserted, lists of sources are put in order |
//! | 4 | what has come since is despawned |
//! | 5 | resources |
//!
//! Up to and with step 1 a failure leaves the world as it was. After that, code of the game runs: what its values do when
//! they are dropped, its codecs if values are compared, its hooks and observers from step 3 on. If it panics, the panic is
//! passed on, and the world is partly restored.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::component::{ComponentId, StorageType};
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::world::World;
use bonfire::engine::{Comparison, LoadPlan, RowRun, Staged};
use bonfire::{EntityId, Error, Limits, Result};

use super::Ticks;
use super::commit::{self, Extra, Moving};
use super::finish::{Committed, unknown_order};
use super::living::{compare, is_of};
use super::moved::{MovedColumn, insert, insert_row};
use super::overwrite::{self, Group};
use super::prepare::{check_resources, stage};
use super::relation::{ListOrder, drop_without_target, leave, with_dependants};
use crate::registry::{OneByOne, Registered};
use crate::selection::EntitySet;
use crate::{SaveScope, Saved, Selection, StableIds};

pub(super) fn restore<'s>(
    world: &mut World,
    registry: &Registered,
    plan: &LoadPlan<'s, '_>,
    limits: &Limits,
    selection: &Selection,
    ticks: Ticks,
) -> Result<Committed> {
    let (found, extra) = compare(world, registry, plan, selection)?;
    let count = u32::try_from(found.missing.len());
    let count = count.map_err(|_| Error::misuse("more entities than Bevy can have"))?;
    let mut new: Vec<Entity> = world.entity_allocator().alloc_many(count).collect();
    let ids: Vec<EntityId> = new.iter().map(|&entity| entity.into()).collect();
    let same_world = is_of(plan, registry) == Some(true);
    let going = going(world, registry, plan, &found, &extra);
    let alive = |id: EntityId| {
        let entity = Entity::from(id);
        same_world && world.get_entity(entity).is_ok() && !going.contains(&entity)
    };
    let staged = found
        .entity_map(&ids)
        .and_then(|map| stage(world, plan, &map, limits, &alive).map(|(staged, order)| (map, staged, order)));
    let staged = staged.and_then(|staged| check_resources(registry, &staged.1).map(|()| staged));
    let (map, staged, order) = match staged {
        Ok(staged) => staged,
        Err(error) => {
            world.entity_allocator_mut().free_many(&new);
            return Err(error);
        }
    };
    let unknown_order = unknown_order(plan.snapshot(), registry, &order);
    let Staged { archetypes, resources, extras, carry, mut report } = staged;
    let saved: Vec<_> = archetypes.iter().map(|archetype| archetype.ids.clone()).collect();
    let mut moving = Moving::all(world, registry, archetypes, MovedColumn::in_parts);
    let resources = (resources.into_iter())
        .filter_map(|(number, column)| MovedColumn::new(world, registry, number, column, 1))
        .collect();
    let extras: Vec<Extra<'_>> =
        extras.into_iter().filter_map(|extra| Extra::new(world, registry, extra, &map)).collect();
    drop_without_target(registry, &mut moving, &mut report);
    let lists =
        ListOrder::new(registry, &moving, |archetype, row| map.get(saved[archetype][row]).map(Entity::from));

    // From here on the world is changed.
    let mut respawning = split_missing(&mut moving, &found);
    let late = commit::take_late(registry, &mut respawning, &new);
    if !respawning.is_empty() {
        commit::choose_segments(world, registry, &mut respawning, &[]);
    }
    let mut changes = Changes::default();
    let mut groups: HashMap<usize, Group> = HashMap::new();
    for (archetype, moving) in moving.iter_mut().enumerate() {
        let entity = |row: usize| Entity::from(saved[archetype][row]);
        let mut runs = runs_of(&found, archetype).to_vec();
        runs.sort_by_key(|run| run.group);
        for runs in runs.chunk_by(|a, b| a.group == b.group) {
            let group = runs[0].group;
            let group = groups
                .entry(group)
                .or_insert_with(|| Group::new(world, &world.archetypes()[ArchetypeId::new(group)]));
            changes.overwrite(world, registry, archetype, moving, group, runs, ticks, entity);
        }
    }

    let mut unmarked = commit::unmarked(world, registry, &respawning, &new);
    let marks = moving.iter().enumerate().filter(|(_, moving)| moving.needs_mark(world, registry));
    for run in marks.flat_map(|(archetype, _)| runs_of(&found, archetype)) {
        let rows = run.saved_row..run.saved_row + run.len;
        unmarked.extend(rows.map(|row| Entity::from(saved[run.archetype][row])));
    }
    world.resource_mut::<StableIds>().loading(true);
    let work = || {
        let right = respawning.is_empty() || commit::spawn(world, &respawning, &mut new, &[]);
        changes.apply(world, registry, &moving);
        for commit::Late { entity, archetype, column, row } in late {
            insert(world, entity, &respawning[archetype].columns[column], row);
        }
        extras.into_iter().for_each(|extra| extra.insert(world));
        commit::mark(world, unmarked);
        world.flush();
        lists.apply(world, registry, &order);
        right
    };
    let done = catch_unwind(AssertUnwindSafe(work));
    world.resource_mut::<StableIds>().loading(false);
    match done {
        Ok(true) => {}
        Ok(false) => {
            commit::undo(world, registry, &new);
            return Err(Error::custom(
                "another thread allocated entities during the restore, which is not complete: restore again",
            ));
        }
        // It may come from a `Drop`, and after that Bevy's tables are not sound: nobody may go on as if nothing had been.
        Err(panic) => {
            world.resource_mut::<OneByOne>().0 = true;
            resume_unwind(panic);
        }
    }
    commit::despawn(world, registry, extra);
    let resources = match ticks {
        Ticks::All => resources,
        Ticks::Differing => differing_resources(world, registry, resources),
    };
    commit::load_resources(world, registry, resources, &mut report);
    let respawned = found.missing_ids().iter().copied().zip(new).collect();
    Ok(Committed { map, report, carry, respawned, unknown_order })
}

/// The entities that will be despawned, with what hangs on them.
fn going(
    world: &World,
    registry: &Registered,
    plan: &LoadPlan<'_, '_>,
    found: &Comparison,
    extra: &[Entity],
) -> EntityHashSet {
    // Asked for only where something hangs on what goes.
    let kept = LazyCell::new(|| -> EntitySet {
        let archetypes: Vec<_> = plan.snapshot().archetypes().map(|archetype| archetype.ids()).collect();
        let rows = found.runs.iter().flat_map(|run| {
            let ids = &archetypes[run.archetype];
            (run.saved_row..run.saved_row + run.len).map(|row| Entity::from(ids[row]))
        });
        rows.collect()
    });
    with_dependants(world, registry, extra, |entity| kept.contains(entity))
}

fn runs_of(found: &Comparison, archetype: usize) -> &[RowRun] {
    let start = found.runs.partition_point(|run| run.archetype < archetype);
    let end = found.runs.partition_point(|run| run.archetype <= archetype);
    &found.runs[start..end]
}

/// Takes the rows of entities that are gone out of their archetypes.
fn split_missing(moving: &mut [Moving<'_>], found: &Comparison) -> Vec<Moving<'static>> {
    let mut start = 0;
    let split = |missing: &[(usize, usize)]| {
        let rows: Vec<usize> = missing.iter().map(|&(_, row)| row).collect();
        let columns = moving[missing[0].0].columns.iter_mut().map(|column| column.split_off(&rows)).collect();
        start += rows.len();
        Moving { entities: start - rows.len()..start, columns, segments: Vec::new() }
    };
    found.missing.chunk_by(|a, b| a.0 == b.0).map(split).collect()
}

/// What cannot be done in place.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) removed: Vec<(Entity, ComponentId)>,
    pub(super) inserted: Vec<Inserted>,
}

/// A value for an entity that does not have the component, or another value of one that is not changed in place.
pub(super) struct Inserted {
    pub(super) late: bool,
    pub(super) archetype: usize,
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) entity: Entity,
}

impl Changes {
    /// Overwrites the values of entities of one saved archetype that lie in one group, and notes the rest.
    #[expect(clippy::too_many_arguments, reason = "what is saved, where it lies, and how it is overwritten")]
    fn overwrite(
        &mut self,
        world: &mut World,
        registry: &Registered,
        archetype: usize,
        moving: &mut Moving<'_>,
        group: &Group,
        runs: &[RowRun],
        ticks: Ticks,
        entity: impl Fn(usize) -> Entity + Copy,
    ) {
        let rows = || runs.iter().flat_map(|run| run.saved_row..run.saved_row + run.len);
        let mark = world.components().component_id::<Saved>().filter(|_| registry.scope == SaveScope::Marked);
        let saved = |id: ComponentId| moving.columns.iter().any(|column| column.id == id);
        let live = group.components(world);
        for &id in &live {
            let restored = |&number: &usize| !registry.registry.descriptors()[number].is_transient();
            let lost = registry.number(id).filter(restored).is_some() && Some(id) != mark && !saved(id);
            if lost {
                self.removed.extend(rows().map(|row| (entity(row), id)));
            }
        }
        for (number, column) in moving.columns.iter_mut().enumerate() {
            let descriptor = &registry.registry.descriptors()[column.number];
            let (id, late) = (column.id, registry.entries[column.number].late);
            let inserted =
                |row: usize| Inserted { late, archetype, row, column: number, entity: entity(row) };
            if !live.contains(&id) {
                self.inserted.extend(rows().filter(|&row| column.has(row)).map(inserted));
                continue;
            }
            let Some(info) = world.components().get_info(id) else { continue };
            let (in_place, storage) =
                (info.mutable() && !registry.indexed.contains(&id), info.storage_type());
            let absent = |row: usize| self.removed.push((entity(row), id));
            if !in_place {
                let mut found = Vec::new();
                let different = |row| found.push(row);
                overwrite::differing(world, group, column, descriptor, runs, entity, different, absent);
                let mut same = rows();
                for &row in &found {
                    same.by_ref().take_while(|&other| other != row).for_each(|row| column.discard_row(row));
                }
                same.for_each(|row| column.discard_row(row));
                self.inserted.extend(found.into_iter().map(inserted));
            } else if storage == StorageType::Table {
                overwrite::overwrite_table(world, group, column, descriptor, runs, ticks, absent);
            } else {
                let (present, without): (Vec<usize>, Vec<usize>) = rows().partition(|&row| column.has(row));
                without.into_iter().for_each(absent);
                for row in present {
                    overwrite::overwrite_one(world, entity(row), column, descriptor, row, ticks);
                }
            }
        }
    }

    /// Takes sources of relationships out of the lists that they leave, so that Bevy need not search those for each of them.
    fn leave_lists(&self, world: &mut World, registry: &Registered, moving: &[Moving<'_>]) {
        for entry in &registry.entries {
            let Some(relation) = entry.relation else { continue };
            let removed = self.removed.iter().filter(|(_, id)| *id == entry.id).map(|(entity, _)| *entity);
            let inserted = self
                .inserted
                .iter()
                .filter(|inserted| moving[inserted.archetype].columns[inserted.column].id == entry.id);
            let leaving = removed.chain(inserted.map(|inserted| inserted.entity)).collect();
            leave(world, relation, entry.id, &leaving);
        }
    }

    /// Removes and inserts, entity by entity.
    #[expect(unsafe_code, reason = "hands rows over one by one")]
    pub(super) fn apply(mut self, world: &mut World, registry: &Registered, moving: &[Moving<'_>]) {
        self.leave_lists(world, registry, moving);
        let one_by_one = world.resource::<OneByOne>().0;
        self.removed.sort_by_key(|(entity, _)| *entity);
        for removed in self.removed.chunk_by(|a, b| a.0 == b.0) {
            let ids: Vec<ComponentId> = removed.iter().map(|&(_, id)| id).collect();
            if let Ok(mut entity) = world.get_entity_mut(removed[0].0) {
                entity.remove_by_ids(&ids);
            }
        }
        self.inserted.sort_by_key(|inserted| (inserted.late, inserted.archetype, inserted.row));
        let same_row =
            |a: &Inserted, b: &Inserted| (a.late, a.archetype, a.row) == (b.late, b.archetype, b.row);
        for inserted in self.inserted.chunk_by(same_row) {
            let Inserted { archetype, row, entity, .. } = inserted[0];
            let columns: Vec<&MovedColumn<'_>> =
                inserted.iter().map(|inserted| &moving[archetype].columns[inserted.column]).collect();
            let ids: Vec<ComponentId> = columns.iter().map(|column| column.id).collect();
            // SAFETY: a row of a column is noted once, has a value, and is not overwritten, spawned or discarded.
            unsafe { insert_row(world, entity, &ids, &columns, row, one_by_one) };
        }
    }
}

/// Leaves out the resources that the world has as they are.
fn differing_resources<'s>(
    world: &World,
    registry: &Registered,
    mut resources: Vec<MovedColumn<'s>>,
) -> Vec<MovedColumn<'s>> {
    resources.retain_mut(|resource| {
        let descriptor = &registry.registry.descriptors()[resource.number];
        // What is loaded in a way of its own, such as a state, decides for itself.
        let differs = registry.entries[resource.number].load_resource.is_some()
            || overwrite::resource_differs(world, resource, descriptor);
        if !differs {
            resource.discard_row(0);
        }
        differs
    });
    resources
}
