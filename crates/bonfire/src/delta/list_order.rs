//! The order of lists that engines make again from their sources, such as a parent's children.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{ComponentTable, List};
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::snapshot::Snapshot;

/// The data entry with the order of sources.
pub const LIST_ORDER_KEY: &str = "bonfire.order";

/// Per relationship, by key, the sources of each target whose order is not that of rows.
pub type SavedOrder = BTreeMap<String, BTreeMap<EntityId, Vec<EntityId>>>;

pub(super) fn of(snapshot: &Snapshot, limits: &Limits) -> Result<SavedOrder> {
    let entry = snapshot.data.iter().find(|entry| entry.key() == LIST_ORDER_KEY);
    let order = entry.map(|entry| entry.get_in(&LoadContext::new(limits)));
    order.transpose().map(Option::unwrap_or_default)
}

/// The lists that are another one in `new`. A list that was told in `old` and has the order of rows now is told too: a mirror
/// has other rows. So is one with a source in `moved`, whose place among the rows is new.
pub(super) fn changed(
    table: &ComponentTable,
    old: &Snapshot,
    new: &Snapshot,
    moved: &HashSet<EntityId>,
) -> Result<Vec<List>> {
    let limits = Limits::default();
    let (before, after) = (of(old, &limits)?, of(new, &limits)?);
    let mut lists = Vec::new();
    let mut unlisted: HashMap<u32, HashSet<EntityId>> = HashMap::new();
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let Some(component) = table.number(key) else { continue };
        let (empty, other) = (BTreeMap::new(), BTreeMap::new());
        let (before, after) = (before.get(key).unwrap_or(&empty), after.get(key).unwrap_or(&other));
        for (&target, sources) in after {
            let known = before.get(&target) == Some(sources);
            if !known || sources.iter().any(|source| moved.contains(source)) {
                lists.push(List { component, target, sources: sources.clone() });
            }
        }
        let gone = before.keys().filter(|target| !after.contains_key(target));
        unlisted.entry(component).or_default().extend(gone);
    }
    for (component, targets) in unlisted {
        let row_order = row_order(new, &table.get(component).key, &targets)?;
        lists.extend(row_order.into_iter().map(|(target, sources)| List { component, target, sources }));
    }
    lists.sort_by_key(|list| (list.component, list.target));
    Ok(lists)
}

/// The sources of some targets in the order of rows.
fn row_order(
    snapshot: &Snapshot,
    key: &str,
    targets: &HashSet<EntityId>,
) -> Result<BTreeMap<EntityId, Vec<EntityId>>> {
    let mut lists: BTreeMap<EntityId, Vec<EntityId>> = BTreeMap::new();
    if targets.is_empty() {
        return Ok(lists);
    }
    for archetype in &snapshot.archetypes {
        let column =
            archetype.columns.iter().find(|column| snapshot.components[column.component as usize].key == key);
        let Some(column) = column else { continue };
        let dense = snapshot.dense(column, archetype.rows, &Limits::default(), &|_| false)?;
        for (id, bytes) in archetype.ids().iter().zip(dense.iter()) {
            let target = bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            let target = target.map(EntityId::from_bits).filter(|target| targets.contains(target));
            if let Some(target) = target {
                lists.entry(target).or_default().push(*id);
            }
        }
    }
    Ok(lists)
}

/// The order of a snapshot that a delta was applied to.
pub(super) fn with_lists(mut order: SavedOrder, table: &ComponentTable, lists: &[List]) -> SavedOrder {
    for list in lists {
        let key = &table.get(list.component).key;
        order.entry(key.clone()).or_default().insert(list.target, list.sources.clone());
    }
    order
}
