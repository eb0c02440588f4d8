//! Lists of sources that have changed, or whose sources have other places.

use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::world::World;
use bonfire::EntityId;
use bonfire::engine::DeltaWriter;

use super::entity_tracker::{EntityChanges, RowOrigin};
use super::row_bits::{ColumnBits, RowBits};
use crate::capture::{ChosenArchetype, TickRange};
use crate::registry::{ComponentRegistry, RelationshipSources, live_target};

/// The places in which lists may have changed.
pub(super) struct ListChanges<'a> {
    pub(super) world: &'a World,
    pub(super) registry: &'a ComponentRegistry,
    pub(super) chosen: &'a [ChosenArchetype<'a>],
    pub(super) changes: &'a EntityChanges,
    pub(super) ticks: TickRange,
}

/// Writes the lists of all targets that were touched, or that have a source in another archetype than before: code that puts
/// deltas together knows lists by the order of rows.
pub(super) fn write(lists: &ListChanges<'_>, bits: &mut RowBits, writer: &mut DeltaWriter<'_>) {
    let &ListChanges { world, registry, chosen, changes, ticks } = lists;
    for (number, entry) in registry.entries.iter().enumerate() {
        let Some(relation) = entry.relation else { continue };
        if registry.core.descriptors()[number].is_transient() {
            continue;
        }
        let Some(sources) = RelationshipSources::of(world, relation.targets) else { continue };
        let mut targets: Vec<Entity> = Vec::new();
        let mut seen = EntityHashSet::default();
        for (chosen, entered) in chosen.iter().zip(&changes.entered) {
            if chosen.archetype.contains(relation.targets) {
                bits.reset(chosen.rows.len(), 1);
                let column = &mut ColumnBits { bits, column: 0 };
                ticks.mark_changed(world, &chosen.rows, relation.targets, column);
                let spawned = entered.iter().filter(|(_, origin)| *origin == RowOrigin::Spawned);
                spawned.for_each(|(row, _)| bits.touch(*row));
                bits.for_each(|row, _| {
                    let target = chosen.rows.entities()[row];
                    if seen.insert(target) {
                        targets.push(target);
                    }
                });
            }
            if chosen.archetype.contains(entry.id) {
                for (row, _) in entered {
                    let source = chosen.rows.entities()[*row];
                    let target = live_target(world, source, entry.id, relation.offset);
                    if let Some(target) = target.filter(|target| seen.insert(*target)) {
                        targets.push(target);
                    }
                }
            }
        }
        for target in targets.into_iter().filter(|target| world.get_entity(*target).is_ok()) {
            let mut list: Vec<EntityId> = Vec::new();
            sources.for_each(target, |source| list.push(source.into()));
            if list.len() > 1 {
                writer.list(number, target.into(), list);
            }
        }
    }
}
