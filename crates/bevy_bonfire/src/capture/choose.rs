//! The entities that a save has, archetype by archetype.

use std::collections::BTreeMap;

use bevy_ecs::archetype::{Archetype, ArchetypeId};
use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::hierarchy::ChildOf;
use bevy_ecs::resource::IS_RESOURCE;
use bevy_ecs::world::World;
use bonfire::engine::{LAYER_COUNT, ResolvedFilter, SaveScope};
use bonfire::{Error, Result};

use super::column::Rows;
use crate::pending::Pending;
use crate::registry::{ComponentRegistry, Layer, SaveRegistry};
use crate::selection::{EntitySet, Selection, descendants, has_list, list_of, matched};
use crate::stable_id::StandIn;

/// An archetype with the rows that are saved; there is at least one.
pub(crate) struct ChosenArchetype<'w> {
    pub(crate) archetype: &'w Archetype,
    pub(crate) rows: Rows<'w>,
}

impl ChosenArchetype<'_> {
    /// The numbers of its registered components.
    pub(crate) fn numbers<'a>(&'a self, registry: &'a ComponentRegistry) -> impl Iterator<Item = usize> + 'a {
        self.archetype.iter_components().filter_map(|id| registry.number(id))
    }
}

/// The entities that a save with this selection would have.
pub(crate) fn selected(world: &World, selection: &Selection) -> Result<Vec<Entity>> {
    let registry = SaveRegistry::of(world)?;
    let chosen = choose(world, &registry, selection, &[])?;
    Ok(chosen.iter().flat_map(|chosen| chosen.rows.entities()).copied().collect())
}

/// Chooses among the entities of a world. Those with a component of `excluded` are left out.
pub(crate) fn choose<'w>(
    world: &'w World,
    registry: &ComponentRegistry,
    selection: &Selection,
    excluded: &[ComponentId],
) -> Result<Vec<ChosenArchetype<'w>>> {
    let apart = if has_list(selection) { Apart::Included } else { Apart::LeftOut };
    if let Some(list) = list_of(selection) {
        let mut unlisted = selection.clone();
        unlisted.queries.clear();
        return Chooser::new(world, registry, &unlisted, excluded, apart)?.listed(list);
    }
    let chooser = Chooser::new(world, registry, selection, excluded, apart)?;
    let mut chosen = Vec::new();
    for archetype in world.archetypes().iter() {
        let Some(reason) = chooser.accepts(archetype) else { continue };
        let rows = chooser.rows(archetype, reason)?;
        chosen.extend(rows.map(|rows| ChosenArchetype { archetype, rows }));
    }
    Ok(chosen)
}

/// The entities that saves without a selection have, asked for one by one.
pub(crate) struct SavedEntities<'w, 'a>(Chooser<'w, 'a>);

impl<'w, 'a> SavedEntities<'w, 'a> {
    pub(crate) fn new(world: &'w World, registry: &'a ComponentRegistry) -> Result<Self> {
        Chooser::new(world, registry, &Selection::new(), &[], Apart::Included).map(Self)
    }

    pub(crate) fn contains(&self, entity: Entity) -> bool {
        let Ok(found) = self.0.world.get_entity(entity) else { return false };
        match self.0.accepts(found.archetype()) {
            Some(Reason::Components) => true,
            Some(Reason::Ancestor) => self.0.descendants.as_ref().is_some_and(|set| set.contains(entity)),
            None => false,
        }
    }
}

/// The reason why entities of an archetype can be part of a save.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// Their own components.
    Components,
    /// An ancestor, which only some of them may have.
    Ancestor,
}

/// The treatment of entities that are saved apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Apart {
    Included,
    LeftOut,
}

struct Chooser<'w, 'a> {
    world: &'w World,
    registry: &'a ComponentRegistry,
    excluded: Vec<ComponentId>,
    filter: ResolvedFilter,
    layer: Option<&'a Layer>,
    /// The entities that match all queries, if there are queries.
    matched: Option<EntitySet>,
    /// One of these makes entities part of the save.
    marks: Vec<ComponentId>,
    /// The entities that an ancestor makes part of the save, if there are such ancestors.
    descendants: Option<EntitySet>,
    child_of: Option<ComponentId>,
    /// Marks of entities that are not part of the world.
    absent: [Option<ComponentId>; 3],
}

impl<'w, 'a> Chooser<'w, 'a> {
    fn new(
        world: &'w World,
        registry: &'a ComponentRegistry,
        selection: &Selection,
        excluded: &[ComponentId],
        apart: Apart,
    ) -> Result<Self> {
        let filter = selection.filter.resolve(&registry.core, &[])?;
        let layer = registry.layer.as_ref().filter(|_| filter.has_layers());
        if filter.has_layers() && layer.is_none() {
            return Err(Error::misuse(
                "the filter names layers, but no component has them: call `app.save_layer` first",
            ));
        }
        // A component that the world does not know is on no entity.
        let named = selection.excluded.iter().filter_map(|&id| world.components().get_id(id));
        Ok(Self {
            world,
            registry,
            excluded: named.chain(excluded.iter().copied()).collect(),
            filter,
            layer,
            matched: matched(selection, world)?,
            marks: registry.marks(world),
            descendants: descendants(world).filter(|_| registry.is_of_saves()),
            child_of: world.components().component_id::<ChildOf>(),
            absent: [
                world.components().component_id::<Pending>(),
                world.components().component_id::<StandIn>(),
                registry.apart.filter(|_| apart == Apart::LeftOut),
            ],
        })
    }

