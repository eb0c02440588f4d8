//! What is different between two snapshots: the source of deltas for engines that do not know what was touched, and the measure
//! of those that do.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::cells::{AllCells, Cells, cells_of};
use super::list_order::{self, LIST_ORDER_KEY};
use super::references::refers_to;
use super::writer::removed;
use super::{Change, ComponentTable, DataEdit, Delta, DeltaOp, DeltaSchema, Group};
use crate::entity::{EntityId, EntityMap};
use crate::error::Result;
use crate::snapshot::{DataEntry, Snapshot};

impl Delta {
    /// What leads from `old` to `new`. Values are compared by their bytes, and both must be of this build.
    ///
    /// Where two captures share memory (see [`SnapshotWriter::over`](crate::engine::SnapshotWriter::over)) nothing is compared.
    pub fn between(
        schema: &DeltaSchema,
        old: &Snapshot,
        new: &Snapshot,
        since: u64,
        now: u64,
    ) -> Result<Self> {
        let table = schema.table();
        let mut comparison = Comparison::new(table, old, new)?;
        (0..new.archetypes.len()).try_for_each(|archetype| comparison.archetype(archetype))?;
        let mut delta = Self::empty(table, since, now);
        delta.notes = new.notes().to_vec();
        delta.lists = list_order::changed(table, old, new, &comparison.moved)?;
        delta.next_entity_id = new.next_entity_id;
        delta.despawned = std::mem::take(&mut comparison.despawned);
        delta.resources = resources(table, old, new, &comparison.spawned)?;
        delta.groups = comparison.groups()?;
        delta.metadata = (old.metadata != new.metadata).then(|| new.metadata.clone());
        delta.data = data_edits(&old.data, &new.data);
        Ok(delta)
    }
}

/// How the rows of an archetype of `old` become those of one of `new`.
struct ArchetypePair<'c, 's> {
    /// Components of the new one, with the cells on both sides.
    columns: Vec<(u32, &'c Cells<'s>, Option<&'c Cells<'s>>)>,
    /// Components of the old one that the new one does not have.
    gone: Vec<(u32, &'c Cells<'s>)>,
}

/// The operations that all entities of a group share.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct GroupShape {
    spawned: bool,
    ops: Vec<(u32, DeltaOp)>,
}

struct Comparison<'s> {
    table: &'s ComponentTable,
    old: AllCells<'s>,
    new: AllCells<'s>,
    new_ids: Vec<Vec<EntityId>>,
    old_ids: Vec<Vec<EntityId>>,
    /// Archetype and row in `old`, as the halves of an id.
    places: EntityMap,
    spawned: HashSet<EntityId>,
    despawned: Vec<EntityId>,
    /// Entities whose components are others.
    moved: HashSet<EntityId>,
    numbers: HashMap<GroupShape, usize>,
    groups: Vec<(GroupShape, Vec<(usize, usize)>)>,
}

impl<'s> Comparison<'s> {
    fn new(table: &'s ComponentTable, old: &'s Snapshot, new: &'s Snapshot) -> Result<Self> {
        let ids = |snapshot: &Snapshot| -> Vec<Vec<EntityId>> {
            snapshot.archetypes.iter().map(|archetype| archetype.ids().into_owned()).collect()
        };
        let (old_ids, new_ids) = (ids(old), ids(new));
        let all: Vec<EntityId> = old_ids.iter().flatten().copied().collect();
        let places: Vec<EntityId> = (old_ids.iter().zip(0..))
            .flat_map(|(ids, archetype)| (0..ids.len() as u32).map(move |row| EntityId::new(row, archetype)))
            .collect();
        let places = EntityMap::new(&all, &places)?;
        // One byte each is faster than one bit.
        let mut kept: Vec<Vec<bool>> = old_ids.iter().map(|ids| vec![false; ids.len()]).collect();
        let mut spawned = HashSet::new();
        for &id in new_ids.iter().flatten() {
            match places.get(id) {
                Some(place) => kept[place.generation() as usize][place.index() as usize] = true,
                None => {
                    spawned.insert(id);
                }
            }
        }
        let gone = old_ids.iter().zip(&kept).flat_map(|(ids, kept)| ids.iter().zip(kept));
        let despawned = gone.filter(|(_, kept)| !**kept).map(|(id, _)| *id).collect();
        Ok(Self {
            table,
            old: AllCells::new(table, old)?,
            new: AllCells::new(table, new)?,
            new_ids,
            old_ids,
            places,
            spawned,
            despawned,
            moved: HashSet::new(),
            numbers: HashMap::new(),
            groups: Vec::new(),
        })
    }

