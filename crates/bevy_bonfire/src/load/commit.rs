//! Applies a staged load to the world.
//!
//! | step | |
//! |---|---|
//! | 1 | all entities are spawned, in the order of the save; commands of hooks and observers wait |
//! | 2 | the commands are applied: every entity is there |
//! | 3 | late components; lists of sources whose order is not that of rows are put in order |
//! | 4 | what is replaced is despawned |
//! | 5 | resources |
//!
//! Nothing here fails because of the save. A hook or an observer of the game may panic in steps 1 to 3: then what was
//! spawned is despawned, and the world is as it was.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{
    Carry, EntityMap, SaveScope, SavedOrder, Staged, StagedArchetype, StagedColumn, StagedExtra,
};
use bonfire::{Error, LoadReport, Result};

use super::LoadMode;
use super::batch_spawn::{self, ColumnRows, SLOTS, SpareIds};
use super::raw_column::{RawColumn, TakenRow, insert, insert_resource, insert_row};
use super::relation::{RowOrder, discard_null, drop_without_target, release};
use crate::registry::{Batches, ComponentRegistry, InsertMode};
use crate::selection::Saved;
use crate::stable_id::StableIds;

/// What a commit puts into a world beside staged rows, and how.
pub(crate) struct CommitInput<'a> {
    /// The new entities, archetype by archetype.
    pub(crate) entities: Vec<Entity>,
    pub(crate) map: &'a EntityMap,
    pub(crate) order: SavedOrder,
    pub(crate) replaced: Vec<Entity>,
    pub(crate) existing: ExistingResources,
}

/// What a load does with resources that the world has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingResources {
    Overwrite,
    Keep,
}

impl ExistingResources {
    pub(crate) fn of(mode: &LoadMode) -> Self {
        match mode {
            LoadMode::Merge => Self::Keep,
            _ => Self::Overwrite,
        }
    }
}

/// An archetype on its way into the world.
pub(crate) struct PendingArchetype<'s> {
    /// Its entities, as a range of all.
    pub(crate) entities: Range<usize>,
    /// Sorted by component id.
    pub(crate) columns: Vec<RawColumn<'s>>,
    pub(crate) segments: Vec<Segment>,
}

/// Rows that have the same components.
pub(crate) struct Segment {
    pub(crate) rows: Range<usize>,
    /// Which columns of the archetype.
    pub(crate) columns: Vec<usize>,
    /// How they are spawned: by batch, or by inserting.
    pub(crate) slot: Option<usize>,
}

/// Some rows of a segment.
pub(crate) struct SegmentRows<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) rows: Range<usize>,
}

/// A value that is inserted when all entities are there.
pub(crate) struct LateValue {
    pub(crate) entity: Entity,
    pub(crate) archetype: usize,
    pub(crate) column: usize,
    pub(crate) row: TakenRow,
}

pub(crate) fn commit(
    world: &mut World,
    registry: &ComponentRegistry,
    staged: Staged<'_>,
    input: CommitInput<'_>,
    report: &mut LoadReport,
) -> Result<Carry> {
    let CommitInput { mut entities, map, order, replaced, existing } = input;
    let Staged { archetypes, resources, extras, carry, .. } = staged;
    let mut pending = PendingArchetype::from_staged(world, registry, archetypes, RawColumn::new);
    let resources: Vec<RawColumn<'_>> = (resources.into_iter())
        .filter_map(|(number, column)| RawColumn::new(world, registry, number, column, 1))
        .collect();
    let extras: Vec<ExtraColumn<'_>> =
        extras.into_iter().filter_map(|extra| ExtraColumn::new(world, registry, extra, map)).collect();

    drop_without_target(registry, &mut pending, report);
    let late_components = take_late(registry, &mut pending, &entities);
    choose_segments(world, registry, &mut pending, &[]);
    let row_order = RowOrder::new(registry, &pending, &entities);

    let unmarked = unmarked(world, registry, &pending, &entities);
    world.resource_mut::<StableIds>().begin_load();
    let work = || {
        let right = spawn(world, &pending, &mut entities, &[]);
        for LateValue { entity, archetype, column, row } in late_components {
            insert(world, entity, &pending[archetype].columns[column], row);
        }
        for extra in extras {
            extra.insert(world);
        }
        mark(world, unmarked);
        world.flush();
        row_order.apply(world, registry, &order);
        right
    };
    let done = catch_unwind(AssertUnwindSafe(work));
    world.resource_mut::<StableIds>().end_load();
    match done {
        Ok(true) => {}
        Ok(false) => {
            undo(world, registry, &entities);
            return Err(Error::custom("another thread allocated entities during the load: load again"));
        }
        Err(panic) => {
            let error = undone(world, &*panic);
            undo(world, registry, &entities);
            return Err(error);
        }
    }

    replace(world, registry, replaced, resources, existing, report);
    Ok(carry)
}

