//! What a world saves: the core's registry, and what Bevy knows about each of its components.
//!
//! A component's number in the core's registry is its position here. The Rust type behind a [`ComponentId`] is the
//! descriptor's type: registration sees to it, and the unsafe parts of this crate rely on it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bevy_ecs::component::{Component, ComponentId};
use bevy_ecs::entity::{Entity, EntityHashMap, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::ptr::{OwningPtr, Ptr};
use bevy_ecs::query::Allow;
use bevy_ecs::relationship::{
    Relationship, RelationshipAccessor, RelationshipSourceCollection, RelationshipTarget,
};
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::engine::{BufferPool, Carry, WorldNumber};
use bonfire::{Descriptor, Error, Registry, Result};

use crate::load::Arrivals;
use crate::{SaveScope, Saved, StableId, StableIds, builtin};

/// All that is registered in a world. Cheap to share; changed by registration only.
#[derive(Resource, Clone)]
pub(crate) struct SaveRegistry(Arc<Registered>);

#[derive(Clone, Default)]
pub(crate) struct Registered {
    /// Which world this is; none while it is being changed.
    pub(crate) world: Option<WorldNumber>,
    pub(crate) registry: Registry,
    pub(crate) entries: Vec<Entry>,
    /// By [`ComponentId`], the number of the registered component.
    numbers: Vec<Option<u32>>,
    pub(crate) scope: SaveScope,
    /// The component that makes an entity part of it, if it is not [`Saved`].
    pub(crate) other_mark: Option<ComponentId>,
    pub(crate) batches: Batches,
    pub(crate) layer: Option<Layer>,
    pub(crate) pool: BufferPool,
    /// Components that an [`Index`](crate::Index) follows by what is inserted.
    pub(crate) indexed: HashSet<ComponentId>,
    /// Components that are knowingly not saved.
    ignored: HashSet<ComponentId>,
    /// Components that were already named as missing.
    pub(crate) named: Arc<Mutex<HashSet<ComponentId>>>,
}

/// When a load spawns by batches. A world keeps the sets of components that it once spawned so, and can have so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches {
    pub(crate) sets_max: usize,
    /// Smaller sets are not worth a place.
    pub(crate) rows_min: usize,
}

impl Default for Batches {
    fn default() -> Self {
        Self { sets_max: usize::MAX, rows_min: 16 }
    }
}

/// Puts a loaded resource into a world in another way than by inserting it.
pub(crate) type LoadResource = Arc<dyn Fn(&mut World, OwningPtr<'_>) -> Result<()> + Send + Sync>;

/// What Bevy adds to a descriptor.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) id: ComponentId,
    /// Saved where it is met, but no reason to save an entity.
    pub(crate) incidental: bool,
    /// Inserted when all entities are complete.
    pub(crate) late: bool,
    /// Changes without change detection.
    pub(crate) unseen: bool,
    pub(crate) relation: Option<Relation>,
    pub(crate) load_resource: Option<LoadResource>,
}

/// A component that makes its entity a source of a relationship.
#[derive(Clone, Copy)]
pub(crate) struct Relation {
    /// Where the target lies in the component.
    pub(crate) offset: usize,
    /// The component of the target that lists its sources.
    pub(crate) targets: ComponentId,
    /// Puts the sources of a target in this order; others come after them.
    pub(crate) reorder: fn(&mut World, Entity, &[Entity]),
    /// Takes these sources out of a target's list, without a word to them.
    pub(crate) release: fn(&mut World, Entity, &EntityHashSet),
}

/// Reads the layer of an entity from one of its components.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) id: ComponentId,
    pub(crate) read: Arc<dyn Fn(Ptr<'_>) -> u8 + Send + Sync>,
}

/// What a load met and did not know, for the next save.
#[derive(Resource, Default)]
pub(crate) struct Carried(pub(crate) Carry);

/// A hook has panicked during a load, and the load caught it. Bevy has then lost how the set of components that was being
/// inserted is stored, for ever: from now on, components are inserted one by one.
#[derive(Resource, Default)]
pub(crate) struct OneByOne(pub(crate) bool);

impl SaveRegistry {
    /// The registry of a world.
    pub(crate) fn of(world: &World) -> Result<Arc<Registered>> {
        match world.get_resource::<Self>() {
            Some(registry) => Ok(Arc::clone(&registry.0)),
            None => Err(Error::misuse("nothing is registered in this world: add `BonfirePlugin` to the app")),
        }
    }

    /// Makes the registry of a world that does not have one: what every world saves, and nothing of a game's own.
    pub(crate) fn ensure(world: &mut World) {
        if !world.contains_resource::<Self>() {
            let registry = Registered::with_builtins(world);
            world.insert_resource(Self(Arc::new(registry)));
        }
    }

    /// Changes the registry of a world, which is made if it is not there yet.
    pub(crate) fn edit<T>(world: &mut World, edit: impl FnOnce(&mut World, &mut Registered) -> T) -> T {
        Self::ensure(world);
        // A capture or load that holds the registry keeps the one it has.
        let mut registry = std::mem::take(&mut world.resource_mut::<Self>().0);
        let result = edit(world, Arc::make_mut(&mut registry));
        world.resource_mut::<Self>().0 = registry;
        result
    }
}

