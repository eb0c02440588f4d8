//! Staged rows on their way into a world: into a batch that will be spawned, over values that are there, or beside them.
//!
//! A column is gone through once, in the order of the save, by code that knows its type.

use std::collections::BTreeMap;
use std::ops::Range;

use bonfire::EntityId;
use bonfire::engine::StagedColumn;
use hecs::{
    Archetype, ColumnBatch, ColumnBatchBuilder, ColumnBatchType, Component, Entity, EntityBuilder, World,
};

use crate::registry::{Bonfire, NewComponents};
use crate::slots::FreeIds;

/// Where rows that follow each other in the save go.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    /// New entities, spawned by batches.
    New,
    /// Entities that are there: in this archetype, from this row on.
    Kept { archetype: usize, row: usize },
}

/// The rows of a saved archetype, all of them, in order.
pub(crate) type Layout = Vec<(Range<usize>, Rows)>;

/// A step of going through a column.
enum Step {
    /// The next values take the place of these.
    Overwrite { archetype: usize, rows: Range<usize> },
    /// The next values go to a batch.
    Batch { batch: usize, len: usize },
    /// The next value goes to an entity that does not have the component.
    Insert { row: usize },
}

/// What a column is placed into.
pub(crate) struct Placement<'a> {
    steps: Vec<Step>,
    archetypes: &'a [&'a Archetype],
    batches: &'a [ColumnBatchBuilder],
    /// By row of the saved archetype, what an entity is given.
    inserted: &'a mut NewComponents,
}

