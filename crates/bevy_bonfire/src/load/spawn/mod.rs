//! Spawning of staged rows, shared by loads in one go and in slices, restores and deltas.
//!
//! | module | |
//! |---|---|
//! | `raw_column` | staged rows of one component, by pointer; inserts them one by one |
//! | `pending_archetype` | columns of entities that are to be spawned |
//! | `segment` | rows with the same components, and the slots of batches |
//! | `batch_spawn`, `table_fill` | the fast ways into tables |
//! | `resource` | resources |
//! | `late_insertions` | values and marks that need all entities |
//! | `relation` | relationships: targets and the order of sources |
//! | `interruption` | panics of the game, and ids that another thread has allocated |
//! | `undo` | despawning, also of loads that were abandoned |

mod batch_spawn;
mod interruption;
mod late_insertions;
mod pending_archetype;
mod raw_column;
mod relation;
mod resource;
mod segment;
mod table_fill;
mod undo;

use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;

pub(crate) use self::batch_spawn::{IdsTaken, SpareIds};
pub(crate) use self::interruption::{Interruption, catch_interruption, change_world};
pub(crate) use self::late_insertions::{ExtraColumn, LateInsertions, mark, take_late, unmarked};
pub(crate) use self::pending_archetype::PendingArchetype;
pub(crate) use self::raw_column::{RawColumn, insert, insert_row};
pub(crate) use self::relation::{
    ListOrder, RowOrder, SavedList, drop_without_target, remove_from_lists, saved_lists, with_dependants,
};
pub(crate) use self::resource::{insert_resource, load_resources, resource_columns};
pub(crate) use self::segment::{SegmentRows, choose_segments};
pub(crate) use self::undo::{despawn, reclaim, undo};

/// Spawns all entities and applies the commands of their hooks. Those that are spawned by batches get the tags. If
/// another thread has taken ids, `entities` are afterwards those that were spawned.
pub(crate) fn spawn(
    world: &mut World,
    pending: &[PendingArchetype<'_>],
    entities: &mut [Entity],
    tags: &[ComponentId],
) -> Result<(), IdsTaken> {
    for archetype in pending {
        for segment in archetype.segments.iter().filter(|segment| segment.slot.is_none()) {
            for &entity in &entities[archetype.entities.clone()][segment.rows.clone()] {
                // Nothing else has these ids, so this cannot fail.
                let _ = world.spawn_empty_at(entity);
            }
        }
    }
    let spawned = spawn_batches(world, pending, entities, tags);
    world.flush();
    for archetype in pending {
        for segment in archetype.segments.iter().filter(|segment| segment.slot.is_none()) {
            let rows = SegmentRows { segment, rows: segment.rows.clone() };
            archetype.insert_rows(world, rows, &entities[archetype.entities.clone()]);
        }
    }
    spawned
}

/// Spawns the segments that have a slot, all of them even if some ids are taken.
fn spawn_batches(
    world: &mut World,
    pending: &[PendingArchetype<'_>],
    entities: &mut [Entity],
    tags: &[ComponentId],
) -> Result<(), IdsTaken> {
    let mut spawned = Ok(());
    let mut spare = SpareIds::new(world);
    for archetype in pending {
        for segment in &archetype.segments {
            let rows = SegmentRows { segment, rows: segment.rows.clone() };
            let entities = &mut entities[archetype.entities.clone()];
            spawned = spawned.and(archetype.spawn_batch(world, rows, entities, tags, &mut spare));
        }
    }
    spare.release(world);
    spawned
}
