//! A running world back to a snapshot of its own past.
//!
//! | step | |
//! |---|---|
//! | 1 | saved entities are looked for where they were; those that are gone get new ids; everything is staged |
//! | 2 | values of those that still exist are overwritten in place |
//! | 3 | what is gone is spawned again, components are removed and inserted, lists of sources are put in order |
//! | 4 | what has come since is despawned; rows get their order back, if that is asked for |
//! | 5 | resources |
//!
//! Up to and with step 1 a failure leaves the world as it was. After that, code of the game runs: what its values do when
//! they are dropped, its codecs if values are compared, its hooks and observers from step 3 on. If it panics, the panic is
//! passed on, and the world is partly restored.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::HashMap;
use std::mem::take;
use std::panic::resume_unwind;

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::world::World;
use bonfire::engine::{Comparison, EntityMap, LoadPlan, RowRun, SavedOrder, Staged};
use bonfire::{EntityId, Error, Result, RowOrder};

use super::Ticks;
use super::commit::despawn_replaced;
use super::completion::{CommittedLoad, unknown_order};
use super::in_place::{
    LiveGroup, MatchedRows, StructuralChanges, compare, is_same_world, resource_differs, restore_row_order,
};
use super::outside::OutsideEntities;
use super::prepare::{PreparedLoad, StagedEntities};
use super::spawn::{
    ExtraColumn, Interruption, LateInsertions, ListOrder, PendingArchetype, RawColumn, change_world,
    choose_segments, complete_places, drop_without_target, end_stand_ins, existing_entities, load_resources,
    resource_columns, spawn, spawn_stand_ins, take_late, undo, unmarked, with_dependants,
};
use crate::pending::{LoadPlaces, ReservedIds};
use crate::registry::ComponentRegistry;
use crate::selection::{self, EntitySet, Selection};
use crate::stable_id::StandIn;

/// Restores the world, in the steps above.
pub(super) fn restore(world: &mut World, load: &PreparedLoad<'_>) -> Result<CommittedLoad> {
    let mut restore = StagedRestore::stage(world, load)?;
    // From here on the world is changed.
    let changes = restore.overwrite(world);
    restore.change_structure(world, changes)?;
    despawn_replaced(world, &load.registry, &restore.outside, take(&mut restore.extra));
    if load.options.row_order == RowOrder::Restore {
        restore.restore_row_order(world);
    }
    restore.load_resources(world);
    Ok(restore.into_committed())
}

/// A restore whose rows are decoded and compared with the entities of the world.
struct StagedRestore<'s> {
    registry: &'s ComponentRegistry,
    ticks: Ticks,
    found: Comparison,
    /// Entities that have come since.
    extra: Vec<Entity>,
    /// The saved ids, by saved archetype.
    saved: Vec<Cow<'s, [EntityId]>>,
    /// The saved archetypes, with the rows of entities that still exist.
    existing: Vec<PendingArchetype<'s>>,
    /// Rows of entities that are gone.
    missing: Vec<PendingArchetype<'static>>,
    /// Their new ids.
    new: Vec<Entity>,
    places: LoadPlaces,
    outside: OutsideEntities,
    late: LateInsertions<'s>,
    lists: ListOrder,
    order: SavedOrder,
    resources: Vec<RawColumn<'s>>,
    committed: CommittedLoad,
}

impl<'s> StagedRestore<'s> {
    /// Step 1: finds saved entities in the world and decodes all rows.
    fn stage(world: &mut World, load: &'s PreparedLoad<'_>) -> Result<Self> {
        let plan = load.plan()?;
        let all = Selection::new();
        let selection = load.mode.selection().unwrap_or(&all);
        selection::prepare(selection, world);
        let (found, extra) = compare(world, &load.registry, &plan, selection)?;
        let mut ids = ReservedIds::allocate(world, found.missing.len())?;
        OutsideEntities::take_places_of(&plan, found.missing_ids(), &mut ids);
        let new: Vec<EntityId> = ids.entities().iter().map(|&entity| entity.into()).collect();
        let map = found.entity_map(&new)?;
        let mut outside = OutsideEntities::read(&plan)?;
        outside.find(world, &plan, &mut ids, &map)?;
        let plan = plan.with_outside(outside.map.clone());
        let entities = stage_entities(world, load, &plan, &found, &extra, (ids, map, outside))?;
        Ok(Self::new(world, load, found, extra, entities))
    }

