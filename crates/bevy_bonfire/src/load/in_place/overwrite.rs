//! Values of living entities, overwritten where they lie.
//!
//! That is allowed for mutable components: a game may write to them without hooks or observers. Systems find such changes by
//! change ticks, which are set here. Immutable components, relationships and components with an index are inserted instead,
//! and only where they differ. (The location of a value's last change, which Bevy can track, stays as it was.)

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;

use bevy_ecs::archetype::{Archetype, ArchetypeEntity, ArchetypeId};
use bevy_ecs::change_detection::{DetectChangesMut, Tick};
use bevy_ecs::component::{ComponentId, ComponentInfo, StorageType};
use bevy_ecs::entity::{Entity, EntityLocation};
use bevy_ecs::storage::{Table, TableId, TableRow};
use bevy_ecs::world::World;
use bonfire::engine::RowRun;
use bonfire::{Descriptor, EntityId};

use crate::load::Ticks;
use crate::load::spawn::RawColumn;

/// An archetype of a world whose rows a restore may overwrite.
pub(crate) struct LiveGroup {
    archetype: ArchetypeId,
    table: TableId,
    /// By row of the archetype, the row of the table, if others share the table.
    picked: Option<Vec<u32>>,
}

impl LiveGroup {
    pub(crate) fn new(world: &World, archetype: &Archetype) -> Self {
        let row = |row: &ArchetypeEntity| row.table_row().index_u32();
        let picked = whole_table(world, archetype).is_none();
        let picked = picked.then(|| archetype.entities().iter().map(row).collect());
        Self { archetype: archetype.id(), table: archetype.table_id(), picked }
    }

    pub(crate) fn components(&self, world: &World) -> Vec<ComponentId> {
        world
            .archetypes()
            .get(self.archetype)
            .map_or_else(Vec::new, |archetype| archetype.components().to_vec())
    }
}

/// Rows of a saved archetype whose entities are in one archetype of the world.
#[derive(Clone, Copy)]
pub(crate) struct MatchedRows<'a> {
    /// The number of the saved archetype.
    pub(crate) archetype: usize,
    pub(crate) group: &'a LiveGroup,
    pub(crate) runs: &'a [RowRun],
    /// By row of the saved archetype.
    pub(crate) ids: &'a [EntityId],
}

impl<'a> MatchedRows<'a> {
    pub(crate) fn rows(self) -> impl Iterator<Item = usize> + 'a {
        self.runs.iter().flat_map(|run| run.saved_row..run.saved_row + run.len)
    }

    pub(crate) fn entity(self, row: usize) -> Entity {
        self.ids[row].into()
    }
}

/// The table of an archetype, if it is its own.
pub(crate) fn whole_table<'w>(world: &'w World, archetype: &Archetype) -> Option<&'w Table> {
    let table = world.storages().tables.get(archetype.table_id())?;
    (table.entities().len() == archetype.len() as usize).then_some(table)
}

/// Saved rows that follow each other and lie so in the table, too.
struct ContiguousRows {
    saved: Range<usize>,
    row: usize,
}

/// Calls `each` with the parts of a run whose values can be moved by one copy, and `absent` with saved rows that have no
/// value.
fn for_contiguous_rows(
    group: &LiveGroup,
    column: &RawColumn<'_>,
    run: &RowRun,
    absent: &mut impl FnMut(usize),
    mut each: impl FnMut(ContiguousRows),
) {
    let saved = run.saved_row..run.saved_row + run.len;
    if group.picked.is_none() && column.is_everywhere() {
        return each(ContiguousRows { saved, row: run.row });
    }
    let at = |row: usize| {
        let at = run.row + row - run.saved_row;
        group.picked.as_ref().map_or(at, |picked| picked[at] as usize)
    };
    let mut row = saved.start;
    while row < saved.end {
        if !column.has(row) {
            absent(row);
            row += 1;
            continue;
        }
        let start = row;
        while row + 1 < saved.end && at(row + 1) == at(row) + 1 && column.is_contiguous(row) {
            row += 1;
        }
        row += 1;
        each(ContiguousRows { saved: start..row, row: at(start) });
    }
}

/// A column of a table, for writing.
pub(crate) struct LiveColumn<'w> {
    first: NonNull<u8>,
    stride: usize,
    changed: &'w [UnsafeCell<Tick>],
    summary: Option<&'w bevy_ecs::change_detection::AtomicTick>,
    now: Tick,
}

