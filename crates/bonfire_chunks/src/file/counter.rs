//! A place that remembers the newest save of a sealed file, so that an old copy of the whole file is noticed.

use bonfire::{Error, Result};

#[cfg(feature = "seal")]
pub(crate) type SaveCounter = std::sync::Arc<dyn bonfire_store::TrustedCounter>;

/// Without the feature there is no such place.
#[cfg(not(feature = "seal"))]
pub(crate) type SaveCounter = super::no_seal::NoCounter;

/// Returns the newest save that was counted for a file; 0 if there is none.
pub(crate) fn newest(counter: Option<&SaveCounter>, name: &str) -> Result<u64> {
    counter.map_or(Ok(0), |counter| counter.newest(&family(name)))
}

/// Counts a save that is durable.
pub(super) fn advance(counter: Option<&SaveCounter>, name: &str, generation: u64) -> Result<()> {
    counter.map_or(Ok(()), |counter| counter.advance(&family(name), generation))
}

/// Refuses a file whose newest save was followed by others. `is_proven` is false for a file that does not prove its number.
pub(super) fn check(
    counter: Option<&SaveCounter>,
    name: &str,
    generation: u64,
    is_proven: bool,
) -> Result<()> {
    let newest = newest(counter, name)?;
    if generation < newest || newest > 0 && !is_proven {
        return Err(Error::rollback(format!(
            "`{name}` is older than its save {newest}: somebody has put it back"
        )));
    }
    Ok(())
}

/// Names that differ in case alone may be one file.
fn family(name: &str) -> String {
    name.to_ascii_lowercase()
}
