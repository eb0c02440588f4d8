//! Files that are written in one go from an open one: replacements of itself, and copies.

use std::sync::atomic::Ordering;

use bonfire::Result;
use bonfire_store::disk::{Access, Disk};

use super::checkpoint_state::CheckpointState;
use super::chunk_file::ChunkFile;
use super::commit_file::State;
use super::counter;
use super::entity_section::EntitySection;
use super::file_snapshot::FileSnapshot;
use super::names::{TemporaryName, take_lock, write_error};
use super::new_file::FrameProgress;
use super::pin_frames::CommitContent;
use super::writer_state::WriterState;
use crate::format::{FrameKey, FrameKind, Header, Version};
use crate::frames::FrameChange;

impl ChunkFile {
    /// The document's entity section: the bodies of all chunks.
    pub(crate) fn entity_section(&self) -> Result<Vec<u8>> {
        let keys: Vec<FrameKey> = {
            let state = self.state();
            let bodies = state.indices.of(FrameKind::Bodies).range(&crate::ChunkRect::ALL);
            bodies.into_iter().map(|(pos, _)| FrameKey::new(FrameKind::Bodies, pos)).collect()
        };
        let mut section = EntitySection::default();
        for key in keys {
            match self.read(key, |_, data| {
                section.add(key, data);
                Ok(())
            }) {
                // Those stay out of it as they stay out of everything.
                Err(error) if error.is_corrupt() => {}
                other => drop(other?),
            }
        }
        Ok(section.encode())
    }

    /// Writes the file anew with a change, and without what is dead.
    pub(super) fn compact_with(
        &self,
        content: &CommitContent<'_>,
        progress: FrameProgress<'_>,
    ) -> Result<()> {
        self.with_writer(|writer| self.rewrite_in_place(writer, content, progress))
    }

    /// Puts off the next compaction until twice as much is dead. Called after a compaction that failed.
    pub(crate) fn put_off_compaction(&self) {
        let dead = self.state().dead_bytes();
        self.dead_bytes_min.store(dead.saturating_mul(2), Ordering::Relaxed);
    }

    /// Returns true if more of the file is dead than may be.
    pub(crate) fn is_compaction_due(&self) -> bool {
        let state = self.state();
        let (dead, len) = (state.dead_bytes(), state.file_bytes());
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let is_over = |share: f64| dead as f64 > len as f64 * share;
        dead > self.dead_bytes_min.load(Ordering::Relaxed) && self.options.dead_share_max.is_some_and(is_over)
    }

    /// Replaces the file with one that has its frames.
    pub(super) fn rewrite_as_is(&self, writer: &mut WriterState) -> Result<()> {
        let nothing = FrameChange::default();
        self.rewrite_in_place(writer, &CommitContent::save(&nothing), &mut |_, _| {})
    }

    /// Replaces the file with one of this version that has its frames.
    pub(super) fn rewrite_in_version(&self, writer: &mut WriterState, version: Version) -> Result<()> {
        let nothing = FrameChange::default();
        let mut old = FileSnapshot::of(&self.commits);
        old.header.version = old.header.version.max(version);
        self.replace_by(writer, old, &CommitContent::save(&nothing), &mut |_, _| {})
    }

    /// Replaces the file with one that has its frames and a change, and goes on in it.
    pub(super) fn rewrite_in_place(
        &self,
        writer: &mut WriterState,
        content: &CommitContent<'_>,
        progress: FrameProgress<'_>,
    ) -> Result<()> {
        self.replace_by(writer, FileSnapshot::of(&self.commits), content, progress)
    }

    fn replace_by(
        &self,
        writer: &mut WriterState,
        old: FileSnapshot,
        content: &CommitContent<'_>,
        progress: FrameProgress<'_>,
    ) -> Result<()> {
        self.next_file().abandon();
        let generation = old.generation;
        let new = old.next_file(&*self.disk, &self.name, self.options.capacity_min)?;
        let (new_file, fresh) = new.write(Some(&old.frames(false)), content, progress)?;
        if let Err(failure) = new.publish() {
            if failure.may_have_name {
                writer.poison("the file that replaces it could not be named durably");
            }
            return Err(failure.error);
        }
        let checkpoint = CheckpointState::written(fresh.header.clone(), fresh.side, fresh.tail_start);
        writer.move_to(checkpoint, fresh.chain, fresh.end, generation);
        drop(self.go_on_with(State {
            file: new_file,
            indices: fresh.indices,
            pins: fresh.pins,
            first_bytes: fresh.header.encode(),
            header: fresh.header,
            generation,
            moves: 0,
            seal: new.seal,
            end: fresh.end,
        }));
        counter::advance(self.options.counter.as_ref(), &self.name, generation)
    }

    /// Lets readers go on in the file that has taken the place of this one. Returns the old one.
    pub(super) fn go_on_with(&self, new: State) -> State {
        let mut state = self.state_mut();
        let (moves, cell_bytes) = (state.moves + 1, state.header.cell_bytes);
        let new = State { moves, header: Header { cell_bytes, ..new.header }, ..new };
        let old = std::mem::replace(&mut *state, new);
        // What a new file has beside its frames cannot be gained by writing it once more.
        self.dead_bytes_min.store(self.options.dead_bytes_min.max(state.dead_bytes()), Ordering::Relaxed);
        old
    }

    /// Begins a copy of the file as it is now. The world goes on meanwhile.
    pub(crate) fn copy(&self) -> FileCopy {
        FileCopy {
            snapshot: FileSnapshot::of(&self.commits),
            capacity_min: self.options.capacity_min,
            has_other_writer: self.access == Access::Read,
        }
    }

    /// Removes a file, and what lies beside it. The lock file stays: without it, two
    /// writers could hold a lock of the same name.
    pub(crate) fn delete(disk: &dyn Disk, name: &str) -> Result<bool> {
        let _lock = take_lock(disk, name)?;
        let mut was_there = false;
        let temporaries = TemporaryName::ALL.map(|temporary| temporary.beside(name));
        for (number, file) in [name, &temporaries[0], &temporaries[1]].into_iter().enumerate() {
            match disk.remove(file) {
                Ok(()) => was_there |= number == 0,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(write_error(disk, "remove", file)(error)),
            }
        }
        disk.sync_dir().map_err(write_error(disk, "remove", name))?;
        Ok(was_there)
    }
}

/// A file as it was when the copy began.
pub(crate) struct FileCopy {
    snapshot: FileSnapshot,
    capacity_min: u32,
    has_other_writer: bool,
}

impl FileCopy {
    /// Makes it a copy of the file as of a pin, without any pins.
    pub(super) fn go_back_to(&mut self, number: u32) {
        self.snapshot.go_back_to(number);
    }

    /// Writes it, with a change, to another file, which is replaced as a whole.
    pub(crate) fn write(
        self,
        disk: &dyn Disk,
        name: &str,
        change: &FrameChange,
        progress: FrameProgress<'_>,
    ) -> Result<()> {
        let _lock = take_lock(disk, name)?;
        let new = self.snapshot.next_file(disk, name, self.capacity_min)?;
        let content = CommitContent::save(change);
        drop(new.write(Some(&self.snapshot.frames(self.has_other_writer)), &content, progress)?);
        new.publish().map_err(|failure| failure.error)
    }
}
