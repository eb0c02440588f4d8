//! Fields instead of whole components: some leaves of raw rows, one after the other in the order of the schema.

use std::sync::Arc;

use super::{Change, Delta, DeltaOp, DeltaSchema};
use crate::bulk::RawRows;
use crate::column::{Body, Column, Component, dense_rows, plain_column_from};
use crate::entity::EntityId;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::registry::Registry;
use crate::row::{Move, RowLayout};
use crate::schema::FixedLeaf;
use crate::storage::{AlignedBuf, Rope};

/// Leaves beyond these are not told apart: such components are told whole.
pub(super) const FIELDS_MAX: usize = 64;

/// The leaves of a component whose fields may be told apart.
pub(super) fn leaves(component: &Component) -> Option<&[FixedLeaf]> {
    // Asked for every column of a delta: what is large is passed over before it is looked at.
    if component.row.stride == 0 || !(2..=FIELDS_MAX).contains(&component.row.offsets.len()) {
        return None;
    }
    // A type with leaves alone has no references.
    component.row.check(component.schema.as_ref()?).ok()
}

/// The bytes of some leaves of a row.
pub(super) fn fields_size(component: &Component, fields: u64) -> Result<usize> {
    let leaves = leaves(component).ok_or_else(|| Error::corrupt("its fields cannot be told apart"))?;
    let known = u64::MAX >> (FIELDS_MAX - leaves.len());
    if fields == 0 || fields & !known != 0 {
        return Err(Error::corrupt(format!("fields {fields:#x} of {}", leaves.len())));
    }
    Ok(chosen(leaves, fields).map(|(_, leaf)| leaf.size as usize).sum())
}

pub(super) fn chosen(leaves: &[FixedLeaf], fields: u64) -> impl Iterator<Item = (usize, &FixedLeaf)> {
    leaves.iter().enumerate().filter(move |(number, _)| fields >> number & 1 == 1)
}

/// From a packed row of some leaves to a whole row.
pub(super) fn moves(leaves: &[FixedLeaf], row: &RowLayout, fields: u64) -> Vec<Move> {
    let mut from = 0;
    let step = |(number, leaf): (usize, &FixedLeaf)| {
        let len = leaf.size as usize;
        from += len;
        Move { from: from - len, to: row.offsets[number] as usize, len }
    };
    chosen(leaves, fields).map(step).collect()
}

/// A whole row's leaves, packed.
pub(super) fn pack(row: &[u8], moves: &[Move], out: &mut Vec<u8>) {
    for step in moves {
        out.extend_from_slice(&row[step.to..step.to + step.len]);
    }
}

/// Packed leaves, where they belong in a whole row.
pub(super) fn unpack(packed: &[u8], moves: &[Move], row: &mut [u8]) {
    for step in moves {
        row[step.to..step.to + step.len].copy_from_slice(&packed[step.from..step.from + step.len]);
    }
}

impl Delta {
    /// Whether some columns have only some of the fields of their component.
    pub fn has_fields(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.changes).any(|change| change.fields != 0)
    }

    /// The same with whole components: fields that are not told are what they are now. `current` finds the value that an
    /// entity has of a component (its number in the registry); what is not there is left out.
    ///
    /// # Safety
    /// What `current` returns points to a live value of the component's Rust type that nobody writes to during the call.
    #[expect(unsafe_code, reason = "values without their type")]
    pub unsafe fn with_whole_components(
        &self,
        registry: &Registry,
        schema: &DeltaSchema,
        mut current: impl FnMut(usize, EntityId) -> Option<*const u8>,
    ) -> Result<Self> {
        let mut delta = self.clone();
        let is_laid_out_alike = self.table.same_rows(schema.table());
        for group in &mut delta.groups {
            for change in &mut group.changes {
                if change.fields == 0 {
                    if !is_laid_out_alike && change.op != DeltaOp::Removed {
                        change.column = self.laid_out_as(&change.column, group.ids.len(), schema)?;
                    }
                    continue;
                }
                let number = schema.registered(change.column.component);
                let descriptor = &registry.descriptors()[number];
                let component = self.table.get(change.column.component);
                let own = descriptor.row_layout();
                let stride = own.stride as usize;
                // The rows that this build has, in its own layout.
                let read = |id: EntityId, row: &mut [u8]| {
                    let Some(value) = current(number, id) else { return false };
                    // SAFETY: the caller vouches for the value.
                    unsafe { descriptor.column.gather(RawRows::Pointers(&[value]), 0..1, row) };
                    true
                };
                *change = widened(change, component, own, stride, &group.ids, read)
                    .map_err(|error| error.in_key(&component.key))?;
            }
        }
        if !is_laid_out_alike {
            for column in delta.resources.iter_mut().filter_map(|(_, column)| column.as_mut()) {
                *column = self.laid_out_as(column, 1, schema)?;
            }
            delta.table = Arc::clone(schema.table());
        }
        Ok(delta)
    }

    /// A whole column of it, laid out as this build has its rows: another compiler may put fields elsewhere.
    fn laid_out_as(&self, column: &Column, rows: usize, schema: &DeltaSchema) -> Result<Column> {
        let (component, own) = (self.table.get(column.component), schema.table().get(column.component));
        if !matches!(column.body, Body::Raw(_)) || component.row == own.row {
            return Ok(column.clone());
        }
        let dense = dense_rows(column, component, None, rows, &Limits::default(), &|_| false)?;
        let rows = (0..dense.len()).map(|row| dense.get(row));
        let column = plain_column_from(column.component, own, rows)?;
        column.ok_or_else(|| Error::corrupt("a column without rows").in_key(&own.key))
    }
}

