//! A snapshot without accidents: the same world gives the same bytes, whatever ids its entities have, in whatever order
//! archetypes were made and components registered, and however its columns were stored.

use std::collections::BTreeMap;

use super::carry::{Carried, CarryKind};
use super::data::DataEntry;
use super::{Archetype, Damage, OWN_DATA, Snapshot};
use crate::column::{Column, Component, column_from, transform};
use crate::context::{Dangling, LoadContext};
use crate::entity::{EntityId, EntityMap};
use crate::error::Result;
use crate::limits::Limits;
use crate::row::RowLayout;
use crate::storage::{AlignedBuf, Rope};
use crate::value::Value;

/// An entity and its values, by the number of their component.
struct Row {
    id: EntityId,
    values: BTreeMap<u32, Vec<u8>>,
}

/// The rows of a snapshot, by the sorted keys of the components that they have.
type RowsByKeys<'a> = BTreeMap<Vec<&'a str>, Vec<Row>>;

/// The order of the rows of an archetype.
enum RowOrder<'a> {
    AsTheyAre,
    Content,
    By(&'a dyn Fn(EntityId) -> EntityId),
}

impl Snapshot {
    /// Archetypes merged by their components and sorted by their keys, ids counted up in row order, references
    /// following, every column encoded row by row, nothing about ids or sections left. For comparing worlds; not
    /// fast.
    pub fn canonical(&self) -> Result<Self> {
        self.canonical_with(&RowOrder::AsTheyAre)
    }

    /// As [`Snapshot::canonical`], with the rows of each archetype sorted by their content too: for content hashes of
    /// worlds whose row order has no meaning. Entities that differ in nothing but whom they refer to keep their order.
    pub fn canonical_sorted(&self) -> Result<Self> {
        self.canonical_with(&RowOrder::Content)
    }

    /// As [`Snapshot::canonical`], with the rows of each archetype sorted by what `place` makes of their ids: for comparing two
    /// worlds of which it is known who is who, a server and its mirror for example. That is exact, also where entities
    /// are alike.
    pub fn canonical_by(&self, place: impl Fn(EntityId) -> EntityId) -> Result<Self> {
        self.canonical_with(&RowOrder::By(&place))
    }

    fn canonical_with(&self, order: &RowOrder<'_>) -> Result<Self> {
        let limits = Limits::default();
        let mut rows = self.rows_by_keys(&limits)?;
        self.sort_rows(&mut rows, order, &limits);
        let map = counted_ids(&rows)?;
        let context = LoadContext::new(&limits).entities(&map, Dangling::Null);
        let canonical = Canonicalizer::new(self, &map, &limits, &context);
        Ok(Self {
            metadata: canonical.metadata(),
            next_entity_id: rows.values().map(|rows| rows.len() as u64).sum(),
            components: canonical.components(),
            archetypes: canonical.archetypes(&rows)?,
            resources: canonical.resources()?,
            shared: Vec::new(),
            carried: canonical.carried()?,
            data: canonical.data()?,
            sections: Vec::new(),
            damage: Damage::default(),
            migration_changes: Vec::new(),
            notes: Vec::new(),
            world: None,
            format_version: None,
        })
    }

    /// Returns all rows by the components that they have. An entity without a value of a sparse column does not have that
    /// component.
    fn rows_by_keys(&self, limits: &Limits) -> Result<RowsByKeys<'_>> {
        let mut rows_by_keys = RowsByKeys::new();
        for archetype in &self.archetypes {
            let columns = (archetype.columns.iter())
                .map(|column| Ok((column.component, self.dense(column, archetype.rows, limits, &|_| false)?)))
                .collect::<Result<Vec<_>>>()?;
            for (row, &id) in archetype.ids().iter().enumerate() {
                let values: BTreeMap<u32, Vec<u8>> = (columns.iter())
                    .filter_map(|(number, dense)| Some((*number, dense.get(row)?.to_vec())))
                    .collect();
                let mut keys: Vec<&str> =
                    values.keys().map(|&number| &*self.components[number as usize].key).collect();
                keys.sort_unstable();
                rows_by_keys.entry(keys).or_default().push(Row { id, values });
            }
        }
        Ok(rows_by_keys)
    }

    fn sort_rows(&self, rows: &mut RowsByKeys<'_>, order: &RowOrder<'_>, limits: &Limits) {
        match order {
            RowOrder::AsTheyAre => {}
            RowOrder::By(place) => {
                rows.values_mut().for_each(|rows| rows.sort_by_cached_key(|row| place(row.id)));
            }
            RowOrder::Content => {
                let nowhere = EntityMap::default();
                let context = LoadContext::new(limits).entities(&nowhere, Dangling::Null);
                let content = |row: &Row| self.content_of(row, &context);
                rows.values_mut().for_each(|rows| rows.sort_by_cached_key(content));
            }
        }
    }

    /// Returns the values of a row, with every reference as null.
    fn content_of(&self, row: &Row, nowhere: &LoadContext<'_>) -> Vec<Vec<u8>> {
        let content = |(number, bytes): (&u32, &Vec<u8>)| {
            map_references(&self.components[*number as usize], bytes, nowhere)
                .unwrap_or_else(|_| bytes.clone())
        };
        row.values.iter().map(content).collect()
    }

    /// 128 bits that are equal for equal canonical snapshots.
    pub fn content_hash(&self) -> Result<crate::schema::Fingerprint> {
        let bytes = self.canonical()?.encode(&super::EncodeOptions::default())?.to_vec();
        Ok(crate::schema::Fingerprint::of(&bytes))
    }
}

