//! World to snapshot. A front end walks its archetypes once and hands over ids and columns; what is written is decided
//! by the registry.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;

use super::arena::{Arena, Sealed, Slot};
use super::bitmap::Bitmap;
use super::carry::{Carried, Carry};
use super::column::{Body, Column, Group, Groups, Indices};
use super::data::{DataEntry, FREE_LIST_KEY};
use super::note::Notes;
use super::{Archetype, Component, NonFinite, SharedTable, Snapshot};
use crate::buffer::BufferPool;
use crate::bulk::RawRows;
use crate::crc;
use crate::descriptor::{EncodedBody, Repeats, Sink, StagedColumn, group_rows};
use crate::entity::{EntityId, EntityMap, WorldNumber};
use crate::error::{Error, Result};
use crate::evolve::track::{self, TRACKS};
use crate::persist::Persist;
use crate::registry::Registry;
use crate::value::Value;

/// Makes a [`Snapshot`] out of columns.
///
/// ```
/// use bonfire::{EntityId, Persist, Registry, SnapshotWriter};
///
/// #[derive(Persist)]
/// #[persist(key = "game.position")]
/// struct Position { x: f32, y: f32 }
///
/// let mut registry = Registry::new();
/// registry.register::<Position>()?;
///
/// let mut writer = SnapshotWriter::new(&registry);
/// let mut archetype = writer.archetype(&[EntityId::new(0, 0), EntityId::new(1, 0)])?;
/// archetype.column(&[Position { x: 1.0, y: 2.0 }, Position { x: 3.0, y: 4.0 }])?;
/// let bytes = writer.finish()?.to_bytes()?;
/// # Ok::<(), bonfire::Error>(())
/// ```
pub struct SnapshotWriter<'r> {
    registry: &'r Registry,
    arena: Arena,
    archetypes: Vec<Pending>,
    resources: Pending,
    shared: HashMap<usize, SharedValues>,
    data: Vec<DataEntry>,
    metadata: Vec<(String, Value)>,
    carry: Option<&'r Carry>,
    next_entity_id: u64,
    world: Option<WorldNumber>,
    notes: Notes,
}

/// An archetype whose columns still lie in the arena and whose components have the registry's numbers.
#[derive(Default)]
struct Pending {
    rows: usize,
    ids: Option<Slot>,
    columns: Vec<PendingColumn>,
}

struct PendingColumn {
    component: usize,
    present: Option<Bitmap>,
    rows: usize,
    body: PendingBody,
}

enum PendingBody {
    Tag,
    Raw(Slot),
    Rows(Slot, Vec<Group>),
    Dictionary { values: Slot, groups: Vec<Group>, width: u8, indices: Slot },
    Shared(Vec<u32>),
}

/// Distinct values of one component, in the order they were met.
#[derive(Default)]
struct SharedValues {
    numbers: HashMap<Vec<u8>, u32>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// How many rows have one of them.
    rows: usize,
}

impl SharedValues {
    /// Some of the values one after the other.
    fn rows(&self, numbers: &[u32]) -> Groups {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(numbers.len()));
        for &number in numbers {
            let start = (number as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
            bytes.extend_from_slice(&self.bytes[start..self.ends[number as usize]]);
            ends.push(bytes.len());
        }
        Groups::new(Bytes::from(bytes), group_rows(&ends))
    }

    fn number(&mut self, value: &[u8]) -> u32 {
        self.rows += 1;
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.ends.len() as u32;
        self.numbers.insert(value.to_vec(), number);
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        number
    }
}

impl<'r> SnapshotWriter<'r> {
    /// A writer for the registered components.
    pub fn new(registry: &'r Registry) -> Self {
        Self {
            registry,
            arena: Arena::new(BufferPool::with_capacity(0, 0)),
            archetypes: Vec::new(),
            resources: Pending { rows: 1, ..Pending::default() },
            shared: HashMap::new(),
            data: Vec::new(),
            metadata: Vec::new(),
            carry: None,
            next_entity_id: 0,
            world: None,
            notes: Notes::default(),
        }
    }

    /// Takes memory from a pool; it goes back there when the snapshot and everything made from it is dropped.
    pub fn pool(mut self, pool: &BufferPool) -> Self {
        self.arena.pool = pool.clone();
        self
    }

    /// Says how many bytes the columns will have, so that they get one buffer.
    pub fn reserve(mut self, bytes: usize) -> Self {
        self.arena.reserve = bytes;
        self
    }

