//! References of Bevy, collections of them that keep their order, and names. Those without an order are in `map`.
//!
//! The bits of an `Entity` are Bevy's own business and have changed before; a save has its index and its generation.

use std::hash::Hash;

use bevy_ecs::entity::index_map::EntityEquivalentIndexMap;
use bevy_ecs::entity::index_set::EntityEquivalentIndexSet;
use bevy_ecs::entity::{Entity, EntityEquivalent, EntityGeneration, EntityIndex};
use bevy_ecs::name::Name;

use super::Persist;
use super::map::decode_pairs;
use crate::entity::EntityId;
use crate::error::Result;
use crate::schema::{Node, SchemaBuilder, Type};
use crate::wire::{Reader, Writer};

/// A placeholder is no entity.
impl From<Entity> for EntityId {
    #[inline]
    fn from(entity: Entity) -> Self {
        if entity == Entity::PLACEHOLDER {
            return Self::NULL;
        }
        Self::new(entity.index_u32(), entity.generation().to_bits())
    }
}

/// What no entity of Bevy can be becomes a placeholder.
impl From<EntityId> for Entity {
    #[inline]
    fn from(id: EntityId) -> Self {
        match EntityIndex::from_raw_u32(id.index()) {
            Some(index) => {
                Self::from_index_and_generation(index, EntityGeneration::from_bits(id.generation()))
            }
            None => Self::PLACEHOLDER,
        }
    }
}

super::reference!(Entity, Entity::PLACEHOLDER);

/// A list of pairs, because its order is part of its value.
impl<K: Persist + EntityEquivalent + Hash, V: Persist> Persist for EntityEquivalentIndexMap<K, V> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        Vec::<(K, V)>::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        out.varint(self.len() as u64);
        out.nested(|out| {
            self.iter().for_each(|(key, value)| {
                key.encode(out);
                value.encode(out);
            });
        });
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let mut map = Self::new();
        decode_pairs(input, |key, value| map.insert(key, value).is_none())?;
        Ok(map)
    }
}

/// A list, because its order is part of its value.
impl<K: Persist + EntityEquivalent + Hash> Persist for EntityEquivalentIndexSet<K> {
    fn schema(types: &mut SchemaBuilder) -> Node {
        Vec::<K>::schema(types)
    }
    fn encode(&self, out: &mut Writer) {
        out.varint(self.len() as u64);
        out.nested(|out| self.iter().for_each(|element| element.encode(out)));
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let mut set = Self::new();
        decode_pairs(input, |element, ()| set.insert(element))?;
        Ok(set)
    }
}

/// Saved as text. A load computes its hash again.
impl Persist for Name {
    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Text)
    }
    fn encode(&self, out: &mut Writer) {
        out.text(self.as_str());
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        String::decode(input).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_keep_index_and_generation() {
        let id = EntityId::new(7, 3);
        assert_eq!(EntityId::from(Entity::from(id)), id);
        assert_eq!(Entity::from(EntityId::NULL), Entity::PLACEHOLDER);
        assert_eq!(EntityId::from(Entity::PLACEHOLDER), EntityId::NULL);
        assert_eq!(Entity::from(EntityId::new(u32::MAX, 3)), Entity::PLACEHOLDER);
    }
}
