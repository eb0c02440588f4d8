//! What a world saves: the core's registry, and what Bevy knows about each of its components.
//!
//! A component's number in the core's registry is its position here. The Rust type behind a [`ComponentId`] is the
//! descriptor's type: registration sees to it, and the unsafe parts of this crate rely on it.

mod relation;
mod typed;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bevy_ecs::component::{Component, ComponentId};
use bevy_ecs::relationship::{Relationship, RelationshipAccessor};
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::engine::{BufferPool, Carry, SaveScope, WorldNumber};
use bonfire::{Descriptor, Error, Registry, Result};

pub(crate) use self::relation::{Relation, RelationshipSources, live_target};
#[cfg(any(feature = "state", feature = "time"))]
pub(crate) use self::typed::load_resource_with;
pub(crate) use self::typed::{Layer, LoadResource};
use crate::selection::{Saved, Selection};

/// All that is registered in a world. Cheap to share; changed by registration only.
#[derive(Resource, Clone)]
pub(crate) struct SaveRegistry(pub(crate) Arc<ComponentRegistry>);

/// The core's registry, and the facts about each component that only Bevy knows.
#[derive(Clone)]
pub(crate) struct ComponentRegistry {
    /// Which world this is; none while it is being changed.
    pub(crate) world: Option<WorldNumber>,
    pub(crate) core: Registry,
    pub(crate) entries: Vec<ComponentEntry>,
    /// By [`ComponentId`], the number of the registered component.
    numbers: Vec<Option<u32>>,
    pub(crate) scope: SaveScope,
    /// The components of which one makes an entity part of it; none if that is [`Saved`].
    pub(crate) other_marks: Vec<ComponentId>,
    pub(crate) batches: Batches,
    pub(crate) layer: Option<Layer>,
    pub(crate) pool: BufferPool,
    /// Components that an [`Index`](crate::Index) follows by what is inserted.
    pub(crate) indexed: HashSet<ComponentId>,
    /// Entities with this component are saved apart: no save has them but one that lists them.
    pub(crate) apart: Option<ComponentId>,
    /// Components that are knowingly not saved.
    ignored: HashSet<ComponentId>,
    /// Omissions that the log already has.
    named: Arc<Mutex<HashSet<String>>>,
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

/// What Bevy adds to a descriptor.
#[derive(Clone)]
pub(crate) struct ComponentEntry {
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

/// What a load met and did not know, for the next save.
#[derive(Resource, Default)]
pub(crate) struct Carried(pub(crate) Carry);

/// How a load inserts the components of an entity.
#[derive(Resource, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum InsertMode {
    #[default]
    AllAtOnce,
    /// After a load that a panicking hook has ended. Bevy has then lost how the set of components that was being inserted is
    /// stored, for ever.
    OneByOne,
}

impl SaveRegistry {
    /// The registry of a world.
    pub(crate) fn of(world: &World) -> Result<Arc<ComponentRegistry>> {
        match world.get_resource::<Self>() {
            Some(registry) => Ok(Arc::clone(&registry.0)),
            None => Err(Error::misuse("nothing is registered in this world: add `BonfirePlugin` to the app")),
        }
    }
}

impl Default for ComponentRegistry {
    fn default() -> Self {
        Self {
            world: None,
            core: Registry::default(),
            entries: Vec::new(),
            numbers: Vec::new(),
            scope: SaveScope::Marked,
            other_marks: Vec::new(),
            batches: Batches::default(),
            layer: None,
            pool: BufferPool::default(),
            indexed: HashSet::new(),
            apart: None,
            ignored: HashSet::new(),
            named: Arc::default(),
        }
    }
}

impl ComponentRegistry {
    /// An empty registry of a world.
    pub(crate) fn new(world: WorldNumber) -> Self {
        Self { world: Some(world), ..Self::default() }
    }

    /// An empty registry of entities with another mark than [`Saved`].
    pub(crate) fn marked(mark: ComponentId) -> Self {
        Self { other_marks: vec![mark], ..Self::default() }
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
        self.add_any::<R>(world, descriptor, Some(Relation::of::<R>(offset, targets)))
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
        let number = self.core.add(descriptor)?;
        if number == self.entries.len() {
            let entry = ComponentEntry {
                id,
                incidental: false,
                late: false,
                unseen: false,
                relation,
                load_resource: None,
            };
            self.entries.push(entry);
            self.set_number(id, number);
        } else {
            // ComponentRegistry again, by the game: now it is a reason to save an entity.
            self.entries[number].incidental = false;
        }
        Ok(number)
    }

    /// Takes over a component from another registry.
    pub(crate) fn add_from(&mut self, other: &Self, number: usize) -> Result<()> {
        let (entry, descriptor) = (&other.entries[number], &other.core.descriptors()[number]);
        if self.number(entry.id).is_some() {
            return Ok(());
        }
        let number = self.core.add(descriptor.clone())?;
        self.entries.push(entry.clone());
        self.set_number(entry.id, number);
        Ok(())
    }

    fn set_number(&mut self, id: ComponentId, number: usize) {
        let index = id.index();
        self.numbers.resize(self.numbers.len().max(index + 1), None);
        self.numbers[index] = Some(number as u32);
    }

    /// The components of which one makes an entity part of it.
    pub(crate) fn marks(&self, world: &World) -> Vec<ComponentId> {
        match self.is_of_saves() {
            true => world.components().component_id::<Saved>().into_iter().collect(),
            false => self.other_marks.clone(),
        }
    }

    /// Returns true if its entities are those of saves, and not replicated or mirrored ones.
    pub(crate) fn is_of_saves(&self) -> bool {
        self.other_marks.is_empty()
    }

    /// The number of a component, if it is registered.
    pub(crate) fn number(&self, id: ComponentId) -> Option<usize> {
        self.numbers.get(id.index()).copied().flatten().map(|number| number as usize)
    }

    /// Returns true if the world has a resource and the selection asks for it.
    pub(crate) fn has_resource(&self, world: &World, selection: &Selection, number: usize) -> bool {
        world.contains_resource_by_id(self.entries[number].id)
            && selection.has_resource(self.core.descriptors()[number].key())
    }

    /// The number of a component type, or what to do.
    pub(crate) fn require<T: 'static>(&self) -> Result<usize> {
        self.core.index_of::<T>().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Error::misuse(format!("`{name}` is not registered: call `app.persist::<{name}>()` first"))
        })
    }

    pub(crate) fn ignore(&mut self, id: ComponentId) {
        self.ignored.insert(id);
    }

    /// Returns true if the component, or an entity that has it, is knowingly not saved.
    pub(crate) fn is_ignored(&self, id: ComponentId) -> bool {
        self.ignored.contains(&id)
    }

    /// Returns true if an omission has not been in the log before.
    pub(crate) fn is_news(&self, name: &str) -> bool {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned())
    }
}

/// Panics with the error of a registration: it is a mistake of the program, not of the player.
#[track_caller]
pub(crate) fn or_panic<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
