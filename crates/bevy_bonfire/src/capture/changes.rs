//! The one change scan: which rows may be others than in an earlier capture.
//!
//! A row is as it was if the same entity is in the same row of the same archetype, and Bevy's change tick of the value is
//! not newer than the capture. Values can be moved around without a tick, but then another entity is in the row. Ticks are
//! compared 64 rows at a time; a column with a summary tick that is not newer is passed over whole.
//!
//! What is written past change detection (`bypass_change_detection`, interior mutability) has no tick, and is not seen.

use std::cell::UnsafeCell;

use bevy_ecs::change_detection::Tick;
use bevy_ecs::component::{ComponentId, StorageType};
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::DirtyRows;
use bonfire::{DataEntry, EntityId, Snapshot};

use super::INDEX_BITS;
use super::choose::ChosenArchetype;
use super::column::Rows;

/// Ticks of a baseline that is older than this are not compared: Bevy moves ticks that are older still.
const AGE_MAX: u32 = 1 << 31;

/// An earlier capture of the same world, and how to tell what has changed since.
pub(crate) struct EarlierCapture {
    /// Without its columns.
    pub(crate) snapshot: Snapshot,
    /// Its own order of siblings.
    pub(crate) order: Option<DataEntry>,
    pub(crate) ticks: TickRange,
}

/// After a baseline, and until now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickRange {
    since: u32,
    now: u32,
}

impl TickRange {
    /// `None` if the baseline is too old to be compared with.
    pub(crate) fn new(since: Tick, now: Tick) -> Option<Self> {
        let range = Self { since: since.get(), now: now.get() };
        (range.age() < AGE_MAX).then_some(range)
    }

    /// The number of ticks from the baseline until now.
    pub(crate) fn age(self) -> u32 {
        self.now.wrapping_sub(self.since)
    }

    pub(crate) fn has(self, tick: Tick) -> bool {
        self.now.wrapping_sub(tick.get()) < self.age()
    }

    /// Marks the rows whose value of a component may have changed.
    pub(crate) fn mark_changed(
        self,
        world: &World,
        rows: &Rows<'_>,
        id: ComponentId,
        changed: &mut impl ChangedRows,
    ) {
        let in_table =
            world.components().get_info(id).is_none_or(|info| info.storage_type() == StorageType::Table);
        if !in_table {
            let Some(set) = world.storages().sparse_sets.get(id) else { return };
            for (row, &entity) in rows.entities().iter().enumerate() {
                if set.get_ticks(entity).is_none_or(|found| self.has(found.changed)) {
                    changed.mark_row(row);
                }
            }
            return;
        }
        let table = rows.table();
        if table.get_summary_tick(id).is_some_and(|summary| !self.has(summary.get())) {
            return;
        }
        let Some(ticks) = table.get_changed_ticks_slice_for(id) else { return };
        match rows {
            Rows::Table(_) => self.mark_blocks(ticks, changed),
            Rows::Picked { rows, .. } => {
                for (row, &table_row) in rows.iter().enumerate() {
                    if self.has(read(&ticks[table_row as usize])) {
                        changed.mark_row(row);
                    }
                }
            }
        }
    }

    /// Marks the blocks of 64 rows in which a tick is newer than the baseline.
    fn mark_blocks(self, ticks: &[UnsafeCell<Tick>], changed: &mut impl ChangedRows) {
        let (now, age) = (self.now, self.age());
        let is_newer = |cell: &UnsafeCell<Tick>| now.wrapping_sub(read(cell).get()) < age;
        let mut mark = |number: usize, block: &[UnsafeCell<Tick>]| {
            if block.iter().fold(false, |any, cell| any | is_newer(cell)) {
                changed.mark_block(number, || {
                    block.iter().zip(0..).fold(0, |set, (cell, bit)| set | u64::from(is_newer(cell)) << bit)
                });
            }
        };
        let (blocks, rest) = ticks.as_chunks::<64>();
        blocks.iter().enumerate().for_each(|(number, block)| mark(number, block));
        mark(blocks.len(), rest);
    }

    /// Returns true if a resource may have changed.
    pub(crate) fn resource_changed(self, world: &World, id: ComponentId) -> bool {
        world.get_resource_change_ticks_by_id(id).is_none_or(|ticks| self.has(ticks.changed))
    }
}

/// Takes the rows that a [`TickRange`] finds.
pub(crate) trait ChangedRows {
    /// This row may have changed.
    fn mark_row(&mut self, row: usize);
    /// Some of the 64 rows of a block may have changed; `bits` computes which.
    fn mark_block(&mut self, block: usize, bits: impl FnOnce() -> u64);
}

/// Captures share memory by blocks: single rows do not matter.
impl ChangedRows for DirtyRows {
    fn mark_row(&mut self, row: usize) {
        self.mark(row);
    }
    fn mark_block(&mut self, block: usize, _: impl FnOnce() -> u64) {
        Self::mark_block(self, block);
    }
}

impl EarlierCapture {
    /// Marks the rows in which another entity is, or none was. Returns whether all are the same.
    pub(super) fn mark_ids(&self, rows: &Rows<'_>, place: usize, dirty: &mut DirtyRows) -> bool {
        let Some(archetype) = self.snapshot.archetypes().nth(place) else {
            *dirty = DirtyRows::all(rows.len());
            return false;
        };
        let mut rest = rows.entities();
        let mut block = 0;
        for ids in archetype.id_parts() {
            let (here, later) = rest.split_at(rest.len().min(ids.len()));
            let (entities, ids) = (here.chunks(64), ids.chunks(64));
            for (entities, ids) in entities.zip(ids) {
                if !same(entities, ids) {
                    dirty.mark_block(block);
                }
                block += 1;
            }
            rest = later;
        }
        let known = rows.len() - rest.len();
        if !rest.is_empty() {
            (known / 64..rows.len().div_ceil(64)).for_each(|block| dirty.mark_block(block));
        }
        rows.len() == archetype.len() && !dirty.any()
    }

    /// Whether a component of these entities may have changed.
    pub(super) fn any_changed(&self, world: &World, chosen: &ChosenArchetype<'_>, id: ComponentId) -> bool {
        let mut dirty = DirtyRows::none(chosen.rows.len());
        self.ticks.mark_changed(world, &chosen.rows, id, &mut dirty);
        dirty.any()
    }
}

#[expect(
    unsafe_code,
    reason = "ticks lie in cells; what it buys are the rows `bevy_capture_unchanged_*` and `bevy_delta_*`"
)]
#[inline]
fn read(cell: &UnsafeCell<Tick>) -> Tick {
    // SAFETY: a capture has `&World`, so nobody writes ticks meanwhile.
    unsafe { *cell.get() }
}

/// Whether these are the same entities, at most 64.
fn same(entities: &[Entity], ids: &[EntityId]) -> bool {
    let difference = |(entity, id): (&Entity, &EntityId)| entity.to_bits() ^ id.to_bits() ^ INDEX_BITS;
    match (entities.as_array::<64>(), ids.as_array::<64>()) {
        (Some(entities), Some(ids)) => {
            entities.iter().zip(ids).fold(0, |all, pair| all | difference(pair)) == 0
        }
        _ => entities.len() == ids.len() && entities.iter().zip(ids).all(|pair| difference(pair) == 0),
    }
}
