//! Options of a load.

use crate::selection::Selection;

/// Options of a load. A [`LoadMode`] alone is enough where the rest is the default.
///
/// With a [budget](bonfire::LoadOptions::budget) the new entities come in slices, out of sight, and everything switches at once in
/// the last one: see [`SlicedLoad`](crate::SlicedLoad).
///
/// ```
/// use bevy_bonfire::prelude::*;
/// use bevy_bonfire::{Dangling, Unknown};
///
/// let options = LoadOptions::new().mode(LoadMode::Merge).unknown(Unknown::Drop).dangling(Dangling::Refuse);
/// ```
pub type LoadOptions = bonfire::LoadOptions<LoadMode>;

/// The treatment of existing entities by a load.
#[derive(Clone, Default)]
pub enum LoadMode {
    /// The snapshot's entities take the place of all that a save without a selection would have (also of those that
    /// observers of `SaveStarting` would exclude), which are despawned when the new ones are complete. Resources are
    /// overwritten. Despawning is Bevy's: children go with their parents, also those that are not part of saves.
    #[default]
    Replace,
    /// As [`LoadMode::Replace`], for the entities of a selection: the counterpart of a save that had it. Select whole
    /// families: children outside of the selection go with parents inside of it.
    ReplaceSelected(Selection),
    /// The snapshot's entities come beside the existing ones. Resources that the world has stay as they are.
    Merge,
    /// Takes a running world back to a snapshot of its own past, at memory speed as long as the same entities have the same
    /// components. Entities that still exist keep their ids and everything that is not saved; their values are
    /// overwritten in place. Those that have come since go (also those that observers of `SaveStarting` would exclude), those
    /// that are gone come back with new ids ([`Loaded::respawned`](crate::Loaded::respawned)), and references follow. Resources are overwritten.
    ///
    /// Hooks and observers run for what is spawned, despawned, added and removed, and for immutable components whose
    /// saved fields differ; values that are overwritten in place are seen by change detection. An error leaves the world as
    /// it was; a panic in a hook, an observer or a `Drop` is passed on, and the world is then partly restored.
    ///
    /// A snapshot of another world is loaded as by [`LoadMode::Replace`], because ids mean nothing across worlds. A file does not
    /// know which world it is of: then ids are taken to mean entities that are part of saves, and nothing else. Use
    /// [`LoadMode::Replace`] for files of other sessions.
    Restore(Ticks),
    /// As [`LoadMode::Restore`], for the entities of a selection.
    RestoreSelected(Selection, Ticks),
}

impl LoadMode {
    pub(super) fn is_restore(&self) -> bool {
        self.ticks().is_some()
    }

    /// The ticks that a restore sets; `None` for modes that do not restore.
    pub(super) fn ticks(&self) -> Option<Ticks> {
        match self {
            Self::Restore(ticks) | Self::RestoreSelected(_, ticks) => Some(*ticks),
            _ => None,
        }
    }

    /// The selection of a mode that has one.
    pub(super) fn selection(&self) -> Option<&Selection> {
        match self {
            Self::ReplaceSelected(selection) | Self::RestoreSelected(selection, _) => Some(selection),
            _ => None,
        }
    }
}

/// The values that count as changed after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ticks {
    /// Every value that was overwritten.
    #[default]
    All,
    /// Only values whose saved fields are now others than before. Finding out costs about one more pass over memory.
    Differing,
}
