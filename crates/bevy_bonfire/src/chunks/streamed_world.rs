//! The stream's hands in a Bevy world: chunks become entities with cells, and their residents are spawned, captured and
//! unloaded.

use std::sync::Arc;

use bevy_ecs::change_detection::DetectChangesMut;
use bevy_ecs::entity::Entity;
use bevy_ecs::relationship::RelationshipHookMode;
use bevy_ecs::world::World;
use bonfire::{Error, Result, Snapshot};
use bonfire_chunks::stream::{ChunkPhase, Decoder, StreamEvent, StreamedWorld};
use bonfire_chunks::{Body, Chunk, ChunkPos, ChunkRevision, DecodedBodies};

use super::components::{ChunkAt, ChunkCells, ChunkLife, ChunkResidents, InChunk};
use super::event::{ChunkProblem, PopulateChunk};
use super::state::{LiveChunk, LiveChunks, News, PreparedChunk, SavedMark, Waiting};
use super::{body, changes, membership};
use crate::capture::{CaptureAdditions, CaptureInput, Epoch, Sharing, capture};
use crate::load::{CommonValue, LoadMode, LoadOptions, LoadedPart, PreparedLoad};
use crate::pending::IdReserve;
use crate::registry::SaveRegistry;
use crate::stable_id::{StableId, StableIds};
use crate::unload::unload;
use crate::{Dangling, SaveOptions};

/// A world, with what is known of its chunks. The stream is apart from it meanwhile.
pub(super) struct BevyWorld<'w> {
    pub(super) world: &'w mut World,
    pub(super) live: &'w mut LiveChunks,
}

impl BevyWorld<'_> {
    /// The entities that belong to a chunk.
    pub(super) fn residents(&self, pos: ChunkPos) -> Vec<Entity> {
        let chunk = self.live.chunks.get(&pos).map(|live| live.entity);
        let residents = chunk.and_then(|chunk| self.world.get::<ChunkResidents>(chunk));
        residents.map(|residents| residents.iter().collect()).unwrap_or_default()
    }

    /// Cells along an edge of a chunk.
    pub(super) fn chunk_size(&self, pos: ChunkPos) -> u32 {
        self.live.grid.dimensions.get(&pos.dimension).map_or(1, |dimension| dimension.chunk_size)
    }

    /// Lets entities that came with a chunk belong to it. Most have the component from the batch that has spawned them. The hook
    /// would queue a command for each of the others.
    pub(super) fn move_in(&mut self, member: InChunk, mut come: Vec<Entity>) {
        let mut others = Vec::new();
        come.retain(|&entity| match self.world.get_entity(entity).map(|entity| entity.get::<InChunk>()) {
            Ok(Some(found)) => *found == member,
            Ok(None) => {
                others.push(entity);
                false
            }
            Err(_) => false,
        });
        self.add_residents(member.chunk, come);
        for &entity in &others {
            if let Ok(mut entity) = self.world.get_entity_mut(entity) {
                entity.insert_with_relationship_hook_mode(member, RelationshipHookMode::Skip);
            }
        }
        // Observers of the game may have despawned or moved some.
        others.retain(|entity| self.world.get::<InChunk>(*entity) == Some(&member));
        self.add_residents(member.chunk, others);
    }

    fn add_residents(&mut self, chunk: Entity, entities: Vec<Entity>) {
        let Ok(mut chunk) = self.world.get_entity_mut(chunk) else { return };
        match chunk.get_mut::<ChunkResidents>() {
            _ if entities.is_empty() => {}
            Some(mut residents) => residents.add_all(entities),
            None => _ = chunk.insert(ChunkResidents::of(entities)),
        }
    }

    /// Notes that the entities of a chunk are what its save has.
    pub(super) fn mark_saved(&mut self, pos: ChunkPos) {
        let residents = self.residents(pos);
        let mark = SavedMark {
            tick: self.world.change_tick(),
            epoch: Epoch::of(self.world),
            shape: changes::shape_of(self.world, &residents),
        };
        if let Some(live) = self.live.chunks.get_mut(&pos) {
            (live.is_changed, live.saved) = (false, mark);
        }
    }

    /// Removes entities that came with a chunk and that the world has already.
    fn refuse_duplicates(&mut self, pos: ChunkPos, loaded: &LoadedPart) -> bool {
        let duplicates = &loaded.duplicate_stable_ids;
        for &bits in duplicates {
            let id = StableId::from_bits(bits);
            let is_it = |entity: &Entity| self.world.get::<StableId>(*entity) == Some(&id);
            let come: Vec<Entity> = loaded.entities.iter().copied().filter(is_it).collect();
            for entity in come {
                self.world.despawn(entity);
            }
            let others = self.world.try_query::<(Entity, &StableId)>();
            let others: Vec<Entity> = others.map_or_else(Vec::new, |mut query| {
                query.iter(self.world).filter(|(_, other)| **other == id).map(|(entity, _)| entity).collect()
            });
            self.world.resource_mut::<StableIds>().prefer(others.into_iter());
            self.live.news.push(News::Problem(ChunkProblem::DuplicateId { pos, stable_id: bits }));
        }
        !duplicates.is_empty()
    }

    /// Has the game generate entities, and lets them belong to the chunk.
    fn populate(&mut self, pos: ChunkPos, entity: Entity) {
        let edge = self.live.grid.edge(pos.dimension);
        let corner = [pos.x, pos.y, pos.z].map(|along| along as f32 * edge);
        let seed = self.live.grid.dimensions.get(&pos.dimension).map_or(0, |dimension| dimension.seed);
        self.world.trigger(PopulateChunk { entity, pos, corner, edge, seed });
        self.world.flush();
        membership::take_in_here(self, pos);
    }
}

