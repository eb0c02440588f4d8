//! What waits, and in which order it is done.
//!
//! Loads come by priority. A load is held back until all earlier saves that it must see are done, and by nothing else. Writes
//! come in the order of their requests. The two kinds are bounded apart.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use bonfire::Error;

use super::options::WorkerOptions;
use super::request::{LoadRequest, Priority, WriteRequest};
use super::statistics::{RequestKind, WorkerStatistics};
use crate::ChunkPos;

/// The number of a write. They count up from 1.
type WriteNumber = u64;

/// The most urgent first, then the oldest.
type LoadOrder = (Reverse<Priority>, u64);

pub(super) struct Queue {
    options: WorkerOptions,
    /// Loads that may begin.
    loads: BTreeMap<LoadOrder, LoadRequest>,
    /// Loads that wait for a write.
    held: BTreeMap<(WriteNumber, LoadOrder), LoadRequest>,
    writes: VecDeque<(WriteNumber, WriteRequest)>,
    /// The last write that changes a chunk, if it is not done.
    last_write: HashMap<ChunkPos, WriteNumber>,
    /// The last write with bodies.
    last_bodies: WriteNumber,
    loads_asked: u64,
    writes_asked: WriteNumber,
    /// The write that is under way, and the chunks that it changes.
    writing: Option<(WriteNumber, Vec<ChunkPos>)>,
    loading: usize,
    /// Reading threads that have nothing to do. Others look for a load before they sleep.
    pub(super) readers_waiting: usize,
    pub(super) is_compacting: bool,
    pub(super) is_ending: bool,
    pub(super) last_save: Instant,
    pub(super) statistics: WorkerStatistics,
}

/// Requests that left the queue undone. They are failed without the lock.
#[derive(Default)]
#[must_use]
pub(super) struct Removed {
    pub(super) loads: Vec<LoadRequest>,
    pub(super) writes: Vec<WriteRequest>,
}

impl Queue {
    pub(super) fn new(options: WorkerOptions) -> Self {
        Self {
            options,
            loads: BTreeMap::new(),
            held: BTreeMap::new(),
            writes: VecDeque::new(),
            last_write: HashMap::new(),
            last_bodies: 0,
            loads_asked: 0,
            writes_asked: 0,
            writing: None,
            loading: 0,
            readers_waiting: 0,
            is_compacting: false,
            is_ending: false,
            last_save: Instant::now(),
            statistics: WorkerStatistics::default(),
        }
    }

    /// Takes a load, or gives it back with the reason why not. Returns true if it may begin at once and a reading thread must be
    /// woken for it.
    pub(super) fn push_load(&mut self, load: LoadRequest) -> Result<bool, (Error, LoadRequest)> {
        if let Some(error) = self.refusal(self.loads_waiting(), self.options.loads_max, "loads") {
            self.statistics.refuse(load.kind);
            return Err((error, load));
        }
        self.statistics.wait(load.kind);
        self.loads_asked += 1;
        let order = (Reverse(load.priority), self.loads_asked);
        let after = self.write_before(load.kind, load.pos);
        let is_ready = after < self.first_undone();
        if is_ready {
            self.loads.insert(order, load);
        } else {
            self.held.insert((after, order), load);
        }
        Ok(is_ready && self.readers_waiting > 0)
    }

    /// Takes a write, or gives it back with the reason why not.
    pub(super) fn push_write(&mut self, write: WriteRequest) -> Result<(), Box<(Error, WriteRequest)>> {
        if let Some(error) = self.refusal(self.writes.len(), self.options.saves_max, "saves") {
            self.statistics.refuse(write.kind);
            return Err(Box::new((error, write)));
        }
        self.statistics.wait(write.kind);
        self.writes_asked += 1;
        let number = self.writes_asked;
        self.last_write.extend(write.touched.iter().map(|pos| (*pos, number)));
        if write.has_bodies {
            self.last_bodies = number;
        }
        self.writes.push_back((number, write));
        Ok(())
    }

    fn refusal(&self, waiting: usize, max: usize, what: &str) -> Option<Error> {
        if self.is_ending {
            return Some(Error::misuse("this worker has ended: start another one"));
        }
        (waiting >= max).then(|| Error::limit(format!("{max} {what} wait already: ask again later")))
    }

    /// The last write that a load must see. A save with bodies may change the bodies of any chunk.
    fn write_before(&self, kind: RequestKind, pos: ChunkPos) -> WriteNumber {
        let of_chunk = self.last_write.get(&pos).copied().unwrap_or(0);
        if kind.has_bodies() { of_chunk.max(self.last_bodies) } else { of_chunk }
    }

