//! The chunk that each entity belongs to.
//!
//! | entity | it belongs to |
//! |---|---|
//! | `Streamed`, without a parent | the chunk that its `Transform` is in, or that it is anchored to |
//! | `Roaming`, or neither | no chunk |
//! | a saved descendant of one that belongs to a chunk | the same chunk |
//!
//! An entity whose chunk is not active stays where it is until that chunk is: see [`AtEdge`]. So every entity is in one chunk, or in
//! the rest of the game, at all times.

use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::hierarchy::{ChildOf, Children};
use bevy_ecs::query::{Allow, Changed, Has, Or, With, Without};
use bevy_ecs::world::World;
use bevy_transform::components::Transform;
use bonfire_chunks::ChunkPos;
use bonfire_chunks::stream::{ChunkPhase, ChunkStream};

use super::body::{self, BodyWaits, PixelBody};
use super::changes::RowList;
use super::components::{AnchoredTo, InChunk, InDimension, Roaming, Streamed, WaitsForChunk};
use super::event::ChunkProblem;
use super::plugin::AtEdge;
use super::state::{LiveChunks, News, PreparedChunk, StreamState, Waiting};
use super::streamed_world::BevyWorld;
use crate::Saved;
use crate::capture::{Rows, TickRange};
use crate::registry::SaveRegistry;
use crate::selection::is_in_tree;

/// The chunk that an entity is in. `None`: its place is no number, or in a dimension that there is not.
pub(super) fn place_of(world: &World, live: &LiveChunks, entity: Entity) -> Option<ChunkPos> {
    let entity = world.get_entity(entity).ok()?;
    // A body is where it is drawn.
    if let Some(anchor) = entity.get::<AnchoredTo>().filter(|_| !entity.contains::<PixelBody>()) {
        return Some(anchor.pos());
    }
    let dimension = entity.get::<InDimension>().map_or(0, |dimension| dimension.0);
    live.grid.chunk_at(entity.get::<Transform>()?.translation.to_array(), dimension)
}

/// Looks at what has moved, come or gone since the last frame.
pub(super) fn update(world: &mut World, state: &mut StreamState) {
    state.live.has_adopted = false;
    release(world, &mut state.live);
    let moved = moved(world, &mut state.live);
    let come = newcomers(world);
    for entity in come.into_iter().chain(moved) {
        settle(world, state, entity);
    }
    look_again(world, state);
    release_kept(world, state);
    for target in std::mem::take(&mut state.live.ended_visits) {
        let is_used = state.live.waiting.values().any(|waiting| waiting.target == target);
        if !is_used {
            state.stream.end_visit(target);
        }
    }
}

/// Lets entities go that do not belong to a chunk any more.
fn release(world: &mut World, live: &mut LiveChunks) {
    type Loose = (With<InChunk>, Or<(With<Roaming>, (Without<Streamed>, Without<ChildOf>))>, Allow<Disabled>);
    let mut query = world.query_filtered::<(Entity, &InChunk), Loose>();
    let loose: Vec<(Entity, ChunkPos)> =
        query.iter(world).map(|(entity, member)| (entity, member.pos)).collect();
    for (entity, pos) in loose {
        wake(world, live, entity);
        world.entity_mut(entity).remove::<InChunk>();
        note(live, pos);
        body::place::release(world, live, entity);
    }
}

/// Streamed entities that belong to no chunk yet.
fn newcomers(world: &mut World) -> Vec<Entity> {
    type New = (With<Streamed>, Without<InChunk>, Without<Roaming>, Without<ChildOf>, Allow<Disabled>);
    world.query_filtered::<Entity, New>().iter(world).collect()
}

/// Members that are in another chunk than they belong to.
fn moved(world: &mut World, live: &mut LiveChunks) -> Vec<Entity> {
    let now = world.change_tick();
    let ticks = live.looked.and_then(|looked| TickRange::new(looked, now));
    live.looked = Some(now);
    let mut found = Vec::new();
    let ids =
        world.components().component_id::<InChunk>().zip(world.components().component_id::<Transform>());
    let Some((member, transform)) = ids else { return found };
    for table in world.storages().tables.iter().filter(|table| table.has_column(member)) {
        let mut rows = RowList::default();
        match ticks {
            Some(ticks) => ticks.mark_changed(world, &Rows::Table(table), transform, &mut rows),
            None => rows.0.extend(0..table.entities().len()),
        }
        found.extend(rows.0.into_iter().map(|row| table.entities()[row]));
    }
    type Told = (With<InChunk>, Or<(Changed<AnchoredTo>, Changed<InDimension>)>);
    found.extend(world.query_filtered::<Entity, Told>().iter(world));
    type Member<'w> = (
        &'w InChunk,
        &'w Transform,
        Option<&'w AnchoredTo>,
        Option<&'w InDimension>,
        Has<ChildOf>,
        Has<PixelBody>,
    );
    let mut members = world.query_filtered::<Member<'_>, Allow<Disabled>>();
    found.retain(|entity| {
        let Ok((member, place, anchor, dimension, has_parent, is_body)) = members.get(world, *entity) else {
            return false;
        };
        let pos = match anchor.filter(|_| !is_body) {
            Some(anchor) => Some(anchor.pos()),
            None => {
                let dimension = dimension.map_or(0, |dimension| dimension.0);
                live.grid.chunk_at(place.translation.to_array(), dimension)
            }
        };
        !has_parent && pos.is_some_and(|pos| pos != member.pos)
    });
    // What the game changes from here on has a tick of its own.
    world.increment_change_tick();
    found
}

