//! References of Bevy.
//!
//! The bits of an `Entity` are Bevy's own business and have changed before; a save has its index and its generation.

use bevy_ecs::entity::{Entity, EntityGeneration, EntityIndex};

use crate::entity::EntityId;

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
