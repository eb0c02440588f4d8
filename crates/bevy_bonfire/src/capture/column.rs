//! Columns of a world by pointer: the one place where a capture looks at component memory.
//!
//! A capture has `&World`, so nothing is written meanwhile. That the memory of a component holds values of the
//! descriptor's type is what [`Registered::add`](crate::registry::Registered::add) sees to; it is asserted again here.

use std::ops::Range;

use bevy_ecs::component::{Component, ComponentId, ComponentInfo, StorageType};
use bevy_ecs::entity::Entity;
use bevy_ecs::ptr::Ptr;
use bevy_ecs::relationship::RelationshipAccessor;
use bevy_ecs::storage::{ComponentSparseSet, Table, TableRow};
use bevy_ecs::world::World;
use bonfire::engine::{ArchetypeWriter, DeltaOp, DirtyRows, GroupWriter, RawRows};
use bonfire::{EntityId, Result};

use crate::registry::Registered;

/// The rows of an archetype that are saved.
pub(crate) enum Rows<'w> {
    /// All rows of a table that belongs to this archetype alone, in the table's order.
    Table(&'w Table),
    /// Some rows of a table.
    Picked { table: &'w Table, entities: Vec<Entity>, rows: Vec<u32> },
}

impl<'w> Rows<'w> {
    pub(crate) fn len(&self) -> usize {
        self.entities().len()
    }

    pub(crate) fn entities(&self) -> &[Entity] {
        match self {
            Self::Table(table) => table.entities(),
            Self::Picked { entities, .. } => entities,
        }
    }

    pub(super) fn table(&self) -> &'w Table {
        match self {
            Self::Table(table) | Self::Picked { table, .. } => table,
        }
    }

    pub(crate) fn write_ids(&self, range: Range<usize>, ids: &mut [EntityId]) {
        for (id, &entity) in ids.iter_mut().zip(&self.entities()[range]) {
            *id = EntityId::new(entity.index_u32(), entity.generation().to_bits());
        }
    }
}

/// Writes one component of some rows. For a capture over another one, `dirty` says which of them may have changed.
#[expect(
    unsafe_code,
    reason = "columns are copied by pointer: one copy per column instead of one access per value"
)]
pub(crate) fn write(
    out: &mut ArchetypeWriter<'_, '_>,
    registry: &Registered,
    number: usize,
    world: &World,
    rows: &Rows<'_>,
    dirty: Option<&DirtyRows>,
) -> Result<()> {
    let id = registry.entries[number].id;
    let Some(info) = world.components().get_info(id) else { return Ok(()) };
    assert_eq!(info.type_id(), Some(registry.registry.descriptors()[number].type_id()));
    if info.storage_type() == StorageType::SparseSet {
        let Some(set) = world.storages().sparse_sets.get(id) else { return Ok(()) };
        let pointers: Vec<*const u8> =
            (rows.entities().iter()).filter_map(|&entity| set.get(entity).map(Ptr::as_ptr)).collect();
        assert_eq!(pointers.len(), rows.len(), "an archetype's entities have its sparse components");
        // SAFETY: the set holds live values of the component's type, which is the descriptor's; `world` is borrowed.
        return unsafe { out.column_over(number, RawRows::Pointers(&pointers), dirty) };
    }
    let Some(column) = rows.table().get_column(id) else { return Ok(()) };
    let first = TableRow::new(nonmax::NonMaxU32::ZERO);
    // SAFETY: the table has rows, because the archetype has, so that row 0 is in bounds.
    let base = unsafe { column.get_data_unchecked(first) }.as_ptr();
    let rows = match rows {
        Rows::Table(table) => RawRows::Slice { base, len: table.entities().len() },
        Rows::Picked { rows, .. } => RawRows::Picked { base, rows },
    };
    // SAFETY: the column holds a live value of the component's type for each row of the table, one after the other,
    // and picked rows are rows of it; `world` is borrowed, so nobody writes.
    unsafe { out.column_over(number, rows, dirty) }
}

/// Writes a resource, if the world has it.
#[expect(unsafe_code, reason = "resources are reached by pointer like all components")]
pub(crate) fn write_resource(
    out: &mut ArchetypeWriter<'_, '_>,
    registry: &Registered,
    number: usize,
    world: &World,
    dirty: Option<&DirtyRows>,
) -> Result<()> {
    let id = registry.entries[number].id;
    let Some(value) = world.get_resource_by_id(id) else { return Ok(()) };
    let info = world.components().get_info(id);
    assert_eq!(
        info.and_then(ComponentInfo::type_id),
        Some(registry.registry.descriptors()[number].type_id())
    );
    let base = value.as_ptr();
    // SAFETY: one live value of the component's type; `world` is borrowed.
    unsafe { out.column_over(number, RawRows::Slice { base, len: 1 }, dirty) }
}

/// Where the values of one component are, for the rows of an archetype.
pub(crate) struct Source<'a> {
    number: usize,
    place: Place<'a>,
}

enum Place<'a> {
    /// The first value, their size, and the rows of the table if not all are meant.
    Table {
        base: *const u8,
        size: usize,
        rows: Option<&'a [u32]>,
        len: usize,
    },
    Sparse {
        set: &'a ComponentSparseSet,
        entities: &'a [Entity],
    },
}

