//! Checkpoints: bring header, table and side index up to date with the saves, and let the table grow.

use std::collections::BTreeSet;

use bonfire::{Error, Result};
use bonfire_store::disk::DiskFile;

use super::checkpoint_frames::{NewCheckpoint, WrittenCheckpoint};
use super::checkpoint_state::{CheckpointState, TableChanges};
use super::chunk_file::ChunkFile;
use super::frame_scanner::FrameScanner;
use super::names::{path_of, write_error};
use super::pin_frames::CommitContent;
use super::pin_frames::PinOperation;
use super::writer_state::WriterState;
use crate::Durability;
use crate::format::{
    Entry, FrameKey, FrameKind, FramePlace, HEADER_BYTES, Header, SIZE_BYTES, Version, decode_places,
    encode_image, encode_places,
};
use crate::frames::{Committed, FrameChange, NewFrame};
use crate::index::Index;

/// Entries of the table that are so near each other are written together with those between them.
const BYTES_APART_MAX: u32 = 4096;

impl ChunkFile {
    /// Brings header and table up to date. If something fails, saves that are durable stay so, and the next checkpoint writes
    /// everything.
    pub(super) fn checkpoint_or_warn(&self, writer: &mut WriterState) {
        if let Err(error) = self.checkpoint(writer, None) {
            tracing::warn!(world = %self.name, %error, "a chunk world could not be checkpointed");
        }
    }

    /// Brings header and table up to date. `entities` is the entity section.
    pub(super) fn checkpoint(
        &self,
        writer: &mut WriterState,
        entities: Option<Vec<u8>>,
    ) -> Result<Checkpointed> {
        if self.is_seal_outdated() {
            self.rewrite_as_is(writer)?;
            return Ok(Checkpointed::InNewFile);
        }
        let keys_changed = !self.state().indices.of(FrameKind::Chunk).is_sorted();
        if keys_changed {
            writer.checkpoint.mark_table_changed();
            self.state_mut().indices.sort();
        }
        let count = self.state().indices.of(FrameKind::Chunk).len() as u64;
        if count > u64::from(writer.checkpoint.header.capacity()) {
            // The file that replaces this one has more room. Opening replays a few saves more until then.
            if self.next_file().is_under_way() && !self.options.eager {
                return Ok(Checkpointed::PutOff);
            }
            if self.grow(writer, count)? == Growth::NewFile {
                return Ok(Checkpointed::InNewFile);
            }
        }
        let nothing = FrameChange::default();
        self.commit_with_checkpoint(writer, &CommitContent::save(&nothing), entities)?;
        Ok(Checkpointed::InPlace)
    }

    /// Writes a checkpoint of everything, whether it looks necessary or not.
    pub(super) fn checkpoint_all(&self) -> Result<()> {
        self.with_writer(|writer| {
            writer.checkpoint.mark_all_changed();
            self.checkpoint(writer, None).map(drop)
        })
    }

    /// Saves a change and writes a checkpoint with it.
    pub(super) fn commit_with_checkpoint(
        &self,
        writer: &mut WriterState,
        content: &CommitContent<'_>,
        entities: Option<Vec<u8>>,
    ) -> Result<Committed> {
        let checkpoint = NewCheckpoint { entities };
        let written = self.commits.write_commit(writer, content, Some(&checkpoint), Durability::Synced)?;
        if let Some(checkpoint) = written.checkpoint {
            self.finish_checkpoint(writer, checkpoint);
        }
        Ok(written.committed)
    }

    /// Writes the table and the header, now that the save with the frames of the checkpoint is durable.
    fn finish_checkpoint(&self, writer: &mut WriterState, checkpoint: WrittenCheckpoint) {
        if let Err(error) = self.write_table_and_header(writer, checkpoint) {
            // Saves behind the old header are whole, so nothing is lost; what is in the table is not known.
            writer.checkpoint.mark_all_changed();
            tracing::warn!(world = %self.name, %error, "the table of a chunk world could not be written");
        }
    }

    fn write_table_and_header(&self, writer: &mut WriterState, checkpoint: WrittenCheckpoint) -> Result<()> {
        let failed = write_error(&*self.disk, "write the table of", &self.name);
        let file = {
            let state = self.state();
            let chunks = state.indices.of(FrameKind::Chunk);
            debug_assert_eq!(chunks.len(), checkpoint.header.count as usize, "it is proven already");
            write_table(&*state.file, checkpoint.header.version, chunks, &writer.checkpoint.table)
                .map_err(&failed)?;
            state.file.clone()
        };
        writer.sync(&*file, &self.name)?;
        // The next sync makes it durable. Until then the old one does as well.
        let header = checkpoint.header;
        file.write_all_at(&header.encode(), 0).map_err(&failed)?;
        writer.checkpoint =
            CheckpointState::written(header.clone(), checkpoint.side, checkpoint.section.end());
        self.state_mut().header = header;
        Ok(())
    }

    /// Makes room for a longer table. The frames in its way are saved once more, behind all others; then it may be written over
    /// them. In small files they would all be in the way: those are written anew.
    fn grow(&self, writer: &mut WriterState, count: u64) -> Result<Growth> {
        let Some(room) = self.room_for_table(&writer.checkpoint.header, count)? else {
            return self.grow_by_rewrite(writer);
        };
        // What is damaged is kept as it is, which only a new file can do.
        let Some(moved) = self.frames_before(room.data_start) else {
            return self.grow_by_rewrite(writer);
        };
        // Synced on its own: readers must not be led to frames that a sync which fails would take away.
        let content =
            CommitContent { change: &moved.change, operation: PinOperation::Move { held: &moved.held } };
        self.commits.write_commit(writer, &content, None, Durability::Synced)?;
        writer.checkpoint.mark_all_changed();
        {
            let mut state = self.state_mut();
            let TableRoom { table_bytes, data_start } = room;
            state.header = Header { data_start, table_bytes, ..state.header.clone() };
            state.moves += 1;
        }
        // A copy that has begun meanwhile may know the old places; one that begins from now on knows the new ones.
        if self.commits.is_held() {
            return self.grow_by_rewrite(writer);
        }
        Ok(Growth::InPlace)
    }

