//! A world at one moment, as data: what a capture makes, what a file holds, what a load starts from.
//!
//! There is one form in memory, whether it was captured or opened. Columns are shared byte slices, so a snapshot is
//! cheap to clone, encoding copies no column, and opening an aligned, uncompressed file copies nothing at all.
//!
//! | file | |
//! |---|---|
//! | `encode`, `decode` | snapshot to bytes and back; `file`, `header`, `section`, `compress`, `prelude`, `data` are their parts |
//! | `salvage` | what is left of a damaged file |
//! | `canonical` | a form without accidents, for comparing worlds |
//! | `carry` | what this build does not know and must not lose |
//! | `rebuild` | snapshots made of others: some of the rows, components in their order |
//! | `view` | columns and archetypes for tools |
//! | `track` | the version lines that a save lists |
//! | `note` | remarks about losses that did not stop the save |
//! | `outside` | entities that the save refers to and does not have |

mod canonical;
pub(crate) mod carry;
mod compress;
pub(crate) mod data;
mod decode;
mod encode;
mod file;
pub(crate) mod header;
mod note;
mod outside;
mod prelude;
mod rebuild;
mod salvage;
mod section;
mod track;
#[cfg(all(feature = "zstd", any(test, target_arch = "wasm32")))]
mod unpack_zstd;
mod view;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

pub use self::carry::Carry;
pub use self::compress::Compression;
pub use self::data::{DataEntry, RESERVED_PREFIX};
pub use self::decode::{FileHead, OpenOptions};
pub use self::encode::EncodeOptions;
pub use self::note::Note;
pub(crate) use self::note::Notes;
pub use self::outside::{OUTSIDE_KEY, OutsideTarget};
pub use self::salvage::{Damage, DamagedBlock, DamagedPart};
pub use self::section::SectionInfo;
pub(crate) use self::track::{TRACKS, to_value as tracks_to_value, tracks_of};
pub use self::view::{ArchetypeView, ColumnView};

use self::carry::Carried;
use crate::column::{Body, Column, Component, DenseRows, Groups, dense_rows};
use crate::context::SchemaChange;
use crate::entity::{EntityId, WorldNumber, ids_from_bytes};
use crate::error::Result;
use crate::limits::Limits;
use crate::storage::{Rope, memory_of};
use crate::value::Value;

/// The key of the data entry that names the moment of a chunk world that a save belongs to.
pub const MOMENT_KEY: &str = "bonfire.moment";

/// Data entries that Bonfire reads by itself: no callback gets them, and nothing of them is carried.
pub(crate) const OWN_DATA: [&str; 3] = [data::FREE_LIST_KEY, OUTSIDE_KEY, MOMENT_KEY];

/// The version of the format that this crate writes, and the newest that it reads.
pub const FORMAT_VERSION: u16 = 1;

/// The head of a snapshot: what it holds, without looking at any entity.
#[derive(Clone, Debug)]
pub struct Prelude {
    /// The version of the format: that of the file, or of files that this build writes if the world was captured.
    pub version: u16,
    /// The next id that the saved world would have given out, as its engine counts.
    pub next_entity_id: u64,
    /// How many entities there are.
    pub entity_count: usize,
    /// How many archetypes they are in.
    pub archetype_count: usize,
    /// All components: those of this build sorted by key, then carried ones sorted by key.
    pub components: Vec<Component>,
}

/// Entities that have the same components.
#[derive(Clone, Debug, Default)]
pub(crate) struct Archetype {
    pub(crate) rows: usize,
    pub(crate) ids: Rope,
    pub(crate) columns: Vec<Column>,
}

impl Archetype {
    /// The ids, in row order.
    pub(crate) fn ids(&self) -> Cow<'_, [EntityId]> {
        ids_from_bytes(Cow::Borrowed(self.ids.joined()))
    }

    pub(crate) fn set_ids(&mut self, ids: &[EntityId]) {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_bits().to_le_bytes()).collect();
        self.ids = crate::storage::AlignedBuf::copy_from(&bytes).share().into();
    }
}

