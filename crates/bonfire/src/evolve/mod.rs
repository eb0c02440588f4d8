//! How saves of older builds become what this build expects: every save ever shipped still loads.
//!
//! | file | |
//! |---|---|
//! | `convert` | from one schema to another by name, decided once; `run` does it, `fixed` does it for whole columns |
//! | `note` | what a conversion bridges, place by place |
//! | `lenient` | the same for values that carry their own types |
//! | `step` | steps between versions: typed ones, upgraders, and the shortest way through them |
//! | `way`, `rows` | what happens to a saved component from its bytes to rows of this build |
//! | `fields`, `merge` | fields that a build does not know and must not lose, and how they come back |
//! | `track`, `world` | versions of whole worlds, and what a migration may do to one |
//! | `rewrite` | a save as this build would have written it |
//! | `lock`, `lock_path`, `lock_text` | the schemas that were ever released, and what a new build may not do to them |
//! | `natural` | what the derive needs |

mod change;
mod convert;
mod fields;
mod fixed;
mod lenient;
mod lock;
mod lock_path;
mod lock_text;
mod merge;
pub(crate) mod natural;
mod note;
mod number;
mod rewrite;
mod rows;
mod run;
pub(crate) mod step;
pub(crate) mod track;
pub(crate) mod way;
mod world;

pub use self::change::Change;
pub(crate) use self::fields::UnknownFields;
pub use self::lock::{LockProblem, SchemaLock};
pub(crate) use self::run::{Running, decode_by_name};
pub use self::step::{History, Upgrader};
pub use self::track::TrackState;
pub use self::world::WorldEdit;

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::registry::Registry;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// The save as a build expects worlds to be, before its components are looked at one by one: all world migrations have
    /// run, and fields that an older build carried are back in their values. A save that needs nothing of that is only
    /// borrowed. This one stays as it is, whatever a migration does.
    pub fn migrated(&self, registry: &Registry) -> Result<Cow<'_, Self>> {
        let merged = merge::merge(self, registry)?;
        let migrated = track::migrate(merged.as_ref().unwrap_or(self), registry.tracks())?;
        Ok(migrated.or(merged).map_or(Cow::Borrowed(self), Cow::Owned))
    }
}

/// Fails if a save needs what [`Snapshot::migrated`] does.
pub(crate) fn check_migrated(snapshot: &Snapshot, registry: &Registry) -> Result<()> {
    if merge::is_needed(snapshot, registry) || track::is_needed(snapshot, registry.tracks())? {
        return Err(Error::misuse(
            "the save needs world migrations: load what `snapshot.migrated(&registry)?` returns",
        ));
    }
    Ok(())
}
