//! The fastest way of Bevy to spawn entities whose components are known at run time only.
//!
//! `World::spawn_batch` is three times as fast as inserting by component id, but wants a bundle type. [`BatchRow`] is one:
//! its components are decided when a world first meets it, and its values are pointers into staged columns. A world
//! keeps what it decided for ever, so there are [`SLOTS`] of these types, each for one set of components.
//!
//! Bevy documents that bundles are not to be implemented by hand. What is relied on is small, the version is pinned,
//! [`is_supported`] tries all of it once per process before the first load, and every batch is checked against the world's own
//! record of the set. Where any of that fails, [`insert_row`](super::raw_column::insert_row) does the same by documented calls.

use std::any::TypeId;
use std::cell::RefCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::OnceLock;

use bevy_ecs::bundle::{Bundle, BundleInfo, DynamicBundle};
use bevy_ecs::component::{Component, ComponentId, Components, ComponentsRegistrator, StorageType};
use bevy_ecs::entity::Entity;
use bevy_ecs::ptr::{MovingPtr, OwningPtr};
use bevy_ecs::world::{EntityWorldMut, World};

use super::common_value::Spawning;
use super::table_fill::TableFill;
use crate::pending::IdAllocLock;

/// The number of sets of components that can be spawned by batches. Each slot costs about four kilobytes of code.
pub(crate) const SLOTS: usize = 128;

/// More ids than this are handed out by the allocator in the order in which they were given back to it; fewer may be
/// kept aside.
const KEPT_ASIDE_MAX: usize = 128;

/// Rows of one component.
pub(crate) struct ColumnRows {
    /// The first row.
    pub(crate) first: NonNull<u8>,
    pub(crate) stride: usize,
    pub(crate) storage: StorageType,
}

/// A row of a batch: where all its columns are, and its number.
struct BatchRow<const SLOT: usize> {
    columns: *const [ColumnRows],
    row: usize,
}

#[expect(unsafe_code, reason = "`Bundle` asks for it")]
// SAFETY: a row is made and used up inside `spawn_in`, on one thread.
unsafe impl<const SLOT: usize> Send for BatchRow<SLOT> {}
#[expect(unsafe_code, reason = "`Bundle` asks for it")]
// SAFETY: as above.
unsafe impl<const SLOT: usize> Sync for BatchRow<SLOT> {}

thread_local! {
    /// The components of the slot that is about to be used.
    static COMPONENTS: RefCell<Vec<ComponentId>> = const { RefCell::new(Vec::new()) };
}

fn components() -> std::vec::IntoIter<ComponentId> {
    COMPONENTS.with(|components| components.borrow().clone()).into_iter()
}

#[expect(unsafe_code, reason = "the only bundle whose components are decided at run time")]
// SAFETY: `spawn` sets the components before the world asks for them, in the order in which `get_components` gives the
// values, and refuses to use a slot for which the world has others on record. Where `get_components` gives none, `TableFill`
// writes them before other code can look.
unsafe impl<const SLOT: usize> Bundle for BatchRow<SLOT> {
    fn component_ids(_: &mut ComponentsRegistrator) -> impl Iterator<Item = ComponentId> + use<SLOT> {
        components()
    }
    fn get_component_ids(_: &Components) -> impl Iterator<Item = Option<ComponentId>> {
        components().map(Some)
    }
}

#[expect(unsafe_code, reason = "gives values by pointer")]
impl<const SLOT: usize> DynamicBundle for BatchRow<SLOT> {
    type Effect = ();

    #[inline]
    unsafe fn get_components(row: MovingPtr<'_, Self>, take: &mut impl FnMut(StorageType, OwningPtr<'_>)) {
        let Self { columns, row } = &*row;
        // SAFETY: `spawn_in` keeps the columns for as long as it spawns.
        for column in unsafe { &**columns } {
            // SAFETY: the caller of `spawn` vouches for as many rows as there are entities, each used once.
            unsafe { take(column.storage, OwningPtr::new(column.first.add(column.stride * row))) };
        }
    }

    unsafe fn apply_effect(_: MovingPtr<'_, MaybeUninit<Self>>, _: &mut EntityWorldMut) {}
}

struct BundleSlot {
    type_id: fn() -> TypeId,
    bind: fn(&mut World),
    /// # Safety
    /// As [`spawn`].
    spawn: SpawnBatch,
}

/// Spawns one entity per row.
type SpawnBatch = unsafe fn(&mut World, &[ColumnRows], &mut [Entity]) -> Result<(), IdsTaken>;

const fn slot<const SLOT: usize>() -> BundleSlot {
    BundleSlot { type_id: TypeId::of::<BatchRow<SLOT>>, bind: bind_in::<SLOT>, spawn: spawn_in::<SLOT> }
}

