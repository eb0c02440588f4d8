//! Identity across a save: what an id is in a file, and how old ids become new ones.
//!
//! A saved id is 64 opaque bits. By convention the low half is the slot and the high half the generation, and the map
//! is dense over slots, but nothing is lost if an engine packs its ids in another way. A lookup compares all 64 bits:
//! a handle whose generation is stale never finds the entity that took over its slot.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::storage::Rope;

/// An entity as a save knows it: the source world's slot and generation, opaque to everyone else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct EntityId(u64);

impl EntityId {
    /// No entity.
    pub const NULL: Self = Self(u64::MAX);

    /// From a slot and its generation.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self(index as u64 | (generation as u64) << 32)
    }
    /// From all 64 bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    /// All 64 bits.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
    /// The slot.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }
    /// How often the slot was reused before this entity.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// Whether this is [`EntityId::NULL`].
    pub const fn is_null(self) -> bool {
        self.0 == Self::NULL.0
    }
}

#[expect(unsafe_code, reason = "bytemuck's marker traits")]
// SAFETY: transparent around a `u64`.
unsafe impl bytemuck::Zeroable for EntityId {}
#[expect(unsafe_code, reason = "bytemuck's marker traits")]
// SAFETY: transparent around a `u64`.
unsafe impl bytemuck::Pod for EntityId {}

impl Default for EntityId {
    fn default() -> Self {
        Self::NULL
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() { f.write_str("null") } else { write!(f, "{}v{}", self.index(), self.generation()) }
    }
}

/// Tells the worlds of a process apart. Ids mean something only in the world that gave them out: a snapshot that knows
/// where it was captured can be restored there, entity by entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorldNumber(u64);

impl WorldNumber {
    /// A number that no other world of this process has.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Saved ids and what they became.
///
/// ```
/// # use bonfire::EntityId;
/// # use bonfire::engine::EntityMap;
/// let saved = [EntityId::new(7, 2), EntityId::new(9, 0)];
/// let map = EntityMap::new(&saved, &[EntityId::new(0, 0), EntityId::new(1, 0)])?;
/// assert_eq!(map.get(EntityId::new(7, 2)), Some(EntityId::new(0, 0)));
/// assert_eq!(map.get(EntityId::new(7, 1)), None); // an older entity in the same slot
/// # Ok::<(), bonfire::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EntityMap {
    lookup: Lookup,
    len: usize,
}

#[derive(Clone, Debug)]
enum Lookup {
    /// By slot: the saved id there and the new one. Free slots hold `NULL`.
    Dense(Vec<(EntityId, EntityId)>),
    Sparse(HashMap<EntityId, EntityId>),
    Lazy(LazyTable),
}

/// A table that is made when somebody asks. Most loads have references, but many restores and captures of plain values
/// have none, and a table of a million ids is memory that they would wait for.
#[derive(Clone, Debug)]
struct LazyTable {
    saved: Arc<[Rope]>,
    new: NewIds,
    table: OnceLock<Box<EntityMap>>,
}

/// What saved entities become.
#[derive(Clone, Debug)]
pub(crate) enum NewIds {
    /// What they were, but for these.
    Same(HashMap<EntityId, EntityId>),
    /// One each, in the order of the save.
    All(Arc<Vec<EntityId>>),
}

impl LazyTable {
    fn table(&self) -> &EntityMap {
        self.table.get_or_init(|| {
            let saved: Vec<EntityId> = all_ids(&self.saved);
            let table = match &self.new {
                NewIds::All(new) => EntityMap::new(&saved, new),
                NewIds::Same(changed) if changed.is_empty() => EntityMap::identity(&saved),
                NewIds::Same(changed) => {
                    let new = |id: &EntityId| changed.get(id).copied().unwrap_or(*id);
                    EntityMap::from_pairs(saved.iter().map(|id| (*id, new(id))))
                }
            };
            // Ids that are null or there twice were refused when the map was made.
            Box::new(table.unwrap_or_default())
        })
    }
}

fn all_ids(saved: &[Rope]) -> Vec<EntityId> {
    saved.iter().flat_map(|rope| ids_from_bytes(rope.contiguous()).into_owned()).collect()
}

