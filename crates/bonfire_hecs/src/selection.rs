//! Which entities a save is about.

use bonfire::{Error, Filter, LAYERS, Result};
use hecs::{Archetype, Query, World};

use crate::Saved;
use crate::registry::Bonfire;

/// Which entities are saved if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SaveScope {
    /// Those that have a registered component. A hecs world holds what the game spawned and nothing else.
    #[default]
    Persisted,
    /// Those that have the component [`Saved`].
    Marked,
}

/// A choice among the entities that would be saved.
///
/// ```
/// use bonfire_hecs::{Filter, Selection};
/// use hecs::Without;
/// # struct Player; struct Ghost;
///
/// let by_key = Selection::new().filter(Filter::new().include("game.health").layers([0, 3])?);
/// let by_query = Selection::new().matching::<Without<&Player, &Ghost>>();
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Selection {
    filter: Filter,
    matching: Vec<fn(&Archetype) -> bool>,
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

    /// Only those that a query of hecs would find; may be repeated.
    pub fn matching<Q: Query>(mut self) -> Self {
        self.matching.push(Archetype::satisfies::<Q>);
        self
    }
}

/// An archetype with the rows that are saved; there is at least one.
pub(crate) struct Chosen<'w> {
    pub(crate) archetype: &'w Archetype,
    /// Some of its rows, or all.
    pub(crate) rows: Option<Vec<u32>>,
    /// The numbers of its registered components.
    pub(crate) numbers: Vec<usize>,
}

impl Chosen<'_> {
    pub(crate) fn len(&self) -> usize {
        self.rows.as_ref().map_or(self.archetype.len() as usize, Vec::len)
    }

    /// The row of the archetype.
    pub(crate) fn row(&self, row: usize) -> usize {
        self.rows.as_ref().map_or(row, |rows| rows[row] as usize)
    }
}

pub(crate) fn choose<'w>(
    bonfire: &Bonfire,
    world: &'w World,
    selection: &Selection,
    excluded: &[usize],
) -> Result<Vec<Chosen<'w>>> {
    let filter = selection.filter.resolve(&bonfire.registry, excluded)?;
    let layer = bonfire.layer.as_ref().filter(|_| filter.has_layers());
    if filter.has_layers() && layer.is_none() {
        return Err(Error::misuse(
            "the filter names layers, but no component has them: call `save_layer` first",
        ));
    }
    let mut chosen = Vec::new();
    for archetype in world.archetypes().filter(|archetype| !archetype.is_empty()) {
        let numbers: Vec<usize> =
            archetype.component_types().filter_map(|id| bonfire.registry.index_of_type(id)).collect();
        let in_scope = match bonfire.scope {
            SaveScope::Marked => archetype.has::<Saved>(),
            SaveScope::Persisted => {
                archetype.has::<Saved>() || numbers.iter().any(|&number| !bonfire.entries[number].incidental)
            }
        };
        let matches = || selection.matching.iter().all(|matches| matches(archetype));
        if !in_scope || !filter.accepts(|number| numbers.contains(&number)) || !matches() {
            continue;
        }
        let mut rows = None;
        if let Some(layers) = layer.and_then(|layer| layer(archetype)) {
            if let Some(number) = layers.iter().find(|&&number| number >= LAYERS) {
                let last = LAYERS - 1;
                return Err(Error::misuse(format!(
                    "an entity is on layer {number}, layers go from 0 to {last}"
                )));
            }
            let picked: Vec<u32> = (0..archetype.len())
                .filter(|&row| filter.accepts_layer(Some(layers[row as usize])))
                .collect();
            if picked.is_empty() {
                continue;
            }
            rows = (picked.len() < layers.len()).then_some(picked);
        }
        chosen.push(Chosen { archetype, rows, numbers });
    }
    Ok(chosen)
}
