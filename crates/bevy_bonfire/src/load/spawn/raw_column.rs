//! Staged columns on their way into a world: rows of a component, by pointer.
//!
//! Invariant: every value of a [`RawColumn`] is moved or dropped at most once. The column itself never drops one
//! again, so a value that is not moved after a panic is leaked. Each row is used by one of five: the segment it is in, spawned
//! by a batch or by [`insert_row`]; [`insert`], for a row that was taken out of its segment; [`RawColumn::overwrite`];
//! [`RawColumn::split_off`], which makes it a row of another column; or [`RawColumn::discard`].

use std::ops::Range;
use std::ptr::NonNull;

use bevy_ecs::component::{ComponentId, StorageType};
use bevy_ecs::entity::Entity;
use bevy_ecs::ptr::OwningPtr;
use bevy_ecs::world::World;
use bonfire::Descriptor;
use bonfire::engine::{AlignedBuf, StagedColumn};

use super::batch_spawn::ColumnRows;
use crate::registry::{ComponentRegistry, InsertMode};

const ABSENT: u32 = u32::MAX;

/// The rows of one component, for the entities of one archetype.
pub(crate) struct RawColumn<'s> {
    pub(crate) number: usize,
    pub(crate) id: ComponentId,
    storage: StorageType,
    drop: Option<unsafe fn(OwningPtr<'_>)>,
    first: NonNull<u8>,
    parts: Option<Parts>,
    stride: usize,
    align: usize,
    len: usize,
    /// By row of the archetype, which value it has, if not each has its own.
    indexes: Option<Vec<u32>>,
    memory: Memory<'s>,
}

#[expect(unsafe_code, reason = "rows without their types")]
// SAFETY: the rows are values of a component of Bevy (`new` compares their type with the world's record of it), and those
// are `Send`. The pointer is to rows that the column owns. What else it has is `Send` by itself.
unsafe impl Send for RawColumn<'static> {}
#[expect(unsafe_code, reason = "rows without their types")]
// SAFETY: as above; components are `Sync`, and nothing is changed through a shared column but by functions that ask for the
// only use of a row.
unsafe impl Sync for RawColumn<'static> {}

/// The memory that holds the rows of a column.
enum Memory<'s> {
    Staged(StagedColumn<'s>),
    /// Copied together out of another column. `are_values` is false for bytes of the snapshot itself: they are no values
    /// before they are moved into a world.
    Copied {
        _rows: AlignedBuf,
        are_values: bool,
    },
}

/// Values that lie in several places, the same number in each but the last.
struct Parts {
    rows: usize,
    firsts: Vec<NonNull<u8>>,
}

impl Parts {
    fn of(column: &StagedColumn<'_>) -> Option<Self> {
        let parts = column.parts();
        let &[(_, rows), _, ..] = &*parts else { return None };
        let equal = parts.iter().rev().skip(1).all(|(_, len)| *len == rows);
        assert!(equal && rows > 0, "parts are cut alike");
        let firsts: Option<_> = parts.iter().map(|(first, _)| NonNull::new(first.cast_mut())).collect();
        Some(Self { rows, firsts: firsts? })
    }
}

impl<'s> RawColumn<'s> {
    /// Takes over all rows of a staged column for `rows` entities.
    pub(crate) fn new(
        world: &World,
        registry: &ComponentRegistry,
        number: usize,
        column: StagedColumn<'s>,
        rows: usize,
    ) -> Option<Self> {
        Self::of(world, registry, number, column, rows, None)
    }

    /// As [`RawColumn::new`], for rows that are overwritten or split off: they may stay in several places.
    pub(crate) fn in_parts(
        world: &World,
        registry: &ComponentRegistry,
        number: usize,
        column: StagedColumn<'s>,
        rows: usize,
    ) -> Option<Self> {
        let parts = Parts::of(&column);
        Self::of(world, registry, number, column, rows, parts)
    }

