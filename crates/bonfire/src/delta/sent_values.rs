//! What was sent last: so that small changes can wait, and fields be told instead of components.

use std::collections::HashMap;

use bytes::Bytes;

use super::cell_map::{Cell, CellMap};
use super::fields::leaves;
use super::{Delta, DeltaOp, Group};
use crate::column::{Body, Column, Component};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::schema::{FixedLeaf, Schema, Type};
use crate::storage::AlignedBuf;

/// What is told of a component that has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// All of it.
    #[default]
    Component,
    /// The fields that have changed, of components without references whose size is fixed. Others are told as a whole.
    Field,
}

/// Remembers the values that went out, entity by entity, and leaves out of deltas what need not go out again.
///
/// It costs a copy of every plain component that was ever told of. Text, lists, references and structure always go out.
#[derive(Clone, Debug, Default)]
pub struct SentValues {
    granularity: Granularity,
    epsilon: Option<f64>,
    sent: HashMap<(EntityId, u32), Bytes>,
    /// By component, how it is compared; `None` if it is not.
    comparisons: HashMap<u32, Option<Comparison>>,
}

impl SentValues {
    /// Nothing was sent yet.
    pub fn new(granularity: Granularity) -> Self {
        Self { granularity, ..Self::default() }
    }

    /// A change is left out if every number in it is no further than this from the one that went out last. What is held back
    /// adds up: it goes out once it is further away.
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = Some(epsilon);
        self
    }

    /// How many values are remembered.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Forgets everything: whatever changes next goes out. So it must be when everybody gets a whole world.
    pub fn clear(&mut self) {
        self.sent.clear();
    }

    /// Returns a whole world with the values that went out last in the place of those that were held back. A joiner that
    /// gets it has what all others have.
    pub fn as_sent(&self, whole: &Delta) -> Delta {
        let mut sent = whole.clone();
        if self.is_empty() {
            return sent;
        }
        for Group { ids, changes, .. } in &mut sent.groups {
            for Column { component, present, body, .. } in changes.iter_mut().map(|change| &mut change.column)
            {
                let stride = whole.table.get(*component).row.stride.max(1) as usize;
                let Body::Raw(rope) = body else { continue };
                let is_told = |row: usize| present.as_ref().is_none_or(|present| present.get(row));
                let told = ids.iter().enumerate().filter(|(row, _)| is_told(*row)).map(|(_, id)| *id);
                let mut bytes = None;
                for (place, id) in told.enumerate() {
                    let Some(value) = self.sent.get(&(id, *component)) else { continue };
                    let bytes = bytes.get_or_insert_with(|| rope.to_vec());
                    if let Some(row) =
                        bytes.chunks_exact_mut(stride).nth(place).filter(|row| row.len() == value.len())
                    {
                        row.copy_from_slice(value);
                    }
                }
                if let Some(bytes) = bytes {
                    *rope = AlignedBuf::copy_from(&bytes).share().into();
                }
            }
        }
        sent
    }

    /// What of a delta has to go out.
    pub fn filter(&mut self, delta: &Delta) -> Result<Delta> {
        if delta.whole {
            self.clear();
            return Ok(delta.clone());
        }
        for id in &delta.despawned {
            for number in 0..delta.table.components().len() as u32 {
                self.sent.remove(&(*id, number));
            }
        }
        let mut kept = CellMap::default();
        for (id, entity) in CellMap::of(delta, &LoadContext::new(&Limits::default()))?.into_entities() {
            let mut told = entity.clone();
            for (number, cell) in entity.cells {
                let component = delta.table.get(number);
                match self.cell((id, number), component, cell) {
                    Some(cell) => drop(told.cells.insert(number, cell)),
                    None => drop(told.cells.remove(&number)),
                }
            }
            if told.spawned || !told.cells.is_empty() {
                *kept.entry(id) = told;
            }
        }
        let mut filtered = delta.clone();
        filtered.groups = kept.into_groups(&delta.table)?;
        Ok(filtered)
    }

    fn cell(&mut self, place: (EntityId, u32), component: &Component, cell: Cell) -> Option<Cell> {
        let comparison = self.comparisons.entry(place.1).or_insert_with(|| Comparison::of(component));
        let Some(comparison) = comparison else { return Some(cell) };
        match cell {
            Cell::Removed => {
                self.sent.remove(&place);
                Some(Cell::Removed)
            }
            Cell::Value { op: DeltaOp::Changed, fields: 0, bytes }
                if let Some(sent) = self.sent.get_mut(&place) =>
            {
                let moved = comparison.moved(component, sent, &bytes, self.epsilon);
                if moved == 0 {
                    return None;
                }
                if self.granularity == Granularity::Component || moved == comparison.all() {
                    *sent = bytes.clone();
                    return Some(Cell::Value { op: DeltaOp::Changed, fields: 0, bytes });
                }
                let mut merged = sent.to_vec();
                for (number, leaf) in super::fields::chosen(&comparison.leaves, moved) {
                    let at = component.row.offsets[number] as usize;
                    let range = at..at + leaf.size as usize;
                    merged[range.clone()].copy_from_slice(&bytes[range]);
                }
                *sent = merged.into();
                Some(Cell::Value { op: DeltaOp::Changed, fields: moved, bytes })
            }
            Cell::Value { op, fields, bytes } => {
                if fields == 0 {
                    // A copy, so that one row does not keep the memory of a whole column.
                    self.sent.insert(place, Bytes::copy_from_slice(&bytes));
                } else {
                    // Some of it went out, and the rest is not known.
                    self.sent.remove(&place);
                }
                Some(Cell::Value { op, fields, bytes })
            }
        }
    }
}

