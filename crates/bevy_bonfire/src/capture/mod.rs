//! World to snapshot, from `&World`.
//!
//! Archetypes are walked once. One that shares its table with no other is copied column by column; the others, and
//! those of which only some rows are chosen, by picking rows.

mod changes;
pub(crate) mod column;
mod delta;
mod incremental;
mod order;

use std::collections::BTreeSet;

use bevy_ecs::archetype::{Archetype, ArchetypeId};
use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::resource::IS_RESOURCE;
use bevy_ecs::world::World;
use bonfire::engine::{DirtyRows, LAYER_COUNT, RESERVED_PREFIX, ResolvedFilter, SnapshotWriter};
use bonfire::inspect::ColumnKind;
use bonfire::{Compression, DataEntry, EncodeOptions, Error, Persist, Result, Snapshot, Value};

use bonfire_store::Details;

pub(crate) use self::changes::{Since, TickRange};
pub(crate) use self::column::{Rows, Sources};
pub use self::delta::{DeltaCapture, UnseenChange};
pub use self::incremental::IncrementalCapture;
use crate::event::Additions;
use crate::load::Arriving;
use crate::registry::{Carried, Registered, SaveRegistry};
use crate::{SaveScope, Selection};

/// How a world is saved. The default saves everything that is registered, uncompressed.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::SaveOptions;
/// # #[derive(Component)] struct Player;
///
/// let options = SaveOptions::new()
///     .matching::<With<Player>>()
///     .metadata("name", "Before the dragon")
///     .data("game.seed", &42_u64)?;
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct SaveOptions {
    pub(crate) selection: Selection,
    pub(crate) data: Vec<DataEntry>,
    pub(crate) metadata: Vec<(String, Value)>,
    /// None: as the slots do, or uncompressed.
    pub(crate) encode: Option<EncodeOptions>,
    pub(crate) details: Details,
    pub(crate) checksums: bool,
}

impl SaveOptions {
    /// Everything that is registered, uncompressed.
    pub fn new() -> Self {
        Self::default()
    }
    /// Chooses among the entities.
    pub fn selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }
    /// Chooses by key and layer: see [`Selection::filter`].
    pub fn filter(mut self, filter: bonfire::Filter) -> Self {
        self.selection = self.selection.filter(filter);
        self
    }
    /// Chooses by a query filter: see [`Selection::matching`].
    pub fn matching<F: bevy_ecs::query::QueryFilter + 'static>(mut self) -> Self {
        self.selection = self.selection.matching::<F>();
        self
    }
    /// Adds data of the game's own, kept in the order of the calls. Use keys with the owner in front: `"game.seed"`.
    pub fn data<T: Persist>(mut self, key: &str, value: &T) -> Result<Self> {
        self.data.push(data_entry(key, value)?);
        Ok(self)
    }
    /// Says something about the save that can be read without the rest, such as its name.
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }
    /// What a menu shows of the save, if it goes into a slot: label, play time, thumbnail. Observers of
    /// [`SaveStarting`](crate::SaveStarting) may change it.
    pub fn details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }
    /// Computes checksums while columns are copied: for captures that will be encoded without compression, which takes
    /// less time in all. Saves to a file do it by themselves.
    pub fn with_checksums(mut self) -> Self {
        self.checksums = true;
        self
    }
    /// Compresses what is written. Default: as the slots do, else not.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.encode.get_or_insert_default().compression = compression;
        self
    }
    /// All choices about the bytes that are written to a file.
    pub fn encode_options(mut self, options: EncodeOptions) -> Self {
        self.encode = Some(options);
        self
    }
}

/// Data under a key of the game's own.
pub(crate) fn data_entry<T: Persist>(key: &str, value: &T) -> Result<DataEntry> {
    if key.starts_with(RESERVED_PREFIX) {
        return Err(Error::misuse("keys that begin so belong to Bonfire: choose another").in_key(key));
    }
    DataEntry::new(key.to_owned(), value).map_err(|error| error.in_key(key))
}

/// A capture, and what it has to say.
pub(crate) struct Capture {
    pub(crate) snapshot: Snapshot,
    /// Components of saved entities that are not registered.
    pub(crate) unregistered: Vec<String>,
    /// Which archetypes of the world it has, in order.
    pub(crate) archetypes: Vec<ArchetypeId>,
    /// The order of siblings; the data of the snapshot may have one that is carried, too.
    pub(crate) order: Option<DataEntry>,
}

/// What is different between the bits of an entity in Bevy and in a save: Bevy has the complement of the index.
pub(crate) const INDEX_BITS: u64 = u32::MAX as u64;

