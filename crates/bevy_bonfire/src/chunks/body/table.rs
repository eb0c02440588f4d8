//! The table of bodies that are in the world.

use bevy_ecs::change_detection::{DetectChangesMut, Tick};
use bevy_ecs::entity::{Entity, EntityHashMap, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::world::World;
use bevy_platform::collections::HashMap;
use bevy_transform::components::Transform;
use bonfire::{Error, Result};
use bonfire_chunks::stream::ChunkStream;
use bonfire_chunks::{BodyDrawing, BodyId, BodyIds, Canvas, Chunk, ChunkPos, ChunkRevision};

use super::{BodyKey, BodyWaits, PixelBody};
use crate::chunks::components::{ChunkCells, WaitsForChunk};
use crate::chunks::event::ChunkProblem;
use crate::chunks::resource::Chunks;
use crate::chunks::state::{LiveChunk, LiveChunks, News, PreparedChunk};

/// A body that is in the world.
#[derive(Debug)]
pub(in crate::chunks) struct LiveBody {
    pub(super) id: BodyId,
    /// The chunk that its centre was in when it was placed.
    pub(super) home: ChunkPos,
    /// It belongs to that chunk, and is saved with it.
    pub(super) is_member: bool,
    /// The place that it was put to: of `Transform`.
    pub(super) place: Transform,
    pub(super) drawing: BodyDrawing,
    /// The chunks that it reaches into, its home included.
    pub(super) touched: Vec<ChunkPos>,
    /// Their cells when it was drawn, if some of its own were hidden.
    pub(super) behind: Vec<(ChunkPos, ChunkRevision)>,
    /// Those of them that stay loaded for it.
    pub(super) held: Vec<ChunkPos>,
    pub(super) needs_drawing: bool,
    /// The game has made it, of cells of the ground perhaps: both are saved in one step.
    pub(super) is_new: bool,
    /// Another body has its id, so that it waits until that one is gone.
    pub(super) is_duplicate: bool,
}

/// All bodies that are in the world.
#[derive(Default)]
pub(in crate::chunks) struct LiveBodies {
    pub(super) all: EntityHashMap<LiveBody>,
    pub(super) by_id: HashMap<BodyId, Entity>,
    ids: Option<BodyIds>,
    /// Chunks that bodies may be drawn into since the last drawing.
    pub(in crate::chunks) arrived: Vec<ChunkPos>,
    /// Chunks that were held by bodies which are gone.
    pub(super) ended_holds: Vec<ChunkPos>,
    /// The game was told that these cannot be bodies.
    refused: EntityHashSet,
    /// Shapes with a later tick were not looked at.
    pub(super) looked: Option<Tick>,
    /// Transforms, and cells of chunks, with a later tick were not looked at.
    pub(super) followed: Option<Tick>,
}

impl LiveBodies {
    /// Returns true if there is nothing to do for bodies.
    pub(super) fn is_idle(&self) -> bool {
        self.all.is_empty() && self.ended_holds.is_empty()
    }

    pub(in crate::chunks) fn has(&self, entity: Entity) -> bool {
        self.all.contains_key(&entity)
    }
}

/// Chunks of a Bevy world as a canvas.
pub(super) struct BevyCanvas<'a> {
    pub(super) world: &'a mut World,
    pub(super) chunks: &'a HashMap<ChunkPos, LiveChunk>,
    /// With a stream, chunks that are not active are left out.
    pub(super) stream: Option<&'a ChunkStream<PreparedChunk>>,
}

impl Canvas for BevyCanvas<'_> {
    fn draw_in(&mut self, pos: ChunkPos, draw: &mut dyn FnMut(&mut Chunk) -> bool) {
        if self.stream.is_some_and(|stream| !stream.is_active(pos)) {
            return;
        }
        let chunk = self.chunks.get(&pos).map(|chunk| chunk.entity);
        if let Some(mut cells) = chunk.and_then(|chunk| self.world.get_mut::<ChunkCells>(chunk))
            && draw(&mut cells.bypass_change_detection().0)
        {
            cells.set_changed();
        }
    }
}

/// Takes the drawing of a body away.
pub(super) fn erase(world: &mut World, chunks: &HashMap<ChunkPos, LiveChunk>, drawing: BodyDrawing) {
    drawing.erase(&mut BevyCanvas { world, chunks, stream: None });
}