    fn of(
        world: &World,
        registry: &ComponentRegistry,
        number: usize,
        mut column: StagedColumn<'s>,
        rows: usize,
        parts: Option<Parts>,
    ) -> Option<Self> {
        let id = registry.entries[number].id;
        let info = world.components().get_info(id)?;
        assert_eq!(info.type_id(), Some(column.row_type()), "a staged column has the component's type");
        assert_eq!(info.layout().size(), column.stride());
        let indexes = column.presence().map(|present| {
            let mut indexes = vec![ABSENT; rows];
            present.iter().zip(0..).for_each(|(row, index)| indexes[row] = index);
            indexes
        });
        let first = match &parts {
            Some(parts) => parts.firsts[0],
            None => NonNull::new(column.as_mut_ptr())?,
        };
        let len = column.len();
        column.forget_rows();
        let (storage, drop) = (info.storage_type(), info.drop());
        let (stride, align) = (column.stride(), info.layout().align());
        let memory = Memory::Staged(column);
        Some(Self { number, id, storage, drop, first, parts, stride, align, len, indexes, memory })
    }

    /// Returns true if an entity of the archetype has a value here.
    pub(crate) fn has(&self, row: usize) -> bool {
        self.indexes.as_ref().is_none_or(|indexes| indexes[row] != ABSENT)
    }

    /// Returns true if this row and the next have values, one behind the other.
    pub(crate) fn is_contiguous(&self, row: usize) -> bool {
        self.value_index(row).zip(self.value_index(row + 1)).is_some_and(|(index, next)| index + 1 == next)
    }