impl<'w> LiveColumn<'w> {
    #[expect(unsafe_code, reason = "component memory by column: what it buys are the rows `bevy_restore_*`")]
    pub(crate) fn new(world: &'w mut World, table: TableId, id: ComponentId) -> Option<Self> {
        let now = world.change_tick();
        let stride = world.components().get_info(id)?.layout().size();
        let cell = world.as_unsafe_world_cell();
        // SAFETY: the world is borrowed exclusively for as long as this lives, and nothing else of it is used.
        let table = unsafe { cell.storages() }.tables.get(table)?;
        if table.entities().is_empty() {
            return None;
        }
        // SAFETY: the table has a first row.
        let first =
            unsafe { table.get_column(id)?.get_data_unchecked(TableRow::new(nonmax::NonMaxU32::ZERO)) };
        let first = NonNull::new(first.as_ptr().cast_mut())?;
        let changed = table.get_changed_ticks_slice_for(id)?;
        Some(Self { first, stride, changed, summary: table.get_summary_tick(id), now })
    }

    /// The values of some rows.
    #[expect(unsafe_code, reason = "component memory by pointer")]
    fn rows(&self, rows: Range<usize>) -> NonNull<u8> {
        assert!(rows.start <= rows.end && rows.end <= self.changed.len());
        // SAFETY: the column has a value per row, as it has a tick.
        unsafe { self.first.add(rows.start * self.stride) }
    }

    #[expect(unsafe_code, reason = "ticks lie in cells")]
    fn touch(&self, rows: Range<usize>) {
        for cell in &self.changed[rows] {
            // SAFETY: the world is borrowed exclusively, and only this writes to it.
            unsafe { cell.get().write(self.now) };
        }
    }
}

impl LiveColumn<'_> {
    /// Overwrites values that follow each other. All of them count as changed.
    #[expect(unsafe_code, reason = "moves values by pointer")]
    pub(crate) fn overwrite(&self, column: &RawColumn<'_>, from: Range<usize>, row: usize) {
        let rows = row..row + from.len();
        let to = self.rows(rows.clone());
        self.touch(rows);
        // SAFETY: so many rows of the table, of the component's type, which only we use. A row of a delta is used once.
        unsafe { column.overwrite(from, to) };
    }

    /// Marks the whole column as changed. Callers that overwrote a value end with this.
    pub(crate) fn finish(&self) {
        if let Some(summary) = self.summary {
            summary.set(self.now);
        }
    }
}

/// Returns true if the value of an entity is another one than that of a row.
#[expect(unsafe_code, reason = "compares values by pointer")]
pub(crate) fn differs(
    world: &World,
    entity: Entity,
    column: &RawColumn<'_>,
    descriptor: &Descriptor,
    row: usize,
) -> bool {
    let Ok(entity) = world.get_entity(entity) else { return false };
    let Ok(value) = entity.get_by_id(column.id) else { return true };
    let Some(live) = NonNull::new(value.as_ptr().cast_mut()) else { return true };
    let mut differs = false;
    // SAFETY: one live value of the component's type, which nothing writes to.
    unsafe { column.differing(descriptor, row..row + 1, live, |_| differs = true) };
    differs
}

/// Overwrites one component of matched rows, in a table. Calls `absent` with saved rows that have none.
#[expect(unsafe_code, reason = "moves values by pointer")]
pub(crate) fn overwrite_table(
    world: &mut World,
    matched: MatchedRows<'_>,
    column: &RawColumn<'_>,
    descriptor: &Descriptor,
    ticks: Ticks,
    mut absent: impl FnMut(usize),
) {
    if column.is_tag() {
        return;
    }
    let Some(live) = LiveColumn::new(world, matched.group.table, column.id) else { return };
    let mut touched = false;
    for run in matched.runs {
        for_contiguous_rows(matched.group, column, run, &mut absent, |piece| {
            let rows = piece.row..piece.row + piece.saved.len();
            let to = live.rows(rows.clone());
            match ticks {
                Ticks::All => {
                    live.touch(rows);
                    touched = true;
                }
                // SAFETY: so many rows of the table, of the component's type, which only we use.
                Ticks::Differing => unsafe {
                    column.differing(descriptor, piece.saved.clone(), to, |row| {
                        live.touch(rows.start + row..rows.start + row + 1);
                        touched = true;
                    });
                },
            }
            // SAFETY: as above. Runs share no rows, and what is in a run is not spawned or inserted.
            unsafe { column.overwrite(piece.saved, to) };
        });
    }
    if let Some(summary) = live.summary.filter(|_| touched) {
        summary.set(live.now);
    }
}

