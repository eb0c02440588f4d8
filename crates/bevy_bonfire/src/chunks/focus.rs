//! Focuses: where players are, and where they will be.

use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::hierarchy::ChildOf;
use bevy_ecs::query::Allow;
use bevy_ecs::world::World;
use bevy_platform::time::Instant;
use bevy_transform::components::{GlobalTransform, Transform};
use bonfire_chunks::ChunkPos;
use bonfire_chunks::stream::Focus;

use super::components::{ChunkFocus, InDimension};
use super::state::{ChunkGrid, StreamState};

/// The last places of a focus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    place: [f32; 3],
    /// Units of the world in a second, smoothed.
    velocity: [f32; 3],
    at: Instant,
}

/// The share of the newest velocity: a step to the side does not turn the window around.
const NEWEST: f32 = 0.2;

impl Track {
    fn new(place: [f32; 3], at: Instant) -> Self {
        Self { place, velocity: [0.0; 3], at }
    }

    fn follow(&mut self, place: [f32; 3], at: Instant, jump: f32) {
        let seconds = (at - self.at).as_secs_f32();
        if seconds <= 0.0 {
            return;
        }
        let moved = |axis: usize| place[axis] - self.place[axis];
        if (0..3).any(|axis| moved(axis).abs() > jump) {
            *self = Self::new(place, at);
            return;
        }
        for axis in 0..3 {
            let newest = moved(axis) / seconds;
            self.velocity[axis] += (newest - self.velocity[axis]) * NEWEST;
        }
        (self.place, self.at) = (place, at);
    }
}

/// Tells the stream where the focuses are.
pub(super) fn update(world: &mut World, state: &mut StreamState) {
    let StreamState { stream, focuses, live, .. } = state;
    type Place<'w> =
        (Option<&'w ChildOf>, Option<&'w GlobalTransform>, &'w Transform, Option<&'w InDimension>);
    let mut query = world.query_filtered::<(Entity, &ChunkFocus, Place<'_>), Allow<Disabled>>();
    let now = Instant::now();
    let mut seen: Vec<Entity> = Vec::new();
    for (entity, focus, (parent, global, own, dimension)) in query.iter(world) {
        let place = match global.filter(|_| parent.is_some()) {
            Some(global) => global.translation().to_array(),
            None => own.translation.to_array(),
        };
        let dimension = dimension.map_or(0, |dimension| dimension.0);
        let edge = live.grid.edge(dimension);
        let track = focuses.entry(entity).or_insert_with(|| Track::new(place, now));
        track.follow(place, now, edge * 4.0);
        seen.push(entity);
        let Some(chunk) = live.grid.chunk_at(place, dimension) else {
            stream.set_focus(entity.to_bits(), None);
            continue;
        };
        stream.set_focus(entity.to_bits(), focus_at(focus, chunk, ahead(&live.grid, track, focus, chunk)));
    }
    if focuses.len() > seen.len() {
        focuses.retain(|entity, _| {
            let is_there = seen.contains(entity);
            if !is_there {
                stream.set_focus(entity.to_bits(), None);
            }
            is_there
        });
    }
}

fn focus_at(focus: &ChunkFocus, chunk: ChunkPos, ahead: [i32; 3]) -> Focus {
    Focus::new(chunk, focus.load_reach).unload_reach(focus.unload_reach).priority(focus.priority).ahead(ahead)
}

/// How many chunks farther it will be soon.
fn ahead(grid: &ChunkGrid, track: &Track, focus: &ChunkFocus, chunk: ChunkPos) -> [i32; 3] {
    let seconds = focus.look_ahead.as_secs_f32();
    if seconds == 0.0 {
        return [0; 3];
    }
    let place = [0, 1, 2].map(|axis| track.place[axis] + track.velocity[axis] * seconds);
    let Some(then) = grid.chunk_at(place, chunk.dimension) else { return [0; 3] };
    [then.x - chunk.x, then.y - chunk.y, then.z - chunk.z].map(|chunks| chunks.clamp(-16, 16))
}
