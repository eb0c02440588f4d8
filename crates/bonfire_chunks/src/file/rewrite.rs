//! Rewrites of an open file as a whole: compaction and copies.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bonfire::Result;
use bonfire_store::disk::{Access, Disk, DiskFile};

use super::change::Change;
use super::checkpoint_state::CheckpointState;
use super::chunk_file::{ChunkFile, ReadPin, State};
use super::counter;
use super::entity_section::EntitySection;
use super::indices::Indices;
use super::names::{no_key, take_lock, temporary_name, write_error};
use super::new_file::{FrameProgress, FramesToCopy, NewFile};
use super::seal::Seal;
use super::writer_state::WriterState;
use crate::format::{Flags, FrameKey, FrameKind, Header};

/// A file at some moment, which the next one is made of.
struct FileSnapshot {
    file: Arc<dyn DiskFile>,
    indices: Indices,
    header: Header,
    /// The generation of the file that is made of it.
    generation: u64,
    seal: Option<Arc<Seal>>,
}

impl FileSnapshot {
    /// Returns the file that is to have its frames, sealed as files are today.
    fn next_file<'n>(&self, disk: &'n dyn Disk, name: &'n str, capacity_min: u32) -> Result<NewFile<'n>> {
        if self.header.flags.has(Flags::SEALED) && self.seal.is_none() {
            return Err(no_key(name));
        }
        let seal = self.seal.as_deref().map(Seal::for_next_file).transpose()?.map(Arc::new);
        let proven = if seal.is_some() { Flags::PROVEN } else { 0 };
        let flags = Flags(self.header.flags.0 | proven);
        let header = Header { flags, modified: crate::clock::unix_seconds(), ..self.header.clone() };
        Ok(NewFile { disk, name, header, capacity_min, generation: self.generation, seal })
    }

    fn frames(&self, has_other_writer: bool) -> FramesToCopy<'_> {
        let Self { file, indices, seal, .. } = self;
        FramesToCopy { file: &**file, indices, seal: seal.as_deref(), has_other_writer }
    }
}

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

    /// Writes the file anew without what is dead.
    pub(crate) fn compact(&self, progress: FrameProgress<'_>) -> Result<()> {
        self.compact_with(&Change::default(), progress)
    }

    /// Writes the file anew with a change, and without what is dead.
    pub(super) fn compact_with(&self, change: &Change, progress: FrameProgress<'_>) -> Result<()> {
        self.with_writer(|writer| self.rewrite_in_place(writer, change, progress))
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

    /// Returns the file as it is now.
    fn snapshot(&self) -> FileSnapshot {
        let state = self.state();
        FileSnapshot {
            file: state.file.clone(),
            indices: state.indices.clone(),
            header: state.header.clone(),
            generation: state.generation.saturating_add(1),
            seal: state.seal.clone(),
        }
    }

    /// Replaces the file with one that has its frames and a change, and goes on in it.
    pub(super) fn rewrite_in_place(
        &self,
        writer: &mut WriterState,
        change: &Change,
        progress: FrameProgress<'_>,
    ) -> Result<()> {
        let old = self.snapshot();
        let generation = old.generation;
        let new = old.next_file(&*self.disk, &self.name, self.options.capacity_min)?;
        let (new_file, fresh) = new.write(Some(&old.frames(false)), change, progress)?;
        if let Err(failure) = new.publish() {
            if failure.may_have_name {
                writer.poison("the file that replaces it could not be named durably");
            }
            return Err(failure.error);
        }
        let mut state = self.state_mut();
        let checkpoint = CheckpointState::written(fresh.header.clone(), fresh.side, fresh.tail_start);
        writer.move_to(checkpoint, fresh.chain, fresh.end, generation);
        let moves = state.moves + 1;
        *state = State {
            file: new_file.into(),
            indices: fresh.indices,
            first_bytes: fresh.header.encode(),
            header: fresh.header,
            generation,
            moves,
            seal: new.seal,
            end: fresh.end,
        };
        // What a new file has beside its frames cannot be gained by writing it once more.
        self.dead_bytes_min.store(self.options.dead_bytes_min.max(state.dead_bytes()), Ordering::Relaxed);
        drop(state);
        counter::advance(self.options.counter.as_ref(), &self.name, generation)
    }

    /// Begins a copy of the file as it is now. The world goes on meanwhile.
    pub(crate) fn copy(&self) -> FileCopy<'_> {
        // In this order: what is pinned is what is copied.
        let _pin = self.pin();
        FileCopy {
            snapshot: self.snapshot(),
            capacity_min: self.options.capacity_min,
            has_other_writer: self.access == Access::Read,
            _pin,
        }
    }

    /// Removes a file, and what lies beside it. The lock file stays: without it, two
    /// writers could hold a lock of the same name.
    pub(crate) fn delete(disk: &dyn Disk, name: &str) -> Result<bool> {
        let _lock = take_lock(disk, name)?;
        let mut was_there = false;
        for (number, file) in [name, &temporary_name(name)].into_iter().enumerate() {
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
pub(crate) struct FileCopy<'f> {
    snapshot: FileSnapshot,
    capacity_min: u32,
    has_other_writer: bool,
    _pin: ReadPin<'f>,
}

impl FileCopy<'_> {
    /// Writes it, with a change, to another file, which is replaced as a whole.
    pub(crate) fn write(
        self,
        disk: &dyn Disk,
        name: &str,
        change: &Change,
        progress: FrameProgress<'_>,
    ) -> Result<()> {
        let _lock = take_lock(disk, name)?;
        let new = self.snapshot.next_file(disk, name, self.capacity_min)?;
        drop(new.write(Some(&self.snapshot.frames(self.has_other_writer)), change, progress)?);
        new.publish().map_err(|failure| failure.error)
    }
}
