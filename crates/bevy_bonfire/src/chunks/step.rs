//! The step of each frame, and the news of it.

use std::time::Duration;

use bevy_app::AppExit;
use bevy_ecs::change_detection::DetectChangesMut;
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::message::Messages;
use bevy_ecs::query::{Allow, With};
use bevy_ecs::world::World;
use bevy_platform::time::Instant;
use bonfire_chunks::stream::PhaseChange;
use bonfire_chunks::{ChunkRect, ChunkWorker};

use super::body::BodyChanged;
use super::components::{ChunkLife, WaitsForGround};
use super::event::{ChunkChanged, ChunkProblem};
use super::resource::{ChunkRequest, Chunks, KnownChunk};
use super::state::{News, StreamState, StreamTimes};
use super::streamed_world::BevyWorld;
use super::tickets::NamedTickets;
use super::{body, focus, keeper, membership, tickets};
use crate::registry::SaveRegistry;

/// How long the app waits for chunks when it exits.
const EXIT_WAIT: Duration = Duration::from_secs(10);

/// Works with the stream, which is out of the world meanwhile. `None` if there is none.
pub(super) fn with_stream<T>(
    world: &mut World,
    work: impl FnOnce(&mut World, &mut StreamState) -> T,
) -> Option<T> {
    let mut state = world.remove_resource::<StreamState>()?;
    let done = work(world, &mut state);
    world.insert_resource(state);
    Some(done)
}

/// Does what is to be done in a frame.
pub(super) fn run(world: &mut World) {
    world.flush();
    let requests = world.get_resource_mut::<Chunks>().map(|mut chunks| std::mem::take(&mut chunks.requests));
    with_stream(world, |world, state| {
        let span = tracing::debug_span!("bonfire.chunks");
        let _in_span = span.enter();
        let begin = Instant::now();
        keeper::end_undo(state);
        focus::update(world, state);
        body::shape::update(world, state);
        membership::update(world, state);
        body::place::update(world, state);
        let moved = begin.elapsed();
        for request in requests.into_iter().flatten() {
            answer(world, state, request);
        }
        tickets::update(world, state);
        let StreamState { stream, live, budget, .. } = state;
        let left = budget.saturating_sub(moved);
        let updated = stream.update(&mut BevyWorld { world, live }, left);
        if let Err(error) = updated {
            state.live.news.push(News::Problem(ChunkProblem::RequestFailed(error)));
        }
        body::place::draw(world, &mut state.stream, &mut state.live);
        if !state.live.remains.is_empty() && state.stream.status().loading == 0 {
            state.live.remains.free_in_frame();
        }
        autosave(world, state);
        exit(world, state);
        state.times = StreamTimes { membership: moved, update: begin.elapsed() - moved };
        note_long_step(state);
    });
    tell(world);
    ground(world);
}

/// Reports a frame that took longer than the game permits.
fn note_long_step(state: &StreamState) {
    let StreamTimes { membership, update } = state.times;
    if membership + update > state.budget {
        let (budget, status) = (state.budget, state.stream.status());
        tracing::debug!(
            ?membership,
            ?update,
            ?budget,
            active = status.active,
            staged = status.staged,
            leaving = status.leaving,
            "the chunks took longer than their budget in this frame"
        );
    }
}

/// Does a request of the game.
fn answer(world: &mut World, state: &mut StreamState, request: ChunkRequest) {
    let StreamState { stream, live, pins, .. } = state;
    let mut here = BevyWorld { world, live };
    match request {
        ChunkRequest::AddTicket(pos) => stream.add_ticket(pos),
        ChunkRequest::RemoveTicket(pos) => _ = stream.remove_ticket(pos),
        ChunkRequest::AddNamedTicket(name, pos) => tickets::edit(here.world, |all| all.add(name, pos)),
        ChunkRequest::RemoveNamedTicket(name, pos) => tickets::edit(here.world, |all| all.remove(&name, pos)),
        ChunkRequest::RemoveTicketsNamed(name) => tickets::edit(here.world, |all| all.remove_all(&name)),
        ChunkRequest::Agree(pos, vote) => _ = stream.agree(pos, vote),
        ChunkRequest::Retry(pos) => stream.retry(pos),
        ChunkRequest::Pause(true) => stream.pause(),
        ChunkRequest::Pause(false) => stream.resume(),
        ChunkRequest::Enable(true) => stream.enable(),
        ChunkRequest::Enable(false) => stream.disable(),
        ChunkRequest::Together(one, other) => stream.exchanged(one, other),
        ChunkRequest::SaveCells(promise) => stream.save_cells_for(&mut here, promise),
        ChunkRequest::Save(promise) => stream.save_for(&mut here, None, promise),
        ChunkRequest::Pin(name, metadata, promise) => {
            stream.save_for(&mut here, Some((name, metadata)), promise);
        }
        ChunkRequest::SaveTo(path, promise) => stream.save_to(&mut here, path, promise),
        ChunkRequest::ReturnTo(pin, promise) => {
            promise.start();
            promise.complete(stream.return_to(&mut here, &pin));
        }
        ChunkRequest::StartOver(promise) => {
            promise.start();
            let started = stream.start_over(&mut here);
            if started.is_ok() {
                tickets::edit(here.world, NamedTickets::clear);
            }
            promise.complete(started);
        }
        ChunkRequest::Reopen(world) => {
            pins.reopen(world.clone());
            stream.reopen(ChunkWorker::new(world));
        }
        ChunkRequest::Picture(dimension, promise) => {
            promise.start();
            promise.complete(Ok(stream.picture(dimension)));
        }
        ChunkRequest::Upgrade(pace, promise) => match SaveRegistry::of(here.world) {
            Ok(registry) => stream.world().upgrade_for(registry.core.clone(), pace, promise),
            Err(error) => {
                promise.start();
                promise.complete(Err(error));
            }
        },
    }
}