    fn add_row(&mut self, groups: GroupShape, archetype: usize, row: usize) {
        let number = match self.numbers.get(&groups) {
            Some(number) => *number,
            None => {
                self.numbers.insert(groups.clone(), self.groups.len());
                self.groups.push((groups, Vec::new()));
                self.groups.len() - 1
            }
        };
        self.groups[number].1.push((archetype, row));
    }

    fn archetype(&mut self, archetype: usize) -> Result<()> {
        let rows = self.new_ids[archetype].len();
        let mut row = 0;
        while row < rows {
            let Some(place) = self.places.get(self.new_ids[archetype][row]) else {
                let ops = self.new.of(archetype).iter().filter(|(_, cells)| cells.has(row));
                let ops = ops.map(|(number, _)| (*number, DeltaOp::Added)).collect();
                self.add_row(GroupShape { spawned: true, ops }, archetype, row);
                row += 1;
                continue;
            };
            let (from, from_row) = (place.generation() as usize, place.index() as usize);
            let pairs = self.new_ids[archetype][row..].iter().zip(&self.old_ids[from][from_row..]);
            let len = pairs.take_while(|(new, old)| new == old).count();
            for (place, ops) in self.run(archetype, row, from, from_row, len)? {
                if ops.iter().any(|(_, op)| *op != DeltaOp::Changed) {
                    self.moved.insert(self.new_ids[archetype][row + place]);
                }
                self.add_row(GroupShape { spawned: false, ops }, archetype, row + place);
            }
            row += len;
        }
        Ok(())
    }

    /// What is different about rows that follow each other on both sides.
    fn run(
        &self,
        archetype: usize,
        row: usize,
        from: usize,
        from_row: usize,
        len: usize,
    ) -> Result<BTreeMap<usize, Vec<(u32, DeltaOp)>>> {
        let (new, old) = (self.new.of(archetype), self.old.of(from));
        let pair = ArchetypePair {
            columns: new.iter().map(|(number, cells)| (*number, cells, old.get(number))).collect(),
            gone: old
                .iter()
                .filter(|(number, _)| !new.contains_key(number))
                .map(|(number, cells)| (*number, cells))
                .collect(),
        };
        let mut found: BTreeMap<usize, Vec<(u32, DeltaOp)>> = BTreeMap::new();
        for &(number, cells, before) in &pair.columns {
            let Some(before) = before else {
                for place in (0..len).filter(|&place| cells.has(row + place)) {
                    found.entry(place).or_default().push((number, DeltaOp::Added));
                }
                continue;
            };
            let mut different: Vec<usize> = Vec::new();
            cells.differing(row, before, from_row, len, |place| different.push(place))?;
            let schema = self.table.get(number).schema()?;
            if schema.has_entities() && !self.spawned.is_empty() {
                // What refers to an entity that comes only now could not be mapped before.
                let dense = cells.dense()?;
                let known: HashSet<usize> = different.iter().copied().collect();
                for place in (0..len).filter(|place| !known.contains(place)) {
                    if let Some(bytes) = dense.get(row + place)
                        && refers_to(schema, bytes, &self.spawned)?
                    {
                        different.push(place);
                    }
                }
            }
            for place in different {
                let op = match (before.has(from_row + place), cells.has(row + place)) {
                    (_, false) => DeltaOp::Removed,
                    (false, true) => DeltaOp::Added,
                    (true, true) => DeltaOp::Changed,
                };
                found.entry(place).or_default().push((number, op));
            }
        }
        for (number, before) in pair.gone {
            for place in (0..len).filter(|&place| before.has(from_row + place)) {
                found.entry(place).or_default().push((number, DeltaOp::Removed));
            }
        }
        found.values_mut().for_each(|ops| ops.sort_unstable());
        Ok(found)
    }

