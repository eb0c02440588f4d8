//! What a load met and this build does not know: kept beside the world and written again by the next save, so that
//! putting a mod back brings everything back.
//!
//! A load turns unknown columns into a [`Carry`] with the new ids, and maps the references inside them through the
//! schema that the file has. The next save writes those rows whose entities still exist.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::data::{DataEntry, RESERVED_PREFIX};
use super::{Archetype, Snapshot};
use crate::column::{Column, ColumnKind, Component, column_from, remap};
use crate::context::LoadContext;
use crate::convert::UnknownFields;
use crate::entity::{EntityId, EntityMap, ids_from_bytes};
use crate::error::Result;
use crate::row::RowLayout;
use crate::schema::{Fingerprint, Node};
use crate::storage::{AlignedBuf, Rope};
use crate::value::{decode_value, encode_value};
use crate::wire::{Reader, Writer};

/// What a carried record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CarryKind {
    /// A component that is not registered.
    Component,
    /// Fields of a component that this build's type no longer has; the schema is a struct of just those fields.
    Fields,
    /// A resource that is not registered.
    Resource,
}

impl CarryKind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Component => 1,
            Self::Fields => 2,
            Self::Resource => 3,
        }
    }
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Component, Self::Fields, Self::Resource].into_iter().find(|kind| kind.number() == number)
    }
}

/// A carried column as a snapshot holds it.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) kind: CarryKind,
    pub(crate) rows: usize,
    /// Empty for a resource.
    pub(crate) ids: Rope,
    pub(crate) column: Column,
}

impl Carried {
    pub(crate) fn ids(&self) -> Cow<'_, [EntityId]> {
        ids_from_bytes(self.ids.contiguous())
    }
}

/// Everything that the last load did not know. Hand it to the next save.
///
/// ```
/// # use bonfire::Registry;
/// # use bonfire::engine::{Carry, SnapshotWriter};
/// # let (registry, carry) = (Registry::new(), Carry::default());
/// let mut writer = SnapshotWriter::new(&registry);
/// writer.carry(&carry);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Carry {
    columns: HashMap<Identity, CarriedColumn>,
    data: Vec<DataEntry>,
    /// Version lines of plugins that are missing.
    tracks: BTreeMap<String, u32>,
}

/// What makes two columns one: rows are kept encoded, so how they were laid out does not matter.
type Identity = (CarryKind, String, u32, Fingerprint);

#[derive(Clone, Debug)]
struct CarriedColumn {
    kind: CarryKind,
    component: Component,
    /// Whose row it is (null for a resource), and its encoded value.
    rows: Vec<(EntityId, Vec<u8>)>,
}

/// A saved column that a load keeps, or some fields of it.
pub(crate) struct UnknownColumn<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) column: &'a Column,
    pub(crate) kind: CarryKind,
    /// The saved ids of the column's archetype.
    pub(crate) ids: &'a [EntityId],
    pub(crate) map: &'a EntityMap,
    pub(crate) context: &'a LoadContext<'a>,
}

impl CarriedColumn {
    fn identity(&self) -> Identity {
        let Component { key, version, schema_fingerprint, .. } = &self.component;
        (self.kind, key.clone(), *version, *schema_fingerprint)
    }
}

