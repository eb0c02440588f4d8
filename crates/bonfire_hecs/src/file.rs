//! Saves in files. Browsers have none.

use std::path::Path;

use bonfire::Result;
use bonfire_store::{SaveReport, SaveTarget};
use hecs::World;

use crate::capture::SaveOptions;
use crate::load::{LoadOptions, Loaded, RespawnedIds, load};
use crate::registration::Bonfire;

impl Bonfire {
    /// Saves to a file, which is replaced as a whole or not at all. Hooks run as for
    /// [`capture_with_hooks`](Self::capture_with_hooks).
    pub fn save_to(
        &mut self,
        world: &World,
        path: impl AsRef<Path>,
        options: &SaveOptions,
    ) -> Result<SaveReport> {
        let path = path.as_ref();
        let mut options = options.clone();
        let encode = options.common.prepare_file();
        let snapshot = self.capture_with_hooks(world, &options)?;
        let rope = snapshot.encode(&encode)?;
        bonfire_store::write(path, &rope)?;
        let mut report = SaveReport::new(SaveTarget::from(path), rope.len() as u64, snapshot.entity_count());
        report.notes = snapshot.notes().to_vec();
        report.snapshot = Some(snapshot);
        Ok(report)
    }

    /// Loads a file: see [`load`](Self::load).
    pub fn load_from(
        &mut self,
        world: &mut World,
        path: impl AsRef<Path>,
        options: impl Into<LoadOptions>,
    ) -> Result<Loaded> {
        let options = options.into();
        let snapshot = bonfire_store::read(path.as_ref(), &options.limits.clone().unwrap_or_default())?;
        load(self, world, &snapshot, options, RespawnedIds::New)
    }
}
