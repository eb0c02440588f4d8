//! References of Bevy.
//!
//! The bits of an `Entity` are Bevy's own business and have changed before; a save has its index and its generation.

use bevy_ecs::entity::{Entity, EntityGeneration, EntityIndex};

use super::Persist;
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

/// A reference that dangles is `None` in an option and [`Entity::PLACEHOLDER`] elsewhere.
impl Persist for Entity {
    fn schema(types: &mut SchemaBuilder) -> Node {
        types.add(Type::Entity)
    }
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.entity((*self).into());
    }
    #[inline]
    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        input.entity().map(Self::from)
    }
    #[inline]
    fn is_null(&self) -> bool {
        *self == Self::PLACEHOLDER
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