/// A world at one moment.
///
/// Capture one with a [`SnapshotWriter`](crate::engine::SnapshotWriter), turn it into bytes with [`Snapshot::encode`], get it back with
/// [`Snapshot::open`], and bring it into a world with a [`LoadPlan`](crate::engine::LoadPlan).
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) metadata: Vec<(String, Value)>,
    pub(crate) next_entity_id: u64,
    pub(crate) components: Vec<Component>,
    pub(crate) archetypes: Vec<Archetype>,
    /// One row; each column is a resource.
    pub(crate) resources: Vec<Column>,
    pub(crate) shared: Vec<SharedTable>,
    pub(crate) data: Vec<DataEntry>,
    pub(crate) carried: Vec<Carried>,
    pub(crate) sections: Vec<SectionInfo>,
    pub(crate) damage: Damage,
    /// What migrations have lost, by key.
    pub(crate) migration_changes: Vec<(String, SchemaChange)>,
    pub(crate) notes: Vec<Note>,
    pub(crate) world: Option<WorldNumber>,
    /// The version of the file that it was opened from.
    pub(crate) format_version: Option<u16>,
}

/// Values of one component that all archetypes refer to.
#[derive(Clone, Debug)]
pub(crate) struct SharedTable {
    pub(crate) component: u32,
    pub(crate) values: Groups,
}

impl Snapshot {
    /// Checks and opens a file or message. The bytes are copied once into aligned memory; to avoid that, read into an
    /// [`AlignedBuf`](crate::engine::AlignedBuf) and use [`OpenOptions::open_shared`].
    pub fn open(bytes: &[u8]) -> Result<Self> {
        OpenOptions::new().open(bytes)
    }

    /// Limits, schemas known from elsewhere, salvage.
    pub fn options<'a>() -> OpenOptions<'a> {
        OpenOptions::new()
    }

    /// What the snapshot holds.
    pub fn prelude(&self) -> Prelude {
        Prelude {
            version: self.format_version.unwrap_or(FORMAT_VERSION),
            next_entity_id: self.next_entity_id,
            entity_count: self.entity_count(),
            archetype_count: self.archetypes.len(),
            components: self.components.clone(),
        }
    }

    /// How many entities there are.
    pub fn entity_count(&self) -> usize {
        self.archetypes.iter().map(|archetype| archetype.rows).sum()
    }

    /// All ids, archetype by archetype, in row order.
    pub fn entities(&self) -> Vec<EntityId> {
        let mut ids = Vec::with_capacity(self.entity_count());
        self.archetypes.iter().for_each(|archetype| ids.extend_from_slice(&archetype.ids()));
        ids
    }

