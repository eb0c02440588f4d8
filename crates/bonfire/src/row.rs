//! Where the leaves of a value lie in a row of a raw column, and which bytes go where between rows and memory.
//!
//! A row is the value as it lies in memory if that has no gaps, otherwise its leaves packed in memory order. Files
//! from another compiler may order leaves in another way; then each leaf is moved on its own. All of this is decided
//! once per column; only the copying itself ([`bulk`](crate::bulk)) is per row.

use crate::error::{Error, Result};
use crate::layout::{Layout, LeafCheck};
use crate::schema::{Fingerprint, FixedLeaf, ROW_LEAVES_MAX, Schema};

/// The layout of a raw row: its bytes, and where each leaf of the schema starts in it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RowLayout {
    /// Bytes per row.
    pub stride: u32,
    /// Per leaf of the schema, its first byte.
    pub offsets: Vec<u32>,
}

/// `len` bytes from one place in a row to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) len: usize,
}

impl RowLayout {
    /// The row that a type with this layout is saved as.
    pub(crate) fn of(layout: &Layout) -> Self {
        let leaves = layout.leaves();
        if layout.is_plain() {
            return Self {
                stride: layout.size() as u32,
                offsets: leaves.iter().map(|leaf| leaf.offset).collect(),
            };
        }
        let mut order: Vec<usize> = (0..leaves.len()).collect();
        order.sort_by_key(|&i| leaves[i].offset);
        let mut offsets = vec![0; leaves.len()];
        let mut stride = 0;
        for i in order {
            offsets[i] = stride;
            stride += leaves[i].size;
        }
        Self { stride, offsets }
    }

    /// Whether rows lie exactly as values of a plain layout do.
    pub(crate) fn is_plain(&self, layout: &Layout) -> bool {
        let offsets = layout.leaves().iter().map(|leaf| leaf.offset);
        layout.is_plain() && self.stride as usize == layout.size() && offsets.eq(self.offsets.iter().copied())
    }

    /// What decides whether rows may be copied as they are: the schema, and every offset.
    pub fn fingerprint(&self, schema: Fingerprint) -> Fingerprint {
        let mut bytes = schema.0.to_vec();
        bytes.extend(self.stride.to_le_bytes());
        bytes.extend(self.offsets.iter().flat_map(|offset| offset.to_le_bytes()));
        Fingerprint::of(&bytes)
    }

    /// Checks a layout from a file against its schema and returns the leaves.
    pub(crate) fn check<'s>(&self, schema: &'s Schema) -> Result<&'s [FixedLeaf]> {
        let leaves = schema
            .fixed_leaves(ROW_LEAVES_MAX)
            .ok_or_else(|| Error::corrupt("raw rows of a type that has no fixed size"))?;
        if leaves.len() != self.offsets.len() {
            let (offsets, leaves) = (self.offsets.len(), leaves.len());
            return Err(Error::corrupt(format!("a row layout has {offsets} offsets for {leaves} leaves")));
        }
        if leaves.is_empty() && self.stride > 0 {
            return Err(Error::corrupt("raw rows of a type that has no bytes"));
        }
        let mut places: Vec<(u64, u64)> =
            leaves.iter().zip(&self.offsets).map(|(leaf, &offset)| (u64::from(offset), leaf.size)).collect();
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err(Error::corrupt("the leaves of a row overlap"));
        }
        for (leaf, &offset) in leaves.iter().zip(&self.offsets) {
            if u64::from(offset) + leaf.size > u64::from(self.stride) {
                return Err(Error::corrupt(format!(
                    "a leaf of {} bytes at {offset} does not fit a row of {} bytes",
                    leaf.size, self.stride
                )));
            }
        }
        Ok(leaves)
    }

    /// From memory to a row, for a type with this layout.
    pub(crate) fn moves_from(&self, layout: &Layout) -> Vec<Move> {
        let leaves = layout.leaves().iter().zip(&self.offsets);
        merged(leaves.map(|(leaf, &offset)| Move {
            from: leaf.offset as usize,
            to: offset as usize,
            len: leaf.size as usize,
        }))
    }

    /// From a row to memory, for a type with this layout.
    pub(crate) fn moves_into(&self, layout: &Layout) -> Vec<Move> {
        let leaves = layout.leaves().iter().zip(&self.offsets);
        merged(leaves.map(|(leaf, &offset)| Move {
            from: offset as usize,
            to: leaf.offset as usize,
            len: leaf.size as usize,
        }))
    }

    /// From a row to the encoded form of the value, which has the leaves in the order of the schema.
    pub(crate) fn moves_to_encoded(&self, leaves: &[FixedLeaf]) -> Vec<Move> {
        self.moves_encoded(leaves, |row, encoded, len| Move { from: row, to: encoded, len })
    }

    /// From the encoded form of a value to a row.
    pub(crate) fn moves_from_encoded(&self, leaves: &[FixedLeaf]) -> Vec<Move> {
        self.moves_encoded(leaves, |row, encoded, len| Move { from: encoded, to: row, len })
    }

    fn moves_encoded(&self, leaves: &[FixedLeaf], step: impl Fn(usize, usize, usize) -> Move) -> Vec<Move> {
        let mut at = 0;
        merged(leaves.iter().zip(&self.offsets).map(|(leaf, &offset)| {
            let (encoded, len) = (at, leaf.size as usize);
            at += len;
            step(offset as usize, encoded, len)
        }))
    }
}