/// Whether a capture shares memory with others.
pub(crate) enum Sharing<'a> {
    /// It stands alone.
    Alone,
    /// Others will be made over it.
    First,
    /// With an earlier one, which is used up. If it is not known what has changed since, bytes are compared.
    Over { snapshot: Box<Snapshot>, since: Option<Box<Since>>, places: &'a [Option<u32>] },
}

/// Captures a world, with what observers added.
pub(crate) fn capture(
    world: &World,
    registry: &Registered,
    options: &SaveOptions,
    added: &Additions,
    mut sharing: Sharing<'_>,
) -> Result<Capture> {
    let chosen = choose(world, registry, &options.selection, &added.excluded)?;
    let mut unregistered = BTreeSet::new();
    let mut writer = SnapshotWriter::new(&registry.registry).pool(&registry.pool);
    writer = match &mut sharing {
        Sharing::Alone if options.checksums => writer.reserve(estimate(registry, &chosen)).checksums(),
        Sharing::Alone => writer.reserve(estimate(registry, &chosen)),
        Sharing::First => writer.over(None),
        Sharing::Over { snapshot, .. } => writer.over(Some(std::mem::take(&mut **snapshot))),
    };
    writer.next_entity_id(u64::from(world.entities().len()));
    if let Some(number) = registry.world {
        writer.world(number);
    }
    for (name, value) in &options.metadata {
        writer.metadata(name.clone(), value.clone());
    }
    // Whether the same entities are in the same places.
    let mut same_entities = true;
    let (mut moved, mut dirty) = (DirtyRows::default(), DirtyRows::default());
    for chosen in &chosen {
        let rows = &chosen.rows;
        let (place, since) = sharing.place(chosen.archetype.id());
        let mut out = match &sharing {
            Sharing::Alone => writer.archetype_with(rows.len(), |ids| rows.write_ids(0..rows.len(), ids))?,
            _ => {
                moved.reset(rows.len());
                same_entities &= match since.zip(place) {
                    Some((since, place)) => since.mark_ids(rows, place, &mut moved),
                    None => false,
                };
                let known = since.is_some().then_some(&moved);
                writer.archetype_over(rows.len(), place, known, |range, ids| rows.write_ids(range, ids))?
            }
        };
        for number in chosen.numbers(registry) {
            // A tag has no values.
            let tag = registry.registry.descriptors()[number].kind() == ColumnKind::Tag;
            let known = since.map(|since| {
                let entry = &registry.entries[number];
                dirty.clone_from(&moved);
                if entry.unseen {
                    dirty = DirtyRows::all(rows.len());
                } else if !tag {
                    since.mark_values(world, rows, entry.id, &mut dirty);
                }
                &dirty
            });
            column::write(&mut out, registry, number, world, rows, known)?;
        }
        unregistered.extend(registry.unregistered(world, chosen.archetype.components()));
    }
    for (number, entry) in registry.entries.iter().enumerate() {
        if !world.contains_resource_by_id(entry.id) {
            continue;
        }
        dirty.reset(1);
        let known = sharing.since().map(|since| {
            if entry.unseen || since.resource_changed(world, entry.id) {
                dirty.mark(0);
            }
            &dirty
        });
        column::write_resource(&mut writer.resources(), registry, number, world, known)?;
    }
    let since =
        sharing.since().filter(|since| same_entities && since.snapshot.archetypes().len() == chosen.len());
    let order = order::saved(world, registry, &chosen, since, &mut writer)?;
    order.iter().for_each(|order| writer.data_entry(order.clone()));
    for entry in added.data.iter().chain(&options.data) {
        writer.data_entry(entry.clone());
    }
    if let Some(carried) = world.get_resource::<Carried>() {
        writer.carry(&carried.0);
    }
    let name = |id: ComponentId| world.components().get_info(id).map(|info| info.name().to_string());
    for name in unregistered.iter().copied().filter(|&id| registry.is_news(id)).filter_map(name) {
        log::warn!(
            "`{name}` is on saved entities but not registered, so it is not saved: \
             add `app.persist::<{name}>()`, or `app.persist_ignore::<{name}>()` if that is meant"
        );
    }
    let unregistered = unregistered.into_iter().filter_map(name).collect();
    let archetypes = chosen.iter().map(|chosen| chosen.archetype.id()).collect();
    Ok(Capture { snapshot: writer.finish()?, unregistered, archetypes, order })
}

impl Sharing<'_> {
    fn since(&self) -> Option<&Since> {
        match self {
            Self::Over { since, .. } => since.as_deref(),
            Self::Alone | Self::First => None,
        }
    }

    /// The archetype's number in the earlier capture, and how to tell what has changed since.
    fn place(&self, archetype: ArchetypeId) -> (Option<usize>, Option<&Since>) {
        let Self::Over { since, places, .. } = self else { return (None, None) };
        let place = places.get(archetype.index()).copied().flatten().map(|place| place as usize);
        (place, since.as_deref().filter(|_| place.is_some()))
    }
}

