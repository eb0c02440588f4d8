//! Columns of a world by pointer: the one place where a capture looks at component memory.
//!
//! A capture has `&World`, so nothing is written meanwhile. That the memory of a component holds values of the
//! descriptor's type is what [`Registered::add`](crate::registry::Registered::add) sees to; it is asserted again here.

use std::ops::Range;

use bevy_ecs::component::{Component, ComponentId, ComponentInfo, StorageType};
use bevy_ecs::entity::Entity;
use bevy_ecs::ptr::Ptr;
use bevy_ecs::relationship::RelationshipAccessor;
use bevy_ecs::storage::{Table, TableRow};
use bevy_ecs::world::World;
use bonfire::{ArchetypeWriter, DirtyRows, EntityId, RawRows, Result};

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
