//! How a save is loaded. Front ends share it, so that options have the same names in every engine.

use std::time::Duration;

use crate::context::Dangling;
use crate::limits::Limits;

/// What happens to components, resources and data that this build does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unknown {
    /// They are carried and written again by the next save.
    #[default]
    Keep,
    /// They are dropped, and the report says so.
    Drop,
    /// The load is refused. Data that nobody asks for is dropped, and the report says so: who will ask is not known
    /// before the world is loaded.
    Refuse,
}

/// The order of entities within their archetypes after a restore. Queries visit entities in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RowOrder {
    /// Keeps the order that the world has. Entities that were spawned again come last.
    #[default]
    Keep,
    /// Brings back the order that the snapshot has, for simulations that depend on it. Entities that are not in the
    /// snapshot come after those that are. Costs two or three moves per entity that is out of place.
    Restore,
}

/// How a save is loaded.
///
/// `Mode` is the front end's: it says what happens to the entities that exist already. Code that uses the core alone has
/// none.
///
/// ```
/// use bonfire::{Dangling, LoadOptions, Unknown};
///
/// let options: LoadOptions = LoadOptions::new().unknown(Unknown::Drop).dangling(Dangling::Refuse);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoadOptions<Mode = ()> {
    /// What happens to the entities that exist already. Default: the loaded entities replace them.
    pub mode: Mode,
    /// What happens to components and data that are not registered. Default: they are kept for the next save.
    pub unknown: Unknown,
    /// What happens to references to entities that are not in the save. Default: they are removed.
    pub dangling: Dangling,
    /// The resources that decoding may use. Default: the limits of the slots if there are any, else [`Limits::default`].
    pub limits: Option<Limits>,
    /// The time that the load may take of each frame. Default: none, the load happens in one frame. Calls that return
    /// when the world is loaded ignore it.
    pub budget: Option<Duration>,
    /// The order of entities within their archetypes, for modes that restore a world. Default: it stays.
    pub row_order: RowOrder,
    /// Uses the portable twin of every bulk copy: slower, the same values.
    pub portable: bool,
}

impl<Mode: Default> LoadOptions<Mode> {
    /// The defaults: the loaded entities replace the existing ones, in one frame.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<Mode> LoadOptions<Mode> {
    /// Chooses what happens to the entities that exist already.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
    /// Chooses what happens to components and data that are not registered.
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.unknown = unknown;
        self
    }
    /// Chooses what happens to references to entities that are not in the save.
    pub fn dangling(mut self, dangling: Dangling) -> Self {
        self.dangling = dangling;
        self
    }
    /// Chooses the order of entities within their archetypes, for modes that restore a world.
    pub fn row_order(mut self, row_order: RowOrder) -> Self {
        self.row_order = row_order;
        self
    }
    /// Bounds the resources that decoding may use.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }
    /// Spreads the load over frames, and bounds the time that it takes of each.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// For front ends: the mode, and the options that [`LoadPlan::new`](crate::engine::LoadPlan::new) takes.
    pub fn split_mode(self) -> (Mode, LoadOptions) {
        let Self { mode, unknown, dangling, limits, budget, row_order, portable } = self;
        (mode, LoadOptions { mode: (), unknown, dangling, limits, budget, row_order, portable })
    }
}

impl<Mode: Default> From<Mode> for LoadOptions<Mode> {
    fn from(mode: Mode) -> Self {
        Self::new().mode(mode)
    }
}