impl StreamedWorld for BevyWorld<'_> {
    type Prepared = PreparedChunk;

    fn decoder(&mut self) -> Result<Decoder<PreparedChunk>> {
        self.world.flush();
        let (registry, reserve) = (SaveRegistry::of(self.world)?, IdReserve::of(self.world)?);
        let remains = self.live.remains.clone();
        Ok(Arc::new(move |_, snapshot| {
            remains.free_before_decoding();
            let options = LoadOptions::new().mode(LoadMode::Merge).dangling(Dangling::default());
            PreparedLoad::new(snapshot, registry.clone(), &reserve, options, &|_, _, _| {})
        }))
    }

    fn stage(&mut self, chunk: Chunk) {
        let entity = self.live.chunks[&chunk.pos()].entity;
        if let Ok(mut entity) = self.world.get_entity_mut(entity) {
            entity.insert(ChunkCells(chunk));
        }
    }

    fn activate(&mut self, pos: ChunkPos, entities: Option<PreparedChunk>) -> Result<()> {
        let chunk = self.live.chunks[&pos].entity;
        if self.world.get_entity(chunk).is_err() {
            return Err(Error::misuse("the game has despawned the entity of this chunk"));
        }
        let mut is_other = false;
        if let Some(live) = self.live.chunks.get_mut(&pos) {
            live.has_changed_bodies = false;
        }
        match entities {
            Some(prepared) => {
                let member = InChunk { chunk, pos };
                let common = [CommonValue::copied(self.world, &member)];
                let loaded = prepared.commit_part(self.world, &common)?;
                is_other = self.refuse_duplicates(pos, &loaded);
                self.move_in(member, loaded.entities);
                self.live.remains.add(loaded.remains);
            }
            None if self.live.populates => {
                self.populate(pos, chunk);
                is_other = !self.residents(pos).is_empty();
            }
            None => {}
        }
        self.mark_saved(pos);
        if let Some(live) = self.live.chunks.get_mut(&pos) {
            live.is_changed = is_other;
        }
        self.live.bodies.arrived.push(pos);
        Ok(())
    }

    fn has_bodies(&self) -> bool {
        true
    }

    fn spawn_bodies(&mut self, pos: ChunkPos, bodies: DecodedBodies) -> Result<()> {
        body::save::spawn(self, pos, bodies);
        Ok(())
    }

    fn admit(&mut self, pos: ChunkPos) -> Vec<ChunkPos> {
        membership::admit(self, pos)
    }

    fn chunk(&self, pos: ChunkPos) -> Option<&Chunk> {
        let entity = self.live.chunks.get(&pos)?.entity;
        self.world.get::<ChunkCells>(entity).map(|cells| &cells.0)
    }

    fn saved(&mut self, pos: ChunkPos, revision: ChunkRevision) {
        let Some(entity) = self.live.chunks.get(&pos).map(|live| live.entity) else { return };
        if let Some(mut cells) = self.world.get_mut::<ChunkCells>(entity) {
            // The cells are what they were.
            cells.bypass_change_detection().0.saved(revision);
        }
    }

    fn is_changed(&mut self, pos: ChunkPos) -> bool {
        changes::is_changed(self, pos) || body::save::is_changed(self, pos)
    }

    fn capture(&mut self, chunks: &[ChunkPos]) -> Result<Vec<(ChunkPos, Snapshot)>> {
        membership::adopt(self);
        let changed = changes::changed_among(self, chunks);
        let registry = SaveRegistry::of(self.world)?;
        let mut captured = Vec::with_capacity(changed.len());
        for &pos in &changed {
            let residents = self.residents(pos);
            let options = SaveOptions::new().entities(residents).outside_references();
            let input =
                CaptureInput { registry: &registry, options: &options, added: &CaptureAdditions::default() };
            let result = capture(self.world, input, Sharing::Alone);
            captured.push((
                pos,
                result.map_err(|error| error.in_field(format_args!("entities of chunk {pos}")))?.snapshot,
            ));
        }
        for &pos in &changed {
            self.mark_saved(pos);
        }
        if !changed.is_empty() {
            // What the world does from here on has a tick of its own.
            self.world.increment_change_tick();
        }
        Ok(captured)
    }

    fn capture_bodies(&mut self, chunks: &[ChunkPos]) -> Vec<(ChunkPos, Vec<Body>)> {
        body::save::capture(self, chunks)
    }

    fn remove(&mut self, pos: ChunkPos) {
        body::place::leave(self.world, self.live, pos);
        let residents = self.residents(pos);
        for entity in &residents {
            if let Some(Waiting { target, .. }) = self.live.waiting.remove(entity) {
                self.live.ended_visits.push(target);
            }
        }
        if let Err(error) = unload(self.world, residents) {
            log::error!("the entities of chunk {pos} could not be unloaded: {error}");
        }
        let entity = self.live.chunks[&pos].entity;
        if let Ok(mut entity) = self.world.get_entity_mut(entity) {
            entity.remove::<ChunkCells>();
        }
    }

    fn notify(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Phase(change) => {
                if !self.live.chunks.contains_key(&change.pos) {
                    let entity = self.spawn_chunk(change.pos);
                    let tick = self.world.change_tick();
                    let saved = SavedMark { tick, epoch: Epoch::of(self.world), shape: 0 };
                    self.live.chunks.insert(
                        change.pos,
                        LiveChunk { entity, is_changed: false, has_changed_bodies: false, saved },
                    );
                }
                self.live.news.push(News::Phase(change));
            }
            StreamEvent::SaveFailed(error) => {
                self.live.news.push(News::Problem(ChunkProblem::SaveFailed(error)));
            }
            StreamEvent::CaptureFailed(pos, error) => {
                self.live.news.push(News::Problem(ChunkProblem::CaptureFailed(pos, error)));
            }
            _ => {}
        }
    }
}

impl BevyWorld<'_> {
    fn spawn_chunk(&mut self, pos: ChunkPos) -> Entity {
        self.world.spawn((ChunkAt(pos), ChunkLife(ChunkPhase::Queued))).id()
    }
}
