//! The last moments of a world.

use std::sync::Arc;

use bevy_ecs::component::ComponentId;
use bevy_ecs::resource::Resource;
use bevy_ecs::world::World;
use bonfire::engine::{Checkpoint, CheckpointRing};
use bonfire::{Result, RowOrder};

use super::capture_with_events::capture_with_data;
use super::rewindable;
use crate::capture::{IncrementalCapture, SaveOptions};
use crate::load::in_place::SparseOrder;
use crate::load::{LoadMode, LoadOptions, Loaded, Ticks, load_with_events};
use crate::registry::SaveRegistry;

/// The last few captures of a world, to go back to: for rewinding, and for rollback in games over the network.
///
/// Captures share the memory of what did not change between them, so a hundred of them take not much more than one. Going
/// back is [`LoadMode::Restore`]: entities that still exist keep their ids, and change detection sees what is now another
/// value. Entities that were despawned since come back with new ids, which [`Loaded::respawned`] lists: generations of Bevy only
/// rise. [`despawn_rewindable`](super::RewindExt::despawn_rewindable) keeps their ids. A world has one ring.
///
/// A checkpoint is a state, not the inputs that led to it: a game that replays from one gets the same world only if its
/// simulation is deterministic.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::Checkpoints;
/// use bevy_bonfire::prelude::*;
/// # #[derive(Component, Persist)]
/// # #[persist(key = "game.health")]
/// # struct Health(u32);
///
/// # let mut world = World::new();
/// # world.persist::<Health>();
/// # let player = world.spawn((Health(0), Saved)).id();
/// let mut checkpoints = Checkpoints::new(60);
/// for tick in 0..100 {
///     world.get_mut::<Health>(player).unwrap().0 = tick as u32;
///     checkpoints.take(&mut world, tick)?;
/// }
/// assert_eq!(checkpoints.ticks().next(), Some(40)); // the last sixty
/// checkpoints.rewind(&mut world, 73)?;
/// assert_eq!(world.get::<Health>(player).unwrap().0, 73);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Resource)]
pub struct Checkpoints {
    ring: CheckpointRing<CheckpointState>,
    options: SaveOptions,
    changed: Ticks,
    row_order: RowOrder,
    captures: IncrementalCapture,
}

/// State of a world that a snapshot of it does not have.
struct CheckpointState {
    /// Resources that the world had; some may be left out of the snapshot.
    resources: Vec<ComponentId>,
    /// The order of rows, if it comes back.
    order: SparseOrder,
}

impl Checkpoints {
    /// Keeps so many; at least one. The oldest goes when one more is taken.
    pub fn new(max: usize) -> Self {
        Self {
            ring: CheckpointRing::new(max),
            options: SaveOptions::new(),
            changed: Ticks::Differing,
            row_order: RowOrder::Keep,
            captures: IncrementalCapture::new(),
        }
    }

    /// What is captured. Default: everything that is registered. A selection is one for going back, too.
    pub fn options(mut self, options: SaveOptions) -> Self {
        self.options = options;
        self
    }

    /// What counts as changed after going back. Default: values that are now others.
    pub fn changed(mut self, ticks: Ticks) -> Self {
        self.changed = ticks;
        self
    }

    /// Chooses the order of entities within their archetypes after going back. Default: it stays. A simulation whose systems
    /// depend on the order of queries needs [`RowOrder::Restore`] to go on as it did.
    pub fn row_order(mut self, row_order: RowOrder) -> Self {
        self.row_order = row_order;
        self
    }

    /// Compares bytes instead of trusting change detection: see [`IncrementalCapture::compared`].
    pub fn compared(mut self) -> Self {
        self.captures = self.captures.compared();
        self
    }

    /// Takes one, with the data that observers of [`SaveStarting`](crate::SaveStarting) attach. Entities that they exclude are
    /// part of it, so that going back does not remove them. Ticks must grow: those from this one on are forgotten first.
    pub fn take(&mut self, world: &mut World, tick: u64) -> Result<()> {
        let snapshot = capture_with_data(world, &self.options, &mut self.captures)?;
        let registry = SaveRegistry::of(world)?;
        let known = registry.entries.iter().map(|entry| entry.id);
        let resources = known.filter(|&id| world.contains_resource_by_id(id)).collect();
        let order = match self.row_order {
            RowOrder::Keep => SparseOrder::default(),
            RowOrder::Restore => SparseOrder::of(world),
        };
        self.ring.push(tick, snapshot, CheckpointState { resources, order });
        rewindable::set_window(world, self.ticks().next().unwrap_or(tick), tick);
        Ok(())
    }

    /// Takes the world back to one. Later ones are forgotten: they are a future that will not be. Entities and resources that have
    /// come since go.
    pub fn rewind(&mut self, world: &mut World, tick: u64) -> Result<Arc<Loaded>> {
        let Checkpoint { snapshot, extra: CheckpointState { resources, order }, .. } =
            self.ring.require(tick)?;
        let mode = match self.options.selection.is_everything() {
            true => LoadMode::Restore(self.changed),
            false => LoadMode::RestoreSelected(self.options.selection.clone(), self.changed),
        };
        let loaded =
            load_with_events(world, None, Ok(snapshot), LoadOptions::from(mode).row_order(self.row_order))?;
        order.restore(world, |entity| loaded.entity(entity).or(Some(entity)));
        let registry = SaveRegistry::of(world)?;
        for number in
            loaded.report.resources_not_saved.iter().filter_map(|key| registry.core.index_of_key(key))
        {
            let id = registry.entries[number].id;
            if !resources.contains(&id) && registry.has_resource(world, &self.options.selection, number) {
                world.remove_resource_by_id(id);
            }
        }
        self.ring.forget_after(tick);
        rewindable::after_rewind(world, &loaded, self.ticks().next().unwrap_or(tick), tick);
        Ok(loaded)
    }

    bonfire::engine::checkpoints_methods!();
}
