//! Makes a staged load so.
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
use bonfire::engine::{Carry, EntityMap, SavedOrder, Staged, StagedArchetype, StagedColumn, StagedExtra};
use bonfire::{Error, LoadReport, Result};

use super::moved::{MovedColumn, TakenRow, insert, insert_resource, insert_row};
use super::relation::{RowOrder, discard_null, drop_without_target, release};
use super::row::{self, RowSource, SLOTS, Spare};
use crate::registry::{Batches, OneByOne, Registered};
use crate::{SaveScope, Saved, StableIds};

pub(super) struct Plan<'a> {
    /// The new entities, archetype by archetype.
    pub(super) entities: Vec<Entity>,
    pub(super) map: &'a EntityMap,
    pub(super) order: SavedOrder,
    pub(super) replaced: Vec<Entity>,
    pub(super) merge: bool,
}

/// An archetype on its way into the world.
pub(super) struct Moving<'s> {
    /// Its entities, as a range of all.
    pub(super) entities: Range<usize>,
    /// Sorted by component id.
    pub(super) columns: Vec<MovedColumn<'s>>,
    pub(super) segments: Vec<Segment>,
}

/// Rows that have the same components.
pub(super) struct Segment {
    pub(super) rows: Range<usize>,
    /// Which columns of the archetype.
    pub(super) columns: Vec<usize>,
    /// How they are spawned: by batch, or by inserting.
    pub(super) slot: Option<usize>,
}

/// A value that is inserted when all entities are there.
pub(super) struct Late {
    pub(super) entity: Entity,
    pub(super) archetype: usize,
    pub(super) column: usize,
    pub(super) row: TakenRow,
}