    /// Returns true if all entities have a value.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.indexes.is_none()
    }

    /// Returns true if all entities have a value, and all values are the same.
    pub(crate) fn is_tag(&self) -> bool {
        self.stride == 0 && self.drop.is_none() && self.is_everywhere()
    }

    /// Takes a row out of what batches spawn. The caller inserts or discards it.
    pub(crate) fn take_row(&mut self, row: usize) -> Option<TakenRow> {
        let index = self.value_index(row)?;
        let len = self.len as u32;
        self.indexes.get_or_insert_with(|| (0..len).collect())[row] = ABSENT;
        Some(TakenRow(index))
    }

    /// Drops the value of a row, if it has one.
    pub(crate) fn discard_row(&mut self, row: usize) {
        if self.drop.is_some()
            && let Some(row) = self.take_row(row)
        {
            self.discard(row);
        }
    }

    /// Drops the values of some rows.
    pub(crate) fn discard_rows(&mut self, rows: Range<usize>) {
        if self.drop.is_some() {
            rows.for_each(|row| self.discard_row(row));
        }
    }

    /// The number of the value of a row, if it has one.
    fn value_index(&self, row: usize) -> Option<u32> {
        match &self.indexes {
            Some(indexes) => Some(indexes[row]).filter(|&index| index != ABSENT),
            None => Some(row as u32),
        }
    }

    /// The value of a row that was taken out.
    pub(super) fn taken(&self, row: TakenRow) -> NonNull<u8> {
        self.pointer(row.0)
    }

    #[expect(unsafe_code, reason = "values without their type")]
    fn pointer(&self, index: u32) -> NonNull<u8> {
        let index = index as usize;
        assert!(index < self.len);
        let (first, index) = match &self.parts {
            None => (self.first, index),
            Some(parts) => (parts.firsts[index / parts.rows], index % parts.rows),
        };
        // SAFETY: the column, or this part of it, has so many values at this stride.
        unsafe { first.add(self.stride * index) }
    }

    /// Calls `each` with stretches of rows from `index` on that lie one after the other: how many rows come before, where they are, and
    /// how many there are.
    fn for_contiguous(&self, index: u32, rows: usize, mut each: impl FnMut(usize, NonNull<u8>, usize)) {
        assert!(index as usize + rows <= self.len);
        let mut done = 0;
        while done < rows {
            let at = index + done as u32;
            let here = self.parts.as_ref().map_or(rows, |parts| parts.rows - at as usize % parts.rows);
            let here = here.min(rows - done);
            each(done, self.pointer(at), here);
            done += here;
        }
    }

    /// The values from this row on, which must have one each.
    pub(crate) fn source(&self, row: usize) -> ColumnRows {
        assert!(self.parts.is_none(), "batches take columns that lie in one place");
        let first = self.value_index(row).map_or(self.first, |index| self.pointer(index));
        ColumnRows { first, stride: self.stride, storage: self.storage }
    }

    /// The target of a relationship, read from its component.
    #[expect(unsafe_code, reason = "reads a field of a value without its type")]
    pub(crate) fn target(&self, row: usize, offset: usize) -> Option<Entity> {
        let value = self.pointer(self.value_index(row)?);
        // SAFETY: the value is a live one of the component's type, which has an `Entity` at this offset: the
        // component's own accessor says so.
        Some(unsafe { value.add(offset).cast::<Entity>().read() })
    }

    /// Returns true if the rows are values of our own, which are dropped if they are not moved.
    fn has_values(&self) -> bool {
        match &self.memory {
            Memory::Staged(column) => !column.is_borrowed(),
            Memory::Copied { are_values, .. } => *are_values,
        }
    }

    /// Moves some rows, as far as they have a value, into a column of their own. They are not used here any more.
    #[expect(unsafe_code, reason = "moves values without their type")]
    pub(crate) fn split_off(&mut self, rows: &[usize]) -> RawColumn<'static> {
        let (buffer, first) = aligned_buffer(rows.len() * self.stride, self.align);
        let (mut indexes, mut len) = (Vec::new(), 0);
        for &row in rows {
            let Some(index) = self.value_index(row) else {
                indexes.push(ABSENT);
                continue;
            };
            // SAFETY: the buffer has room for all rows, at this stride.
            unsafe {
                first.add(len * self.stride).copy_from_nonoverlapping(self.pointer(index), self.stride);
            };
            indexes.push(len as u32);
            len += 1;
        }
        if self.drop.is_some() {
            // A caller that discards the rest must not find them.
            rows.iter().for_each(|&row| _ = self.take_row(row));
        }
        let memory = Memory::Copied { _rows: buffer, are_values: self.has_values() };
        let indexes = (len < rows.len()).then_some(indexes);
        let (&mut Self { number, id, storage, drop, stride, align, .. }, parts) = (self, None);
        RawColumn { number, id, storage, drop, first, parts, stride, align, len, indexes, memory }
    }

    /// Overwrites values in a world, which are dropped.
    ///
    /// # Safety
    /// The rows follow each other and have a value each, which is used here and nowhere else. At `to` there are as many
    /// live values of the component's type, that nothing else uses meanwhile.
    #[expect(unsafe_code, reason = "moves values without their type")]
    pub(crate) unsafe fn overwrite(&self, rows: Range<usize>, to: NonNull<u8>) {
        let Some(first) = self.value_index(rows.start) else { return };
        self.for_contiguous(first, rows.len(), |done, from, rows| {
            // SAFETY: the caller vouches for all rows, of which these are some.
            unsafe { self.overwrite_contiguous(from, rows, to.add(done * self.stride)) };
        });
    }

    /// As [`RawColumn::overwrite`], for rows that lie one after the other.
    #[expect(unsafe_code, reason = "moves values without their type")]
    unsafe fn overwrite_contiguous(&self, from: NonNull<u8>, rows: usize, to: NonNull<u8>) {
        let bytes = self.stride * rows;
        let Some(drop) = self.drop else {
            // SAFETY: the caller vouches for both sides, and what is there has nothing to drop.
            return unsafe { from.copy_to_nonoverlapping(to, bytes) };
        };
        // Values that have something to drop change indexes, so that nothing is there twice when a drop panics.
        let copy;
        let from = if self.has_values() {
            from
        } else {
            copy = aligned_buffer(bytes, self.align);
            // SAFETY: it has room for as many bytes. Copies of plain rows are values of our own.
            unsafe { from.copy_to_nonoverlapping(copy.1, bytes) };
            copy.1
        };
        // SAFETY: both sides hold live values. Those that come out are owned by us, one by one.
        unsafe {
            std::ptr::swap_nonoverlapping(from.as_ptr(), to.as_ptr(), bytes);
            for row in 0..rows {
                drop(OwningPtr::new(from.add(row * self.stride)));
            }
        }
    }

    /// Calls `found` with those of some rows, which follow each other and have a value each, that are not the same as values in a world.
    ///
    /// # Safety
    /// At `live` there are as many live values of the component's type, which nothing writes to meanwhile.
    #[expect(unsafe_code, reason = "reads values without their type")]
    pub(crate) unsafe fn differing(
        &self,
        descriptor: &Descriptor,
        rows: Range<usize>,
        live: NonNull<u8>,
        mut found: impl FnMut(usize),
    ) {
        let Some(first) = self.value_index(rows.start) else { return };
        self.for_contiguous(first, rows.len(), |done, from, rows| {
            // SAFETY: the caller vouches for the world; our side holds as many values of the descriptor's type.
            unsafe {
                let live = live.add(done * self.stride);
                descriptor.differing(from.as_ptr(), live.as_ptr(), rows, |row| found(done + row));
            }
        });
    }

    /// Drops a value that is not needed. Bytes of the snapshot itself are no value before they are moved: nothing to drop.
    #[expect(unsafe_code, reason = "drops a value without its type")]
    pub(crate) fn discard(&self, row: TakenRow) {
        if let Some(drop) = self.drop.filter(|_| self.has_values()) {
            // SAFETY: the memory is ours, and the row was taken, so this is its only use.
            unsafe { drop(OwningPtr::new(self.taken(row))) };
        }
    }
}

