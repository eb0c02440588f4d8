//! Where bodies are, how they are drawn, and the chunks that they hold.

use std::collections::BTreeSet;

use bevy_ecs::change_detection::{DetectChanges, Ref};
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::hierarchy::ChildOf;
use bevy_ecs::query::{Allow, Without};
use bevy_ecs::world::World;
use bevy_transform::components::Transform;
use bonfire_chunks::stream::ChunkStream;
use bonfire_chunks::{Body, BodyDrawing, ChunkPos, ChunkRevision};

use super::PixelBody;
use super::table::{BevyCanvas, erase, note, register, set_waiting, unregister};
use crate::capture::TickRange;
use crate::chunks::components::{ChunkCells, InChunk, Roaming, Streamed};
use crate::chunks::membership;
use crate::chunks::state::{ChunkGrid, LiveChunks, PreparedChunk, StreamState};

impl ChunkGrid {
    /// The place of a body in the world of the game. What a body does not know, such as a scale, is that of a place before.
    pub(super) fn body_place(&self, body: &Body, before: Option<&Transform>) -> Transform {
        let mut place = Transform::default();
        place.rotate_z(body.rotation);
        let mut place = Transform { rotation: place.rotation, ..before.copied().unwrap_or_default() };
        [place.translation.x, place.translation.y] = body.position.map(|along| along * self.cell_size);
        place
    }

    /// Puts a body where a place is. Returns true if it was elsewhere.
    fn put_body(&self, body: &Body, place: &Transform) -> Option<([f32; 2], f32)> {
        let position = [place.translation.x, place.translation.y].map(|along| along / self.cell_size);
        let rotation = 2.0 * place.rotation.z.atan2(place.rotation.w);
        (body.position != position || body.rotation != rotation).then_some((position, rotation))
    }
}

/// Puts bodies where they are, and draws them.
pub(in crate::chunks) fn update(world: &mut World, state: &mut StreamState) {
    let StreamState { stream, live, .. } = state;
    take_in_unmarked(world, stream, live);
    if live.bodies.is_idle() {
        return;
    }
    end_duplicates(world, live);
    follow(world, stream, live);
    draw(world, stream, live);
    hold(stream, live);
}

/// Puts a body into a chunk, at the place that it has now. It is drawn at the end of the step. Returns false if it cannot be a body.
pub(in crate::chunks) fn enter(
    world: &mut World,
    live: &mut LiveChunks,
    entity: Entity,
    pos: ChunkPos,
) -> bool {
    if !live.bodies.has(entity) && !register(world, live, entity, pos) {
        return false;
    }
    let Some(known) = live.bodies.all.get(&entity) else { return false };
    if known.is_member {
        note(live, known.home);
    }
    put(world, live, entity, pos);
    if let Some(known) = live.bodies.all.get_mut(&entity) {
        known.is_member = true;
    }
    note(live, pos);
    true
}

/// Puts a body where its `Transform` is.
fn put(world: &mut World, live: &mut LiveChunks, entity: Entity, home: ChunkPos) {
    let LiveChunks { bodies, grid, .. } = live;
    let Some(known) = bodies.all.get_mut(&entity) else { return };
    let Some(place) = world.get::<Transform>(entity).copied() else { return };
    (known.home, known.place, known.needs_drawing) = (home, place, true);
    let moved = world.get::<PixelBody>(entity).and_then(|body| grid.put_body(body, &place));
    if let Some((position, rotation)) = moved
        && let Some(mut body) = world.get_mut::<PixelBody>(entity)
    {
        (body.body.position, body.body.rotation) = (position, rotation);
    }
}

/// Takes in bodies that are not saved.
fn take_in_unmarked(world: &mut World, stream: &ChunkStream<PreparedChunk>, live: &mut LiveChunks) {
    type Unmarked = (Without<Streamed>, Without<Roaming>, Without<ChildOf>, Allow<Disabled>);
    let Some(mut query) = world.try_query_filtered::<(Entity, &PixelBody), Unmarked>() else { return };
    let new: Vec<Entity> =
        query.iter(world).map(|(entity, _)| entity).filter(|entity| !live.bodies.has(*entity)).collect();
    for entity in new {
        let Some(pos) = membership::place_of(world, live, entity) else { continue };
        if stream.is_active(pos) && register(world, live, entity, pos) {
            put(world, live, entity, pos);
        }
    }
}

