//! Commits: the frames of a save and a commit frame, written to the end of the file.

use bonfire::{Error, Result};

use super::checkpoint::{NewCheckpoint, WrittenCheckpoint};
use super::frame_writer::{FrameWriter, WRITE_BYTES};
use super::replay::digest;
use super::writer_state::{TableDirt, WriterState};
use super::{ChunkFile, Seal, State, io_error, no_key};
use crate::format::{Commit, FrameKey, FrameKind, FramePlace, FrameTag};
use crate::{ChunkPos, Durability};

/// Longer data has no size word.
pub(super) const DATA_BYTES_MAX: usize = (u32::MAX - 4096) as usize;

/// A frame that is to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewFrame {
    pub(crate) key: FrameKey,
    pub(crate) tag: FrameTag,
    pub(crate) data: Vec<u8>,
}

/// The changes of a save. No key is there twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) frames: Vec<NewFrame>,
    pub(crate) removed: Vec<FrameKey>,
}

impl Change {
    /// Refuses a change with frames that must be sealed, if the file is sealed and there is no key.
    pub(super) fn check_key(&self, name: &str, seal: Option<&Seal>, seal_info: &[u8]) -> Result<()> {
        let needs_key = || self.frames.iter().any(|frame| Seal::covers(frame.key.kind));
        if !seal_info.is_empty() && seal.is_none() && needs_key() {
            return Err(no_key(name));
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.removed.is_empty()
    }
}

/// The result of a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
}

impl ChunkFile {
    /// Runs `work` with the writer, if there is one that can still write.
    pub(super) fn with_writer<T>(&self, work: impl FnOnce(&mut WriterState) -> Result<T>) -> Result<T> {
        let mut writer = self.writer();
        let Some(writer) = writer.as_mut() else {
            return Err(Error::misuse(format!("`{}` is open for reading only, or closed", self.name)));
        };
        if writer.poisoned {
            return Err(Error::io(
                format_args!("cannot save to `{}`", self.name),
                std::io::Error::other(
                    "an earlier sync failed, so what the disk has is not known: open the world again",
                ),
            ));
        }
        work(writer)
    }

    /// Saves a change: all of it or nothing.
    pub(crate) fn commit(&self, change: Change, durability: Durability) -> Result<Committed> {
        self.with_writer(|writer| self.commit_with(writer, change, durability))
    }

    pub(super) fn commit_with(
        &self,
        writer: &mut WriterState,
        change: Change,
        durability: Durability,
    ) -> Result<Committed> {
        let writes_checkpoint = self.options.eager
            && durability == Durability::Synced
            && matches!(writer.table, TableDirt::Some(_))
            && writer.side.is_some()
            && !self.changes_chunks(&change);
        let checkpoint = writes_checkpoint.then_some(NewCheckpoint { side_is_whole: false, entities: None });
        let appended = self.write_commit(writer, change, checkpoint, durability)?;
        if let Some(section) = appended.section {
            self.finish_checkpoint(writer, section);
        } else if durability == Durability::Synced && self.is_checkpoint_due(writer) {
            self.checkpoint_with(writer, None);
        }
        Ok(appended.committed)
    }

    /// The header has them from the next checkpoint on.
    pub(crate) fn set_cell_bytes(&self, cell_bytes: u8) {
        if self.state().header.cell_bytes != cell_bytes {
            self.state_mut().header.cell_bytes = cell_bytes;
        }
    }

    /// Whether chunks come or go, so that the table is not the same with other values.
    fn changes_chunks(&self, change: &Change) -> bool {
        let state = self.state();
        let chunks = state.indices.of(FrameKind::Chunk);
        let is_new =
            |frame: &NewFrame| frame.key.kind == FrameKind::Chunk && chunks.get(frame.key.pos).is_none();
        let is_gone = |key: &FrameKey| key.kind == FrameKind::Chunk && chunks.get(key.pos).is_some();
        !chunks.is_sorted() || change.frames.iter().any(is_new) || change.removed.iter().any(is_gone)
    }

