//! Values of components by pointer, for deltas: the one place where a delta looks at component memory.
//!
//! A capture has `&World`, so nothing is written meanwhile. That the memory of a component holds values of the
//! descriptor's type is what `ComponentRegistry::add` sees to; it is asserted again here.

use std::marker::PhantomData;

use bevy_ecs::component::{ComponentInfo, StorageType};
use bevy_ecs::entity::Entity;
use bevy_ecs::ptr::Ptr;
use bevy_ecs::storage::{ComponentSparseSet, TableRow};
use bevy_ecs::world::World;
use bonfire::Result;
use bonfire::engine::{DeltaOp, GroupWriter, RawRows};

use crate::capture::Rows;
use crate::registry::ComponentRegistry;

/// Pointers to the values of one component, for the rows of an archetype.
pub(super) struct ColumnPointers<'a> {
    number: usize,
    storage: ColumnStorage<'a>,
}

enum ColumnStorage<'a> {
    /// The first value, their size, and the rows of the table if not all are meant.
    Table {
        base: *const u8,
        size: usize,
        rows: Option<&'a [u32]>,
        len: usize,
    },
    Sparse {
        set: &'a ComponentSparseSet,
        entities: &'a [Entity],
    },
}

impl<'a> ColumnPointers<'a> {
    /// `None` if the world does not have the component at all.
    #[expect(unsafe_code, reason = "component memory by pointer: what it buys are the rows `bevy_delta_*`")]
    pub(super) fn of(
        world: &'a World,
        registry: &ComponentRegistry,
        number: usize,
        rows: &'a Rows<'a>,
    ) -> Option<Self> {
        let id = registry.entries[number].id;
        let info = world.components().get_info(id)?;
        assert_eq!(info.type_id(), Some(registry.core.descriptors()[number].type_id()));
        if info.storage_type() == StorageType::SparseSet {
            let set = world.storages().sparse_sets.get(id)?;
            return Some(Self { number, storage: ColumnStorage::Sparse { set, entities: rows.entities() } });
        }
        let (column, size, len) = (rows.table().get_column(id)?, info.layout().size(), rows.len());
        let first = TableRow::new(nonmax::NonMaxU32::ZERO);
        // SAFETY: the table has rows, because the archetype has, so that row 0 is in bounds.
        let base = unsafe { column.get_data_unchecked(first) }.as_ptr();
        let rows = match rows {
            Rows::Table(_) => None,
            Rows::Picked { rows, .. } => Some(&**rows),
        };
        Some(Self { number, storage: ColumnStorage::Table { base, size, rows, len } })
    }

    #[inline]
    #[expect(unsafe_code, reason = "component memory by pointer")]
    fn pointer(&self, row: usize) -> *const u8 {
        match self.storage {
            ColumnStorage::Table { base, size, rows, len } => {
                assert!(row < len);
                let row = rows.map_or(row, |rows| rows[row] as usize);
                // SAFETY: the column has a value for each row of the table, and picked rows are rows of it.
                unsafe { base.add(row * size) }
            }
            ColumnStorage::Sparse { set, entities } => {
                let value = set.get(entities[row]).map(Ptr::as_ptr);
                value.unwrap_or_else(|| unreachable!("an archetype's entities have its sparse components"))
            }
        }
    }
}

/// Values of one component, from any archetypes of a world that is borrowed.
pub(super) struct PickedValues<'a> {
    number: usize,
    /// Each from a column of the same number, so of the descriptor's type and alive for `'a`.
    pointers: Vec<*const u8>,
    world: PhantomData<&'a World>,
}

impl<'a> PickedValues<'a> {
    pub(super) fn new(number: usize) -> Self {
        Self { number, pointers: Vec::new(), world: PhantomData }
    }

    #[inline]
    pub(super) fn push(&mut self, column: &ColumnPointers<'a>, row: usize) {
        assert_eq!(column.number, self.number);
        self.pointers.push(column.pointer(row));
    }

    #[expect(unsafe_code, reason = "values by pointer")]
    pub(super) fn write(&self, out: &mut GroupWriter<'_, '_>, op: DeltaOp) -> Result<()> {
        // SAFETY: live values of the component's type; the world is borrowed for as long as they are kept.
        unsafe { out.column_raw(self.number, op, RawRows::Pointers(&self.pointers)) }
    }
}

/// Writes a resource that has changed.
#[expect(unsafe_code, reason = "resources are reached by pointer like all components")]
pub(super) fn write_changed_resource(
    out: &mut GroupWriter<'_, '_>,
    registry: &ComponentRegistry,
    number: usize,
    world: &World,
) -> Result<()> {
    let id = registry.entries[number].id;
    let Some(value) = world.get_resource_by_id(id) else { return Ok(()) };
    let info = world.components().get_info(id);
    assert_eq!(info.and_then(ComponentInfo::type_id), Some(registry.core.descriptors()[number].type_id()));
    // SAFETY: one live value of the component's type; `world` is borrowed.
    unsafe { out.column_raw(number, DeltaOp::Changed, RawRows::Slice { base: value.as_ptr(), len: 1 }) }
}
