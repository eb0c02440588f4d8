//! A snapshot as a delta from nothing.

use super::cells::cells_of;
use super::list_order::{self, LIST_ORDER_KEY};
use super::{Change, ComponentTable, DataEdit, Delta, DeltaOp, DeltaSchema, Group, List};
use crate::column::{Body, Column, plain_column_from};
use crate::error::Result;
use crate::limits::Limits;
use crate::snapshot::Snapshot;

impl Delta {
    /// Everything that a snapshot has. Whoever applies it drops what it does not mention.
    pub fn whole(schema: &DeltaSchema, snapshot: &Snapshot, now: u64) -> Result<Self> {
        let table = schema.table();
        let mut delta = Self::empty(table, 0, now);
        delta.whole = true;
        delta.notes = snapshot.notes().to_vec();
        delta.next_entity_id = snapshot.next_entity_id;
        for archetype in &snapshot.archetypes {
            let change = |column| Change { op: DeltaOp::Added, fields: 0, column };
            let columns = columns(table, snapshot, &archetype.columns, archetype.rows)?;
            let changes = columns.into_iter().map(change).collect();
            delta.groups.push(Group { spawned: true, ids: archetype.ids().into_owned(), changes });
        }
        let resources = columns(table, snapshot, &snapshot.resources, 1)?;
        delta.resources = resources
            .into_iter()
            .filter(|column| column.rows == 1)
            .map(|column| (column.component, Some(Column { present: None, ..column })))
            .collect();
        for (key, lists) in list_order::of(snapshot, &Limits::default())? {
            let Some(component) = table.number(&key) else { continue };
            let lists = lists.into_iter().map(|(target, sources)| List { component, target, sources });
            delta.lists.extend(lists);
        }
        delta.lists.sort_by_key(|list| (list.component, list.target));
        delta.metadata = Some(snapshot.metadata.clone());
        let own = snapshot.data.iter().filter(|entry| entry.key() != LIST_ORDER_KEY);
        delta.data = Some(own.cloned().map(DataEdit::New).collect());
        Ok(delta)
    }
}

/// Columns in the table's numbers and layouts, as plain rows; those that lie so already are shared.
fn columns(
    table: &ComponentTable,
    snapshot: &Snapshot,
    columns: &[Column],
    rows: usize,
) -> Result<Vec<Column>> {
    let mut told = Vec::new();
    cells_of(table, snapshot, columns, rows).try_for_each(|cells| cells.map(drop))?;
    for column in columns {
        let own = &snapshot.components[column.component as usize];
        let Some(number) = table.number(&own.key) else { continue };
        let component = table.get(number);
        let as_it_is = match &column.body {
            Body::Tag => component.row.stride == 0,
            Body::Raw(_) => own.row == component.row,
            Body::Rows(_) => component.row.stride == 0,
            Body::Dictionary { .. } | Body::Shared { .. } => false,
        };
        if as_it_is {
            told.push(Column { component: number, ..column.clone() });
            continue;
        }
        let dense = snapshot.dense(column, rows, &Limits::default(), &|_| false)?;
        let values: Vec<Option<&[u8]>> = dense.iter().collect();
        told.extend(plain_column_from(number, component, values.into_iter())?);
    }
    told.sort_by_key(|column| column.component);
    Ok(told)
}
