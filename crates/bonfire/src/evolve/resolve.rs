//! Decides what a saved component becomes, once per component and before a row is looked at.

use super::upgrade_path::UpgradePath;
use crate::column::Component;
use crate::context::SchemaChange;
use crate::error::{Error, Result};
use crate::registry::Registry;

/// What a load does with one saved component.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// Loaded as it is, into the registered component with this number.
    Same(usize),
    /// Loaded field by field: the same fields, laid out in another way, by another compiler, a migration or a tool.
    OtherLayout(usize),
    /// Loaded by name: the fields are not quite those of this build.
    #[expect(missing_docs, reason = "see above")]
    ByName { target: usize, changes: Vec<SchemaChange> },
    /// Loaded through so many steps from an older version.
    #[expect(missing_docs, reason = "see above")]
    Upgraded { target: usize, version: u32, steps: usize, changes: Vec<SchemaChange> },
    /// Dropped: this build has the component as transient.
    Transient(usize),
    /// Not registered: carried, dropped or refused.
    Unknown,
}

impl Resolution {
    /// The number of the registered component that the rows go to.
    pub fn target(&self) -> Option<usize> {
        match self {
            Self::Same(target)
            | Self::OtherLayout(target)
            | Self::ByName { target, .. }
            | Self::Upgraded { target, .. } => Some(*target),
            Self::Transient(_) | Self::Unknown => None,
        }
    }

    /// What is different between the saved type and the one of this build.
    pub fn changes(&self) -> &[SchemaChange] {
        match self {
            Self::ByName { changes, .. } | Self::Upgraded { changes, .. } => changes,
            _ => &[],
        }
    }
}

/// Decides how a saved component becomes a registered one, and returns the path if it is not straight.
pub(crate) fn resolve(
    component: &Component,
    registry: &Registry,
) -> Result<(Resolution, Option<UpgradePath>)> {
    let Some(target) = registry.index_of_saved(&component.key) else {
        return Ok((Resolution::Unknown, None));
    };
    let descriptor = &registry.descriptors()[target];
    if descriptor.is_transient() {
        return Ok((Resolution::Transient(target), None));
    }
    let path = || {
        let (version, known) = (component.version, descriptor.version());
        if version > known {
            let message = format!("version {version} is newer than this build ({known}): update the game");
            return Err(Error::newer_format(message));
        }
        let path = match version == known {
            true if component.schema_fingerprint == descriptor.schema().fingerprint() => return Ok(None),
            true => Vec::new(),
            false => registry.upgraders(descriptor.key()).path(version, descriptor)?,
        };
        UpgradePath::new(component.schema()?, path, descriptor).map(Some)
    };
    let path = path().map_err(|error| error.in_key(&component.key))?;
    Ok(match path {
        None if component.row == descriptor.row => (Resolution::Same(target), None),
        None => (Resolution::OtherLayout(target), None),
        Some(path) => {
            let changes = path.changes.clone();
            let resolution = match path.steps {
                0 => Resolution::ByName { target, changes },
                steps => Resolution::Upgraded { target, version: component.version, steps, changes },
            };
            (resolution, Some(path))
        }
    })
}
