//! A directory of saves for tests.

use bonfire::{Error, Result};
use bonfire_store::DirStore;

/// Stands in for [`DirStore`] in a block of the guide, so that its test writes into a temporary directory.
pub struct TemporaryStore;

impl TemporaryStore {
    /// Opens a new temporary directory. Takes the arguments of [`DirStore::for_app`].
    pub fn for_app(studio: &str, game: &str) -> Result<DirStore> {
        // The call in the block must be one that the real store has.
        let _: fn(&str, &str) -> Result<DirStore> = DirStore::for_app;
        let directory = tempfile::tempdir().map_err(|error| Error::io("no temporary directory", error))?;
        DirStore::open(directory.keep().join(studio).join(game))
    }
}
