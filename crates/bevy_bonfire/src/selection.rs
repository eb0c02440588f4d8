//! Which entities a save is about.

use std::sync::Arc;

use bevy_ecs::archetype::{Archetype, ArchetypeEntity};
use bevy_ecs::component::Component;
use bevy_ecs::entity::{Entity, EntityHashSet};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::hierarchy::{ChildOf, Children};
use bevy_ecs::query::{Allow, QueryFilter};
#[cfg(feature = "reflect")]
use bevy_ecs::reflect::ReflectComponent;
use bevy_ecs::world::{EntityRef, World};
#[cfg(feature = "reflect")]
use bevy_reflect::prelude::ReflectDefault;
use bonfire::engine::{FromPredicate, FromQuery, Predicate};
use bonfire::{Error, Result};

/// Marks an entity as part of the save. Give it to entities when they are spawned, or to all that have some component:
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_bonfire::prelude::*;
/// #[derive(Component, Persist)]
/// #[require(Saved)] // every Health is part of the save
/// #[persist(key = "game.health")]
/// struct Health(f32);
/// ```
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "reflect", derive(bevy_reflect::Reflect), reflect(Component, Default, Debug))]
pub struct Saved;

/// Marks an entity and all of its descendants as part of the save, also those that it gets later.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// # use bevy_bonfire::prelude::*;
/// # let mut world = World::new();
/// # world.persist_ignore::<Name>();
/// world.spawn((SavedTree, Name::new("ship"), children![(Name::new("cannon"), children![Name::new("barrel")])]));
/// assert_eq!(world.capture(&SaveOptions::new())?.entity_count(), 3);
/// # Ok::<(), bevy_bonfire::Error>(())
/// ```
#[derive(Component, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "reflect", derive(bevy_reflect::Reflect), reflect(Component, Default, Debug))]
#[require(Saved)]
pub struct SavedTree;

/// Returns true if an entity descends from one with [`SavedTree`].
pub(crate) fn is_in_tree(world: &World, entity: Entity) -> bool {
    // A circle of parents has no root.
    let mut seen = EntityHashSet::default();
    let mut parent = world.get::<ChildOf>(entity);
    while let Some(ChildOf(ancestor)) = parent.filter(|parent| seen.insert(parent.0)) {
        if world.get::<SavedTree>(*ancestor).is_some() {
            return true;
        }
        parent = world.get::<ChildOf>(*ancestor);
    }
    false
}

/// All descendants of entities with [`SavedTree`]; `None` if there are no such entities.
pub(crate) fn descendants(world: &World) -> Option<EntitySet> {
    let mark = world.components().component_id::<SavedTree>()?;
    let trees = world.archetypes().iter().filter(|archetype| archetype.contains(mark));
    let mut open: Vec<Entity> = trees.flat_map(Archetype::entities).map(ArchetypeEntity::id).collect();
    if open.is_empty() {
        return None;
    }
    let mut found = EntitySet::default();
    while let Some(entity) = open.pop() {
        for &child in world.get::<Children>(entity).into_iter().flat_map(|children| children.iter()) {
            if !found.contains(child) {
                found.insert(child);
                open.push(child);
            }
        }
    }
    Some(found)
}

/// A choice among the entities that would be saved.
///
/// [`matching`](bonfire::engine::Selection::matching) takes a query filter of Bevy. Disabled entities are looked at like all
/// others.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::{Filter, Selection};
/// # #[derive(Component)] struct Player;
/// # #[derive(Component)] struct Ghost;
///
/// let by_key = Selection::new().filter(Filter::new().include("game.health").layers([0, 3])?);
/// let by_query = Selection::new().matching::<(With<Player>, Without<Ghost>)>();
/// let by_value = Selection::new().only(|entity| entity.get::<Name>().is_some_and(|name| name.starts_with("Boss")));
/// let by_list = Selection::new().entities([Entity::PLACEHOLDER]).resource("game.clock");
/// # Ok::<(), bevy_bonfire::Error>(())
/// ```
pub type Selection = bonfire::engine::Selection<EntityQuery>;

/// A query filter of Bevy, a list of entities, or a function that decides about each.
#[derive(Clone)]
pub struct EntityQuery {
    find: Arc<FindEntities>,
    prepare: fn(&mut World),
    /// The entities, if they are listed one by one.
    list: Option<Arc<[Entity]>>,
}

