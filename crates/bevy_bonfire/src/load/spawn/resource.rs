//! Resources of a load.

use bevy_ecs::ptr::OwningPtr;
use bevy_ecs::world::World;
use bonfire::engine::StagedColumn;
use bonfire::{LoadReport, Result};

use super::raw_column::RawColumn;
use crate::registry::{ComponentRegistry, LoadResource};

/// Takes over the columns of staged resources, which have one row each.
pub(crate) fn resource_columns<'s>(
    world: &World,
    registry: &ComponentRegistry,
    resources: Vec<(usize, StagedColumn<'s>)>,
) -> Vec<RawColumn<'s>> {
    let column = |(number, column)| RawColumn::new(world, registry, number, column, 1);
    resources.into_iter().filter_map(column).collect()
}

/// Inserts resources. Errors of resources that the game loads itself are in the report.
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

/// Inserts a resource, or hands it to the function that loads it.
#[expect(unsafe_code, reason = "moves a value by pointer")]
pub(crate) fn insert_resource(
    world: &mut World,
    column: &mut RawColumn<'_>,
    load: Option<&LoadResource>,
) -> Result<()> {
    let Some(row) = column.take_row(0) else { return Ok(()) };
    // SAFETY: the row was taken, so this is its only use.
    let value = unsafe { OwningPtr::new(column.taken(row)) };
    match load {
        Some(load) => load(world, value),
        None => {
            let caller = bevy_ecs::change_detection::MaybeLocation::caller();
            // SAFETY: the value is of the component's type.
            unsafe { world.insert_resource_by_id(column.id, value, caller) };
            Ok(())
        }
    }
}
