//! Identity beyond one process, without an engine: where new ids come from, and the index of their holders.
//!
//! A stable id is 64 bits: the seed of the session that made it, and a counter. Front ends have a component around it,
//! because their engines treat components in different ways. They get its methods from
//! [`stable_id_methods`](crate::engine::stable_id_methods), so that it has the same names in every engine.
//!
//! The seed comes from the hasher of the standard library. No other part of this crate depends on it, and games that number
//! their entities themselves do not use it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The upper half of all ids that this process makes.
fn session() -> u32 {
    static SESSION: OnceLock<u32> = OnceLock::new();
    // For all that matters, no two processes have the same.
    *SESSION.get_or_init(|| RandomState::new().hash_one(0_u8) as u32)
}

/// The lower half of the next id.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Makes the bits of an id that this process has not made before.
///
/// # Panics
/// After four billion of them.
pub fn new_stable_id() -> u64 {
    let counter = NEXT.fetch_add(1, Relaxed);
    assert_ne!(counter, u32::MAX, "a session can make four billion stable ids");
    u64::from(session()) << 32 | u64::from(counter)
}

/// Makes sure that an id is not made again: another session may have had the same seed.
fn pass(bits: u64) {
    if (bits >> 32) as u32 == session() {
        NEXT.fetch_max((bits as u32).saturating_add(1), Relaxed);
    }
}

/// The holders of stable ids, by the bits of the id. If several entities have one, it leads to the one that was added last.
#[derive(Clone, Debug)]
pub struct StableIdIndex<Entity> {
    holders: HashMap<u64, Holders<Entity>>,
    /// How many entities have one.
    held: usize,
}

#[derive(Clone, Debug)]
struct Holders<Entity> {
    last: Entity,
    earlier: Vec<Entity>,
}

impl<Entity> Default for StableIdIndex<Entity> {
    fn default() -> Self {
        Self { holders: HashMap::new(), held: 0 }
    }
}

impl<Entity: Copy + Eq + Hash> StableIdIndex<Entity> {
    /// Returns the entity that an id leads to.
    pub fn get(&self, id: u64) -> Option<Entity> {
        self.holders.get(&id).map(|holders| holders.last)
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Returns true if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Adds a holder. Returns the entity that the id has led to, if that is another one. A holder that is known stays where it
    /// is.
    pub fn insert(&mut self, id: u64, entity: Entity) -> Option<Entity> {
        pass(id);
        let holders = match self.holders.entry(id) {
            Entry::Vacant(free) => {
                free.insert(Holders { last: entity, earlier: Vec::new() });
                self.held += 1;
                return None;
            }
            Entry::Occupied(taken) => taken.into_mut(),
        };
        if holders.last == entity || holders.earlier.contains(&entity) {
            return None;
        }
        let other = std::mem::replace(&mut holders.last, entity);
        holders.earlier.push(other);
        self.held += 1;
        Some(other)
    }

    /// Removes a holder. The id then leads to the one before it.
    pub fn remove(&mut self, id: u64, entity: Entity) {
        let Entry::Occupied(mut taken) = self.holders.entry(id) else { return };
        let held = taken.get().len();
        if !taken.get_mut().retain(&mut |other| other != entity) {
            taken.remove();
            self.held -= held;
        } else {
            self.held -= held - taken.get().len();
        }
    }

    /// Keeps only the holders for which the predicate returns true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(u64, Entity) -> bool) {
        let mut held = 0;
        self.holders.retain(|&id, holders| {
            let any = holders.retain(&mut |entity| is_kept(id, entity));
            held += if any { holders.len() } else { 0 };
            any
        });
        self.held = held;
    }

