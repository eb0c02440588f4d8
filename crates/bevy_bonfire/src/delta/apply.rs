//! A delta into a world: what it costs is what has changed.
//!
//! | step | |
//! |---|---|
//! | 1 | entities that have come get ids, those that are gone leave the map; everything is staged |
//! | 2 | what has come is spawned |
//! | 3 | values are overwritten in place; components are removed and inserted; lists are put in order |
//! | 4 | what is gone is despawned |
//! | 5 | resources |
//!
//! Up to and with step 1 a failure leaves world and map as they were. After that, code of the game runs: hooks, observers, and what
//! its values do when they are dropped. If it panics, the panic is passed on, and the delta is partly applied.

use std::collections::HashSet;
use std::panic::resume_unwind;

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::component::{ComponentId, StorageType};
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::resource::IS_RESOURCE;
use bevy_ecs::storage::TableId;
use bevy_ecs::world::World;
use bonfire::engine::{DeltaIds, DeltaOp, DeltaSchema, EntityMap, StagedColumn, StagedDelta, StagedGroup};
use bonfire::{Delta, EntityId, Error, Limits, Result};

use super::mark::{Mirrored, MirroredResources};
use crate::load::in_place::{Insertion, LiveColumn, StructuralChanges, differs, overwrite_one};
use crate::load::spawn::{
    CommonValue, IdsTaken, Interruption, LateInsertions, PendingArchetype, RawColumn, change_world,
    choose_segments, drop_without_target, insert_resource, remove_from_lists, spawn, take_late,
};
use crate::load::{Ticks, reclaim};
use crate::registry::{ComponentRegistry, RelationshipSources};

/// Applies a delta. `map` has the ids of the sender and what they are here; entities that come are marked.
pub(crate) fn apply(
    world: &mut World,
    registry: &ComponentRegistry,
    schema: &DeltaSchema,
    delta: &Delta,
    map: &mut EntityMap,
    limits: &Limits,
) -> Result<()> {
    schema.check(delta.table())?;
    world.flush();
    reclaim(world);
    let widened = match delta.has_fields() {
        true => Some(whole_components(world, registry, schema, delta, map)?),
        false => None,
    };
    let delta = widened.as_ref().unwrap_or(delta);
    let mut ids = DeltaIds::plan(delta, map, |local| world.get_entity(Entity::from(local)).is_ok())?;
    let count = u32::try_from(ids.to_spawn().len());
    let count = count.map_err(|_| Error::misuse("more entities than Bevy can have"))?;
    let mut new: Vec<Entity> = world.entity_allocator().alloc_many(count).collect();
    let entered = ids.assign(map, new.iter().map(|entity| (*entity).into()));
    let staged = entered.and_then(|()| {
        let staged = delta.stage(&registry.core, schema, map, limits, Some(&*world))?;
        check_kinds(world, registry, &staged).map(|()| staged)
    });
    let staged = match staged {
        Ok(staged) => staged,
        Err(error) => {
            ids.revert(map);
            world.entity_allocator_mut().free_many(&new);
            return Err(error);
        }
    };
    let StagedDelta { groups, resources } = staged;
    let lists: Vec<_> = delta.lists(schema).collect();

    // From here on the world is changed.
    let mark = world.register_component::<Mirrored>();
    let applied = change_world(world, |world| {
        let (changes, unwanted) = (StructuralChanges::default(), Vec::new());
        let mut applier = DeltaApplier { world, registry, map, changes, unwanted };
        applier.apply_groups(groups, &mut new, mark)?;
        for (number, target, sources) in lists {
            applier.reorder_list(number, target, sources);
        }
        applier.despawn(&ids);
        Ok(())
    });
    match applied {
        Ok(()) => apply_resources(world, registry, resources, delta),
        Err(Interruption::IdsTaken) => Err(Error::custom(
            "another thread allocated entities while a delta was applied, which is not complete",
        )),
        Err(Interruption::Panicked(panic)) => resume_unwind(panic),
    }
}

