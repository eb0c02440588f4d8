//! Bodies that come and go with their chunks.
//!
//! The file has the cells of a body in a record, and its other components in the entities of the chunk. The id of the body joins
//! them.

use bevy_ecs::entity::Entity;
use bevy_platform::collections::HashMap;
use bevy_transform::components::Transform;
use bonfire::Error;
use bonfire_chunks::{Body, BodyId, ChunkPos, DecodedBodies, LostBody};

use super::table::register;
use super::{BodyKey, PixelBody, shape};
use crate::chunks::components::{InChunk, Streamed};
use crate::chunks::event::ChunkProblem;
use crate::chunks::state::News;
use crate::chunks::streamed_world::BevyWorld;

/// Returns true if the bodies of a chunk differ from its save.
pub(in crate::chunks) fn is_changed(here: &mut BevyWorld<'_>, pos: ChunkPos) -> bool {
    shape::look(here.world, here.live);
    here.live.chunks.get(&pos).is_some_and(|chunk| chunk.has_changed_bodies)
}

/// Returns the bodies of those chunks in which they have changed.
pub(in crate::chunks) fn capture(
    here: &mut BevyWorld<'_>,
    chunks: &[ChunkPos],
) -> Vec<(ChunkPos, Vec<Body>)> {
    shape::look(here.world, here.live);
    let mut captured: HashMap<ChunkPos, Vec<Body>> = HashMap::default();
    for pos in chunks {
        if let Some(chunk) = here.live.chunks.get_mut(pos)
            && std::mem::take(&mut chunk.has_changed_bodies)
        {
            captured.insert(*pos, Vec::new());
        }
    }
    if captured.is_empty() {
        return Vec::new();
    }
    for (entity, known) in &here.live.bodies.all {
        let list = captured.get_mut(&known.home).filter(|_| known.is_member && !known.is_duplicate);
        let body = here.world.get::<PixelBody>(*entity).filter(|body| !body.is_empty());
        if let (Some(list), Some(body)) = (list, body) {
            list.push(body.body.clone());
        }
    }
    let in_order = |(pos, mut bodies): (ChunkPos, Vec<Body>)| {
        bodies.sort_by_key(|body| body.id);
        (pos, bodies)
    };
    captured.into_iter().map(in_order).collect()
}

/// Spawns the bodies that a chunk brings.
pub(in crate::chunks) fn spawn(here: &mut BevyWorld<'_>, pos: ChunkPos, list: DecodedBodies) {
    let Some(chunk) = here.live.chunks.get(&pos).map(|chunk| chunk.entity) else { return };
    let DecodedBodies { bodies, lost } = list;
    shape::look(here.world, here.live);
    let mut rows = rows(here, pos);
    let before = here.live.chunks.get(&pos).map(|chunk| (chunk.is_changed, chunk.has_changed_bodies));
    if bodies.is_empty() && lost.is_empty() && rows.is_empty() {
        return;
    }
    let mut new = Vec::new();
    for body in bodies {
        if body.chunk(here.chunk_size(pos)).map(|home| home.in_dimension(pos.dimension)) != Some(pos) {
            let error = Error::corrupt(format!("body {} lies in another chunk than its list says", body.id));
            here.live.news.push(News::Problem(ChunkProblem::BodyLost { pos, count: 1, error }));
            continue;
        }
        let entity = rows.remove(&body.id).unwrap_or_else(|| {
            let entity = here.world.spawn(Streamed).id();
            new.push(entity);
            entity
        });
        let place = here.live.grid.body_place(&body, here.world.get::<Transform>(entity));
        here.world.entity_mut(entity).insert((PixelBody::from(body), place));
        // The record says where it is, and nothing has moved since.
        if register(here.world, here.live, entity, pos)
            && let Some(known) = here.live.bodies.all.get_mut(&entity)
        {
            (known.is_member, known.is_new, known.place) = (true, false, place);
        }
    }
    here.move_in(InChunk { chunk, pos }, new);
    let has_lost = !rows.is_empty();
    report_lost(here, pos, rows, lost);
    // What has come is what the save has, unless something had changed before.
    shape::overlook(here.world, here.live);
    here.mark_saved(pos);
    if let (Some(chunk), Some(before)) = (here.live.chunks.get_mut(&pos), before) {
        (chunk.is_changed, chunk.has_changed_bodies) = before;
        chunk.is_changed |= has_lost;
    }
}

/// The entities of a chunk that belong to a body, by its id.
fn rows(here: &BevyWorld<'_>, pos: ChunkPos) -> HashMap<BodyId, Entity> {
    let key = |entity: Entity| {
        let key = here.world.get::<BodyKey>(entity).filter(|key| key.0 != 0)?;
        // Those that the game has spawned for this chunk have their cells.
        here.world.get::<PixelBody>(entity).is_none().then_some((BodyId(key.0), entity))
    };
    here.residents(pos).into_iter().filter_map(key).collect()
}

/// Tells of bodies that could not be read, and removes what is left of them.
fn report_lost(here: &mut BevyWorld<'_>, pos: ChunkPos, rows: HashMap<BodyId, Entity>, lost: Vec<LostBody>) {
    let unexplained = rows.len().saturating_sub(lost.iter().map(|lost| lost.count as usize).sum());
    for LostBody { count, error, .. } in lost {
        here.live.news.push(News::Problem(ChunkProblem::BodyLost { pos, count, error }));
    }
    if let Ok(count @ 1..) = u32::try_from(unexplained) {
        let error = Error::corrupt(format!("chunk {pos} has entities of {count} bodies without their cells"));
        here.live.news.push(News::Problem(ChunkProblem::BodyLost { pos, count, error }));
    }
    for entity in rows.into_values() {
        here.world.despawn(entity);
    }
}
