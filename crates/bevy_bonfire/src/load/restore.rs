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
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::world::World;
use bonfire::engine::{Comparison, LoadPlan, RowRun, Staged};
use bonfire::{EntityId, Error, Result};

use super::Ticks;
use super::commit::{self, ExtraColumn, LateValue, PendingArchetype};
use super::completion::{CommittedLoad, unknown_order};
use super::live_archetypes::{compare, is_same_world};
use super::overwrite::{self, LiveGroup, MatchedRows};
use super::prepare::{check_resources, stage};
use super::raw_column::{RawColumn, insert};
use super::relation::{ListOrder, drop_without_target, with_dependants};
use super::structural_changes::StructuralChanges;
use crate::registry::{ComponentRegistry, InsertMode};
use crate::selection::{EntitySet, Selection};
use crate::stable_id::StableIds;

pub(super) fn restore<'s>(
    world: &mut World,
    registry: &ComponentRegistry,
    plan: &LoadPlan<'s, '_>,
    selection: &Selection,
    ticks: Ticks,
) -> Result<CommittedLoad> {
    let (found, extra) = compare(world, registry, plan, selection)?;
    let count = u32::try_from(found.missing.len());
    let count = count.map_err(|_| Error::misuse("more entities than Bevy can have"))?;
    let mut new: Vec<Entity> = world.entity_allocator().alloc_many(count).collect();
    let ids: Vec<EntityId> = new.iter().map(|&entity| entity.into()).collect();
    let same_world = is_same_world(plan, registry) == Some(true);
    let going = going(world, registry, plan, &found, &extra);
    let alive = |id: EntityId| {
        let entity = Entity::from(id);
        same_world && world.get_entity(entity).is_ok() && !going.contains(&entity)
    };
    let staged = found
        .entity_map(&ids)
        .and_then(|map| stage(world, plan, &map, &alive).map(|(staged, order)| (map, staged, order)));
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
    let mut pending = PendingArchetype::from_staged(world, registry, archetypes, RawColumn::in_parts);
    let resources = (resources.into_iter())
        .filter_map(|(number, column)| RawColumn::new(world, registry, number, column, 1))
        .collect();
    let extras: Vec<ExtraColumn<'_>> =
        extras.into_iter().filter_map(|extra| ExtraColumn::new(world, registry, extra, &map)).collect();
    drop_without_target(registry, &mut pending, &mut report);
    let lists =
        ListOrder::new(registry, &pending, |archetype, row| map.get(saved[archetype][row]).map(Entity::from));

    // From here on the world is changed.
    let mut respawning = split_missing(&mut pending, &found);
    let late = commit::take_late(registry, &mut respawning, &new);
    if !respawning.is_empty() {
        commit::choose_segments(world, registry, &mut respawning, &[]);
    }
    let mut changes = StructuralChanges::default();
    let mut groups: HashMap<usize, LiveGroup> = HashMap::new();
    for (archetype, pending) in pending.iter_mut().enumerate() {
        let mut runs = runs_of(&found, archetype).to_vec();
        runs.sort_by_key(|run| run.group);
        for runs in runs.chunk_by(|a, b| a.group == b.group) {
            let group = runs[0].group;
            let group = groups
                .entry(group)
                .or_insert_with(|| LiveGroup::new(world, &world.archetypes()[ArchetypeId::new(group)]));
            let matched = MatchedRows { archetype, group, runs, ids: &saved[archetype] };
            changes.overwrite(world, registry, pending, matched, ticks);
        }
    }

    let mut unmarked = commit::unmarked(world, registry, &respawning, &new);
    let marks = pending.iter().enumerate().filter(|(_, pending)| pending.needs_mark(world, registry));
    for run in marks.flat_map(|(archetype, _)| runs_of(&found, archetype)) {
        let rows = run.saved_row..run.saved_row + run.len;
        unmarked.extend(rows.map(|row| Entity::from(saved[run.archetype][row])));
    }
    world.resource_mut::<StableIds>().begin_load();
    let work = || {
        let right = respawning.is_empty() || commit::spawn(world, &respawning, &mut new, &[]);
        changes.apply(world, registry, &pending);
        for LateValue { entity, archetype, column, row } in late {
            insert(world, entity, &respawning[archetype].columns[column], row);
        }
        extras.into_iter().for_each(|extra| extra.insert(world));
        commit::mark(world, unmarked);
        world.flush();
        lists.apply(world, registry, &order);
        right
    };
    let done = catch_unwind(AssertUnwindSafe(work));
    world.resource_mut::<StableIds>().end_load();
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
            *world.resource_mut::<InsertMode>() = InsertMode::OneByOne;
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
    Ok(CommittedLoad { map, report, carry, respawned, unknown_order })
}

/// The entities that will be despawned, with what hangs on them.
fn going(
    world: &World,
    registry: &ComponentRegistry,
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
fn split_missing(pending: &mut [PendingArchetype<'_>], found: &Comparison) -> Vec<PendingArchetype<'static>> {
    let mut start = 0;
    let split = |missing: &[(usize, usize)]| {
        let rows: Vec<usize> = missing.iter().map(|&(_, row)| row).collect();
        let columns =
            pending[missing[0].0].columns.iter_mut().map(|column| column.split_off(&rows)).collect();
        start += rows.len();
        PendingArchetype { entities: start - rows.len()..start, columns, segments: Vec::new() }
    };
    found.missing.chunk_by(|a, b| a.0 == b.0).map(split).collect()
}

/// Leaves out the resources that the world has as they are.
fn differing_resources<'s>(
    world: &World,
    registry: &ComponentRegistry,
    mut resources: Vec<RawColumn<'s>>,
) -> Vec<RawColumn<'s>> {
    resources.retain_mut(|resource| {
        let descriptor = &registry.core.descriptors()[resource.number];
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