/// Resources are told as resources and components as components: Bevy would take either for the other, and panic later.
fn check_kinds(world: &World, registry: &ComponentRegistry, staged: &StagedDelta<'_>) -> Result<()> {
    let is_resource = |number: usize| {
        let info = world.components().get_info(registry.entries[number].id);
        info.is_some_and(|info| info.required_components().iter_ids().any(|id| id == IS_RESOURCE))
    };
    let in_key = |error: Error, number: usize| error.in_key(registry.core.descriptors()[number].key());
    for change in staged.groups.iter().flat_map(|group| &group.changes) {
        if is_resource(change.component) {
            return Err(in_key(Error::corrupt("a resource is told of an entity"), change.component));
        }
    }
    for &(number, _) in &staged.resources {
        if !is_resource(number) {
            return Err(in_key(Error::corrupt("a component is told as a resource"), number));
        }
    }
    Ok(())
}

#[expect(unsafe_code, reason = "values without their type")]
fn whole_components(
    world: &World,
    registry: &ComponentRegistry,
    schema: &DeltaSchema,
    delta: &Delta,
    map: &EntityMap,
) -> Result<Delta> {
    let current = |number: usize, id: EntityId| {
        let entity = world.get_entity(Entity::from(map.get(id)?)).ok()?;
        Some(entity.get_by_id(registry.entries[number].id).ok()?.as_ptr())
    };
    // SAFETY: live values of the component, whose type is the descriptor's; the world is borrowed.
    unsafe { delta.with_whole_components(&registry.core, schema, current) }
}

/// A delta on its way into a world.
struct DeltaApplier<'a> {
    world: &'a mut World,
    registry: &'a ComponentRegistry,
    map: &'a EntityMap,
    changes: StructuralChanges,
    /// Components that Bevy adds because another one requires them, and the sender does not have.
    unwanted: Vec<(Entity, ComponentId)>,
}

/// The row of an entity that exists.
#[derive(Clone, Copy)]
struct LiveRow {
    entity: Entity,
    archetype: ArchetypeId,
    table: TableId,
    row: usize,
}

/// The entities of a group that exist.
struct ExistingGroup<'d> {
    /// Its entities have the components of the group, and no others.
    whole: bool,
    ids: &'d [EntityId],
    /// Rows of entities that do not exist yet.
    missing: Vec<usize>,
    removed: Vec<ComponentId>,
    pending: PendingArchetype<'d>,
}

