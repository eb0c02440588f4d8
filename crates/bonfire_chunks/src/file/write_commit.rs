//! Writes a commit to the end of the file: the frames of a save, the frames of a checkpoint if one is due, a commit frame.

use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::DiskFile;

use super::checkpoint_frames::{CheckpointWriter, NewCheckpoint, WrittenCheckpoint};
use super::commit_file::{CommitFile, State};
use super::counter;
use super::frame_writer::{FrameWriter, WRITE_BYTES};
use super::names::write_error;
use super::proof::ProofChain;
use super::replay::digest;
use super::seal::{FrameIdentity, Seal};
use super::writer_state::WriterState;
use crate::format::{Commit, FrameKey, FrameKind, FramePlace, FrameTag};
use crate::frames::{Committed, FrameChange, NewFrame};
use crate::{ChunkPos, Durability};

/// A commit that is in the file.
pub(super) struct WrittenCommit {
    pub(super) committed: Committed,
    /// The checkpoint that was written with it.
    pub(super) checkpoint: Option<WrittenCheckpoint>,
}

impl CommitFile {
    /// Writes a change to the end of the file, with the frames of a checkpoint if one is given. A commit that cannot be written
    /// is cut off.
    pub(super) fn write_commit(
        &self,
        writer: &mut WriterState,
        change: &FrameChange,
        checkpoint: Option<&NewCheckpoint>,
        durability: Durability,
    ) -> Result<WrittenCommit> {
        change.check()?;
        let target = CommitTarget::new(&self.state(), writer.chain)?;
        let written = self.write_buffered(writer, &target, change, checkpoint).map_err(|error| {
            writer.cut_off(&*target.file);
            write_error(&*self.disk, "write", &self.name)(error)
        })?;
        if durability == Durability::Synced {
            writer.sync_saves(&*target.file, &self.name, target.generation)?;
        }
        let written = self.note_commit(writer, target.generation, written);
        if durability == Durability::Synced {
            counter::advance(self.counter.as_ref(), &self.name, target.generation)?;
        }
        Ok(written)
    }

    /// Writes all frames of a commit through the buffer of the writer.
    fn write_buffered(
        &self,
        writer: &mut WriterState,
        target: &CommitTarget,
        change: &FrameChange,
        checkpoint: Option<&NewCheckpoint>,
    ) -> std::io::Result<CommitFrames> {
        let mut out = FrameWriter::new(&*target.file, writer.end, std::mem::take(&mut writer.buffer));
        let written = self.write_frames(writer, target, &mut out, change, checkpoint);
        writer.buffer = out.buffer;
        writer.buffer.shrink_to(2 * WRITE_BYTES);
        written
    }

    /// Writes the frames of a change, those of a checkpoint, and the commit frame.
    fn write_frames(
        &self,
        writer: &WriterState,
        target: &CommitTarget,
        out: &mut FrameWriter<'_>,
        change: &FrameChange,
        checkpoint: Option<&NewCheckpoint>,
    ) -> std::io::Result<CommitFrames> {
        let ChangedFrames { entries, digest } = target.write_change(out, change)?;
        let mut sealed = target.seal_after(&self.state(), &entries)?;
        let checkpoint = match checkpoint {
            None => None,
            Some(checkpoint) => {
                let frames = CheckpointWriter {
                    before: &self.state(),
                    last: &writer.checkpoint,
                    changed: &entries,
                    generation: target.generation,
                    sealed: sealed.as_ref().map(|(seal, chain)| (&**seal, chain)),
                };
                Some(frames.write(out, checkpoint)?)
            }
        };
        let mut commit = Commit {
            header: writer.checkpoint.header.encode(),
            durable: writer.durable,
            digest,
            seal: sealed.as_ref().map(|(seal, _)| seal.info().to_vec()).unwrap_or_default(),
            proof: None,
            entries,
        };
        if let Some((seal, chain)) = &mut sealed {
            chain.prove(seal, &mut commit, target.generation, out.next_offset()).map_err(other)?;
        }
        let key = FrameKey::new(FrameKind::Commit, ChunkPos::default());
        out.frame(key, FrameTag::default(), target.generation, &commit.encode())?;
        out.flush()?;
        let chain = sealed.map(|(_, chain)| chain);
        Ok(CommitFrames { entries: commit.entries, checkpoint, chain, end: out.end })
    }

