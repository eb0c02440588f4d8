//! Entities by a key that is read from one of their components, without an engine. Front ends call it when components come,
//! change and go.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};

use crate::error::{Error, Result};

/// The keys that an index can have: text, numbers, and everything like them.
pub trait Key: Eq + Hash + Clone + Debug + Send + Sync + 'static {}
impl<T: Eq + Hash + Clone + Debug + Send + Sync + 'static> Key for T {}

/// Entities by a key. `S` hashes entities.
#[derive(Clone, Debug)]
pub struct FieldIndex<Entity, K, S = RandomState> {
    /// By key, in the order in which they got it.
    entities: HashMap<K, BTreeMap<u64, Entity>>,
    keys: HashMap<Entity, (K, u64), S>,
    next: u64,
}

impl<Entity, K, S: Default> Default for FieldIndex<Entity, K, S> {
    fn default() -> Self {
        Self { entities: HashMap::new(), keys: HashMap::default(), next: 0 }
    }
}

impl<Entity: Copy + Eq + Hash, K: Key, S: BuildHasher> FieldIndex<Entity, K, S> {
    /// Returns all entities with this key, in the order in which they got it.
    pub fn get(&self, key: &K) -> impl Iterator<Item = Entity> + '_ {
        self.entities.get(key).into_iter().flat_map(BTreeMap::values).copied()
    }

    /// Returns the entity with this key, if there is exactly one.
    pub fn one(&self, key: &K) -> Option<Entity> {
        let mut entities = self.get(key);
        entities.next().filter(|_| entities.next().is_none())
    }

    /// Returns the entity with this key; an error if there is none or more than one.
    pub fn require(&self, key: &K) -> Result<Entity> {
        self.one(key).ok_or_else(|| {
            let count = self.entities.get(key).map_or(0, BTreeMap::len);
            Error::custom(format!("{count} entities have the key {key:?}, one is required"))
        })
    }

    /// Returns the number of entities.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if there are no entities.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds an entity, or changes its key.
    pub fn put(&mut self, entity: Entity, key: K) {
        if self.keys.get(&entity).is_some_and(|(known, _)| *known == key) {
            return;
        }
        self.remove(entity);
        self.next += 1;
        self.entities.entry(key.clone()).or_default().insert(self.next, entity);
        self.keys.insert(entity, (key, self.next));
    }

    /// Removes an entity.
    pub fn remove(&mut self, entity: Entity) {
        let Some((key, number)) = self.keys.remove(&entity) else { return };
        if let Some(entities) = self.entities.get_mut(&key) {
            entities.remove(&number);
            if entities.is_empty() {
                self.entities.remove(&key);
            }
        }
    }

    /// Keeps only the entities for which the predicate returns true.
    pub fn retain(&mut self, is_kept: impl Fn(Entity) -> bool) {
        let gone: Vec<Entity> = self.keys.keys().copied().filter(|&entity| !is_kept(entity)).collect();
        gone.into_iter().for_each(|entity| self.remove(entity));
    }
}

/// The queries of the index of a front end, whose field `entities` is a [`FieldIndex`]. The arguments are the bound of
/// components and the front end's entity.
#[doc(hidden)]
#[macro_export]
macro_rules! __index_methods {
    ($Component:path, $Entity:ty) => {
        impl<C: $Component, K: $crate::__private::Key> Index<C, K> {
            /// Returns all entities with this key, in the order in which they got it.
            pub fn get(&self, key: &K) -> impl Iterator<Item = $Entity> + '_ {
                self.entities.get(key)
            }
            /// Returns the entity with this key, if there is exactly one.
            pub fn one(&self, key: &K) -> Option<$Entity> {
                self.entities.one(key)
            }
            /// Returns the entity with this key; an error if there is none or more than one.
            pub fn require(&self, key: &K) -> $crate::Result<$Entity> {
                self.entities.require(key)
            }
            /// Returns the number of entities.
            pub fn len(&self) -> usize {
                self.entities.len()
            }
            /// Returns true if there are no entities.
            pub fn is_empty(&self) -> bool {
                self.entities.is_empty()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_found_by_key_in_the_order_in_which_they_got_it() {
        let mut index = FieldIndex::<char, u32>::default();
        [('b', 1), ('a', 1), ('c', 2), ('b', 1)].into_iter().for_each(|(entity, key)| index.put(entity, key));
        assert_eq!(index.get(&1).collect::<Vec<_>>(), ['b', 'a']);
        assert_eq!((index.one(&1), index.one(&2), index.len()), (None, Some('c'), 3));
        assert!(index.require(&1).unwrap_err().to_string().contains("2 entities have the key 1"));
        index.put('b', 2);
        assert_eq!(index.get(&2).collect::<Vec<_>>(), ['c', 'b']);
        index.retain(|entity| entity == 'b');
        assert_eq!((index.one(&1), index.one(&2), index.len()), (None, Some('b'), 1));
        index.remove('b');
        assert!(index.is_empty() && index.entities.is_empty());
    }
}