impl DeltaApplier<'_> {
    /// The row of an entity that exists.
    fn live_row(&self, remote: EntityId) -> Option<LiveRow> {
        let entity = Entity::from(self.map.get(remote)?);
        let location = self.world.entities().get_spawned(entity).ok()?;
        let (table, row) = (location.table_id, location.table_row.index());
        Some(LiveRow { entity, archetype: location.archetype_id, table, row })
    }

    /// Spawns and updates the entities of all groups.
    fn apply_groups(
        &mut self,
        groups: Vec<StagedGroup<'_>>,
        new: &mut [Entity],
        mark: ComponentId,
    ) -> Result<(), IdsTaken> {
        let mut existing: Vec<ExistingGroup<'_>> = Vec::new();
        let mut spawning: Vec<PendingArchetype<'_>> = Vec::new();
        let mut spawned = 0;
        for group in groups {
            let rows = group.ids.len();
            let mut removed: Vec<ComponentId> = Vec::new();
            let mut columns = Vec::with_capacity(group.changes.len());
            for change in group.changes {
                match change.column {
                    Some(column) if change.op != DeltaOp::Removed => columns.extend(RawColumn::in_parts(
                        self.world,
                        self.registry,
                        change.component,
                        column,
                        rows,
                    )),
                    _ => removed.push(self.registry.entries[change.component].id),
                }
            }
            columns.sort_by_key(|column| column.id);
            let mut pending = PendingArchetype::new(0..rows, columns);
            let mut missing = Vec::new();
            if group.spawned {
                // New ids are not spawned yet, and so have no row.
                missing.extend((0..rows).filter(|&row| self.live_row(group.ids[row]).is_none()));
                if !missing.is_empty() {
                    spawning.push(pending.split_off(&missing, spawned));
                    spawned += missing.len();
                }
            }
            if missing.len() < rows {
                existing.push(ExistingGroup {
                    whole: group.spawned,
                    ids: group.ids,
                    missing,
                    removed,
                    pending,
                });
            }
        }
        self.spawn(spawning, new, mark)?;
        // Only now: what was spawned may have given others a list, and so another row.
        for (number, group) in existing.iter_mut().enumerate() {
            self.update_existing(number, group);
        }
        let pending: Vec<PendingArchetype<'_>> = existing.into_iter().map(|group| group.pending).collect();
        std::mem::take(&mut self.changes).apply(self.world, self.registry, &pending);
        self.world.flush();
        self.remove_unwanted();
        Ok(())
    }

    /// Replicated components that a column makes Bevy add, by column.
    fn required(&self, pending: &PendingArchetype<'_>) -> Vec<(usize, ComponentId)> {
        let is_replicated = |id: &ComponentId| {
            let number = self.registry.number(*id);
            number.is_some_and(|number| !self.registry.core.descriptors()[number].is_transient())
        };
        let mut required = Vec::new();
        for (column, raw) in pending.columns.iter().enumerate() {
            let info = self.world.components().get_info(raw.id);
            let ids = info.into_iter().flat_map(|info| info.required_components().iter_ids());
            required.extend(ids.filter(is_replicated).map(|id| (column, id)));
        }
        required
    }

    /// Notes components that Bevy is going to add to entities, row by row, and the delta has not. `has` says what they have already.
    fn note_required(
        &mut self,
        pending: &PendingArchetype<'_>,
        entities: impl Iterator<Item = (usize, Entity)>,
        has: impl Fn(&World, Entity, ComponentId) -> bool,
    ) {
        let required = self.required(pending);
        if required.is_empty() {
            return;
        }
        for (row, entity) in entities {
            for &(column, id) in required.iter().filter(|(column, _)| pending.columns[*column].has(row)) {
                let is_given = pending.columns.iter().any(|column| column.id == id && column.has(row));
                let inserted = !has(self.world, entity, pending.columns[column].id);
                if inserted && !is_given && !has(self.world, entity, id) {
                    self.unwanted.push((entity, id));
                }
            }
        }
    }

    fn remove_unwanted(&mut self) {
        for (entity, id) in std::mem::take(&mut self.unwanted) {
            if let Ok(mut entity) = self.world.get_entity_mut(entity) {
                entity.remove_by_id(id);
            }
        }
        self.world.flush();
    }

    /// Overwrites values of entities that exist, and notes the rest: no entity changes its row.
    fn update_existing(&mut self, number: usize, group: &mut ExistingGroup<'_>) {
        let ExistingGroup { whole, ids, missing, removed, pending } = group;
        let mut live_rows: Vec<Option<LiveRow>> = ids.iter().map(|id| self.live_row(*id)).collect();
        missing.iter().for_each(|&row| live_rows[row] = None);
        if *whole {
            self.remove_others(pending, &live_rows);
        }
        for live_row in live_rows.iter().flatten().filter(|_| !removed.is_empty()) {
            let archetype = &self.world.archetypes()[live_row.archetype];
            let lost = removed.iter().filter(|id| archetype.contains(**id));
            self.changes.removed.extend(lost.map(|id| (live_row.entity, *id)));
        }
        let known =
            live_rows.iter().enumerate().filter_map(|(row, live_row)| Some((row, live_row.as_ref()?.entity)));
        self.note_required(pending, known, |world, entity, id| {
            world.get_entity(entity).is_ok_and(|entity| entity.contains_id(id))
        });
        for column in 0..pending.columns.len() {
            self.update_column(number, column, &mut pending.columns[column], &live_rows);
        }
    }

    fn spawn(
        &mut self,
        mut spawning: Vec<PendingArchetype<'_>>,
        new: &mut [Entity],
        mark: ComponentId,
    ) -> Result<(), IdsTaken> {
        if spawning.is_empty() {
            return Ok(());
        }
        let mut report = bonfire::LoadReport::default();
        drop_without_target(self.registry, &mut spawning, &mut report);
        for archetype in &spawning {
            let coming = new[archetype.entities.clone()].iter().copied().enumerate();
            self.note_required(archetype, coming, |_, _, _| false);
        }
        let values = take_late(self.registry, &mut spawning, new);
        let late = LateInsertions { values, ..LateInsertions::default() };
        let mark = [CommonValue::tag(mark)];
        choose_segments(self.world, self.registry, &mut spawning, &mark);
        let spawned = spawn(self.world, &spawning, new, &EntityHashSet::default(), &mark);
        late.insert(self.world, &spawning);
        for &entity in &*new {
            if let Ok(mut entity) = self.world.get_entity_mut(entity)
                && !entity.contains::<Mirrored>()
            {
                entity.insert(Mirrored);
            }
        }
        self.world.flush();
        spawned
    }

    /// Notes the components to remove from entities that a delta has as a whole.
    fn remove_others(&mut self, pending: &PendingArchetype<'_>, live_rows: &[Option<LiveRow>]) {
        for live_row in live_rows.iter().flatten() {
            let archetype = &self.world.archetypes()[live_row.archetype];
            for entry in self.registry.entries.iter().filter(|entry| archetype.contains(entry.id)) {
                let number = self.registry.number(entry.id);
                let transient =
                    number.is_none_or(|number| self.registry.core.descriptors()[number].is_transient());
                if !transient && !pending.columns.iter().any(|column| column.id == entry.id) {
                    self.changes.removed.push((live_row.entity, entry.id));
                }
            }
        }
    }

    /// Gives the values of one component to entities that exist.
    fn update_column(
        &mut self,
        group: usize,
        number: usize,
        column: &mut RawColumn<'_>,
        live_rows: &[Option<LiveRow>],
    ) {
        let (id, entry) = (column.id, &self.registry.entries[column.number]);
        let descriptor = &self.registry.core.descriptors()[column.number];
        let Some(info) = self.world.components().get_info(id) else { return };
        let (storage, relation, late) = (info.storage_type(), entry.relation, entry.late);
        let in_place = info.mutable() && relation.is_none() && !self.registry.indexed.contains(&id);
        // Rows in a table whose archetype has the component.
        let mut row = 0;
        while row < live_rows.len() {
            let first = row;
            row += 1;
            let Some(live_row) = live_rows[first] else {
                column.discard_row(first);
                continue;
            };
            let has = self.world.archetypes()[live_row.archetype].contains(id);
            let has_no_target = relation
                .is_some_and(|relation| column.target(first, relation.offset) == Some(Entity::PLACEHOLDER));
            if has_no_target {
                column.discard_row(first);
            }
            if has_no_target || !column.has(first) {
                if has {
                    self.changes.removed.push((live_row.entity, id));
                }
                continue;
            }
            let inserted =
                Insertion { late, archetype: group, row: first, column: number, entity: live_row.entity };
            if !has {
                self.changes.inserted.push(inserted);
            } else if !in_place {
                match differs(self.world, live_row.entity, column, descriptor, first) {
                    true => self.changes.inserted.push(inserted),
                    false => column.discard_row(first),
                }
            } else if storage == StorageType::SparseSet {
                overwrite_one(self.world, live_row.entity, column, descriptor, first, Ticks::All);
            } else {
                row = self.overwrite_table_rows(column, live_rows, first);
            }
        }
    }

    /// Overwrites values in a table, from this row on for as long as they are in the same one. Returns the first row that is not.
    fn overwrite_table_rows(
        &mut self,
        column: &RawColumn<'_>,
        live_rows: &[Option<LiveRow>],
        first: usize,
    ) -> usize {
        let Some(start) = live_rows[first] else { return first + 1 };
        let Some(live) = LiveColumn::new(self.world, start.table, column.id) else { return first + 1 };
        let mut row = first;
        while row < live_rows.len() {
            let from = row;
            let Some(live_row) =
                live_rows[from].filter(|live_row| live_row.table == start.table && column.has(from))
            else {
                break;
            };
            row += 1;
            // What lies side by side is one copy.
            while row < live_rows.len()
                && column.is_contiguous(row - 1)
                && live_rows[row].is_some_and(|next| {
                    next.table == live_row.table && next.row == live_row.row + (row - from)
                })
            {
                row += 1;
            }
            live.overwrite(column, from..row, live_row.row);
        }
        live.finish();
        row
    }

    fn reorder_list(&mut self, number: usize, target: EntityId, sources: &[EntityId]) {
        let Some(relation) = self.registry.entries[number].relation else { return };
        let Some(target) = self.map.get(target).map(Entity::from) else { return };
        let sources: Vec<Entity> =
            sources.iter().filter_map(|source| self.map.get(*source).map(Entity::from)).collect();
        (relation.reorder)(self.world, target, &sources);
    }

    fn despawn(&mut self, ids: &DeltaIds) {
        let doomed: EntityHashSet = ids.to_despawn().map(Entity::from).collect();
        if doomed.is_empty() {
            return;
        }
        for entry in &self.registry.entries {
            let Some(relation) = entry.relation else { continue };
            remove_from_lists(self.world, relation, entry.id, &doomed);
            // What stays must not go with those on whom it hangs.
            let mut staying = Vec::new();
            if let Some(sources) = RelationshipSources::of(self.world, relation.targets) {
                for &target in doomed.iter().filter(|target| self.world.get_entity(**target).is_ok()) {
                    sources.for_each(target, |source| {
                        let mirrored = self.world.get::<Mirrored>(source).is_some();
                        if mirrored && !doomed.contains(&source) {
                            staying.push(source);
                        }
                    });
                }
            }
            for source in staying {
                if let Ok(mut source) = self.world.get_entity_mut(source) {
                    source.remove_by_id(entry.id);
                }
            }
        }
        for local in ids.to_despawn().rev() {
            if let Ok(entity) = self.world.get_entity_mut(Entity::from(local)) {
                entity.despawn();
            }
        }
        self.world.flush();
    }
}

fn apply_resources(
    world: &mut World,
    registry: &ComponentRegistry,
    resources: Vec<(usize, Option<StagedColumn<'_>>)>,
    delta: &Delta,
) -> Result<()> {
    if delta.is_whole() {
        let given: HashSet<usize> = resources.iter().map(|(number, _)| *number).collect();
        for (number, entry) in registry.entries.iter().enumerate() {
            let mirrored = world.get_resource::<MirroredResources>();
            if !given.contains(&number) && mirrored.is_some_and(|mirrored| mirrored.contains(entry.id)) {
                world.remove_resource_by_id(entry.id);
            }
        }
    }
    for (number, column) in resources {
        let entry = &registry.entries[number];
        world.get_resource_or_init::<MirroredResources>().insert(entry.id);
        match column {
            Some(column) => {
                let Some(mut column) = RawColumn::new(world, registry, number, column, 1) else { continue };
                insert_resource(world, &mut column, entry.load_resource.as_ref())
                    .map_err(|error| error.in_key(registry.core.descriptors()[number].key()))?;
            }
            None => drop(world.remove_resource_by_id(entry.id)),
        }
    }
    world.flush();
    Ok(())
}