/// Sorted by destination, with neighbours joined.
pub(crate) fn merged(moves: impl Iterator<Item = Move>) -> Vec<Move> {
    let mut moves: Vec<Move> = moves.collect();
    moves.sort_by_key(|step| step.to);
    let mut joined: Vec<Move> = Vec::with_capacity(moves.len());
    for step in moves {
        match joined.last_mut() {
            Some(last) if last.from + last.len == step.from && last.to + last.len == step.to => {
                last.len += step.len;
            }
            _ => joined.push(step),
        }
    }
    joined
}

/// Checks every row's leaves: nothing reaches a Rust value whose bits are not one of its type.
pub(crate) fn check_rows(bytes: &[u8], row: &RowLayout, layout: &Layout) -> Result<()> {
    let stride = row.stride as usize;
    if stride == 0 {
        return Ok(());
    }
    for (leaf, &offset) in layout.leaves().iter().zip(&row.offsets) {
        if leaf.check == LeafCheck::Any {
            continue;
        }
        let (offset, size, unit) = (offset as usize, leaf.size as usize, leaf.unit as usize);
        // The common case of one byte per row in a tight loop; anything odd is found again, with its place, below.
        let good = match (leaf.check, size) {
            (LeafCheck::Bool, 1) => bytes.iter().skip(offset).step_by(stride).all(|&byte| byte < 2),
            (LeafCheck::Below(count), 1) => {
                bytes.iter().skip(offset).step_by(stride).all(|&byte| byte < count)
            }
            _ => false,
        };
        if good {
            continue;
        }
        for (number, row) in bytes.chunks_exact(stride).enumerate() {
            for element in row[offset..offset + size].chunks_exact(unit) {
                if !is_valid(element, leaf.check) {
                    let message = format!("row {number} has a value that its type does not have");
                    return Err(Error::corrupt(message).at(number * stride + offset));
                }
            }
        }
    }
    Ok(())
}

fn is_valid(element: &[u8], check: LeafCheck) -> bool {
    match check {
        LeafCheck::Any => true,
        LeafCheck::Bool => element[0] < 2,
        LeafCheck::Below(count) => element[0] < count,
        LeafCheck::NonZero => element.iter().any(|&byte| byte != 0),
        LeafCheck::Char => {
            element.try_into().is_ok_and(|bytes| char::from_u32(u32::from_le_bytes(bytes)).is_some())
        }
    }
}

/// Copies leaves of rows from one layout to another, in safe code: the portable twin of [`move_rows`](crate::bulk::move_rows).
pub(crate) fn copy_leaves(from: &[u8], from_stride: usize, to: &mut [u8], to_stride: usize, moves: &[Move]) {
    if from_stride == 0 || to_stride == 0 {
        return;
    }
    for (from, to) in from.chunks_exact(from_stride).zip(to.chunks_exact_mut(to_stride)) {
        for step in moves {
            to[step.to..step.to + step.len].copy_from_slice(&from[step.from..step.from + step.len]);
        }
    }
}
