//! How a save is loaded.

/// The core's options, without the mode.
pub(super) use bonfire::LoadOptions as StageOptions;
use bonfire::{Dangling, Limits, Unknown};

use crate::selection::Selection;

/// How a save is loaded. A [`LoadMode`] will do where the rest is the default.
///
/// ```
/// use bonfire_hecs::{Dangling, LoadMode, LoadOptions, Unknown};
///
/// let options = LoadOptions::new().mode(LoadMode::Merge).unknown(Unknown::Drop).dangling(Dangling::Refuse);
/// ```
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// What happens to the entities that are there. Default: what is loaded replaces them.
    pub mode: LoadMode,
    /// What happens to components and data that are not registered. Default: they are kept for the next save.
    pub unknown: Unknown,
    /// What happens to references to entities that are not in the save. Default: they become null.
    pub dangling: Dangling,
    /// What decoding may cost. Default: [`Limits::default`].
    pub limits: Option<Limits>,
}

impl LoadOptions {
    /// What is loaded replaces what is there.
    pub fn new() -> Self {
        Self::default()
    }
    /// What happens to the entities that are there.
    pub fn mode(mut self, mode: LoadMode) -> Self {
        self.mode = mode;
        self
    }
    /// What happens to components and data that are not registered.
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.unknown = unknown;
        self
    }
    /// What happens to references to entities that are not in the save.
    pub fn dangling(mut self, dangling: Dangling) -> Self {
        self.dangling = dangling;
        self
    }
    /// What decoding may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// The mode, and the options of the core.
    pub(super) fn into_parts(self) -> (LoadMode, StageOptions) {
        let Self { mode, unknown, dangling, limits } = self;
        let limits = limits.unwrap_or_default();
        (mode, StageOptions { unknown, dangling, limits, ..StageOptions::default() })
    }
}

impl From<LoadMode> for LoadOptions {
    fn from(mode: LoadMode) -> Self {
        Self::new().mode(mode)
    }
}

/// What a load does with the entities that are there.
#[derive(Clone, Default)]
pub enum LoadMode {
    /// The snapshot's entities take the place of all that a save without a selection would have. They get new ids: handles
    /// from before find nothing.
    #[default]
    Replace,
    /// As [`LoadMode::Replace`], for the entities of a selection: the counterpart of a save that had it.
    ReplaceSelected(Selection),
    /// The snapshot's entities come beside those that are there.
    Merge,
    /// The snapshot's entities take the place of all that is there and get the ids and generations that they had. The ids
    /// that the world gives out afterwards are those that the saved world would have given out. Handles that were taken
    /// since the save must be thrown away: they may mean entities that are yet to come, and so may ids in earlier captures,
    /// which a later [`LoadMode::Restore`] takes for those of another world. Refused while the world has entities that are
    /// not part of saves, and for saves of other engines.
    SameIds,
    /// Takes a running world back to a snapshot of its own past. Entities that are still there keep their ids, and
    /// everything that is not saved; their values are overwritten in place. Those that have come since go, those that are
    /// gone come back with new ids ([`Loaded::respawned`]), and references follow.
    ///
    /// A snapshot of another world is loaded as by [`LoadMode::Replace`], because ids mean nothing across worlds. A file does not
    /// know which world it is of: then ids are taken to mean entities that are part of saves, and nothing else. Use
    /// [`LoadMode::Replace`] or [`LoadMode::SameIds`] for files of other sessions.
    Restore,
    /// As [`LoadMode::Restore`], for the entities of a selection.
    RestoreSelected(Selection),
}