impl Carry {
    /// Whether there is nothing to carry.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.data.is_empty() && self.tracks.is_empty()
    }

    pub(crate) fn tracks(&self) -> &BTreeMap<String, u32> {
        &self.tracks
    }

    pub(crate) fn keep_track(&mut self, name: String, version: u32) {
        self.tracks.insert(name, version);
    }

    /// How many rows are carried for each unknown key.
    pub fn component_rows(&self) -> BTreeMap<&str, usize> {
        let mut rows = BTreeMap::new();
        for column in self.columns.values() {
            *rows.entry(&*column.component.key).or_default() += column.rows.len();
        }
        rows
    }

    /// The data entries that nobody asked for.
    pub fn data(&self) -> &[DataEntry] {
        &self.data
    }

    /// Adds what another load did not know, when it was about a part of the world. Rows take the place of those that the
    /// same entities had; of data, what is known stays.
    pub fn extend(&mut self, other: Self) {
        for column in other.columns.into_values() {
            if let Some(known) = self.columns.get_mut(&column.identity()) {
                let new: HashSet<EntityId> = column.rows.iter().map(|(id, _)| *id).collect();
                known.rows.retain(|(id, _)| !new.contains(id));
            }
            self.add(column);
        }
        self.add_data(other.data);
        self.tracks.extend(other.tracks);
    }

    /// Adds data under keys that are not known yet.
    fn add_data(&mut self, entries: impl IntoIterator<Item = DataEntry>) {
        let known: HashSet<String> = self.data.iter().map(|entry| entry.key().to_owned()).collect();
        self.data.extend(entries.into_iter().filter(|entry| !known.contains(entry.key())));
    }

    /// For front ends that give data to those who ask for it: forgets all of it, before they keep what nobody asked for.
    pub fn forget_data(&mut self) {
        self.data.clear();
    }

    /// For front ends: keeps data entries that no callback asked for, with their references mapped. What cannot be
    /// mapped is kept as it was saved. Data that is kept already under the same key stays.
    pub fn keep_data(&mut self, entries: Vec<DataEntry>, context: &LoadContext<'_>) {
        self.add_data(entries.into_iter().map(|entry| entry.remapped(context).unwrap_or(entry)));
    }

    /// One column per component, whatever archetypes its rows came from.
    fn add(&mut self, column: CarriedColumn) {
        if column.rows.is_empty() {
            return;
        }
        match self.columns.entry(column.identity()) {
            Entry::Vacant(entry) => drop(entry.insert(column)),
            // A resource exists once: the later one replaces the earlier.
            Entry::Occupied(mut entry) if column.kind == CarryKind::Resource => *entry.get_mut() = column,
            Entry::Occupied(mut entry) => entry.get_mut().rows.extend(column.rows),
        }
    }

    /// Keeps the rows of a column that this build does not know.
    pub(crate) fn keep_column(&mut self, unknown: &UnknownColumn<'_>) -> Result<()> {
        let UnknownColumn { snapshot, column, kind, ids, map, context } = *unknown;
        let component = &snapshot.components[column.component as usize];
        let rows = if kind == CarryKind::Resource { 1 } else { ids.len() };
        // Rows without bytes cost memory here, too.
        context.limits.step(rows)?;
        context.claim_memory(column.rows, size_of::<(EntityId, Vec<u8>)>())?;
        let dense = snapshot.dense(column, rows, context.limits, &|_| false)?;
        let schema = component.schema()?;
        let has_entities = schema.has_entities();
        let mut kept = Vec::new();
        let owners: Vec<Option<EntityId>> = match kind {
            CarryKind::Resource => vec![Some(EntityId::NULL)],
            // Fields of a resource have no entity either.
            _ => ids.iter().map(|id| if id.is_null() { Some(*id) } else { map.get(*id) }).collect(),
        };
        for (bytes, owner) in dense.iter().zip(owners) {
            let (Some(bytes), Some(id)) = (bytes, owner) else { continue };
            context.claim_memory(bytes.len(), 1)?;
            let bytes = if has_entities {
                remap(schema, bytes, context).map_err(|error| error.in_key(&component.key))?
            } else {
                bytes.to_vec()
            };
            kept.push((id, bytes));
        }
        self.add(CarriedColumn { kind, component: component.clone(), rows: kept });
        Ok(())
    }

    /// Keeps those fields of a column's values that this build does not know.
    pub(crate) fn keep_fields(
        &mut self,
        unknown: &UnknownColumn<'_>,
        key: &str,
        fields: &UnknownFields,
    ) -> Result<()> {
        let UnknownColumn { snapshot, column, kind, ids, map, context } = *unknown;
        let is_resource = kind == CarryKind::Resource;
        let component = &snapshot.components[column.component as usize];
        let rows = if is_resource { 1 } else { ids.len() };
        let dense = snapshot.dense(column, rows, context.limits, &|_| false)?;
        let schema = component.schema()?;
        let mut kept = Vec::new();
        for (row, bytes) in dense.iter().enumerate() {
            let owner = if is_resource { Some(EntityId::NULL) } else { map.get(ids[row]) };
            let (Some(bytes), Some(id)) = (bytes, owner) else { continue };
            let part = || {
                let value = decode_value(schema, Node::ROOT, &mut Reader::new(bytes, context))?;
                let mut out = Writer::new();
                encode_value(&fields.schema, Node::ROOT, &fields.pick(value), &mut out)?;
                out.finish()
            };
            let bytes = part().map_err(|error| error.in_key(&component.key))?;
            context.claim_memory(bytes.len(), 1)?;
            kept.push((id, bytes));
        }
        let component = Component {
            key: key.to_owned(),
            kind: ColumnKind::Rows,
            schema_fingerprint: fields.schema.fingerprint(),
            row: RowLayout::default(),
            schema: Some(fields.schema.clone()),
            ..component.clone()
        };
        self.add(CarriedColumn { kind: CarryKind::Fields, component, rows: kept });
        Ok(())
    }

    /// Adds the carried columns and data to a snapshot that is being made.
    pub(crate) fn write(
        &self,
        archetypes: &[Archetype],
        components: &mut Vec<Component>,
        carried: &mut Vec<Carried>,
        data: &mut Vec<DataEntry>,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        // Rows are written in the order of the entities: what depends on it, such as the order of children, is kept.
        let alive = self.places(archetypes);
        let written: HashSet<String> = components.iter().map(|component| component.key.clone()).collect();
        let mut columns: Vec<&CarriedColumn> = self.columns.values().collect();
        columns.sort_by_key(|column| {
            let Component { key, version, schema_fingerprint, .. } = &column.component;
            (key, column.kind.number(), *version, *schema_fingerprint)
        });
        for column in columns {
            if column.kind != CarryKind::Fields && written.contains(&column.component.key) {
                continue; // The game has the component itself by now.
            }
            let mut rows: Vec<&(EntityId, Vec<u8>)> =
                (column.rows.iter()).filter(|(id, _)| id.is_null() || alive.contains_key(id)).collect();
            rows.sort_by_key(|(id, _)| alive.get(id));
            if rows.is_empty() {
                continue;
            }
            let number = components.len() as u32;
            let values: Vec<Option<&[u8]>> = rows.iter().map(|(_, bytes)| Some(&**bytes)).collect();
            let Some(body) = column_from(number, &column.component, values.into_iter())? else { continue };
            let ids = match column.kind {
                CarryKind::Resource => Rope::default(),
                _ => {
                    let ids: Vec<u8> = rows.iter().flat_map(|(id, _)| id.to_bits().to_le_bytes()).collect();
                    AlignedBuf::copy_from(&ids).share().into()
                }
            };
            components.push(column.component.clone());
            carried.push(Carried { kind: column.kind, rows: rows.len(), ids, column: body });
        }
        let taken: HashSet<String> = data.iter().map(|entry| entry.key().to_owned()).collect();
        // Of front ends' own data there may be several entries: what is carried is of those that this build does not know.
        let missing =
            |entry: &&DataEntry| entry.key().starts_with(RESERVED_PREFIX) || !taken.contains(entry.key());
        data.extend(self.data.iter().filter(missing).cloned());
        Ok(())
    }

    /// Which of the entities that something is carried for are there, and in which order. A capture of a million entities must
    /// not be slow because of three.
    fn places(&self, archetypes: &[Archetype]) -> HashMap<EntityId, usize> {
        let bit = |id: EntityId| (id.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
        let mut maybe = vec![0_u64; 1 << 10];
        for (id, _) in self.columns.values().flat_map(|column| &column.rows) {
            maybe[bit(*id) / 64] |= 1 << (bit(*id) % 64);
        }
        let mut places = HashMap::new();
        let mut place = 0;
        for part in archetypes.iter().flat_map(|archetype| archetype.ids.parts()) {
            let ids = ids_from_bytes(Cow::Borrowed(part));
            for (&id, place) in ids.iter().zip(place..) {
                if maybe[bit(id) / 64] >> (bit(id) % 64) & 1 == 1 {
                    places.insert(id, place);
                }
            }
            place += ids.len();
        }
        places
    }
}
