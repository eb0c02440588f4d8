//! The step of a stream in each frame.
//!
//! | order | step |
//! |---|---|
//! | 1 | the outcome of saves |
//! | 2 | the window has moved: chunks come into it, or are to leave |
//! | 3 | loads that are done are staged |
//! | 4 | chunks leave, in one edit |
//! | 5 | chunks that have all votes become active, the nearest first, as long as there is time |
//! | 6 | entities enter the chunks that they visit |
//! | 7 | the next loads are requested |

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bonfire::{Error, Result, Snapshot};

use super::budget::Clock;
use super::saving::SaveNews;
use super::window::Urgency;
use super::window_chunk::{LoadSlot, LoadedChunk, State, WindowChunk};
use super::{ChangeReason, ChunkPhase, ChunkStream, Decoder, PhaseChange, StreamEvent, StreamedWorld};
use crate::{ChunkPos, ChunkWorld, DecodedBodies, Priority};

impl<P: Send + 'static> ChunkStream<P> {
    /// Does what is to be done in this frame, for about so long. At least one chunk comes and one leaves, so that it goes on
    /// however short the time is.
    pub fn update<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W, budget: Duration) -> Result<()> {
        self.finish_saves(world);
        if self.is_frozen || self.is_paused {
            return Ok(());
        }
        let mut clock = Clock::new(budget);
        self.move_window(world);
        self.stage_loaded(world);
        self.let_go(world, &mut clock);
        self.activate_staged(world, &mut clock);
        self.admit_visitors(world);
        self.request_loads(world)
    }

    /// Takes the outcome of saves, and begins the next one.
    pub(super) fn finish_saves<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) {
        let news = self.saving.take_outcome(&self.worker);
        if !self.is_frozen {
            self.saving.submit(&self.worker);
        }
        match news {
            None => {}
            Some(SaveNews::Saved { revisions, gone }) => {
                self.last_error = None;
                for (pos, revision) in revisions {
                    world.saved(pos, revision);
                }
                for pos in gone.into_iter().filter(|pos| !self.chunks.contains_key(pos)) {
                    let (from, to) = (Some(ChunkPhase::Saving), None);
                    world.notify(changed(pos, from, to, ChangeReason::Saved));
                }
            }
            Some(SaveNews::Failed(error)) => {
                let bytes = self.departed_bytes();
                tracing::warn!(%error, bytes, "a save of a chunk world failed; it is kept in memory and tried again");
                self.last_error = Some(error.clone());
                world.notify(StreamEvent::SaveFailed(error));
            }
        }
    }

    /// Looks which chunks are wanted, if anything has moved.
    fn move_window<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) {
        if !self.window.take_change() {
            return;
        }
        let shape = |number| self.worker.world().shape(number).map(|shape| shape.is_three_dimensional);
        let wanted = self.window.wanted(shape);
        let known: Vec<ChunkPos> = self.chunks.keys().copied().collect();
        for pos in known {
            let Some(chunk) = self.chunks.get_mut(&pos) else { continue };
            chunk.urgency = wanted.get(&pos).copied();
            let is_there = !matches!(chunk.state, State::Queued | State::Loading(_));
            match chunk.urgency.is_some() || is_there && self.window.keeps(pos) {
                true => drop(self.leaving.remove(&pos)),
                false => self.unwant(world, pos),
            }
        }
        for (pos, urgency) in wanted {
            if !self.chunks.contains_key(&pos) {
                let from = self.phase(pos);
                let state = State::Queued;
                let chunk = WindowChunk { state, urgency: Some(urgency), exchanged: BTreeSet::new() };
                self.chunks.insert(pos, chunk);
                world.notify(changed(pos, from, Some(ChunkPhase::Queued), ChangeReason::Wanted));
            }
        }
        self.sort();
    }

    /// Puts the chunks that wait into the order of their urgency.
    fn sort(&mut self) {
        let last = |chunk: &WindowChunk<P>| chunk.urgency.unwrap_or(Urgency::LAST);
        (self.queued, self.staged) = Default::default();
        for (pos, chunk) in &self.chunks {
            match chunk.state {
                State::Queued => _ = self.queued.insert((last(chunk), *pos)),
                State::Staged { .. } => _ = self.staged.insert((last(chunk), *pos)),
                _ => {}
            }
        }
    }

    /// Nothing wants a chunk any more.
    fn unwant<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W, pos: ChunkPos) {
        let Some(chunk) = self.chunks.get(&pos) else { return };
        match &chunk.state {
            State::Active => _ = self.leaving.insert(pos),
            State::Staged { .. } if world.chunk(pos).is_some_and(|chunk| chunk.state().needs_save()) => {
                self.leaving.insert(pos);
            }
            state => {
                if let State::Loading(load) = state {
                    load.cancel();
                }
                self.loading.remove(&pos);
                self.drop_chunk(world, pos, ChangeReason::Left);
            }
        }
    }

    /// Takes a chunk out of the window. What it has in the world is gone.
    pub(super) fn drop_chunk<W: StreamedWorld<Prepared = P>>(
        &mut self,
        world: &mut W,
        pos: ChunkPos,
        reason: ChangeReason,
    ) {
        let Some(chunk) = self.chunks.remove(&pos) else { return };
        let from = chunk.state.phase();
        self.count(from, false);
        let place = (chunk.urgency.unwrap_or(Urgency::LAST), pos);
        self.queued.remove(&place);
        self.staged.remove(&place);
        if matches!(from, ChunkPhase::Active | ChunkPhase::Staged) {
            world.remove(pos);
        }
        let to = self.saving.unsaved(pos).map(|_| ChunkPhase::Saving);
        world.notify(changed(pos, Some(from), to, reason));
    }

    fn stage_loaded<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) {
        let loading: Vec<ChunkPos> = self.loading.iter().copied().collect();
        for pos in loading {
            let State::Loading(load) = &self.chunks[&pos].state else { continue };
            let Some(result) = load.result() else { continue };
            self.loading.remove(&pos);
            let loaded = result.and_then(|slot| {
                let loaded = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                loaded.unwrap_or_else(|| Err(Error::cancelled("the chunk was taken already")))
            });
            let (state, reason) = match loaded {
                Ok(LoadedChunk { chunk, entities, bodies }) => {
                    world.stage(chunk);
                    (State::Staged { entities, bodies, votes: 0 }, ChangeReason::Ready)
                }
                // The worker has ended, and another one takes its place: the turn of the chunk comes again.
                Err(error) if error.is_cancelled() => (State::Queued, ChangeReason::Error(error)),
                Err(error) => (State::Failed(error.clone()), ChangeReason::Error(error)),
            };
            let to = state.phase();
            if let (ChunkPhase::Failed, ChangeReason::Error(error)) = (to, &reason) {
                tracing::error!(chunk = %pos, %error, "a chunk could not be loaded: nothing is put in its place");
            }
            let from = self.set_state(pos, state);
            let urgency = self.chunks[&pos].urgency.unwrap_or(Urgency::LAST);
            match to {
                ChunkPhase::Staged => _ = self.staged.insert((urgency, pos)),
                ChunkPhase::Queued => _ = self.queued.insert((urgency, pos)),
                _ => {}
            }
            world.notify(changed(pos, from, Some(to), reason));
        }
    }

    fn activate_staged<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W, clock: &mut Clock) {
        let all = self.all_votes();
        let mut is_first = true;
        for (urgency, pos) in self.staged.clone() {
            if !is_first && !clock.has_time() {
                break;
            }
            let is_visit = self.window.is_visited_only(pos);
            let Some(WindowChunk { state: State::Staged { entities, bodies, votes }, .. }) =
                self.chunks.get_mut(&pos)
            else {
                continue;
            };
            if *votes & all != all && !is_visit {
                continue;
            }
            is_first = false;
            let (entities, bodies) = (entities.take(), std::mem::take(bodies));
            self.staged.remove(&(urgency, pos));
            let activated = clock.step(|| {
                world.activate(pos, entities)?;
                if world.has_bodies() { world.spawn_bodies(pos, bodies) } else { Ok(()) }
            });
            let (state, reason) = match activated {
                Ok(()) if is_visit => (State::Active, ChangeReason::Visit),
                Ok(()) => (State::Active, ChangeReason::Ready),
                Err(error) => {
                    tracing::error!(chunk = %pos, %error, "the entities of a chunk could not be loaded");
                    world.remove(pos);
                    (State::Failed(error.clone()), ChangeReason::Error(error))
                }
            };
            let to = state.phase();
            let from = self.set_state(pos, state);
            world.notify(changed(pos, from, Some(to), reason));
        }
    }

    /// Lets entities into the chunks that they wait for. Chunks that nothing else wants leave at once.
    fn admit_visitors<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) {
        let arrived: Vec<ChunkPos> = self.window.visits().filter(|pos| self.is_active(*pos)).collect();
        let mut leaving = Vec::new();
        for pos in arrived {
            for from in world.admit(pos) {
                self.exchanged(from, pos);
            }
            if self.window.is_visited_only(pos) {
                leaving.push(pos);
            }
            self.window.end_visit(pos);
        }
        // While nothing may be saved, they stay as any chunk that has changed.
        if self.is_enabled && !leaving.is_empty() {
            self.depart(world, &leaving);
        }
    }

    fn request_loads<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) -> Result<()> {
        if self.queued.is_empty() || self.loading.len() >= self.options.loads_in_flight {
            return Ok(());
        }
        let decoder = world.decoder()?;
        while self.loading.len() < self.options.loads_in_flight {
            let Some((urgency, pos)) = self.queued.pop_first() else { break };
            let load = self.request_load(pos, urgency, &decoder, world.has_bodies());
            let refusal = load.result().and_then(Result::err).filter(Error::is_limit);
            if refusal.is_some() && self.worker.can_read() {
                // Too many loads wait with the worker.
                self.queued.insert((urgency, pos));
                break;
            }
            self.loading.insert(pos);
            let from = self.set_state(pos, State::Loading(load));
            world.notify(changed(pos, from, Some(ChunkPhase::Loading), ChangeReason::Ready));
        }
        Ok(())
    }

    fn request_load(
        &self,
        pos: ChunkPos,
        urgency: Urgency,
        decoder: &Decoder<P>,
        has_bodies: bool,
    ) -> LoadSlot<P> {
        let priority = match urgency {
            _ if urgency.is_near() => Priority::High,
            _ if urgency.is_ahead() => Priority::Low,
            _ => Priority::Normal,
        };
        // What is not durable yet is newer than what the file has.
        let unsaved = self.saving.unsaved(pos);
        let kept_chunk = unsaved.and_then(|newer| newer.chunk.clone());
        let kept_entities = unsaved.and_then(|newer| newer.entities.clone());
        let kept_bodies = unsaved.and_then(|newer| newer.bodies.clone());
        let decoder = decoder.clone();
        let read = move |world: &ChunkWorld, pos: ChunkPos| {
            let (chunk, stored, bodies) = world.at_one_moment(pos, || {
                let chunk = kept_chunk.as_ref().map_or_else(|| world.load(pos), |chunk| Ok(chunk.clone()))?;
                let stored = if kept_entities.is_none() { world.read_entities(pos)? } else { None };
                let bodies = match &kept_bodies {
                    _ if !has_bodies => DecodedBodies::default(),
                    Some(bodies) => DecodedBodies { bodies: bodies.clone(), lost: Vec::new() },
                    None => world.read_body_list(pos)?,
                };
                Ok((chunk, stored, bodies))
            })?;
            let decode = || {
                let stored = stored.map(|bytes| Snapshot::open(&bytes)).transpose()?;
                kept_entities.or(stored).map(|snapshot| decoder(pos, snapshot)).transpose()
            };
            let entities =
                decode().map_err(|error| error.in_field(format_args!("entities of chunk {pos}")))?;
            Ok(LoadedChunk { chunk, entities, bodies })
        };
        self.worker
            .load_with(pos, priority, move |world, pos| Ok(Arc::new(Mutex::new(Some(read(world, pos))))))
    }

    /// Empties the window without a save: the world goes to another moment.
    pub(super) fn reset<W: StreamedWorld<Prepared = P>>(&mut self, world: &mut W) {
        let known: Vec<ChunkPos> = self.chunks.keys().copied().collect();
        for pos in known {
            if let Some(WindowChunk { state: State::Loading(load), .. }) = self.chunks.get(&pos) {
                load.cancel();
            }
            self.drop_chunk(world, pos, ChangeReason::Reset);
        }
        (self.queued, self.staged, self.loading, self.leaving) = Default::default();
        self.window.change();
    }
}

/// The event of a chunk that has changed its phase.
pub(super) fn changed(
    pos: ChunkPos,
    from: Option<ChunkPhase>,
    to: Option<ChunkPhase>,
    reason: ChangeReason,
) -> StreamEvent {
    StreamEvent::Phase(PhaseChange { pos, from, to, reason })
}