/// Makes everything on these entities count as added now.
#[expect(unsafe_code, reason = "ticks lie in cells")]
pub(crate) fn touch_all(world: &mut World, entities: &[Entity]) {
    let now = world.change_tick();
    let mut rows: HashMap<ArchetypeId, Vec<EntityLocation>> = HashMap::new();
    for location in entities.iter().filter_map(|&entity| world.entities().get_spawned(entity).ok()) {
        rows.entry(location.archetype_id).or_default().push(location);
    }
    let cell = world.as_unsafe_world_cell();
    // SAFETY: the world is borrowed exclusively, and nothing else of it is used while this lives.
    let (storages, archetypes) = (unsafe { cell.storages() }, cell.archetypes());
    // SAFETY: as above, only this writes ticks.
    let set = |cell: &UnsafeCell<Tick>| unsafe { cell.get().write(now) };
    for (archetype, rows) in rows {
        let archetype = &archetypes[archetype];
        let Some(table) = storages.tables.get(archetype.table_id()) else { continue };
        for id in archetype.iter_components() {
            if let (Some(added), Some(changed)) =
                (table.get_added_ticks_slice_for(id), table.get_changed_ticks_slice_for(id))
            {
                for row in rows.iter().map(|location| location.table_row.index()) {
                    set(&added[row]);
                    set(&changed[row]);
                }
                if let Some(summary) = table.get_summary_tick(id) {
                    summary.set(now);
                }
                continue;
            }
            let Some(sparse) = storages.sparse_sets.get(id) else { continue };
            for location in &rows {
                let entity = archetype.entities()[location.archetype_row.index()].id();
                sparse.get_added_tick(entity).into_iter().for_each(set);
                sparse.get_changed_tick(entity).into_iter().for_each(set);
            }
        }
    }
}

/// Overwrites one component of an entity, wherever it lies.
#[expect(unsafe_code, reason = "moves a value by pointer")]
pub(crate) fn overwrite_one(
    world: &mut World,
    entity: Entity,
    column: &RawColumn<'_>,
    descriptor: &Descriptor,
    row: usize,
    ticks: Ticks,
) {
    let Ok(mut entity) = world.get_entity_mut(entity) else { return };
    let Ok(mut value) = entity.get_mut_by_id(column.id) else { return };
    let Some(live) = NonNull::new(value.bypass_change_detection().as_ptr()) else { return };
    let mut differs = ticks == Ticks::All;
    // SAFETY: one live value of the component's type, which only we use. The row is used here alone.
    unsafe {
        if ticks == Ticks::Differing {
            column.differing(descriptor, row..row + 1, live, |_| differs = true);
        }
        column.overwrite(row..row + 1, live);
    }
    if differs {
        value.set_changed();
    }
}

/// Calls `found` with the matched rows whose value is another one in the world, and `absent` with saved rows that have none.
#[expect(unsafe_code, reason = "compares values by pointer")]
pub(crate) fn differing(
    world: &mut World,
    matched: MatchedRows<'_>,
    column: &RawColumn<'_>,
    descriptor: &Descriptor,
    mut found: impl FnMut(usize),
    mut absent: impl FnMut(usize),
) {
    let in_table =
        world.components().get_info(column.id).map(ComponentInfo::storage_type) == Some(StorageType::Table);
    for run in matched.runs {
        if in_table {
            let Some(live) = LiveColumn::new(world, matched.group.table, column.id) else { return };
            for_contiguous_rows(matched.group, column, run, &mut absent, |piece| {
                let to = live.rows(piece.row..piece.row + piece.saved.len());
                // SAFETY: so many rows of the table, of the component's type, which nothing writes to.
                unsafe {
                    column
                        .differing(descriptor, piece.saved.clone(), to, |row| found(piece.saved.start + row));
                }
            });
            continue;
        }
        for_contiguous_rows(matched.group, column, run, &mut absent, |piece| {
            for row in piece.saved {
                let Ok(entity) = world.get_entity(matched.entity(row)) else { continue };
                let Ok(value) = entity.get_by_id(column.id) else { continue };
                let Some(live) = NonNull::new(value.as_ptr().cast_mut()) else { continue };
                // SAFETY: one live value of the component's type, which nothing writes to.
                unsafe { column.differing(descriptor, row..row + 1, live, |_| found(row)) };
            }
        });
    }
}

/// Returns true if a resource of the world has another value, or does not exist.
#[expect(unsafe_code, reason = "compares a value by pointer")]
pub(crate) fn resource_differs(world: &World, column: &RawColumn<'_>, descriptor: &Descriptor) -> bool {
    let live = world.get_resource_by_id(column.id).and_then(|value| NonNull::new(value.as_ptr().cast_mut()));
    let Some(live) = live.filter(|_| column.has(0)) else { return true };
    let mut differs = false;
    // SAFETY: one live value of the component's type, which nothing writes to.
    unsafe { column.differing(descriptor, 0..1, live, |_| differs = true) };
    differs
}