    /// Returns the reason why entities of this archetype can be part of the save, if there is one.
    fn accepts(&self, archetype: &Archetype) -> Option<Reason> {
        if archetype.is_empty()
            || archetype.contains(IS_RESOURCE)
            || self.absent.iter().flatten().any(|&absent| archetype.contains(absent))
        {
            return None;
        }
        let entries = &self.registry.entries;
        let is_marked = self.marks.iter().any(|&mark| archetype.contains(mark));
        let is_persisted = |id| self.registry.number(id).is_some_and(|number| !entries[number].incidental);
        let in_scope = match self.registry.scope {
            SaveScope::Marked => is_marked,
            SaveScope::Persisted => is_marked || archetype.iter_components().any(is_persisted),
        };
        let has_parent = || self.child_of.is_some_and(|child_of| archetype.contains(child_of));
        let reason = match in_scope {
            true => Reason::Components,
            false if self.descendants.is_some() && has_parent() => Reason::Ancestor,
            false => return None,
        };
        let is_chosen = self.filter.accepts(|number| archetype.contains(entries[number].id))
            && !self.excluded.iter().any(|&id| archetype.contains(id));
        is_chosen.then_some(reason)
    }

    /// The rows of an archetype that are saved, if there are any.
    fn rows(&self, archetype: &Archetype, reason: Reason) -> Result<Option<Rows<'w>>> {
        let Some(table) = self.world.storages().tables.get(archetype.table_id()) else { return Ok(None) };
        let layer = self.layer.filter(|layer| archetype.contains(layer.id));
        let owns_table = archetype.len() as usize == table.entities().len();
        let descendants = self.descendants.as_ref().filter(|_| reason == Reason::Ancestor);
        if owns_table && self.matched.is_none() && layer.is_none() && descendants.is_none() {
            return Ok(Some(Rows::Table(table)));
        }
        let (mut entities, mut rows) = (Vec::new(), Vec::new());
        for row in archetype.entities() {
            let entity = row.id();
            let sets = [self.matched.as_ref(), descendants];
            if sets.into_iter().flatten().any(|set| !set.contains(entity)) {
                continue;
            }
            if let Some(layer) = layer
                && !self.is_on_layer(entity, layer)?
            {
                continue;
            }
            entities.push(entity);
            rows.push(row.table_row().index_u32());
        }
        if owns_table && entities.len() == table.entities().len() {
            return Ok(Some(Rows::Table(table)));
        }
        Ok((!entities.is_empty()).then_some(Rows::Picked { table, entities, rows }))
    }

    /// Chooses among the entities of a list, at a cost that depends on the list alone.
    fn listed(&self, list: &[Entity]) -> Result<Vec<ChosenArchetype<'w>>> {
        let mut places: BTreeMap<ArchetypeId, Vec<(u32, u32, Entity)>> = BTreeMap::new();
        for &entity in list {
            if let Ok(at) = self.world.entities().get_spawned(entity) {
                let rows = (at.archetype_row.index_u32(), at.table_row.index_u32(), entity);
                places.entry(at.archetype_id).or_default().push(rows);
            }
        }
        let mut chosen = Vec::new();
        for (id, mut places) in places {
            let Some(archetype) = self.world.archetypes().get(id) else { continue };
            let Some(reason) = self.accepts(archetype) else { continue };
            let Some(table) = self.world.storages().tables.get(archetype.table_id()) else { continue };
            let layer = self.layer.filter(|layer| archetype.contains(layer.id));
            let descendants = self.descendants.as_ref().filter(|_| reason == Reason::Ancestor);
            // In the order of the archetype, and each once.
            places.sort_unstable();
            places.dedup();
            let (mut entities, mut rows) =
                (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
            for (_, row, entity) in places {
                if descendants.is_some_and(|set| !set.contains(entity)) {
                    continue;
                }
                if let Some(layer) = layer
                    && !self.is_on_layer(entity, layer)?
                {
                    continue;
                }
                entities.push(entity);
                rows.push(row);
            }
            let owns_table = archetype.len() as usize == table.entities().len();
            if owns_table && entities.len() == table.entities().len() {
                chosen.push(ChosenArchetype { archetype, rows: Rows::Table(table) });
            } else if !entities.is_empty() {
                chosen.push(ChosenArchetype { archetype, rows: Rows::Picked { table, entities, rows } });
            }
        }
        Ok(chosen)
    }

    fn is_on_layer(&self, entity: Entity, layer: &Layer) -> Result<bool> {
        let Ok(value) = self.world.entity(entity).get_by_id(layer.id) else { return Ok(true) };
        let number = (layer.read)(value);
        if number >= LAYER_COUNT {
            return Err(Error::misuse(format!(
                "entity {entity} is on layer {number}, layers go from 0 to {}",
                LAYER_COUNT - 1
            )));
        }
        Ok(self.filter.accepts_layer(Some(number)))
    }
}
