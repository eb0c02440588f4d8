//! Archetypes of a load before their entities are spawned.

use std::ops::Range;

use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{SaveScope, StagedArchetype, StagedColumn};

use super::batch_spawn::{self, IdsTaken, SpareIds};
use super::common_value::CommonValue;
use super::raw_column::{RawColumn, insert_row};
use super::segment::{Segment, SegmentRows};
use crate::registry::{ComponentRegistry, InsertMode};
use crate::selection::Saved;

/// Entities with the same saved components, and their rows, before they are spawned.
pub(crate) struct PendingArchetype<'s> {
    /// Its entities, as a range of all new entities.
    pub(crate) entities: Range<usize>,
    /// Sorted by component id.
    pub(crate) columns: Vec<RawColumn<'s>>,
    /// All rows, once [`choose_segments`](super::choose_segments) has cut them.
    pub(crate) segments: Vec<Segment>,
}

/// Where the values of a component are.
#[derive(Clone, Copy)]
enum ValueSource<'a> {
    Column(&'a RawColumn<'a>),
    Common(&'a CommonValue<'a>),
}

/// [`RawColumn::new`] or [`RawColumn::in_parts`].
type NewRawColumn<'s> =
    fn(&World, &ComponentRegistry, usize, StagedColumn<'s>, usize) -> Option<RawColumn<'s>>;

impl<'s> PendingArchetype<'s> {
    /// Columns that are sorted by component id.
    pub(crate) fn new(entities: Range<usize>, columns: Vec<RawColumn<'s>>) -> Self {
        Self { entities, columns, segments: Vec::new() }
    }

    /// Takes over the rows of staged archetypes.
    pub(crate) fn from_staged(
        world: &World,
        registry: &ComponentRegistry,
        archetypes: Vec<StagedArchetype<'s>>,
        new: NewRawColumn<'s>,
    ) -> Vec<Self> {
        let mut pending = Vec::with_capacity(archetypes.len());
        let mut start = 0;
        for archetype in archetypes {
            let rows = archetype.ids.len();
            let mut columns: Vec<RawColumn<'_>> = (archetype.columns.into_iter())
                .filter_map(|(number, column)| new(world, registry, number, column, rows))
                .collect();
            columns.sort_by_key(|column| column.id);
            pending.push(Self::new(start..start + rows, columns));
            start += rows;
        }
        pending
    }

    /// Moves some rows into an archetype of their own, whose entities begin at `start`.
    pub(crate) fn split_off(&mut self, rows: &[usize], start: usize) -> PendingArchetype<'static> {
        let columns = self.columns.iter_mut().map(|column| column.split_off(rows)).collect();
        PendingArchetype::new(start..start + rows.len(), columns)
    }

    /// Returns true if nothing makes its entities part of the next save. Either the save was made without marks, and this
    /// world saves what is marked; or this build knows none of their components.
    pub(crate) fn needs_mark(&self, world: &World, registry: &ComponentRegistry) -> bool {
        let saved = world.components().component_id::<Saved>();
        !self.columns.iter().any(|column| {
            Some(column.id) == saved
                || registry.scope == SaveScope::Persisted && !registry.entries[column.number].incidental
        })
    }
}

impl PendingArchetype<'_> {
    /// The components that entities of a segment are spawned with, sorted.
    pub(super) fn component_ids(&self, segment: &Segment, common: &[CommonValue<'_>]) -> Vec<ComponentId> {
        self.components(segment, common).map(|(id, _)| id).collect()
    }

    /// The components that entities of a segment are spawned with, sorted, and where their values are. What is saved too comes
    /// from the save.
    fn components<'a>(
        &'a self,
        segment: &'a Segment,
        common: &'a [CommonValue<'a>],
    ) -> impl Iterator<Item = (ComponentId, ValueSource<'a>)> + 'a {
        let columns = segment.columns.iter().map(|&column| &self.columns[column]);
        let mut columns = columns.map(|column| (column.id, ValueSource::Column(column))).peekable();
        let mut common = common.iter().map(|value| (value.id, ValueSource::Common(value))).peekable();
        std::iter::from_fn(move || match (columns.peek(), common.peek()) {
            (Some(&(id, _)), Some(&(given, _))) if given < id => common.next(),
            (Some(&(id, _)), given) => {
                if given.is_some_and(|(given, _)| *given == id) {
                    common.next();
                }
                columns.next()
            }
            (None, _) => common.next(),
        })
    }

    /// Spawns some rows of a segment, if it is spawned by batches.
    #[expect(unsafe_code, reason = "hands rows over to a batch")]
    pub(crate) fn spawn_batch(
        &self,
        world: &mut World,
        SegmentRows { segment, rows }: SegmentRows<'_>,
        entities: &mut [Entity],
        common: &[CommonValue<'_>],
        spare: &mut SpareIds,
    ) -> Result<(), IdsTaken> {
        let Some(slot) = segment.slot else { return Ok(()) };
        let ids = self.component_ids(segment, common);
        let source = |source: ValueSource<'_>| match source {
            ValueSource::Column(column) => column.source(rows.start),
            ValueSource::Common(value) => value.rows(),
        };
        let sources: Vec<_> = self.components(segment, common).map(|(_, value)| source(value)).collect();
        // SAFETY: each row of the segment has a value in each of its columns, one after the other, because presence is
        // the same for all of them. They are moved here and nowhere else: segments share no rows, a row is spawned once,
        // `insert` takes only rows that were taken out of them before, and a column never drops a row on its own. Common
        // values are `Copy` or have no bytes, and are borrowed. The entities were allocated for these rows.
        unsafe { batch_spawn::spawn(slot, world, &ids, &sources, &mut entities[rows], spare) }
    }

    /// Inserts some rows of a segment that is not spawned by batches. The entities exist.
    #[expect(unsafe_code, reason = "hands rows over one by one")]
    pub(crate) fn insert_rows(
        &self,
        world: &mut World,
        SegmentRows { segment, rows }: SegmentRows<'_>,
        entities: &[Entity],
    ) {
        let columns: Vec<&RawColumn<'_>> =
            segment.columns.iter().map(|&column| &self.columns[column]).collect();
        let ids: Vec<ComponentId> = columns.iter().map(|column| column.id).collect();
        let mode = *world.resource::<InsertMode>();
        for row in rows {
            // SAFETY: as for batches; this segment is not spawned by one.
            unsafe { insert_row(world, entities[row], &ids, &columns, row, mode) };
        }
    }
}
