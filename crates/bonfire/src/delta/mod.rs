//! What has changed in a world between two moments: structure, then values.
//!
//! A [`Delta`] covers the ticks `(since, now]`. It comes from a front end that knows what was touched ([`DeltaWriter`]), or
//! from the comparison of two snapshots ([`Delta::between`]); applied to equal worlds both give the same world. A *whole* delta
//! is one from nothing: everything that there is, and whoever applies it drops the rest.
//!
//! Entities are in groups: those of which the same is told. A column of a group says what each of them has afterwards: a
//! value, or nothing. So a delta may be applied to a world that has some of it already, and to one that is told twice.
//!
//! | file | |
//! |---|---|
//! | `table` | the components that a delta speaks of by number |
//! | `writer` | a front end's changes to a delta |
//! | `between`, `cells` | two snapshots to a delta |
//! | `content`, `container` | a delta to bytes and back, for messages and on its own |
//! | `compose`, `cell_map` | two deltas to one |
//! | `apply_to_snapshot`, `from_snapshot` | a snapshot and a delta to a snapshot; a snapshot as a delta |
//! | `list_order` | the order of lists, such as children |
//! | `sent_values`, `fields` | the values sent last: epsilon, and fields instead of components |
//! | `id_plan`, `stage` | for front ends that apply a delta: entities to spawn and despawn; values of their types |
//! | `references` | the entities that values refer to |
//! | `left_out` | values that a codec left out, which mirrors keep |
//! | `series` | for front ends that capture deltas: their contents and ticks, captures compared one after the other |
//! | `view` | a delta for tools |

mod apply_to_snapshot;
mod between;
mod cell_map;
mod cells;
mod compose;
mod container;
mod content;
mod fields;
mod from_snapshot;
mod id_plan;
mod left_out;
mod list_order;
mod placement;
mod references;
mod sent_values;
mod series;
mod stage;
mod table;
mod view;
mod writer;

use std::sync::Arc;

pub use self::id_plan::DeltaIds;
pub use self::list_order::{LIST_ORDER_KEY, SavedOrder};
pub use self::sent_values::{Granularity, SentValues};
pub use self::series::{DeltaContents, DeltaSeries};
pub use self::stage::{StagedChange, StagedDelta, StagedGroup};
pub use self::table::{ComponentTable, DeltaSchema};
pub use self::view::{ColumnChange, DeltaStats, GroupView};
pub use self::writer::{DeltaWriter, GroupWriter};

use self::cell_map::{Cell, CellMap};
use crate::column::Column;
use crate::context::LoadContext;
use crate::entity::EntityId;
use crate::error::Result;
use crate::limits::Limits;
use crate::snapshot::{DataEntry, Note};
use crate::value::Value;

/// What has changed in a world from one tick (exclusive) to another (inclusive).
///
/// ```
/// use bonfire::{Delta, EntityId, Persist, Registry, Snapshot};
/// use bonfire::engine::{DeltaSchema, SnapshotWriter};
///
/// #[derive(Persist)]
/// #[persist(key = "game.health")]
/// struct Health(f32);
///
/// let registry = Registry::new().with::<Health>()?;
/// let schema = DeltaSchema::new(&registry);
/// let world = |health: f32| -> bonfire::Result<Snapshot> {
///     let mut writer = SnapshotWriter::new(&registry);
///     writer.archetype(&[EntityId::new(0, 0)])?.column(&[Health(health)])?;
///     writer.finish()
/// };
/// let (before, after) = (world(1.0)?, world(2.0)?);
/// let delta = Delta::between(&schema, &before, &after, 0, 1)?;
/// let bytes = delta.to_bytes()?;
///
/// let delta = Delta::open(&bytes.to_vec().into(), schema.table(), &Default::default())?;
/// assert_eq!(before.with_delta(&delta)?.content_hash()?, after.content_hash()?);
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Delta {
    pub(crate) table: Arc<ComponentTable>,
    pub(crate) since: u64,
    pub(crate) now: u64,
    pub(crate) whole: bool,
    pub(crate) next_entity_id: u64,
    pub(crate) despawned: Vec<EntityId>,
    pub(crate) groups: Vec<Group>,
    /// Lists of sources in their order.
    pub(crate) lists: Vec<List>,
    /// By number in the table; `None` if it is gone.
    pub(crate) resources: Vec<(u32, Option<Column>)>,
    /// `None`: what there was.
    pub(crate) metadata: Option<Vec<(String, Value)>>,
    /// `None`: what there was.
    pub(crate) data: Option<Vec<DataEdit>>,
    /// Remarks of the capture. They are no part of the bytes.
    pub(crate) notes: Vec<Note>,
}

/// Entities of which the same is told.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Whether they have come: they have what is told here, and nothing else.
    pub(crate) spawned: bool,
    pub(crate) ids: Vec<EntityId>,
    /// In ascending order of their components.
    pub(crate) changes: Vec<Change>,
}

/// What a group's entities have of one component. The column is over the rows of the group and has a value for those that
/// have one afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) op: DeltaOp,
    /// Which leaves of a raw row are told, one bit each; 0 if all are. The rows of the column are then these leaves, in the
    /// order of the schema.
    pub(crate) fields: u64,
    pub(crate) column: Column,
}

/// How much of a world a delta tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaScope {
    /// The changes between two ticks.
    Changes,
    /// Everything: the receiver drops what the delta does not mention.
    Whole,
}

