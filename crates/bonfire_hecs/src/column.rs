//! Columns by their types: everything that is done with the values of one component.
//!
//! hecs has no columns without a type, so the registry keeps these functions for each component, as pointers.

use std::collections::BTreeMap;
use std::ops::Range;

use bonfire::Result;
use bonfire::engine::{ArchetypeWriter, StagedColumn};
use hecs::{Archetype, ColumnBatchBuilder, Component, Entity, EntityBuilder, World};

/// By row, components for entities that do not have them.
pub(crate) type NewComponents = BTreeMap<usize, EntityBuilder>;

/// Writes one component of some rows.
pub(crate) fn write_column<T: Component>(
    out: &mut ArchetypeWriter<'_, '_>,
    archetype: &Archetype,
    rows: Option<&[u32]>,
) -> Result<()> {
    let Some(column) = archetype.get::<&T>() else { return Ok(()) };
    match rows {
        None => out.column::<T>(&column),
        Some(rows) => out.column_refs(&rows.iter().map(|&row| &column[row as usize]).collect::<Vec<&T>>()),
    }
}

/// A step of going through a staged column.
pub(crate) enum ColumnStep {
    /// The next values take the place of these.
    Overwrite { archetype: usize, rows: Range<usize> },
    /// The next values go to a batch.
    Batch { batch: usize, len: usize },
    /// The next value goes to an entity that does not have the component.
    Insert { row: usize },
}

/// Where the values of a staged column go.
pub(crate) struct ColumnTarget<'a> {
    pub(crate) steps: Vec<ColumnStep>,
    pub(crate) archetypes: &'a [&'a Archetype],
    pub(crate) batches: &'a [ColumnBatchBuilder],
    /// By row of the saved archetype, what an entity is given.
    pub(crate) inserted: &'a mut NewComponents,
}

/// Moves all values of a column to their targets.
pub(crate) fn move_column<T: Component>(column: StagedColumn<'_>, to: &mut ColumnTarget<'_>) {
    let Ok(mut values) = column.into_values::<T>() else {
        unreachable!("a staged column has its component's type")
    };
    let mut writers: Vec<_> = to.batches.iter().map(ColumnBatchBuilder::writer::<T>).collect();
    for step in &to.steps {
        match step {
            ColumnStep::Overwrite { archetype, rows } => {
                if let Some(mut column) = to.archetypes[*archetype].get::<&mut T>() {
                    values.put(&mut column[rows.clone()]);
                }
            }
            ColumnStep::Batch { batch, len } => {
                // Taken out for the loop: what is local can be kept in registers.
                if let Some(mut writer) = writers[*batch].take() {
                    // It was made for as many rows.
                    values.by_ref().take(*len).for_each(|value| _ = writer.push(value));
                    writers[*batch] = Some(writer);
                }
            }
            ColumnStep::Insert { row } => {
                if let Some(value) = values.next() {
                    to.inserted.entry(*row).or_default().add(value);
                }
            }
        }
    }
}

/// Gives the values of a column to entities, which may have it or not.
pub(crate) fn insert_column<T: Component>(
    column: StagedColumn<'_>,
    world: &mut World,
    entities: &[Option<Entity>],
) {
    let present: Vec<bool> = (0..entities.len()).map(|row| column.is_present(row)).collect();
    let Ok(values) = column.into_values::<T>() else {
        unreachable!("a staged column has its component's type")
    };
    let entities = entities.iter().zip(present).filter(|(_, present)| *present).map(|(entity, _)| *entity);
    for (entity, value) in entities.zip(values) {
        if let Some(entity) = entity {
            // An entity that is gone takes nothing.
            let _ = world.insert_one(entity, value);
        }
    }
}

/// Gives the values of a column to entities: in the place of what they have, or together with others that they get.
pub(crate) fn update_column<T: Component>(
    column: StagedColumn<'_>,
    world: &mut World,
    entities: &[Option<Entity>],
    inserted: &mut NewComponents,
) {
    let rows: Vec<usize> = (0..entities.len()).filter(|&row| column.is_present(row)).collect();
    let Ok(values) = column.into_values::<T>() else {
        unreachable!("a staged column has its component's type")
    };
    for (row, value) in rows.into_iter().zip(values) {
        let Some(entity) = entities[row] else { continue };
        match world.get::<&mut T>(entity) {
            Ok(mut live) => *live = value,
            Err(_) => _ = inserted.entry(row).or_default().add(value),
        }
    }
}
