//! Components that batches give to all of their entities, beside what these have.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

#[cfg(feature = "chunks")]
use bevy_ecs::component::Component;
use bevy_ecs::component::{ComponentId, StorageType};
#[cfg(feature = "chunks")]
use bevy_ecs::world::World;

use super::batch_spawn::ColumnRows;

/// A component that batches give to all of their entities beside what these have: a tag, or a value that is copied.
#[derive(Clone, Copy)]
pub(crate) struct CommonValue<'v> {
    pub(super) id: ComponentId,
    value: NonNull<u8>,
    storage: StorageType,
    _borrowed: PhantomData<&'v ()>,
}

impl<'v> CommonValue<'v> {
    /// A component without fields that lies in tables.
    pub(crate) fn tag(id: ComponentId) -> Self {
        Self { id, value: NonNull::dangling(), storage: StorageType::Table, _borrowed: PhantomData }
    }

    /// A value that each entity gets a copy of. Its hooks may ask whether a batch [`is_spawning`].
    #[cfg(feature = "chunks")]
    pub(crate) fn copied<T: Component + Copy>(world: &mut World, value: &'v T) -> Self {
        let id = world.register_component::<T>();
        Self { id, value: NonNull::from(value).cast(), storage: T::STORAGE_TYPE, _borrowed: PhantomData }
    }

    /// The value for each row: the next one lies at the same place.
    pub(super) fn rows(self) -> ColumnRows {
        ColumnRows { first: self.value, stride: 0, storage: self.storage }
    }
}

thread_local! {
    /// This thread spawns a batch.
    static IS_SPAWNING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while this thread spawns a batch. A component that is given as a [`CommonValue`] comes with it and in no other
/// way meanwhile, because commands wait.
#[cfg(feature = "chunks")]
pub(crate) fn is_spawning() -> bool {
    IS_SPAWNING.get()
}

/// Notes that this thread spawns a batch, until it is dropped.
pub(super) struct Spawning {
    /// A hook of a batch may load something into another world.
    was_spawning: bool,
}

impl Spawning {
    pub(super) fn begin() -> Self {
        Self { was_spawning: IS_SPAWNING.replace(true) }
    }
}

impl Drop for Spawning {
    fn drop(&mut self) {
        IS_SPAWNING.set(self.was_spawning);
    }
}

#[cfg(all(test, feature = "chunks"))]
mod tests {
    use bevy_ecs::entity::Entity;

    use super::*;
    use crate::load::spawn::SpareIds;
    use crate::load::spawn::batch_spawn;

    #[derive(Component, PartialEq, Debug)]
    struct Plain(u64);
    #[derive(Component, Clone, Copy, PartialEq, Debug)]
    struct Common(u64, u32);

    fn plain_rows(values: &[Plain]) -> ColumnRows {
        ColumnRows { first: NonNull::from(values).cast(), stride: 8, storage: StorageType::Table }
    }

    #[test]
    #[expect(unsafe_code, reason = "moves values by pointer")]
    fn a_common_value_is_copied_to_every_row() {
        let mut world = World::new();
        let plain = world.register_component::<Plain>();
        let common = Common(7, 9);
        let common = CommonValue::copied(&mut world, &common);
        assert!(batch_spawn::is_supported());
        for len in [1, 3, 1000] {
            let mut entities: Vec<Entity> = world.entity_allocator().alloc_many(len as u32).collect();
            let values: Vec<Plain> = (0..len as u64).map(Plain).collect();
            let mut spare = SpareIds::new(&world);
            let (ids, columns) = ([plain, common.id], [plain_rows(&values), common.rows()]);
            // SAFETY: the first column has one value per entity. The other one is a value that is `Copy`.
            unsafe { batch_spawn::spawn(2, &mut world, &ids, &columns, &mut entities, &mut spare) }.unwrap();
            spare.release(&mut world);
            for (row, &entity) in entities.iter().enumerate() {
                let values = (world.get::<Plain>(entity), world.get::<Common>(entity));
                assert_eq!(values, (Some(&Plain(row as u64)), Some(&Common(7, 9))));
            }
        }
        assert!(!is_spawning());
    }
}