/// Brings an entity into the chunk that it is in, or lets it wait for that.
fn settle(world: &mut World, state: &mut StreamState, entity: Entity) {
    let StreamState { stream, live, .. } = state;
    let Some(pos) = place_of(world, live, entity) else { return };
    let from = world.get::<InChunk>(entity).map(|member| member.pos);
    if from == Some(pos) {
        return;
    }
    if stream.is_active(pos) {
        if enter(world, live, entity, pos)
            && let Some(from) = from
        {
            stream.exchanged(from, pos);
        }
        return;
    }
    wait(world, stream, live, entity, pos);
}

/// Moves an entity with its descendants into an active chunk. Returns false if there is no such chunk.
fn enter(world: &mut World, live: &mut LiveChunks, entity: Entity, pos: ChunkPos) -> bool {
    let Some(chunk) = live.chunks.get(&pos).map(|chunk| chunk.entity) else { return false };
    if world.get_entity(chunk).is_err() {
        return false;
    }
    wake(world, live, entity);
    if world.get::<PixelBody>(entity).is_some() && !body::place::enter(world, live, entity, pos) {
        return false;
    }
    for entity in family(world, entity) {
        if let Some(from) = world.get::<InChunk>(entity).map(|member| member.pos) {
            note(live, from);
        }
        world.entity_mut(entity).insert(InChunk { chunk, pos });
    }
    note(live, pos);
    true
}

/// An entity with its saved descendants.
fn family(world: &World, root: Entity) -> Vec<Entity> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&entity) = found.get(next) {
        next += 1;
        let children = world.get::<Children>(entity).into_iter().flat_map(|children| children.iter());
        found.extend(children.copied().filter(|child| is_saved(world, *child)));
    }
    found
}

fn is_saved(world: &World, entity: Entity) -> bool {
    world.get::<Roaming>(entity).is_none()
        && (world.get::<Saved>(entity).is_some() || is_in_tree(world, entity))
}

/// Lets an entity wait at the edge of what is loaded.
fn wait(
    world: &mut World,
    stream: &mut ChunkStream<PreparedChunk>,
    live: &mut LiveChunks,
    entity: Entity,
    target: ChunkPos,
) {
    let before = live.waiting.get(&entity).copied();
    let waiting = match before {
        Some(waiting) if waiting.target == target => waiting,
        Some(waiting) => {
            live.ended_visits.push(waiting.target);
            Waiting { target, is_told: false }
        }
        None => Waiting { target, is_told: false },
    };
    let is_failed = stream.phase(target) == Some(ChunkPhase::Failed);
    let (stops, disables) = match live.at_edge {
        AtEdge::Stop => (true, false),
        AtEdge::Enter | AtEdge::Load => (is_failed, true),
    };
    match live.at_edge {
        _ if stops => {}
        AtEdge::Load if live.kept_for.insert((entity, target)) => stream.add_ticket(target),
        AtEdge::Load => {}
        _ => stream.visit(target),
    }
    let mut waiting = waiting;
    if disables && world.get::<Disabled>(entity).is_none() {
        world.entity_mut(entity).insert(WaitsForChunk);
    }
    if stops && !waiting.is_told {
        waiting.is_told = true;
        live.news.push(News::Problem(ChunkProblem::Stopped { entity, pos: target }));
    }
    live.waiting.insert(entity, waiting);
}

/// Lets chunks go that were kept for entities which have left them.
fn release_kept(world: &World, state: &mut StreamState) {
    let StreamState { stream, live, .. } = state;
    let LiveChunks { kept_for, waiting, .. } = live;
    kept_for.retain(|(entity, pos)| {
        let is_there = world.get::<InChunk>(*entity).is_some_and(|member| member.pos == *pos);
        let is_kept = is_there || waiting.get(entity).is_some_and(|waiting| waiting.target == *pos);
        if !is_kept {
            stream.remove_ticket(*pos);
        }
        is_kept
    });
}

/// Looks again at entities that wait: their chunk may be active now, or they may have turned back.
fn look_again(world: &mut World, state: &mut StreamState) {
    // Those that a load has brought waited when they were saved.
    let mut query = world.query_filtered::<Entity, (With<WaitsForChunk>, Allow<Disabled>)>();
    for entity in query.iter(world) {
        let target = place_of(world, &state.live, entity).unwrap_or_default();
        state.live.waiting.entry(entity).or_insert(Waiting { target, is_told: false });
    }
    let waiting: Vec<Entity> = state.live.waiting.keys().copied().collect();
    for entity in waiting {
        let member = world.get::<InChunk>(entity).map(|member| member.pos);
        let place = place_of(world, &state.live, entity);
        let is_there = world.get_entity(entity).is_ok() && world.get::<Roaming>(entity).is_none();
        if !is_there || place.is_none() || member.is_some() && member == place {
            wake(world, &mut state.live, entity);
        } else {
            settle(world, state, entity);
        }
    }
}

