//! Checkpoints: bring header, table and side index up to date with the saves, and let the table grow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use bonfire::Result;
use bonfire_store::disk::DiskFile;

use super::commit::{Change, NewFrame};
use super::frame_scanner::FrameScanner;
use super::frame_writer::FrameWriter;
use super::recover::side_pos;
use super::writer_state::{TableDirt, WriterState};
use super::{ChunkFile, State, io_error};
use crate::format::{
    ENTRY_BYTES, Entry, Flags, FrameKey, FrameKind, FramePlace, FrameTag, HEADER_BYTES, Header, SIZE_BYTES,
    SideIndex, encode_image,
};
use crate::{ChunkPos, Durability};

/// Entries behind the last checkpoint that are never worth a checkpoint.
const TAIL_ENTRIES_MIN: u64 = 4096;
/// Bytes behind the last checkpoint that opening can replay without anybody noticing.
const TAIL_BYTES_MAX: u64 = 64 << 20;
/// Entries of the table that are near each other are written together with those between them.
const ENTRIES_APART_MAX: u32 = 4096 / ENTRY_BYTES as u32;

impl ChunkFile {
    pub(super) fn is_checkpoint_due(&self, writer: &WriterState) -> bool {
        let table = u64::from(writer.header.count);
        self.options.eager
            || writer.tail_entries > TAIL_ENTRIES_MIN.max(table / 8)
            || writer.end - writer.tail_start > TAIL_BYTES_MAX
    }

    pub(super) fn append_checkpoint(
        &self,
        writer: &WriterState,
        out: &mut FrameWriter<'_>,
        changed: &[(FrameKey, FramePlace)],
        checkpoint: &NewCheckpoint,
        generation: u64,
    ) -> std::io::Result<WrittenCheckpoint> {
        let state = self.state();
        let nowhere = ChunkPos::default();
        let lies_in = |key: &FrameKey| state.indices.get(*key).unwrap_or(FramePlace::NOWHERE);
        let others = state.indices.others_len();
        let changed = changed.iter().filter(|(key, _)| key.kind != FrameKind::Chunk);
        // A chain of lists is as long as one list of everything at most, give or take a few.
        let side =
            match writer.side.filter(|(_, entries)| !checkpoint.side_is_whole && *entries < 2 * others + 256)
            {
                Some((earlier, so_far)) => {
                    let mut dirty: BTreeMap<FrameKey, FramePlace> =
                        writer.side_dirty.iter().map(|key| (*key, lies_in(key))).collect();
                    dirty.extend(changed.copied());
                    let entries: Vec<_> = dirty.into_iter().collect();
                    (!entries.is_empty()).then_some((SideIndex { earlier, entries }, so_far))
                }
                None => {
                    let mut all: BTreeMap<FrameKey, FramePlace> = state.indices.others().collect();
                    all.extend(changed.copied());
                    all.retain(|_, place| !place.is_nowhere());
                    Some((SideIndex { earlier: 0, entries: all.into_iter().collect() }, 0))
                }
            };
        let side = match side {
            Some((side, so_far)) => {
                let entries = so_far + side.entries.len() as u64;
                let key = FrameKey::new(FrameKind::SideIndex, nowhere);
                let appended = out.frame(key, FrameTag::default(), generation, &side.encode())?;
                (appended.place.offset, entries)
            }
            None => writer.side.unwrap_or_default(),
        };
        if writer.needs_image() {
            let entries: Vec<Entry> =
                state.indices.of(FrameKind::Chunk).iter().map(|(pos, place)| Entry { pos, place }).collect();
            let key = FrameKey::new(FrameKind::TableImage, nowhere);
            out.frame(key, FrameTag::default(), generation, &encode_image(entries.into_iter()))?;
        }
        let data = checkpoint.entities.as_deref().unwrap_or(&[0; 8]);
        let key = FrameKey::new(FrameKind::EntitySection, side_pos(side.0));
        let section = out.frame(key, FrameTag::default(), generation, data)?;
        Ok(WrittenCheckpoint { place: section.place, side, header: checkpoint_header(&state) })
    }

