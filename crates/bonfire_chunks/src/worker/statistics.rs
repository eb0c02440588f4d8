//! Counts of requests, by kind.

use std::iter::Sum;
use std::ops::Add;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// [`ChunkWorker::read`](super::ChunkWorker::read)
    Read,
    /// [`ChunkWorker::load`](super::ChunkWorker::load)
    Load,
    /// [`ChunkWorker::load_whole`](super::ChunkWorker::load_whole)
    LoadWhole,
    /// [`ChunkWorker::read_bodies`](super::ChunkWorker::read_bodies)
    ReadBodies,
    /// [`ChunkWorker::read_entities`](super::ChunkWorker::read_entities)
    ReadEntities,
    /// [`ChunkWorker::save`](super::ChunkWorker::save)
    Save,
    /// [`ChunkWorker::save_to`](super::ChunkWorker::save_to)
    SaveTo,
    /// [`ChunkWorker::compact`](super::ChunkWorker::compact)
    Compact,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Load,
        Self::LoadWhole,
        Self::ReadBodies,
        Self::ReadEntities,
        Self::Save,
        Self::SaveTo,
        Self::Compact,
    ];

    /// Returns true for the kinds that the reading threads do.
    pub fn is_load(self) -> bool {
        !matches!(self, Self::Save | Self::SaveTo | Self::Compact)
    }

    /// Returns true if it shows the bodies of a chunk.
    pub(super) fn has_bodies(self) -> bool {
        matches!(self, Self::ReadBodies | Self::LoadWhole)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Load => "load",
            Self::LoadWhole => "load_whole",
            Self::ReadBodies => "read_bodies",
            Self::ReadEntities => "read_entities",
            Self::Save => "save",
            Self::SaveTo => "save_to",
            Self::Compact => "compact",
        }
    }
}

/// Counts of requests of one kind, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Those that wait now.
    pub waiting: u64,
    /// Those that a thread works on now.
    pub under_way: u64,
    /// Those that went well.
    pub done: u64,
    /// Those that were not accepted.
    pub refused: u64,
    /// Those that were cancelled before their turn.
    pub cancelled: u64,
    /// Those that ended with an error.
    pub failed: u64,
}

impl Add for RequestCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            under_way: self.under_way + other.under_way,
            done: self.done + other.done,
            refused: self.refused + other.refused,
            cancelled: self.cancelled + other.cancelled,
            failed: self.failed + other.failed,
        }
    }
}

impl Sum for RequestCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}

/// The state of a worker, and its counts since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatistics {
    counts: [RequestCounts; RequestKind::ALL.len()],
    bytes_written: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Cancelled,
    Failed,
}

impl WorkerStatistics {
    /// The counts of one kind.
    pub fn of(&self, kind: RequestKind) -> RequestCounts {
        self.counts[kind as usize]
    }

    /// The counts of all loads and reads.
    pub fn loads(&self) -> RequestCounts {
        RequestKind::ALL.into_iter().filter(|kind| kind.is_load()).map(|kind| self.of(kind)).sum()
    }

    /// The counts of saves, to this world and to others.
    pub fn saves(&self) -> RequestCounts {
        self.of(RequestKind::Save) + self.of(RequestKind::SaveTo)
    }

    /// The counts of all requests.
    pub fn all(&self) -> RequestCounts {
        self.counts.into_iter().sum()
    }

    /// Bytes that saves have appended to the file.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    fn counts_of(&mut self, kind: RequestKind) -> &mut RequestCounts {
        &mut self.counts[kind as usize]
    }

    pub(super) fn wait(&mut self, kind: RequestKind) {
        self.counts_of(kind).waiting += 1;
    }

    pub(super) fn refuse(&mut self, kind: RequestKind) {
        self.counts_of(kind).refused += 1;
    }

    pub(super) fn begin(&mut self, kind: RequestKind) {
        let counts = self.counts_of(kind);
        counts.waiting -= 1;
        counts.under_way += 1;
    }

    /// A request that was under way has ended.
    pub(super) fn end(&mut self, kind: RequestKind, outcome: Outcome, bytes: u64) {
        self.bytes_written += bytes;
        let counts = self.counts_of(kind);
        counts.under_way -= 1;
        match outcome {
            Outcome::Done => counts.done += 1,
            Outcome::Cancelled => counts.cancelled += 1,
            Outcome::Failed => counts.failed += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_counts() {
        for (number, kind) in RequestKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            let mut statistics = WorkerStatistics::default();
            statistics.wait(kind);
            statistics.begin(kind);
            statistics.end(kind, Outcome::Done, 7);
            statistics.refuse(kind);
            let expected = RequestCounts { done: 1, refused: 1, ..RequestCounts::default() };
            assert_eq!((statistics.of(kind), statistics.all()), (expected, expected));
            assert_eq!(statistics.loads() == expected, kind.is_load());
            assert_eq!(statistics.bytes_written(), 7);
        }
    }
}