/// The entities of a load are there: it is done, but for what they replace. A panic in what follows is the game's own, and
/// nothing is left to undo.
pub(crate) fn replace(
    world: &mut World,
    registry: &ComponentRegistry,
    replaced: Vec<Entity>,
    mut resources: Vec<RawColumn<'_>>,
    existing: ExistingResources,
    report: &mut LoadReport,
) {
    despawn(world, registry, replaced);
    if existing == ExistingResources::Keep {
        resources.retain_mut(|resource| {
            let there = world.contains_resource_by_id(resource.id);
            if there {
                resource.discard_row(0);
            }
            !there
        });
    }
    load_resources(world, registry, resources, report);
}

/// Makes entities part of saves.
pub(crate) fn mark(world: &mut World, entities: Vec<Entity>) {
    for entity in entities {
        if let Ok(mut entity) = world.get_entity_mut(entity)
            && !entity.contains::<Saved>()
        {
            entity.insert(Saved);
        }
    }
}

/// Removes what a load leaves no place for.
pub(crate) fn despawn(world: &mut World, registry: &ComponentRegistry, entities: Vec<Entity>) {
    release(world, registry, &entities);
    // From the last row on, so that none has to be moved into the place of another.
    for entity in entities.into_iter().rev() {
        if let Ok(entity) = world.get_entity_mut(entity) {
            entity.despawn();
        }
    }
    world.flush();
}

pub(crate) fn load_resources(
    world: &mut World,
    registry: &ComponentRegistry,
    resources: Vec<RawColumn<'_>>,
    report: &mut LoadReport,
) {
    for mut resource in resources {
        let entry = &registry.entries[resource.number];
        if let Err(error) = insert_resource(world, &mut resource, entry.load_resource.as_ref()) {
            let key = registry.core.descriptors()[resource.number].key();
            report.callback_errors.push(error.in_key(key));
        }
    }
    world.flush();
}

/// Entities that the next save would not have. They get the mark.
pub(crate) fn unmarked(
    world: &World,
    registry: &ComponentRegistry,
    pending: &[PendingArchetype<'_>],
    entities: &[Entity],
) -> Vec<Entity> {
    let without = pending.iter().filter(|archetype| archetype.needs_mark(world, registry));
    without.flat_map(|archetype| &entities[archetype.entities.clone()]).copied().collect()
}

/// The rows of a component that comes back from being carried.
pub(crate) struct ExtraColumn<'s> {
    pub(crate) column: RawColumn<'s>,
    pub(crate) entities: Vec<Option<Entity>>,
}

impl<'s> ExtraColumn<'s> {
    pub(crate) fn new(
        world: &World,
        registry: &ComponentRegistry,
        extra: StagedExtra<'s>,
        map: &EntityMap,
    ) -> Option<Self> {
        let entities: Vec<_> = extra.ids.iter().map(|&id| map.get(id).map(Entity::from)).collect();
        let mut column = RawColumn::new(world, registry, extra.component, extra.column, entities.len())?;
        if let Some(relation) = registry.entries[extra.component].relation {
            discard_null(&mut column, entities.len(), relation);
        }
        Some(Self { column, entities })
    }

    pub(crate) fn insert(mut self, world: &mut World) {
        for row in 0..self.entities.len() {
            match (self.entities[row], self.column.take_row(row)) {
                (Some(entity), Some(taken)) => insert(world, entity, &self.column, taken),
                (None, Some(taken)) => self.column.discard(taken),
                (_, None) => {}
            }
        }
    }
}

