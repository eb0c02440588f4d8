//! Which entities a save is about: the scope, and a choice among the entities in it. Front ends share both, so that they have
//! the same names in every engine.

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

/// A choice among the entities that would be saved. `Query` is the front end's.
#[derive(Clone, Debug)]
pub struct Selection<Query> {
    /// Chooses by key and layer.
    pub filter: Filter,
    /// Entities must match all of these queries.
    pub queries: Vec<Query>,
}

impl<Query> Default for Selection<Query> {
    fn default() -> Self {
        Self { filter: Filter::default(), queries: Vec::new() }
    }
}

impl<Query> Selection<Query> {
    /// Selects all entities.
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

    /// Returns true if all entities are selected.
    pub fn is_everything(&self) -> bool {
        self.queries.is_empty() && self.filter.is_everything()
    }
}
