//! The commit of a load in slices: parts 2 to 4.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::world::World;
use bonfire::engine::{Carry, EntityMap, Staged};
use bonfire::{DataEntry, LoadReport, Result};

use super::activate::{activate, activation_is_silent, pending_tags};
use super::late_column::LateColumn;
use crate::load::commit::{despawn_replaced, replace, replaced, undone};
use crate::load::completion::{CommittedLoad, complete, unknown_order};
use crate::load::in_place::touch_all;
use crate::load::outside::OutsideEntities;
use crate::load::prepare::StagedEntities;
use crate::load::spawn::{
    CommonValue, ExtraColumn, IdsTaken, PendingArchetype, RawColumn, SavedList, SegmentRows, SpareIds,
    bind_segments, catch_interruption, choose_segments, complete_places, insert, mark, resource_columns,
    saved_lists, spawn_stand_ins, unmarked,
};
use crate::load::{Loaded, PreparedLoad};
use crate::pending::{Pending, ReservedIds};
use crate::selection::EntitySet;

/// The number of rows, values or lists between two looks at the clock.
const AT_ONCE: usize = 256;

/// All rows of a load in slices, and how many of them are in the world. A row is counted before it is moved, because a panic
/// may interrupt the move.
pub(super) struct SlicedCommit {
    pub(super) ids: ReservedIds,
    /// The entities that may exist already, because they take the places of stand-ins.
    taken: EntityHashSet,
    map: EntityMap,
    outside: OutsideEntities,
    tags: [ComponentId; 2],
    pending: Vec<PendingArchetype<'static>>,
    /// The archetype, the segment and the row that are next.
    next: (usize, usize, usize),
    late: Vec<LateColumn>,
    next_late: usize,
    unmarked: Vec<Entity>,
    next_mark: usize,
    lists: Vec<SavedList>,
    next_list: usize,
    resources: Vec<RawColumn<'static>>,
    stay_disabled: EntitySet,
    carry: Carry,
    report: LoadReport,
    unknown_order: Vec<DataEntry>,
    pub(super) done: usize,
    pub(super) total: usize,
}

impl SlicedCommit {
    pub(super) fn new(
        world: &mut World,
        load: &PreparedLoad<'static>,
        entities: StagedEntities<'static>,
    ) -> Self {
        let registry = &*load.registry;
        let StagedEntities { ids, map, staged, order, outside, .. } = entities;
        spawn_stand_ins(world, ids.places());
        let taken = ids.places().taken.iter().map(|taken| taken.entity).collect();
        let Staged { archetypes, resources, extras, carry, report } = staged;
        let mut pending = PendingArchetype::from_staged(world, registry, archetypes, RawColumn::new);
        let unmarked = unmarked(world, registry, &pending, ids.entities());
        let mut late = LateColumn::take_from(registry, &mut pending, &report);
        let extras = ExtraColumn::from_staged(world, registry, extras, &map);
        late.extend(extras.into_iter().map(LateColumn::from));
        let tags = pending_tags(world);
        let common = tags.map(CommonValue::tag);
        choose_segments(world, registry, &mut pending, &common);
        bind_segments(world, &pending, &common);
        let resources = resource_columns(world, registry, resources);
        let lists: Vec<SavedList> = saved_lists(registry, &order).collect();
        let late_rows: usize = late.iter().map(LateColumn::rows).sum();
        Self {
            total: (ids.entities().len() + late_rows + unmarked.len() + lists.len()).max(1),
            unknown_order: unknown_order(&load.snapshot, registry, &order),
            ids,
            taken,
            map,
            outside,
            tags,
            pending,
            next: (0, 0, 0),
            late,
            next_late: 0,
            unmarked,
            next_mark: 0,
            lists,
            next_list: 0,
            resources,
            stay_disabled: EntitySet::default(),
            carry,
            report,
            done: 0,
        }
    }

    /// Returns true if only the switch is left.
    pub(super) fn is_complete(&self) -> bool {
        self.next.0 == self.pending.len()
            && self.next_late == self.late.len()
            && self.next_mark == self.unmarked.len()
            && self.next_list == self.lists.len()
    }

    /// Does the next few hundred rows.
    pub(super) fn commit_part(&mut self, world: &mut World) -> Result<()> {
        let committed = catch_interruption(world, |world| {
            let committed = self.commit_next(world);
            world.flush();
            committed
        });
        committed.map_err(|interruption| undone(&interruption))
    }

    fn commit_next(&mut self, world: &mut World) -> Result<(), IdsTaken> {
        if self.next.0 < self.pending.len() {
            return self.spawn(world);
        }
        if self.next_late < self.late.len() {
            self.insert(world);
        } else if self.next_mark < self.unmarked.len() {
            let marked = self.next_mark..self.unmarked.len().min(self.next_mark + AT_ONCE);
            self.done += marked.len();
            self.next_mark = marked.end;
            mark(world, self.unmarked[marked].to_vec());
        } else {
            let lists = self.next_list..self.lists.len().min(self.next_list + AT_ONCE);
            self.done += lists.len();
            self.next_list = lists.end;
            self.lists[lists].iter().for_each(|list| list.apply(world));
        }
        Ok(())
    }

