//! A save and the records of its journal to the world of the last one.

use std::sync::Arc;

use bonfire::engine::{ComponentTable, RESERVED_PREFIX};
use bonfire::{Delta, Error, Limits, Result, Snapshot};

use super::scan::Record;

/// Applies as many records as can be applied. Returns how many, and why not the next, if there is one.
pub(crate) fn replay(
    base: Snapshot,
    records: &[Record],
    limits: &Limits,
) -> Result<(Snapshot, usize, Option<Error>)> {
    let (deltas, mut refused) = open(records, limits)?;
    let mut used = deltas.len();
    let snapshot = match with_deltas(&base, &deltas, limits) {
        Ok(snapshot) => snapshot,
        Err(error) if is_of_no_use(&error) => {
            // They are whole and do not fit the world or each other. The longest run that does.
            refused = Some(error);
            let (mut fits, mut too_many) = (0, deltas.len());
            let mut best = base.clone();
            while fits + 1 < too_many {
                let middle = fits.midpoint(too_many);
                match with_deltas(&base, &deltas[..middle], limits) {
                    Ok(snapshot) => (fits, best) = (middle, snapshot),
                    Err(error) if is_of_no_use(&error) => {
                        too_many = middle;
                        refused = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            used = fits;
            best
        }
        Err(error) => return Err(error),
    };
    Ok((with_details_of(snapshot, &base), used, refused))
}

/// Whether the bytes are to blame. What is newer than this build, or larger than it was told to read, is not: an older world
/// in its place would be a loss.
fn is_of_no_use(error: &Error) -> bool {
    !error.is_newer_format() && !error.is_limit() && !error.is_unsupported() && !error.is_cancelled()
}

/// The deltas up to the first that cannot be opened, and why that one cannot.
fn open(records: &[Record], limits: &Limits) -> Result<(Vec<Delta>, Option<Error>)> {
    let mut deltas = Vec::with_capacity(records.len());
    let mut table: Option<Arc<ComponentTable>> = None;
    for record in records {
        match open_one(record, &mut table, limits) {
            Ok(delta) => deltas.push(delta),
            Err(error) if is_of_no_use(&error) => return Ok((deltas, Some(error))),
            Err(error) => return Err(error),
        }
    }
    Ok((deltas, None))
}

fn open_one(record: &Record, table: &mut Option<Arc<ComponentTable>>, limits: &Limits) -> Result<Delta> {
    if let Some(bytes) = &record.table {
        *table = Some(ComponentTable::decode(bytes, limits)?);
    }
    let table = table.as_ref().ok_or_else(|| Error::corrupt("nobody has said what components there are"))?;
    let delta = Delta::open(&record.delta, table, limits)?;
    if (delta.since(), delta.now()) != (record.since, record.now) {
        return Err(Error::corrupt("its delta is of other ticks than it says"));
    }
    Ok(delta)
}

/// Deltas are composed before they touch the world, so that the work depends on what they hold, and not on how many
/// there are times how large the world is.
fn with_deltas(base: &Snapshot, deltas: &[Delta], limits: &Limits) -> Result<Snapshot> {
    match Delta::compose_all(deltas, limits)? {
        Some(delta) => base.with_delta_in(&delta, limits),
        None => Ok(base.clone()),
    }
}

/// What was written beside the world when the save was made is not the game's to change by a delta.
fn with_details_of(mut snapshot: Snapshot, base: &Snapshot) -> Snapshot {
    let reserved = base.metadata().iter().filter(|(name, _)| name.starts_with(RESERVED_PREFIX));
    snapshot.add_missing_metadata(reserved.cloned());
    snapshot
}
