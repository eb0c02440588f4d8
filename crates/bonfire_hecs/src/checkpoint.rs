//! The last moments of a world.

use bonfire::engine::{CheckpointRing, check_game_key};
use bonfire::{Result, RowOrder};
use hecs::World;

use crate::capture::SaveOptions;
use crate::incremental::IncrementalCapture;
use crate::load::{LoadMode, LoadOptions, Loaded, RespawnedIds, load};
use crate::registration::Bonfire;
use crate::selection::Selection;

/// The last few captures of a world, to go back to: for rewinding, and for rollback in games over the network. One per world.
///
/// Captures share the memory of what did not change between them. Going back is [`LoadMode::Restore`] with exact ids: entities
/// that are still there keep theirs, those that are gone get theirs back, and the ids that the world gives out next are those
/// that it gave out after the checkpoint. Handles that were taken since must be thrown away: they may mean entities that are
/// yet to come. So may ids in other captures of the world, which a later restore takes for those of another world.
///
/// Entities that are not part of saves stay as they are. If one of them has the slot of an entity that comes back, that one
/// gets a new id, and [`Loaded::respawned`](crate::Loaded::respawned) has both.
///
/// A checkpoint is a state, not the inputs that led to it: a game that replays from one gets the same world only if its
/// simulation is deterministic.
///
/// ```
/// use bonfire_hecs::{Bonfire, Checkpoints, Persist};
/// # #[derive(Persist)]
/// # #[persist(key = "game.health")]
/// # struct Health(u32);
///
/// # let (mut world, mut bonfire) = (hecs::World::new(), Bonfire::new());
/// # bonfire.persist::<Health>()?;
/// # let player = world.spawn((Health(0),));
/// let mut checkpoints = Checkpoints::new(60);
/// for tick in 0..100 {
///     world.get::<&mut Health>(player).unwrap().0 = tick as u32;
///     checkpoints.take(&mut bonfire, &world, tick)?;
/// }
/// assert_eq!(checkpoints.ticks().next(), Some(40)); // the last sixty
/// checkpoints.rewind(&mut bonfire, &mut world, 73)?;
/// assert_eq!(world.get::<&Health>(player).unwrap().0, 73);
/// # Ok::<(), bonfire_hecs::Error>(())
/// ```
pub struct Checkpoints {
    /// With the selection that a checkpoint was taken with.
    ring: CheckpointRing<Selection>,
    options: SaveOptions,
    captures: IncrementalCapture,
    row_order: RowOrder,
}

impl Checkpoints {
    /// Keeps so many; at least one. The oldest goes when one more is taken.
    pub fn new(max: usize) -> Self {
        let (options, captures) = (SaveOptions::new(), IncrementalCapture::new());
        Self { ring: CheckpointRing::new(max), options, captures, row_order: RowOrder::Keep }
    }

    /// Chooses what is captured. Default: everything that is registered. A selection is one for going back, too: entities outside
    /// of it stay as they are, and those inside of it that are gone come back with new ids.
    pub fn options(mut self, options: SaveOptions) -> Self {
        self.options = options;
        self
    }

    /// Brings the order of rows back, too, when the world goes back: for simulations whose result depends on the order in which
    /// queries visit entities. Costs several times as much as a rewind without it. Default: the order stays as it is.
    pub fn row_order(mut self, row_order: RowOrder) -> Self {
        self.row_order = row_order;
        self
    }

    /// Chooses what the next checkpoints capture: [resources](SaveOptions::resource) have other values in every tick.
    pub fn set_options(&mut self, options: SaveOptions) {
        self.options = options;
    }

    /// Takes one, with the data that hooks attach. Entities that they exclude are part of it, so that going back does not remove
    /// them. Ticks must grow: those from this one on are forgotten first.
    pub fn take(&mut self, bonfire: &mut Bonfire, world: &World, tick: u64) -> Result<()> {
        let (options, captures) = (&self.options, &mut self.captures);
        let snapshot = bonfire.with_hooks(|bonfire, hooks| {
            let starting = hooks.run_save(world, &bonfire.registry.core)?;
            starting.data().iter().try_for_each(|entry| check_game_key(entry.key()))?;
            captures.capture_with(bonfire, world, options, starting.data())
        })?;
        self.ring.push(tick, snapshot, self.options.selection.clone());
        Ok(())
    }

    /// Takes the world back to one. Later ones are forgotten: they are a future that will not be. Entities that have come since
    /// go. Hooks get the data that they attached.
    pub fn rewind(&mut self, bonfire: &mut Bonfire, world: &mut World, tick: u64) -> Result<Loaded> {
        let checkpoint = self.ring.require(tick)?;
        let before = bonfire.world;
        let (mode, ids) = match checkpoint.extra.is_everything() {
            true => (LoadMode::Restore, RespawnedIds::Same),
            // The rest of the world has gone on, and so have its ids.
            false => (LoadMode::RestoreSelected(checkpoint.extra.clone()), RespawnedIds::New),
        };
        let options = LoadOptions::from(mode).row_order(self.row_order);
        let loaded = load(bonfire, world, &checkpoint.snapshot, options, ids)?;
        self.ring.forget_after(tick);
        self.ring.renumber(before, bonfire.world);
        Ok(loaded)
    }

    bonfire::engine::checkpoints_methods!();
}
