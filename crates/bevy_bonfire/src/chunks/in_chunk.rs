//! [`InChunk`] as a relationship.
//!
//! It is what its derive would be, but for one hook: entities that come with a chunk get the component in the batch that spawns
//! them. Their list is made in one go afterwards, so the hook has nothing to do then. Bevy has no other way to spawn a batch
//! without the hooks of relationships, and its hook queues a command for each entity.

use std::mem::offset_of;

use bevy_ecs::component::{Component, ComponentCloneBehavior, Immutable, StorageType};
use bevy_ecs::entity::{Entity, EntityMapper};
use bevy_ecs::lifecycle::{ComponentHook, HookContext};
use bevy_ecs::relationship::{ComponentRelationshipAccessor, Relationship};
use bevy_ecs::world::DeferredWorld;
use bonfire_chunks::ChunkPos;

use super::components::{ChunkResidents, InChunk};
use crate::load::is_spawning;

impl Component for InChunk {
    const STORAGE_TYPE: StorageType = StorageType::Table;

    type Mutability = Immutable;

    fn on_insert() -> Option<ComponentHook> {
        Some(inserted)
    }

    fn on_discard() -> Option<ComponentHook> {
        Some(<Self as Relationship>::on_discard)
    }

    fn clone_behavior() -> ComponentCloneBehavior {
        ComponentCloneBehavior::clone::<Self>()
    }

    fn map_entities<E: EntityMapper>(this: &mut Self, mapper: &mut E) {
        this.chunk = mapper.get_mapped(this.chunk);
    }

    #[expect(unsafe_code, reason = "the derive of a relationship has it, too")]
    fn relationship_accessor() -> Option<ComponentRelationshipAccessor<Self>> {
        // SAFETY: at the offset of `chunk` lies an `Entity`.
        Some(unsafe { ComponentRelationshipAccessor::<Self>::relationship(offset_of!(Self, chunk)) })
    }
}

impl Relationship for InChunk {
    type RelationshipTarget = ChunkResidents;

    fn get(&self) -> Entity {
        self.chunk
    }

    fn from(chunk: Entity) -> Self {
        Self { chunk, pos: ChunkPos::default() }
    }

    fn set_risky(&mut self, chunk: Entity) {
        self.chunk = chunk;
    }
}

/// Adds an entity to the list of its chunk, unless it comes with the chunk.
fn inserted(world: DeferredWorld<'_>, context: HookContext) {
    if !is_spawning() {
        <InChunk as Relationship>::on_insert(world, context);
    }
}
