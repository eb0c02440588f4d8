//! How a save is loaded.

use crate::selection::Selection;

/// How a save is loaded. A [`LoadMode`] will do where the rest is the default. Loads happen in one go: a budget is ignored.
///
/// ```
/// use bonfire_hecs::{Dangling, LoadMode, LoadOptions, Unknown};
///
/// let options = LoadOptions::new().mode(LoadMode::Merge).unknown(Unknown::Drop).dangling(Dangling::Refuse);
/// ```
pub type LoadOptions = bonfire::LoadOptions<LoadMode>;

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
    /// The snapshot's entities take the place of all that a save would have, and get the ids and generations that they had.
    /// The ids that the world gives out afterwards are those that the saved world would have given out. Handles that were
    /// taken since the save must be thrown away: they may mean entities that are yet to come, and so may ids in earlier
    /// captures, which a later [`LoadMode::Restore`] takes for those of another world.
    ///
    /// Entities that are not part of saves stay, with their ids. Then their slots are not given out, and a free slot that was
    /// used since the save has a later generation. Refused if one of them has the slot of a saved entity, and for saves of
    /// other engines.
    SameIds,
    /// Takes a running world back to a snapshot of its own past. Entities that are still there keep their ids, and
    /// everything that is not saved; their values are overwritten in place. Those that have come since go, those that are
    /// gone come back with new ids ([`Loaded::respawned`](crate::Loaded::respawned)), and references follow.
    ///
    /// A snapshot of another world is loaded as by [`LoadMode::Replace`], because ids mean nothing across worlds. A file does not
    /// know which world it is of: then ids are taken to mean entities that are part of saves, and nothing else. Use
    /// [`LoadMode::Replace`] or [`LoadMode::SameIds`] for files of other sessions.
    Restore,
    /// As [`LoadMode::Restore`], for the entities of a selection.
    RestoreSelected(Selection),
}