    /// Writes a save to the end of the file, with a checkpoint if one is given.
    pub(super) fn write_commit(
        &self,
        writer: &mut WriterState,
        change: Change,
        checkpoint: Option<NewCheckpoint>,
        durability: Durability,
    ) -> Result<WrittenCommit> {
        check_sizes(&change)?;
        let (file, generation, seal, seal_info) = {
            let state = self.state();
            (state.file.clone(), state.generation.checked_add(1), state.seal.clone(), state.seal_info.clone())
        };
        // Nobody saves so often: somebody made such a file.
        let generation =
            generation.ok_or_else(|| Error::corrupt("this world has no number for another save"))?;
        change.check_key(&self.name, seal.as_deref(), &seal_info)?;
        let mut buffer = std::mem::take(&mut writer.buffer);
        buffer.clear();
        let mut out = FrameWriter { file: &*file, at: writer.end, buffer, end: writer.end };
        let mut append = || -> std::io::Result<CommitBytes> {
            let mut entries = Vec::with_capacity(change.frames.len() + change.removed.len());
            let mut crcs = Vec::with_capacity(change.frames.len());
            for NewFrame { key, tag, data } in &change.frames {
                let appended = match &seal {
                    None => out.frame(*key, *tag, generation, data)?,
                    Some(seal) => {
                        let sealed =
                            seal.seal(data, *key, *tag, generation).map_err(std::io::Error::other)?;
                        out.frame(*key, *tag, generation, &sealed)?
                    }
                };
                entries.push((*key, appended.place));
                crcs.push(appended.crc);
            }
            for key in &change.removed {
                out.frame(*key, FrameTag::REMOVED, generation, &[])?;
                entries.push((*key, FramePlace::NOWHERE));
            }
            let section = match &checkpoint {
                Some(checkpoint) => {
                    Some(self.append_checkpoint(writer, &mut out, &entries, checkpoint, generation)?)
                }
                None => None,
            };
            let commit = Commit {
                header: writer.header.encode(),
                durable: writer.durable,
                digest: digest(crcs.into_iter()),
                seal: seal_info.clone(),
                entries,
            };
            out.frame(
                FrameKey::new(FrameKind::Commit, ChunkPos::default()),
                FrameTag::default(),
                generation,
                &commit.encode(),
            )?;
            out.flush()?;
            Ok(CommitBytes { entries: commit.entries, section, end: out.end })
        };
        let written = append();
        writer.buffer = out.buffer;
        writer.buffer.shrink_to(2 * WRITE_BYTES);
        let written = written.map_err(|error| {
            // The next save goes to the same place. What lies there must not be taken for a part of it.
            if file.set_len(writer.end).is_err() {
                writer.poisoned = true;
            }
            io_error("write", &self.name)(error)
        })?;
        if durability == Durability::Synced {
            writer.sync(&*file, &self.name)?;
            writer.durable = generation;
        }
        let bytes = written.end - writer.end;
        writer.end = written.end;
        writer.note(&written.entries);
        let mut state = self.state_mut();
        state.generation = generation;
        state.end = written.end;
        state.apply(&written.entries, &mut writer.table);
        Ok(WrittenCommit { committed: Committed { generation, bytes }, section: written.section })
    }

    /// Makes what was saved without a sync durable, if there is something, and somebody who could have saved it.
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
            writer.sync(&*file, &self.name)?;
            writer.durable = generation;
            Ok(())
        })
    }
}

impl State {
    /// Notes what a save has changed.
    fn apply(&mut self, entries: &[(FrameKey, FramePlace)], table: &mut TableDirt) {
        for (key, place) in entries {
            if place.is_nowhere() {
                self.indices.remove(*key);
            } else {
                self.indices.set(*key, *place);
            }
            if let (FrameKind::Chunk, TableDirt::Some(dirty)) = (key.kind, &mut *table) {
                dirty.insert(key.pos);
            }
        }
    }
}

struct CommitBytes {
    entries: Vec<(FrameKey, FramePlace)>,
    section: Option<WrittenCheckpoint>,
    end: u64,
}

pub(super) struct WrittenCommit {
    committed: Committed,
    pub(super) section: Option<WrittenCheckpoint>,
}

fn check_sizes(change: &Change) -> Result<()> {
    match change.frames.iter().find(|frame| frame.data.len() > DATA_BYTES_MAX) {
        Some(frame) => Err(Error::limit(format!(
            "the {} at {} has {} bytes, more than a frame can hold",
            frame.key.kind.name(),
            frame.key.pos,
            frame.data.len()
        ))),
        None => Ok(()),
    }
}
