//! World to snapshot, from `&World`: archetype by archetype, column by column.

use std::sync::Arc;

use bonfire::engine::{Carry, CommonSaveOptions, OutsideTarget, SnapshotWriter, check_game_key};
use bonfire::{DataEntry, Result, Snapshot};
use hecs::{Component, Entity, Query, World};

use crate::free_ids;
use crate::registration::Bonfire;
use crate::registry::ComponentRegistry;
use crate::selection::{ChosenArchetype, Exclusions, Selection, archetypes, choose};
use crate::stable_id::{StableId, StandIn};

type WriteResource = Arc<dyn Fn(&mut SnapshotWriter<'_>) -> Result<()> + Send + Sync>;

/// How a world is saved. The default saves everything that is registered, uncompressed.
///
/// ```
/// use bonfire_hecs::SaveOptions;
/// # struct Player;
///
/// let options = SaveOptions::new()
///     .matching::<&Player>()
///     .metadata("name", "Before the dragon")
///     .data("game.seed", &42_u64)?;
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct SaveOptions {
    pub(crate) selection: Selection,
    pub(crate) common: CommonSaveOptions,
    resources: Vec<WriteResource>,
}

impl SaveOptions {
    bonfire::engine::save_options_methods!(Selection, Entity);

    /// Chooses entities by a query of hecs; may be repeated: see [`Selection`].
    pub fn matching<Q: Query>(mut self) -> Self {
        self.selection = self.selection.matching::<Q>();
        self
    }
    /// Adds something that exists once and lies outside of the world. Its type is registered like that of a component;
    /// [`Loaded::take_resource`](bonfire::engine::Loaded::take_resource) gives it back.
    pub fn resource<T: Component>(mut self, value: T) -> Self {
        self.resources.push(Arc::new(move |writer| writer.resource(&value)));
        self
    }
}

/// Data and exclusions that hooks add to a capture.
#[derive(Clone, Copy, Default)]
pub(crate) struct CaptureAdditions<'a> {
    pub(crate) data: &'a [DataEntry],
    pub(crate) excluded: Exclusions<'a>,
}

/// The components that are captured, and unknown ones that are written with them.
#[derive(Clone, Copy)]
pub(crate) struct CaptureSource<'a> {
    pub(crate) registry: &'a ComponentRegistry,
    pub(crate) carry: Option<&'a Carry>,
}

/// The sharing of memory between a capture and others.
pub(crate) enum Sharing<'a> {
    /// It stands alone.
    Alone,
    /// With an earlier one, if there is one, and with those that will be made over it.
    Over {
        earlier: Option<Box<Snapshot>>,
        /// By archetype of the world, its number in the earlier capture.
        numbers: &'a [Option<u32>],
    },
}

/// A snapshot, and the archetypes of the world that it has, in order.
pub(crate) struct CapturedWorld {
    pub(crate) snapshot: Snapshot,
    pub(crate) archetypes: Vec<usize>,
}

impl Bonfire {
    /// Captures the world and nothing else: no hook runs. All memory that it needs comes from a pool and goes back there
    /// with the snapshot.
    pub fn capture(&self, world: &World, options: &SaveOptions) -> Result<Snapshot> {
        let captured =
            self.capture_with(self.saves(), world, options, CaptureAdditions::default(), Sharing::Alone)?;
        Ok(captured.snapshot)
    }

    /// Captures the world, with data that hooks attach and without entities that they exclude.
    pub fn capture_with_hooks(&mut self, world: &World, options: &SaveOptions) -> Result<Snapshot> {
        self.with_hooks(|bonfire, hooks| {
            let starting = hooks.run_save(world, &bonfire.registry.core)?;
            starting.data().iter().try_for_each(|entry| check_game_key(entry.key()))?;
            let excluded = Exclusions { numbers: starting.excluded(), types: starting.excluded_types() };
            let added = CaptureAdditions { data: starting.data(), excluded };
            let captured = bonfire.capture_with(bonfire.saves(), world, options, added, Sharing::Alone)?;
            Ok(captured.snapshot)
        })
    }