/// Fails if an id is null or there twice. `slots` is how many there may be, if that is known.
pub(crate) fn check_ids(saved: &[Rope], slots: u64) -> Result<()> {
    let ids = || saved.iter().map(|rope| ids_from_bytes(rope.contiguous()));
    let len: u64 = saved.iter().map(|rope| rope.len() as u64 / 8).sum();
    let slots = match slots {
        0 => ids().filter_map(|ids| ids.iter().map(|id| u64::from(id.index()) + 1).max()).max().unwrap_or(0),
        slots => slots,
    };
    let mut doubtful = slots > len * 4 + 1024;
    // Few entities of a large world, such as those of a chunk, are mostly in the order of their ids.
    if doubtful && are_ascending(ids()) {
        return Ok(());
    }
    if !doubtful {
        // A byte each: neighbours do not wait for each other.
        let mut taken = vec![false; slots as usize];
        for ids in ids() {
            for id in &*ids {
                match taken.get_mut(id.index() as usize) {
                    Some(slot) => doubtful |= std::mem::replace(slot, true),
                    None => doubtful = true,
                }
            }
        }
    }
    // Two ids may share a slot, if their generations differ.
    if doubtful { EntityMap::identity(&all_ids(saved)).map(|_| ()) } else { Ok(()) }
}

/// Returns true if each id is larger than the one before, and none is null.
fn are_ascending<'a>(saved: impl Iterator<Item = Cow<'a, [EntityId]>>) -> bool {
    let mut last = None;
    for ids in saved {
        if last >= ids.first().copied() && !ids.is_empty() || !ids.is_sorted_by(|one, other| one < other) {
            return false;
        }
        last = ids.last().copied().or(last);
    }
    // Null is the largest id.
    last.is_none_or(|last| !last.is_null())
}

impl Default for Lookup {
    fn default() -> Self {
        Self::Dense(Vec::new())
    }
}

impl EntityMap {
    /// Pairs `saved[i]` with `new[i]`. Fails if an id is null, is there twice, or the lengths differ.
    pub fn new(saved: &[EntityId], new: &[EntityId]) -> Result<Self> {
        if saved.len() != new.len() {
            return Err(Error::misuse(format!("{} saved ids, but {} new ones", saved.len(), new.len())));
        }
        Self::build(saved.len(), || saved.iter().copied().zip(new.iter().copied()))
    }

    /// Makes the map from pairs of saved and new ids. Fails as [`EntityMap::new`].
    pub fn from_pairs(pairs: impl ExactSizeIterator<Item = (EntityId, EntityId)> + Clone) -> Result<Self> {
        Self::build(pairs.len(), || pairs.clone())
    }

    /// Maps every id to itself: for tools, and for loads that keep ids.
    pub fn identity(ids: &[EntityId]) -> Result<Self> {
        Self::build(ids.len(), || ids.iter().map(|&id| (id, id)))
    }

    /// A map of ids that were checked before: none is null or there twice.
    pub(crate) fn lazy(saved: Arc<[Rope]>, len: usize, new: NewIds) -> Self {
        Self { lookup: Lookup::Lazy(LazyTable { saved, new, table: OnceLock::new() }), len }
    }

    fn build<I: Iterator<Item = (EntityId, EntityId)>>(len: usize, pairs: impl Fn() -> I) -> Result<Self> {
        let slots = pairs().map(|(id, _)| u64::from(id.index()) + 1).max().unwrap_or(0);
        // Dense while the slots are at least a quarter full; a hostile or odd numbering falls back to hashing. So do
        // two ids that share a slot: either their generations differ, or hashing finds the double.
        if slots <= len as u64 * 4 + 1024 {
            let mut table = vec![(EntityId::NULL, EntityId::NULL); slots as usize];
            let mut shared_slot = false;
            for (saved, new) in pairs() {
                if saved.is_null() {
                    return Err(Error::corrupt("an entity has the null id"));
                }
                let slot = &mut table[saved.index() as usize];
                shared_slot |= !slot.0.is_null();
                *slot = (saved, new);
            }
            if !shared_slot {
                return Ok(Self { lookup: Lookup::Dense(table), len });
            }
        }
        let mut table = HashMap::with_capacity(len);
        for (saved, new) in pairs() {
            if saved.is_null() {
                return Err(Error::corrupt("an entity has the null id"));
            }
            if table.insert(saved, new).is_some() {
                return Err(Error::corrupt(format!("entity {saved} is there twice")));
            }
        }
        Ok(Self { lookup: Lookup::Sparse(table), len })
    }

