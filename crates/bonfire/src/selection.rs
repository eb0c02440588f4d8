//! Which entities a save is about: the scope, and a choice among the entities in it. Front ends share both, so that they have
//! the same names in every engine.

use std::any::TypeId;
use std::sync::Arc;

use crate::filter::Filter;

/// The entities that are saved if nothing else is chosen. Each front end documents its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveScope {
    /// Entities that have the front end's component `Saved`.
    Marked,
    /// Entities that have a component which the game registered, or the component `Saved`. Components that the front end
    /// registers by itself, such as Bevy's `Transform`, are saved with them but are no reason to save an entity.
    Persisted,
}

/// A query of an engine, made from the type `F` by which a game names it.
#[diagnostic::on_unimplemented(message = "`{F}` is not a query by which this engine can choose entities")]
pub trait FromQuery<F> {
    /// Makes the query.
    fn from_query() -> Self;
}

/// A query of an engine that can ask a function of the game.
pub trait FromPredicate {
    /// The engine's view of an entity.
    type EntityRef<'w>;

    /// Makes the query.
    fn from_predicate(predicate: Predicate<Self>) -> Self;
}

/// A function of the game that decides about each entity.
pub type Predicate<Query> =
    Arc<dyn for<'w> Fn(<Query as FromPredicate>::EntityRef<'w>) -> bool + Send + Sync>;

/// A choice among the entities that would be saved. `Query` is the front end's.
///
/// A selection that names what it wants (components, queries, entities) has no resources, unless it
/// [asks](Self::resource) for them. One that only leaves entities out has all resources.
#[derive(Clone, Debug)]
pub struct Selection<Query> {
    /// Chooses by key and layer.
    pub filter: Filter,
    /// Entities must match all of these queries.
    pub queries: Vec<Query>,
    /// Entities must have none of these components.
    pub excluded: Vec<TypeId>,
    resources: Resources,
}

/// The resources of a selection.
#[derive(Clone, Debug, Default)]
enum Resources {
    /// All, unless the selection names what it wants.
    #[default]
    Implied,
    All,
    /// Those with these keys.
    Keys(Vec<String>),
}

impl<Query> Default for Selection<Query> {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            queries: Vec::new(),
            excluded: Vec::new(),
            resources: Resources::Implied,
        }
    }
}

impl<Query> Selection<Query> {
    /// Selects all entities and resources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects only entities that pass a filter by key and layer.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Selects only entities that match a query of the engine; may be repeated.
    pub fn matching<F>(mut self) -> Self
    where
        Query: FromQuery<F>,
    {
        self.queries.push(Query::from_query());
        self
    }

    /// Leaves out entities that have this component, registered or not; may be repeated.
    pub fn exclude<C: 'static>(mut self) -> Self {
        self.excluded.push(TypeId::of::<C>());
        self
    }

    /// Selects only these entities, as far as they would be saved.
    pub fn entities<Entity>(mut self, entities: impl IntoIterator<Item = Entity>) -> Self
    where
        Query: FromIterator<Entity>,
    {
        self.queries.push(entities.into_iter().collect());
        self
    }

    /// Selects only entities for which the predicate returns true; may be repeated.
    pub fn only(
        mut self,
        predicate: impl for<'w> Fn(Query::EntityRef<'w>) -> bool + Send + Sync + 'static,
    ) -> Self
    where
        Query: FromPredicate,
    {
        self.queries.push(Query::from_predicate(Arc::new(predicate)));
        self
    }

    /// Adds the resource with this key; may be repeated. Other resources are not part of the selection.
    pub fn resource(mut self, key: impl Into<String>) -> Self {
        match &mut self.resources {
            Resources::Keys(keys) => keys.push(key.into()),
            other => *other = Resources::Keys(vec![key.into()]),
        }
        self
    }

    /// Adds all resources.
    pub fn all_resources(mut self) -> Self {
        self.resources = Resources::All;
        self
    }

    /// Returns true if the resource with this key is part of the selection. The filter can exclude it.
    pub fn has_resource(&self, key: &str) -> bool {
        let asked = match &self.resources {
            Resources::Implied => self.queries.is_empty() && !self.filter.names_components(),
            Resources::All => true,
            Resources::Keys(keys) => keys.iter().any(|known| known == key),
        };
        asked && !self.filter.excludes(key)
    }

    /// Returns true if all entities and resources are selected.
    pub fn is_everything(&self) -> bool {
        self.queries.is_empty()
            && self.excluded.is_empty()
            && self.filter.is_everything()
            && !matches!(self.resources, Resources::Keys(_))
    }
}