pub(super) fn commit(
    world: &mut World,
    registry: &Registered,
    staged: Staged<'_>,
    plan: Plan<'_>,
    report: &mut LoadReport,
) -> Result<Carry> {
    let Plan { mut entities, map, order, replaced, merge } = plan;
    let Staged { archetypes, resources, extras, carry, .. } = staged;
    let mut moving = Moving::all(world, registry, archetypes, MovedColumn::new);
    let resources: Vec<MovedColumn<'_>> = (resources.into_iter())
        .filter_map(|(number, column)| MovedColumn::new(world, registry, number, column, 1))
        .collect();
    let extras: Vec<Extra<'_>> =
        extras.into_iter().filter_map(|extra| Extra::new(world, registry, extra, map)).collect();

    drop_without_target(registry, &mut moving, report);
    let late_components = take_late(registry, &mut moving, &entities);
    choose_segments(world, registry, &mut moving, &[]);
    let row_order = RowOrder::new(registry, &moving, &entities);

    let unmarked = unmarked(world, registry, &moving, &entities);
    world.resource_mut::<StableIds>().loading(true);
    let work = || {
        let right = spawn(world, &moving, &mut entities, &[]);
        for Late { entity, archetype, column, row } in late_components {
            insert(world, entity, &moving[archetype].columns[column], row);
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
    world.resource_mut::<StableIds>().loading(false);
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

    replace(world, registry, replaced, resources, merge, report);
    Ok(carry)
}

/// The entities of a load are there: it is done, but for what they replace. A panic in what follows is the game's own, and
/// nothing is left to undo.
pub(super) fn replace(
    world: &mut World,
    registry: &Registered,
    replaced: Vec<Entity>,
    mut resources: Vec<MovedColumn<'_>>,
    merge: bool,
    report: &mut LoadReport,
) {
    despawn(world, registry, replaced);
    if merge {
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
pub(super) fn mark(world: &mut World, entities: Vec<Entity>) {
    for entity in entities {
        if let Ok(mut entity) = world.get_entity_mut(entity)
            && !entity.contains::<Saved>()
        {
            entity.insert(Saved);
        }
    }
}

/// Removes what a load leaves no place for.
pub(super) fn despawn(world: &mut World, registry: &Registered, entities: Vec<Entity>) {
    release(world, registry, &entities);
    // From the last row on, so that none has to be moved into the place of another.
    for entity in entities.into_iter().rev() {
        if let Ok(entity) = world.get_entity_mut(entity) {
            entity.despawn();
        }
    }
    world.flush();
}

pub(super) fn load_resources(
    world: &mut World,
    registry: &Registered,
    resources: Vec<MovedColumn<'_>>,
    report: &mut LoadReport,
) {
    for mut resource in resources {
        let entry = &registry.entries[resource.number];
        if let Err(error) = insert_resource(world, &mut resource, entry.load_resource.as_ref()) {
            let key = registry.registry.descriptors()[resource.number].key();
            report.callback_errors.push(error.in_key(key));
        }
    }
    world.flush();
}

/// Entities that the next save would not have. They get the mark.
pub(super) fn unmarked(
    world: &World,
    registry: &Registered,
    moving: &[Moving<'_>],
    entities: &[Entity],
) -> Vec<Entity> {
    let without = moving.iter().filter(|archetype| archetype.needs_mark(world, registry));
    without.flat_map(|archetype| &entities[archetype.entities.clone()]).copied().collect()
}

/// The rows of a component that comes back from being carried.
pub(super) struct Extra<'s> {
    pub(super) column: MovedColumn<'s>,
    pub(super) entities: Vec<Option<Entity>>,
}

impl<'s> Extra<'s> {
    pub(super) fn new(
        world: &World,
        registry: &Registered,
        extra: StagedExtra<'s>,
        map: &EntityMap,
    ) -> Option<Self> {
        let entities: Vec<_> = extra.ids.iter().map(|&id| map.get(id).map(Entity::from)).collect();
        let mut column = MovedColumn::new(world, registry, extra.component, extra.column, entities.len())?;
        if let Some(relation) = registry.entries[extra.component].relation {
            discard_null(&mut column, entities.len(), relation);
        }
        Some(Self { column, entities })
    }

    pub(super) fn insert(mut self, world: &mut World) {
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
pub(super) fn take_late(registry: &Registered, moving: &mut [Moving<'_>], entities: &[Entity]) -> Vec<Late> {
    let mut late = Vec::new();
    for (archetype, moving) in moving.iter_mut().enumerate() {
        for (column, moved) in moving.columns.iter_mut().enumerate() {
            if registry.entries[moved.number].late {
                for (row, &entity) in entities[moving.entities.clone()].iter().enumerate() {
                    late.extend(moved.take_row(row).map(|row| Late { entity, archetype, column, row }));
                }
            }
        }
    }
    late
}

/// Cuts archetypes into runs of rows with the same components, and gives the largest sets of components a slot. All
/// entities get the tags beside their own components.
pub(super) fn choose_segments(
    world: &World,
    registry: &Registered,
    moving: &mut [Moving<'_>],
    tags: &[ComponentId],
) {
    for archetype in &mut *moving {
        let rows = archetype.entities.len();
        let columns = &archetype.columns;
        let sparse: Vec<&MovedColumn<'_>> = columns.iter().filter(|column| !column.is_everywhere()).collect();
        let alike = |a: usize, b: usize| sparse.iter().all(|column| column.has(a) == column.has(b));
        let mut start = 0;
        while start < rows {
            let with = (0..columns.len()).filter(|&column| columns[column].has(start)).collect();
            let end = match sparse.is_empty() {
                true => rows,
                false => (start + 1..rows).find(|&row| !alike(start, row)).unwrap_or(rows),
            };
            archetype.segments.push(Segment { rows: start..end, columns: with, slot: None });
            start = end;
        }
    }
    let Batches { sets_max, rows_min } = registry.batches;
    let slots_max = sets_max.min(SLOTS);
    if slots_max == 0 || !row::works() {
        return;
    }
    let set = |archetype: &Moving<'_>, segment: &Segment| -> Vec<ComponentId> {
        archetype.set(segment, tags).map(|(id, _)| id).collect()
    };
    let mut sizes: HashMap<Vec<ComponentId>, usize> = HashMap::new();
    for archetype in &*moving {
        for segment in &archetype.segments {
            *sizes.entry(set(archetype, segment)).or_default() += segment.rows.len();
        }
    }
    let mut slots: HashMap<Vec<ComponentId>, usize> = HashMap::new();
    let mut free = Vec::new();
    for slot in 0..slots_max {
        match row::bound(world, slot) {
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
    for archetype in moving {
        for number in 0..archetype.segments.len() {
            let slot = slots.get(&set(archetype, &archetype.segments[number])).copied();
            archetype.segments[number].slot = slot;
        }
    }
}

/// Spawns all entities and applies the commands of their hooks. Those that are spawned by batches get the tags. Returns whether all ids are right; if not, `entities` are
/// those that were spawned.
pub(super) fn spawn(
    world: &mut World,
    moving: &[Moving<'_>],
    entities: &mut [Entity],
    tags: &[ComponentId],
) -> bool {
    for archetype in moving {
        for segment in archetype.segments.iter().filter(|segment| segment.slot.is_none()) {
            for &entity in &entities[archetype.entities.clone()][segment.rows.clone()] {
                // Nothing else has these ids, so this cannot fail.
                let _ = world.spawn_empty_at(entity);
            }
        }
    }
    let mut right = true;
    let mut spare = Spare::new(world);
    for archetype in moving {
        for segment in &archetype.segments {
            let (rows, entities) = (segment.rows.clone(), &mut entities[archetype.entities.clone()]);
            right &= archetype.spawn_batch(world, segment, rows, entities, tags, &mut spare);
        }
    }
    spare.release(world);
    world.flush();
    for archetype in moving {
        for segment in archetype.segments.iter().filter(|segment| segment.slot.is_none()) {
            let rows = segment.rows.clone();
            archetype.insert_rows(world, segment, rows, &entities[archetype.entities.clone()]);
        }
    }
    right
}

/// [`MovedColumn::new`] or [`MovedColumn::in_parts`].
type MoveColumn<'s> = fn(&World, &Registered, usize, StagedColumn<'s>, usize) -> Option<MovedColumn<'s>>;

impl<'s> Moving<'s> {
    pub(super) fn all(
        world: &World,
        registry: &Registered,
        archetypes: Vec<StagedArchetype<'s>>,
        column: MoveColumn<'s>,
    ) -> Vec<Self> {
        let mut moving = Vec::with_capacity(archetypes.len());
        let mut start = 0;
        for archetype in archetypes {
            let rows = archetype.ids.len();
            let mut columns: Vec<MovedColumn<'_>> = (archetype.columns.into_iter())
                .filter_map(|(number, staged)| column(world, registry, number, staged, rows))
                .collect();
            columns.sort_by_key(|column| column.id);
            moving.push(Self { entities: start..start + rows, columns, segments: Vec::new() });
            start += rows;
        }
        moving
    }

    /// Whether nothing makes its entities part of the next save: they are of a save that was made without marks, in a world
    /// that saves what is marked; or this build knows nothing of them.
    pub(super) fn needs_mark(&self, world: &World, registry: &Registered) -> bool {
        let saved = world.components().component_id::<Saved>();
        !self.columns.iter().any(|column| {
            Some(column.id) == saved
                || registry.scope == SaveScope::Persisted && !registry.entries[column.number].incidental
        })
    }
}

impl Moving<'_> {
    /// The components that entities of a segment are spawned with, sorted, and their columns. Tags have none, unless they
    /// are saved too.
    fn set<'a>(
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
    pub(super) fn spawn_batch(
        &self,
        world: &mut World,
        segment: &Segment,
        rows: Range<usize>,
        entities: &mut [Entity],
        tags: &[ComponentId],
        spare: &mut Spare,
    ) -> bool {
        let Some(slot) = segment.slot else { return true };
        let ids: Vec<ComponentId> = self.set(segment, tags).map(|(id, _)| id).collect();
        let source = |column: Option<usize>| {
            column.map_or_else(RowSource::tag, |column| self.columns[column].source(rows.start))
        };
        let sources: Vec<_> = self.set(segment, tags).map(|(_, column)| source(column)).collect();
        // SAFETY: each row of the segment has a value in each of its columns, one after the other, because presence is
        // the same for all of them. They are moved here and nowhere else: segments share no rows, a row is spawned once,
        // `insert` takes only rows that were taken out of them before, and a column never drops a row on its own. Tags
        // are in tables and have no bytes. The entities were allocated for these rows.
        unsafe { row::spawn(slot, world, &ids, &sources, &mut entities[rows], spare) }
    }

    /// Inserts some rows of a segment that is not spawned by batches; the entities are there.
    #[expect(unsafe_code, reason = "hands rows over one by one")]
    pub(super) fn insert_rows(
        &self,
        world: &mut World,
        segment: &Segment,
        rows: Range<usize>,
        entities: &[Entity],
    ) {
        let columns: Vec<&MovedColumn<'_>> =
            segment.columns.iter().map(|&column| &self.columns[column]).collect();
        let ids: Vec<ComponentId> = columns.iter().map(|column| column.id).collect();
        let one_by_one = world.resource::<OneByOne>().0;
        for row in rows {
            // SAFETY: as for batches; this segment is not spawned by one.
            unsafe { insert_row(world, entities[row], &ids, &columns, row, one_by_one) };
        }
    }
}

/// Takes back what was spawned. Commands that hooks left behind find their entities before these are despawned; one of
/// them may panic again. A panic while they are despawned is passed on: after one in a `Drop`, Bevy's tables are not sound.
pub(super) fn undo(world: &mut World, registry: &Registered, entities: &[Entity]) {
    for &entity in entities {
        // Those that are spawned stay as they are.
        let _ = world.spawn_empty_at(entity);
    }
    let _ = catch_unwind(AssertUnwindSafe(|| world.flush()));
    despawn(world, registry, entities.to_vec());
}

/// What to say of a load that a panic has stopped.
pub(super) fn undone(world: &mut World, panic: &(dyn Any + Send)) -> Error {
    world.resource_mut::<OneByOne>().0 = true;
    Error::custom(format!("a hook or an observer panicked, the load was undone: {}", panic_message(panic)))
}

/// What a panic says.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
