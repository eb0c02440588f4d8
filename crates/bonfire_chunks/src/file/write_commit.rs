//! Writes a commit to the end of the file: the frames of a save, the frames of a checkpoint if one is due, a commit frame.

use std::borrow::Cow;
use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::DiskFile;

use super::checkpoint_frames::{CheckpointWriter, NewCheckpoint, WrittenCheckpoint};
use super::commit_file::{CommitFile, State};
use super::counter;
use super::frame_writer::{FrameWriter, WRITE_BYTES};
use super::names::write_error;
use super::pin_frames::{CommitContent, FrameMove, PinEffects, PinFrames, PinOperation};
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
        content: &CommitContent<'_>,
        checkpoint: Option<&NewCheckpoint>,
        durability: Durability,
    ) -> Result<WrittenCommit> {
        content.change.check()?;
        let target = CommitTarget::new(&self.state(), writer.chain)?;
        let written = self.write_buffered(writer, &target, content, checkpoint).map_err(|error| {
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
        content: &CommitContent<'_>,
        checkpoint: Option<&NewCheckpoint>,
    ) -> std::io::Result<CommitFrames> {
        let mut out = FrameWriter::new(&*target.file, writer.end, std::mem::take(&mut writer.buffer));
        let written = self.write_frames(writer, target, &mut out, content, checkpoint);
        writer.buffer = out.buffer;
        writer.buffer.shrink_to(2 * WRITE_BYTES);
        written
    }

    /// Writes the frames of a change, those of pins, those of a checkpoint, and the commit frame.
    fn write_frames(
        &self,
        writer: &WriterState,
        target: &CommitTarget,
        out: &mut FrameWriter<'_>,
        content: &CommitContent<'_>,
        checkpoint: Option<&NewCheckpoint>,
    ) -> std::io::Result<CommitFrames> {
        let mut changed = ChangedFrames::default();
        target.write_change(out, content.change, &mut changed)?;
        let MovedOfPins { moved, crcs: of_pins_alone } =
            target.write_moved(out, &content.operation, &changed, &self.state())?;
        let PinFrames { change: of_pins, effects } =
            PinFrames::plan(&self.state(), content, moved, target.generation);
        target.write_change(out, &of_pins, &mut changed)?;
        let ChangedFrames { entries, crcs } = changed;
        let digest = digest(crcs.into_iter().chain(of_pins_alone));
        let mut sealed = target.seal_after(&self.state(), entries.iter().chain(&effects.returned))?;
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
        Ok(CommitFrames { entries: commit.entries, effects, checkpoint, chain, end: out.end })
    }

    /// Notes a commit in the writer and in the state that readers look at.
    fn note_commit(&self, writer: &mut WriterState, generation: u64, written: CommitFrames) -> WrittenCommit {
        let bytes = written.end - writer.end;
        writer.end = written.end;
        writer.chain = written.chain;
        writer.checkpoint.note_commit(&written.entries);
        writer.checkpoint.note_commit(&written.effects.returned);
        let mut state = self.state_mut();
        state.generation = generation;
        state.end = written.end;
        let State { indices, pins, .. } = &mut *state;
        written.effects.apply(&written.entries, indices, pins);
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
    fn seal_after<'e>(
        &self,
        before: &State,
        entries: impl Iterator<Item = &'e (FrameKey, FramePlace)>,
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
        changed: &mut ChangedFrames,
    ) -> std::io::Result<()> {
        changed.entries.reserve(change.frames.len() + change.removed.len());
        for frame in &change.frames {
            let data = self.sealed(out, frame)?;
            let written = out.frame(frame.key, frame.tag, self.generation, &data)?;
            changed.entries.push((frame.key, written.place));
            changed.crcs.push(written.crc);
        }
        for key in &change.removed {
            out.frame(*key, FrameTag::REMOVED, self.generation, &[])?;
            changed.entries.push((*key, FramePlace::NOWHERE));
        }
        Ok(())
    }

    /// Returns the data of the next frame as it is to be in the file.
    fn sealed<'d>(&self, out: &FrameWriter<'_>, frame: &'d NewFrame) -> std::io::Result<Cow<'d, [u8]>> {
        let NewFrame { key, tag, data } = frame;
        let Some(seal) = &self.seal else { return Ok(Cow::Borrowed(data)) };
        let (generation, offset) = (self.generation, out.next_offset());
        let frame = FrameIdentity { key: *key, tag: *tag, generation, offset };
        seal.seal(data, frame).map(Cow::Owned).map_err(other)
    }

    /// Writes the frames that only pins have and that are moved. Returns from where to where all frames are moved.
    fn write_moved(
        &self,
        out: &mut FrameWriter<'_>,
        operation: &PinOperation<'_>,
        changed: &ChangedFrames,
        before: &State,
    ) -> std::io::Result<MovedOfPins> {
        let PinOperation::Move { held } = operation else { return Ok(MovedOfPins::default()) };
        let of_present = changed.entries.iter().filter(|(key, _)| key.kind.is_pinned());
        let from = |key: &FrameKey| before.indices.get(*key);
        let moved = of_present.filter_map(|(key, to)| Some((*key, from(key)?, *to))).collect();
        let mut all = MovedOfPins { moved, crcs: Vec::new() };
        for (frame, from) in *held {
            let data = self.sealed(out, frame)?;
            let written = out.pinned_frame(frame.key, frame.tag, self.generation, &data)?;
            all.moved.push((frame.key, *from, written.place));
            all.crcs.push(written.crc);
        }
        Ok(all)
    }
}

/// Frames that were moved.
#[derive(Default)]
struct MovedOfPins {
    moved: Vec<FrameMove>,
    /// The checksums of those that only pins have.
    crcs: Vec<u32>,
}

/// The frames of a change that were written.
#[derive(Default)]
struct ChangedFrames {
    entries: Vec<(FrameKey, FramePlace)>,
    crcs: Vec<u32>,
}

/// All frames of a commit that were written.
struct CommitFrames {
    entries: Vec<(FrameKey, FramePlace)>,
    effects: PinEffects,
    checkpoint: Option<WrittenCheckpoint>,
    /// The chain of proofs after the commit.
    chain: Option<ProofChain>,
    end: u64,
}

fn other(error: Error) -> std::io::Error {
    std::io::Error::other(error)
}
