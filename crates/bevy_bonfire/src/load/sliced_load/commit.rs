//! The commit of a load that is spread over frames.
//!
//! | part | in slices | |
//! |---|---|---|
//! | 1 | by column | columns that need the world are decoded |
//! | 2 | yes | all entities are spawned, in the order of the save, as [`Pending`] |
//! | 3 | yes | relationships, then late components, then what comes back from being carried; marks; lists in order |
//! | 4 | no | the switch: the new entities become part of the world, what they replace is despawned, resources and data |
//!
//! The load changes no existing entity before the switch. If it fails, is cancelled or dropped before, it takes everything
//! back. In parts 2 and 3, commands of hooks are applied after each few hundred rows, when not all entities are there:
//! that is why relationships come deferred than in a load in one go.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::world::World;
use bonfire::engine::{Carry, EntityMap, Staged};
use bonfire::{DataEntry, Error, LoadReport, Result};

use super::activate::{activate, activation_is_silent, pending_tags};
use super::batch_spawn::SpareIds;
use super::commit::{self, ExistingResources, ExtraColumn, PendingArchetype, SegmentRows};
use super::completion::{CommittedLoad, LoadCompletion, unknown_order};
use super::prepare::{LoadInput, PartlyStaged, replaced};
use super::raw_column::{RawColumn, insert};
use super::relation::{SavedList, saved_lists};
use super::{Loaded, overwrite};
use crate::pending::{Pending, ReservedIds};
use crate::registry::{ComponentRegistry, Relation};
use crate::selection::EntitySet;

/// How much is done between two looks at the clock: rows, values or lists.
const AT_ONCE: usize = 256;

/// All rows on their way into the world, and how many of them are there. A row is counted before it is moved, because a panic
/// may interrupt the move.
pub(super) struct SlicedCommit {
    pub(super) ids: ReservedIds,
    map: EntityMap,
    tags: [ComponentId; 2],
    pending: Vec<PendingArchetype<'static>>,
    /// The archetype, the segment and the row that are next.
    next: (usize, usize, usize),
    deferred: Vec<DeferredColumn>,
    next_deferred: usize,
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

/// A column that is inserted when all entities are there.
struct DeferredColumn {
    column: RawColumn<'static>,
    owners: ColumnOwners,
    relation: Option<Relation>,
    /// Its line in the report.
    line: Option<usize>,
    next: usize,
}

impl DeferredColumn {
    fn new(column: RawColumn<'static>, owners: ColumnOwners, relation: Option<Relation>) -> Self {
        Self { column, owners, relation, line: None, next: 0 }
    }
}

/// Takes out the columns that need all entities: relationships, then late components, in the order of the save.
fn split_deferred(
    registry: &ComponentRegistry,
    pending: &mut [PendingArchetype<'static>],
) -> Vec<DeferredColumn> {
    let (mut relations, mut late) = (Vec::new(), Vec::new());
    for archetype in pending {
        let waits = |column: &mut RawColumn<'_>| {
            let entry = &registry.entries[column.number];
            entry.late || entry.relation.is_some()
        };
        for column in archetype.columns.extract_if(.., waits) {
            let entry = &registry.entries[column.number];
            let list = if entry.late { &mut late } else { &mut relations };
            list.push(DeferredColumn::new(
                column,
                ColumnOwners::Archetype(archetype.entities.clone()),
                entry.relation,
            ));
        }
    }
    relations.extend(late);
    relations
}

enum ColumnOwners {
    /// An archetype, as a range of all entities.
    Archetype(Range<usize>),
    Listed(Vec<Option<Entity>>),
}

impl ColumnOwners {
    fn len(&self) -> usize {
        match self {
            Self::Archetype(range) => range.len(),
            Self::Listed(entities) => entities.len(),
        }
    }
}

impl SlicedCommit {
    pub(super) fn new(world: &mut World, input: &LoadInput, entities: PartlyStaged) -> Self {
        let registry = &*input.registry;
        let (ids, map, staged, order) = entities.into_parts();
        let Staged { archetypes, resources, extras, carry, report } = staged;
        let mut pending = PendingArchetype::from_staged(world, registry, archetypes, RawColumn::new);
        let unmarked = commit::unmarked(world, registry, &pending, ids.entities());
        let mut deferred = split_deferred(registry, &mut pending);
        for deferred in &mut deferred {
            let key = registry.core.descriptors()[deferred.column.number].key();
            deferred.line = report.components.iter().position(|line| line.key == key);
        }
        let extras = extras.into_iter().filter_map(|extra| ExtraColumn::new(world, registry, extra, &map));
        deferred.extend(extras.map(|ExtraColumn { column, entities }| {
            DeferredColumn::new(column, ColumnOwners::Listed(entities), None)
        }));
        let tags = pending_tags(world);
        commit::choose_segments(world, registry, &mut pending, &tags);
        let resources = resources
            .into_iter()
            .filter_map(|(number, column)| RawColumn::new(world, registry, number, column, 1))
            .collect();
        let lists: Vec<SavedList> = saved_lists(registry, &order).collect();
        let deferred_rows: usize = deferred.iter().map(|deferred| deferred.owners.len()).sum();
        Self {
            total: (ids.entities().len() + deferred_rows + unmarked.len() + lists.len()).max(1),
            unknown_order: unknown_order(&input.snapshot, registry, &order),
            ids,
            map,
            tags,
            pending,
            next: (0, 0, 0),
            deferred,
            next_deferred: 0,
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
            && self.next_deferred == self.deferred.len()
            && self.next_mark == self.unmarked.len()
            && self.next_list == self.lists.len()
    }

    /// Does the next few hundred rows.
    pub(super) fn commit_part(&mut self, world: &mut World) -> Result<()> {
        let work = || {
            let right = self.commit_next(world);
            world.flush();
            right
        };
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::custom("another thread allocated entities during the load: load again")),
            Err(panic) => Err(commit::undone(world, &*panic)),
        }
    }