    /// Everything that is saved.
    pub(crate) fn saves(&self) -> CaptureSource<'_> {
        CaptureSource { registry: &self.registry, carry: Some(&self.carry) }
    }

    pub(crate) fn capture_with(
        &self,
        source: CaptureSource<'_>,
        world: &World,
        options: &SaveOptions,
        added: CaptureAdditions<'_>,
        sharing: Sharing<'_>,
    ) -> Result<CapturedWorld> {
        let registry = source.registry;
        let mut all = world.query();
        let chosen = choose(registry, world, &mut all, &options.selection, added.excluded)?;
        let writer = SnapshotWriter::new(&registry.core)
            .with_world(world)
            .pool(&self.pool)
            .unencodable(options.common.unencodable);
        let (mut writer, numbers) = match sharing {
            Sharing::Over { earlier, numbers } => {
                (writer.over(earlier.map(|earlier| *earlier)), Some(numbers))
            }
            Sharing::Alone => (writer.reserve(estimate(registry, &chosen)), None),
        };
        if options.common.checksums {
            writer = writer.checksums();
        }
        writer.world(self.world);
        writer.next_entity_id(u64::from(free_ids::slot_count(world)));
        for (name, value) in &options.common.metadata {
            writer.metadata(name.clone(), value.clone());
        }
        for chosen in &chosen {
            let mut fill = chosen.fill_ids(world);
            let mut out = match numbers {
                None => writer.archetype_with(chosen.len(), |ids| fill(0..ids.len(), ids))?,
                Some(numbers) => {
                    let number = numbers.get(chosen.index).copied().flatten().map(|number| number as usize);
                    // hecs does not know what was touched, so bytes are compared.
                    writer.archetype_over(chosen.len(), number, None, fill)?
                }
            };
            let is_saved = |&&number: &&usize| !registry.core.descriptors()[number].is_transient();
            for &number in chosen.numbers.iter().filter(is_saved) {
                (registry.entries[number].write)(&mut out, chosen.archetype, chosen.rows.as_deref())?;
            }
        }
        for write in &options.resources {
            write(&mut writer)?;
        }
        writer.free_list(free_ids::free_list(world, &chosen))?;
        for entry in added.data.iter().chain(&options.common.data) {
            writer.data_entry(entry.clone());
        }
        if let Some(carry) = source.carry {
            writer.carry(carry);
        }
        let archetypes = chosen.iter().map(|chosen| chosen.index).collect();
        let mut snapshot = writer.finish()?;
        if options.common.outside_references {
            snapshot.save_outside(|id| outside_target(world, id.into()))?;
        }
        Ok(CapturedWorld { snapshot, archetypes })
    }
}

/// Returns what is known of an entity that a save refers to and does not have.
fn outside_target(world: &World, entity: Entity) -> OutsideTarget {
    let Ok(entity) = world.entity(entity) else { return OutsideTarget::Gone };
    let away = || entity.get::<&StandIn>().map(|stand_in| stand_in.id());
    let id = entity.get::<&StableId>().map(|id| *id).or_else(away);
    id.map_or(OutsideTarget::Unnamed, |id| OutsideTarget::Stable(id.to_bits()))
}

/// Calls `found` with every entity that a registered component of the world refers to, or a carried value.
pub(crate) fn for_each_reference(
    bonfire: &Bonfire,
    world: &World,
    mut found: impl FnMut(Entity),
) -> Result<()> {
    let registry = &bonfire.registry;
    let mut writer = SnapshotWriter::new(&registry.core).with_world(world).pool(&bonfire.pool);
    let has_references = |&&number: &&usize| registry.core.descriptors()[number].schema().has_entities();
    let mut all = world.query();
    for candidate in archetypes(registry, world, &mut all) {
        let mut fill = candidate.fill_ids(world);
        let mut out = writer.archetype_with(candidate.len(), |ids| fill(0..ids.len(), ids))?;
        for &number in candidate.numbers.iter().filter(has_references) {
            (registry.entries[number].write)(&mut out, candidate.archetype, None)?;
        }
    }
    writer.carry(&bonfire.carry);
    writer.finish()?.for_each_reference(|_, id| found(id.into()))
}

/// About how many bytes a capture has, so that it gets one buffer.
fn estimate(registry: &ComponentRegistry, chosen: &[ChosenArchetype<'_>]) -> usize {
    let stride = |&number: &usize| registry.core.descriptors()[number].row_layout().stride as usize;
    let row = |chosen: &ChosenArchetype<'_>| 8 + chosen.numbers.iter().map(stride).sum::<usize>();
    chosen.iter().map(|chosen| chosen.len() * row(chosen) + 64 * (chosen.numbers.len() + 1)).sum()
}
