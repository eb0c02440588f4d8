//! Relationships whose types are known at run time only: the sources of a target, and the target of a source.

use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::{Entity, EntityHashMap, EntityHashSet};
use bevy_ecs::ptr::Ptr;
use bevy_ecs::relationship::{
    Relationship, RelationshipAccessor, RelationshipSourceCollection, RelationshipTarget,
};
use bevy_ecs::world::World;

/// A component that makes its entity a source of a relationship.
#[derive(Clone, Copy)]
pub(crate) struct Relation {
    /// Where the target lies in the component.
    pub(crate) offset: usize,
    /// The component of the target that lists its sources.
    pub(crate) targets: ComponentId,
    /// Puts the sources of a target in this order; others come after them.
    pub(crate) reorder: fn(&mut World, Entity, &[Entity]),
    /// Removes these sources from the list of a target. The sources keep their component.
    pub(crate) release: fn(&mut World, Entity, &EntityHashSet),
}

impl Relation {
    /// The relationship `R`, with its target at this offset.
    pub(super) fn of<R: Relationship>(offset: usize, targets: ComponentId) -> Self {
        Self { offset, targets, reorder: reorder::<R>, release: release::<R> }
    }
}

/// The sources of a relationship, as its targets list them.
pub(crate) struct RelationshipSources<'w> {
    world: &'w World,
    targets: ComponentId,
    iter: for<'a> unsafe fn(Ptr<'a>) -> Box<dyn Iterator<Item = Entity> + 'a>,
    /// A target takes its sources along when it is despawned.
    pub(crate) linked: bool,
}

impl<'w> RelationshipSources<'w> {
    /// Of the relationship with this component on its targets.
    pub(crate) fn of(world: &'w World, targets: ComponentId) -> Option<Self> {
        match *world.components().get_info(targets)?.relationship_accessor()? {
            RelationshipAccessor::RelationshipTarget { iter, linked_spawn: linked, .. } => {
                Some(Self { world, targets, iter, linked })
            }
            RelationshipAccessor::Relationship { .. } => None,
        }
    }

    /// Calls `found` with each source of an entity, in order.
    #[expect(unsafe_code, reason = "reads a relationship's target without its type")]
    pub(crate) fn for_each(&self, target: Entity, found: impl FnMut(Entity)) {
        if let Ok(value) = self.world.entity(target).get_by_id(self.targets) {
            // SAFETY: the pointer is to the component that the accessor belongs to.
            unsafe { (self.iter)(value) }.for_each(found);
        }
    }
}

/// The target of a relationship of an entity in the world.
#[expect(unsafe_code, reason = "reads a field of a value without its type")]
pub(crate) fn live_target(world: &World, entity: Entity, id: ComponentId, offset: usize) -> Option<Entity> {
    let entity = world.get_entity(entity).ok()?;
    let value = entity.get_by_id(id).ok()?;
    // SAFETY: the component is a relationship, which has an `Entity` at this offset: its own accessor says so.
    Some(unsafe { value.as_ptr().add(offset).cast::<Entity>().read() })
}

fn reorder<R: Relationship>(world: &mut World, target: Entity, order: &[Entity]) {
    let Some(mut targets) = world.get_mut::<R::RelationshipTarget>(target) else { return };
    let mut sources: Vec<Entity> = targets.iter().collect();
    if sources == order {
        return;
    }
    if order.len() <= 16 {
        sources.sort_by_key(|&source| order.iter().position(|&other| other == source).unwrap_or(usize::MAX));
    } else {
        let places: EntityHashMap<usize> = order.iter().copied().zip(0..).collect();
        sources.sort_by_key(|source| places.get(source).copied().unwrap_or(usize::MAX));
    }
    let collection = targets.collection_mut_risky();
    collection.clear();
    for source in sources {
        collection.add(source);
    }
}

fn release<R: Relationship>(world: &mut World, target: Entity, sources: &EntityHashSet) {
    let Some(targets) = world.get::<R::RelationshipTarget>(target) else { return };
    let kept: Vec<Entity> = targets.iter().filter(|source| !sources.contains(source)).collect();
    if kept.len() == targets.len() {
        return;
    }
    let none = kept.is_empty();
    if let Some(mut targets) = world.get_mut::<R::RelationshipTarget>(target) {
        let collection = targets.collection_mut_risky();
        collection.clear();
        for source in kept {
            collection.add(source);
        }
    }
    // Bevy has no empty lists. That of an entity that goes itself goes with it.
    if none && !sources.contains(&target) {
        world.entity_mut(target).remove::<R::RelationshipTarget>();
    }
}