    /// What a saved id became, or `None` if no such entity was saved.
    #[inline]
    pub fn get(&self, saved: EntityId) -> Option<EntityId> {
        match &self.lookup {
            Lookup::Dense(table) => {
                table.get(saved.index() as usize).filter(|slot| slot.0 == saved).map(|slot| slot.1)
            }
            Lookup::Sparse(table) => table.get(&saved).copied(),
            Lookup::Lazy(later) => later.table().get(saved),
        }
    }

    /// Adds a pair, or gives a saved id another new one. Returns what it was before. Fails if the id is null.
    pub fn insert(&mut self, saved: EntityId, new: EntityId) -> Result<Option<EntityId>> {
        if saved.is_null() {
            return Err(Error::corrupt("an entity has the null id"));
        }
        if let Lookup::Lazy(later) = &self.lookup {
            *self = later.table().clone();
        }
        let index = saved.index() as usize;
        if let Lookup::Dense(table) = &mut self.lookup {
            if index >= table.len() && index < self.len * 4 + 1024 {
                table.resize(index + 1, (EntityId::NULL, EntityId::NULL));
            }
            if let Some(slot) = table.get_mut(index).filter(|slot| slot.0.is_null() || slot.0 == saved) {
                let before = (!slot.0.is_null()).then_some(slot.1);
                self.len += usize::from(before.is_none());
                *slot = (saved, new);
                return Ok(before);
            }
            // Far away, or two ids that share a slot.
            self.lookup = Lookup::Sparse(self.iter().collect());
        }
        let Lookup::Sparse(table) = &mut self.lookup else { return Ok(None) };
        let before = table.insert(saved, new);
        self.len += usize::from(before.is_none());
        Ok(before)
    }

    /// Forgets a saved id. Returns what it was.
    pub fn remove(&mut self, saved: EntityId) -> Option<EntityId> {
        if let Lookup::Lazy(later) = &self.lookup {
            *self = later.table().clone();
        }
        let before = match &mut self.lookup {
            Lookup::Dense(table) => {
                let slot = table.get_mut(saved.index() as usize).filter(|slot| slot.0 == saved)?;
                std::mem::replace(slot, (EntityId::NULL, EntityId::NULL)).1
            }
            Lookup::Sparse(table) => table.remove(&saved)?,
            Lookup::Lazy(_) => return None,
        };
        self.len -= 1;
        Some(before)
    }

    /// The number of entities.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entities.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All pairs of saved and new ids, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (EntityId, EntityId)> + '_ {
        // A map that is made when it is asked for is not made before the first step.
        std::iter::once(&self.lookup).flat_map(|lookup| {
            let table = match lookup {
                Lookup::Lazy(later) => &later.table().lookup,
                table => table,
            };
            let (dense, sparse) = match table {
                Lookup::Dense(table) => (Some(table.iter().copied().filter(|slot| !slot.0.is_null())), None),
                Lookup::Sparse(table) => (None, Some(table.iter().map(|(a, b)| (*a, *b)))),
                Lookup::Lazy(_) => (None, None),
            };
            dense.into_iter().flatten().chain(sparse.into_iter().flatten())
        })
    }
}