/// What a group of a delta tells of its entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// They are new, with these components and no others.
    Spawned,
    /// They existed before, and these components changed.
    Changed,
}

/// What became of a component of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeltaOp {
    /// It is gone.
    Removed,
    /// It was not there before.
    Added,
    /// It may have another value.
    Changed,
}

/// The sources of a relationship's target, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) component: u32,
    pub(crate) target: EntityId,
    pub(crate) sources: Vec<EntityId>,
}

/// The data afterwards, entry by entry.
#[derive(Clone, Debug)]
pub(crate) enum DataEdit {
    /// The one that was in this place before.
    Kept(u32),
    New(DataEntry),
}

impl Delta {
    pub(crate) fn empty(table: &Arc<ComponentTable>, since: u64, now: u64) -> Self {
        Self {
            table: Arc::clone(table),
            since,
            now,
            whole: false,
            next_entity_id: 0,
            despawned: Vec::new(),
            groups: Vec::new(),
            lists: Vec::new(),
            resources: Vec::new(),
            metadata: None,
            data: None,
            notes: Vec::new(),
        }
    }

    /// Losses of the capture that made it, such as values that cannot be encoded. A delta that was opened has none.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The components that it speaks of.
    pub fn table(&self) -> &Arc<ComponentTable> {
        &self.table
    }
    /// It applies to a world as it was at this tick.
    pub fn since(&self) -> u64 {
        self.since
    }
    /// It leads to the world as it was at this tick.
    pub fn now(&self) -> u64 {
        self.now
    }
    /// Counts its ticks in another way.
    pub fn set_ticks(&mut self, since: u64, now: u64) {
        (self.since, self.now) = (since, now);
    }
    /// Whether it is a whole world, and not what has changed in one.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        !self.whole
            && self.despawned.is_empty()
            && self.groups.is_empty()
            && self.lists.is_empty()
            && self.resources.is_empty()
            && self.metadata.is_none()
            && self.data.is_none()
    }

    /// The entities that are gone.
    pub fn despawned(&self) -> &[EntityId] {
        &self.despawned
    }

    /// The entities that have come.
    pub fn spawned(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.groups.iter().filter(|group| group.spawned).flat_map(|group| group.ids.iter().copied())
    }

    /// Without what belongs to a save and not to a mirror: metadata, data, and what ids come next.
    pub fn for_mirrors(mut self) -> Self {
        (self.metadata, self.data, self.next_entity_id) = (None, None, 0);
        self
    }

    /// Without some resources, by key.
    pub fn without_resources(mut self, left_out: impl Fn(&str) -> bool) -> Self {
        let table = Arc::clone(&self.table);
        self.resources.retain(|(number, _)| !left_out(&table.get(*number).key));
        self
    }

    /// What came and went, with the values that came: spawned and despawned entities, added and removed components.
    pub fn structure_only(&self) -> Result<Self> {
        let changes = self.groups.iter().filter(|group| !group.spawned).flat_map(|group| &group.changes);
        // A codec may leave a value out that was there before.
        let hidden =
            { changes }.any(|change| change.op == DeltaOp::Changed && change.column.present.is_some());
        let groups = if hidden { self.structural_cells()? } else { self.structural_groups() };
        Ok(Self { groups, resources: Vec::new(), metadata: None, data: None, ..self.clone_outline() })
    }

    fn structural_groups(&self) -> Vec<Group> {
        let groups = self.groups.iter().filter_map(|group| {
            let kept = |change: &&Change| group.spawned || change.op != DeltaOp::Changed;
            let changes: Vec<Change> = group.changes.iter().filter(kept).cloned().collect();
            let told = group.spawned || !changes.is_empty();
            told.then(|| Group { spawned: group.spawned, ids: group.ids.clone(), changes })
        });
        groups.collect()
    }

    fn structural_cells(&self) -> Result<Vec<Group>> {
        let mut kept = CellMap::default();
        for (id, mut entity) in CellMap::of(self, &LoadContext::new(&Limits::default()))?.into_entities() {
            let spawned = entity.spawned;
            entity
                .cells
                .retain(|_, cell| spawned || !matches!(cell, Cell::Value { op: DeltaOp::Changed, .. }));
            if spawned || !entity.cells.is_empty() {
                *kept.entry(id) = entity;
            }
        }
        kept.into_groups(&self.table)
    }

    /// Other values of components and resources that were there before and are still there. It is never whole: nobody goes
    /// because of it.
    pub fn values_only(&self) -> Self {
        let groups = self.groups.iter().filter(|group| !group.spawned).filter_map(|group| {
            let changes: Vec<Change> =
                group.changes.iter().filter(|change| change.op == DeltaOp::Changed).cloned().collect();
            (!changes.is_empty()).then(|| Group { spawned: false, ids: group.ids.clone(), changes })
        });
        Self {
            groups: groups.collect(),
            resources: self.resources.iter().filter(|(_, column)| column.is_some()).cloned().collect(),
            whole: false,
            despawned: Vec::new(),
            lists: Vec::new(),
            ..self.clone_outline()
        }
    }

    /// All but groups and resources.
    fn clone_outline(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            despawned: self.despawned.clone(),
            lists: self.lists.clone(),
            groups: Vec::new(),
            resources: Vec::new(),
            metadata: self.metadata.clone(),
            data: self.data.clone(),
            notes: self.notes.clone(),
            ..*self
        }
    }
}
