//! World to snapshot. A front end walks its archetypes once and hands over ids and columns; what is written is decided
//! by the registry.

mod archetype;
mod non_finite;
mod repeat;

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;

pub use self::archetype::ArchetypeWriter;
use self::archetype::Target;
use self::repeat::SharedValues;
use crate::bulk::CopyPath;
use crate::column::{Arena, Body, Column, Component, Group, Groups, Indices, SealedArena, Slot, group_rows};
use crate::context::SaveContext;
use crate::descriptor::{EncodeFailure, NonFinite, Unencodable};
use crate::entity::{EntityId, EntityMap, WorldNumber};
use crate::error::{Error, Result};
use crate::persist::Persist;
use crate::registry::Registry;
use crate::snapshot::carry::{Carried, Carry};
use crate::snapshot::data::{DataEntry, FREE_LIST_KEY};
use crate::snapshot::{Archetype, Notes, SharedTable, Snapshot, TRACKS, tracks_to_value};
use crate::storage::{
    Bitmap, BufferPool, Checksums, DirtyRows, EarlierColumn, PageLayout, Rope, crc, in_pages,
};
use crate::value::Value;

/// Makes a [`Snapshot`] out of columns.
///
/// ```
/// use bonfire::{EntityId, Persist, Registry};
/// use bonfire::engine::SnapshotWriter;
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
    /// Whether columns lie in pages.
    paged: bool,
    earlier: Option<Snapshot>,
    archetypes: Vec<Pending>,
    resources: Pending,
    shared: HashMap<usize, SharedValues>,
    data: Vec<DataEntry>,
    metadata: Vec<(String, Value)>,
    carry: Option<&'r Carry>,
    next_entity_id: u64,
    world: Option<WorldNumber>,
    notes: Notes,
    unencodable: Unencodable,
    failures: Vec<CaptureFailure>,
    context: SaveContext<'r>,
}

/// Values of a column that could not be encoded.
struct CaptureFailure {
    component: usize,
    /// Archetype and row of the first; resources have none.
    place: Option<(usize, usize)>,
    failure: EncodeFailure,
}

/// An archetype whose columns still lie in the arena and whose components have the registry's numbers.
#[derive(Default)]
struct Pending {
    rows: usize,
    ids: Option<ColumnMemory>,
    columns: Vec<PendingColumn>,
    /// The same archetype in the earlier capture.
    earlier: Option<usize>,
}

/// The memory that holds raw rows.
enum ColumnMemory {
    Arena(Slot),
    Pages(Rope),
}

impl ColumnMemory {
    fn rope(self, sealed: &SealedArena) -> Rope {
        match self {
            Self::Arena(slot) => sealed.rope(slot),
            Self::Pages(rope) => rope,
        }
    }
}

struct PendingColumn {
    component: usize,
    present: Option<Bitmap>,
    rows: usize,
    body: PendingBody,
}

enum PendingBody {
    Tag,
    Raw(ColumnMemory),
    Rows(Slot, Vec<Group>),
    Shared(Vec<u32>),
    /// In memory of its own.
    Ready(Body),
}

impl<'r> SnapshotWriter<'r> {
    /// A writer for the registered components.
    pub fn new(registry: &'r Registry) -> Self {
        Self {
            registry,
            arena: Arena::new(BufferPool::with_capacity(0, 0)),
            paged: false,
            earlier: None,
            archetypes: Vec::new(),
            resources: Pending { rows: 1, ..Pending::default() },
            shared: HashMap::new(),
            data: Vec::new(),
            metadata: Vec::new(),
            carry: None,
            next_entity_id: 0,
            world: None,
            notes: Notes::default(),
            unencodable: Unencodable::default(),
            failures: Vec::new(),
            context: SaveContext::new(),
        }
    }

    /// The world that codecs of the game may look at: see [`SaveContext::world`].
    pub fn with_world(mut self, world: &'r dyn Any) -> Self {
        self.context = SaveContext::new().with_world(world);
        self
    }

