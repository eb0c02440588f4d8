//! Which entities a save is about.

use bevy_ecs::component::Component;
use bevy_ecs::entity::Entity;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::query::{Allow, QueryFilter};
#[cfg(feature = "reflect")]
use bevy_ecs::reflect::ReflectComponent;
use bevy_ecs::world::World;
#[cfg(feature = "reflect")]
use bevy_reflect::prelude::ReflectDefault;
use bonfire::{Error, Filter, Result};

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

/// Which entities are saved if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SaveScope {
    /// Those that have the component [`Saved`](crate::Saved).
    #[default]
    Marked,
    /// Those that have a component which the game registered. Bevy's own components, such as `Transform` and `Name`,
    /// are saved with them but are no reason to save an entity.
    Persisted,
}

/// A query filter: how to find what matches, and how to make its types known to a world.
#[derive(Clone)]
struct Matching {
    find: fn(&World) -> Option<EntitySet>,
    prepare: fn(&mut World),
}

/// A choice among the entities that would be saved.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::Selection;
/// use bonfire::Filter;
/// # #[derive(Component)] struct Player;
/// # #[derive(Component)] struct Ghost;
///
/// let by_key = Selection::new().filter(Filter::new().include("game.health").layers([0, 3])?);
/// let by_query = Selection::new().matching::<(With<Player>, Without<Ghost>)>();
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Selection {
    pub(crate) filter: Filter,
    matching: Vec<Matching>,
}

impl Selection {
    /// All of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only those that pass a filter by key and layer.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Only those that match a query filter of Bevy; may be repeated. Disabled entities are looked at like all others.
    pub fn matching<F: QueryFilter + 'static>(mut self) -> Self {
        let find = |world: &World| {
            let mut query = world.try_query_filtered::<Entity, (F, Allow<Disabled>)>()?;
            Some(query.iter(world).collect())
        };
        let prepare = |world: &mut World| {
            let _ = world.query_filtered::<Entity, (F, Allow<Disabled>)>();
        };
        self.matching.push(Matching { find, prepare });
        self
    }

    /// Whether nothing was chosen.
    pub(crate) fn is_everything(&self) -> bool {
        self.matching.is_empty() && self.filter.is_everything()
    }

    /// Makes the types of all query filters known to the world.
    pub(crate) fn prepare(&self, world: &mut World) {
        self.matching.iter().for_each(|matching| (matching.prepare)(world));
    }

    /// The entities that match all query filters, or `None` if there are none to match.
    pub(crate) fn matched(&self, world: &World) -> Result<Option<EntitySet>> {
        let mut matched: Option<EntitySet> = None;
        for matching in &self.matching {
            let found = (matching.find)(world).ok_or_else(|| {
                Error::misuse(
                    "a query filter names a component that the world has never seen: register it first",
                )
            })?;
            matched = Some(match matched {
                Some(known) => known.and(&found),
                None => found,
            });
        }
        Ok(matched)
    }
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
