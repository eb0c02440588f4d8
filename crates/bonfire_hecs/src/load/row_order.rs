//! The order of entities within their archetypes, after a restore.
//!
//! hecs has no call that reorders rows. An entity that moves to another archetype and back becomes the last one of its own, and
//! the last one takes its row. If few entities are out of place, they are exchanged so one by one. If many are, all entities
//! behind the first of them leave and come back in the wanted order.

use std::collections::HashMap;

use bonfire::engine::row_exchanges;
use hecs::{Entity, World};

/// On entities that are out of their archetype.
struct Moving;

/// Puts entities in this order, archetype by archetype. Other entities of the same archetypes come after them.
pub(super) fn restore_row_order(world: &mut World, saved: impl Iterator<Item = Entity>) {
    let ranks: HashMap<Entity, usize> = saved.enumerate().map(|(rank, entity)| (entity, rank)).collect();
    let rank = |entity: &Entity| ranks.get(entity).copied().unwrap_or(usize::MAX);
    let mut entities = world.iter().map(|entity| entity.entity());
    let archetypes: Vec<Vec<Entity>> = world
        .archetypes()
        .map(|archetype| entities.by_ref().take(archetype.len() as usize).collect())
        .collect();
    for live in archetypes {
        let mut wanted = live.clone();
        wanted.sort_by_key(rank);
        let in_place = live.iter().zip(&wanted).take_while(|(live, wanted)| live == wanted).count();
        let displaced = live.iter().zip(&wanted).filter(|(live, wanted)| live != wanted).count();
        // An exchange moves two entities, and a third one back.
        if 2 * displaced < live.len() - in_place {
            let mut rows = live.clone();
            for row in row_exchanges(&live, &wanted) {
                let _ = world.insert_one(rows[row], Moving);
                let _ = world.remove_one::<Moving>(rows[row]);
                let last = rows.len() - 1;
                rows.swap(row, last);
            }
            continue;
        }
        // From the last one on: each leaves the rows before it as they are.
        for &entity in live[in_place..].iter().rev() {
            let _ = world.insert_one(entity, Moving);
        }
        for &entity in &wanted[in_place..] {
            let _ = world.remove_one::<Moving>(entity);
        }
    }
}