/// Ids as they lie in a column: borrowed where memory and byte order allow it.
pub(crate) fn ids_from_bytes(bytes: Cow<'_, [u8]>) -> Cow<'_, [EntityId]> {
    if cfg!(target_endian = "little")
        && let Cow::Borrowed(bytes) = bytes
        && let Ok(ids) = bytemuck::try_cast_slice(bytes)
    {
        return Cow::Borrowed(ids);
    }
    let id = |bytes: &[u8]| EntityId::from_bits(u64::from_le_bytes(bytes.try_into().unwrap_or([0xff; 8])));
    Cow::Owned(bytes.chunks_exact(8).map(id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_grow_and_shrink() {
        let mut map = EntityMap::default();
        let mut model = HashMap::new();
        let mut random = 1_u64;
        for _ in 0..5000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = EntityId::new((random >> 33) as u32 % 3000, (random >> 20) as u32 % 2);
            if random.is_multiple_of(3) {
                assert_eq!(map.remove(id), model.remove(&id));
            } else {
                let new = EntityId::from_bits(random >> 1);
                assert_eq!(map.insert(id, new).unwrap(), model.insert(id, new));
            }
            assert_eq!(map.len(), model.len());
        }
        assert_eq!(map.iter().collect::<HashMap<_, _>>(), model);
        assert!(model.iter().all(|(id, new)| map.get(*id) == Some(*new)));
        assert!(map.insert(EntityId::NULL, EntityId::new(0, 0)).unwrap_err().is_corrupt());
        let mut far = EntityMap::identity(&[EntityId::new(0, 0)]).unwrap();
        far.insert(EntityId::new(u32::MAX, 7), EntityId::new(1, 1)).unwrap();
        assert_eq!((far.len(), far.get(EntityId::new(u32::MAX, 7))), (2, Some(EntityId::new(1, 1))));
    }

    #[test]
    fn odd_numberings_work_too() {
        let ids = [EntityId::from_bits(u64::MAX - 1), EntityId::new(3, 9), EntityId::new(3, 4)];
        let map = EntityMap::identity(&ids).unwrap();
        assert!(ids.iter().all(|&id| map.get(id) == Some(id)));
        assert_eq!(map.get(EntityId::new(3, 5)), None);
        assert_eq!(map.iter().count(), 3);
        let map = EntityMap::identity(&[EntityId::new(3, 9), EntityId::new(3, 4)]).unwrap();
        assert_eq!(map.get(EntityId::new(3, 4)), Some(EntityId::new(3, 4)));
    }

    #[test]
    fn maps_that_are_made_later_are_checked_at_once() {
        let rope = |ids: &[EntityId]| -> Rope {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_bits().to_le_bytes()).collect();
            crate::storage::AlignedBuf::copy_from(&bytes).share().into()
        };
        let (a, b, c) = (EntityId::new(0, 1), EntityId::new(0, 2), EntityId::from_bits(u64::MAX - 1));
        for slots in [0, 1, 1000, u64::MAX] {
            let check =
                |ids: &[&[EntityId]]| check_ids(&ids.iter().map(|ids| rope(ids)).collect::<Vec<_>>(), slots);
            assert!(check(&[&[a], &[b, c]]).is_ok(), "one slot, two generations; a high slot");
            assert!(check(&[&[a, b], &[a]]).unwrap_err().is_corrupt());
            assert!(check(&[&[a], &[a]]).unwrap_err().is_corrupt());
            assert!(check(&[&[a, EntityId::NULL]]).unwrap_err().is_corrupt());
            assert!(check(&[&[a], &[], &[EntityId::NULL]]).unwrap_err().is_corrupt());
            assert!(check(&[&[b], &[], &[a, c]]).is_ok() && check(&[&[c, b], &[a]]).is_ok());
            assert!(check(&[&[a, c], &[], &[b, c]]).unwrap_err().is_corrupt());
            assert!(check(&[&[a, b], &[], &[b, c]]).unwrap_err().is_corrupt());
            assert!(check(&[&[], &[]]).is_ok());
        }
        let map = EntityMap::lazy([rope(&[a]), rope(&[b])].into(), 2, NewIds::All(vec![c, a].into()));
        assert_eq!((map.get(a), map.get(b), map.get(c), map.len()), (Some(c), Some(a), None, 2));
        let map = EntityMap::lazy([rope(&[a]), rope(&[b])].into(), 2, NewIds::Same([(a, c)].into()));
        assert_eq!((map.get(a), map.get(b), map.iter().count()), (Some(c), Some(b), 2));
    }

    #[test]
    fn doubles_and_null_are_refused() {
        let id = EntityId::new(1, 1);
        assert!(EntityMap::identity(&[id, id]).unwrap_err().is_corrupt());
        assert!(EntityMap::identity(&[EntityId::NULL]).unwrap_err().is_corrupt());
        assert!(EntityMap::new(&[id], &[]).unwrap_err().is_misuse());
    }
}
