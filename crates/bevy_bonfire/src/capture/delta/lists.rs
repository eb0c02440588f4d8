//! Lists of sources that have changed, or whose sources have other places.

use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::world::World;
use bonfire::EntityId;
use bonfire::engine::DeltaWriter;

use super::structure::{Arrival, Changes};
use crate::capture::Chosen;
use crate::capture::changes::{RowBits, TickRange};
use crate::capture::column::Sources;
use crate::load::live_target;
use crate::registry::Registered;

/// Tells the lists of all targets that were touched, or a source of which has other components now: who puts deltas together
/// knows lists by the order of rows.
pub(super) fn write(
    world: &World,
    registry: &Registered,
    chosen: &[Chosen<'_>],
    changes: &Changes,
    ticks: TickRange,
    bits: &mut RowBits,
    writer: &mut DeltaWriter<'_>,
) {
    for (number, entry) in registry.entries.iter().enumerate() {
        let Some(relation) = entry.relation else { continue };
        if registry.registry.descriptors()[number].is_transient() {
            continue;
        }
        let Some(sources) = Sources::of(world, relation.targets) else { continue };
        let mut targets: Vec<Entity> = Vec::new();
        let mut seen = EntityHashSet::default();
        for (chosen, arrivals) in chosen.iter().zip(&changes.arrivals) {
            if chosen.archetype.contains(relation.targets) {
                bits.reset(chosen.rows.len(), 1);
                ticks.set_bits(world, &chosen.rows, relation.targets, 0, bits);
                let spawned = arrivals.iter().filter(|(_, arrival)| *arrival == Arrival::Spawned);
                spawned.for_each(|(row, _)| bits.touch(*row));
                bits.for_each(|row, _| {
                    let target = chosen.rows.entities()[row];
                    if seen.insert(target) {
                        targets.push(target);
                    }
                });
            }
            if chosen.archetype.contains(entry.id) {
                for (row, _) in arrivals {
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
