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

use super::column::Rows;
use super::{Chosen, INDEX_BITS};

/// Ticks of a baseline that is older than this are not compared: Bevy moves ticks that are older still.
const AGE_MAX: u32 = 1 << 31;

/// An earlier capture of the same world, and how to tell what has changed since.
pub(crate) struct Since {
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

    fn age(self) -> u32 {
        self.now.wrapping_sub(self.since)
    }

    pub(crate) fn has(self, tick: Tick) -> bool {
        self.now.wrapping_sub(tick.get()) < self.age()
    }

    /// Marks the blocks in which a tick is newer than the baseline.
    #[expect(
        unsafe_code,
        reason = "ticks lie in cells; what it buys are the rows `bevy_capture_unchanged_*`"
    )]
    fn mark(self, ticks: &[UnsafeCell<Tick>], dirty: &mut DirtyRows) {
        let (now, age) = (self.now, self.age());
        let newer = |ticks: &[UnsafeCell<Tick>]| {
            ticks.iter().fold(false, |any, cell| {
                // SAFETY: a capture has `&World`, so nobody writes ticks meanwhile.
                let tick = unsafe { *cell.get() };
                any | (now.wrapping_sub(tick.get()) < age)
            })
        };
        let (blocks, rest) = ticks.as_chunks::<64>();
        for (number, block) in blocks.iter().enumerate() {
            if newer(block) {
                dirty.mark_block(number);
            }
        }
        if newer(rest) {
            dirty.mark_block(blocks.len());
        }
    }
}

/// Which rows of an archetype were touched, column by column and row by row: for deltas, which tell of rows and not of pages.
#[derive(Default)]
pub(crate) struct RowBits {
    rows: usize,
    /// Words per column.
    words: usize,
    columns: Vec<u64>,
    /// Rows that were touched in any column.
    any: Vec<u64>,
}

impl RowBits {
    pub(crate) fn reset(&mut self, rows: usize, columns: usize) {
        (self.rows, self.words) = (rows, rows.div_ceil(64));
        self.columns.clear();
        self.columns.resize(self.words * columns, 0);
        self.any.clear();
        self.any.resize(self.words, 0);
    }

    fn set_word(&mut self, column: usize, word: usize, bits: u64) {
        self.columns[column * self.words + word] |= bits;
        self.any[word] |= bits;
    }

    fn set(&mut self, column: usize, row: usize) {
        self.set_word(column, row / 64, 1 << (row % 64));
    }

    /// All rows of a column.
    pub(crate) fn set_all(&mut self, column: usize) {
        for word in 0..self.words {
            let rows = (self.rows - word * 64).min(64);
            self.set_word(column, word, u64::MAX >> (64 - rows));
        }
    }

    /// A row that is of interest in no particular column.
    pub(crate) fn touch(&mut self, row: usize) {
        self.any[row / 64] |= 1 << (row % 64);
    }

    /// Calls `found` with each row that was touched, and in which columns, one bit each.
    pub(crate) fn for_each(&self, mut found: impl FnMut(usize, u128)) {
        for (word, &any) in self.any.iter().enumerate() {
            let mut left = any;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let mut touched = 0;
                for (column, words) in self.columns.chunks_exact(self.words).enumerate() {
                    touched |= u128::from(words[word] >> bit & 1) << column;
                }
                found(word * 64 + bit as usize, touched);
            }
        }
    }
}

impl TickRange {
    /// Sets the bits of rows whose value of a component may have changed.
    #[expect(unsafe_code, reason = "ticks lie in cells; what it buys are the rows `bevy_delta_*`")]
    pub(crate) fn set_bits(
        self,
        world: &World,
        rows: &Rows<'_>,
        id: ComponentId,
        column: usize,
        bits: &mut RowBits,
    ) {
        let in_table =
            world.components().get_info(id).is_none_or(|info| info.storage_type() == StorageType::Table);
        if !in_table {
            let Some(set) = world.storages().sparse_sets.get(id) else { return };
            for (row, &entity) in rows.entities().iter().enumerate() {
                if set.get_ticks(entity).is_none_or(|found| self.has(found.changed)) {
                    bits.set(column, row);
                }
            }
            return;
        }
        let table = rows.table();
        if table.get_summary_tick(id).is_some_and(|summary| !self.has(summary.get())) {
            return;
        }
        let Some(changed) = table.get_changed_ticks_slice_for(id) else { return };
        if let Rows::Picked { rows, .. } = rows {
            for (place, &row) in rows.iter().enumerate() {
                if self.has(read(&changed[row as usize])) {
                    bits.set(column, place);
                }
            }
            return;
        }
        let (now, age) = (self.now, self.age());
        // SAFETY: a capture has `&World`, so nobody writes ticks meanwhile.
        let newer = |cell: &UnsafeCell<Tick>| now.wrapping_sub(unsafe { *cell.get() }.get()) < age;
        let mut word = |word: usize, ticks: &[UnsafeCell<Tick>]| {
            if ticks.iter().fold(false, |any, cell| any | newer(cell)) {
                let set =
                    ticks.iter().zip(0..).fold(0, |set, (cell, bit)| set | u64::from(newer(cell)) << bit);
                bits.set_word(column, word, set);
            }
        };
        let (blocks, rest) = changed.as_chunks::<64>();
        blocks.iter().enumerate().for_each(|(number, block)| word(number, block));
        word(blocks.len(), rest);
    }

    /// Whether a resource may have changed.
    pub(crate) fn resource_changed(self, world: &World, id: ComponentId) -> bool {
        world.get_resource_change_ticks_by_id(id).is_none_or(|ticks| self.has(ticks.changed))
    }
}

impl Since {
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

    /// Marks the rows whose value of a component may have changed.
    pub(super) fn mark_values(&self, world: &World, rows: &Rows<'_>, id: ComponentId, dirty: &mut DirtyRows) {
        let ticks = self.ticks;
        let in_table =
            world.components().get_info(id).is_none_or(|info| info.storage_type() == StorageType::Table);
        if !in_table {
            let Some(set) = world.storages().sparse_sets.get(id) else { return };
            for (row, &entity) in rows.entities().iter().enumerate() {
                if set.get_ticks(entity).is_none_or(|found| ticks.has(found.changed)) {
                    dirty.mark(row);
                }
            }
            return;
        }
        let table = rows.table();
        if table.get_summary_tick(id).is_some_and(|summary| !ticks.has(summary.get())) {
            return;
        }
        let Some(changed) = table.get_changed_ticks_slice_for(id) else { return };
        match rows {
            Rows::Table(_) => ticks.mark(changed, dirty),
            Rows::Picked { rows, .. } => {
                for (place, &row) in rows.iter().enumerate() {
                    if ticks.has(read(&changed[row as usize])) {
                        dirty.mark(place);
                    }
                }
            }
        }
    }

    /// Whether a component of these entities may have changed.
    pub(super) fn any_changed(&self, world: &World, chosen: &Chosen<'_>, id: ComponentId) -> bool {
        let mut dirty = DirtyRows::none(chosen.rows.len());
        self.mark_values(world, &chosen.rows, id, &mut dirty);
        dirty.any()
    }

    /// Whether a resource may have changed.
    pub(super) fn resource_changed(&self, world: &World, id: ComponentId) -> bool {
        self.ticks.resource_changed(world, id)
    }
}

#[expect(unsafe_code, reason = "ticks lie in cells")]
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
