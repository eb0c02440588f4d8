//! Remarks about what a capture leaves out without being asked to. The log has each once in the life of a world, with the
//! line to add. Every capture has all of them in its notes.
//!
//! | left out | why |
//! |---|---|
//! | a component of saved entities | it is not registered |
//! | a relationship of saved entities | it is not registered |
//! | entities with persisted components | they lack the mark of saved entities |
//!
//! Children of saved entities that lack the mark are found by `order`, which goes through all lists of children. Entities with a component of `persist_ignore` are left out on purpose, and so are those that a selection leaves out.

use std::collections::{BTreeMap, HashMap};

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::component::{ComponentId, ComponentInfo};
use bevy_ecs::relationship::RelationshipAccessor;
use bevy_ecs::resource::IS_RESOURCE;
use bevy_ecs::world::World;
use bonfire::Note;
use bonfire::engine::{SaveScope, SnapshotWriter};

use super::{CaptureInput, ChosenArchetype, engine_types};
use crate::pending::Pending;
use crate::registry::ComponentRegistry;

/// Adds the remarks to the notes of a capture.
pub(super) fn remark(
    world: &World,
    input: CaptureInput<'_>,
    chosen: &[ChosenArchetype<'_>],
    writer: &mut SnapshotWriter<'_>,
) {
    let registry = input.registry;
    if !registry.is_of_saves() {
        return;
    }
    let mut omitted: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (id, count) in unregistered(world, registry, chosen) {
        if let Some(info) = world.components().get_info(id) {
            omitted.insert((info.name().to_string(), line_to_add(info)), count);
        }
    }
    if registry.scope == SaveScope::Marked && input.options.selection.is_everything() {
        for (number, count) in unmarked(world, input, chosen) {
            let name = registry.core.descriptors()[number].type_name();
            omitted.insert((name.to_owned(), unmarked_line(name)), count);
        }
    }
    for ((name, line), count) in omitted {
        writer.note(&name, line, count);
    }
}

/// Logs the notes of a capture, each component or type once in the life of a world.
pub(crate) fn log_once(registry: &ComponentRegistry, notes: &[Note]) {
    for note in notes.iter().filter(|note| registry.is_news(&note.key)) {
        log::warn!("{note}");
    }
}

/// The components of saved entities that are not registered, and how many entities have them.
fn unregistered(
    world: &World,
    registry: &ComponentRegistry,
    chosen: &[ChosenArchetype<'_>],
) -> BTreeMap<ComponentId, usize> {
    let mut counts = BTreeMap::new();
    if !cfg!(feature = "debug") {
        // Components have no names then.
        return counts;
    }
    for chosen in chosen {
        let components = chosen.archetype.components().iter().copied();
        for id in components.filter(|&id| registry.number(id).is_none() && !registry.is_ignored(id)) {
            let info = world.components().get_info(id);
            if info.is_some_and(|info| !is_made_again(info)) {
                *counts.entry(id).or_default() += chosen.rows.len();
            }
        }
    }
    counts
}

/// Returns true if Bevy makes the component again by itself: lists of sources, required components, caches.
fn is_made_again(info: &ComponentInfo) -> bool {
    let is_list =
        matches!(info.relationship_accessor(), Some(RelationshipAccessor::RelationshipTarget { .. }));
    is_list || engine_types::is_made_again(&info.name().to_string())
}

fn line_to_add(info: &ComponentInfo) -> String {
    let name = info.name();
    if info.relationship_accessor().is_some() {
        return format!(
            "saved entities have this relationship, but it is not registered, so it is not saved: add \
             `app.persist_relationship::<{name}>()`, or `app.persist_ignore::<{name}>()` if that is meant"
        );
    }
    format!(
        "saved entities have it, but it is not registered, so it is not saved: add `app.persist::<{name}>()`, for a type of \
         another crate `app.persist_reflect::<{name}>(\"a.key\")`, or `app.persist_ignore::<{name}>()` if that is meant"
    )
}

fn unmarked_line(name: &str) -> String {
    format!(
        "entities have it that are not part of the save, because they lack `Saved`: add `#[require(Saved)]` to `{name}`, \
         or spawn them with `Saved`. `app.persist_ignore::<T>()` says that entities with `T` are not saved on purpose"
    )
}

/// The components that are persisted and on entities outside of a save of everything, and how many of these have them.
fn unmarked(
    world: &World,
    input: CaptureInput<'_>,
    chosen: &[ChosenArchetype<'_>],
) -> BTreeMap<usize, usize> {
    let CaptureInput { registry, added, .. } = input;
    let saved: HashMap<ArchetypeId, usize> =
        chosen.iter().map(|chosen| (chosen.archetype.id(), chosen.rows.len())).collect();
    let pending = world.components().component_id::<Pending>();
    let is_meant = |id: ComponentId| {
        id == IS_RESOURCE || Some(id) == pending || registry.is_ignored(id) || added.excluded.contains(&id)
    };
    let mut counts = BTreeMap::new();
    for archetype in world.archetypes().iter() {
        let count = archetype.len() as usize - saved.get(&archetype.id()).copied().unwrap_or_default();
        if count == 0 || archetype.iter_components().any(is_meant) {
            continue;
        }
        let numbers = archetype.iter_components().filter_map(|id| registry.number(id));
        for number in numbers.filter(|&number| !registry.entries[number].incidental) {
            *counts.entry(number).or_default() += count;
        }
    }
    counts
}
