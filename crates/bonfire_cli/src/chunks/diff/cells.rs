//! How the cells of a chunk differ between two worlds.

use std::collections::BTreeMap;

use bonfire_chunks::StoredChunk;
use bonfire_chunks::codec::Delta;

use crate::chunks::count;

/// How a chunk of both worlds is different.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// So many cells, all of them known.
    Cells(usize),
    /// So many of the cells that were changed since they were generated.
    Deltas(usize),
    /// One is whole and the other a delta, or their cells are made of other layers.
    Unknown,
}

impl Change {
    pub(super) fn text(self) -> String {
        match self {
            Self::Cells(cells) => count(cells, "cell", "cells"),
            Self::Deltas(cells) => format!("{} of the deltas", count(cells, "cell", "cells")),
            Self::Unknown => "stored in another way".to_owned(),
        }
    }

    pub(super) fn cells(self) -> Option<usize> {
        match self {
            Self::Cells(cells) | Self::Deltas(cells) => Some(cells),
            Self::Unknown => None,
        }
    }
}

/// How two chunks of the same layers differ; `None` if they do not.
pub(super) fn change(one: &StoredChunk, other: &StoredChunk, default: &[u8]) -> Option<Change> {
    if one == other {
        return None;
    }
    let bytes = default.len().max(1);
    let cells = |one: &[u8], other: &[u8]| {
        one.chunks_exact(bytes).zip(other.chunks_exact(bytes)).filter(|(one, other)| one != other).count()
    };
    let beside_default = |cells: &[u8]| cells.chunks_exact(bytes).filter(|cell| cell != &default).count();
    Some(match (one, other) {
        (StoredChunk::Full(one), StoredChunk::Full(other)) => Change::Cells(cells(one, other)),
        (StoredChunk::Full(full), StoredChunk::Empty) | (StoredChunk::Empty, StoredChunk::Full(full)) => {
            match beside_default(full) {
                0 => return None,
                cells => Change::Cells(cells),
            }
        }
        (StoredChunk::Delta(one), StoredChunk::Delta(other)) => {
            Change::Deltas(changed_cells(one, other, bytes))
        }
        _ => Change::Unknown,
    })
}

/// Cells that one of two deltas has, or that they have differently.
fn changed_cells(one: &Delta, other: &Delta, bytes: usize) -> usize {
    let (mut one, other) = (by_place(one, bytes), by_place(other, bytes));
    let mut different = 0;
    for (place, cell) in other {
        different += usize::from(one.remove(&place) != Some(cell));
    }
    different + one.len()
}

fn by_place(delta: &Delta, bytes: usize) -> BTreeMap<u32, &[u8]> {
    let places = delta.runs.iter().flat_map(|(start, len)| *start..start.saturating_add(*len));
    places.zip(delta.cells.chunks_exact(bytes)).collect()
}