/// Places all rows of a column.
pub(crate) fn place_column<T: Component>(column: StagedColumn<'_>, to: &mut Placement<'_>) {
    let Ok(mut values) = column.into_values::<T>() else {
        unreachable!("a staged column has its component's type")
    };
    let mut writers: Vec<_> = to.batches.iter().map(ColumnBatchBuilder::writer::<T>).collect();
    for step in &to.steps {
        match step {
            Step::Overwrite { archetype, rows } => {
                if let Some(mut column) = to.archetypes[*archetype].get::<&mut T>() {
                    values.put(&mut column[rows.clone()]);
                }
            }
            Step::Batch { batch, len } => {
                // Taken out for the loop: what is local can be kept in registers.
                if let Some(mut writer) = writers[*batch].take() {
                    // It was made for as many rows.
                    values.by_ref().take(*len).for_each(|value| _ = writer.push(value));
                    writers[*batch] = Some(writer);
                }
            }
            Step::Insert { row } => {
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
    fn new(layout: &Layout, columns: &[(usize, StagedColumn<'_>)]) -> Self {
        let new = layout.iter().filter(|(_, to)| matches!(to, Rows::New)).map(|(rows, _)| rows);
        let len: usize = new.clone().map(ExactSizeIterator::len).sum();
        let sparse: Vec<usize> =
            (0..columns.len()).filter(|&column| !columns[column].1.is_everywhere()).collect();
        if sparse.is_empty() {
            let batch = Batch { len, columns: (0..columns.len()).collect(), rows: None };
            return Self { batches: Vec::from_iter((len > 0).then_some(batch)), of_row: None };
        }
        let mut batches: Vec<Batch> = Vec::new();
        let mut numbers: BTreeMap<Vec<bool>, u32> = BTreeMap::new();
        let mut of_row = vec![0; layout.last().map_or(0, |(rows, _)| rows.end)];
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

/// A saved archetype whose values are placed. What is left to do changes the structure of the world.
#[derive(Default)]
pub(crate) struct Placed {
    /// New entities: which of the archetype's new rows, or all of them.
    pub(crate) spawned: Vec<(ColumnBatch, Option<Vec<usize>>)>,
    pub(crate) inserted: Vec<(Entity, EntityBuilder)>,
    /// Entities and the numbers of the components that they lose.
    pub(crate) removed: Vec<(Entity, usize)>,
}

/// The archetypes of a world, and the numbers of their registered components.
#[derive(Default)]
pub(crate) struct Live<'w> {
    pub(crate) archetypes: Vec<&'w Archetype>,
    pub(crate) numbers: Vec<Vec<usize>>,
}

impl Placed {
    /// Spawns what is new; `ids` are those of the archetype's new rows.
    pub(crate) fn spawn(&mut self, world: &mut World, free: &mut FreeIds, ids: &[EntityId]) {
        for (batch, rows) in self.spawned.drain(..) {
            match rows {
                None => free.spawn(world, batch, ids, true),
                Some(rows) => {
                    let ids: Vec<EntityId> = rows.into_iter().map(|row| ids[row]).collect();
                    free.spawn(world, batch, &ids, false);
                }
            }
        }
    }
}

/// Places the columns of a saved archetype. `entity` tells the entities of rows that are kept.
pub(crate) fn place(
    bonfire: &Bonfire,
    live: &Live<'_>,
    columns: Vec<(usize, StagedColumn<'_>)>,
    layout: &Layout,
    entity: impl Fn(usize) -> Entity,
) -> Placed {
    let mut placed = Placed::default();
    let Batches { batches, of_row } = Batches::new(layout, &columns);
    let builders: Vec<ColumnBatchBuilder> = (batches.iter())
        .map(|batch| {
            let mut types = ColumnBatchType::new();
            batch.columns.iter().for_each(|&column| (bonfire.entries[columns[column].0].add_to)(&mut types));
            types.into_batch(batch.len as u32)
        })
        .collect();
    for (rows, to) in layout {
        if let Rows::Kept { archetype, .. } = to {
            let lost = live.numbers[*archetype].iter().filter(|&&number| {
                bonfire.is_restored(number) && !columns.iter().any(|(saved, _)| *saved == number)
            });
            for &number in lost {
                placed.removed.extend(rows.clone().map(|row| (entity(row), number)));
            }
        }
    }
    let mut inserted = BTreeMap::new();
    for (number, column) in columns {
        let has = |archetype: usize| live.numbers[archetype].contains(&number);
        let lost = |row: usize| placed.removed.push((entity(row), number));
        let steps = steps(layout, &column, has, of_row.as_deref(), lost);
        let to = &mut Placement {
            steps,
            archetypes: &live.archetypes,
            batches: &builders,
            inserted: &mut inserted,
        };
        (bonfire.entries[number].place)(column, to);
    }
    placed.inserted = inserted.into_iter().map(|(row, builder)| (entity(row), builder)).collect();
    for (builder, batch) in builders.into_iter().zip(batches) {
        let Ok(built) = builder.build() else { unreachable!("all rows of a batch were written") };
        placed.spawned.push((built, batch.rows));
    }
    placed
}

/// How a column is gone through. `has` tells whether an archetype of the world has the component; `lost` is called with
/// rows that have it in the world, but not in the save.
fn steps(
    layout: &Layout,
    column: &StagedColumn<'_>,
    has: impl Fn(usize) -> bool,
    batch_of_row: Option<&[u32]>,
    mut lost: impl FnMut(usize),
) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (rows, to) in layout {
        match to {
            Rows::Kept { archetype, row: first } if has(*archetype) => {
                if column.is_everywhere() {
                    steps.push(Step::Overwrite { archetype: *archetype, rows: *first..first + rows.len() });
                    continue;
                }
                for row in rows.clone() {
                    let at = first + row - rows.start;
                    match column.is_present(row) {
                        true => steps.push(Step::Overwrite { archetype: *archetype, rows: at..at + 1 }),
                        false => lost(row),
                    }
                }
            }
            Rows::Kept { .. } => {
                let present = rows.clone().filter(|&row| column.is_present(row));
                steps.extend(present.map(|row| Step::Insert { row }));
            }
            Rows::New => match batch_of_row {
                None => steps.push(Step::Batch { batch: 0, len: rows.len() }),
                Some(batch_of_row) => {
                    for row in rows.clone().filter(|&row| column.is_present(row)) {
                        steps.push(Step::Batch { batch: batch_of_row[row] as usize, len: 1 });
                    }
                }
            },
        }
    }
    steps
}