    /// Notes a commit in the writer and in the state that readers look at.
    fn note_commit(&self, writer: &mut WriterState, generation: u64, written: CommitFrames) -> WrittenCommit {
        let bytes = written.end - writer.end;
        writer.end = written.end;
        writer.chain = written.chain;
        writer.checkpoint.note_commit(&written.entries);
        let mut state = self.state_mut();
        state.generation = generation;
        state.end = written.end;
        for (key, place) in &written.entries {
            if place.is_nowhere() {
                state.indices.remove(*key);
            } else {
                state.indices.set(*key, *place);
            }
        }
        WrittenCommit { committed: Committed { generation, bytes }, checkpoint: written.checkpoint }
    }
}

/// The file that a commit goes to, its number, and how its frames are sealed and proven.
struct CommitTarget {
    file: Arc<dyn DiskFile>,
    generation: u64,
    seal: Option<Arc<Seal>>,
    chain: Option<ProofChain>,
}

impl CommitTarget {
    fn new(state: &State, chain: Option<ProofChain>) -> Result<Self> {
        // No game saves so often: such a file was made by hand.
        let generation = state.generation.checked_add(1);
        let generation =
            generation.ok_or_else(|| Error::corrupt("this world has no number for another save"))?;
        Ok(Self { file: state.file.clone(), generation, seal: state.seal.clone(), chain })
    }

    /// Returns the seal, and the chain of proofs with the state after a commit.
    fn seal_after(
        &self,
        before: &State,
        entries: &[(FrameKey, FramePlace)],
    ) -> std::io::Result<Option<(Arc<Seal>, ProofChain)>> {
        let (Some(seal), Some(chain)) = (&self.seal, self.chain) else { return Ok(None) };
        let chain = chain.with_entries(seal, &before.indices, entries).map_err(other)?;
        Ok(Some((seal.clone(), chain)))
    }

    /// Writes the frames of a change, and a frame without data for each key that is removed.
    fn write_change(
        &self,
        out: &mut FrameWriter<'_>,
        change: &FrameChange,
    ) -> std::io::Result<ChangedFrames> {
        let mut entries = Vec::with_capacity(change.frames.len() + change.removed.len());
        let mut crcs = Vec::with_capacity(change.frames.len());
        for NewFrame { key, tag, data } in &change.frames {
            let written = match &self.seal {
                None => out.frame(*key, *tag, self.generation, data)?,
                Some(seal) => {
                    let (generation, offset) = (self.generation, out.next_offset());
                    let frame = FrameIdentity { key: *key, tag: *tag, generation, offset };
                    out.frame(*key, *tag, generation, &seal.seal(data, frame).map_err(other)?)?
                }
            };
            entries.push((*key, written.place));
            crcs.push(written.crc);
        }
        for key in &change.removed {
            out.frame(*key, FrameTag::REMOVED, self.generation, &[])?;
            entries.push((*key, FramePlace::NOWHERE));
        }
        Ok(ChangedFrames { entries, digest: digest(crcs.into_iter()) })
    }
}

/// The frames of a change that were written.
struct ChangedFrames {
    entries: Vec<(FrameKey, FramePlace)>,
    /// The checksum of their checksums.
    digest: u32,
}

/// All frames of a commit that were written.
struct CommitFrames {
    entries: Vec<(FrameKey, FramePlace)>,
    checkpoint: Option<WrittenCheckpoint>,
    /// The chain of proofs after the commit.
    chain: Option<ProofChain>,
    end: u64,
}

fn other(error: Error) -> std::io::Error {
    std::io::Error::other(error)
}
