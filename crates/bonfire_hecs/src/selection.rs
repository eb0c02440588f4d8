//! Which entities a save is about.

use std::any::TypeId;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use bonfire::engine::{FromPredicate, FromQuery, LAYER_COUNT, Predicate, ResolvedFilter};
use bonfire::{Error, Result};
use hecs::{Archetype, Batch, Entity, EntityRef, Query, QueryBorrow, World};

use crate::registry::{ComponentRegistry, Layer};
use crate::stable_id::StandIn;

/// A choice among the entities that would be saved. [`matching`](bonfire::engine::Selection::matching) takes a query of hecs.
///
/// ```
/// use bonfire_hecs::{Filter, Selection};
/// use hecs::Without;
/// # struct Player; struct Ghost;
///
/// let by_key = Selection::new().filter(Filter::new().include("game.health").layers([0, 3])?);
/// let by_query = Selection::new().matching::<Without<&Player, &Ghost>>();
/// let by_value = Selection::new().only(|entity| entity.get::<&String>().is_some_and(|name| name.starts_with("Boss")));
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
pub type Selection = bonfire::engine::Selection<ArchetypeQuery>;

/// A query of hecs, a list of entities, or a function that decides about each.
#[derive(Clone)]
pub struct ArchetypeQuery(QueryKind);

#[derive(Clone)]
enum QueryKind {
    /// Decides about all entities of an archetype.
    Archetype(fn(&Archetype) -> bool),
    /// Finds the indexes of entities.
    Entities(Arc<FindEntities>),
}

/// Finds the indexes of the entities of a world that match.
type FindEntities = dyn Fn(&World) -> HashSet<u32> + Send + Sync;

impl<Q: Query> FromQuery<Q> for ArchetypeQuery {
    fn from_query() -> Self {
        Self(QueryKind::Archetype(Archetype::satisfies::<Q>))
    }
}

/// Entities that do not exist any more match nothing.
impl FromIterator<Entity> for ArchetypeQuery {
    fn from_iter<I: IntoIterator<Item = Entity>>(entities: I) -> Self {
        let entities: Vec<Entity> = entities.into_iter().collect();
        Self(QueryKind::Entities(Arc::new(move |world| {
            let alive = entities.iter().filter(|&&entity| world.contains(entity));
            alive.map(|entity| entity.id()).collect()
        })))
    }
}

impl FromPredicate for ArchetypeQuery {
    type EntityRef<'w> = EntityRef<'w>;

    fn from_predicate(predicate: Predicate<Self>) -> Self {
        Self(QueryKind::Entities(Arc::new(move |world| {
            world.iter().filter(|entity| predicate(*entity)).map(|entity| entity.entity().id()).collect()
        })))
    }
}

/// An archetype, and the rows of it that are meant.
pub(crate) struct ChosenArchetype<'w> {
    pub(crate) archetype: &'w Archetype,
    /// Its number in the world.
    pub(crate) index: usize,
    /// Some of its rows, or all.
    pub(crate) rows: Option<Vec<u32>>,
    /// The numbers of its registered components.
    pub(crate) numbers: Vec<usize>,
    /// Its entities, until somebody goes through them. A query is the fastest way to learn their generations, but it goes
    /// through an archetype only once.
    pub(crate) batch: Cell<Option<Batch<'w, Entity>>>,
}

impl ChosenArchetype<'_> {
    pub(crate) fn len(&self) -> usize {
        self.rows.as_ref().map_or(self.archetype.len() as usize, Vec::len)
    }

    /// The row of the archetype.
    pub(crate) fn row(&self, row: usize) -> usize {
        self.rows.as_ref().map_or(row, |rows| rows[row] as usize)
    }
}

/// All archetypes of a world that have entities; `all` is a query for all of them.
pub(crate) fn archetypes<'w>(
    registry: &ComponentRegistry,
    world: &'w World,
    all: &'w mut QueryBorrow<'_, Entity>,
) -> impl Iterator<Item = ChosenArchetype<'w>> {
    let archetypes = world.archetypes().enumerate().filter(|(_, archetype)| !archetype.is_empty());
    archetypes.zip(all.iter_batched(u32::MAX)).map(|((index, archetype), batch)| {
        let numbers = archetype.component_types().filter_map(|id| registry.core.index_of_type(id)).collect();
        ChosenArchetype { archetype, index, rows: None, numbers, batch: Cell::new(Some(batch)) }
    })
}