    /// Brings header and table up to date. A save that was durable stays so whatever happens here; if something fails, the
    /// next checkpoint writes everything.
    pub(super) fn checkpoint_with(&self, writer: &mut WriterState, entities: Option<Vec<u8>>) {
        if let Err(error) = self.try_checkpoint(writer, entities) {
            tracing::warn!(world = %self.name, %error, "a chunk world could not be checkpointed");
        }
    }

    pub(super) fn try_checkpoint(&self, writer: &mut WriterState, entities: Option<Vec<u8>>) -> Result<()> {
        let keys_changed = !self.state().indices.of(FrameKind::Chunk).is_sorted();
        if keys_changed {
            writer.table = TableDirt::All;
            self.state_mut().indices.sort();
        }
        let count = self.state().indices.of(FrameKind::Chunk).len() as u64;
        if count > u64::from(writer.header.capacity()) && self.grow(writer, count)? {
            return Ok(());
        }
        let side_is_whole = writer.side.is_none();
        let checkpoint = Some(NewCheckpoint { side_is_whole, entities });
        let appended = self.write_commit(writer, Change::default(), checkpoint, Durability::Synced)?;
        if let Some(section) = appended.section {
            self.finish_checkpoint(writer, section);
        }
        Ok(())
    }

    /// The save that ends with an entity section is durable: now the table and the header may follow.
    pub(super) fn finish_checkpoint(&self, writer: &mut WriterState, section: WrittenCheckpoint) {
        if let Err(error) = self.write_table(writer, &section) {
            // Saves behind the old header are whole, so nothing is lost; what is in the table is not known.
            writer.table = TableDirt::All;
            writer.side = None;
            tracing::warn!(world = %self.name, %error, "the table of a chunk world could not be written");
        }
    }

    fn write_table(&self, writer: &mut WriterState, section: &WrittenCheckpoint) -> Result<()> {
        let failed = io_error("write the table of", &self.name);
        let state = self.state();
        let file = state.file.clone();
        let chunks = state.indices.of(FrameKind::Chunk);
        match &writer.table {
            TableDirt::All => {
                let entries: Vec<Entry> = chunks.iter().map(|(pos, place)| Entry { pos, place }).collect();
                file.write_all_at(&encode_image(entries.into_iter()), HEADER_BYTES).map_err(&failed)?;
            }
            TableDirt::Some(dirty) => {
                // They are in the order of the table.
                let slots: Vec<u32> = dirty.iter().filter_map(|pos| chunks.slot(*pos)).collect();
                for near in slots.chunk_by(|one, next| next - one <= ENTRIES_APART_MAX) {
                    let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
                    let entries = chunks.slots(*first..=*last).map(|(pos, place)| Entry { pos, place });
                    let at = HEADER_BYTES + u64::from(*first) * ENTRY_BYTES as u64;
                    file.write_all_at(&encode_image(entries), at).map_err(&failed)?;
                }
            }
        }
        let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        drop(state);
        writer.sync(&*file, &self.name)?;
        // The next sync makes it durable. Until then the old one does as well.
        let header = Header { count, entities: section.place.offset, ..section.header.clone() };
        file.write_all_at(&header.encode(), 0).map_err(&failed)?;
        writer.header = header.clone();
        writer.tail_start = section.place.end();
        writer.tail_entries = 0;
        writer.table = TableDirt::Some(BTreeSet::new());
        writer.side_dirty.clear();
        writer.side = Some(section.side);
        self.state_mut().header = header;
        Ok(())
    }