/// Saves now and then. The time counts from the end of the last save of any kind.
fn autosave(world: &mut World, state: &mut StreamState) {
    let StreamState { stream, live, autosave: Some(interval), .. } = state else { return };
    let may_save = stream.is_enabled() && !stream.is_frozen() && !stream.is_failing();
    if may_save && stream.worker().is_autosave_due(*interval) {
        stream.save(&mut BevyWorld { world, live });
    }
}

/// Saves everything when the app exits, so that nothing is lost that is in no slot.
fn exit(world: &mut World, state: &mut StreamState) {
    let is_over = world.get_resource::<Messages<AppExit>>().is_some_and(|exits| !exits.is_empty());
    if !is_over || !state.stream.is_enabled() {
        return;
    }
    let StreamState { stream, live, .. } = state;
    let saved = stream.save(&mut BevyWorld { world, live });
    match saved.wait_timeout(EXIT_WAIT) {
        Some(Ok(_)) => {}
        Some(Err(error)) => log::error!("the chunks could not be saved when the app exits: {error}"),
        None => log::error!("the chunks were not durable {EXIT_WAIT:?} after the app exits"),
    }
}

/// Brings the resource and the chunks' entities up to date, and tells observers what has happened.
fn tell(world: &mut World) {
    let news = with_stream(world, |_, state| std::mem::take(&mut state.live.news));
    for news in news.into_iter().flatten() {
        match news {
            News::Phase(change) => tell_phase(world, change),
            News::Body(changed) => {
                if let Some(mut changes) = world.get_resource_mut::<Messages<BodyChanged>>() {
                    changes.write(changed.clone());
                }
                world.trigger(changed);
            }
            News::Problem(problem) => {
                if let Some(mut problems) = world.get_resource_mut::<Messages<ChunkProblem>>() {
                    problems.write(problem.clone());
                }
                world.trigger(problem);
            }
        }
    }
    let status = with_stream(world, |_, state| {
        let stream = &state.stream;
        let waiting = state.live.waiting.values().filter(|waiting| !waiting.is_told).count();
        (stream.status(), state.times, stream.is_paused(), stream.is_enabled(), stream.is_saved(), waiting)
    });
    let Some((status, times, is_paused, is_enabled, is_saved, waiting)) = status else { return };
    if let Some(mut chunks) = world.get_resource_mut::<Chunks>() {
        // Systems that wait for a change of the resource are told of requests and phases only.
        let chunks = chunks.bypass_change_detection();
        (chunks.status, chunks.times) = (status, times);
        (chunks.is_paused, chunks.is_enabled) = (is_paused, is_enabled);
        (chunks.is_saved, chunks.waiting) = (is_saved, waiting);
    }
}

fn tell_phase(world: &mut World, change: PhaseChange) {
    let PhaseChange { pos, from, to, reason, .. } = change;
    let entity = with_stream(world, |_, state| state.live.chunks.get(&pos).map(|chunk| chunk.entity));
    let Some(entity) = entity.flatten() else { return };
    if let Some(mut chunks) = world.get_resource_mut::<Chunks>() {
        match to {
            Some(phase) => _ = chunks.known.insert(pos, KnownChunk { entity, phase }),
            None => _ = chunks.known.remove(&pos),
        }
    }
    let event = ChunkChanged { entity, pos, from, to, reason };
    if let Some(mut changes) = world.get_resource_mut::<Messages<ChunkChanged>>() {
        changes.write(event.clone());
    }
    if let (Some(phase), Ok(mut entity)) = (to, world.get_entity_mut(entity)) {
        entity.insert(ChunkLife(phase));
    }
    if world.get_entity(entity).is_ok() {
        world.trigger(event);
    }
    if to.is_none() {
        with_stream(world, |world, state| {
            // It may have come back while observers were told.
            if state.stream.phase(pos).is_none() {
                state.live.chunks.remove(&pos);
                world.try_despawn(entity).ok();
            }
        });
    }
    world.flush();
}

/// Lets entities go on whose ground is there.
fn ground(world: &mut World) {
    let mut query =
        world.query_filtered::<(Entity, &WaitsForGround), (With<WaitsForGround>, Allow<Disabled>)>();
    let waiting: Vec<(Entity, u32)> =
        query.iter(world).map(|(entity, waits)| (entity, waits.reach)).collect();
    if waiting.is_empty() {
        return;
    }
    with_stream(world, |world, state| {
        for (entity, reach) in waiting {
            let pos = membership::place_of(world, &state.live, entity);
            let area = pos.map(|pos| match state.live.grid.is_deep(pos.dimension) {
                true => ChunkRect::around_3d(pos, reach),
                false => ChunkRect::around(pos, reach),
            });
            let mut entity = world.entity_mut(entity);
            if area.is_some_and(|area| state.stream.is_ready(area)) {
                entity.remove::<(WaitsForGround, Disabled)>();
            } else if !entity.contains::<Disabled>() {
                entity.insert(Disabled);
            }
        }
    });
}