    /// All components: those that the saving build knew, sorted by key, then those it carried, sorted by key.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// What the game wrote about the save itself (its name, play time, ..), readable without the rest.
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.metadata
    }

    /// Writes something about the save itself, in the place of what had the name before.
    pub fn set_metadata(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        let name = name.into();
        self.metadata.retain(|(known, _)| *known != name);
        self.metadata.push((name, value.into()));
    }

    /// Adds entries to the metadata whose names are not there yet.
    pub fn add_missing_metadata(&mut self, entries: impl IntoIterator<Item = (String, Value)>) {
        let mut names: HashSet<String> = self.metadata.iter().map(|(name, _)| name.clone()).collect();
        self.metadata.extend(entries.into_iter().filter(|(name, _)| names.insert(name.clone())));
    }

    /// The ids that the world would give out before new ones, the next one last, if it said so: an engine that keeps ids
    /// goes on exactly as the world that was saved.
    pub fn free_list(&self) -> Result<Vec<EntityId>> {
        let entry = self.data.iter().find(|entry| entry.key() == data::FREE_LIST_KEY);
        let bits: Vec<u64> = entry.map(DataEntry::get).transpose()?.unwrap_or_default();
        Ok(bits.into_iter().map(EntityId::from_bits).collect())
    }

    /// The game's own data, in the order it was added.
    pub fn data(&self) -> &[DataEntry] {
        &self.data
    }

    /// The file's sections; empty if the snapshot was not opened from a file.
    pub fn sections(&self) -> &[SectionInfo] {
        &self.sections
    }

    /// What was lost when a damaged file was salvaged.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// What was remarked while the world was captured: values saved with a loss, numbers that are none. Not part of a
    /// file.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The world that was captured, if it was in this process and said so. Not part of a file.
    pub fn world(&self) -> Option<WorldNumber> {
        self.world
    }

    pub(crate) fn shared_values(&self, column: &Column) -> Option<&Groups> {
        match &column.body {
            Body::Shared { table, .. } => self.shared.get(*table as usize).map(|table| &table.values),
            _ => None,
        }
    }

    /// The same without its columns: entities, data and remarks.
    pub fn without_columns(&self) -> Self {
        let outline = |archetype: &Archetype| Archetype {
            rows: archetype.rows,
            ids: archetype.ids.clone(),
            columns: Vec::new(),
        };
        Self {
            metadata: self.metadata.clone(),
            next_entity_id: self.next_entity_id,
            archetypes: self.archetypes.iter().map(outline).collect(),
            data: self.data.clone(),
            notes: self.notes.clone(),
            world: self.world,
            ..Self::default()
        }
    }

    /// The memory of the columns of some snapshots, in bytes. What several of them share counts once.
    pub fn memory_bytes<'s>(snapshots: impl IntoIterator<Item = &'s Self>) -> usize {
        let mut seen = std::collections::HashSet::new();
        let mut bytes = 0;
        for snapshot in snapshots {
            snapshot.for_each_part(|part| {
                if seen.insert((part.as_ptr(), part.len())) {
                    bytes += memory_of(part);
                }
            });
        }
        bytes
    }

    fn for_each_part(&self, mut each: impl FnMut(&bytes::Bytes)) {
        for ids in self.archetypes.iter().map(|archetype| &archetype.ids) {
            ids.parts().iter().chain(ids.made()).for_each(&mut each);
        }
        self.shared.iter().for_each(|table| each(&table.values.bytes));
        let columns = self.archetypes.iter().flat_map(|archetype| &archetype.columns).chain(&self.resources);
        for column in columns.chain(self.carried.iter().map(|record| &record.column)) {
            match &column.body {
                Body::Tag => {}
                Body::Raw(rope) => rope.parts().iter().for_each(&mut each),
                Body::Rows(groups) => each(&groups.bytes),
                Body::Dictionary { values, indices } => {
                    each(&values.bytes);
                    each(&indices.bytes);
                }
                Body::Shared { indices, .. } => each(&indices.bytes),
            }
        }
    }

    /// Bytes of all columns, not counting headers.
    pub fn column_bytes(&self) -> usize {
        let ids: usize = self.archetypes.iter().map(|archetype| archetype.ids.len()).sum();
        let columns = self.archetypes.iter().flat_map(|archetype| &archetype.columns).chain(&self.resources);
        ids + columns.map(|column| column.body.len()).sum::<usize>()
    }

    /// How many rows each component has, by key.
    pub fn component_rows(&self) -> BTreeMap<&str, usize> {
        let mut rows = BTreeMap::new();
        let columns = self.archetypes.iter().flat_map(|archetype| &archetype.columns).chain(&self.resources);
        for column in columns {
            *rows.entry(&*self.components[column.component as usize].key).or_default() += column.rows;
        }
        rows
    }
}

impl Snapshot {
    /// The rows of a column of an archetype with `rows` entities. `lost` tells which of the column's own rows are
    /// damaged and must not be looked at.
    pub(crate) fn dense(
        &self,
        column: &Column,
        rows: usize,
        limits: &Limits,
        lost: &dyn Fn(usize) -> bool,
    ) -> Result<DenseRows> {
        let component = &self.components[column.component as usize];
        dense_rows(column, component, self.shared_values(column), rows, limits, lost)
            .map_err(|error| error.in_key(&component.key))
    }
}
