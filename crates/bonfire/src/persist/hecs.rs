//! References of hecs.

use hecs::Entity;

use crate::entity::EntityId;

/// A dangling entity is none.
impl From<Entity> for EntityId {
    #[inline]
    fn from(entity: Entity) -> Self {
        Self::new(entity.id(), (entity.to_bits().get() >> 32) as u32)
    }
}

/// What no entity of hecs can be (its generations begin with 1) becomes [`Entity::DANGLING`].
impl From<EntityId> for Entity {
    #[inline]
    fn from(id: EntityId) -> Self {
        Self::from_bits(u64::from(id.generation()) << 32 | u64::from(id.index())).unwrap_or(Self::DANGLING)
    }
}

super::reference!(Entity, Entity::DANGLING);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_keep_index_and_generation() {
        let id = EntityId::new(7, 3);
        assert_eq!(EntityId::from(Entity::from(id)), id);
        assert_eq!(EntityId::from(hecs::World::new().spawn(())), EntityId::new(0, 1));
        assert_eq!(Entity::from(EntityId::NULL), Entity::DANGLING);
        assert_eq!(EntityId::from(Entity::DANGLING), EntityId::NULL);
        assert_eq!(Entity::from(EntityId::new(7, 0)), Entity::DANGLING);
    }
}