    fn grow_by_rewrite(&self, writer: &mut WriterState) -> Result<Growth> {
        self.rewrite_as_is(writer)?;
        Ok(Growth::NewFile)
    }

    /// Finds room for a table of so many chunks. `None` if frames must stay where they are, or if the table would reach the
    /// entity section: until the new header is written, the old one leads to it.
    fn room_for_table(&self, header: &Header, count: u64) -> Result<Option<TableRoom>> {
        let capacity = u64::from(header.capacity());
        let wanted = (capacity + capacity.div_ceil(2)).max(count);
        let table_bytes = wanted * header.version.entry_bytes() as u64;
        let table_end = HEADER_BYTES + table_bytes;
        let section = header.entities - SIZE_BYTES;
        if self.commits.is_held() || table_end > section {
            return Ok(None);
        }
        let data_start = self.boundary_behind(header.data_start, table_end)?;
        let data_start = data_start.filter(|data_start| *data_start <= section);
        let (Some(data_start), Ok(table_bytes)) = (data_start, u32::try_from(table_bytes)) else {
            return Ok(None);
        };
        Ok(Some(TableRoom { table_bytes, data_start }))
    }

    /// Returns where the first frame begins that lies behind `table_end`. `None` if the chain of frames is broken before it.
    fn boundary_behind(&self, data_start: u64, table_end: u64) -> Result<Option<u64>> {
        let file = self.state().file.clone();
        let failed = |error: Error| error.in_key(&path_of(&*self.disk, &self.name));
        let mut source = FrameScanner::new(&*file, None).map_err(failed)?;
        let mut at = data_start;
        while at < table_end {
            match source.frame_at(at).map_err(failed)? {
                Some(frame) => at = frame.place.end(),
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Reads all frames that begin before `boundary`, as a change that saves them again. `None` if one cannot be read.
    fn frames_before(&self, boundary: u64) -> Option<MovedFrames> {
        let (keys, held) = {
            let state = self.state();
            let is_in_the_way = |place: &FramePlace| place.start() < boundary;
            let present = state.indices.iter().filter(|(_, place)| is_in_the_way(place));
            let mut held = state.pins.held(&state.indices);
            held.retain(|(_, place)| is_in_the_way(place));
            (present.map(|(key, _)| key).collect::<BTreeSet<FrameKey>>(), held)
        };
        let mut moved = MovedFrames::default();
        for key in &keys {
            let frame = match key.kind {
                FrameKind::Return => self.returned_now(*key, &keys),
                _ => self.read(*key, |tag, data| Ok(NewFrame { key: *key, tag, data: data.to_vec() })),
            };
            moved.change.frames.extend(frame.ok()?);
        }
        for (key, place) in held {
            moved.held.push((self.read_held(key, place).ok()?, place));
        }
        Some(moved)
    }

    /// Returns a frame that says of the keys of a return what the world has of them now. Those that are saved again need none.
    fn returned_now(&self, key: FrameKey, saved_again: &BTreeSet<FrameKey>) -> Result<Option<NewFrame>> {
        self.read(key, |tag, data| {
            let state = self.state();
            let returned = decode_places(data)?.into_iter().map(|(key, _)| key);
            let now = |key: FrameKey| (key, state.indices.get(key).unwrap_or(FramePlace::NOWHERE));
            let others: Vec<_> = returned.filter(|key| !saved_again.contains(key)).map(now).collect();
            Ok(NewFrame { key, tag, data: encode_places(&others) })
        })
    }
}

/// Frames that are in the way of a table.
#[derive(Default)]
struct MovedFrames {
    change: FrameChange,
    /// Those that only pins have, and where they are.
    held: Vec<(NewFrame, FramePlace)>,
}

/// Where a checkpoint was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpointed {
    InPlace,
    /// The file was written anew.
    InNewFile,
    /// Nowhere yet: the file that is about to replace this one has more room.
    PutOff,
}

/// The place of a table that grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// Frames were moved out of its way. A checkpoint must follow.
    InPlace,
    /// The file was written anew, with a checkpoint.
    NewFile,
}

/// The room that a longer table takes.
struct TableRoom {
    table_bytes: u32,
    /// Where the frames begin that stay.
    data_start: u64,
}

/// Writes the entries of the table that changed to their place.
fn write_table(
    file: &dyn DiskFile,
    version: Version,
    chunks: &Index,
    changes: &TableChanges,
) -> std::io::Result<()> {
    let entry_bytes = version.entry_bytes() as u32;
    match changes {
        TableChanges::All => {
            let entries: Vec<Entry> = chunks.iter().map(|(pos, place)| Entry { pos, place }).collect();
            file.write_all_at(&encode_image(version, entries.into_iter()), HEADER_BYTES)?;
        }
        TableChanges::Some(changes) => {
            // They are in the order of the table.
            let slots: Vec<u32> = changes.iter().filter_map(|pos| chunks.slot(*pos)).collect();
            for near in slots.chunk_by(|one, next| next - one <= BYTES_APART_MAX / entry_bytes) {
                let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
                let entries = chunks.slots(*first..=*last).map(|(pos, place)| Entry { pos, place });
                let at = HEADER_BYTES + u64::from(*first) * u64::from(entry_bytes);
                file.write_all_at(&encode_image(version, entries), at)?;
            }
        }
    }
    Ok(())
}