    fn commit_next(&mut self, world: &mut World) -> bool {
        if self.next.0 < self.pending.len() {
            return self.spawn(world);
        }
        if self.next_deferred < self.deferred.len() {
            self.insert(world);
        } else if self.next_mark < self.unmarked.len() {
            let marked = self.next_mark..self.unmarked.len().min(self.next_mark + AT_ONCE);
            self.done += marked.len();
            self.next_mark = marked.end;
            commit::mark(world, self.unmarked[marked].to_vec());
        } else {
            let lists = self.next_list..self.lists.len().min(self.next_list + AT_ONCE);
            self.done += lists.len();
            self.next_list = lists.end;
            self.lists[lists].iter().for_each(|list| list.apply(world));
        }
        true
    }

    /// Spawns the next rows, of one segment. Returns whether all ids are right.
    fn spawn(&mut self, world: &mut World) -> bool {
        let (number, segment_number, row) = self.next;
        let pending = &self.pending[number];
        let Some(segment) = pending.segments.get(segment_number) else {
            self.next = (number + 1, 0, 0);
            return true;
        };
        let rows = row.max(segment.rows.start)..segment.rows.end.min(row.max(segment.rows.start) + AT_ONCE);
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
        if segment.slot.is_some() {
            let mut spare = SpareIds::new(world);
            let rows = SegmentRows { segment, rows };
            let right = pending.spawn_batch(world, rows, entities, &self.tags, &mut spare);
            spare.release(world);
            return right;
        }
        for &entity in &entities[rows.clone()] {
            // Nothing else has these ids, so this cannot fail.
            let _ = world.spawn_at(entity, (Pending, Disabled));
        }
        pending.insert_rows(world, SegmentRows { segment, rows }, entities);
        true
    }

    /// Inserts the next values of a column that had to wait.
    fn insert(&mut self, world: &mut World) {
        let deferred = &mut self.deferred[self.next_deferred];
        let rows = deferred.next..deferred.owners.len().min(deferred.next + AT_ONCE);
        self.done += rows.len();
        deferred.next = rows.end;
        if deferred.next == deferred.owners.len() {
            self.next_deferred += 1;
        }
        let disabled = world.components().component_id::<Disabled>() == Some(deferred.column.id);
        let mut left_out = 0;
        for row in rows {
            let target = deferred.relation.and_then(|relation| deferred.column.target(row, relation.offset));
            let entity = match &deferred.owners {
                ColumnOwners::Archetype(range) => Some(self.ids.entities()[range.start + row]),
                ColumnOwners::Listed(entities) => entities[row],
            };
            let Some(taken) = deferred.column.take_row(row) else { continue };
            match entity {
                // A relationship to nothing is none: its target was not saved.
                _ if target == Some(Entity::PLACEHOLDER) => {
                    left_out += 1;
                    deferred.column.discard(taken);
                }
                Some(entity) => {
                    if disabled {
                        self.stay_disabled.insert(entity);
                    }
                    insert(world, entity, &deferred.column, taken);
                }
                None => deferred.column.discard(taken),
            }
        }
        if let Some(line) = deferred.line {
            self.report.components[line].left_out += left_out;
        }
    }

    /// Makes the new entities part of the world, and removes those that they replace. The cost is that of taking two tags away from each new entity, and of despawning each old one.
    pub(super) fn switch(mut self: Box<Self>, world: &mut World, input: &LoadInput) -> Result<Loaded> {
        let LoadInput { snapshot, registry, mode, options } = input;
        // Without the new ones, which are pending.
        let mut replaced = replaced(world, mode)?;
        // The new ones move into tables that have room if the old ones go first. Only where no code of the game can keep the
        // new ones from coming: after that nothing can be undone.
        let mut old = Ok(());
        if activation_is_silent(world) {
            let replaced = std::mem::take(&mut replaced);
            old = catch_unwind(AssertUnwindSafe(|| commit::despawn(world, registry, replaced)));
        }
        let activate_all = || activate(world, self.ids.entities(), &self.stay_disabled);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(activate_all)) {
            return Err(commit::undone(world, &*panic));
        }
        // Systems have run since the first of them came: for them, all of this is new.
        overwrite::touch_all(world, self.ids.entities());
        // They are the world's now.
        self.ids.keep();
        if let Err(panic) = old {
            resume_unwind(panic);
        }
        let resources = std::mem::take(&mut self.resources);
        let (map, carry) = (std::mem::take(&mut self.map), std::mem::take(&mut self.carry));
        let (mut report, unknown_order) =
            (std::mem::take(&mut self.report), std::mem::take(&mut self.unknown_order));
        drop(self);
        let existing = ExistingResources::of(mode);
        commit::replace(world, registry, replaced, resources, existing, &mut report);
        let committed = CommittedLoad { map, report, carry, respawned: Vec::new(), unknown_order };
        Ok(LoadCompletion::new(mode, options).run(world, registry, snapshot, committed))
    }
}

/// What did not come into the world is dropped.
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
        for deferred in &mut self.deferred {
            deferred.column.discard_rows(deferred.next..deferred.owners.len());
        }
        for resource in &mut self.resources {
            resource.discard_rows(0..1);
        }
    }
}
