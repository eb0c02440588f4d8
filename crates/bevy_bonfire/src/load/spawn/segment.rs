//! Segments: rows of an archetype that have the same components, and how each is spawned.

use std::collections::HashMap;
use std::ops::Range;

use bevy_ecs::component::ComponentId;
use bevy_ecs::world::World;

use super::batch_spawn::{self, SLOTS};
use super::common_value::CommonValue;
use super::pending_archetype::PendingArchetype;
use super::raw_column::RawColumn;
use crate::registry::{Batches, ComponentRegistry};

/// Rows that have the same components.
pub(crate) struct Segment {
    pub(crate) rows: Range<usize>,
    /// The columns of the archetype that have values for these rows.
    pub(crate) columns: Vec<usize>,
    /// The slot of the batches that spawn them. Without one, they are spawned empty and their values are inserted.
    pub(crate) slot: Option<usize>,
}

/// Some rows of a segment.
pub(crate) struct SegmentRows<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) rows: Range<usize>,
}

/// Cuts archetypes into segments, and gives slots to the sets of components that have the most rows. All entities get the
/// common values beside their own components.
pub(crate) fn choose_segments(
    world: &World,
    registry: &ComponentRegistry,
    pending: &mut [PendingArchetype<'_>],
    common: &[CommonValue<'_>],
) {
    pending.iter_mut().for_each(PendingArchetype::cut_segments);
    let Batches { sets_max, rows_min } = registry.batches;
    let slots_max = sets_max.min(SLOTS);
    if slots_max == 0 || !batch_spawn::is_supported() {
        return;
    }
    let mut sizes: HashMap<Vec<ComponentId>, usize> = HashMap::new();
    for archetype in &*pending {
        for segment in &archetype.segments {
            *sizes.entry(archetype.component_ids(segment, common)).or_default() += segment.rows.len();
        }
    }
    let slots = choose_slots(world, sizes, slots_max, rows_min);
    for archetype in pending {
        for number in 0..archetype.segments.len() {
            let set = archetype.component_ids(&archetype.segments[number], common);
            archetype.segments[number].slot = slots.get(&set).copied();
        }
    }
}

/// Takes the slots of segments that are spawned over several frames, in which other loads choose slots.
pub(crate) fn bind_segments(world: &mut World, pending: &[PendingArchetype<'_>], common: &[CommonValue<'_>]) {
    for archetype in pending {
        for segment in &archetype.segments {
            if let Some(slot) = segment.slot {
                batch_spawn::bind(slot, world, &archetype.component_ids(segment, common));
            }
        }
    }
}

/// Returns the slots of sets of components: those that the world has on record, and free ones for the largest others.
/// `sizes` are the rows of each set.
fn choose_slots(
    world: &World,
    sizes: HashMap<Vec<ComponentId>, usize>,
    slots_max: usize,
    rows_min: usize,
) -> HashMap<Vec<ComponentId>, usize> {
    let mut slots: HashMap<Vec<ComponentId>, usize> = HashMap::new();
    let mut free = Vec::new();
    for slot in 0..slots_max {
        match batch_spawn::slot_components(world, slot) {
            Some(components) => {
                slots.insert(components.to_vec(), slot);
            }
            None => free.push(slot),
        }
    }
    let mut wanted: Vec<_> = sizes
        .into_iter()
        .filter(|(set, rows)| *rows >= rows_min && !set.is_empty() && !slots.contains_key(set))
        .collect();
    wanted.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    slots.extend(wanted.into_iter().map(|(set, _)| set).zip(free));
    slots
}

impl PendingArchetype<'_> {
    /// Cuts its rows into segments with the same components.
    fn cut_segments(&mut self) {
        let (rows, columns) = (self.entities.len(), &self.columns);
        let sparse: Vec<&RawColumn<'_>> = columns.iter().filter(|column| !column.is_everywhere()).collect();
        let are_alike = |a: usize, b: usize| sparse.iter().all(|column| column.has(a) == column.has(b));
        let mut start = 0;
        while start < rows {
            let with = (0..columns.len()).filter(|&column| columns[column].has(start)).collect();
            let end = match sparse.is_empty() {
                true => rows,
                false => (start + 1..rows).find(|&row| !are_alike(start, row)).unwrap_or(rows),
            };
            self.segments.push(Segment { rows: start..end, columns: with, slot: None });
            start = end;
        }
    }
}
