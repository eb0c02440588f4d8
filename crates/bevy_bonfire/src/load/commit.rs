//! A load in one go.
//!
//! | step | |
//! |---|---|
//! | 1 | all entities are spawned, in the order of the save; commands of hooks and observers wait |
//! | 2 | the commands are applied: every entity exists |
//! | 3 | late components; lists of sources whose order is not that of rows are put in order |
//! | 4 | replaced entities are despawned |
//! | 5 | resources |
//!
//! Nothing here fails because of the save. A hook or an observer of the game may panic in steps 1 to 3: then what was
//! spawned is despawned, and the world is as it was.

use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::world::World;
use bonfire::engine::{Staged, panic_error};
use bonfire::{Error, LoadReport, Result};

use super::LoadMode;
use super::completion::{CommittedLoad, unknown_order};
use super::outside::OutsideEntities;
use super::prepare::{PreparedLoad, StagedEntities};
use super::spawn::{
    CommonValue, ExtraColumn, Interruption, LateInsertions, PendingArchetype, RawColumn, RowOrder,
    change_world, choose_segments, complete_places, despawn, drop_without_target, end_stand_ins,
    existing_entities, load_resources, make_stand_in, resource_columns, spawn, spawn_stand_ins, take_late,
    undo, unmarked, with_dependants,
};
use crate::capture;
use crate::registry::ComponentRegistry;
use crate::selection::{self, Selection};
use crate::stable_id::{StableId, StandIn};

/// Staged entities that are in the world.
pub(super) struct CommittedEntities<'s> {
    pub(super) load: CommittedLoad,
    /// The new entities, in the order of the save.
    #[cfg_attr(not(feature = "chunks"), expect(dead_code, reason = "the load of a part returns them"))]
    pub(super) entities: Vec<Entity>,
    /// The memory of their values, which were moved.
    _pending: Vec<PendingArchetype<'s>>,
}

/// Applies staged entities to the world. All of their columns are decoded. Those that batches spawn get the common values.
pub(super) fn commit<'s>(
    world: &mut World,
    load: &PreparedLoad<'_>,
    entities: StagedEntities<'s>,
    common: &[CommonValue<'_>],
) -> Result<CommittedEntities<'s>> {
    let registry = &*load.registry;
    let replaced = replaced(world, &load.mode)?;
    let StagedEntities { ids, map, staged, order, outside, .. } = entities;
    let Staged { archetypes, resources, extras, carry, mut report } = staged;
    let (mut entities, places) = ids.into_parts();
    let unknown_order = unknown_order(&load.snapshot, registry, &order);
    let mut pending = PendingArchetype::from_staged(world, registry, archetypes, RawColumn::new);
    let resources = resource_columns(world, registry, resources);
    let extras = ExtraColumn::from_staged(world, registry, extras, &map);

    drop_without_target(registry, &mut pending, &mut report);
    let late = LateInsertions {
        values: take_late(registry, &mut pending, &entities),
        extras,
        unmarked: unmarked(world, registry, &pending, &entities),
    };
    choose_segments(world, registry, &mut pending, common);
    let existing = existing_entities(world, &places);
    let row_order = RowOrder::new(registry, &pending, &entities, &existing);

    let spawned = change_world(world, |world| {
        spawn_stand_ins(world, &places);
        end_stand_ins(world, &existing);
        let spawned = spawn(world, &pending, &mut entities, &existing, common);
        late.insert(world, &pending);
        world.flush();
        row_order.apply(world, registry, &order);
        spawned
    });
    if let Err(interruption) = spawned {
        undo(world, registry, &entities, &places, &existing);
        return Err(undone(&interruption));
    }
    complete_places(world, places);
    replace(world, load, &outside, replaced, resources, &mut report);
    let (outside, respawned) = (outside.map, Vec::new());
    let load = CommittedLoad { map, outside, report, carry, respawned, unknown_order };
    Ok(CommittedEntities { load, entities, _pending: pending })
}

/// Finds the entities that a load replaces.
pub(super) fn replaced(world: &mut World, mode: &LoadMode) -> Result<Vec<Entity>> {
    match mode {
        LoadMode::Replace => capture::selected(world, &Selection::new()),
        LoadMode::ReplaceSelected(selection) => {
            selection::prepare(selection, world);
            capture::selected(world, selection)
        }
        _ => Ok(Vec::new()),
    }
}

/// Despawns the entities that a load replaces. Those that the save refers to without having them become stand-ins.
pub(super) fn despawn_replaced(
    world: &mut World,
    registry: &ComponentRegistry,
    outside: &OutsideEntities,
    replaced: Vec<Entity>,
) {
    let targets: EntityHashSet = outside.targets().collect();
    if !targets.is_empty() && !replaced.is_empty() {
        let going = with_dependants(world, registry, &replaced, |_| false);
        for &entity in going.intersection(&targets) {
            if let Some(&id) = world.get::<StableId>(entity) {
                make_stand_in(world, entity, id);
            }
        }
    }
    let is_replaced = |entity: &Entity| world.get::<StandIn>(*entity).is_none();
    let replaced = replaced.into_iter().filter(is_replaced).collect();
    despawn(world, registry, replaced);
}

/// Despawns the entities that a load replaces, and loads its resources. The new entities are complete: a panic from here on
/// is the game's own, and nothing is left to undo.
pub(super) fn replace(
    world: &mut World,
    load: &PreparedLoad<'_>,
    outside: &OutsideEntities,
    replaced: Vec<Entity>,
    mut resources: Vec<RawColumn<'_>>,
    report: &mut LoadReport,
) {
    despawn_replaced(world, &load.registry, outside, replaced);
    if matches!(load.mode, LoadMode::Merge) {
        resources.retain_mut(|resource| {
            let exists = world.contains_resource_by_id(resource.id);
            if exists {
                resource.discard_row(0);
            }
            !exists
        });
    }
    load_resources(world, &load.registry, resources, report);
}

/// The error of a load that was interrupted and undone.
pub(super) fn undone(interruption: &Interruption) -> Error {
    match interruption {
        Interruption::Panicked(panic) => {
            let what = "a hook or an observer panicked, the load was undone. Do not insert several components by id into \
                        this world any more (`insert_by_ids`): Bevy may have forgotten what they are made of";
            panic_error(what, &**panic)
        }
        Interruption::IdsTaken => {
            Error::custom("another thread allocated entities during the load: load again")
        }
    }
}
