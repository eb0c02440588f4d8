//! World to snapshot, from `&World`.
//!
//! Archetypes are walked once. One that shares its table with no other is copied column by column; the others, and
//! those of which only some rows are chosen, by picking rows.

mod changes;
mod choose;
mod column;
mod engine_types;
mod event;
mod handler;
mod incremental;
mod omission;
mod options;
mod order;
mod references;

use std::sync::Arc;

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{DirtyRows, OutsideTarget, SnapshotWriter};
use bonfire::inspect::ColumnKind;
use bonfire::{DataEntry, Result, Snapshot};

pub(crate) use self::changes::{ChangedRows, EarlierCapture, TickRange};
pub(crate) use self::choose::{ChosenArchetype, SavedEntities, choose, selected};
pub(crate) use self::column::Rows;
pub(crate) use self::event::CaptureAdditions;
pub use self::event::{SaveCaptured, SaveFinished, SaveStarting};
pub(crate) use self::handler::DataHandlers;
pub(crate) use self::incremental::Epoch;
pub use self::incremental::IncrementalCapture;
pub(crate) use self::omission::log_once;
pub(crate) use self::options::Relationships;
pub use self::options::SaveOptions;
pub(crate) use self::references::for_each_reference;
use crate::registry::{Carried, ComponentRegistry};
use crate::stable_id::{StableId, StandIn};

/// What is captured of a world, and how.
#[derive(Clone, Copy)]
pub(crate) struct CaptureInput<'a> {
    pub(crate) registry: &'a Arc<ComponentRegistry>,
    pub(crate) options: &'a SaveOptions,
    pub(crate) added: &'a CaptureAdditions,
}

/// A snapshot, and facts about its capture.
pub(crate) struct CapturedWorld {
    pub(crate) snapshot: Snapshot,
    /// The archetypes of the world that it has, in order.
    pub(crate) archetypes: Vec<ArchetypeId>,
    /// The order of siblings; the data of the snapshot may have one that is carried, too.
    pub(crate) order: Option<DataEntry>,
}

/// The bits in which an entity of Bevy and its id in a save differ: Bevy has the complement of the index.
pub(crate) const INDEX_BITS: u64 = u32::MAX as u64;

/// The sharing of memory between a capture and others.
pub(crate) enum Sharing<'a> {
    /// It stands alone.
    Alone,
    /// Others will be made over it.
    First,
    /// With an earlier one, which is used up. If it is not known what has changed since, bytes are compared.
    Over {
        snapshot: Box<Snapshot>,
        since: Option<Box<EarlierCapture>>,
        /// By archetype, its number in the earlier capture.
        numbers: &'a [Option<u32>],
    },
}

impl Sharing<'_> {
    fn since(&self) -> Option<&EarlierCapture> {
        match self {
            Self::Over { since, .. } => since.as_deref(),
            Self::Alone | Self::First => None,
        }
    }

    /// The archetype's number in the earlier capture, and how to tell what has changed since.
    fn earlier(&self, archetype: ArchetypeId) -> (Option<usize>, Option<&EarlierCapture>) {
        let Self::Over { since, numbers, .. } = self else { return (None, None) };
        let number = numbers.get(archetype.index()).copied().flatten().map(|number| number as usize);
        (number, since.as_deref().filter(|_| number.is_some()))
    }
}

/// Captures a world, with what observers added.
pub(crate) fn capture(
    world: &World,
    input: CaptureInput<'_>,
    mut sharing: Sharing<'_>,
) -> Result<CapturedWorld> {
    let CaptureInput { registry, options, added } = input;
    let chosen = choose(world, registry, &options.selection, &added.excluded)?;
    let mut writer = new_writer(world, registry, options, &chosen, &mut sharing);
    let same_entities = write_archetypes(world, input, &chosen, &sharing, &mut writer)?;
    write_resources(world, input, &sharing, &mut writer)?;
    let since =
        sharing.since().filter(|since| same_entities && since.snapshot.archetypes().len() == chosen.len());
    let order = match options.relationships {
        Relationships::Saved => order::saved(world, input, &chosen, since, &mut writer)?,
        Relationships::LeftOut => None,
    };
    for entry in order.iter().chain(&added.data).chain(&options.common.data) {
        writer.data_entry(entry.clone());
    }
    if let Some(carried) = world.get_resource::<Carried>() {
        writer.carry(&carried.0);
    }
    omission::remark(world, input, &chosen, &mut writer);
    let archetypes = chosen.iter().map(|chosen| chosen.archetype.id()).collect();
    let mut snapshot = writer.finish()?;
    if options.common.outside_references {
        snapshot.save_outside(|id| outside_target(world, id.into()))?;
    }
    omission::log_once(registry, snapshot.notes());
    Ok(CapturedWorld { snapshot, archetypes, order })
}