/// Takes out the components that are marked as late, in the order of the save.
pub(crate) fn take_late(
    registry: &ComponentRegistry,
    pending: &mut [PendingArchetype<'_>],
    entities: &[Entity],
) -> Vec<LateValue> {
    let mut late = Vec::new();
    for (archetype, pending) in pending.iter_mut().enumerate() {
        for (column, raw) in pending.columns.iter_mut().enumerate() {
            if registry.entries[raw.number].late {
                for (row, &entity) in entities[pending.entities.clone()].iter().enumerate() {
                    late.extend(raw.take_row(row).map(|row| LateValue { entity, archetype, column, row }));
                }
            }
        }
    }
    late
}

/// Cuts archetypes into runs of rows with the same components, and gives the largest sets of components a slot. All
/// entities get the tags beside their own components.
pub(crate) fn choose_segments(
    world: &World,
    registry: &ComponentRegistry,
    pending: &mut [PendingArchetype<'_>],
    tags: &[ComponentId],
) {
    pending.iter_mut().for_each(PendingArchetype::cut_segments);
    let Batches { sets_max, rows_min } = registry.batches;
    let slots_max = sets_max.min(SLOTS);
    if slots_max == 0 || !batch_spawn::is_supported() {
        return;
    }
    let mut sizes: HashMap<Vec<ComponentId>, usize> = HashMap::new();
    for archetype in &*pending {
        for segment in &archetype.segments {
            *sizes.entry(archetype.component_ids(segment, tags)).or_default() += segment.rows.len();
        }
    }
    let slots = choose_slots(world, sizes, slots_max, rows_min);
    for archetype in pending {
        for number in 0..archetype.segments.len() {
            let set = archetype.component_ids(&archetype.segments[number], tags);
            archetype.segments[number].slot = slots.get(&set).copied();
        }
    }
}

/// The slots of sets of components: those that the world has on record, and free ones for the largest others. `sizes` are the
/// rows of each set.
fn choose_slots(
    world: &World,
    sizes: HashMap<Vec<ComponentId>, usize>,
    slots_max: usize,
    rows_min: usize,
) -> HashMap<Vec<ComponentId>, usize> {
    let mut slots: HashMap<Vec<ComponentId>, usize> = HashMap::new();
    let mut free = Vec::new();
    for slot in 0..slots_max {
        match batch_spawn::slot_components(world, slot) {
            Some(components) => {
                slots.insert(components.to_vec(), slot);
            }
            None => free.push(slot),
        }
    }
    let mut wanted: Vec<_> = sizes
        .into_iter()
        .filter(|(set, rows)| *rows >= rows_min && !set.is_empty() && !slots.contains_key(set))
        .collect();
    wanted.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    slots.extend(wanted.into_iter().map(|(set, _)| set).zip(free));
    slots
}

/// Spawns all entities and applies the commands of their hooks. Those that are spawned by batches get the tags. Returns whether all ids are right; if not, `entities` are
/// those that were spawned.
pub(crate) fn spawn(
    world: &mut World,
    pending: &[PendingArchetype<'_>],
    entities: &mut [Entity],
    tags: &[ComponentId],
) -> bool {
    for archetype in pending {
        for segment in archetype.segments.iter().filter(|segment| segment.slot.is_none()) {
            for &entity in &entities[archetype.entities.clone()][segment.rows.clone()] {
                // Nothing else has these ids, so this cannot fail.
                let _ = world.spawn_empty_at(entity);
            }
        }
    }
    let mut right = true;
    let mut spare = SpareIds::new(world);
    for archetype in pending {
        for segment in &archetype.segments {
            let (rows, entities) = (segment.rows.clone(), &mut entities[archetype.entities.clone()]);
            right &= archetype.spawn_batch(world, SegmentRows { segment, rows }, entities, tags, &mut spare);
        }
    }
    spare.release(world);
    world.flush();
    for archetype in pending {
        for segment in archetype.segments.iter().filter(|segment| segment.slot.is_none()) {
            let rows = segment.rows.clone();
            archetype.insert_rows(
                world,
                SegmentRows { segment, rows },
                &entities[archetype.entities.clone()],
            );
        }
    }
    right
}

/// [`RawColumn::new`] or [`RawColumn::in_parts`].
type NewRawColumn<'s> =
    fn(&World, &ComponentRegistry, usize, StagedColumn<'s>, usize) -> Option<RawColumn<'s>>;

impl<'s> PendingArchetype<'s> {
    /// Takes over the rows of staged archetypes.
    pub(crate) fn from_staged(
        world: &World,
        registry: &ComponentRegistry,
        archetypes: Vec<StagedArchetype<'s>>,
        new: NewRawColumn<'s>,
    ) -> Vec<Self> {
        let mut pending = Vec::with_capacity(archetypes.len());
        let mut start = 0;
        for archetype in archetypes {
            let rows = archetype.ids.len();
            let mut columns: Vec<RawColumn<'_>> = (archetype.columns.into_iter())
                .filter_map(|(number, column)| new(world, registry, number, column, rows))
                .collect();
            columns.sort_by_key(|column| column.id);
            pending.push(Self { entities: start..start + rows, columns, segments: Vec::new() });
            start += rows;
        }
        pending
    }

    /// Whether nothing makes its entities part of the next save: they are of a save that was made without marks, in a world
    /// that saves what is marked; or this build knows nothing of them.
    pub(crate) fn needs_mark(&self, world: &World, registry: &ComponentRegistry) -> bool {
        let saved = world.components().component_id::<Saved>();
        !self.columns.iter().any(|column| {
            Some(column.id) == saved
                || registry.scope == SaveScope::Persisted && !registry.entries[column.number].incidental
        })
    }
}

impl PendingArchetype<'_> {
    /// Cuts its rows into segments with the same components.
    fn cut_segments(&mut self) {
        let (rows, columns) = (self.entities.len(), &self.columns);
        let sparse: Vec<&RawColumn<'_>> = columns.iter().filter(|column| !column.is_everywhere()).collect();
        let are_alike = |a: usize, b: usize| sparse.iter().all(|column| column.has(a) == column.has(b));
        let mut start = 0;
        while start < rows {
            let with = (0..columns.len()).filter(|&column| columns[column].has(start)).collect();
            let end = match sparse.is_empty() {
                true => rows,
                false => (start + 1..rows).find(|&row| !are_alike(start, row)).unwrap_or(rows),
            };
            self.segments.push(Segment { rows: start..end, columns: with, slot: None });
            start = end;
        }
    }

    /// The components that entities of a segment are spawned with, sorted.
    fn component_ids(&self, segment: &Segment, tags: &[ComponentId]) -> Vec<ComponentId> {
        self.components(segment, tags).map(|(id, _)| id).collect()
    }

    /// The components that entities of a segment are spawned with, sorted, and their columns. Tags have none, unless they
    /// are saved too.
    fn components<'a>(
        &'a self,
        segment: &'a Segment,
        tags: &'a [ComponentId],
    ) -> impl Iterator<Item = (ComponentId, Option<usize>)> + 'a {
        let columns = segment.columns.iter().map(|&column| (self.columns[column].id, Some(column)));
        let mut columns = columns.peekable();
        let mut tags = tags.iter().copied().peekable();
        std::iter::from_fn(move || match (columns.peek(), tags.peek()) {
            (Some(&(id, _)), Some(&tag)) if tag < id => tags.next().map(|tag| (tag, None)),
            (Some(&(id, _)), tag) => {
                if tag == Some(&id) {
                    tags.next();
                }
                columns.next()
            }
            (None, _) => tags.next().map(|tag| (tag, None)),
        })
    }

    /// Spawns some rows of a segment, if it is spawned by batches. Returns whether all ids are right.
    #[expect(unsafe_code, reason = "hands rows over to a batch")]
    pub(crate) fn spawn_batch(
        &self,
        world: &mut World,
        SegmentRows { segment, rows }: SegmentRows<'_>,
        entities: &mut [Entity],
        tags: &[ComponentId],
        spare: &mut SpareIds,
    ) -> bool {
        let Some(slot) = segment.slot else { return true };
        let ids = self.component_ids(segment, tags);
        let source = |column: Option<usize>| {
            column.map_or_else(ColumnRows::tag, |column| self.columns[column].source(rows.start))
        };
        let sources: Vec<_> = self.components(segment, tags).map(|(_, column)| source(column)).collect();
        // SAFETY: each row of the segment has a value in each of its columns, one after the other, because presence is
        // the same for all of them. They are moved here and nowhere else: segments share no rows, a row is spawned once,
        // `insert` takes only rows that were taken out of them before, and a column never drops a row on its own. Tags
        // are in tables and have no bytes. The entities were allocated for these rows.
        unsafe { batch_spawn::spawn(slot, world, &ids, &sources, &mut entities[rows], spare) }
    }

    /// Inserts some rows of a segment that is not spawned by batches; the entities are there.
    #[expect(unsafe_code, reason = "hands rows over one by one")]
    pub(crate) fn insert_rows(
        &self,
        world: &mut World,
        SegmentRows { segment, rows }: SegmentRows<'_>,
        entities: &[Entity],
    ) {
        let columns: Vec<&RawColumn<'_>> =
            segment.columns.iter().map(|&column| &self.columns[column]).collect();
        let ids: Vec<ComponentId> = columns.iter().map(|column| column.id).collect();
        let mode = *world.resource::<InsertMode>();
        for row in rows {
            // SAFETY: as for batches; this segment is not spawned by one.
            unsafe { insert_row(world, entities[row], &ids, &columns, row, mode) };
        }
    }
}

/// Takes back what was spawned. Commands that hooks left behind find their entities before these are despawned; one of
/// them may panic again. A panic while they are despawned is passed on: after one in a `Drop`, Bevy's tables are not sound.
pub(crate) fn undo(world: &mut World, registry: &ComponentRegistry, entities: &[Entity]) {
    for &entity in entities {
        // Those that are spawned stay as they are.
        let _ = world.spawn_empty_at(entity);
    }
    let _ = catch_unwind(AssertUnwindSafe(|| world.flush()));
    despawn(world, registry, entities.to_vec());
}

/// The error of a load that a panic has stopped.
pub(crate) fn undone(world: &mut World, panic: &(dyn Any + Send)) -> Error {
    *world.resource_mut::<InsertMode>() = InsertMode::OneByOne;
    Error::custom(format!("a hook or an observer panicked, the load was undone: {}", panic_message(panic)))
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
