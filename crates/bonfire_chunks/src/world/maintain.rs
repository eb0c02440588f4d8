//! Compaction, and worlds that others write to.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use bonfire::Result;
use bonfire_store::disk::Disk;

use super::settings::StoredDimension;
use super::{ChunkWorld, DimensionSettings};
use crate::file::{ChunkFile, CompactionStatus, StepOutcome};

impl ChunkWorld {
    /// Writes a file without what is dead, which takes the place of this one. Reads and saves in other threads go on
    /// meanwhile. `progress` hears how many frames of how many are copied.
    ///
    /// A world whose frames are in another store than a file has nothing to compact, and neither has one that is open
    /// [at](Self::at) a pin.
    ///
    /// The disk needs room for everything that is not dead once more; a compaction that would not fit is an error. One that
    /// fails, or is interrupted by a crash, leaves the world as it is.
    pub fn compact(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        match self.inner.frames.file() {
            Some(file) => file.compact(&mut progress),
            None => Ok(()),
        }
    }

    /// Does one step of a compaction: it copies 256 KiB at most, or one chunk if that is larger. Returns true if there is
    /// more to do.
    ///
    /// A compaction begins if more of the file is dead than may be (see [`compact_above`](crate::ChunkOptions::compact_above)).
    /// Saves in other threads wait for one step at most. While a compaction goes on, the file grows by what is saved. Each
    /// synced [`commit`](crate::Edit::commit) does a step, and so does a [`ChunkWorker`](crate::ChunkWorker) when nothing else waits:
    /// call this only to go on when nothing is saved.
    pub fn step_compaction(&self) -> Result<bool> {
        let Some(file) = self.inner.frames.file() else { return Ok(false) };
        let stepped = file.step_compaction();
        if stepped.is_err() {
            // Not again before there is more to gain.
            file.put_off_compaction();
        }
        Ok(!matches!(stepped?, StepOutcome::Nothing | StepOutcome::Compacted))
    }

    /// A step whose error does not matter to what was saved. Returns true if there is more to do.
    pub(crate) fn step_compaction_or_warn(&self) -> bool {
        self.step_compaction().unwrap_or_else(|error| {
            tracing::warn!(%error, "a chunk world could not be compacted");
            false
        })
    }

    /// Keeps compactions from beginning, and from going on, by themselves: while the game needs the disk for itself.
    /// [`compact`](Self::compact) works all the same.
    pub fn pause_compaction(&self) {
        if let Some(file) = self.inner.frames.file() {
            file.pause_compaction(true);
        }
    }

    /// Ends a [pause](Self::pause_compaction).
    pub fn resume_compaction(&self) {
        if let Some(file) = self.inner.frames.file() {
            file.pause_compaction(false);
        }
    }

    /// Returns true if a step of a compaction would have something to do.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn is_compaction_due(&self) -> bool {
        let status = self.compaction();
        !status.is_paused && (status.is_due || status.is_under_way)
    }

    /// Returns what compactions do, and have done since the world was opened.
    pub fn compaction(&self) -> CompactionStatus {
        self.inner.frames.file().map(|file| file.compaction_status()).unwrap_or_default()
    }

    /// Looks at what another process has saved since: for a world that is open for reading only.
    pub fn refresh(&self) -> Result<()> {
        let world = &*self.inner;
        if world.frames.store().is_writable() {
            return Ok(());
        }
        world.frames.store().refresh()?;
        let mut stored = super::settings::read_settings(&world.frames)?;
        let mut read = Vec::new();
        for dimension in world.dimensions.values() {
            // The file may not have it yet.
            let Some(StoredDimension { header, mut settings }) = stored.remove(&dimension.number) else {
                continue;
            };
            dimension.options.check_file(dimension.number, &header, &settings)?;
            settings.adopt_generator(&dimension.options)?;
            settings.adopt_layers(dimension.number, &dimension.options, &world.frames)?;
            read.push((dimension, header, settings));
        }
        let mut saving = world.saving();
        for (dimension, header, settings) in read {
            dimension.refresh(&header, &settings);
            let settings = DimensionSettings { settings, is_changed: false };
            saving.dimensions.insert(dimension.number, settings);
        }
        // Bodies may have gone anywhere.
        world.ids.forget();
        world.stale_bodies().clear();
        Ok(())
    }

    /// Removes a world from a disk. False if there was none. An error with [`is_conflict`](crate::Error::is_conflict) while somebody writes to it.
    pub fn delete_on(disk: &dyn Disk, name: &str) -> Result<bool> {
        ChunkFile::delete(disk, name)
    }

    /// Removes the world at `path`. False if there was none. An error with [`is_conflict`](crate::Error::is_conflict) while somebody writes to it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn delete(path: impl AsRef<Path>) -> Result<bool> {
        let (disk, name) = super::options::at(path.as_ref())?;
        Self::delete_on(&disk, &name)
    }
}
