//! What is left of a damaged file: rows whose blocks are whole, without those whose blocks are not.
//!
//! A component of a row is lost when its bytes are. A row whose id is lost keeps its components and gets a new id, so that
//! references to it point to nothing. Everything that is lost is listed.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use super::{Archetype, Snapshot};
use crate::column::{Column, Component, Groups, column_from, dense_rows};
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;

/// What was damaged in a file and what that cost.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    /// The damaged places.
    pub blocks: Vec<DamagedBlock>,
    /// What is missing because of them.
    pub losses: Vec<DamagedPart>,
}

impl Damage {
    /// Whether nothing was damaged.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.losses.is_empty()
    }
}

/// A damaged place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedBlock {
    /// The section, or "header".
    pub section: &'static str,
    /// Where in the file.
    pub offset: u64,
    /// How many bytes cannot be trusted.
    pub bytes: u64,
}

impl fmt::Display for DamagedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes at {} are damaged", self.section, self.bytes, self.offset)
    }
}

/// Something that is missing after a salvage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamagedPart {
    /// The ids of this many entities: they have new ones, and references to them point to nothing.
    Ids(usize),
    /// Values of a component.
    Component {
        /// Its key.
        key: String,
        /// How many entities lost it.
        rows: usize,
    },
    /// An entry of the data section.
    Data(String),
    /// A whole section.
    Section(&'static str),
    /// Whatever was in this many bytes after the place where the file was cut off.
    Tail(u64),
}

impl fmt::Display for DamagedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ids(count) => {
                write!(f, "{count} entities lost their ids: references to them point to nothing")
            }
            Self::Component { key, rows } => write!(f, "`{}` is lost on {rows} entities", key.escape_debug()),
            Self::Data(key) => write!(f, "data `{}` is lost", key.escape_debug()),
            Self::Section(name) => write!(f, "section {name} is lost"),
            Self::Tail(bytes) => write!(f, "the last {bytes} bytes of the file are missing"),
        }
    }
}

/// Damaged ranges of the columns section, and what they cost so far.
#[derive(Default)]
pub(super) struct LostRanges {
    /// Apart from each other, in their order.
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) tables: HashSet<u32>,
    pub(super) losses: Vec<DamagedPart>,
}

impl LostRanges {
    /// The ranges that have bytes in common with these.
    fn within(&self, offset: u64, len: u64) -> impl Iterator<Item = &Range<u64>> {
        let first = self.ranges.partition_point(|range| range.end <= offset);
        self.ranges[first..].iter().take_while(move |range| range.start < offset + len)
    }

    pub(super) fn touches(&self, offset: u64, len: u64) -> bool {
        len > 0 && self.within(offset, len).next().is_some()
    }

    pub(super) fn column(&mut self, component: &Component, rows: usize) {
        self.losses.push(DamagedPart::Component { key: component.key.clone(), rows });
    }
}

/// Rows of a column that damage took.
#[derive(Default)]
pub(super) struct RowRanges(Vec<Range<usize>>);

impl RowRanges {
    /// Rows of `stride` bytes each that lie at `offset`.
    pub(super) fn add_fixed(&mut self, lost: &LostRanges, offset: u64, len: u64, stride: u64) {
        for range in lost.within(offset, len) {
            let start = range.start.max(offset);
            let end = range.end.min(offset + len);
            if start < end {
                let rows = (start - offset) / stride..(end - offset).div_ceil(stride);
                self.0.push(rows.start as usize..rows.end as usize);
            }
        }
    }

    pub(super) fn add_groups(&mut self, lost: &LostRanges, offset: u64, groups: &Groups) {
        if lost.ranges.is_empty() {
            return;
        }
        let (mut at, mut row) = (offset, 0);
        for group in &groups.groups {
            let rows = row..row + group.rows as usize;
            if lost.touches(at, group.bytes) {
                self.0.push(rows.clone());
            }
            at += group.bytes;
            row = rows.end;
        }
    }

    fn contains(&self, row: usize) -> bool {
        // Damaged places are met in order, so the ranges are sorted; neighbours may share a row.
        let after = self.0.partition_point(|rows| rows.start <= row);
        self.0[..after].last().is_some_and(|rows| rows.contains(&row))
    }

    /// Returns true if damage took nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The column of a snapshot, in an archetype of so many rows, without the lost rows. `None` if none are left.
    pub(super) fn remove_from(
        self,
        column: Column,
        rows: usize,
        snapshot: &Snapshot,
        limits: &Limits,
        lost: &mut LostRanges,
    ) -> Result<Option<Column>> {
        let component = &snapshot.components[column.component as usize];
        let gone = (0..column.rows).filter(|&row| self.contains(row)).count();
        let left = dense_rows(&column, component, snapshot.shared_values(&column), rows, limits, &|row| {
            self.contains(row)
        });
        match left {
            Ok(dense) => {
                lost.column(component, gone);
                let spans: Vec<_> = dense.iter().collect();
                column_from(column.component, component, spans.into_iter())
            }
            // Without a schema, or with rows that cannot be told apart, nothing can be picked out.
            Err(_) => {
                lost.column(component, column.rows);
                Ok(None)
            }
        }
    }

    /// The archetype with a mark in the place of every id that is lost.
    pub(super) fn apply_to_ids(self, archetype: &mut Archetype, lost: &mut LostRanges) {
        if self.0.is_empty() {
            return;
        }
        let mut ids = archetype.ids().into_owned();
        let mut count = 0;
        for (row, id) in ids.iter_mut().enumerate() {
            if self.contains(row) {
                *id = EntityId::NULL;
                count += 1;
            }
        }
        lost.losses.push(DamagedPart::Ids(count));
        archetype.set_ids(&ids);
    }
}

/// Gives new ids to entities that lost theirs. Their generation is one that no entity of the save has, so that
/// references to what was lost find nothing.
pub(super) fn renumber(snapshot: &mut Snapshot) -> Result<()> {
    let known = snapshot.entities();
    let lost = known.iter().filter(|id| id.is_null()).count();
    if lost == 0 {
        return Ok(());
    }
    let carried = snapshot.carried.iter().flat_map(|record| record.ids().into_owned());
    let known: Vec<EntityId> = known.into_iter().filter(|id| !id.is_null()).chain(carried).collect();
    let generations: HashSet<u32> = known.iter().map(|id| id.generation()).collect();
    let generation = (0..u32::MAX).rev().find(|generation| !generations.contains(generation)).unwrap_or(0);
    let first = known.iter().map(|id| u64::from(id.index()) + 1).max().unwrap_or(0);
    if first + lost as u64 > u64::from(u32::MAX) {
        return Err(Error::corrupt("there are no ids left for entities that lost theirs"));
    }
    let mut next = first as u32;
    for archetype in &mut snapshot.archetypes {
        let mut ids = archetype.ids().into_owned();
        for id in ids.iter_mut().filter(|id| id.is_null()) {
            *id = EntityId::new(next, generation);
            next += 1;
        }
        archetype.set_ids(&ids);
    }
    snapshot.next_entity_id = snapshot.next_entity_id.max(u64::from(next));
    Ok(())
}