/// Ends the waiting of an entity.
fn wake(world: &mut World, live: &mut LiveChunks, entity: Entity) {
    let Some(waiting) = live.waiting.remove(&entity) else { return };
    live.ended_visits.push(waiting.target);
    if let Ok(mut entity) = world.get_entity_mut(entity)
        && entity.contains::<WaitsForChunk>()
    {
        match entity.contains::<BodyWaits>() {
            true => entity.remove::<WaitsForChunk>(),
            false => entity.remove::<(WaitsForChunk, Disabled)>(),
        };
    }
}

/// Notes that entities have come to a chunk or gone from it.
fn note(live: &mut LiveChunks, pos: ChunkPos) {
    if let Some(chunk) = live.chunks.get_mut(&pos) {
        chunk.is_changed = true;
    }
}

/// Lets entities that were generated for a chunk belong to it.
pub(super) fn take_in_here(here: &mut BevyWorld<'_>, pos: ChunkPos) {
    for entity in newcomers(here.world) {
        if place_of(here.world, here.live, entity) == Some(pos) {
            enter(here.world, here.live, entity, pos);
        }
    }
}

/// Moves the entities into a chunk that wait for it, and returns the chunks that they come from.
pub(super) fn admit(here: &mut BevyWorld<'_>, pos: ChunkPos) -> Vec<ChunkPos> {
    let is_for_it = |(_, waiting): &(&Entity, &Waiting)| waiting.target == pos;
    let entities: Vec<Entity> =
        here.live.waiting.iter().filter(is_for_it).map(|(entity, _)| *entity).collect();
    let mut from = Vec::new();
    for entity in entities {
        let member = here.world.get::<InChunk>(entity).map(|member| member.pos);
        if enter(here.world, here.live, entity, pos) {
            from.extend(member);
        }
    }
    from
}

/// Lets saved descendants belong to the chunk of their root, and those go that have lost it. Captures ask for it, and once in a
/// frame is enough.
pub(super) fn adopt(here: &mut BevyWorld<'_>) {
    if std::mem::replace(&mut here.live.has_adopted, true) {
        return;
    }
    here.world.flush();
    release(here.world, here.live);
    // From above: children that came later, or that are saved since.
    let mut parents = here
        .world
        .query_filtered::<(Entity, &InChunk), (With<Children>, Without<ChildOf>, Allow<Disabled>)>();
    let roots: Vec<(Entity, InChunk)> =
        parents.iter(here.world).map(|(entity, member)| (entity, *member)).collect();
    for (root, home) in roots {
        for entity in family(here.world, root) {
            if here.world.get::<InChunk>(entity) != Some(&home) {
                join(here, entity, Some(home));
            }
        }
    }
    // From below: those whose root is in no chunk.
    let mut children = here.world.query_filtered::<Entity, (With<InChunk>, With<ChildOf>, Allow<Disabled>)>();
    let children: Vec<Entity> = children.iter(here.world).collect();
    for entity in children {
        let home = root_of(here.world, entity).and_then(|root| here.world.get::<InChunk>(root).copied());
        if here.world.get::<InChunk>(entity).copied() != home || !is_saved(here.world, entity) {
            join(here, entity, home.filter(|_| is_saved(here.world, entity)));
        }
    }
}

/// Lets a descendant belong to the chunk of its root.
fn join(here: &mut BevyWorld<'_>, entity: Entity, home: Option<InChunk>) {
    let before = here.world.get::<InChunk>(entity).copied();
    for changed in home.iter().chain(&before) {
        note(here.live, changed.pos);
    }
    match home {
        Some(home) => _ = here.world.entity_mut(entity).insert(home),
        None => _ = here.world.entity_mut(entity).remove::<InChunk>(),
    }
}

/// The topmost ancestor of an entity.
fn root_of(world: &World, entity: Entity) -> Option<Entity> {
    let mut root = entity;
    // A circle of parents has no root.
    for _ in 0..1024 {
        match world.get::<ChildOf>(root) {
            Some(parent) => root = parent.0,
            None => return Some(root),
        }
    }
    None
}

/// Components that tell which entities belong together are known, and not missing from saves.
pub(super) fn register(world: &mut World) {
    SaveRegistry::edit(world, |world, registry| {
        let id = world.register_component::<InChunk>();
        registry.apart = Some(id);
        registry.ignore(id);
        let id = world.register_component::<super::components::ChunkResidents>();
        registry.ignore(id);
        let id = world.register_component::<super::components::WaitsForGround>();
        registry.ignore(id);
        let id = world.register_component::<PixelBody>();
        registry.ignore(id);
    });
}
