//! Chunks that leave the world, and what a save has of chunks.

use std::collections::{BTreeMap, BTreeSet};

use bonfire::{Result, Snapshot};

use super::budget::Clock;
use super::saving::{Batch, UnsavedChunk};
use super::{ChangeReason, ChunkStream, StreamEvent, StreamedWorld};
use crate::{Body, Chunk, ChunkPos, ChunkState, Edit};

/// The parts of chunks that a save has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SavedParts {
    All,
    /// Entities and bodies stay in the file as they are.
    Cells,
}

impl<P: Send + 'static> ChunkStream<P> {
    /// Lets chunks go that nothing wants: those that were changed in one edit, with all that they have exchanged entities with.
    pub(super) fn let_go<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W, clock: &mut Clock) {
        let mut is_first = true;
        for pos in self.leaving.clone() {
            let is_full = self.departed_bytes() > self.options.unsaved_bytes_max;
            if is_full || !is_first && !clock.has_time() {
                break;
            }
            if !self.is_enabled && self.is_dirty(world, pos) {
                continue;
            }
            is_first = false;
            clock.step(|| self.depart(world, &[pos]));
        }
    }

    /// Returns true if a chunk differs from its last save.
    fn is_dirty<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W, pos: ChunkPos) -> bool {
        world.chunk(pos).is_some_and(|chunk| chunk.state().needs_save())
            || self.is_active(pos) && world.is_changed(pos)
    }

    /// Takes chunks out of the world. What has changed is on its way to the file, or in memory until it is.
    pub(super) fn depart<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W, leaving: &[ChunkPos]) {
        let together = self.exchange_group(leaving);
        let mut batch = match self.collect(world, &together, SavedParts::All) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(%error, "the entities of a chunk could not be captured, so it stays");
                for pos in leaving {
                    // It is tried again when the window moves.
                    self.leaving.remove(pos);
                    world.notify(StreamEvent::CaptureFailed(*pos, error.clone()));
                }
                return;
            }
        };
        for (pos, unsaved) in &mut batch.unsaved {
            match &mut unsaved.chunk {
                // Its bodies come back by themselves.
                Some(chunk) if leaving.contains(pos) => chunk.erase_all(),
                other => *other = None,
            }
        }
        self.saving.add(batch);
        for pos in leaving {
            self.leaving.remove(pos);
            self.drop_chunk(world, *pos, ChangeReason::Left);
        }
    }

    /// Returns chunks with all that must be saved in the same step.
    fn exchange_group(&self, chunks: &[ChunkPos]) -> Vec<ChunkPos> {
        let mut found: BTreeSet<ChunkPos> = chunks.iter().copied().collect();
        let mut open: Vec<ChunkPos> = chunks.to_vec();
        while let Some(pos) = open.pop() {
            let Some(chunk) = self.chunks.get(&pos) else { continue };
            open.extend(chunk.exchanged.iter().filter(|pos| found.insert(**pos)));
        }
        found.into_iter().collect()
    }

    /// Puts what has changed in some chunks into one edit. An error changes nothing.
    pub(super) fn collect<W: StreamedWorld<Prepared = P>>(
        &mut self,
        world: &mut W,
        chunks: &[ChunkPos],
        parts: SavedParts,
    ) -> Result<Batch> {
        let mut captured: BTreeMap<ChunkPos, Snapshot> = BTreeMap::new();
        let mut bodies: BTreeMap<ChunkPos, Vec<Body>> = BTreeMap::new();
        if parts == SavedParts::All {
            let active: Vec<ChunkPos> = chunks.iter().copied().filter(|pos| self.is_active(*pos)).collect();
            captured.extend(world.capture(&active)?);
            bodies.extend(world.capture_bodies(&active));
        }
        let mut edit: Edit = self.worker.world().edit();
        let mut batch = Batch::default();
        for pos in chunks {
            let mut unsaved = UnsavedChunk::default();
            if let Some(entities) = captured.remove(pos) {
                edit.put_captured(*pos, entities.clone());
                unsaved.entities = Some(entities);
            }
            if let Some(bodies) = bodies.remove(pos) {
                edit.put_bodies(*pos, bodies.clone());
                unsaved.bodies = Some(bodies);
            }
            if let Some(chunk) = world.chunk(*pos).filter(|chunk| chunk.state() == ChunkState::Dirty) {
                edit.put_chunk(chunk);
                batch.revisions.push((*pos, chunk.revision()));
                unsaved.chunk = Some(Chunk::clone(chunk));
            }
            if let Some(chunk) = self.chunks.get_mut(pos)
                && parts == SavedParts::All
            {
                chunk.exchanged.clear();
            }
            batch.unsaved.push((*pos, unsaved));
        }
        batch.edit = Some(edit);
        Ok(batch)
    }
}
