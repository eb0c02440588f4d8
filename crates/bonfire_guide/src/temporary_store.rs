//! A directory of saves for tests.

use bonfire::Result;
use bonfire_store::DirStore;
use bonfire_store::disk::MemoryDisk;

/// Stands in for [`DirStore`] in a block of the guide, so that its test leaves no files behind.
pub struct TemporaryStore;

impl TemporaryStore {
    /// Opens a new directory in memory. Takes the arguments of [`DirStore::for_app`].
    pub fn for_app(_studio: &str, _game: &str) -> Result<DirStore> {
        // The call in the block must be one that the real store has.
        let _: fn(&str, &str) -> Result<DirStore> = DirStore::for_app;
        DirStore::on(MemoryDisk::new())
    }
}
