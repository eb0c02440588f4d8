//! The order of siblings.
//!
//! A relationship is saved at its source (`ChildOf`), and the target's list (`Children`) is made again from the sources
//! in the order in which they come. That is the order of rows. A list that has another order, or sources in several
//! archetypes, is saved beside them: the entry `bonfire.order`.

use std::collections::BTreeMap;

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{LIST_ORDER_KEY, SavedOrder, SnapshotWriter};
use bonfire::{DataEntry, EntityId, Result};

use super::{CaptureInput, ChosenArchetype, EarlierCapture, Rows, SavedEntities};
use crate::registry::{ComponentRegistry, RelationshipSources};
use crate::selection::EntityChoice;

/// The remark about sources that are not saved while their target is, of relationships whose target takes them along.
const NOT_SAVED: &str = "entities have it that are not part of the save, though its target is: a load that replaces the \
    target removes them. Spawn them with `Saved`, or the target with `SavedTree` if they are its children. \
    `app.persist_ignore::<T>()` says that entities with `T` are not saved on purpose";

/// The lists whose order must be saved. `since` is an earlier capture that has the same entities in the same places: if no
/// list has changed since, it has the right ones.
pub(super) fn saved(
    world: &World,
    input: CaptureInput<'_>,
    chosen: &[ChosenArchetype<'_>],
    since: Option<&EarlierCapture>,
    writer: &mut SnapshotWriter<'_>,
) -> Result<Option<DataEntry>> {
    let registry = &**input.registry;
    let has_unencodable = writer.has_unencodable();
    // Their own saves store the targets of these.
    let elsewhere = match input.options.common.outside_references {
        true => Some(SavedEntities::new(world, registry)?),
        false => None,
    };
    let is_lost = |source: Entity| {
        !elsewhere.as_ref().is_some_and(|saved| saved.contains(source))
            && !is_ignored(world, registry, source)
    };
    // Remarks are counted again.
    if let Some(since) = since.filter(|since| since.snapshot.notes().is_empty() && !has_unencodable)
        && !changed(world, registry, chosen, since)
    {
        return Ok(since.order.clone());
    }
    let mut order = SavedOrder::new();
    let mut saved: Option<SavedRows> = None;
    for (number, entry) in registry.entries.iter().enumerate() {
        let descriptor = &registry.core.descriptors()[number];
        let Some(relation) = entry.relation.filter(|_| !descriptor.is_transient()) else { continue };
        let Some(sources) = RelationshipSources::of(world, relation.targets) else { continue };
        let mut lists = BTreeMap::new();
        let mut not_saved = 0;
        for target in chosen.iter().filter(|chosen| chosen.archetype.contains(relation.targets)) {
            let saved = saved.get_or_insert_with(|| SavedRows::new(registry, chosen, has_unencodable));
            for &entity in target.rows.entities() {
                let (mut last, mut natural) = (None, true);
                sources.for_each(entity, |source| match saved.place(world, source) {
                    Some((archetype, row)) => {
                        natural &= last.is_none_or(|(before, last)| {
                            before == archetype && last < row && !saved.has_holes(archetype)
                        });
                        last = Some((archetype, row));
                    }
                    None => not_saved += usize::from(is_lost(source)),
                });
                if !natural {
                    let mut list: Vec<EntityId> = Vec::new();
                    let kept = |source: &Entity| saved.place(world, *source).is_some();
                    sources.for_each(entity, |source| {
                        list.extend(Some(source).filter(kept).map(EntityId::from));
                    });
                    lists.insert(entity.into(), list);
                }
            }
        }
        if not_saved > 0 && sources.linked && registry.is_of_saves() {
            writer.note(descriptor.key(), NOT_SAVED, not_saved);
        }
        if !lists.is_empty() {
            order.insert(descriptor.key().to_owned(), lists);
        }
    }
    (!order.is_empty()).then(|| DataEntry::new(LIST_ORDER_KEY, &order)).transpose()
}

/// Whether a list of sources may have changed.
fn changed(
    world: &World,
    registry: &ComponentRegistry,
    chosen: &[ChosenArchetype<'_>],
    since: &EarlierCapture,
) -> bool {
    let relations = registry.entries.iter().filter_map(|entry| entry.relation);
    { relations }.any(|relation| {
        chosen
            .iter()
            .filter(|chosen| chosen.archetype.contains(relation.targets))
            .any(|chosen| since.any_changed(world, chosen, relation.targets))
    })
}

/// Where saved entities lie: by archetype, if any of it is saved, which entities if not all are, and whether some of
/// their values may be left out. Engines that load may part such rows.
struct SavedRows(Vec<Option<(EntityChoice, bool)>>);

impl SavedRows {
    fn new(registry: &ComponentRegistry, chosen: &[ChosenArchetype<'_>], has_unencodable: bool) -> Self {
        let descriptors = registry.core.descriptors();
        let holes = |chosen: &ChosenArchetype<'_>| {
            has_unencodable || chosen.numbers(registry).any(|number| descriptors[number].may_leave_out())
        };
        let mut archetypes = Vec::new();
        for chosen in chosen {
            let index = chosen.archetype.id().index();
            archetypes.resize_with(archetypes.len().max(index + 1), || None);
            let picked = match &chosen.rows {
                Rows::Table(_) => EntityChoice::All,
                Rows::Picked { entities, .. } => EntityChoice::Some(entities.iter().copied().collect()),
            };
            archetypes[index] = Some((picked, holes(chosen)));
        }
        Self(archetypes)
    }

    fn has_holes(&self, archetype: ArchetypeId) -> bool {
        self.0.get(archetype.index()).and_then(Option::as_ref).is_some_and(|(_, holes)| *holes)
    }

    /// The archetype and the row of an entity, if it is saved.
    fn place(&self, world: &World, entity: Entity) -> Option<(ArchetypeId, u32)> {
        let place = world.entities().get_spawned(entity).ok()?;
        // Whole tables are written in the table's order, picked rows in the archetype's.
        let row = match &self.0.get(place.archetype_id.index())?.as_ref()?.0 {
            EntityChoice::All => place.table_row.index_u32(),
            EntityChoice::Some(picked) if picked.contains(entity) => place.archetype_row.index_u32(),
            EntityChoice::Some(_) => return None,
        };
        Some((place.archetype_id, row))
    }
}

/// Returns true if an entity is left out of saves on purpose.
fn is_ignored(world: &World, registry: &ComponentRegistry, entity: Entity) -> bool {
    world
        .get_entity(entity)
        .is_ok_and(|entity| entity.archetype().iter_components().any(|id| registry.is_ignored(id)))
}