/// Memory for values without their type.
#[expect(unsafe_code, reason = "an aligned place in a buffer")]
fn aligned_buffer(bytes: usize, align: usize) -> (AlignedBuf, NonNull<u8>) {
    let mut buffer = AlignedBuf::zeroed(bytes + align);
    let start = NonNull::from(buffer.as_mut()).cast::<u8>();
    let offset = start.align_offset(align);
    assert!(offset <= align);
    // SAFETY: the buffer is larger by one alignment.
    (buffer, unsafe { start.add(offset) })
}

/// A value that was taken out of its column and must be inserted or discarded, by the same column.
pub(crate) struct TakenRow(u32);

/// Inserts a value into an entity that exists, by Bevy's documented calls, and applies the commands of its hooks. If the
/// entity is gone, the value is dropped.
#[expect(unsafe_code, reason = "moves a value by pointer")]
pub(crate) fn insert(world: &mut World, entity: Entity, column: &RawColumn<'_>, row: TakenRow) {
    let Ok(mut target) = world.get_entity_mut(entity) else { return column.discard(row) };
    // SAFETY: the id is of this world, the value of its type, and the row was taken, so this is its only use.
    unsafe { target.insert_by_id(column.id, OwningPtr::new(column.taken(row))) };
}

/// Inserts a row of a segment that is not spawned by a batch: all its values at once, or one by one.
///
/// # Safety
/// `ids` are those of `columns`, each of which has a value for `row` that is used here and nowhere else.
#[expect(unsafe_code, reason = "moves values by pointer")]
pub(crate) unsafe fn insert_row(
    world: &mut World,
    entity: Entity,
    ids: &[ComponentId],
    columns: &[&RawColumn<'_>],
    row: usize,
    mode: InsertMode,
) {
    let index = |column: &RawColumn<'_>| column.value_index(row).map(|index| column.pointer(index));
    let Ok(mut target) = world.get_entity_mut(entity) else {
        let taken = columns
            .iter()
            .filter_map(|column| column.value_index(row).map(|index| (column, TakenRow(index))));
        return taken.for_each(|(column, row)| column.discard(row));
    };
    let pointers = columns.iter().filter_map(|column| index(column)).map(|pointer| {
        // SAFETY: the caller vouches that this is the value's only use.
        unsafe { OwningPtr::new(pointer) }
    });
    if mode == InsertMode::OneByOne {
        for (&id, pointer) in ids.iter().zip(pointers) {
            // A hook may have despawned the entity: then the rest is leaked.
            let Ok(mut target) = world.get_entity_mut(entity) else { return };
            // SAFETY: the id is of this world, and the value of its type.
            unsafe { target.insert_by_id(id, pointer) };
        }
        return;
    }
    // SAFETY: the ids are of this world, and the values of their types.
    unsafe { target.insert_by_ids(ids, pointers) };
}