    /// Uses the portable twin of every bulk copy: slower, the same bytes. For tests and unusual hosts.
    pub fn portable(mut self) -> Self {
        self.arena.portable = true;
        self
    }

    /// Computes the checksums of raw columns while they are in the cache. The capture takes longer, and encoding what it
    /// gives without compression so much shorter that it is less in all: for captures that become a file.
    pub fn checksums(mut self) -> Self {
        self.arena.checksums = true;
        self
    }

    /// Says which world is captured: see [`Snapshot::world`].
    pub fn world(&mut self, world: WorldNumber) {
        self.world = Some(world);
    }

    /// The next id that the world would give out.
    pub fn next_entity_id(&mut self, id: u64) {
        self.next_entity_id = id;
    }

    /// For engines that can load a world with the ids that it had: ids that the world would give out before new ones, the
    /// next one last. See [`Snapshot::free_list`].
    pub fn free_list(&mut self, ids: impl IntoIterator<Item = EntityId>) -> Result<()> {
        let bits: Vec<u64> = ids.into_iter().map(EntityId::to_bits).collect();
        if !bits.is_empty() {
            self.data.push(DataEntry::new(FREE_LIST_KEY, &bits)?);
        }
        Ok(())
    }

    /// Something about the save that can be read without the rest, such as its name. The metadata of a save must fit
    /// 60 KiB.
    pub fn metadata(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.metadata.push((name.into(), value.into()));
    }

    /// Data of the game's own, kept in the order it is added. Use keys with the owner in front: `"physics.world"`.
    pub fn data<T: Persist>(&mut self, key: impl Into<String>, value: &T) -> Result<()> {
        let key = key.into();
        let entry = DataEntry::new(key.clone(), value).map_err(|error| error.in_key(&key))?;
        self.data_entry(entry);
        Ok(())
    }

    /// Data that is already encoded.
    pub fn data_entry(&mut self, entry: DataEntry) {
        self.data.push(entry);
    }

    /// For front ends: remarks something about `count` values of a component. See [`Snapshot::notes`].
    pub fn note(&mut self, key: &str, remark: &'static str, count: usize) {
        self.notes.count(key, remark, count);
    }

    /// What an earlier load met and did not know. It is written for the entities that are saved now.
    pub fn carry(&mut self, carry: &'r Carry) {
        self.carry = Some(carry);
    }

    /// Starts an archetype: entities that have the same components. Add a column for each of them. No two entities of a
    /// save have the same id, also not in different archetypes; builds with debug assertions check it.
    pub fn archetype(&mut self, ids: &[EntityId]) -> Result<ArchetypeWriter<'_, 'r>> {
        self.archetype_with(ids.len(), |memory| memory.copy_from_slice(ids))
    }