/// Returns what is known of an entity that a save refers to and does not have.
pub(crate) fn outside_target(world: &World, entity: Entity) -> OutsideTarget {
    let Ok(entity) = world.get_entity(entity) else { return OutsideTarget::Gone };
    let id = entity.get::<StableId>().copied().or_else(|| entity.get::<StandIn>().map(|away| away.id()));
    id.map_or(OutsideTarget::Unnamed, |id| OutsideTarget::Stable(id.to_bits()))
}

/// A writer with the head of the save. Takes the snapshot out of `sharing`.
fn new_writer<'r>(
    world: &'r World,
    registry: &'r ComponentRegistry,
    options: &SaveOptions,
    chosen: &[ChosenArchetype<'_>],
    sharing: &mut Sharing<'_>,
) -> SnapshotWriter<'r> {
    let writer = SnapshotWriter::new(&registry.core).with_world(world).pool(&registry.pool);
    let writer = writer.unencodable(options.common.unencodable);
    let mut writer = match sharing {
        Sharing::Alone if options.common.checksums => writer.reserve(estimate(registry, chosen)).checksums(),
        Sharing::Alone => writer.reserve(estimate(registry, chosen)),
        Sharing::First => writer.over(None),
        Sharing::Over { snapshot, .. } => writer.over(Some(std::mem::take(&mut **snapshot))),
    };
    writer.next_entity_id(u64::from(world.entities().len()));
    if let Some(number) = registry.world {
        writer.world(number);
    }
    for (name, value) in &options.common.metadata {
        writer.metadata(name.clone(), value.clone());
    }
    writer
}

/// Writes all entities. Returns true if the same ones are in the same rows as in the earlier capture.
fn write_archetypes(
    world: &World,
    input: CaptureInput<'_>,
    chosen: &[ChosenArchetype<'_>],
    sharing: &Sharing<'_>,
    writer: &mut SnapshotWriter<'_>,
) -> Result<bool> {
    let CaptureInput { registry, options, .. } = input;
    let mut same_entities = true;
    let (mut moved, mut dirty) = (DirtyRows::default(), DirtyRows::default());
    for chosen in chosen {
        let rows = &chosen.rows;
        let (number, since) = sharing.earlier(chosen.archetype.id());
        let mut out = match sharing {
            Sharing::Alone => writer.archetype_with(rows.len(), |ids| rows.write_ids(0..rows.len(), ids))?,
            _ => {
                moved.reset(rows.len());
                same_entities &= match since.zip(number) {
                    Some((since, number)) => since.mark_ids(rows, number, &mut moved),
                    None => false,
                };
                let known = since.is_some().then_some(&moved);
                writer.archetype_over(rows.len(), number, known, |range, ids| rows.write_ids(range, ids))?
            }
        };
        for number in chosen.numbers(registry).filter(|&number| options.has(&registry.entries[number])) {
            let has_values = registry.core.descriptors()[number].kind() != ColumnKind::Tag;
            let known = since.map(|since| {
                let entry = &registry.entries[number];
                dirty.clone_from(&moved);
                if entry.unseen {
                    dirty = DirtyRows::all(rows.len());
                } else if has_values {
                    since.ticks.mark_changed(world, rows, entry.id, &mut dirty);
                }
                &dirty
            });
            column::write(&mut out, registry, number, world, rows, known)?;
        }
    }
    Ok(same_entities)
}

fn write_resources(
    world: &World,
    input: CaptureInput<'_>,
    sharing: &Sharing<'_>,
    writer: &mut SnapshotWriter<'_>,
) -> Result<()> {
    let CaptureInput { registry, options, .. } = input;
    let mut dirty = DirtyRows::default();
    for (number, entry) in registry.entries.iter().enumerate() {
        if !registry.has_resource(world, &options.selection, number) {
            continue;
        }
        dirty.reset(1);
        let known = sharing.since().map(|since| {
            if entry.unseen || since.ticks.resource_changed(world, entry.id) {
                dirty.mark(0);
            }
            &dirty
        });
        column::write_resource(&mut writer.resources(), registry, number, world, known)?;
    }
    Ok(())
}

/// About how many bytes a capture has, so that it gets one buffer.
fn estimate(registry: &ComponentRegistry, chosen: &[ChosenArchetype<'_>]) -> usize {
    let stride = |number: usize| registry.core.descriptors()[number].row_layout().stride as usize;
    let row = |chosen: &ChosenArchetype<'_>| 8 + chosen.numbers(registry).map(stride).sum::<usize>();
    chosen
        .iter()
        .map(|chosen| chosen.rows.len() * row(chosen) + 64 * (chosen.archetype.component_count() + 1))
        .sum()
}
