//! A snapshot without accidents: the same world gives the same bytes, whatever ids its entities have, in whatever order
//! archetypes were made and components registered, and however its columns were stored.

use std::collections::BTreeMap;

use super::carry::{Carried, CarryKind};
use super::data::FREE_LIST_KEY;
use super::{Archetype, Damage, Snapshot};
use crate::column::{Component, column_from, transform};
use crate::context::{Dangling, LoadContext};
use crate::entity::{EntityId, EntityMap};
use crate::error::Result;
use crate::limits::Limits;
use crate::storage::{AlignedBuf, Rope};
use crate::value::Value;

type Row = BTreeMap<u32, Vec<u8>>;

/// In which order the rows of an archetype are.
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
        // Archetypes are what their rows have: an entity without a value of a sparse column has not that component.
        let mut archetypes: BTreeMap<Vec<&str>, Vec<(EntityId, Row)>> = BTreeMap::new();
        for archetype in &self.archetypes {
            let ids = archetype.ids();
            let columns = (archetype.columns.iter())
                .map(|column| {
                    Ok((column.component, self.dense(column, archetype.rows, &limits, &|_| false)?))
                })
                .collect::<Result<Vec<_>>>()?;
            for (row, id) in ids.iter().enumerate() {
                let values =
                    columns.iter().filter_map(|(number, dense)| Some((*number, dense.get(row)?.to_vec())));
                let values: Row = values.collect();
                let mut keys: Vec<&str> =
                    values.keys().map(|&number| &*self.components[number as usize].key).collect();
                keys.sort_unstable();
                archetypes.entry(keys).or_default().push((*id, values));
            }
        }
        if let RowOrder::By(place) = order {
            archetypes.values_mut().for_each(|rows| rows.sort_by_cached_key(|(id, _)| place(*id)));
        }
        if let RowOrder::Content = order {
            let nowhere = EntityMap::default();
            let context = LoadContext::new(&limits).entities(&nowhere, Dangling::Null);
            for rows in archetypes.values_mut() {
                let without_references = |(_, values): &(EntityId, Row)| {
                    let plain =
                        |(number, bytes): (&u32, &Vec<u8>)| match &self.components[*number as usize].schema {
                            Some(schema) if schema.has_entities() => {
                                transform(schema, bytes, &context, Value::sort_maps)
                                    .unwrap_or_else(|_| bytes.clone())
                            }
                            _ => bytes.clone(),
                        };
                    values.iter().map(plain).collect::<Vec<_>>()
                };
                rows.sort_by_cached_key(without_references);
            }
        }
        let saved: Vec<EntityId> = archetypes.values().flatten().map(|(id, _)| *id).collect();
        let numbered: Vec<EntityId> = (0..saved.len() as u32).map(|index| EntityId::new(index, 0)).collect();
        let map = EntityMap::new(&saved, &numbered)?;
        let context = LoadContext::new(&limits).entities(&map, Dangling::Null);

        let components: Vec<Component> = (self.components.iter().cloned())
            .map(|component| Component { row: crate::row::RowLayout::default(), ..component })
            .collect();
        let mut order: Vec<u32> = (0..components.len() as u32).collect();
        order.sort_by(|&a, &b| components[a as usize].key.cmp(&components[b as usize].key));
        let mapped = |number: u32, bytes: &[u8]| match &components[number as usize].schema {
            Some(schema) if schema.has_entities() => transform(schema, bytes, &context, Value::sort_maps),
            _ => Ok(bytes.to_vec()),
        };
        let position = |number: u32| order.iter().position(|&old| old == number).unwrap_or(0) as u32;

        let mut next = 0;
        let mut canonical = Vec::new();
        for rows in archetypes.values() {
            let ids: Vec<u8> = (next..next + rows.len() as u64).flat_map(u64::to_le_bytes).collect();
            next += rows.len() as u64;
            let mut columns = Vec::new();
            for &number in &order {
                let values = (rows.iter())
                    .map(|(_, values)| values.get(&number).map(|bytes| mapped(number, bytes)).transpose())
                    .collect::<Result<Vec<_>>>()?;
                let values: Vec<Option<&[u8]>> = values.iter().map(|value| value.as_deref()).collect();
                columns.extend(column_from(
                    position(number),
                    &components[number as usize],
                    values.into_iter(),
                )?);
            }
            let ids = AlignedBuf::copy_from(&ids).share().into();
            canonical.push(Archetype { rows: rows.len(), ids, columns });
        }
        let mut resources = Vec::new();
        for column in &self.resources {
            let dense = self.dense(column, 1, &limits, &|_| false)?;
            if let Some(bytes) = dense.get(0) {
                let bytes = mapped(column.component, bytes)?;
                let component = &components[column.component as usize];
                resources.extend(column_from(
                    position(column.component),
                    component,
                    [Some(&*bytes)].into_iter(),
                )?);
            }
        }
        resources.sort_by_key(|column| column.component);
        let mut carried = Vec::new();
        for record in &self.carried {
            let number = record.column.component;
            let dense = self.dense(&record.column, record.rows, &limits, &|_| false)?;
            let owners: Vec<Option<EntityId>> = match record.kind {
                CarryKind::Resource => vec![Some(EntityId::NULL)],
                _ => record.ids().iter().map(|id| map.get(*id)).collect(),
            };
            let mut rows = (dense.iter().zip(owners))
                .filter_map(|(bytes, owner)| Some((owner?, bytes?)))
                .map(|(owner, bytes)| Ok((owner, mapped(number, bytes)?)))
                .collect::<Result<Vec<_>>>()?;
            rows.sort_by_key(|(owner, _)| *owner);
            let values: Vec<Option<&[u8]>> = rows.iter().map(|(_, bytes)| Some(&**bytes)).collect();
            let component = &components[number as usize];
            if let Some(column) = column_from(position(number), component, values.into_iter())? {
                let ids = rows
                    .iter()
                    .filter(|(id, _)| !id.is_null())
                    .flat_map(|(id, _)| id.to_bits().to_le_bytes());
                let ids: Rope = AlignedBuf::copy_from(&ids.collect::<Vec<u8>>()).share().into();
                carried.push(Carried { kind: record.kind, rows: rows.len(), ids, column });
            }
        }
        carried.sort_by_key(|record| (record.column.component, record.kind.number()));
        let data = self.data.iter().filter(|entry| entry.key() != FREE_LIST_KEY);
        let data = data.map(|entry| entry.canonical(&context)).collect::<Result<Vec<_>>>()?;
        let mut metadata = self.metadata.clone();
        metadata.iter_mut().for_each(|(_, value)| value.sort_maps());
        Ok(Self {
            metadata,
            next_entity_id: next,
            components: order.iter().map(|&number| components[number as usize].clone()).collect(),
            archetypes: canonical,
            resources,
            shared: Vec::new(),
            data,
            carried,
            sections: Vec::new(),
            damage: Damage::default(),
            notes: Vec::new(),
            world: None,
        })
    }

    /// 128 bits that are equal for equal canonical snapshots.
    pub fn content_hash(&self) -> Result<crate::schema::Fingerprint> {
        let bytes = self.canonical()?.encode(&super::EncodeOptions::default())?.to_vec();
        Ok(crate::schema::Fingerprint::of(&bytes))
    }
}