macro_rules! slots {
    ($($high:literal)*) => { [$(
        slot::<$high>(), slot::<{ $high + 1 }>(), slot::<{ $high + 2 }>(), slot::<{ $high + 3 }>(),
        slot::<{ $high + 4 }>(), slot::<{ $high + 5 }>(), slot::<{ $high + 6 }>(), slot::<{ $high + 7 }>(),
    )*] };
}
static BUNDLE_SLOTS: [BundleSlot; SLOTS] = slots!(0 8 16 24 32 40 48 56 64 72 80 88 96 104 112 120);

/// The components that a world has on record for a slot.
pub(crate) fn slot_components(world: &World, slot: usize) -> Option<&[ComponentId]> {
    let bundles = world.bundles();
    let id = bundles.get_id((BUNDLE_SLOTS[slot].type_id)())?;
    bundles.get(id).map(BundleInfo::explicit_components)
}

/// Puts a set of components on record for a slot. Another load that goes on in the same world then takes another slot.
pub(crate) fn bind(slot: usize, world: &mut World, ids: &[ComponentId]) {
    if slot_components(world, slot).is_none() {
        COMPONENTS.with(|components| ids.clone_into(&mut components.borrow_mut()));
        (BUNDLE_SLOTS[slot].bind)(world);
    }
}

/// A batch without rows makes the world know the bundle and its archetype. Dropping it would apply commands.
fn bind_in<const SLOT: usize>(world: &mut World) {
    let _ = ManuallyDrop::new(world.spawn_batch(std::iter::empty::<BatchRow<SLOT>>()));
}

/// Another thread allocated ids that a batch needed. The batch has spawned its entities with other ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdsTaken;

/// Spawns one entity per row, with exactly these ids, and leaves the commands of hooks in the queue. If another thread took
/// one of them meanwhile, `entities` are those that were spawned, and the ids that are not among them belong to others.
///
/// # Safety
/// `ids` are components of this world without doubles, `columns` their columns in the same order, with as many values
/// of the right types as there are entities. The values are moved: the caller must not use or drop them again, whatever
/// happens. A column with a stride of 0 is one value of a type that is `Copy`, for all rows. The entities are allocated in this
/// world and not spawned.
#[expect(unsafe_code, reason = "moves values by pointer")]
pub(crate) unsafe fn spawn(
    slot: usize,
    world: &mut World,
    ids: &[ComponentId],
    columns: &[ColumnRows],
    entities: &mut [Entity],
    spare: &mut SpareIds,
) -> Result<(), IdsTaken> {
    assert_eq!(ids.len(), columns.len());
    let on_record = slot_components(world, slot);
    assert!(on_record.is_none_or(|bound| bound == ids), "the slot is for another set of components");
    COMPONENTS.with(|components| ids.clone_into(&mut components.borrow_mut()));
    let lock = IdAllocLock::of(world);
    let _guard = lock.as_ref().map(IdAllocLock::lock);
    spare.give_back(world, entities);
    // SAFETY: the caller vouches for columns and entities; the slot is for these components.
    let spawned = unsafe {
        let _spawning = Spawning::begin();
        (BUNDLE_SLOTS[slot].spawn)(world, columns, entities)
    };
    spare.refill(world);
    spawned
}

#[expect(unsafe_code, reason = "moves values by pointer")]
unsafe fn spawn_in<const SLOT: usize>(
    world: &mut World,
    columns: &[ColumnRows],
    entities: &mut [Entity],
) -> Result<(), IdsTaken> {
    bind_in::<SLOT>(world);
    let fill = TableFill::for_batch(world, TypeId::of::<BatchRow<SLOT>>(), columns);
    let given: *const [ColumnRows] = if fill.is_some() { &[] } else { columns };
    let rows = (0..entities.len()).map(|row| BatchRow::<SLOT> { columns: given, row });
    // Dropping the iterator would apply commands while entities are still missing, and would go on spawning after a
    // hook has panicked.
    let mut spawned = ManuallyDrop::new(world.spawn_batch(rows));
    let mut right = true;
    for entity in &mut *entities {
        let Some(got) = spawned.next() else { break };
        right &= *entity == got;
        *entity = got;
    }
    if let Some(fill) = fill {
        // SAFETY: the rows were just spawned without values, and the caller vouches for the columns.
        unsafe { fill.write(world, columns, entities.len()) };
    }
    if right { Ok(()) } else { Err(IdsTaken) }
}

/// Ids that no entity uses. They make every batch long enough for the allocator to hand it out in order.
#[derive(Default)]
pub(crate) struct SpareIds(Vec<Entity>);

impl SpareIds {
    pub(crate) fn new(world: &World) -> Self {
        let mut spare = Self::default();
        spare.refill(world);
        spare
    }

    /// Gives ids back to the allocator, so that the next batch gets them.
    fn give_back(&mut self, world: &mut World, entities: &[Entity]) {
        if entities.len() > KEPT_ASIDE_MAX {
            world.entity_allocator_mut().free_many(entities);
        } else {
            self.0.extend_from_slice(entities);
            world.entity_allocator_mut().free_many(&self.0);
            self.0.clear();
        }
    }

    /// Hooks may have taken some of the ids that were given back; any others are as good.
    fn refill(&mut self, world: &World) {
        if self.0.is_empty() {
            self.0.extend(world.entity_allocator().alloc_many(KEPT_ASIDE_MAX as u32 + 1));
        }
    }