    fn groups(self) -> Result<Vec<Group>> {
        let group = |(groups, rows): &(GroupShape, Vec<(usize, usize)>)| {
            let ids = rows.iter().map(|&(archetype, row)| self.new_ids[archetype][row]).collect();
            let change = |&(number, op): &(u32, DeltaOp)| match op {
                DeltaOp::Removed => Ok(removed(number)),
                DeltaOp::Added | DeltaOp::Changed => {
                    let column = self.new.column(number, self.table.get(number), rows)?;
                    Ok(Change { op, fields: 0, column })
                }
            };
            let changes = groups.ops.iter().map(change).collect::<Result<_>>()?;
            Ok(Group { spawned: groups.spawned, ids, changes })
        };
        self.groups.iter().map(group).collect()
    }
}

fn resources(
    table: &ComponentTable,
    old: &Snapshot,
    new: &Snapshot,
    spawned: &HashSet<EntityId>,
) -> Result<Vec<(u32, Option<crate::column::Column>)>> {
    let cells = |snapshot| -> Result<BTreeMap<u32, Cells<'_>>> {
        cells_of(table, snapshot, &snapshot.resources, 1).collect()
    };
    let (before, after) = (cells(old)?, cells(new)?);
    let mut changes = Vec::new();
    for (&number, cells) in &after {
        let value = cells.dense()?.get(0);
        let known = before.get(&number).map(Cells::dense).transpose()?.and_then(|dense| dense.get(0));
        let component = table.get(number);
        // As with components: what refers to an entity that comes only now could not be mapped before.
        let newly_mapped = |value: &[u8]| match component.schema()? {
            schema if schema.has_entities() && !spawned.is_empty() => refers_to(schema, value, spawned),
            _ => Ok(false),
        };
        if let Some(bytes) = value
            && (value != known || newly_mapped(bytes)?)
        {
            let column = crate::column::plain_column_from(number, component, [value].into_iter())?;
            changes.push((number, column));
        }
    }
    for (&number, cells) in &before {
        let gone =
            after.get(&number).map(Cells::dense).transpose()?.is_none_or(|dense| dense.get(0).is_none());
        if gone && cells.dense()?.get(0).is_some() {
            changes.push((number, None));
        }
    }
    changes.sort_by_key(|(number, _)| *number);
    Ok(changes)
}

/// Data afterwards by what it was before; `None` if it is the same. The order of lists travels in another way.
pub(super) fn data_edits(before: &[DataEntry], after: &[DataEntry]) -> Option<Vec<DataEdit>> {
    let own = |entry: &&DataEntry| entry.key() != LIST_ORDER_KEY;
    let before: Vec<&DataEntry> = before.iter().filter(own).collect();
    let same = |a: &DataEntry, b: &DataEntry| {
        a.key() == b.key()
            && a.version() == b.version()
            && a.schema_fingerprint() == b.schema_fingerprint()
            && a.as_bytes() == b.as_bytes()
    };
    let mut keys: HashMap<&str, Vec<usize>> = HashMap::new();
    before.iter().enumerate().for_each(|(place, entry)| keys.entry(entry.key()).or_default().push(place));
    let mut unchanged = true;
    let mut edits = Vec::new();
    for entry in after.iter().filter(own) {
        let places = keys.get(entry.key()).map_or(&[][..], |places| places);
        match places.iter().find(|&&place| same(before[place], entry)) {
            Some(&place) => {
                unchanged &= place == edits.len();
                edits.push(DataEdit::Kept(place as u32));
            }
            None => {
                unchanged = false;
                edits.push(DataEdit::New(entry.clone()));
            }
        }
    }
    (!unchanged || edits.len() != before.len()).then_some(edits)
}
