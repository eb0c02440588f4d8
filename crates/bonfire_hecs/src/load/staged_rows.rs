//! Staged rows on their way into a world: into a batch that will be spawned, over values that are there, or beside them.
//!
//! A column is gone through once, in the order of the save, by code that knows its type.

use std::collections::BTreeMap;
use std::ops::Range;

use bonfire::EntityId;
use bonfire::engine::StagedColumn;
use hecs::{Archetype, ColumnBatch, ColumnBatchBuilder, ColumnBatchType, Entity, EntityBuilder, World};

use crate::column::{ColumnStep, ColumnTarget};
use crate::free_ids::{FreeIds, IdOrder};
use crate::registry::ComponentRegistry;

/// Where consecutive rows of the save go.
#[derive(Clone, Debug)]
pub(crate) enum RowTarget {
    /// New entities, spawned by batches.
    New,
    /// Entities that are there: in this archetype, from this row on.
    Kept { archetype: usize, row: usize },
}

/// The targets of all rows of a saved archetype, in order.
pub(crate) type RowTargets = Vec<(Range<usize>, RowTarget)>;

/// New rows with the same components, to be spawned together.
struct Batch {
    len: usize,
    columns: Vec<usize>,
    /// Which of the archetype's new rows, if not all.
    rows: Option<Vec<usize>>,
}

/// The new rows of a saved archetype, by the components that they really have.
struct Batches {
    batches: Vec<Batch>,
    /// The batch of each row of the saved archetype, if there are several.
    of_row: Option<Vec<u32>>,
}

