//! Sand that falls: a grain moves down, or down and aside. No grain is made or lost, also over the borders of chunks.

use std::collections::BTreeSet;

use bevy_bonfire::chunks::ChunkPos;
use bevy_ecs::prelude::*;

use super::books::Books;
use super::terrain::{AIR, Ground, SAND, SIZE, split};

/// Chunks in which grains have moved in the last step.
#[derive(Default)]
pub(crate) struct Moving(BTreeSet<ChunkPos>);

/// Lets every grain fall by one cell. It looks only at chunks beside which something has changed.
pub(crate) fn fall(mut ground: Ground, mut moving: Local<Moving>, mut books: ResMut<Books>) {
    let mut changed = std::mem::take(&mut moving.0);
    changed.extend(ground.cells.iter_mut().filter(|(_, cells)| cells.is_changed()).map(|(at, _)| at.0));
    let beside = |pos: &ChunkPos| {
        let ChunkPos { x, y, .. } = *pos;
        [(0, 0), (-1, 0), (1, 0), (-1, 1), (0, 1), (1, 1)].map(|(dx, dy)| ChunkPos::new(x + dx, y + dy))
    };
    let mut looked_at: Vec<ChunkPos> = changed.iter().flat_map(beside).collect();
    // From below, so that a grain moves over what has fallen before it.
    looked_at.sort_unstable_by_key(|pos| (pos.y, pos.x));
    looked_at.dedup();
    let mut crossed = BTreeSet::new();
    for pos in looked_at {
        for grain in grains(&ground, pos) {
            let Some(to) = way_down(&ground, grain, books.step) else { continue };
            ground.set(grain, AIR);
            ground.set(to, SAND);
            let target = split(to).0;
            moving.0.extend([pos, target]);
            if target != pos {
                crossed.insert((pos, target));
                books.crossed += 1;
            }
        }
    }
    for (from, to) in crossed {
        // Without this, a crash between two saves of single chunks doubles grains, or loses them.
        ground.chunks.save_together(from, to);
    }
}

/// The grains of a chunk, row by row from below. Cells of bodies are none, whatever they are made of.
fn grains(ground: &Ground, pos: ChunkPos) -> Vec<[i32; 2]> {
    let entity = ground.chunks.entity(pos).filter(|_| ground.chunks.is_active(pos));
    let Some((_, chunk)) = entity.and_then(|entity| ground.cells.get(entity).ok()) else {
        return Vec::new();
    };
    let is_grain = |(at, material): (usize, &u8)| {
        let [x, y] = [at as u32 % SIZE, at as u32 / SIZE];
        let place = [pos.x * SIZE as i32 + x as i32, pos.y * SIZE as i32 + y as i32];
        (*material == SAND && !chunk.is_drawn(x, y)).then_some(place)
    };
    chunk.cells().iter().enumerate().filter_map(is_grain).collect()
}

/// The free cell below a grain that it falls into. The edge of what is loaded is solid.
fn way_down(ground: &Ground, [x, y]: [i32; 2], step: u64) -> Option<[i32; 2]> {
    let side = if (i64::from(x + y) + step as i64) % 2 == 0 { 1 } else { -1 };
    [x, x + side, x - side].map(|x| [x, y - 1]).into_iter().find(|cell| ground.is_free(*cell))
}
