//! Entities that are despawned, and come back under their ids if the world is rewound.
//!
//! Bevy gives an id to a new generation as soon as its entity is despawned. So an entity that a checkpoint still knows is hidden
//! instead: it loses everything that a rewind brings back, and is `Disabled`. When no checkpoint knows it any more, it is
//! despawned.

use bevy_ecs::component::{Component, ComponentId};
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::query::{Allow, With};
use bevy_ecs::relationship::RelationshipAccessor;
use bevy_ecs::resource::Resource;
use bevy_ecs::system::EntityCommands;
use bevy_ecs::world::{EntityWorldMut, World};

use crate::load::Loaded;
use crate::registry::{ComponentRegistry, RelationshipSources, SaveRegistry};

/// On a hidden entity.
#[derive(Component)]
struct Hidden {
    /// Later checkpoints do not know it.
    known_until: u64,
}

/// The ticks of the checkpoints that there are.
#[derive(Resource)]
struct RewindWindow {
    newest: u64,
}

/// Despawns entities of worlds that can be rewound.
pub trait RewindExt {
    /// Despawns the entity, and those that Bevy despawns with it. A rewind of [`Checkpoints`](crate::Checkpoints) to a moment at
    /// which it existed brings it back under its id, so that handles of the game stay valid.
    ///
    /// Until no checkpoint knows it, the entity exists: it loses its saved components and its relationships, with their hooks
    /// and observers, keeps the others, and gets Bevy's `Disabled`. Captures leave it out. If there is no checkpoint, it is
    /// despawned at once.
    ///
    /// ```
    /// # use bevy_ecs::prelude::*;
    /// use bevy_bonfire::Checkpoints;
    /// use bevy_bonfire::prelude::*;
    /// # #[derive(Component, Persist)]
    /// # #[persist(key = "game.health")]
    /// # struct Health(u32);
    ///
    /// # let mut world = World::new();
    /// # world.persist::<Health>();
    /// let enemy = world.spawn((Health(3), Saved)).id();
    /// let mut checkpoints = Checkpoints::new(60);
    /// checkpoints.take(&mut world, 1)?;
    /// world.entity_mut(enemy).despawn_rewindable(); // in systems: commands.entity(enemy).despawn_rewindable()
    /// checkpoints.rewind(&mut world, 1)?;
    /// assert_eq!(world.get::<Health>(enemy).unwrap().0, 3); // the same id
    /// # Ok::<(), bonfire::Error>(())
    /// ```
    fn despawn_rewindable(self);
}

impl RewindExt for EntityWorldMut<'_> {
    fn despawn_rewindable(self) {
        let entity = self.id();
        hide(self.into_world_mut(), entity);
    }
}

impl RewindExt for EntityCommands<'_> {
    fn despawn_rewindable(mut self) {
        self.queue(|entity: EntityWorldMut<'_>| entity.despawn_rewindable());
    }
}

fn hide(world: &mut World, entity: Entity) {
    let window = world.get_resource::<RewindWindow>().map(|window| window.newest);
    let Some((known_until, registry)) = window.zip(SaveRegistry::of(world).ok()) else {
        world.despawn(entity);
        return;
    };
    for entity in with_linked(world, entity) {
        let Ok(mut entity) = world.get_entity_mut(entity) else { continue };
        let going = going_components(&entity, &registry);
        entity.remove_by_ids(&going).insert((Disabled, Hidden { known_until }));
    }
}

/// The entity, and all that Bevy despawns with it.
fn with_linked(world: &World, entity: Entity) -> EntityHashSet {
    let mut all: EntityHashSet = [entity].into_iter().collect();
    let mut next = vec![entity];
    while let Some(entity) = next.pop() {
        let Ok(entity) = world.get_entity(entity) else { continue };
        let lists = entity.archetype().iter_components();
        for sources in lists.filter_map(|id| RelationshipSources::of(world, id)).filter(|list| list.linked) {
            sources.for_each(entity.id(), |source| {
                if all.insert(source) {
                    next.push(source);
                }
            });
        }
    }
    all
}

/// The components that a rewind brings back, and both sides of relationships.
fn going_components(entity: &EntityWorldMut<'_>, registry: &ComponentRegistry) -> Vec<ComponentId> {
    let components = entity.world().components();
    let is_saved = |id: ComponentId| {
        let number = registry.number(id);
        number.is_some_and(|number| !registry.core.descriptors()[number].is_transient())
    };
    let is_relationship = |id: ComponentId| {
        let accessor = components.get_info(id).and_then(|info| info.relationship_accessor());
        matches!(
            accessor,
            Some(RelationshipAccessor::Relationship { .. } | RelationshipAccessor::RelationshipTarget { .. })
        )
    };
    entity.archetype().iter_components().filter(|&id| is_saved(id) || is_relationship(id)).collect()
}

/// Despawns hidden entities that no checkpoint from `oldest` on knows. New ones are known until `newest`.
pub(super) fn set_window(world: &mut World, oldest: u64, newest: u64) {
    world.insert_resource(RewindWindow { newest });
    despawn_hidden(world, |hidden| hidden.known_until < oldest);
}

/// Shows the entities that a rewind has brought back. Despawns those that have come after that moment.
pub(super) fn after_rewind(world: &mut World, loaded: &Loaded, oldest: u64, tick: u64) {
    let mut hidden = world.query_filtered::<Entity, (With<Hidden>, Allow<Disabled>)>();
    let hidden: Vec<Entity> = hidden.iter(world).collect();
    for entity in hidden.into_iter().filter(|&entity| loaded.entity(entity) == Some(entity)) {
        world.entity_mut(entity).remove::<Hidden>();
    }
    despawn_hidden(world, |hidden| hidden.known_until > tick);
    set_window(world, oldest, tick);
}

fn despawn_hidden(world: &mut World, is_unknown: impl Fn(&Hidden) -> bool) {
    let mut hidden = world.query_filtered::<(Entity, &Hidden), Allow<Disabled>>();
    let unknown = hidden.iter(world).filter(|(_, hidden)| is_unknown(hidden)).map(|(entity, _)| entity);
    for entity in unknown.collect::<Vec<_>>() {
        world.despawn(entity);
    }
}
