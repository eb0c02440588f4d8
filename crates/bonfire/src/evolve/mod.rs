//! How saves of older builds become what this build expects: every save ever shipped still loads.
//!
//! | file | |
//! |---|---|
//! | `resolve` | decides what a saved component becomes |
//! | `upgrade_path` | the conversions and steps between its bytes and rows of this build |
//! | `convert_column` | runs the steps on bytes over the rows of a column |
//! | `merge_fields` | puts fields that an older build carried back into their values |
//! | `schema_lock` | the schemas that were ever released, and what a new build may not do to them |
//! | `schema_lock_path`, `schema_lock_text` | its parts: a saved field by its path; the text form |

mod convert_column;
mod merge_fields;
mod resolve;
mod schema_lock;
mod schema_lock_path;
mod schema_lock_text;
mod upgrade_path;

pub use self::resolve::Resolution;
pub(crate) use self::resolve::resolve;
pub use self::schema_lock::{LockProblem, SchemaLock};
pub(crate) use self::upgrade_path::{UpgradeContext, UpgradePath};

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::migration;
use crate::registry::Registry;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// The save as a build expects worlds to be, before its components are looked at one by one: all world migrations have
    /// run, and fields that an older build carried are back in their values. A save that needs nothing of that is only
    /// borrowed. This one stays as it is, whatever a migration does.
    pub fn migrated(&self, registry: &Registry) -> Result<Cow<'_, Self>> {
        self.migrated_in(registry, &Limits::default())
    }

    /// As [`migrated`](Self::migrated), within limits.
    pub fn migrated_in(&self, registry: &Registry, limits: &Limits) -> Result<Cow<'_, Self>> {
        let merged = merge_fields::merge(self, registry, limits)?;
        let migrated = migration::migrate(merged.as_ref().unwrap_or(self), registry.tracks(), limits)?;
        Ok(migrated.or(merged).map_or(Cow::Borrowed(self), Cow::Owned))
    }
}

/// Fails if a save needs what [`Snapshot::migrated`] does.
pub(crate) fn check_migrated(snapshot: &Snapshot, registry: &Registry) -> Result<()> {
    if merge_fields::is_needed(snapshot, registry) || migration::is_needed(snapshot, registry.tracks())? {
        return Err(Error::misuse(
            "the save needs world migrations: load what `snapshot.migrated(&registry)?` returns",
        ));
    }
    Ok(())
}
