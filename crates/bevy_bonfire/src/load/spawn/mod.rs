//! Spawning of staged rows, shared by loads in one go and in slices, restores and deltas.
//!
//! | module | |
//! |---|---|
//! | `raw_column` | staged rows of one component, by pointer; inserts them one by one |
//! | `pending_archetype` | columns of entities that are to be spawned |
//! | `segment` | rows with the same components, and the slots of batches |
//! | `batch_spawn`, `table_fill` | the fast ways into tables |
//! | `common_value` | components that batches give to all of their entities |
//! | `resource` | resources |
//! | `late_insertions` | values and marks that need all entities |
//! | `relation` | relationships: targets and the order of sources |
//! | `interruption` | panics of the game, and ids that another thread has allocated |
//! | `stand_in` | stand-ins for entities that are away, and their places |
//! | `undo` | despawning, also of loads that were abandoned |

mod batch_spawn;
mod common_value;
mod interruption;
mod late_insertions;
mod pending_archetype;
mod raw_column;
mod relation;
mod resource;
mod segment;
mod stand_in;
mod table_fill;
mod undo;

use std::ops::Range;

use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::world::World;

pub(crate) use self::batch_spawn::{IdsTaken, SpareIds};
pub(crate) use self::common_value::CommonValue;
#[cfg(feature = "chunks")]
pub(crate) use self::common_value::is_spawning;
pub(crate) use self::interruption::{Interruption, catch_interruption, change_world};
pub(crate) use self::late_insertions::{ExtraColumn, LateInsertions, mark, take_late, unmarked};
pub(crate) use self::pending_archetype::PendingArchetype;
pub(crate) use self::raw_column::{RawColumn, insert, insert_row};
pub(crate) use self::relation::{
    ListOrder, RowOrder, SavedList, drop_without_target, has_sources, release_sources, remove_from_lists,
    saved_lists, with_dependants,
};
pub(crate) use self::resource::{insert_resource, load_resources, resource_columns};
pub(crate) use self::segment::{SegmentRows, bind_segments, choose_segments};
pub(crate) use self::stand_in::{
    complete_places, end_stand_ins, existing_entities, make_stand_in, spawn_stand_ins,
};
pub(crate) use self::undo::{despawn, reclaim, undo};

/// Spawns all entities and applies the commands of their hooks. Those that are spawned by batches get the common values.
/// `existing` are those that exist already: they get their values beside what they have. If another thread has taken ids,
/// `entities` are afterwards those that were spawned.
pub(crate) fn spawn(
    world: &mut World,
    pending: &[PendingArchetype<'_>],
    entities: &mut [Entity],
    existing: &EntityHashSet,
    common: &[CommonValue<'_>],
) -> Result<(), IdsTaken> {
    for archetype in pending {
        for segment in archetype.segments.iter().filter(|segment| segment.slot.is_none()) {
            for &entity in &entities[archetype.entities.clone()][segment.rows.clone()] {
                // Nothing else has these ids, so this fails only for those that exist.
                let _ = world.spawn_empty_at(entity);
            }
        }
    }
    let spawned = spawn_batches(world, pending, entities, existing, common);
    world.flush();
    for archetype in pending {
        let entities = &entities[archetype.entities.clone()];
        for segment in &archetype.segments {
            if segment.slot.is_none() {
                let rows = SegmentRows { segment, rows: segment.rows.clone() };
                archetype.insert_rows(world, rows, entities);
            } else if !existing.is_empty() {
                let rows = segment.rows.clone().filter(|&row| existing.contains(&entities[row]));
                for row in rows {
                    archetype.insert_rows(world, SegmentRows { segment, rows: row..row + 1 }, entities);
                }
            }
        }
    }
    spawned
}

/// Spawns the segments that have a slot, all of them even if some ids are taken.
fn spawn_batches(
    world: &mut World,
    pending: &[PendingArchetype<'_>],
    entities: &mut [Entity],
    existing: &EntityHashSet,
    common: &[CommonValue<'_>],
) -> Result<(), IdsTaken> {
    let mut spawned = Ok(());
    let mut spare = SpareIds::new(world);
    for archetype in pending {
        let entities = &mut entities[archetype.entities.clone()];
        for segment in &archetype.segments {
            for rows in missing_rows(entities, segment.rows.clone(), existing) {
                let rows = SegmentRows { segment, rows };
                spawned = spawned.and(archetype.spawn_batch(world, rows, entities, common, &mut spare));
            }
        }
    }
    spare.release(world);
    spawned
}

/// Cuts rows where there are entities that exist, and leaves those out.
fn missing_rows(entities: &[Entity], rows: Range<usize>, existing: &EntityHashSet) -> Vec<Range<usize>> {
    if existing.is_empty() {
        return vec![rows];
    }
    let (mut missing, mut start) = (Vec::new(), rows.start);
    for row in rows.clone().filter(|&row| existing.contains(&entities[row])) {
        missing.push(start..row);
        start = row + 1;
    }
    missing.push(start..rows.end);
    missing.retain(|rows| !rows.is_empty());
    missing
}
