//! Saves, folds, and growth of the table: everything that changes a file in its place.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use bonfire::{Error, Result};
use bonfire_store::{DiskFile, DiskLock};

use super::recover::{Recovered, Repair, side_pos};
use super::replay::digest;
use super::source::Source;
use super::{ChunkFile, DamagedFrame, Seal, State, io_error, no_key};
use crate::format::{
    Appended, Commit, ENTRY_BYTES, Entry, Flags, HEADER_BYTES, Header, Key, Kind, Place, SIZE_BYTES,
    SideIndex, Tag, encode_image,
};
use crate::{ChunkPos, Durability};

/// Entries behind the last fold that are never worth a fold.
const TAIL_ENTRIES_MIN: u64 = 4096;
/// Bytes behind the last fold that opening can replay without anybody noticing.
const TAIL_BYTES_MAX: u64 = 64 << 20;
/// Buffers are written when they are so long.
const WRITE_BYTES: usize = 4 << 20;
/// Where pieces end that are written at once: file systems take those several times faster than others.
const BORDER_BYTES: u64 = 1 << 20;
/// Entries of the table that are near each other are written together with those between them.
const ENTRIES_APART_MAX: u32 = 4096 / ENTRY_BYTES as u32;
/// Longer data has no size word.
const DATA_BYTES_MAX: usize = (u32::MAX - 4096) as usize;

/// A frame that is to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewFrame {
    pub(crate) key: Key,
    pub(crate) tag: Tag,
    pub(crate) data: Vec<u8>,
}

/// What a save does. No key is there twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) frames: Vec<NewFrame>,
    pub(crate) removed: Vec<Key>,
}

impl Change {
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.removed.is_empty()
    }
}

/// What a save has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
}

/// What only the writer of a file knows.
pub(super) struct Writer {
    _lock: DiskLock,
    /// The header that is in the file.
    pub(super) header: Header,
    pub(super) end: u64,
    /// Of the last save that a sync has covered.
    durable: u64,
    tail_start: u64,
    tail_entries: u64,
    /// Entries of the table that are not in its place yet.
    table: TableDirt,
    /// What changed since the last side index.
    side_dirty: BTreeSet<Key>,
    /// Where the last side index is, and how many entries it and those before it have. `None`: all must be written.
    side: Option<(u64, u64)>,
    poisoned: bool,
    /// Memory that the next save uses again.
    buffer: Vec<u8>,
}

enum TableDirt {
    Some(BTreeSet<ChunkPos>),
    All,
}

impl Writer {
    pub(super) fn new(lock: DiskLock, header: Header, recovered: &Recovered) -> Self {
        Self {
            _lock: lock,
            header,
            end: recovered.end,
            durable: recovered.generation,
            tail_start: recovered.tail_start,
            tail_entries: recovered.tail_entries,
            table: if recovered.repair == Repair::Nothing {
                TableDirt::Some(BTreeSet::new())
            } else {
                TableDirt::All
            },
            side_dirty: BTreeSet::new(),
            side: recovered.side.filter(|_| recovered.repair == Repair::Nothing),
            poisoned: false,
            buffer: Vec::new(),
        }
    }

    /// Goes on in a file that was written just now.
    pub(super) fn move_to(
        &mut self,
        header: Header,
        end: u64,
        tail_start: u64,
        generation: u64,
        side: (u64, u64),
    ) {
        (self.header, self.end, self.tail_start, self.durable) = (header, end, tail_start, generation);
        (self.tail_entries, self.table, self.side) = (0, TableDirt::Some(BTreeSet::new()), Some(side));
        self.side_dirty.clear();
    }

    pub(super) fn poison(&mut self) {
        self.poisoned = true;
    }

    fn needs_image(&self) -> bool {
        matches!(self.table, TableDirt::All)
    }