    pub(crate) fn release(self, world: &mut World) {
        world.entity_allocator_mut().free_many(&self.0);
    }
}

/// Tries everything that is relied on, once per process.
pub(crate) fn is_supported() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let works = std::panic::catch_unwind(self_test).unwrap_or(false);
        if !works {
            log::warn!("this version of Bevy spawns batches in another way: loads take the slower way");
        }
        works
    })
}

#[derive(Component, Clone, PartialEq, Debug)]
struct Plain(u64);
#[derive(Component, Clone, PartialEq, Debug)]
struct Owner(String);
#[derive(Component, Clone, PartialEq, Debug)]
#[component(storage = "SparseSet")]
#[require(Wanted)]
struct Sparse(Vec<u8>);
#[derive(Component, Default)]
struct Wanted;

fn undropped<T>(rows: Vec<T>) -> Vec<ManuallyDrop<T>> {
    rows.into_iter().map(ManuallyDrop::new).collect()
}

fn source<T: Component>(rows: &[ManuallyDrop<T>]) -> ColumnRows {
    ColumnRows { first: NonNull::from(rows).cast(), stride: size_of::<T>(), storage: T::STORAGE_TYPE }
}

#[expect(unsafe_code, reason = "moves values by pointer")]
fn self_test() -> bool {
    let mut world = World::new();
    let ids = [
        world.register_component::<Plain>(),
        world.register_component::<Owner>(),
        world.register_component::<Sparse>(),
    ];
    // As many as fit the list that is kept aside, and more.
    let lens = [1, 3, KEPT_ASIDE_MAX, KEPT_ASIDE_MAX + 1, 1000];
    for (len, by_column) in lens.into_iter().flat_map(|len| [(len, false), (len, true)]) {
        let mut entities: Vec<Entity> = world.entity_allocator().alloc_many(len as u32).collect();
        entities.reverse();
        let mut spare = SpareIds::new(&world);
        let plain: Vec<Plain> = (0..len as u64).map(Plain).collect();
        let owners: Vec<Owner> = (0..len).map(|row| Owner(format!("row {row}"))).collect();
        let sparse: Vec<Sparse> = (0..len).map(|row| Sparse(vec![row as u8; 3])).collect();
        let expected = (plain.clone(), owners.clone(), sparse.clone());
        let (plain, owners, sparse) = (undropped(plain), undropped(owners), undropped(sparse));
        let columns = [source(&plain), source(&owners), source(&sparse)];
        // With a sparse component, and a required one, values are taken row by row; without, column by column.
        let given = if by_column { 2 } else { 3 };
        let (ids, columns, slot) = (&ids[..given], &columns[..given], usize::from(by_column));
        let before = world.increment_change_tick();
        // SAFETY: the columns have one value per entity, of the types of the components, and are never dropped.
        let spawned = unsafe { spawn(slot, &mut world, ids, columns, &mut entities, &mut spare) };
        spare.release(&mut world);
        world.flush();
        let now = world.change_tick();
        let rows = entities.iter().enumerate();
        let values = rows.clone().all(|(row, &entity)| {
            let ticks = world.entity(entity).get_change_ticks::<Owner>();
            world.get::<Plain>(entity) == Some(&expected.0[row])
                && world.get::<Owner>(entity) == Some(&expected.1[row])
                && (by_column || world.get::<Sparse>(entity) == Some(&expected.2[row]))
                && (by_column || world.get::<Wanted>(entity).is_some())
                && ticks.is_some_and(|ticks| ticks.is_added(before, now) && ticks.is_changed(before, now))
        });
        if by_column {
            // Not moved into the world.
            sparse.into_iter().for_each(|sparse| drop(ManuallyDrop::into_inner(sparse)));
        }
        if spawned.is_err() || !values || slot_components(&world, slot) != Some(ids) {
            return false;
        }
        if entities.iter().any(|&entity| !world.despawn(entity)) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_relied_on_holds() {
        assert!(is_supported());
    }

    #[test]
    #[should_panic(expected = "another set")]
    #[expect(unsafe_code, reason = "no value is moved")]
    fn a_slot_keeps_its_components() {
        let mut world = World::new();
        let plain = world.register_component::<Plain>();
        let owner = world.register_component::<Owner>();
        let mut spare = SpareIds::new(&world);
        let values = [Plain(1)];
        let column = |storage| ColumnRows { first: NonNull::from(&values).cast(), stride: 8, storage };
        let mut entities: Vec<Entity> = world.entity_allocator().alloc_many(1).collect();
        // SAFETY: one value per entity, without anything to drop.
        let _ = unsafe {
            spawn(1, &mut world, &[plain], &[column(StorageType::Table)], &mut entities, &mut spare)
        };
        // SAFETY: it panics before anything is moved.
        let _ = unsafe {
            spawn(1, &mut world, &[owner], &[column(StorageType::Table)], &mut entities, &mut spare)
        };
    }
}
