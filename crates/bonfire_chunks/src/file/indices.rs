//! Where everything is: an index for each kind.

use crate::format::{Entry, FrameKey, FrameKind, FramePlace};
use crate::index::Index;

#[derive(Clone, Debug, Default)]
pub(crate) struct Indices {
    by_kind: [Index; FrameKind::INDEXED.len()],
}

impl Indices {
    /// `chunks` are in order, each once.
    pub(super) fn new(chunks: &[Entry], others: &[(FrameKey, FramePlace)]) -> Self {
        let mut indices = Self::default();
        *indices.of_mut(FrameKind::Chunk) =
            Index::from_sorted(chunks.iter().map(|entry| (entry.pos, entry.place)));
        for (key, place) in others {
            indices.set(*key, *place);
        }
        indices
    }

    pub(crate) fn of(&self, kind: FrameKind) -> &Index {
        &self.by_kind[number(kind)]
    }

    pub(super) fn of_mut(&mut self, kind: FrameKind) -> &mut Index {
        &mut self.by_kind[number(kind)]
    }

    pub(crate) fn get(&self, key: FrameKey) -> Option<FramePlace> {
        self.of(key.kind).get(key.pos)
    }

    pub(super) fn set(&mut self, key: FrameKey, place: FramePlace) -> Option<FramePlace> {
        self.of_mut(key.kind).set(key.pos, place)
    }

    pub(super) fn remove(&mut self, key: FrameKey) -> Option<FramePlace> {
        self.of_mut(key.kind).remove(key.pos)
    }

    pub(super) fn sort(&mut self) {
        self.by_kind.iter_mut().for_each(Index::sort);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_kind.iter().all(Index::is_empty)
    }

    /// Bytes of all frames that are in use.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.by_kind.iter().map(Index::frame_bytes).sum()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.by_kind.iter().map(Index::memory_bytes).sum()
    }

    /// Everything, by kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FrameKey, FramePlace)> {
        let of =
            |kind: FrameKind| self.of(kind).iter().map(move |(pos, place)| (FrameKey::new(kind, pos), place));
        FrameKind::INDEXED.into_iter().flat_map(of)
    }

    /// All that the page table does not list.
    pub(super) fn others(&self) -> impl Iterator<Item = (FrameKey, FramePlace)> {
        let others = FrameKind::INDEXED.into_iter().filter(|kind| *kind != FrameKind::Chunk);
        others
            .flat_map(|kind| self.of(kind).iter().map(move |(pos, place)| (FrameKey::new(kind, pos), place)))
    }

    /// How many those are.
    pub(super) fn others_len(&self) -> u64 {
        FrameKind::INDEXED
            .iter()
            .filter(|kind| **kind != FrameKind::Chunk)
            .map(|kind| self.of(*kind).len() as u64)
            .sum()
    }
}

fn number(kind: FrameKind) -> usize {
    let found = FrameKind::INDEXED.iter().position(|content| *content == kind);
    found.unwrap_or_else(|| unreachable!("only kinds with an index are looked up"))
}