/// What a save would have of an archetype.
pub(crate) enum ArchetypeChoice {
    Nothing,
    All,
    /// These rows, in ascending order.
    Some(Vec<u32>),
}

/// Components whose entities are left out, beside those that a selection names.
#[derive(Clone, Copy, Default)]
pub(crate) struct Exclusions<'a> {
    /// The numbers of registered ones.
    pub(crate) numbers: &'a [usize],
    pub(crate) types: &'a [TypeId],
}

/// A selection that is applied to one archetype after the other.
pub(crate) struct Chooser<'a> {
    registry: &'a ComponentRegistry,
    selection: &'a Selection,
    filter: ResolvedFilter,
    excluded: Vec<TypeId>,
    layer: Option<&'a Layer>,
    /// The indexes of entities that each query by entity has found.
    found: Vec<HashSet<u32>>,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(
        registry: &'a ComponentRegistry,
        world: &World,
        selection: &'a Selection,
        excluded: Exclusions<'_>,
    ) -> Result<Self> {
        let filter = selection.filter.resolve(&registry.core, excluded.numbers)?;
        let layer = registry.layer.as_ref().filter(|_| filter.has_layers());
        if filter.has_layers() && layer.is_none() {
            return Err(Error::misuse(
                "the filter names layers, but no component has them: call `save_layer` first",
            ));
        }
        let found = selection.queries.iter().filter_map(|query| match &query.0 {
            QueryKind::Archetype(_) => None,
            QueryKind::Entities(find) => Some(find(world)),
        });
        let excluded = selection.excluded.iter().chain(excluded.types).copied().collect();
        Ok(Self { registry, selection, filter, excluded, layer, found: found.collect() })
    }

    pub(crate) fn choose(&self, candidate: &ChosenArchetype<'_>) -> Result<ArchetypeChoice> {
        let ChosenArchetype { archetype, numbers, .. } = candidate;
        let in_scope = (self.registry.has_mark)(archetype)
            || numbers.iter().any(|&number| self.registry.is_reason(number));
        let matches = |query: &ArchetypeQuery| match query.0 {
            QueryKind::Archetype(matches) => matches(archetype),
            QueryKind::Entities(_) => true,
        };
        if !in_scope
            || StandIn::is_in(archetype)
            || !self.filter.accepts(|number| numbers.contains(&number))
            || self.excluded.iter().any(|&excluded| archetype.has_dynamic(excluded))
            || !self.selection.queries.iter().all(matches)
        {
            return Ok(ArchetypeChoice::Nothing);
        }
        let layers = self.layer.and_then(|layer| layer(archetype));
        if layers.is_none() && self.found.is_empty() {
            return Ok(ArchetypeChoice::All);
        }
        if let Some(number) = layers.iter().flatten().find(|&&number| number >= LAYER_COUNT) {
            let last = LAYER_COUNT - 1;
            return Err(Error::misuse(format!("an entity is on layer {number}, layers go from 0 to {last}")));
        }
        let layer = |row: u32| layers.as_ref().map(|layers| layers[row as usize]);
        let is_found =
            |row: u32| self.found.iter().all(|found| found.contains(&archetype.ids()[row as usize]));
        let is_chosen = |&row: &u32| self.filter.accepts_layer(layer(row)) && is_found(row);
        let picked: Vec<u32> = (0..archetype.len()).filter(is_chosen).collect();
        Ok(match picked.len() {
            0 => ArchetypeChoice::Nothing,
            all if all == archetype.len() as usize => ArchetypeChoice::All,
            _ => ArchetypeChoice::Some(picked),
        })
    }
}

/// Chooses among the entities of a world; `all` is a query for all of them.
pub(crate) fn choose<'w>(
    registry: &ComponentRegistry,
    world: &'w World,
    all: &'w mut QueryBorrow<'_, Entity>,
    selection: &Selection,
    excluded: Exclusions<'_>,
) -> Result<Vec<ChosenArchetype<'w>>> {
    let chooser = Chooser::new(registry, world, selection, excluded)?;
    let mut chosen = Vec::new();
    for candidate in archetypes(registry, world, all) {
        match chooser.choose(&candidate)? {
            ArchetypeChoice::Nothing => {}
            ArchetypeChoice::All => chosen.push(candidate),
            ArchetypeChoice::Some(rows) => {
                chosen.push(ChosenArchetype { rows: Some(rows), batch: Cell::new(None), ..candidate });
            }
        }
    }
    Ok(chosen)
}