fn widened(
    change: &Change,
    component: &Component,
    own: &RowLayout,
    stride: usize,
    ids: &[EntityId],
    mut read: impl FnMut(EntityId, &mut [u8]) -> bool,
) -> Result<Change> {
    let leaves = leaves(component).ok_or_else(|| Error::corrupt("its fields cannot be told apart"))?;
    let packed_size = fields_size(component, change.fields)?;
    let moves = moves(leaves, own, change.fields);
    let Body::Raw(rope) = &change.column.body else {
        return Err(Error::corrupt("some fields of values that have none"));
    };
    let packed = rope.contiguous();
    let mut packed = packed.chunks_exact(packed_size);
    let mut rows = AlignedBuf::zeroed(stride * change.column.rows);
    let mut kept = 0;
    let mut present = Vec::with_capacity(ids.len());
    for (place, id) in ids.iter().enumerate() {
        let told = change.column.present.as_ref().is_none_or(|present| present.get(place));
        let Some(fields) = told.then(|| packed.next()).flatten() else {
            present.push(false);
            continue;
        };
        let row = &mut rows.as_mut()[kept * stride..(kept + 1) * stride];
        let found = read(*id, row);
        present.push(found);
        if found {
            unpack(fields, &moves, row);
            kept += 1;
        }
    }
    let bytes = rows.share().slice(..kept * stride);
    let present = crate::storage::Bitmap::from_rows(present.into_iter());
    let column = Column {
        component: change.column.component,
        present,
        rows: kept,
        body: Body::Raw(Rope::from(bytes)),
    };
    Ok(Change { op: DeltaOp::Changed, fields: 0, column })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::SnapshotWriter;
    use crate::delta::{ComponentTable, Granularity, SentValues};
    use crate::descriptor::Descriptor;

    type Wide = (u32, u32);
    const ID: EntityId = EntityId::new(3, 1);

    /// The table as a build has it that puts the second field first.
    fn turned(table: &ComponentTable) -> ComponentTable {
        let mut table = table.clone();
        table.components[0].row.offsets.reverse();
        table
    }

    /// Raw rows with their halves exchanged.
    fn turn(column: &mut Column) {
        let Body::Raw(rope) = &column.body else { panic!("numbers lie in raw rows") };
        let bytes =
            rope.contiguous().chunks_exact(8).flat_map(|row| [&row[4..], &row[..4]].concat()).collect();
        column.body = Body::Raw(Rope::from(bytes::Bytes::from_owner::<Vec<u8>>(bytes)));
    }

    #[test]
    fn a_build_with_another_layout_may_tell_fields() {
        let mut registry = Registry::new();
        registry.add(Descriptor::new::<Wide>("test.wide")).unwrap();
        let schema = DeltaSchema::new(&registry);
        let capture = |values: &[(EntityId, Wide)]| {
            let mut writer = SnapshotWriter::new(&registry);
            let (ids, values): (Vec<EntityId>, Vec<Wide>) = values.iter().copied().unzip();
            writer.archetype(&ids).unwrap().column(&values).unwrap();
            writer.finish().unwrap()
        };
        let (new, old) = (EntityId::new(4, 1), (7, 8));
        let worlds = [capture(&[(ID, old)]), capture(&[(ID, (7, 9)), (new, (1, 2))])];
        let mut sent = SentValues::new(Granularity::Field);
        let between = |old: &_, new: &_| Delta::between(&schema, old, new, 1, 2).unwrap();
        // A value is sent whole once, and then field by field.
        sent.filter(&between(&capture(&[(ID, (0, 0))]), &worlds[0])).unwrap();
        let delta = sent.filter(&between(&worlds[0], &worlds[1])).unwrap();
        assert!(delta.has_fields());
        let widen = |delta: &Delta| {
            let current = |_, id: EntityId| (id == ID).then(|| std::ptr::from_ref(&old).cast());
            // SAFETY: it is a value of the component's type.
            #[expect(unsafe_code, reason = "values without their type")]
            unsafe { delta.with_whole_components(&registry, &schema, current) }.unwrap()
        };
        let mut foreign = Delta { table: Arc::new(turned(&delta.table)), ..delta.clone() };
        let whole = foreign.groups.iter_mut().flat_map(|group| &mut group.changes);
        whole.filter(|change| change.fields == 0).for_each(|change| turn(&mut change.column));
        let (here, from_there) = (widen(&delta), widen(&foreign));
        assert!(!foreign.table.same_rows(schema.table()) && from_there.table.same_rows(schema.table()));
        for delta in [here, from_there] {
            let world = worlds[0].with_delta(&delta).unwrap();
            assert_eq!(world.content_hash().unwrap(), worlds[1].content_hash().unwrap());
        }
    }
}