impl<'a> Source<'a> {
    /// `None` if the world does not have the component at all.
    #[expect(unsafe_code, reason = "component memory by pointer: what it buys are the rows `bevy_delta_*`")]
    pub(crate) fn of(
        world: &'a World,
        registry: &Registered,
        number: usize,
        rows: &'a Rows<'a>,
    ) -> Option<Self> {
        let id = registry.entries[number].id;
        let info = world.components().get_info(id)?;
        assert_eq!(info.type_id(), Some(registry.registry.descriptors()[number].type_id()));
        if info.storage_type() == StorageType::SparseSet {
            let set = world.storages().sparse_sets.get(id)?;
            return Some(Self { number, place: Place::Sparse { set, entities: rows.entities() } });
        }
        let (column, size, len) = (rows.table().get_column(id)?, info.layout().size(), rows.len());
        let first = TableRow::new(nonmax::NonMaxU32::ZERO);
        // SAFETY: the table has rows, because the archetype has, so that row 0 is in bounds.
        let base = unsafe { column.get_data_unchecked(first) }.as_ptr();
        let rows = match rows {
            Rows::Table(_) => None,
            Rows::Picked { rows, .. } => Some(&**rows),
        };
        Some(Self { number, place: Place::Table { base, size, rows, len } })
    }

    #[inline]
    #[expect(unsafe_code, reason = "component memory by pointer")]
    fn pointer(&self, row: usize) -> *const u8 {
        match self.place {
            Place::Table { base, size, rows, len } => {
                assert!(row < len);
                let row = rows.map_or(row, |rows| rows[row] as usize);
                // SAFETY: the column has a value for each row of the table, and picked rows are rows of it.
                unsafe { base.add(row * size) }
            }
            Place::Sparse { set, entities } => {
                let value = set.get(entities[row]).map(Ptr::as_ptr);
                value.unwrap_or_else(|| unreachable!("an archetype's entities have its sparse components"))
            }
        }
    }
}

/// Values of one component, from any archetypes of a world that is borrowed.
pub(crate) struct PickedValues<'a> {
    number: usize,
    /// Each from a source of the same number, so of the descriptor's type and alive for `'a`.
    pointers: Vec<*const u8>,
    world: std::marker::PhantomData<&'a World>,
}

impl<'a> PickedValues<'a> {
    pub(crate) fn new(number: usize) -> Self {
        Self { number, pointers: Vec::new(), world: std::marker::PhantomData }
    }

    #[inline]
    pub(crate) fn push(&mut self, source: &Source<'a>, row: usize) {
        assert_eq!(source.number, self.number);
        self.pointers.push(source.pointer(row));
    }

    #[expect(unsafe_code, reason = "values by pointer")]
    pub(crate) fn write(&self, out: &mut GroupWriter<'_, '_>, op: DeltaOp) -> Result<()> {
        // SAFETY: live values of the component's type; the world is borrowed for as long as they are kept.
        unsafe { out.column_raw(self.number, op, RawRows::Pointers(&self.pointers)) }
    }
}

/// Tells a resource that has changed.
#[expect(unsafe_code, reason = "resources are reached by pointer like all components")]
pub(crate) fn write_changed_resource(
    out: &mut GroupWriter<'_, '_>,
    registry: &Registered,
    number: usize,
    world: &World,
) -> Result<()> {
    let id = registry.entries[number].id;
    let Some(value) = world.get_resource_by_id(id) else { return Ok(()) };
    let info = world.components().get_info(id);
    assert_eq!(
        info.and_then(ComponentInfo::type_id),
        Some(registry.registry.descriptors()[number].type_id())
    );
    // SAFETY: one live value of the component's type; `world` is borrowed.
    unsafe { out.column_raw(number, DeltaOp::Changed, RawRows::Slice { base: value.as_ptr(), len: 1 }) }
}

/// A function of a component as a function of a pointer to it. The caller hands it pointers to `T`s only: it is stored
/// with the component's id.
#[expect(unsafe_code, reason = "gives a pointer its type back")]
pub(crate) fn typed<T: Component, R>(
    read: impl Fn(&T) -> R + Send + Sync + 'static,
) -> impl Fn(Ptr<'_>) -> R + Send + Sync + 'static {
    // SAFETY: the pointer comes from the component that the function was stored with, whose type is `T`.
    move |value| read(unsafe { value.deref::<T>() })
}

/// The sources of a relationship, as its targets list them.
pub(crate) struct Sources<'w> {
    world: &'w World,
    targets: ComponentId,
    iter: for<'a> unsafe fn(Ptr<'a>) -> Box<dyn Iterator<Item = Entity> + 'a>,
    /// A target takes its sources along when it is despawned.
    pub(crate) linked: bool,
}

impl<'w> Sources<'w> {
    /// Of the relationship with this component on its targets.
    pub(crate) fn of(world: &'w World, targets: ComponentId) -> Option<Self> {
        match *world.components().get_info(targets)?.relationship_accessor()? {
            RelationshipAccessor::RelationshipTarget { iter, linked_spawn: linked, .. } => {
                Some(Self { world, targets, iter, linked })
            }
            RelationshipAccessor::Relationship { .. } => None,
        }
    }

    /// Calls `found` with each source of an entity, in order.
    #[expect(unsafe_code, reason = "reads a relationship's target without its type")]
    pub(crate) fn for_each(&self, target: Entity, found: impl FnMut(Entity)) {
        if let Ok(value) = self.world.entity(target).get_by_id(self.targets) {
            // SAFETY: the pointer is to the component that the accessor belongs to.
            unsafe { (self.iter)(value) }.for_each(found);
        }
    }
}
