//! Schema locks: from files, from saves, and what one has that another has not.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bonfire::{Limits, SchemaLock, Snapshot};

use crate::compatibility::Build;
use crate::exit::Failure;
use crate::file::{OnDamage, SaveFile};
use crate::read::FileKind;

/// The lock at `path`, which must be there.
pub(crate) fn read(path: &Path) -> Result<SchemaLock, Failure> {
    let missing = "there is no schema lock: `bonfire schema lock SAVE..` makes one out of saves, and a test of the game that \
                   calls `check_schemas` one out of the game";
    read_if_there(path)?.ok_or_else(|| Failure::file(path, missing))
}

/// The lock at `path`, if there is one.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<SchemaLock>, Failure> {
    match bonfire_store::read_schema_lock(path) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Failure::named(&error)),
    }
}

/// The build that the lock at `path` describes.
pub(crate) fn build(path: &Path) -> Result<Build, Failure> {
    let lock = read(path)?;
    let registry = lock.registry().map_err(|error| Failure::text(path, &error))?;
    Ok(Build { lock, registry })
}

/// The schemas of a save.
pub(crate) fn of_save(path: &Path) -> Result<SchemaLock, Failure> {
    let of = |file: SaveFile| SchemaLock::of_snapshot(&file.open(OnDamage::Fail)?.snapshot);
    of(SaveFile::read(path)?).map_err(|error| Failure::whole_save(path, error))
}

/// The schemas of a file that is a lock or a save, and whether it is a save. Locks are text and saves never are, from their first byte on. Pipes are
/// welcome: a lock of an earlier release comes out of version control.
pub(crate) fn of_either(path: &Path) -> Result<(SchemaLock, bool), Failure> {
    FileKind::require(path, FileKind::Save, &[])?;
    let unreadable = |error: std::io::Error| Failure::file(path, error);
    let bytes_max = Limits::default().raw_bytes_max.saturating_mul(2);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Failure::file(
            path,
            format!("more than {bytes_max} bytes are more than this tool reads"),
        ));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => {
            SchemaLock::parse(text).map(|lock| (lock, false)).map_err(|error| Failure::text(path, &error))
        }
        Err(_) => Snapshot::open(&bytes)
            .and_then(|snapshot| Ok((SchemaLock::of_snapshot(&snapshot)?, true)))
            .map_err(|error| Failure::whole_save(path, error)),
    }
}

/// Schemas of a lock as its text has them: the key, the version in words, the bytes.
type LockedSchemas<'t> = BTreeSet<(&'t str, &'t str, &'t str)>;

/// What `after` has that `before` has not, one line each.
pub(crate) fn added(before: &SchemaLock, after: &SchemaLock) -> Vec<String> {
    let (before, after) = (before.to_string(), after.to_string());
    let (before, after) = (forms(&before), forms(&after));
    after.difference(&before).map(|(key, version, _)| format!("+ `{key}` {version}")).collect()
}

/// The schemas in the text of a lock. The text is where they are public.
fn forms(text: &str) -> LockedSchemas<'_> {
    let (mut key, mut version, mut forms) = ("", "", LockedSchemas::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            key = name;
        } else if line.starts_with("version ") {
            version = line;
        } else if let Some(nodes) = line.strip_prefix("  nodes ") {
            forms.insert((key, version, nodes));
        }
    }
    forms
}