    /// Lets ids with several holders lead to one of these entities, and returns those ids in ascending order.
    pub fn prefer(&mut self, entities: impl IntoIterator<Item = Entity>) -> Vec<u64> {
        if self.holders.len() == self.held {
            return Vec::new();
        }
        let preferred: HashSet<Entity> = entities.into_iter().collect();
        let mut ids = Vec::new();
        for (&id, holders) in self.holders.iter_mut().filter(|(_, holders)| !holders.earlier.is_empty()) {
            if holders.prefer(&preferred) {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        ids
    }
}

impl<Entity: Copy + Eq + Hash> Holders<Entity> {
    fn len(&self) -> usize {
        self.earlier.len() + 1
    }

    /// Keeps some of the holders, in their order. Returns false if none is left.
    fn retain(&mut self, is_kept: &mut impl FnMut(Entity) -> bool) -> bool {
        self.earlier.retain(|&entity| is_kept(entity));
        if is_kept(self.last) {
            return true;
        }
        let before = self.earlier.pop();
        before.map(|entity| self.last = entity).is_some()
    }

    /// Makes the last one of these entities lead. Returns false if none of them is a holder.
    fn prefer(&mut self, preferred: &HashSet<Entity>) -> bool {
        if preferred.contains(&self.last) {
            return true;
        }
        let Some(found) = self.earlier.iter().rposition(|entity| preferred.contains(entity)) else {
            return false;
        };
        std::mem::swap(&mut self.last, &mut self.earlier[found]);
        true
    }
}

/// The methods of the component `StableId`, of references to it and of the index `StableIds`, for a front end that has these
/// types: `StableId(u64)`, `StableRef(StableId)`, and a `StableIds` whose field `index` is a [`StableIdIndex`]. The
/// argument is the front end's entity.
#[doc(hidden)]
#[macro_export]
macro_rules! __stable_id_methods {
    ($Entity:ty) => {
        impl StableId {
            /// Makes a new id.
            pub fn new() -> Self {
                Self($crate::__private::new_stable_id())
            }
            /// Makes an id with these bits, for games that number their entities themselves.
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }
            /// Returns all 64 bits.
            pub const fn to_bits(self) -> u64 {
                self.0
            }
        }

        /// A new id.
        impl Default for StableId {
            fn default() -> Self {
                Self::new()
            }
        }

        impl ::std::fmt::Debug for StableId {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, "{:08x}-{}", self.0 >> 32, self.0 as u32)
            }
        }

        impl ::std::fmt::Display for StableId {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Debug::fmt(self, f)
            }
        }

        impl StableIds {
            /// Returns the entity that has this id, if it is in the world.
            pub fn get(&self, id: StableId) -> Option<$Entity> {
                self.index.get(id.to_bits())
            }
            /// Returns the number of ids.
            pub fn len(&self) -> usize {
                self.index.len()
            }
            /// Returns true if there are no ids.
            pub fn is_empty(&self) -> bool {
                self.index.is_empty()
            }
        }

        impl StableRef {
            /// Returns the target's id.
            pub fn id(self) -> StableId {
                self.0
            }
            /// Returns the target, or the fact that it is not in the world now.
            pub fn resolve(self, ids: &StableIds) -> ::std::result::Result<$Entity, Unresolved> {
                ids.get(self.0).ok_or(Unresolved(self.0))
            }
        }

        impl From<StableId> for StableRef {
            fn from(id: StableId) -> Self {
                Self(id)
            }
        }

        /// The target of a [`StableRef`] is not in the world. That is not an error of the save: it may come.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Unresolved(pub StableId);

        impl ::std::fmt::Display for Unresolved {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, "the entity with stable id {} is not loaded", self.0)
            }
        }

        impl ::std::error::Error for Unresolved {}
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_the_holder_that_came_last() {
        let mut index = StableIdIndex::default();
        assert_eq!(
            (index.insert(7, 'a'), index.insert(7, 'b'), index.insert(7, 'b')),
            (None, Some('a'), None)
        );
        assert_eq!((index.get(7), index.len()), (Some('b'), 1));
        index.remove(7, 'b');
        assert_eq!(index.get(7), Some('a'));
        index.remove(7, 'c');
        index.remove(8, 'a');
        assert_eq!(index.get(7), Some('a'));
        index.remove(7, 'a');
        assert!(index.is_empty() && index.get(7).is_none() && index.held == 0);
    }

    #[test]
    fn preferred_holders_lead_and_their_ids_are_listed() {
        let mut index = StableIdIndex::default();
        for (id, entity) in [(9, 'a'), (9, 'b'), (9, 'c'), (3, 'd'), (3, 'e'), (1, 'f'), (2, 'g'), (2, 'h')] {
            index.insert(id, entity);
        }
        assert_eq!(index.prefer(['a', 'e', 'f']), [3, 9], "1 has one holder, those of 2 are not meant");
        assert_eq!([9, 3, 1, 2].map(|id| index.get(id).unwrap()), ['a', 'e', 'f', 'h']);
        index.retain(|id, entity| id != 3 && entity != 'a');
        assert_eq!([9, 3, 1, 2].map(|id| index.get(id)), [Some('b'), None, Some('f'), Some('h')]);
        assert_eq!(index.held, 5);
        index.retain(|_, entity| entity == 'c' || entity == 'h');
        assert_eq!((index.prefer(['c', 'h']), index.held, index.len()), (vec![], 2, 2));
    }

    #[test]
    fn an_id_that_was_met_is_not_made_again() {
        let met = new_stable_id() + 10;
        StableIdIndex::default().insert(met, ());
        assert!(new_stable_id() > met);
    }
}