/// Lets duplicates go on whose other body is gone.
fn end_duplicates(world: &mut World, live: &mut LiveChunks) {
    let waiting = live.bodies.all.iter().filter(|(_, body)| body.is_duplicate);
    let waiting: Vec<(Entity, ChunkPos)> = waiting.map(|(entity, body)| (*entity, body.home)).collect();
    for (entity, home) in waiting {
        let Some(known) = live.bodies.all.get_mut(&entity) else { continue };
        if live.bodies.by_id.contains_key(&known.id) {
            continue;
        }
        (known.is_duplicate, known.needs_drawing) = (false, true);
        live.bodies.by_id.insert(known.id, entity);
        note(live, home);
        set_waiting(world, entity, false);
    }
}

/// Follows bodies that have moved within their chunk. Those that leave it are a matter of membership.
fn follow(world: &mut World, stream: &ChunkStream<PreparedChunk>, live: &mut LiveChunks) {
    let now = world.change_tick();
    let ticks = live.bodies.followed.and_then(|followed| TickRange::new(followed, now));
    let mut query = world.query_filtered::<(Entity, Ref<'_, Transform>, &PixelBody), Allow<Disabled>>();
    let is_elsewhere = |(entity, place, _): &(Entity, Ref<'_, Transform>, &PixelBody)| {
        ticks.is_none_or(|ticks| ticks.has(place.last_changed()))
            && live.bodies.all.get(entity).is_some_and(|known| known.place != **place)
    };
    let moved: Vec<Entity> = query.iter(world).filter(is_elsewhere).map(|(entity, ..)| entity).collect();
    for entity in moved {
        let Some(pos) = membership::place_of(world, live, entity) else { continue };
        let Some(known) = live.bodies.all.get(&entity) else { continue };
        match known.is_member {
            true if known.home == pos => {
                put(world, live, entity, pos);
                note(live, pos);
            }
            true => {}
            false if stream.is_active(pos) => put(world, live, entity, pos),
            false => {
                // Nothing saves it, and nothing is there to draw it on.
                unregister(world, live, entity);
                world.despawn(entity);
            }
        }
    }
    live.bodies.followed = Some(now);
    world.increment_change_tick();
}

/// Draws bodies that have moved, changed their shape, or reach into a chunk that has come.
pub(in crate::chunks) fn draw(
    world: &mut World,
    stream: &mut ChunkStream<PreparedChunk>,
    live: &mut LiveChunks,
) {
    let arrived = std::mem::take(&mut live.bodies.arrived);
    let mut drawn = Vec::new();
    let changed = changed_places(world, live);
    for (entity, body) in &mut live.bodies.all {
        body.needs_drawing |= arrived.iter().any(|pos| body.touched.contains(pos));
        // What was in front of it may have gone.
        body.needs_drawing |= body.behind.iter().any(|(pos, _)| changed.contains(pos));
        if body.needs_drawing && !body.is_duplicate {
            body.needs_drawing = false;
            drawn.push((*entity, std::mem::take(&mut body.drawing)));
        }
    }
    // All of them are taken away first, so that one may be drawn where another was.
    let mut entities: Vec<Entity> = drawn.iter().map(|(entity, _)| *entity).collect();
    entities.sort_unstable();
    for (_, drawing) in drawn {
        erase(world, &live.chunks, drawing);
    }
    for entity in entities {
        draw_one(world, stream, live, entity);
    }
}

/// Chunks of bodies with hidden cells, in which the ground has changed, or another body is drawn anew.
fn changed_places(world: &World, live: &LiveChunks) -> BTreeSet<ChunkPos> {
    let all = || live.bodies.all.values();
    let is_other = |(pos, revision): &&(ChunkPos, ChunkRevision)| {
        let chunk = live.chunks.get(pos).and_then(|chunk| world.get::<ChunkCells>(chunk.entity));
        chunk.is_some_and(|chunk| chunk.revision() != *revision)
    };
    let mut changed: BTreeSet<ChunkPos> =
        all().flat_map(|body| &body.behind).filter(is_other).map(|(pos, _)| *pos).collect();
    if all().any(|body| !body.behind.is_empty()) {
        let moving = all().filter(|body| body.needs_drawing);
        changed.extend(moving.flat_map(|body| body.drawing.chunks()));
    }
    changed
}

fn draw_one(
    world: &mut World,
    stream: &mut ChunkStream<PreparedChunk>,
    live: &mut LiveChunks,
    entity: Entity,
) {
    let LiveChunks { bodies, chunks, grid, .. } = live;
    let Some(known) = bodies.all.get_mut(&entity) else { return };
    let Some(size) = grid.dimensions.get(&known.home.dimension).map(|dimension| dimension.chunk_size) else {
        return;
    };
    let Some(body) = world.get::<PixelBody>(entity).map(|body| body.body.clone()) else { return };
    let dimension = known.home.dimension;
    known.touched =
        body.touched_chunks(dimension, size).map(|rect| rect.iter().collect()).unwrap_or_default();
    let mut canvas = BevyCanvas { world, chunks, stream: Some(stream) };
    match BodyDrawing::draw(&body, dimension, size, &mut canvas) {
        Ok(drawing) => known.drawing = drawing,
        Err(error) => log::error!("a body cannot be drawn: {error}"),
    }
    known.behind.clear();
    if known.drawing.hidden_cells() > 0 {
        let revision = |pos: &ChunkPos| {
            let chunk = world.get::<ChunkCells>(chunks.get(pos)?.entity)?;
            Some((*pos, chunk.revision()))
        };
        known.behind.extend(known.touched.iter().filter_map(revision));
    }
    if std::mem::take(&mut known.is_new) && known.is_member {
        known.touched.iter().for_each(|pos| stream.exchanged(known.home, *pos));
    }
    let waits = !known.touched.iter().all(|pos| stream.is_active(*pos));
    set_waiting(world, entity, waits);
}

/// Keeps the chunks loaded that bodies reach into, if those of the bodies are kept for themselves.
fn hold(stream: &mut ChunkStream<PreparedChunk>, live: &mut LiveChunks) {
    for pos in std::mem::take(&mut live.bodies.ended_holds) {
        stream.let_loose(pos);
    }
    for body in live.bodies.all.values_mut() {
        let reaches_out = body.touched.len() > 1 && body.is_member;
        if !reaches_out && body.held.is_empty() {
            continue;
        }
        let others = body.touched.iter().copied().filter(|pos| *pos != body.home);
        let held: Vec<ChunkPos> = others.filter(|_| reaches_out && stream.is_kept(body.home)).collect();
        if held != body.held {
            held.iter().for_each(|pos| stream.hold(*pos));
            body.held.iter().for_each(|pos| stream.let_loose(*pos));
            body.held = held;
        }
    }
}

/// A chunk leaves the world: bodies that only reach into it stay, and those in it go with it.
pub(in crate::chunks) fn leave(world: &mut World, live: &mut LiveChunks, pos: ChunkPos) {
    let mut going = Vec::new();
    for (entity, body) in &mut live.bodies.all {
        if body.home == pos {
            going.push((*entity, body.is_member));
        }
        if body.drawing.forget(pos) {
            body.needs_drawing = true;
        }
    }
    for (entity, is_member) in going {
        unregister(world, live, entity);
        if !is_member && world.get_entity(entity).is_ok() {
            world.despawn(entity);
        }
    }
}

/// Forgets the chunk of a body that has left it without entering another one.
pub(in crate::chunks) fn release(world: &World, live: &mut LiveChunks, entity: Entity) {
    if let Some(body) = live.bodies.all.get_mut(&entity)
        && world.get::<InChunk>(entity).is_none()
    {
        body.is_member = false;
        let home = body.home;
        note(live, home);
    }
}
