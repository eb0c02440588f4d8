//! Columns of a world by pointer: the one place where a capture looks at component memory.
//!
//! A capture has `&World`, so nothing is written meanwhile. That the memory of a component holds values of the
//! descriptor's type is what [`ComponentRegistry::add`](crate::registry::ComponentRegistry::add) sees to; it is asserted again here.

use std::ops::Range;

use bevy_ecs::component::{ComponentInfo, StorageType};
use bevy_ecs::entity::Entity;
use bevy_ecs::ptr::Ptr;
use bevy_ecs::storage::{Table, TableRow};
use bevy_ecs::world::World;
use bonfire::engine::{ArchetypeWriter, DirtyRows, RawRows};
use bonfire::{EntityId, Result};

use crate::registry::ComponentRegistry;

/// The rows of an archetype that are saved.
pub(crate) enum Rows<'w> {
    /// All rows of a table that belongs to this archetype alone, in the table's order.
    Table(&'w Table),
    /// Some rows of a table.
    Picked { table: &'w Table, entities: Vec<Entity>, rows: Vec<u32> },
}

impl<'w> Rows<'w> {
    pub(crate) fn len(&self) -> usize {
        self.entities().len()
    }

    pub(crate) fn entities(&self) -> &[Entity] {
        match self {
            Self::Table(table) => table.entities(),
            Self::Picked { entities, .. } => entities,
        }
    }

    pub(crate) fn table(&self) -> &'w Table {
        match self {
            Self::Table(table) | Self::Picked { table, .. } => table,
        }
    }

    pub(crate) fn write_ids(&self, range: Range<usize>, ids: &mut [EntityId]) {
        for (id, &entity) in ids.iter_mut().zip(&self.entities()[range]) {
            *id = EntityId::new(entity.index_u32(), entity.generation().to_bits());
        }
    }
}

/// Writes one component of some rows. For a capture over another one, `dirty` says which of them may have changed.
#[expect(
    unsafe_code,
    reason = "columns are copied by pointer: one copy per column instead of one access per value"
)]
pub(crate) fn write(
    out: &mut ArchetypeWriter<'_, '_>,
    registry: &ComponentRegistry,
    number: usize,
    world: &World,
    rows: &Rows<'_>,
    dirty: Option<&DirtyRows>,
) -> Result<()> {
    let id = registry.entries[number].id;
    let Some(info) = world.components().get_info(id) else { return Ok(()) };
    assert_eq!(info.type_id(), Some(registry.core.descriptors()[number].type_id()));
    if info.storage_type() == StorageType::SparseSet {
        let Some(set) = world.storages().sparse_sets.get(id) else { return Ok(()) };
        let pointers: Vec<*const u8> =
            (rows.entities().iter()).filter_map(|&entity| set.get(entity).map(Ptr::as_ptr)).collect();
        assert_eq!(pointers.len(), rows.len(), "an archetype's entities have its sparse components");
        // SAFETY: the set holds live values of the component's type, which is the descriptor's; `world` is borrowed.
        return unsafe { out.column_over(number, RawRows::Pointers(&pointers), dirty) };
    }
    let Some(column) = rows.table().get_column(id) else { return Ok(()) };
    let first = TableRow::new(nonmax::NonMaxU32::ZERO);
    // SAFETY: the table has rows, because the archetype has, so that row 0 is in bounds.
    let base = unsafe { column.get_data_unchecked(first) }.as_ptr();
    let rows = match rows {
        Rows::Table(table) => RawRows::Slice { base, len: table.entities().len() },
        Rows::Picked { rows, .. } => RawRows::Picked { base, rows },
    };
    // SAFETY: the column holds a live value of the component's type for each row of the table, one after the other,
    // and picked rows are rows of it; `world` is borrowed, so nobody writes.
    unsafe { out.column_over(number, rows, dirty) }
}

/// Writes a resource, if the world has it.
#[expect(unsafe_code, reason = "resources are reached by pointer like all components")]
pub(crate) fn write_resource(
    out: &mut ArchetypeWriter<'_, '_>,
    registry: &ComponentRegistry,
    number: usize,
    world: &World,
    dirty: Option<&DirtyRows>,
) -> Result<()> {
    let id = registry.entries[number].id;
    let Some(value) = world.get_resource_by_id(id) else { return Ok(()) };
    let info = world.components().get_info(id);
    assert_eq!(info.and_then(ComponentInfo::type_id), Some(registry.core.descriptors()[number].type_id()));
    let base = value.as_ptr();
    // SAFETY: one live value of the component's type; `world` is borrowed.
    unsafe { out.column_over(number, RawRows::Slice { base, len: 1 }, dirty) }
}
