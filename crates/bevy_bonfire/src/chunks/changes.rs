//! Finds chunks whose entities differ from their last save: by change ticks, and by the entities and components that there
//! are. An idle chunk costs nothing until somebody asks.

use bevy_ecs::archetype::Archetype;
use bevy_ecs::change_detection::Tick;
use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::{Entity, EntityHashMap};
use bevy_ecs::world::World;
use bevy_platform::collections::HashMap;
use bonfire_chunks::ChunkPos;

use super::components::InChunk;
use super::state::SavedMark;
use super::streamed_world::BevyWorld;
use crate::capture::{ChangedRows, Epoch, Rows, TickRange};
use crate::registry::{ComponentRegistry, SaveRegistry};

/// More chunks than these are looked at table by table instead of one by one.
const ONE_BY_ONE_MAX: usize = 16;

/// Rows that a scan of ticks finds.
#[derive(Default)]
pub(super) struct RowList(pub(super) Vec<usize>);

impl ChangedRows for RowList {
    fn mark_row(&mut self, row: usize) {
        self.0.push(row);
    }

    fn mark_block(&mut self, block: usize, bits: impl FnOnce() -> u64) {
        let mut bits = bits();
        while bits != 0 {
            self.0.push(block * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}

/// Returns a sum over entities and the sets of their components. It does not depend on their order.
pub(super) fn shape_of(world: &World, entities: &[Entity]) -> u64 {
    let of = |entity: &Entity| {
        let at = world.entities().get_spawned(*entity).ok()?;
        Some(shape_of_one(*entity, at.archetype_id.index()))
    };
    entities.iter().filter_map(of).fold(0, u64::wrapping_add)
}

fn shape_of_one(entity: Entity, archetype: usize) -> u64 {
    let mixed = entity.to_bits() ^ (archetype as u64).rotate_left(40);
    let mixed = (mixed ^ mixed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// The ticks after a mark. `None`: it is so old that nobody can tell.
fn ticks_since(world: &mut World, mark: SavedMark) -> Option<TickRange> {
    let is_known = Epoch::of(world) - mark.epoch < Epoch::TRUSTED;
    TickRange::new(mark.tick, world.change_tick()).filter(|_| is_known)
}

/// Returns true if the entities of a chunk differ from its last save.
pub(super) fn is_changed(here: &mut BevyWorld<'_>, pos: ChunkPos) -> bool {
    let Some(live) = here.live.chunks.get(&pos) else { return false };
    let (is_changed, mark) = (live.is_changed, live.saved);
    if is_changed {
        return true;
    }
    let residents = here.residents(pos);
    let Some(ticks) = ticks_since(here.world, mark) else { return !residents.is_empty() };
    if shape_of(here.world, &residents) != mark.shape {
        return true;
    }
    let Ok(registry) = SaveRegistry::of(here.world) else { return false };
    let world = &*here.world;
    residents.iter().any(|&entity| {
        let Ok(entity) = world.get_entity(entity) else { return false };
        saved_components(entity.archetype(), &registry).any(|(id, is_unseen)| {
            is_unseen || entity.get_change_ticks_by_id(id).is_some_and(|found| ticks.has(found.changed))
        })
    })
}

/// The components of an archetype that saves have, and whether they change without change detection.
fn saved_components<'a>(
    archetype: &'a Archetype,
    registry: &'a ComponentRegistry,
) -> impl Iterator<Item = (ComponentId, bool)> + 'a {
    archetype.iter_components().filter_map(|id| Some((id, registry.entries[registry.number(id)?].unseen)))
}

/// Returns those of some chunks whose entities differ from their last save.
pub(super) fn changed_among(here: &mut BevyWorld<'_>, chunks: &[ChunkPos]) -> Vec<ChunkPos> {
    if chunks.len() <= ONE_BY_ONE_MAX {
        return chunks.iter().copied().filter(|pos| is_changed(here, *pos)).collect();
    }
    let mut asked: EntityHashMap<Asked> = EntityHashMap::default();
    for &pos in chunks {
        let Some(live) = here.live.chunks.get(&pos) else { continue };
        let (entity, is_changed, mark) = (live.entity, live.is_changed, live.saved);
        let ticks = ticks_since(here.world, mark);
        let is_changed = is_changed || ticks.is_none();
        asked.insert(entity, Asked { pos, is_changed, ticks, shape: 0, saved: mark.shape });
    }
    add_shapes(here.world, &mut asked);
    for chunk in asked.values_mut() {
        chunk.is_changed |= chunk.shape != chunk.saved;
    }
    scan_tables(here.world, &mut asked);
    let found: HashMap<ChunkPos, bool> = asked.values().map(|chunk| (chunk.pos, chunk.is_changed)).collect();
    chunks.iter().copied().filter(|pos| found.get(pos).copied().unwrap_or(false)).collect()
}

/// A chunk that was asked about.
struct Asked {
    pos: ChunkPos,
    is_changed: bool,
    ticks: Option<TickRange>,
    /// The sum over the entities that there are, and over those of the last save.
    shape: u64,
    saved: u64,
}

fn add_shapes(world: &mut World, asked: &mut EntityHashMap<Asked>) {
    let mut query = world.query::<(Entity, &InChunk, &Archetype)>();
    let mut run = (Entity::PLACEHOLDER, 0_u64);
    for (entity, member, archetype) in query.iter(world) {
        if member.chunk != run.0 {
            add_shape(asked, run);
            run = (member.chunk, 0);
        }
        run.1 = run.1.wrapping_add(shape_of_one(entity, archetype.id().index()));
    }
    add_shape(asked, run);
}

fn add_shape(asked: &mut EntityHashMap<Asked>, (chunk, shape): (Entity, u64)) {
    if let Some(chunk) = asked.get_mut(&chunk) {
        chunk.shape = chunk.shape.wrapping_add(shape);
    }
}

/// Marks the chunks of entities with a value that was changed. Whole columns are passed over where nothing is new.
fn scan_tables(world: &mut World, asked: &mut EntityHashMap<Asked>) {
    let (Ok(registry), Some(member)) =
        (SaveRegistry::of(world), world.components().component_id::<InChunk>())
    else {
        return;
    };
    let oldest = asked.values().filter_map(|chunk| chunk.ticks).max_by_key(|ticks| ticks.age());
    let Some(oldest) = oldest else { return };
    let world = &*world;
    for table in world.storages().tables.iter().filter(|table| table.has_column(member)) {
        let rows = Rows::Table(table);
        for id in registry.entries.iter().map(|entry| entry.id).filter(|id| table.has_column(*id)) {
            let mut found = RowList::default();
            oldest.mark_changed(world, &rows, id, &mut found);
            for row in found.0 {
                note_change(world, table.entities()[row], id, asked);
            }
        }
    }
    // Values in sparse sets, and those that change unseen, have no column here.
    let is_apart = |id: ComponentId| {
        let number = registry.number(id)?;
        let is_sparse = world.storages().sparse_sets.get(id).is_some();
        (is_sparse || registry.entries[number].unseen).then_some(registry.entries[number].unseen)
    };
    for archetype in world.archetypes().iter().filter(|archetype| archetype.contains(member)) {
        for (id, is_unseen) in archetype.iter_components().filter_map(|id| Some((id, is_apart(id)?))) {
            for entity in archetype.entities() {
                match is_unseen {
                    true => mark(world, entity.id(), asked),
                    false => note_change(world, entity.id(), id, asked),
                }
            }
        }
    }
}

/// Marks the chunk of an entity, if a value of it is newer than the last save of that chunk.
fn note_change(world: &World, entity: Entity, id: ComponentId, asked: &mut EntityHashMap<Asked>) {
    let Ok(entity) = world.get_entity(entity) else { return };
    let tick: Option<Tick> = entity.get_change_ticks_by_id(id).map(|ticks| ticks.changed);
    let chunk = entity.get::<InChunk>().and_then(|member| asked.get_mut(&member.chunk));
    if let (Some(chunk), Some(tick)) = (chunk, tick)
        && chunk.ticks.is_some_and(|ticks| ticks.has(tick))
    {
        chunk.is_changed = true;
    }
}

fn mark(world: &World, entity: Entity, asked: &mut EntityHashMap<Asked>) {
    let member = world.get::<InChunk>(entity);
    if let Some(chunk) = member.and_then(|member| asked.get_mut(&member.chunk)) {
        chunk.is_changed = true;
    }
}