    fn new(
        world: &World,
        load: &'s PreparedLoad<'_>,
        found: Comparison,
        extra: Vec<Entity>,
        entities: StagedEntities<'s>,
    ) -> Self {
        let registry = &*load.registry;
        let StagedEntities { ids, map, staged, order, outside, .. } = entities;
        let Staged { archetypes, resources, extras, carry, mut report } = staged;
        let (new, places) = ids.into_parts();
        let saved: Vec<_> = archetypes.iter().map(|archetype| archetype.ids.clone()).collect();
        let mut existing = PendingArchetype::from_staged(world, registry, archetypes, RawColumn::in_parts);
        let resources = resource_columns(world, registry, resources);
        let extras = ExtraColumn::from_staged(world, registry, extras, &map);
        drop_without_target(registry, &mut existing, &mut report);
        let entity = |archetype: usize, row: usize| map.get(saved[archetype][row]).map(Entity::from);
        let lists = ListOrder::new(registry, &existing, entity);

        let mut missing = split_missing(&mut existing, &found);
        let values = take_late(registry, &mut missing, &new);
        if !missing.is_empty() {
            choose_segments(world, registry, &mut missing, &[]);
        }
        let mut unmarked = unmarked(world, registry, &missing, &new);
        let marks = existing.iter().enumerate().filter(|(_, pending)| pending.needs_mark(world, registry));
        for run in marks.flat_map(|(archetype, _)| runs_of(&found, archetype)) {
            let rows = run.saved_row..run.saved_row + run.len;
            unmarked.extend(rows.map(|row| Entity::from(saved[run.archetype][row])));
        }
        let late = LateInsertions { values, extras, unmarked };
        let (ticks, respawned) = (load.mode.ticks().unwrap_or_default(), Vec::new());
        let unknown_order = unknown_order(&load.snapshot, registry, &order);
        let outside_map = outside.map.clone();
        let committed = CommittedLoad { map, outside: outside_map, report, carry, respawned, unknown_order };
        Self {
            registry,
            ticks,
            found,
            extra,
            saved,
            existing,
            missing,
            new,
            places,
            outside,
            late,
            lists,
            order,
            resources,
            committed,
        }
    }

    /// Step 2: overwrites values in place. Returns the changes that need another archetype, or hooks.
    fn overwrite(&mut self, world: &mut World) -> StructuralChanges {
        let mut changes = StructuralChanges::default();
        let mut groups: HashMap<usize, LiveGroup> = HashMap::new();
        for (archetype, pending) in self.existing.iter_mut().enumerate() {
            let mut runs = runs_of(&self.found, archetype).to_vec();
            runs.sort_by_key(|run| run.group);
            for runs in runs.chunk_by(|a, b| a.group == b.group) {
                let group = runs[0].group;
                let group = groups
                    .entry(group)
                    .or_insert_with(|| LiveGroup::new(world, &world.archetypes()[ArchetypeId::new(group)]));
                let matched = MatchedRows { archetype, group, runs, ids: &self.saved[archetype] };
                changes.overwrite(world, self.registry, pending, matched, self.ticks);
            }
        }
        changes
    }

    /// Step 3: spawns what is gone, removes and inserts components, and puts lists in order.
    fn change_structure(&mut self, world: &mut World, changes: StructuralChanges) -> Result<()> {
        let registry = self.registry;
        let (late, lists) = (take(&mut self.late), take(&mut self.lists));
        let existing = existing_entities(world, &self.places);
        let standing = self.restored_stand_ins(world);
        let changed = change_world(world, |world| {
            spawn_stand_ins(world, &self.places);
            end_stand_ins(world, &existing);
            for &entity in &standing {
                world.entity_mut(entity).remove::<StandIn>();
            }
            let spawned = match self.missing.is_empty() {
                true => Ok(()),
                false => spawn(world, &self.missing, &mut self.new, &existing, &[]),
            };
            changes.apply(world, registry, &self.existing);
            late.insert(world, &self.missing);
            world.flush();
            lists.apply(world, registry, &self.order);
            spawned
        });
        match changed {
            Ok(()) => {
                complete_places(world, take(&mut self.places));
                Ok(())
            }
            Err(Interruption::IdsTaken) => {
                undo(world, registry, &self.new, &self.places, &existing);
                Err(Error::custom(
                    "another thread allocated entities during the restore, which is not complete: restore again",
                ))
            }
            // It may come from a `Drop`, and after that Bevy's tables are not sound: the game must not go on.
            Err(Interruption::Panicked(panic)) => resume_unwind(panic),
        }
    }