    /// As [`SnapshotWriter::archetype`], for front ends whose ids lie in another form: `fill` writes them in place.
    pub fn archetype_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [EntityId]),
    ) -> Result<ArchetypeWriter<'_, 'r>> {
        if u32::try_from(len).is_err() {
            return Err(Error::limit(format!("{len} entities in one archetype are more than 2^32 - 1")));
        }
        let checked = self.arena.checksums;
        let (mut slot, memory) = self.arena.claim(len * size_of::<EntityId>());
        let ids: &mut [EntityId] = bytemuck::cast_slice_mut(memory);
        fill(ids);
        if cfg!(target_endian = "big") {
            ids.iter_mut().for_each(|id| *id = EntityId::from_bits(id.to_bits().to_le()));
        }
        slot.checksums = checked.then(|| crc::of_blocks(bytemuck::cast_slice(ids)).into());
        // An archetype without entities is no archetype: it takes columns and leaves no trace.
        self.archetypes.pop_if(|archetype| archetype.rows == 0);
        self.archetypes.push(Pending { rows: len, ids: Some(slot), columns: Vec::new() });
        let index = self.archetypes.len() - 1;
        Ok(ArchetypeWriter { writer: self, target: Target::Archetype(index) })
    }

    /// Adds a resource: a value that exists once and belongs to no entity.
    pub fn resource<T: 'static>(&mut self, value: &T) -> Result<()> {
        ArchetypeWriter { writer: self, target: Target::Resources }.column(std::slice::from_ref(value))
    }

    /// Adds a resource that has no Rust type, or whose type is known by pointer only: see
    /// [`ArchetypeWriter::column_raw`].
    pub fn resources(&mut self) -> ArchetypeWriter<'_, 'r> {
        ArchetypeWriter { writer: self, target: Target::Resources }
    }

    /// The snapshot. Its component table is sorted by key, so that the order of registration leaves no trace.
    pub fn finish(mut self) -> Result<Snapshot> {
        self.archetypes.pop_if(|archetype| archetype.rows == 0);
        let mut used: Vec<usize> = (self.archetypes.iter().flat_map(|archetype| &archetype.columns))
            .chain(&self.resources.columns)
            .map(|column| column.component)
            .collect();
        used.sort_unstable();
        used.dedup();
        let descriptors = self.registry.descriptors();
        used.sort_by(|&a, &b| descriptors[a].key().cmp(descriptors[b].key()));
        let mut components: Vec<Component> =
            used.iter().map(|&index| descriptors[index].component()).collect();
        let numbers: HashMap<usize, u32> =
            used.iter().enumerate().map(|(i, &index)| (index, i as u32)).collect();

        let mut shared = Vec::new();
        let mut tables = HashMap::new();
        // Values that nobody shares are stored like all others.
        let unshared: HashMap<usize, SharedValues> =
            self.shared.extract_if(|_, values| values.rows == values.ends.len()).collect();
        for &index in &used {
            if let Some(values) = self.shared.remove(&index) {
                tables.insert(index, (shared.len() as u32, Indices::width_for(values.ends.len())));
                let groups = group_rows(&values.ends);
                let values = Groups::new(Bytes::from(values.bytes), groups);
                shared.push(SharedTable { component: numbers[&index], values });
            }
        }

        let sealed = self.arena.finish();
        let resolve = |column: PendingColumn| resolve(column, &numbers, &tables, &unshared, &sealed);
        let archetypes: Vec<Archetype> = (self.archetypes.into_iter())
            .map(|pending| {
                let mut columns: Vec<Column> = pending.columns.into_iter().map(resolve).collect();
                columns.sort_by_key(|column| column.component);
                let ids = pending.ids.map(|slot| sealed.rope(slot)).unwrap_or_default();
                Archetype { rows: pending.rows, ids, columns }
            })
            .collect();
        let mut resources: Vec<Column> = self.resources.columns.into_iter().map(resolve).collect();
        resources.sort_by_key(|column| column.component);

        let mut data = self.data;
        let mut carried: Vec<Carried> = Vec::new();
        if let Some(carry) = self.carry {
            carry.write(&archetypes, &mut components, &mut carried, &mut data)?;
        }
        let mut tracks = self.carry.map(|carry| carry.tracks().clone()).unwrap_or_default();
        tracks.extend(self.registry.tracks().iter().map(|track| (track.name.clone(), track.version)));
        let checked = used.iter().any(|&index| descriptors[index].non_finite != NonFinite::Keep);
        let mut snapshot = Snapshot {
            metadata: self.metadata,
            next_entity_id: self.next_entity_id,
            components,
            archetypes,
            resources,
            shared,
            data,
            carried,
            notes: self.notes.finish(),
            world: self.world,
            ..Snapshot::default()
        };
        if !tracks.is_empty() {
            snapshot.set_metadata(TRACKS, track::to_value(&tracks));
        }
        if cfg!(debug_assertions) {
            check_ids(&snapshot)?;
        }
        if checked {
            snapshot.check_finite(self.registry)?;
        }
        Ok(snapshot)
    }
}

/// A save in which two entities have one id could never be loaded.
fn check_ids(snapshot: &Snapshot) -> Result<()> {
    EntityMap::identity(&snapshot.entities()).map(|_| ()).map_err(|error| {
        Error::misuse(format!(
            "{error}: ids are shared by all archetypes. An engine with several kinds of handles puts the kind into the \
             upper bits of the generation"
        ))
    })
}

fn resolve(
    column: PendingColumn,
    numbers: &HashMap<usize, u32>,
    tables: &HashMap<usize, (u32, u8)>,
    unshared: &HashMap<usize, SharedValues>,
    sealed: &Sealed,
) -> Column {
    let body = match column.body {
        PendingBody::Tag => Body::Tag,
        PendingBody::Raw(slot) => Body::Raw(sealed.rope(slot)),
        PendingBody::Rows(slot, groups) => Body::Rows(Groups::new(sealed.bytes(slot), groups)),
        PendingBody::Dictionary { values, groups, width, indices } => Body::Dictionary {
            values: Groups::new(sealed.bytes(values), groups),
            indices: Indices { width, bytes: sealed.bytes(indices) },
        },
        PendingBody::Shared(rows) if let Some(values) = unshared.get(&column.component) => {
            let groups = values.rows(&rows);
            if groups.bytes.is_empty() { Body::Tag } else { Body::Rows(groups) }
        }
        PendingBody::Shared(rows) => {
            let (table, width) = tables[&column.component];
            let bytes = Bytes::from(Indices::encode(&rows, width));
            Body::Shared { table, indices: Indices { width, bytes } }
        }
    };
    Column { component: numbers[&column.component], present: column.present, rows: column.rows, body }
}