impl Batches {
    fn new(targets: &RowTargets, columns: &[(usize, StagedColumn<'_>)]) -> Self {
        let new = targets.iter().filter(|(_, to)| matches!(to, RowTarget::New)).map(|(rows, _)| rows);
        let len: usize = new.clone().map(ExactSizeIterator::len).sum();
        let sparse: Vec<usize> =
            (0..columns.len()).filter(|&column| !columns[column].1.is_everywhere()).collect();
        if sparse.is_empty() {
            let batch = Batch { len, columns: (0..columns.len()).collect(), rows: None };
            return Self { batches: Vec::from_iter((len > 0).then_some(batch)), of_row: None };
        }
        let mut batches: Vec<Batch> = Vec::new();
        let mut numbers: BTreeMap<Vec<bool>, u32> = BTreeMap::new();
        let mut of_row = vec![0; targets.last().map_or(0, |(rows, _)| rows.end)];
        for (position, row) in new.flat_map(Range::clone).enumerate() {
            let has: Vec<bool> = sparse.iter().map(|&column| columns[column].1.is_present(row)).collect();
            let number = *numbers.entry(has).or_insert_with_key(|has| {
                let without =
                    |column: usize| sparse.iter().zip(has).any(|(&sparse, &has)| sparse == column && !has);
                let columns = (0..columns.len()).filter(|&column| !without(column)).collect();
                batches.push(Batch { len: 0, columns, rows: Some(Vec::new()) });
                batches.len() as u32 - 1
            });
            of_row[row] = number;
            let batch = &mut batches[number as usize];
            batch.len += 1;
            batch.rows.get_or_insert_default().push(position);
        }
        Self { batches, of_row: Some(of_row) }
    }
}

/// What is left to do for a saved archetype when its values are moved: changes of the structure of the world.
#[derive(Default)]
pub(crate) struct StructuralChanges {
    /// New entities: which of the archetype's new rows, or all of them.
    pub(crate) spawned: Vec<(ColumnBatch, Option<Vec<usize>>)>,
    pub(crate) inserted: Vec<(Entity, EntityBuilder)>,
    /// Entities and the numbers of the components that they lose.
    pub(crate) removed: Vec<(Entity, usize)>,
}

/// The archetypes of a world, and the numbers of their registered components.
#[derive(Default)]
pub(crate) struct LiveArchetypes<'w> {
    pub(crate) archetypes: Vec<&'w Archetype>,
    pub(crate) numbers: Vec<Vec<usize>>,
}

impl StructuralChanges {
    /// Spawns what is new; `ids` are those of the archetype's new rows, in this order.
    pub(crate) fn spawn(&mut self, world: &mut World, free: &mut FreeIds, ids: &[EntityId], order: IdOrder) {
        for (batch, rows) in self.spawned.drain(..) {
            match rows {
                None => free.spawn(world, batch, ids, order),
                Some(rows) => {
                    let ids: Vec<EntityId> = rows.into_iter().map(|row| ids[row]).collect();
                    free.spawn(world, batch, &ids, IdOrder::Chosen);
                }
            }
        }
    }
}

/// Moves the columns of a saved archetype to their targets, and returns what is left to do. `entity` gives the entities of rows
/// that are kept.
pub(crate) fn move_archetype(
    registry: &ComponentRegistry,
    live: &LiveArchetypes<'_>,
    columns: Vec<(usize, StagedColumn<'_>)>,
    targets: &RowTargets,
    entity: impl Fn(usize) -> Entity,
) -> StructuralChanges {
    let mut changes = StructuralChanges::default();
    let Batches { batches, of_row } = Batches::new(targets, &columns);
    let builders: Vec<ColumnBatchBuilder> = (batches.iter())
        .map(|batch| {
            let mut types = ColumnBatchType::new();
            batch.columns.iter().for_each(|&column| (registry.entries[columns[column].0].add_to)(&mut types));
            types.into_batch(batch.len as u32)
        })
        .collect();
    for (rows, to) in targets {
        if let RowTarget::Kept { archetype, .. } = to {
            let lost = live.numbers[*archetype].iter().filter(|&&number| {
                registry.is_restored(number) && !columns.iter().any(|(saved, _)| *saved == number)
            });
            for &number in lost {
                changes.removed.extend(rows.clone().map(|row| (entity(row), number)));
            }
        }
    }
    let mut inserted = BTreeMap::new();
    for (number, column) in columns {
        let has = |archetype: usize| live.numbers[archetype].contains(&number);
        let lost = |row: usize| changes.removed.push((entity(row), number));
        let steps = steps(targets, &column, has, of_row.as_deref(), lost);
        let to = &mut ColumnTarget {
            steps,
            archetypes: &live.archetypes,
            batches: &builders,
            inserted: &mut inserted,
        };
        (registry.entries[number].move_to)(column, to);
    }
    changes.inserted = inserted.into_iter().map(|(row, builder)| (entity(row), builder)).collect();
    for (builder, batch) in builders.into_iter().zip(batches) {
        let Ok(built) = builder.build() else { unreachable!("all rows of a batch were written") };
        changes.spawned.push((built, batch.rows));
    }
    changes
}

/// The steps of going through a column. `has` says whether an archetype of the world has the component; `lost` is called with
/// rows that have it in the world, but not in the save.
fn steps(
    targets: &RowTargets,
    column: &StagedColumn<'_>,
    has: impl Fn(usize) -> bool,
    batch_of_row: Option<&[u32]>,
    mut lost: impl FnMut(usize),
) -> Vec<ColumnStep> {
    let mut steps: Vec<ColumnStep> = Vec::new();
    for (rows, to) in targets {
        match to {
            RowTarget::Kept { archetype, row: first } if has(*archetype) => {
                if column.is_everywhere() {
                    steps.push(ColumnStep::Overwrite {
                        archetype: *archetype,
                        rows: *first..first + rows.len(),
                    });
                    continue;
                }
                for row in rows.clone() {
                    let at = first + row - rows.start;
                    match column.is_present(row) {
                        true => steps.push(ColumnStep::Overwrite { archetype: *archetype, rows: at..at + 1 }),
                        false => lost(row),
                    }
                }
            }
            RowTarget::Kept { .. } => {
                let present = rows.clone().filter(|&row| column.is_present(row));
                steps.extend(present.map(|row| ColumnStep::Insert { row }));
            }
            RowTarget::New => match batch_of_row {
                None => steps.push(ColumnStep::Batch { batch: 0, len: rows.len() }),
                Some(batch_of_row) => {
                    for row in rows.clone().filter(|&row| column.is_present(row)) {
                        steps.push(ColumnStep::Batch { batch: batch_of_row[row] as usize, len: 1 });
                    }
                }
            },
        }
    }
    steps
}
