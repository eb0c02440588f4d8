//! Columns of rows that were just spawned, written whole: one copy per column instead of one per value.
//!
//! A batch whose rows bring no values leaves its part of the table unwritten. That is allowed only where no code can look
//! before it is written: all components lie in the table and none is required by another, so the batch is all there is;
//! and no hook or observer listens, so no code of the game runs in between. Everything else takes its values row by row.

use std::any::TypeId;

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::change_detection::MaybeLocation;
use bevy_ecs::component::{ComponentId, StorageType};
use bevy_ecs::storage::{TableId, TableRow};
use bevy_ecs::world::World;

use super::batch_spawn::ColumnRows;

/// A table that can be filled.
pub(super) struct TableFill {
    table: TableId,
    ids: Vec<ComponentId>,
}

impl TableFill {
    /// The table of the next batch of this bundle, which the world knows, if it can be filled.
    pub(super) fn for_batch(world: &World, bundle: TypeId, columns: &[ColumnRows]) -> Option<Self> {
        // Where Bevy tracks the location of changes, there is one more column per component that is not ours to write.
        if size_of::<MaybeLocation>() != 0 {
            return None;
        }
        let bundles = world.bundles();
        let info = bundles.get(bundles.get_id(bundle)?)?;
        if !info.required_components().is_empty()
            || columns.iter().any(|column| column.storage != StorageType::Table)
        {
            return None;
        }
        let ids = info.explicit_components();
        let is_whole = |(&id, column): (&ComponentId, &ColumnRows)| {
            world.components().get_info(id).is_some_and(|info| info.layout().size() == column.stride)
        };
        // A value for all rows is copied row by row.
        if !ids.iter().zip(columns).all(is_whole) {
            return None;
        }
        // A batch that was just made known is in one of the last archetypes.
        let archetypes = world.archetypes();
        let newest_first =
            (0..archetypes.len()).rev().filter_map(|index| archetypes.get(ArchetypeId::new(index)));
        let archetype = { newest_first }.find(|archetype| {
            archetype.component_count() == ids.len() && ids.iter().all(|&id| archetype.contains(id))
        })?;
        let heard = archetype.has_add_hook()
            || archetype.has_insert_hook()
            || archetype.has_add_observer()
            || archetype.has_insert_observer();
        (!heard).then(|| Self { table: archetype.table_id(), ids: ids.to_vec() })
    }

    /// Writes the last `rows` rows of the table: values and ticks.
    ///
    /// # Safety
    /// They were just spawned without values, by a batch of the bundle. The columns are those of its components in
    /// order, each with so many values of the right type, which are moved.
    #[expect(
        unsafe_code,
        reason = "writes component memory by column: what it buys are the rows `bevy_load_*`"
    )]
    pub(super) unsafe fn write(self, world: &mut World, columns: &[ColumnRows], rows: usize) {
        let tick = world.change_tick();
        let cell = world.as_unsafe_world_cell();
        // SAFETY: the world is borrowed exclusively, and nothing else of it is used while this lives.
        let table = unsafe { cell.storages() }.tables.get(self.table);
        let table = table.unwrap_or_else(|| unreachable!("tables are never removed"));
        let end = table.entities().len();
        let start = end - rows;
        let first = u32::try_from(start).ok().and_then(nonmax::NonMaxU32::new);
        let first =
            TableRow::new(first.unwrap_or_else(|| unreachable!("a table has fewer than 2^32 - 1 rows")));
        for (&id, source) in self.ids.iter().zip(columns) {
            let column =
                table.get_column(id).unwrap_or_else(|| unreachable!("the table has its archetype's columns"));
            debug_assert_eq!(world_layout_size(cell, id), Some(source.stride));
            // SAFETY: `start` is a row of the table, and `rows` values fit from there on. The source has as many, of
            // the same type. Values and ticks are in cells, and nothing else has access to the world.
            unsafe {
                let to = column.get_data_unchecked(first).as_ptr().cast_mut();
                source.first.as_ptr().copy_to_nonoverlapping(to, source.stride * rows);
                for cell in &column.get_added_ticks_slice(end)[start..] {
                    cell.get().write(tick);
                }
                for cell in &column.get_changed_ticks_slice(end)[start..] {
                    cell.get().write(tick);
                }
            }
            if let Some(summary) = table.get_summary_tick(id) {
                summary.set(tick);
            }
        }
    }
}

fn world_layout_size(
    cell: bevy_ecs::world::unsafe_world_cell::UnsafeWorldCell<'_>,
    id: ComponentId,
) -> Option<usize> {
    cell.components().get_info(id).map(|info| info.layout().size())
}
