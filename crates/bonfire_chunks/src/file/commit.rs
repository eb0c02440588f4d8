//! Saves: commits, and the decision whether a checkpoint is due.

use bonfire::Result;

use super::chunk_file::ChunkFile;
use super::counter;
use super::pin_frames::CommitContent;
use super::writer_state::WriterState;
use crate::Durability;
use crate::format::{FrameKey, FrameKind, Version};
use crate::frames::{Committed, FrameChange, NewFrame};

impl ChunkFile {
    /// Saves a change: all of it or nothing.
    pub(crate) fn commit(&self, change: FrameChange, durability: Durability) -> Result<Committed> {
        let waiting = self.compactions.wait();
        self.with_writer(|writer| {
            drop(waiting);
            if self.is_seal_outdated() || self.is_older_than(change.version()) {
                return self.commit_by_rewrite(writer, &change);
            }
            if durability == Durability::Synced && self.can_checkpoint_with(writer, &change) {
                let committed = self.commit_with_checkpoint(writer, &CommitContent::save(&change), None)?;
                self.next_file().note_save(&change, None);
                return Ok(committed);
            }
            let written =
                self.commits.write_commit(writer, &CommitContent::save(&change), None, durability)?;
            self.next_file().note_save(&change, None);
            // A checkpoint needs memory, too.
            drop(change);
            self.checkpoint_if_due(writer, durability);
            Ok(written.committed)
        })
    }

    /// Returns true if the file must be written anew before it can have frames of this version.
    pub(super) fn is_older_than(&self, version: Version) -> bool {
        self.state().header.version < version
    }

    /// Saves a change by writing the file anew, sealed as files are today, and in the version that the change needs.
    fn commit_by_rewrite(&self, writer: &mut WriterState, change: &FrameChange) -> Result<Committed> {
        change.check()?;
        self.rewrite_in_place(writer, &CommitContent::save(change), &mut |_, _| {})?;
        let state = self.state();
        Ok(Committed { generation: state.generation, bytes: state.file_bytes() })
    }

    /// Returns true if each save has a checkpoint, and the commit of this change can have it.
    fn can_checkpoint_with(&self, writer: &WriterState, change: &FrameChange) -> bool {
        self.options.eager && writer.checkpoint.is_incremental() && !self.changes_chunks(change)
    }

    /// Brings header and table up to date after a save, if it is time to.
    pub(super) fn checkpoint_if_due(&self, writer: &mut WriterState, durability: Durability) {
        if durability == Durability::Synced && self.is_checkpoint_due(writer) {
            self.checkpoint_or_warn(writer);
        }
    }

    fn is_checkpoint_due(&self, writer: &WriterState) -> bool {
        self.options.eager || writer.checkpoint.is_tail_long(writer.end)
    }

    /// Returns true if chunks come or go, so that the table is not the same with other values.
    fn changes_chunks(&self, change: &FrameChange) -> bool {
        let state = self.state();
        let chunks = state.indices.of(FrameKind::Chunk);
        let is_new =
            |frame: &NewFrame| frame.key.kind == FrameKind::Chunk && chunks.get(frame.key.pos).is_none();
        let is_gone = |key: &FrameKey| key.kind == FrameKind::Chunk && chunks.get(key.pos).is_some();
        !chunks.is_sorted() || change.frames.iter().any(is_new) || change.removed.iter().any(is_gone)
    }

    /// Makes what was saved without a sync durable, if there is something, and a writer that could have saved it.
    pub(crate) fn flush_buffered(&self) -> Result<()> {
        let generation = self.state().generation;
        let is_durable = self.writer().as_ref().is_none_or(|writer| writer.durable >= generation);
        if is_durable { Ok(()) } else { self.flush() }
    }

    /// Makes what was saved without a sync durable.
    pub(crate) fn flush(&self) -> Result<()> {
        self.with_writer(|writer| {
            let (file, generation) = {
                let state = self.state();
                (state.file.clone(), state.generation)
            };
            writer.sync_saves(&*file, &self.name, generation)?;
            counter::advance(self.options.counter.as_ref(), &self.name, generation)
        })
    }
}
