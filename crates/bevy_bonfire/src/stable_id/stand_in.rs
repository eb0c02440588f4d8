//! Stand-ins: entities that hold the place of others that are not loaded.

use bevy_ecs::component::Component;
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::lifecycle::HookContext;
use bevy_ecs::world::{DeferredWorld, World};

use super::StableId;
use crate::pending::{Pending, PendingEntities, StandInTable};

/// Marks a stand-in: an entity that holds the place of another one, which is not loaded. References and relationships to that
/// one lead here. When it is loaded, it takes over this entity, with its id.
///
/// A stand-in has Bevy's `Disabled`, so queries pass it over. It is part of no save and of no replication, and
/// [`StableIds::get`](crate::StableIds::get) does not return it.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::StandIn;
/// # #[derive(Component)] struct Follows(Entity);
///
/// fn follow(followers: Query<&Follows>, away: Query<&StandIn>) {
///     for follows in &followers {
///         if let Ok(stand_in) = away.get(follows.0) {
///             println!("{} is not loaded", stand_in.id());
///         }
///     }
/// }
/// ```
#[derive(Component, Clone, Copy, Debug, PartialEq, Eq)]
#[component(immutable, on_insert = inserted, on_discard = discarded)]
pub struct StandIn(StableId);

impl StandIn {
    pub(crate) fn new(id: StableId) -> Self {
        Self(id)
    }

    /// Returns the id of the entity that is away.
    pub fn id(self) -> StableId {
        self.0
    }
}

fn table(world: &World) -> Option<&StandInTable> {
    world.get_resource::<PendingEntities>().map(PendingEntities::stand_ins)
}

fn inserted(world: DeferredWorld<'_>, context: HookContext) {
    if let Some(stand_in) = world.get::<StandIn>(context.entity)
        && let Some(table) = table(&world)
    {
        table.insert(stand_in.0.to_bits(), context.entity);
    }
}

fn discarded(world: DeferredWorld<'_>, context: HookContext) {
    if let Some(stand_in) = world.get::<StandIn>(context.entity)
        && let Some(table) = table(&world)
    {
        table.remove(stand_in.0.to_bits(), context.entity);
    }
}

/// A stable id was inserted. If its entity was a stand-in for it, it is the entity itself now.
pub(super) fn end_standing_in(world: &mut DeferredWorld<'_>, entity: Entity) {
    if world.get::<StandIn>(entity).is_some() && world.get::<Pending>(entity).is_none() {
        world.commands().entity(entity).try_remove::<(StandIn, Disabled)>();
    }
}

/// Returns the stand-in for an entity that is away, if there is one.
pub(crate) fn stand_in(world: &World, id: StableId) -> Option<Entity> {
    let entity = table(world)?.get(id.to_bits())?;
    world.get::<StandIn>(entity).filter(|stand_in| stand_in.0 == id).map(|_| entity)
}
