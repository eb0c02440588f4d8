//! Copies of a world while the game goes on.

#[cfg(not(target_arch = "wasm32"))]
use std::path::Path;

use bonfire::{Error, Result};
use bonfire_store::disk::Disk;

use super::{ChunkWorld, CommitReport, Edit};
use crate::frames::FrameChange;

impl ChunkWorld {
    /// Writes a copy of the world as it is now to another path, while the game goes on. A file that is there is replaced as a
    /// whole. Of a world that is open for reading, an error with [`is_conflict`](crate::Error::is_conflict) says that another process has moved
    /// chunks meanwhile: [`refresh`](Self::refresh), and try again.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn backup_to(&self, path: impl AsRef<Path>) -> Result<()> {
        let (disk, name) = super::options::at(path.as_ref())?;
        self.backup_on(&disk, &name, |_, _| {})
    }

    /// The same on a disk of your own, with progress.
    pub fn backup_on(&self, disk: &dyn Disk, name: &str, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        // A store that is no file is copied as it is while nothing is saved.
        let turn = self.inner.frames.is_store().then(|| self.inner.commit_turn());
        let copied = self.inner.frames.copy()?.write(disk, name, &FrameChange::default(), &mut progress);
        drop(turn);
        copied
    }

    /// Writes the world with the changes of an edit to another path ("save as"). This file stays as it is, and so does the world:
    /// to go on in the new one, open it.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn save_to(&self, path: impl AsRef<Path>, edit: &mut Edit) -> Result<CommitReport> {
        let (disk, name) = super::options::at(path.as_ref())?;
        self.save_on(&disk, &name, edit)
    }

    /// The same on a disk of your own.
    pub fn save_on(&self, disk: &dyn Disk, name: &str, edit: &mut Edit) -> Result<CommitReport> {
        self.check_own(edit)?;
        if edit.pin.is_some() {
            return Err(Error::misuse("a pin is made in its own world: commit the edit that has it"));
        }
        let mut report = CommitReport::default();
        let contents = self.inner.contents_of(edit)?;
        let turn = self.inner.commit_turn();
        let (change, copy) = {
            let mut saving = self.inner.saving();
            let (change, _) = self.inner.change_of(edit, contents, &mut saving, &mut report)?;
            (change, self.inner.frames.copy()?)
        };
        // The game does not wait for what is written from here on, unless the frames are in a store that is no file.
        let turn = self.inner.frames.is_store().then_some(turn);
        copy.write(disk, name, &change, &mut |_, _| {})?;
        drop(turn);
        edit.clear();
        Ok(report)
    }
}