    /// Chooses what happens to values that cannot be encoded, unless their [descriptor](crate::Descriptor::unencodable)
    /// says. Default: they are left out and noted.
    pub fn unencodable(mut self, policy: Unencodable) -> Self {
        self.unencodable = policy;
        self
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
        self.arena.copies = CopyPath::Portable;
        self
    }

    /// Computes the checksums of raw columns while they are in the cache. The capture takes longer, and encoding what it
    /// gives without compression so much shorter that it is less in all: for captures that become a file.
    pub fn checksums(mut self) -> Self {
        self.arena.checksums = true;
        self
    }

    /// Makes a capture that shares memory: with the `earlier` one where rows have not changed since, and with the next one,
    /// which is made over this. Shared rows keep their checksums. What is written is the same as without.
    ///
    /// Front ends that know what has changed since the earlier capture say so with
    /// [`archetype_over`](Self::archetype_over) and [`ArchetypeWriter::column_over`].
    pub fn over(mut self, earlier: Option<Snapshot>) -> Self {
        (self.paged, self.earlier) = (true, earlier);
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
    pub fn note(&mut self, key: &str, remark: impl Into<Cow<'static, str>>, count: usize) {
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
        if self.paged {
            let mut all = vec![EntityId::NULL; len];
            fill(&mut all);
            return self.archetype_over(len, None, None, |range, ids| ids.copy_from_slice(&all[range]));
        }
        check_len(len)?;
        let checked = self.arena.checksums;
        let (mut slot, memory) = self.arena.claim(len * size_of::<EntityId>());
        let ids: &mut [EntityId] = bytemuck::cast_slice_mut(memory);
        fill(ids);
        to_little_endian(ids);
        let unit = PageLayout::of(size_of::<EntityId>()).block_bytes;
        slot.checksums = checked.then(|| {
            Checksums::new(unit, crc::of_units(bytemuck::cast_slice(ids), unit).into_iter().map(Some))
        });
        Ok(self.begin(len, ColumnMemory::Arena(slot), None))
    }

    /// As [`SnapshotWriter::archetype_with`], for a capture that is made [over](Self::over) another: `earlier` is the
    /// archetype's number there, and `dirty` says which ids may be others than the ones there. If there is an earlier one
    /// and nothing is known, what `fill` writes is compared. `fill` is called with the rows whose ids are needed.
    pub fn archetype_over(
        &mut self,
        len: usize,
        earlier: Option<usize>,
        dirty: Option<&DirtyRows>,
        mut fill: impl FnMut(Range<usize>, &mut [EntityId]),
    ) -> Result<ArchetypeWriter<'_, 'r>> {
        check_len(len)?;
        let known = earlier.and_then(|number| self.earlier.as_mut()?.archetypes.get_mut(number));
        let known = known.map(|archetype| EarlierColumn { rope: &mut archetype.ids, dirty });
        let ids = in_pages(&self.arena.pool, len, size_of::<EntityId>(), known, |range, memory| {
            let ids = bytemuck::cast_slice_mut(memory);
            fill(range, ids);
            to_little_endian(ids);
        });
        Ok(self.begin(len, ColumnMemory::Pages(ids), earlier))
    }

    fn begin(&mut self, rows: usize, ids: ColumnMemory, earlier: Option<usize>) -> ArchetypeWriter<'_, 'r> {
        // An archetype without entities is no archetype: it takes columns and leaves no trace.
        self.archetypes.pop_if(|archetype| archetype.rows == 0);
        self.archetypes.push(Pending { rows, ids: Some(ids), columns: Vec::new(), earlier });
        let index = self.archetypes.len() - 1;
        ArchetypeWriter { writer: self, target: Target::Archetype(index) }
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

    /// For front ends: returns true if a value that cannot be encoded was left out of a column. Then entities of one
    /// archetype do not all have the same components in the save.
    pub fn has_unencodable(&self) -> bool {
        !self.failures.is_empty()
    }

    /// The snapshot. Its component table is sorted by key, so that the order of registration leaves no trace.
    pub fn finish(mut self) -> Result<Snapshot> {
        self.registry.end_save(&self.context)?;
        self.archetypes.pop_if(|archetype| archetype.rows == 0);
        let used = self.used_components();
        let descriptors = self.registry.descriptors();
        let mut components: Vec<Component> =
            used.iter().map(|&index| descriptors[index].component()).collect();
        let mut numbers = vec![0; descriptors.len()];
        used.iter().zip(0_u32..).for_each(|(&index, number)| numbers[index] = number);

        // Values that nobody shares are stored like all others.
        let unshared: HashMap<usize, SharedValues> =
            self.shared.extract_if(|_, values| values.rows == values.ends.len()).collect();
        let (shared, tables) = self.shared_tables(&used, &numbers);

        let sealed = self.arena.finish();
        let resolve = |column: PendingColumn| resolve(column, &numbers, &tables, &unshared, &sealed);
        let archetypes: Vec<Archetype> = (self.archetypes.into_iter())
            .map(|pending| {
                let mut columns: Vec<Column> = pending.columns.into_iter().map(resolve).collect();
                columns.sort_by_key(|column| column.component);
                let ids = pending.ids.map(|ids| ids.rope(&sealed)).unwrap_or_default();
                Archetype { rows: pending.rows, ids, columns }
            })
            .collect();
        for CaptureFailure { component, place, failure } in self.failures {
            let entity =
                place.and_then(|(archetype, row)| archetypes.get(archetype)?.ids().get(row).copied());
            self.notes.count(descriptors[component].key(), failure.remark(entity), failure.rows);
        }
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
            snapshot.set_metadata(TRACKS, tracks_to_value(&tracks));
        }
        if cfg!(debug_assertions) {
            check_ids(&snapshot)?;
        }
        if checked {
            non_finite::check(&mut snapshot, self.registry)?;
        }
        Ok(snapshot)
    }

    /// The numbers of all components that have a column, sorted by key.
    fn used_components(&self) -> Vec<usize> {
        let mut used: Vec<usize> = (self.archetypes.iter().flat_map(|archetype| &archetype.columns))
            .chain(&self.resources.columns)
            .map(|column| column.component)
            .collect();
        used.sort_unstable();
        used.dedup();
        let descriptors = self.registry.descriptors();
        used.sort_by(|&a, &b| descriptors[a].key().cmp(descriptors[b].key()));
        used
    }

    /// Tables of values that several rows share, and by component the number of its table and the width of its indices.
    fn shared_tables(
        &mut self,
        used: &[usize],
        numbers: &[u32],
    ) -> (Vec<SharedTable>, HashMap<usize, (u32, u8)>) {
        let (mut shared, mut tables) = (Vec::new(), HashMap::new());
        for &index in used {
            if let Some(values) = self.shared.remove(&index) {
                tables.insert(index, (shared.len() as u32, Indices::width_for(values.ends.len())));
                let groups = group_rows(&values.ends);
                let values = Groups::new(Bytes::from(values.bytes), groups);
                shared.push(SharedTable { component: numbers[index], values });
            }
        }
        (shared, tables)
    }
}

fn check_len(len: usize) -> Result<()> {
    match u32::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::limit(format!("{len} entities in one archetype are more than 2^32 - 1"))),
    }
}

fn to_little_endian(ids: &mut [EntityId]) {
    if cfg!(target_endian = "big") {
        ids.iter_mut().for_each(|id| *id = EntityId::from_bits(id.to_bits().to_le()));
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
    numbers: &[u32],
    tables: &HashMap<usize, (u32, u8)>,
    unshared: &HashMap<usize, SharedValues>,
    sealed: &SealedArena,
) -> Column {
    let body = match column.body {
        PendingBody::Tag => Body::Tag,
        PendingBody::Raw(place) => Body::Raw(place.rope(sealed)),
        PendingBody::Ready(body) => body,
        PendingBody::Rows(slot, groups) => Body::Rows(Groups::new(sealed.bytes(slot), groups)),
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
    Column { component: numbers[column.component], present: column.present, rows: column.rows, body }
}