/// How two rows of a component are compared.
#[derive(Clone, Debug)]
struct Comparison {
    leaves: Vec<FixedLeaf>,
}

impl Comparison {
    fn of(component: &Component) -> Option<Self> {
        let schema = component.schema.as_ref().filter(|schema| !schema.has_entities())?;
        let one = || component.row.check(schema).ok().filter(|leaves| leaves.len() == 1);
        let leaves = leaves(component).or_else(one)?;
        (component.row.stride > 0).then(|| Self { leaves: leaves.to_vec() })
    }

    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.leaves.len())
    }

    /// The leaves that are further from the other row than allowed, one bit each.
    fn moved(&self, component: &Component, a: &[u8], b: &[u8], epsilon: Option<f64>) -> u64 {
        let mut moved = 0;
        for (number, (leaf, &offset)) in self.leaves.iter().zip(&component.row.offsets).enumerate() {
            let range = offset as usize..offset as usize + leaf.size as usize;
            let (a, b) = (&a[range.clone()], &b[range]);
            let near = epsilon.is_some_and(|epsilon| {
                let schema = component.schema.as_ref();
                schema.is_some_and(|schema| is_near(schema, leaf, a, b, epsilon))
            });
            if a != b && !near {
                moved |= 1 << number;
            }
        }
        moved
    }
}

/// Whether all numbers of a leaf are near those of another. What is no number is never near.
#[expect(clippy::cast_lossless, reason = "one conversion for all kinds of integers")]
fn is_near(schema: &Schema, leaf: &FixedLeaf, a: &[u8], b: &[u8], epsilon: f64) -> bool {
    let mut ty = schema.get(leaf.node);
    while let Type::Array(element, _) = ty {
        ty = schema.get(*element);
    }
    macro_rules! near {
        ($number:ty, $distance:expr) => {{
            let number = |bytes: &[u8]| bytes.try_into().map(<$number>::from_le_bytes).ok();
            const SIZE: usize = size_of::<$number>();
            a.len().is_multiple_of(SIZE)
                && a.chunks_exact(SIZE).zip(b.chunks_exact(SIZE)).all(|(a, b)| match (number(a), number(b)) {
                    (Some(x), Some(y)) => a == b || $distance(x, y) <= epsilon,
                    _ => false,
                })
        }};
    }
    // A difference that is no number is not small.
    macro_rules! near_float {
        ($number:ty) => {
            near!($number, |x: $number, y: $number| (x as f64 - y as f64).abs())
        };
    }
    // Large integers are not all numbers of `f64`, so the difference is taken before it becomes one.
    macro_rules! near_integer {
        ($number:ty) => {
            near!($number, |x: $number, y: $number| x.abs_diff(y) as f64)
        };
    }
    match ty {
        Type::F32 => near_float!(f32),
        Type::F64 => near_float!(f64),
        Type::U8 => near_integer!(u8),
        Type::U16 => near_integer!(u16),
        Type::U32 => near_integer!(u32),
        Type::U64 => near_integer!(u64),
        Type::I8 => near_integer!(i8),
        Type::I16 => near_integer!(i16),
        Type::I32 => near_integer!(i32),
        Type::I64 => near_integer!(i64),
        _ => false,
    }
}