    /// A sync that fails leaves nobody knowing what the disk has: nothing more is written through this file.
    fn sync(&mut self, file: &dyn DiskFile, name: &str) -> Result<()> {
        file.sync().map_err(|error| {
            self.poisoned = true;
            Error::io(format_args!("cannot make `{name}` durable; open it again to go on"), &error)
        })
    }

    fn is_folded(&self) -> bool {
        let table_is_clean = match &self.table {
            TableDirt::Some(dirty) => dirty.is_empty(),
            TableDirt::All => false,
        };
        table_is_clean && self.side_dirty.is_empty() && self.tail_entries == 0 && self.side.is_some()
    }
}

impl ChunkFile {
    /// Runs `work` with the writer, if there is one that can still write.
    pub(super) fn with_writer<T>(&self, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        let mut writer = self.writer();
        let Some(writer) = writer.as_mut() else {
            return Err(Error::misuse(format!("`{}` is open for reading only, or closed", self.name)));
        };
        if writer.poisoned {
            return Err(Error::io(
                format_args!("cannot save to `{}`", self.name),
                &std::io::Error::other(
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
        writer: &mut Writer,
        change: Change,
        durability: Durability,
    ) -> Result<Committed> {
        let folds_along = self.options.eager
            && durability == Durability::Synced
            && matches!(writer.table, TableDirt::Some(_))
            && writer.side.is_some()
            && !self.changes_chunks(&change);
        let checkpoint = folds_along.then_some(Checkpoint { side_is_whole: false, entities: None });
        let appended = self.append(writer, change, checkpoint, durability)?;
        if let Some(section) = appended.section {
            self.finish_fold(writer, section);
        } else if durability == Durability::Synced && self.is_fold_due(writer) {
            self.fold_with(writer, None);
        }
        Ok(appended.committed)
    }

    /// The header has them from the next fold on.
    pub(crate) fn set_cell_bytes(&self, cell_bytes: u8) {
        if self.state().header.cell_bytes != cell_bytes {
            self.state_mut().header.cell_bytes = cell_bytes;
        }
    }

    /// Whether chunks come or go, so that the table is not the same with other values.
    fn changes_chunks(&self, change: &Change) -> bool {
        let state = self.state();
        let chunks = state.indices.of(Kind::Chunk);
        let is_new = |frame: &NewFrame| frame.key.kind == Kind::Chunk && chunks.get(frame.key.pos).is_none();
        let is_gone = |key: &Key| key.kind == Kind::Chunk && chunks.get(key.pos).is_some();
        !chunks.is_sorted() || change.frames.iter().any(is_new) || change.removed.iter().any(is_gone)
    }

    fn is_fold_due(&self, writer: &Writer) -> bool {
        let table = u64::from(writer.header.count);
        self.options.eager
            || writer.tail_entries > TAIL_ENTRIES_MIN.max(table / 8)
            || writer.end - writer.tail_start > TAIL_BYTES_MAX
    }

    /// Puts a save at the end of the file. With a checkpoint it has all that a fold needs.
    fn append(
        &self,
        writer: &mut Writer,
        change: Change,
        checkpoint: Option<Checkpoint>,
        durability: Durability,
    ) -> Result<AppendedSave> {
        check_sizes(&change)?;
        let (file, generation, seal, seal_info) = {
            let state = self.state();
            (state.file.clone(), state.generation.checked_add(1), state.seal.clone(), state.seal_info.clone())
        };
        // Nobody saves so often: somebody made such a file.
        let generation =
            generation.ok_or_else(|| Error::corrupt("this world has no number for another save"))?;
        if !seal_info.is_empty()
            && seal.is_none()
            && change.frames.iter().any(|frame| Seal::covers(frame.key.kind))
        {
            return Err(no_key(&self.name));
        }
        let mut buffer = std::mem::take(&mut writer.buffer);
        buffer.clear();
        let mut out = Appender { file: &*file, at: writer.end, buffer, end: writer.end };
        let mut append = || -> std::io::Result<Written> {
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
                out.frame(*key, Tag::REMOVED, generation, &[])?;
                entries.push((*key, Place::NOWHERE));
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
                Key::new(Kind::Commit, ChunkPos::default()),
                Tag::default(),
                generation,
                &commit.encode(),
            )?;
            out.flush()?;
            Ok(Written { entries: commit.entries, section, end: out.end })
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
        Ok(AppendedSave { committed: Committed { generation, bytes }, section: written.section })
    }

    fn append_checkpoint(
        &self,
        writer: &Writer,
        out: &mut Appender<'_>,
        changed: &[(Key, Place)],
        checkpoint: &Checkpoint,
        generation: u64,
    ) -> std::io::Result<Section> {
        let state = self.state();
        let nowhere = ChunkPos::default();
        let lies_in = |key: &Key| state.indices.get(*key).unwrap_or(Place::NOWHERE);
        let others = state.indices.others_len();
        let changed = changed.iter().filter(|(key, _)| key.kind != Kind::Chunk);
        // A chain of lists is as long as one list of everything at most, give or take a few.
        let side =
            match writer.side.filter(|(_, entries)| !checkpoint.side_is_whole && *entries < 2 * others + 256)
            {
                Some((earlier, so_far)) => {
                    let mut dirty: std::collections::BTreeMap<Key, Place> =
                        writer.side_dirty.iter().map(|key| (*key, lies_in(key))).collect();
                    dirty.extend(changed.copied());
                    let entries: Vec<_> = dirty.into_iter().collect();
                    (!entries.is_empty()).then_some((SideIndex { earlier, entries }, so_far))
                }
                None => {
                    let mut all: std::collections::BTreeMap<Key, Place> = state.indices.others().collect();
                    all.extend(changed.copied());
                    all.retain(|_, place| !place.is_nowhere());
                    Some((SideIndex { earlier: 0, entries: all.into_iter().collect() }, 0))
                }
            };
        let side = match side {
            Some((side, so_far)) => {
                let entries = so_far + side.entries.len() as u64;
                let key = Key::new(Kind::SideIndex, nowhere);
                let appended = out.frame(key, Tag::default(), generation, &side.encode())?;
                (appended.place.offset, entries)
            }
            None => writer.side.unwrap_or_default(),
        };
        if writer.needs_image() {
            let entries: Vec<Entry> =
                state.indices.of(Kind::Chunk).iter().map(|(pos, place)| Entry { pos, place }).collect();
            let key = Key::new(Kind::TableImage, nowhere);
            out.frame(key, Tag::default(), generation, &encode_image(entries.into_iter()))?;
        }
        let data = checkpoint.entities.as_deref().unwrap_or(&[0; 8]);
        let key = Key::new(Kind::EntitySection, side_pos(side.0));
        let section = out.frame(key, Tag::default(), generation, data)?;
        Ok(Section { place: section.place, side, header: checkpoint_header(&state) })
    }

    /// Brings header and table up to date. A save that was durable stays so whatever happens here; if something fails, the
    /// next fold writes everything.
    pub(super) fn fold_with(&self, writer: &mut Writer, entities: Option<Vec<u8>>) {
        if let Err(error) = self.try_fold(writer, entities) {
            tracing::warn!(world = %self.name, %error, "a chunk world could not be folded");
        }
    }

    pub(super) fn try_fold(&self, writer: &mut Writer, entities: Option<Vec<u8>>) -> Result<()> {
        let keys_changed = !self.state().indices.of(Kind::Chunk).is_sorted();
        if keys_changed {
            writer.table = TableDirt::All;
            self.state_mut().indices.sort();
        }
        let count = self.state().indices.of(Kind::Chunk).len() as u64;
        if count > u64::from(writer.header.capacity()) && self.grow(writer, count)? {
            return Ok(());
        }
        let side_is_whole = writer.side.is_none();
        let checkpoint = Some(Checkpoint { side_is_whole, entities });
        let appended = self.append(writer, Change::default(), checkpoint, Durability::Synced)?;
        if let Some(section) = appended.section {
            self.finish_fold(writer, section);
        }
        Ok(())
    }

    /// The save that ends with an entity section is durable: now the table and the header may follow.
    fn finish_fold(&self, writer: &mut Writer, section: Section) {
        if let Err(error) = self.write_table(writer, &section) {
            // Saves behind the old header are whole, so nothing is lost; what is in the table is not known.
            writer.table = TableDirt::All;
            writer.side = None;
            tracing::warn!(world = %self.name, %error, "the table of a chunk world could not be written");
        }
    }

    fn write_table(&self, writer: &mut Writer, section: &Section) -> Result<()> {
        let failed = io_error("write the table of", &self.name);
        let state = self.state();
        let file = state.file.clone();
        let chunks = state.indices.of(Kind::Chunk);
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
    /// them. In small files they would all be in the way: those are written anew. True if that has folded, too.
    fn grow(&self, writer: &mut Writer, count: u64) -> Result<bool> {
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
        let in_the_way: Vec<Key> = {
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
        self.append(writer, change, None, Durability::Synced)?;
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
        let mut source = Source::new(&*file).map_err(&failed)?;
        let mut at = data_start;
        while at < table_end {
            match source.frame_at(at).map_err(&failed)? {
                Some(frame) => at = frame.place.end(),
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Folds everything, whether it looks necessary or not.
    pub(super) fn fold_all(&self) -> Result<()> {
        self.with_writer(|writer| {
            writer.table = TableDirt::All;
            writer.side = None;
            self.try_fold(writer, None)
        })
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

    /// Brings everything up to date and lets go of the file. `entities` is the entity section.
    pub(crate) fn close(&self, entities: Option<Vec<u8>>) -> Result<()> {
        if self.writer().is_none() {
            return Ok(());
        }
        let closed = self.with_writer(|writer| {
            let file = self.state().file.clone();
            let is_listed =
                entities.as_ref().is_none_or(|entities| has_at(&*file, writer.header.entities, entities));
            if !writer.is_folded() || !is_listed {
                self.try_fold(writer, entities)?;
            }
            let file = self.state().file.clone();
            writer.sync(&*file, &self.name)
        });
        *self.writer() = None;
        closed
    }

    /// Cuts off what lies behind the last save, and writes the saves behind the last fold once more: if a sync of them has
    /// failed before, the system believes that the disk has them.
    pub(super) fn mend_tail(&self, writer: &mut Writer, recovered: &Recovered) -> Result<()> {
        let failed = io_error("repair", &self.name);
        let file = self.state().file.clone();
        if file.len().map_err(&failed)? > recovered.end {
            file.set_len(recovered.end).map_err(&failed)?;
        }
        let mut at = recovered.tail_start;
        let mut buffer = Vec::new();
        while at < recovered.end {
            let piece = (recovered.end - at).min(WRITE_BYTES as u64);
            buffer.resize(usize::try_from(piece).unwrap_or(WRITE_BYTES), 0);
            file.read_exact_at(&mut buffer, at).map_err(&failed)?;
            file.write_all_at(&buffer, at).map_err(&failed)?;
            at += piece;
        }
        writer.sync(&*file, &self.name)
    }

    /// The change that puts aside what is damaged, so that it is not taken for something that was never there.
    pub(super) fn quarantine(&self, damaged: &[DamagedFrame]) -> Result<Change> {
        let file = self.state().file.clone();
        let len = file.len().map_err(io_error("read", &self.name))?;
        let mut change = Change::default();
        // A hostile file may claim all of itself for each of many frames.
        let mut room = len;
        for DamagedFrame { key, place } in damaged {
            change.removed.push(*key);
            let Some(kind) = key.kind.damaged() else { continue };
            let here = place.end().min(len).saturating_sub(place.start());
            let here = if here <= room { here } else { 0 };
            room -= here;
            let mut data = vec![0; usize::try_from(here).unwrap_or(0).min(DATA_BYTES_MAX)];
            // It is a last look: what cannot be read is lost.
            let data = if file.read_exact_at(&mut data, place.start()).is_ok() { data } else { Vec::new() };
            change.frames.push(NewFrame { key: Key::new(kind, key.pos), tag: place.tag, data });
        }
        Ok(change)
    }

    /// After a compaction that failed: the next one is due when twice as much is dead.
    pub(crate) fn put_off_compaction(&self) {
        let dead = self.state().dead_bytes();
        self.dead_bytes_min.store(dead.saturating_mul(2), Ordering::Relaxed);
    }

    /// Whether more of the file is dead than it may be.
    pub(crate) fn is_compaction_due(&self) -> bool {
        let state = self.state();
        let (dead, len) = (state.dead_bytes(), state.file_bytes());
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let is_over = |share: f64| dead as f64 > len as f64 * share;
        dead > self.dead_bytes_min.load(Ordering::Relaxed) && self.options.dead_share_max.is_some_and(is_over)
    }
}

impl State {
    /// Notes what a save has changed.
    fn apply(&mut self, entries: &[(Key, Place)], table: &mut TableDirt) {
        for (key, place) in entries {
            if place.is_nowhere() {
                self.indices.remove(*key);
            } else {
                self.indices.set(*key, *place);
            }
            if let (Kind::Chunk, TableDirt::Some(dirty)) = (key.kind, &mut *table) {
                dirty.insert(key.pos);
            }
        }
    }
}

impl Writer {
    fn note(&mut self, entries: &[(Key, Place)]) {
        self.tail_entries += entries.len() as u64;
        self.side_dirty.extend(entries.iter().map(|(key, _)| *key).filter(|key| key.kind != Kind::Chunk));
    }
}

/// Whether these bytes are at this place already.
fn has_at(file: &dyn DiskFile, offset: u64, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, offset).is_ok() && found == bytes
}

/// What a fold writes together with a save.
struct Checkpoint {
    side_is_whole: bool,
    /// The data of the entity section.
    entities: Option<Vec<u8>>,
}

/// What a fold has written together with a save.
struct Section {
    place: Place,
    side: (u64, u64),
    /// The header that is to be, but for the count and this section.
    header: Header,
}

struct Written {
    entries: Vec<(Key, Place)>,
    section: Option<Section>,
    end: u64,
}

struct AppendedSave {
    committed: Committed,
    section: Option<Section>,
}

fn checkpoint_header(state: &State) -> Header {
    Header {
        modified: crate::clock::unix_seconds(),
        flags: Flags(state.header.flags.0 | Flags::FRAMED),
        ..state.header.clone()
    }
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

/// Writes frames one after the other, in large pieces.
pub(super) struct Appender<'f> {
    pub(super) file: &'f dyn DiskFile,
    /// Where the buffer begins.
    pub(super) at: u64,
    pub(super) buffer: Vec<u8>,
    /// Where the next frame begins.
    pub(super) end: u64,
}

impl Appender<'_> {
    pub(super) fn frame(
        &mut self,
        key: Key,
        tag: Tag,
        generation: u64,
        data: &[u8],
    ) -> std::io::Result<Appended> {
        let appended = Appended::new(&mut self.buffer, self.at, key, tag, generation, &[data]);
        self.end = appended.place.end();
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(appended)
    }

    /// A frame as it lies in another file.
    pub(super) fn raw(&mut self, frame: &[u8]) -> std::io::Result<u64> {
        let start = self.end;
        self.buffer.extend_from_slice(frame);
        self.end += frame.len() as u64;
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(start)
    }

    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            let to_border = usize::try_from(BORDER_BYTES - self.at % BORDER_BYTES).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(rest.len().min(to_border));
            self.file.write_all_at(now, self.at)?;
            self.at += now.len() as u64;
            rest = later;
        }
        self.buffer.clear();
        Ok(())
    }
}