    /// Makes room for a longer table. The frames in its way are saved once more, behind all others; then it may be written over
    /// them. In small files they would all be in the way: those are written anew. True if that has written a checkpoint, too.
    fn grow(&self, writer: &mut WriterState, count: u64) -> Result<bool> {
        let capacity = u64::from(writer.header.capacity());
        let wanted = (capacity + capacity.div_ceil(2)).max(count);
        let table_bytes = wanted * ENTRY_BYTES as u64;
        let table_end = HEADER_BYTES + table_bytes;
        // Until the new header is written, the old one leads to its entity section.
        let section = writer.header.entities - SIZE_BYTES;
        let boundary = match self.pins.load(Ordering::Acquire) {
            0 if table_end <= section => self.boundary_behind(writer.header.data_start, table_end)?,
            _ => None,
        };
        let boundary = boundary.filter(|boundary| *boundary <= section);
        let (Some(boundary), Ok(table_bytes)) = (boundary, u32::try_from(table_bytes)) else {
            self.rewrite_in_place(writer, Change::default(), &mut |_, _| {})?;
            return Ok(true);
        };
        let in_the_way: Vec<FrameKey> = {
            let state = self.state();
            state.indices.iter().filter(|(_, place)| place.start() < boundary).map(|(key, _)| key).collect()
        };
        let mut change = Change::default();
        for key in in_the_way {
            match self.read(key, |tag, data| Ok(NewFrame { key, tag, data: data.to_vec() })) {
                Ok(frame) => change.frames.extend(frame),
                // What is damaged is kept as it is, which only a new file can do.
                Err(_) => {
                    self.rewrite_in_place(writer, Change::default(), &mut |_, _| {})?;
                    return Ok(true);
                }
            }
        }
        // Synced on its own: readers must not be led to frames that a sync which fails would take away.
        self.write_commit(writer, change, None, Durability::Synced)?;
        writer.table = TableDirt::All;
        writer.side = None;
        {
            let mut state = self.state_mut();
            state.header = Header { data_start: boundary, table_bytes, ..state.header.clone() };
            state.moves += 1;
        }
        // A copy that has begun meanwhile may know the old places; one that begins from now on knows the new ones.
        if self.pins.load(Ordering::Acquire) > 0 {
            self.rewrite_in_place(writer, Change::default(), &mut |_, _| {})?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Where the first frame begins that lies behind `table_end`. `None` if the chain of frames is broken before it.
    fn boundary_behind(&self, data_start: u64, table_end: u64) -> Result<Option<u64>> {
        let file = self.state().file.clone();
        let failed = io_error("read", &self.name);
        let mut source = FrameScanner::new(&*file).map_err(&failed)?;
        let mut at = data_start;
        while at < table_end {
            match source.frame_at(at).map_err(&failed)? {
                Some(frame) => at = frame.place.end(),
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Writes a checkpoint of everything, whether it looks necessary or not.
    pub(super) fn checkpoint_all(&self) -> Result<()> {
        self.with_writer(|writer| {
            writer.table = TableDirt::All;
            writer.side = None;
            self.try_checkpoint(writer, None)
        })
    }

    /// Brings everything up to date and lets go of the file. `entities` is the entity section.
    pub(crate) fn close(&self, entities: Option<Vec<u8>>) -> Result<()> {
        if self.writer().is_none() {
            return Ok(());
        }
        let closed = self.with_writer(|writer| {
            let file = self.state().file.clone();
            let is_listed =
                entities.as_ref().is_none_or(|entities| has_at(&*file, writer.header.entities, entities));
            if !writer.is_checkpointed() || !is_listed {
                self.try_checkpoint(writer, entities)?;
            }
            let file = self.state().file.clone();
            writer.sync(&*file, &self.name)
        });
        *self.writer() = None;
        closed
    }
}

/// Whether these bytes are at this place already.
fn has_at(file: &dyn DiskFile, offset: u64, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, offset).is_ok() && found == bytes
}

/// The content of a checkpoint that is to be written with a save.
pub(super) struct NewCheckpoint {
    pub(super) side_is_whole: bool,
    /// The data of the entity section.
    pub(super) entities: Option<Vec<u8>>,
}

/// A checkpoint that was written with a save, before the table and the header follow.
pub(super) struct WrittenCheckpoint {
    place: FramePlace,
    side: (u64, u64),
    /// The header that is to be, but for the count and this section.
    header: Header,
}

fn checkpoint_header(state: &State) -> Header {
    Header {
        modified: crate::clock::unix_seconds(),
        flags: Flags(state.header.flags.0 | Flags::FRAMED),
        ..state.header.clone()
    }
}