impl Registered {
    /// What every world saves: the marks of this crate and the components of Bevy that games expect to be saved.
    fn with_builtins(world: &mut World) -> Self {
        let mut registry = Self { world: Some(WorldNumber::new()), ..Self::default() };
        let added = [
            registry.add::<Saved>(world, Descriptor::adapted::<Saved, builtin::Mark>("bonfire.saved")),
            registry.add::<StableId>(world, Descriptor::of::<StableId>()),
            registry.add::<Disabled>(world, Descriptor::adapted::<Disabled, builtin::Mark>("bevy.disabled")),
        ];
        for number in added.into_iter().flatten() {
            registry.entries[number].incidental = true;
        }
        let mut ids = StableIds::default();
        let mut known = world.query_filtered::<(Entity, &StableId), Allow<Disabled>>();
        known.iter(world).for_each(|(entity, id)| ids.insert(*id, entity));
        world.insert_resource(ids);
        world.init_resource::<Carried>();
        world.init_resource::<OneByOne>();
        world.init_resource::<Arrivals>();
        builtin::register(world, &mut registry);
        registry
    }

    /// An empty registry of entities with another mark than [`Saved`].
    pub(crate) fn marked(mark: ComponentId) -> Self {
        Self { scope: SaveScope::Marked, other_mark: Some(mark), ..Self::default() }
    }

    /// Registers a component. `T` must be the descriptor's type.
    pub(crate) fn add<T: Component>(&mut self, world: &mut World, descriptor: Descriptor) -> Result<usize> {
        if T::relationship_accessor().is_some() {
            let name = std::any::type_name::<T>();
            return Err(Error::misuse(format!(
                "`{name}` is one side of a relationship: call `app.persist_relationship` with the side that has the \
                 `#[relationship]` field; Bevy makes the other side again"
            )));
        }
        self.add_any::<T>(world, descriptor, None)
    }

    /// Registers a relationship, at its source.
    pub(crate) fn add_relationship<R: Relationship>(
        &mut self,
        world: &mut World,
        descriptor: Descriptor,
    ) -> Result<usize> {
        // Bevy knows a relationship once it knows both sides.
        let targets = world.register_component::<R::RelationshipTarget>();
        let id = world.register_component::<R>();
        let accessor = world.components().get_info(id).and_then(|info| info.relationship_accessor().copied());
        let Some(RelationshipAccessor::Relationship { entity_field_offset: offset, .. }) = accessor else {
            let name = std::any::type_name::<R>();
            return Err(Error::misuse(format!(
                "Bevy does not know where the target lies in `{name}`: derive it"
            )));
        };
        self.add_any::<R>(
            world,
            descriptor,
            Some(Relation { offset, targets, reorder: reorder::<R>, release: release::<R> }),
        )
    }

    fn add_any<T: Component>(
        &mut self,
        world: &mut World,
        descriptor: Descriptor,
        relation: Option<Relation>,
    ) -> Result<usize> {
        if descriptor.type_id() != std::any::TypeId::of::<T>() {
            let (key, holds, given) = (descriptor.key(), descriptor.type_name(), std::any::type_name::<T>());
            return Err(Error::misuse(format!(
                "the descriptor of `{key}` is for `{holds}`, not for `{given}`"
            )));
        }
        let id = world.register_component::<T>();
        let number = self.registry.add(descriptor)?;
        if number == self.entries.len() {
            let entry =
                Entry { id, incidental: false, late: false, unseen: false, relation, load_resource: None };
            self.entries.push(entry);
            self.set_number(id, number);
        } else {
            // Registered again, by the game: now it is a reason to save an entity.
            self.entries[number].incidental = false;
        }
        Ok(number)
    }

    /// Takes over a component from another registry.
    pub(crate) fn add_from(&mut self, other: &Self, number: usize) -> Result<()> {
        let (entry, descriptor) = (&other.entries[number], &other.registry.descriptors()[number]);
        if self.number(entry.id).is_some() {
            return Ok(());
        }
        let number = self.registry.add(descriptor.clone())?;
        self.entries.push(entry.clone());
        self.set_number(entry.id, number);
        Ok(())
    }

    fn set_number(&mut self, id: ComponentId, number: usize) {
        let index = id.index();
        self.numbers.resize(self.numbers.len().max(index + 1), None);
        self.numbers[index] = Some(number as u32);
    }

    /// The component that makes an entity part of it.
    pub(crate) fn mark(&self, world: &World) -> Option<ComponentId> {
        self.other_mark.or_else(|| world.components().component_id::<Saved>())
    }

    /// The number of a component, if it is registered.
    pub(crate) fn number(&self, id: ComponentId) -> Option<usize> {
        self.numbers.get(id.index()).copied().flatten().map(|number| number as usize)
    }

    /// The number of a component type, or what to do.
    pub(crate) fn require<T: 'static>(&self) -> Result<usize> {
        self.registry.index_of::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Error::misuse(format!("`{name}` is not registered: call `app.persist::<{name}>()` first"))
        })
    }

    pub(crate) fn ignore(&mut self, id: ComponentId) {
        self.ignored.insert(id);
    }

    /// Components of saved entities that are not registered and not set aside.
    pub(crate) fn unregistered(&self, world: &World, components: &[ComponentId]) -> Vec<ComponentId> {
        let missing = |id: &ComponentId| {
            // Bevy's own components are made again by their owners: required components, relationship targets, caches.
            let info = world.components().get_info(*id);
            cfg!(feature = "debug")
                && self.other_mark.is_none()
                && self.number(*id).is_none()
                && !self.ignored.contains(id)
                && info.is_some_and(|info| {
                    info.relationship_accessor().is_none() && !info.name().to_string().starts_with("bevy_")
                })
        };
        components.iter().copied().filter(missing).collect()
    }

    /// Whether a component has not been named in the log before.
    pub(crate) fn is_news(&self, id: ComponentId) -> bool {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(id)
    }
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