/// Finds the entities of a world that match; `None` if the world does not know a type of the query.
type FindEntities = dyn Fn(&World) -> Option<EntitySet> + Send + Sync;

impl<F: QueryFilter + 'static> FromQuery<F> for EntityQuery {
    fn from_query() -> Self {
        let find = |world: &World| {
            let mut query = world.try_query_filtered::<Entity, (F, Allow<Disabled>)>()?;
            Some(query.iter(world).collect())
        };
        let prepare = |world: &mut World| {
            let _ = world.query_filtered::<Entity, (F, Allow<Disabled>)>();
        };
        Self { find: Arc::new(find), prepare, list: None }
    }
}

/// Entities that do not exist any more match nothing.
impl FromIterator<Entity> for EntityQuery {
    fn from_iter<I: IntoIterator<Item = Entity>>(entities: I) -> Self {
        let list: Arc<[Entity]> = entities.into_iter().collect();
        let entities = list.clone();
        let find = move |world: &World| {
            let is_there = |entity: &Entity| world.entities().contains_spawned(*entity);
            Some(entities.iter().copied().filter(is_there).collect())
        };
        Self { find: Arc::new(find), prepare: |_| {}, list: Some(list) }
    }
}

impl FromPredicate for EntityQuery {
    type EntityRef<'w> = EntityRef<'w>;

    fn from_predicate(predicate: Predicate<Self>) -> Self {
        let find = move |world: &World| {
            let entities = world.archetypes().iter().flat_map(Archetype::entities);
            let refs = entities.filter_map(|entity| world.get_entity(entity.id()).ok());
            Some(refs.filter(|entity| predicate(*entity)).map(|entity| entity.id()).collect())
        };
        Self { find: Arc::new(find), prepare: |_| {}, list: None }
    }
}

/// The entities of a selection that is one list of entities. Looking at each of them is faster then than looking at all.
pub(crate) fn list_of(selection: &Selection) -> Option<&[Entity]> {
    match &*selection.queries {
        [EntityQuery { list: Some(list), .. }] => Some(list),
        _ => None,
    }
}

/// Returns true if a selection lists entities one by one.
pub(crate) fn has_list(selection: &Selection) -> bool {
    selection.queries.iter().any(|query| query.list.is_some())
}

/// Makes the types of all query filters of a selection known to the world.
pub(crate) fn prepare(selection: &Selection, world: &mut World) {
    selection.queries.iter().for_each(|query| (query.prepare)(world));
}

/// The entities that match all query filters of a selection, or `None` if it has none.
pub(crate) fn matched(selection: &Selection, world: &World) -> Result<Option<EntitySet>> {
    let mut matched: Option<EntitySet> = None;
    for query in &selection.queries {
        let found = (query.find)(world).ok_or_else(|| {
            Error::misuse("a query filter names a component that the world has never seen: register it first")
        })?;
        matched = Some(match matched {
            Some(known) => known.and(&found),
            None => found,
        });
    }
    Ok(matched)
}

/// Entities by index, one bit each.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntitySet(Vec<u64>);

impl EntitySet {
    pub(crate) fn insert(&mut self, entity: Entity) {
        let index = entity.index_u32() as usize;
        self.0.resize(self.0.len().max(index / 64 + 1), 0);
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn contains(&self, entity: Entity) -> bool {
        let index = entity.index_u32() as usize;
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn and(mut self, other: &Self) -> Self {
        self.0.truncate(other.0.len());
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
        self
    }
}

impl FromIterator<Entity> for EntitySet {
    fn from_iter<I: IntoIterator<Item = Entity>>(entities: I) -> Self {
        let mut set = Self::default();
        entities.into_iter().for_each(|entity| set.insert(entity));
        set
    }
}

/// All entities of an archetype, or some of them.
#[derive(Clone)]
pub(crate) enum EntityChoice {
    All,
    Some(EntitySet),
}

impl EntityChoice {
    pub(crate) fn contains(&self, entity: Entity) -> bool {
        match self {
            Self::All => true,
            Self::Some(entities) => entities.contains(entity),
        }
    }
}