/// Counts ids up in row order.
fn counted_ids(rows: &RowsByKeys<'_>) -> Result<EntityMap> {
    let saved: Vec<EntityId> = rows.values().flatten().map(|row| row.id).collect();
    let counted: Vec<EntityId> = (0..saved.len() as u32).map(|index| EntityId::new(index, 0)).collect();
    EntityMap::new(&saved, &counted)
}

/// Returns a value with its references mapped, and with its maps sorted where that was needed.
fn map_references(component: &Component, bytes: &[u8], context: &LoadContext<'_>) -> Result<Vec<u8>> {
    match &component.schema {
        Some(schema) if schema.has_entities() => transform(schema, bytes, context, Value::sort_maps),
        _ => Ok(bytes.to_vec()),
    }
}

/// Makes the parts of a canonical snapshot.
struct Canonicalizer<'a> {
    snapshot: &'a Snapshot,
    /// The counted ids, by saved ones.
    map: &'a EntityMap,
    limits: &'a Limits,
    context: &'a LoadContext<'a>,
    /// The components by their saved number, without layouts of raw rows.
    components: Vec<Component>,
    /// The saved numbers of the components, in the order of their keys.
    order: Vec<u32>,
}

impl<'a> Canonicalizer<'a> {
    fn new(
        snapshot: &'a Snapshot,
        map: &'a EntityMap,
        limits: &'a Limits,
        context: &'a LoadContext<'a>,
    ) -> Self {
        let components: Vec<Component> = (snapshot.components.iter().cloned())
            .map(|component| Component { row: RowLayout::default(), ..component })
            .collect();
        let mut order: Vec<u32> = (0..components.len() as u32).collect();
        order.sort_by(|&a, &b| components[a as usize].key.cmp(&components[b as usize].key));
        Self { snapshot, map, limits, context, components, order }
    }

    fn metadata(&self) -> Vec<(String, Value)> {
        let mut metadata = self.snapshot.metadata.clone();
        metadata.iter_mut().for_each(|(_, value)| value.sort_maps());
        metadata
    }

    fn components(&self) -> Vec<Component> {
        self.order.iter().map(|&number| self.components[number as usize].clone()).collect()
    }

    fn archetypes(&self, rows_by_keys: &RowsByKeys<'_>) -> Result<Vec<Archetype>> {
        let mut next = 0;
        let mut archetypes = Vec::new();
        for rows in rows_by_keys.values() {
            let ids: Vec<u8> = (next..next + rows.len() as u64).flat_map(u64::to_le_bytes).collect();
            next += rows.len() as u64;
            let mut columns = Vec::new();
            for &number in &self.order {
                columns.extend(self.column(number, rows.iter().map(|row| row.values.get(&number)))?);
            }
            let ids = AlignedBuf::copy_from(&ids).share().into();
            archetypes.push(Archetype { rows: rows.len(), ids, columns });
        }
        Ok(archetypes)
    }

    fn resources(&self) -> Result<Vec<Column>> {
        let mut resources = Vec::new();
        for column in &self.snapshot.resources {
            let dense = self.snapshot.dense(column, 1, self.limits, &|_| false)?;
            if let Some(bytes) = dense.get(0) {
                resources.extend(self.column(column.component, [Some(bytes)].into_iter())?);
            }
        }
        resources.sort_by_key(|column| column.component);
        Ok(resources)
    }

    fn carried(&self) -> Result<Vec<Carried>> {
        let mut carried = Vec::new();
        for record in &self.snapshot.carried {
            carried.extend(self.carried_record(record)?);
        }
        carried.sort_by_key(|record| (record.column.component, record.kind.number()));
        Ok(carried)
    }

    /// Returns a carried record with the rows of entities that are in the snapshot, sorted by their ids.
    fn carried_record(&self, record: &Carried) -> Result<Option<Carried>> {
        let dense = self.snapshot.dense(&record.column, record.rows, self.limits, &|_| false)?;
        let owners: Vec<Option<EntityId>> = match record.kind {
            CarryKind::Resource => vec![Some(EntityId::NULL)],
            _ => record.ids().iter().map(|id| self.map.get(*id)).collect(),
        };
        let mut rows: Vec<(EntityId, &[u8])> =
            dense.iter().zip(owners).filter_map(|(bytes, owner)| Some((owner?, bytes?))).collect();
        rows.sort_by_key(|(owner, _)| *owner);
        let values = rows.iter().map(|(_, bytes)| Some(*bytes));
        let Some(column) = self.column(record.column.component, values)? else { return Ok(None) };
        let ids = rows.iter().filter(|(id, _)| !id.is_null()).flat_map(|(id, _)| id.to_bits().to_le_bytes());
        let ids: Rope = AlignedBuf::copy_from(&ids.collect::<Vec<u8>>()).share().into();
        Ok(Some(Carried { kind: record.kind, rows: rows.len(), ids, column }))
    }

    fn data(&self) -> Result<Vec<DataEntry>> {
        let is_kept = |entry: &&DataEntry| !OWN_DATA.contains(&entry.key());
        let data = self.snapshot.data.iter().filter(is_kept);
        data.map(|entry| entry.canonical(self.context)).collect()
    }

    /// Makes a column of the component with this saved number. `None` if no row has a value.
    fn column<V: AsRef<[u8]>>(
        &self,
        number: u32,
        rows: impl Iterator<Item = Option<V>>,
    ) -> Result<Option<Column>> {
        let component = &self.components[number as usize];
        let values = rows
            .map(|value| {
                value.map(|bytes| map_references(component, bytes.as_ref(), self.context)).transpose()
            })
            .collect::<Result<Vec<_>>>()?;
        let values: Vec<Option<&[u8]>> = values.iter().map(|value| value.as_deref()).collect();
        let new = self.order.iter().position(|&old| old == number).unwrap_or(0) as u32;
        column_from(new, component, values.into_iter())
    }
}