    /// The number of the oldest write that is not done, or of the next one.
    fn first_undone(&self) -> WriteNumber {
        let waiting = self.writes.front().map(|(number, _)| *number);
        let writing = self.writing.as_ref().map(|(number, _)| *number);
        writing.or(waiting).unwrap_or(self.writes_asked + 1)
    }

    pub(super) fn take_load(&mut self) -> Option<LoadRequest> {
        let (_, load) = self.loads.pop_first()?;
        self.statistics.begin(load.kind);
        self.loading += 1;
        Some(load)
    }

    pub(super) fn take_write(&mut self) -> Option<WriteRequest> {
        let (number, write) = self.writes.pop_front()?;
        self.statistics.begin(write.kind);
        self.writing = Some((number, write.touched.iter().copied().collect()));
        Some(write)
    }

    /// A load is done, and its handle is complete.
    pub(super) fn end_load(&mut self) {
        self.loading -= 1;
    }

    /// The write that was under way is done, and its handle is complete. Returns how many loads may begin now.
    pub(super) fn end_write(&mut self) -> usize {
        if let Some((number, touched)) = self.writing.take() {
            for pos in touched {
                if self.last_write.get(&pos) == Some(&number) {
                    self.last_write.remove(&pos);
                }
            }
        }
        self.release_held()
    }

    fn release_held(&mut self) -> usize {
        let first = self.first_undone();
        let later = self.held.split_off(&(first, (Reverse(Priority::High), 0)));
        let ready = std::mem::replace(&mut self.held, later);
        let count = ready.len();
        self.loads.extend(ready.into_iter().map(|((_, order), load)| (order, load)));
        count
    }

    /// Takes out what was cancelled: it gives up its place at once.
    pub(super) fn remove_cancelled(&mut self) -> Removed {
        let mut removed = Removed::default();
        removed.loads.extend(self.loads.extract_if(.., |_, load| load.is_cancelled()).map(|(_, load)| load));
        removed.loads.extend(self.held.extract_if(.., |_, load| load.is_cancelled()).map(|(_, load)| load));
        let (gone, kept) = std::mem::take(&mut self.writes)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, write)| write.is_cancelled());
        self.writes = kept.into();
        if !gone.is_empty() {
            removed.writes.extend(gone.into_iter().map(|(_, write)| write));
            self.index_writes();
            self.release_held();
        }
        self.note_removed(&removed);
        removed
    }

    /// Finds the last write of each chunk again, after some of them have gone.
    fn index_writes(&mut self) {
        self.last_write.clear();
        if let Some((number, touched)) = &self.writing {
            self.last_write.extend(touched.iter().map(|pos| (*pos, *number)));
        }
        for (number, write) in &self.writes {
            self.last_write.extend(write.touched.iter().map(|pos| (*pos, *number)));
        }
    }

    /// Refuses all that comes, and takes out what is not done any more: loads and compactions. Saves stay.
    pub(super) fn end(&mut self) -> Removed {
        self.is_ending = true;
        let mut removed = Removed::default();
        removed.loads.extend(std::mem::take(&mut self.loads).into_values());
        removed.loads.extend(std::mem::take(&mut self.held).into_values());
        let (gone, kept) = std::mem::take(&mut self.writes)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, write)| write.is_compaction());
        self.writes = kept.into();
        removed.writes.extend(gone.into_iter().map(|(_, write)| write));
        self.note_removed(&removed);
        removed
    }

    /// They are under way until their handles are complete.
    fn note_removed(&mut self, removed: &Removed) {
        let loads = removed.loads.iter().map(|load| load.kind);
        for kind in loads.chain(removed.writes.iter().map(|write| write.kind)) {
            self.statistics.begin(kind);
        }
    }

    pub(super) fn loads_waiting(&self) -> usize {
        self.loads.len() + self.held.len()
    }

    pub(super) fn is_load_ready(&self) -> bool {
        !self.loads.is_empty()
    }

    pub(super) fn is_full(&self, is_load: bool) -> bool {
        if is_load {
            self.loads_waiting() >= self.options.loads_max
        } else {
            self.writes.len() >= self.options.saves_max
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.loads_waiting() + self.writes.len()
    }

    /// Returns true if a save waits or is being written.
    pub(super) fn is_saving(&self) -> bool {
        self.statistics.saves().waiting + self.statistics.saves().under_way > 0
    }

    /// Returns true if nothing waits and no request is being done.
    pub(super) fn is_still(&self) -> bool {
        self.waiting() == 0 && self.loading == 0 && self.writing.is_none()
    }

    /// Returns true if the threads have nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.is_still() && !self.is_compacting
    }
}