    /// Spawns the next rows, of one segment.
    fn spawn(&mut self, world: &mut World) -> Result<(), IdsTaken> {
        let (number, segment_number, row) = self.next;
        let pending = &self.pending[number];
        let Some(segment) = pending.segments.get(segment_number) else {
            self.next = (number + 1, 0, 0);
            return Ok(());
        };
        let start = row.max(segment.rows.start);
        let mut rows = start..segment.rows.end.min(start + AT_ONCE);
        // An entity that takes the place of a stand-in is a part of its own. One whose id is free comes with the others.
        let entities = world.entities();
        let exists = |row: &usize| {
            let entity = self.ids.entities()[pending.entities.start + row];
            let is_free = entities.contains(entity) && !entities.contains_spawned(entity);
            self.taken.contains(&entity) && !is_free
        };
        let existing = if self.taken.is_empty() { None } else { rows.clone().find(exists) };
        let is_new = existing != Some(start);
        rows.end = match existing {
            Some(existing) if is_new => existing,
            Some(_) => start + 1,
            None => rows.end,
        };
        self.next = match rows.end == segment.rows.end {
            true if segment_number + 1 == pending.segments.len() => (number + 1, 0, 0),
            true => (number, segment_number + 1, 0),
            false => (number, segment_number, rows.end),
        };
        self.done += rows.len();
        self.ids.set_spawned_until(pending.entities.start + rows.end);
        let entities = &mut self.ids.entities_mut()[pending.entities.clone()];
        let disabled = world.components().component_id::<Disabled>();
        let is_disabled = segment.columns.iter().any(|&column| Some(pending.columns[column].id) == disabled);
        if is_disabled {
            entities[rows.clone()].iter().for_each(|&entity| self.stay_disabled.insert(entity));
        }
        if segment.slot.is_some() && is_new {
            let mut spare = SpareIds::new(world);
            let rows = SegmentRows { segment, rows };
            let spawned =
                pending.spawn_batch(world, rows, entities, &self.tags.map(CommonValue::tag), &mut spare);
            spare.release(world);
            return spawned;
        }
        for &entity in &entities[rows.clone()] {
            if let Ok(mut stand_in) = world.get_entity_mut(entity) {
                stand_in.insert((Pending, Disabled));
            } else {
                // Nothing else has these ids. If the game has despawned a stand-in, its values are dropped.
                let _ = world.spawn_at(entity, (Pending, Disabled));
            }
        }
        pending.insert_rows(world, SegmentRows { segment, rows }, entities);
        Ok(())
    }

    /// Inserts the next values of a column that had to wait.
    fn insert(&mut self, world: &mut World) {
        let late = &mut self.late[self.next_late];
        let rows = late.next..late.rows().min(late.next + AT_ONCE);
        self.done += rows.len();
        late.next = rows.end;
        if late.next == late.rows() {
            self.next_late += 1;
        }
        let disabled = world.components().component_id::<Disabled>() == Some(late.column.id);
        let mut left_out = 0;
        for row in rows {
            let target = late.relation.and_then(|relation| late.column.target(row, relation.offset));
            let entity = late.owner(row, self.ids.entities());
            let Some(taken) = late.column.take_row(row) else { continue };
            match entity {
                // A relationship to nothing is none: its target was not saved.
                _ if target == Some(Entity::PLACEHOLDER) => {
                    left_out += 1;
                    late.column.discard(taken);
                }
                Some(entity) => {
                    if disabled {
                        self.stay_disabled.insert(entity);
                    }
                    insert(world, entity, &late.column, taken);
                }
                None => late.column.discard(taken),
            }
        }
        if let Some(line) = late.line {
            self.report.components[line].left_out += left_out;
        }
    }

    /// Makes the new entities part of the world, and despawns those that they replace. The cost is that of removing two tags
    /// from each new entity, and of despawning each old one.
    pub(super) fn switch(
        mut self: Box<Self>,
        world: &mut World,
        load: &PreparedLoad<'static>,
    ) -> Result<Loaded> {
        // Without the new ones, which are pending.
        let mut replaced = replaced(world, &load.mode)?;
        // The new ones move into tables that have room if the old ones go first. Only where no code of the game can keep the
        // new ones from coming: after that nothing can be undone.
        let mut old = Ok(());
        if activation_is_silent(world) {
            let replaced = std::mem::take(&mut replaced);
            let (registry, outside) = (&load.registry, &self.outside);
            old = catch_unwind(AssertUnwindSafe(|| despawn_replaced(world, registry, outside, replaced)));
        }
        let activated = catch_interruption(world, |world| {
            activate(world, self.ids.entities(), &self.taken, &self.stay_disabled);
            Ok(())
        });
        activated.map_err(|interruption| undone(&interruption))?;
        // Systems have run since the first of them came: for them, all of this is new.
        touch_all(world, self.ids.entities());
        // They are the world's now.
        complete_places(world, self.ids.keep());
        if let Err(panic) = old {
            resume_unwind(panic);
        }
        let resources = std::mem::take(&mut self.resources);
        let outside = std::mem::take(&mut self.outside);
        let mut committed = CommittedLoad {
            map: std::mem::take(&mut self.map),
            outside: outside.map.clone(),
            report: std::mem::take(&mut self.report),
            carry: std::mem::take(&mut self.carry),
            respawned: Vec::new(),
            unknown_order: std::mem::take(&mut self.unknown_order),
        };
        drop(self);
        replace(world, load, &outside, replaced, resources, &mut committed.report);
        Ok(complete(world, load, committed))
    }
}

/// Drops the rows that are not in the world.
impl Drop for SlicedCommit {
    fn drop(&mut self) {
        let (next, segment, row) = self.next;
        for (number, pending) in self.pending.iter_mut().enumerate().skip(next) {
            let segment = pending.segments.get(segment).filter(|_| number == next);
            let start = segment.map_or(0, |segment| row.max(segment.rows.start));
            for column in &mut pending.columns {
                column.discard_rows(start..pending.entities.len());
            }
        }
        for late in &mut self.late {
            late.column.discard_rows(late.next..late.rows());
        }
        for resource in &mut self.resources {
            resource.discard_rows(0..1);
        }
    }
}