/// Tells the game once that an entity cannot be a body.
pub(super) fn refuse(live: &mut LiveChunks, entity: Entity, why: &str) {
    if live.bodies.refused.insert(entity) {
        let error = Error::misuse(format!("the pixel body {entity} is not saved: {why}"));
        log::error!("{error}");
        live.news.push(News::Problem(ChunkProblem::RequestFailed(error)));
    }
}

/// Returns the id of a body. It gets one if it has none.
fn id_of(world: &mut World, bodies: &mut LiveBodies, entity: Entity) -> Result<Option<BodyId>> {
    let Some(body) = world.get::<PixelBody>(entity) else { return Ok(None) };
    if let Some(id) = body.id() {
        return Ok(Some(id));
    }
    if bodies.ids.is_none() {
        let chunks = world.get_resource::<Chunks>();
        let chunks = chunks.ok_or_else(|| Error::misuse("the resource `Chunks` is not in the world"))?;
        bodies.ids = Some(chunks.world().body_ids()?);
    }
    let id = bodies.ids.as_mut().map(BodyIds::next_id);
    Ok(id)
}

/// Adds a body to the table. Returns false if that cannot be.
pub(super) fn register(world: &mut World, live: &mut LiveChunks, entity: Entity, home: ChunkPos) -> bool {
    if live.grid.is_deep(home.dimension) {
        refuse(live, entity, "bodies have two coordinates, and this dimension has three");
        return false;
    }
    let id = match id_of(world, &mut live.bodies, entity) {
        Ok(Some(id)) => id,
        Ok(None) => return false,
        Err(error) => {
            refuse(live, entity, &format!("it gets no id: {error}"));
            return false;
        }
    };
    if let Some(mut body) = world.get_mut::<PixelBody>(entity)
        && body.body.id != id
    {
        body.body.id = id;
    }
    world.entity_mut(entity).insert(BodyKey(id.0));
    let other = live.bodies.by_id.get(&id).copied();
    let is_duplicate = other.is_some_and(|other| other != entity && world.get::<PixelBody>(other).is_some());
    if is_duplicate {
        live.news.push(News::Problem(ChunkProblem::DuplicateBody { pos: home, id }));
        world.entity_mut(entity).insert(BodyWaits);
    } else {
        live.bodies.by_id.insert(id, entity);
    }
    let body = LiveBody {
        id,
        home,
        is_member: false,
        place: Transform::default(),
        drawing: BodyDrawing::default(),
        touched: Vec::new(),
        behind: Vec::new(),
        held: Vec::new(),
        needs_drawing: true,
        is_new: true,
        is_duplicate,
    };
    live.bodies.refused.remove(&entity);
    live.bodies.all.insert(entity, body);
    true
}

/// Takes a body out of the table: it is gone, or leaves with its chunk.
pub(super) fn unregister(world: &mut World, live: &mut LiveChunks, entity: Entity) {
    let Some(body) = live.bodies.all.remove(&entity) else { return };
    if live.bodies.by_id.get(&body.id) == Some(&entity) {
        live.bodies.by_id.remove(&body.id);
    }
    live.bodies.ended_holds.extend(body.held);
    erase(world, &live.chunks, body.drawing);
}

/// Notes that the bodies of a chunk differ from its save.
pub(super) fn note(live: &mut LiveChunks, pos: ChunkPos) {
    if let Some(chunk) = live.chunks.get_mut(&pos) {
        chunk.has_changed_bodies = true;
    }
}

/// Lets a body wait, or go on.
pub(super) fn set_waiting(world: &mut World, entity: Entity, waits: bool) {
    let Ok(mut entity) = world.get_entity_mut(entity) else { return };
    match (waits, entity.contains::<BodyWaits>()) {
        // A body that the game has disabled stays disabled.
        (true, false) if !entity.contains::<Disabled>() => _ = entity.insert(BodyWaits),
        (false, true) if entity.contains::<WaitsForChunk>() => _ = entity.remove::<BodyWaits>(),
        (false, true) => _ = entity.remove::<(BodyWaits, Disabled)>(),
        _ => {}
    }
}