    /// Stand-ins that were the saved entities themselves when the snapshot was made. They are again.
    fn restored_stand_ins(&self, world: &World) -> Vec<Entity> {
        let Some(stand_in) = world.components().component_id::<StandIn>() else { return Vec::new() };
        let stands_in = |run: &&RowRun| world.archetypes()[ArchetypeId::new(run.group)].contains(stand_in);
        let rows = self.found.runs.iter().filter(stands_in).flat_map(|run| {
            (run.saved_row..run.saved_row + run.len).map(|row| Entity::from(self.saved[run.archetype][row]))
        });
        rows.collect()
    }

    /// The end of step 4: puts entities in the saved order.
    fn restore_row_order(&self, world: &mut World) {
        let saved = self.saved.iter().flat_map(|ids| ids.iter());
        let map = &self.committed.map;
        restore_row_order(world, saved.filter_map(|&id| map.get(id)).map(Entity::from));
    }

    /// Step 5: loads resources.
    fn load_resources(&mut self, world: &mut World) {
        let resources = take(&mut self.resources);
        let resources = match self.ticks {
            Ticks::All => resources,
            Ticks::Differing => differing_resources(world, self.registry, resources),
        };
        load_resources(world, self.registry, resources, &mut self.committed.report);
    }

    fn into_committed(self) -> CommittedLoad {
        let respawned = self.found.missing_ids().iter().copied().zip(self.new).collect();
        CommittedLoad { respawned, ..self.committed }
    }
}

/// Decodes all rows.
fn stage_entities<'s>(
    world: &World,
    load: &PreparedLoad<'_>,
    plan: &LoadPlan<'s, '_>,
    found: &Comparison,
    extra: &[Entity],
    (ids, map, outside): (ReservedIds, EntityMap, OutsideEntities),
) -> Result<StagedEntities<'s>> {
    let registry = &*load.registry;
    let same_world = is_same_world(plan, registry) == Some(true);
    let going = going(world, registry, plan, found, extra);
    let alive = |id: EntityId| {
        let entity = Entity::from(id);
        same_world && world.get_entity(entity).is_ok() && !going.contains(&entity)
    };
    StagedEntities::with_world(world, load, plan, ids, map, outside, &alive)
}

/// The entities that will be despawned, with those that Bevy despawns with them.
fn going(
    world: &World,
    registry: &ComponentRegistry,
    plan: &LoadPlan<'_, '_>,
    found: &Comparison,
    extra: &[Entity],
) -> EntityHashSet {
    // Computed only if an entity that goes has dependants.
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
fn split_missing(
    existing: &mut [PendingArchetype<'_>],
    found: &Comparison,
) -> Vec<PendingArchetype<'static>> {
    let mut start = 0;
    let split = |missing: &[(usize, usize)]| {
        let rows: Vec<usize> = missing.iter().map(|&(_, row)| row).collect();
        let split = existing[missing[0].0].split_off(&rows, start);
        start += rows.len();
        split
    };
    found.missing.chunk_by(|a, b| a.0 == b.0).map(split).collect()
}

/// Leaves out the resources whose value in the world is the saved one.
fn differing_resources<'s>(
    world: &World,
    registry: &ComponentRegistry,
    mut resources: Vec<RawColumn<'s>>,
) -> Vec<RawColumn<'s>> {
    resources.retain_mut(|resource| {
        let descriptor = &registry.core.descriptors()[resource.number];
        // A resource with a load function of its own, such as a state, decides for itself.
        let differs = registry.entries[resource.number].load_resource.is_some()
            || resource_differs(world, resource, descriptor);
        if !differs {
            resource.discard_row(0);
        }
        differs
    });
    resources
}