enum Target {
    Archetype(usize),
    Resources,
}

/// Takes the columns of one archetype.
pub struct ArchetypeWriter<'w, 'r> {
    writer: &'w mut SnapshotWriter<'r>,
    target: Target,
}

impl ArchetypeWriter<'_, '_> {
    fn pending(&mut self) -> &mut Pending {
        match self.target {
            Target::Archetype(index) => &mut self.writer.archetypes[index],
            Target::Resources => &mut self.writer.resources,
        }
    }

    /// A column with one value per entity.
    pub fn column<T: 'static>(&mut self, rows: &[T]) -> Result<()> {
        let component = self.writer.registry.require::<T>()?;
        self.column_slice(component, rows)
    }

    /// A column with one value per entity, wherever they lie.
    #[expect(unsafe_code, reason = "references to the registered type are what `column_raw` asks for")]
    pub fn column_refs<T: 'static>(&mut self, rows: &[&T]) -> Result<()> {
        let component = self.writer.registry.require::<T>()?;
        let pointers: Vec<*const u8> = rows.iter().map(|&row| std::ptr::from_ref(row).cast()).collect();
        // SAFETY: the registry has `T` as the component's type; the references are borrowed for the call.
        unsafe { self.column_raw(component, RawRows::Pointers(&pointers)) }
    }

    /// A column of the component with this key, whose type must be `T`. For components that are found by key only,
    /// `T` is [`Value`].
    pub fn column_by_key<T: 'static>(&mut self, key: &str, rows: &[T]) -> Result<()> {
        let component = self.writer.registry.require_key::<T>(key)?;
        self.column_slice(component, rows)
    }

    /// A column that only some of the entities have.
    pub fn column_sparse<T: 'static>(&mut self, rows: &[Option<&T>]) -> Result<()> {
        let component = self.writer.registry.require::<T>()?;
        self.column_options(component, rows)
    }

    /// A column of the component with this key that only some of the entities have.
    pub fn column_sparse_by_key<T: 'static>(&mut self, key: &str, rows: &[Option<&T>]) -> Result<()> {
        let component = self.writer.registry.require_key::<T>(key)?;
        self.column_options(component, rows)
    }

    #[expect(unsafe_code, reason = "a slice of the registered type is what `column_raw` asks for")]
    fn column_slice<T: 'static>(&mut self, component: usize, rows: &[T]) -> Result<()> {
        debug_assert_eq!(self.writer.registry.descriptors()[component].type_id, std::any::TypeId::of::<T>());
        // SAFETY: the registry has `T` as the component's type; the slice is borrowed for the call.
        unsafe { self.column_raw(component, RawRows::Slice { base: rows.as_ptr().cast(), len: rows.len() }) }
    }

    #[expect(unsafe_code, reason = "references to the registered type are what `encode` asks for")]
    fn column_options<T: 'static>(&mut self, component: usize, rows: &[Option<&T>]) -> Result<()> {
        debug_assert_eq!(self.writer.registry.descriptors()[component].type_id, std::any::TypeId::of::<T>());
        let pointers: Vec<*const u8> =
            rows.iter().flatten().map(|&row| std::ptr::from_ref(row).cast()).collect();
        let present = Bitmap::from_rows(rows.iter().map(Option::is_some));
        self.check_rows(component, rows.len())?;
        // SAFETY: the registry has `T` as the component's type; the references are borrowed for the call.
        unsafe { self.encode(component, RawRows::Pointers(&pointers), present) }
    }

    /// A column by the number of its component and by pointers. Transient components are passed over.
    ///
    /// # Safety
    /// The rows must be live values of the component's Rust type, and nobody may write to them during the call.
    #[expect(unsafe_code, reason = "rows without their type")]
    pub unsafe fn column_raw(&mut self, component: usize, rows: RawRows<'_>) -> Result<()> {
        self.check_rows(component, rows.len())?;
        // SAFETY: the caller vouches for the rows.
        unsafe { self.encode(component, rows, None) }
    }

    /// Decoded rows as a column again: for each entity the column and the row that its value lies in.
    #[expect(unsafe_code, reason = "staged rows are what `encode` asks for")]
    pub(crate) fn staged(
        &mut self,
        component: usize,
        rows: &[Option<(&StagedColumn<'_>, usize)>],
    ) -> Result<()> {
        self.check_rows(component, rows.len())?;
        let type_id = self.writer.registry.descriptors()[component].type_id;
        let pointer = |&(column, row): &(&StagedColumn<'_>, usize)| {
            assert!(column.row_type() == type_id && row < column.len());
            // SAFETY: there are more rows than `row`.
            unsafe { column.as_ptr().add(row * column.stride()) }
        };
        let pointers: Vec<*const u8> = rows.iter().flatten().map(pointer).collect();
        let present = Bitmap::from_rows(rows.iter().map(Option::is_some));
        // SAFETY: these are values of the component's type, borrowed for the call.
        unsafe { self.encode(component, RawRows::Pointers(&pointers), present) }
    }

    fn check_rows(&mut self, component: usize, rows: usize) -> Result<()> {
        let key: Cow<'static, str> = match self.writer.registry.descriptors().get(component) {
            Some(descriptor) => descriptor.key.clone(),
            None => return Err(Error::misuse(format!("component {component} is not registered"))),
        };
        let pending = self.pending();
        if pending.rows != rows {
            let expected = pending.rows;
            return Err(Error::misuse(format!("{rows} rows for {expected} entities")).in_key(&key));
        }
        if pending.columns.iter().any(|column| column.component == component) {
            return Err(Error::misuse("the archetype has this column already").in_key(&key));
        }
        Ok(())
    }

    /// # Safety
    /// As [`ArchetypeWriter::column_raw`]; `present` has one bit per entity and as many ones as there are rows.
    #[expect(unsafe_code, reason = "rows without their type")]
    unsafe fn encode(&mut self, component: usize, rows: RawRows<'_>, present: Option<Bitmap>) -> Result<()> {
        let descriptor = &self.writer.registry.descriptors()[component];
        if descriptor.transient || self.pending().rows == 0 {
            return Ok(());
        }
        let writer = &mut *self.writer;
        // SAFETY: the caller vouches for the rows.
        let encoded = unsafe {
            descriptor.column.encode(rows, &mut writer.arena, descriptor.repeats != Repeats::Plain)
        };
        let encoded = encoded.map_err(|error| error.in_key(&descriptor.key))?;
        writer.notes.add(&descriptor.key, encoded.notes);
        let present = match (present, encoded.present) {
            (None, skipped) => skipped,
            (Some(present), None) => Some(present),
            (Some(present), Some(kept)) => {
                let lost: Vec<usize> = (0..rows.len()).filter(|&row| !kept.get(row)).collect();
                Bitmap::without(Some(&present), rows.len(), &lost)
            }
        };
        if encoded.rows == 0 {
            return Ok(()); // Nobody has it after all.
        }
        let body = match encoded.body {
            EncodedBody::Tag => PendingBody::Tag,
            EncodedBody::Raw(slot) => PendingBody::Raw(slot),
            EncodedBody::Rows { bytes, groups, ends } => {
                let body = match descriptor.repeats {
                    Repeats::Plain => PendingBody::Rows(writer.arena.store(bytes.as_bytes()), groups),
                    Repeats::Dictionary => dictionary(bytes.as_bytes(), &ends, &mut writer.arena),
                    Repeats::Shared => {
                        let values = writer.shared.entry(component).or_default();
                        PendingBody::Shared(numbers(bytes.as_bytes(), &ends, values))
                    }
                };
                writer.arena.recycle(bytes);
                body
            }
        };
        let rows = encoded.rows;
        self.pending().columns.push(PendingColumn { component, present, rows, body });
        Ok(())
    }
}

fn numbers(bytes: &[u8], ends: &[usize], values: &mut SharedValues) -> Vec<u32> {
    let mut start = 0;
    let number = |&end: &usize| values.number(&bytes[std::mem::replace(&mut start, end)..end]);
    ends.iter().map(number).collect()
}

/// Each distinct value once, unless that is not smaller.
fn dictionary(bytes: &[u8], ends: &[usize], arena: &mut Arena) -> PendingBody {
    let mut values = SharedValues::default();
    let rows = numbers(bytes, ends, &mut values);
    let width = Indices::width_for(values.ends.len());
    if values.bytes.len() + rows.len() * usize::from(width) >= bytes.len() {
        return PendingBody::Rows(arena.store(bytes), group_rows(ends));
    }
    PendingBody::Dictionary {
        values: arena.store(&values.bytes),
        groups: group_rows(&values.ends),
        width,
        indices: arena.store(&Indices::encode(&rows, width)),
    }
}