/// An archetype with the rows that are saved; there is at least one.
pub(crate) struct Chosen<'w> {
    pub(crate) archetype: &'w Archetype,
    pub(crate) rows: Rows<'w>,
}

impl Chosen<'_> {
    pub(super) fn numbers<'a>(&'a self, registry: &'a Registered) -> impl Iterator<Item = usize> + 'a {
        self.archetype.iter_components().filter_map(|id| registry.number(id))
    }
}

/// The entities that a save with this selection would have.
pub(crate) fn selected(world: &World, selection: &Selection) -> Result<Vec<Entity>> {
    let registry = SaveRegistry::of(world)?;
    let chosen = choose(world, &registry, selection, &[])?;
    Ok(chosen.iter().flat_map(|chosen| chosen.rows.entities()).copied().collect())
}

pub(crate) fn choose<'w>(
    world: &'w World,
    registry: &Registered,
    selection: &Selection,
    excluded: &[ComponentId],
) -> Result<Vec<Chosen<'w>>> {
    let filter = selection.filter.resolve(&registry.registry, &[])?;
    let matched = selection.matched(world)?;
    let saved = registry.mark(world);
    let layer = registry.layer.as_ref().filter(|_| filter.has_layers());
    if filter.has_layers() && layer.is_none() {
        return Err(Error::misuse(
            "the filter names layers, but no component has them: call `app.save_layer` first",
        ));
    }
    let arriving = world.components().component_id::<Arriving>();
    let mut chosen = Vec::new();
    for archetype in world.archetypes().iter() {
        if archetype.is_empty()
            || archetype.contains(IS_RESOURCE)
            || arriving.is_some_and(|arriving| archetype.contains(arriving))
        {
            continue;
        }
        let in_scope = match registry.scope {
            SaveScope::Marked => saved.is_some_and(|saved| archetype.contains(saved)),
            SaveScope::Persisted => archetype.iter_components().any(|id| {
                registry.number(id).is_some_and(|number| !registry.entries[number].incidental)
                    || Some(id) == saved
            }),
        };
        let accepted = || filter.accepts(|number| archetype.contains(registry.entries[number].id));
        if !in_scope || !accepted() || excluded.iter().any(|&id| archetype.contains(id)) {
            continue;
        }
        let Some(table) = world.storages().tables.get(archetype.table_id()) else { continue };
        let layer = layer.filter(|layer| archetype.contains(layer.id));
        let whole = archetype.len() as usize == table.entities().len();
        if whole && matched.is_none() && layer.is_none() {
            chosen.push(Chosen { archetype, rows: Rows::Table(table) });
            continue;
        }
        let (mut entities, mut rows) = (Vec::new(), Vec::new());
        for row in archetype.entities() {
            let entity = row.id();
            if matched.as_ref().is_some_and(|matched| !matched.contains(entity)) {
                continue;
            }
            if let Some(layer) = layer
                && !on_layer(world, entity, layer, &filter)?
            {
                continue;
            }
            entities.push(entity);
            rows.push(row.table_row().index_u32());
        }
        if whole && entities.len() == table.entities().len() {
            chosen.push(Chosen { archetype, rows: Rows::Table(table) });
        } else if !entities.is_empty() {
            chosen.push(Chosen { archetype, rows: Rows::Picked { table, entities, rows } });
        }
    }
    Ok(chosen)
}

fn on_layer(
    world: &World,
    entity: Entity,
    layer: &crate::registry::Layer,
    filter: &ResolvedFilter,
) -> Result<bool> {
    let Ok(value) = world.entity(entity).get_by_id(layer.id) else { return Ok(true) };
    let number = (layer.read)(value);
    if number >= LAYER_COUNT {
        return Err(Error::misuse(format!(
            "entity {entity} is on layer {number}, layers go from 0 to {}",
            LAYER_COUNT - 1
        )));
    }
    Ok(filter.accepts_layer(Some(number)))
}

/// About how many bytes a capture has, so that it gets one buffer.
fn estimate(registry: &Registered, chosen: &[Chosen<'_>]) -> usize {
    let stride = |number: usize| registry.registry.descriptors()[number].row_layout().stride as usize;
    let row = |chosen: &Chosen<'_>| 8 + chosen.numbers(registry).map(stride).sum::<usize>();
    chosen
        .iter()
        .map(|chosen| chosen.rows.len() * row(chosen) + 64 * (chosen.archetype.component_count() + 1))
        .sum()
}
