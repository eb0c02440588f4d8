//! What happens to the shape of bodies: cells that they lose, fragments, bodies that are gone.

use bevy_ecs::change_detection::{DetectChanges, Ref};
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::hierarchy::ChildOf;
use bevy_ecs::query::{Allow, Or, With};
use bevy_ecs::world::World;
use bevy_transform::components::Transform;
use bonfire_chunks::stream::ChunkStream;
use bonfire_chunks::{Body, ChunkPos};

use super::table::{note, refuse, unregister};
use super::{BodyChange, BodyChanged, LostCell, PixelBody};
use crate::capture::TickRange;
use crate::chunks::components::{ChunkAt, ChunkCells, InDimension, Roaming, Streamed};
use crate::chunks::state::{LiveChunks, News, PreparedChunk, StreamState};

/// Looks at what has become of the bodies since the last frame.
pub(in crate::chunks) fn update(world: &mut World, state: &mut StreamState) {
    let StreamState { stream, live, .. } = state;
    refuse_some(world, live);
    if live.bodies.is_idle() {
        return;
    }
    forget_gone(world, live);
    take_overwritten(world, live);
    for entity in reshaped(world, live) {
        reshape(world, stream, live, entity);
    }
}

/// Notes the chunks of bodies that have changed since the last look.
pub(in crate::chunks) fn look(world: &mut World, live: &mut LiveChunks) {
    if live.bodies.all.is_empty() {
        return;
    }
    let now = world.change_tick();
    let ticks = live.bodies.looked.and_then(|looked| TickRange::new(looked, now));
    let mut query = world.query_filtered::<(Entity, Ref<'_, PixelBody>), Allow<Disabled>>();
    for (entity, body) in query.iter(world) {
        let is_changed = ticks.is_none_or(|ticks| ticks.has(body.last_changed()));
        if let Some(known) = live.bodies.all.get(&entity).filter(|known| is_changed && known.is_member)
            && let Some(chunk) = live.chunks.get_mut(&known.home)
        {
            chunk.has_changed_bodies = true;
        }
    }
    overlook(world, live);
}

/// Takes the bodies as they are now.
pub(super) fn overlook(world: &mut World, live: &mut LiveChunks) {
    live.bodies.looked = Some(world.change_tick());
    // What the game changes from here on has a tick of its own.
    world.increment_change_tick();
}

/// Tells the game of bodies whose cells nothing saves.
fn refuse_some(world: &mut World, live: &mut LiveChunks) {
    type Elsewhere = (With<PixelBody>, Or<(With<Roaming>, With<ChildOf>)>, Allow<Disabled>);
    let Some(mut query) = world.try_query_filtered::<(Entity, Option<&ChildOf>), Elsewhere>() else { return };
    let found: Vec<(Entity, bool)> =
        query.iter(world).map(|(entity, parent)| (entity, parent.is_some())).collect();
    for (entity, is_child) in found {
        let why = match is_child {
            true => "it is the child of another entity, and bodies stand alone",
            false => "it is `Roaming`, and bodies belong to chunks",
        };
        refuse(live, entity, why);
    }
}

/// Takes bodies out of the table that the game has despawned.
fn forget_gone(world: &mut World, live: &mut LiveChunks) {
    let is_gone = |entity: &&Entity| world.get::<PixelBody>(**entity).is_none();
    let gone: Vec<Entity> = live.bodies.all.keys().filter(is_gone).copied().collect();
    for entity in gone {
        note_home(live, entity);
        unregister(world, live, entity);
    }
}

fn note_home(live: &mut LiveChunks, entity: Entity) {
    if let Some(home) = live.bodies.all.get(&entity).filter(|body| body.is_member).map(|body| body.home) {
        note(live, home);
    }
}

/// Finds what the game has changed in chunks where bodies were drawn. The bodies have lost it.
fn take_overwritten(world: &mut World, live: &mut LiveChunks) {
    let ticks = live.bodies.followed.and_then(|tick| TickRange::new(tick, world.change_tick()));
    let mut query = world.query::<(Entity, &ChunkAt, Ref<'_, ChunkCells>)>();
    let is_new = |cells: &Ref<'_, ChunkCells>| ticks.is_none_or(|ticks| ticks.has(cells.last_changed()));
    let found: Vec<(Entity, ChunkPos)> = query
        .iter(world)
        .filter(|(_, _, cells)| is_new(cells) && cells.has_overwritten())
        .map(|(entity, at, _)| (entity, at.0))
        .collect();
    for (chunk, pos) in found {
        let Some(mut cells) = world.get_mut::<ChunkCells>(chunk) else { continue };
        let overwritten = cells.take_overwritten();
        let mut losers = Vec::new();
        for (entity, body) in &mut live.bodies.all {
            let lost = body.drawing.lose(pos, &overwritten);
            if !lost.is_empty() {
                losers.push((*entity, body.id, lost));
            }
        }
        for (entity, id, mut lost) in losers {
            let Some(mut body) = world.get_mut::<PixelBody>(entity) else { continue };
            // The game may have removed them already, and a cell may be drawn twice.
            lost.retain(|[x, y]| body.remove_cell(*x, *y));
            body.is_reshaped = true;
            if lost.is_empty() {
                continue;
            }
            let lost =
                lost.into_iter().map(|at| LostCell { at, cell: cell_of(&body, at).to_vec() }).collect();
            live.news.push(News::Body(BodyChanged { entity, id, change: BodyChange::LostCells(lost) }));
        }
    }
}

/// The bytes of a cell, solid or not.
fn cell_of(body: &Body, [x, y]: [u32; 2]) -> &[u8] {
    let bytes = body.cells.len() / (body.width as usize * body.height as usize).max(1);
    let at = (y as usize * body.width as usize + x as usize) * bytes;
    &body.cells[at..at + bytes]
}

/// Bodies whose cells have come or gone.
fn reshaped(world: &mut World, live: &LiveChunks) -> Vec<Entity> {
    let mut query = world.query_filtered::<(Entity, &PixelBody), Allow<Disabled>>();
    let found = query.iter(world).filter(|(entity, body)| body.is_reshaped && live.bodies.has(*entity));
    found.map(|(entity, _)| entity).collect()
}

/// Removes a body that is empty, splits one that has fallen apart, and has it drawn again.
fn reshape(
    world: &mut World,
    stream: &mut ChunkStream<PreparedChunk>,
    live: &mut LiveChunks,
    entity: Entity,
) {
    let Some(known) = live.bodies.all.get_mut(&entity) else { return };
    let (id, home, touched) = (known.id, known.home, known.touched.clone());
    known.needs_drawing = true;
    let is_member = known.is_member;
    // What goes to the ground, to fragments, or back is saved in one step. All of it is within reach of the body.
    for pos in touched.into_iter().filter(|_| is_member) {
        stream.exchanged(home, pos);
    }
    note_home(live, entity);
    let Some(mut body) = world.get_mut::<PixelBody>(entity) else { return };
    if body.is_empty() {
        unregister(world, live, entity);
        world.despawn(entity);
        live.news.push(News::Body(BodyChanged { entity, id, change: BodyChange::Gone }));
        return;
    }
    let mut whole = body.body.clone();
    let fragments = whole.split_off_fragments();
    let chunk_of = |fragment: &Body| {
        let size = live.grid.dimensions.get(&home.dimension)?.chunk_size;
        Some(fragment.chunk(size)?.in_dimension(home.dimension))
    };
    let homes: Option<Vec<ChunkPos>> = fragments.iter().map(chunk_of).collect();
    // A fragment whose chunk is not there would be saved nowhere. It stays part of the body until then.
    if !homes.is_some_and(|homes| homes.iter().all(|pos| stream.is_active(*pos))) {
        return;
    }
    (body.body, body.is_reshaped) = (whole, false);
    if !fragments.is_empty() {
        let come = fragments.into_iter().map(|fragment| spawn_fragment(world, live, entity, fragment));
        let change = BodyChange::Broke(come.collect());
        live.news.push(News::Body(BodyChanged { entity, id, change }));
    }
}

/// Spawns a part that has broken off a body.
fn spawn_fragment(world: &mut World, live: &LiveChunks, parent: Entity, fragment: Body) -> Entity {
    let place = live.grid.body_place(&fragment, world.get::<Transform>(parent));
    let is_streamed = world.get::<Streamed>(parent).is_some();
    let dimension = world.get::<InDimension>(parent).copied();
    let mut entity = world.spawn((PixelBody::from(fragment), place));
    if is_streamed {
        entity.insert(Streamed);
    }
    if let Some(dimension) = dimension {
        entity.insert(dimension);
    }
    entity.id()
}
