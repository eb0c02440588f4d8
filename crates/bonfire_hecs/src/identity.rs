//! Finding entities: by stable id, and by a field.

use bonfire::engine::Key;
use bonfire::{Error, Result};
use hecs::{Component, Entity, World};

use crate::index::Index;
use crate::registration::Bonfire;
use crate::stable_id::{StableId, StableIds};

impl Bonfire {
    /// Returns the index of [`StableId`]s.
    pub fn stable_ids(&self) -> &StableIds {
        &self.stable_ids
    }

    /// Gives an entity a stable id, in the place of one that it has. The index knows it at once.
    pub fn insert_stable_id(&mut self, world: &mut World, entity: Entity, id: StableId) -> Result<()> {
        let before = world.get::<&StableId>(entity).ok().map(|id| *id);
        let inserted = world.insert_one(entity, id);
        inserted
            .map_err(|_| Error::misuse(format!("{entity:?} gets stable id {id}, but is not in the world")))?;
        self.stable_ids.insert(id, before, entity);
        Ok(())
    }

    /// Finds entities by a key that is read from a component, registered or not. The index has no entities before the next load or
    /// call of [`update_indexes`](Self::update_indexes). An index with the same types is replaced.
    pub fn index_by<C: Component, K: Key>(
        &mut self,
        read: impl Fn(&C) -> K + Send + Sync + 'static,
    ) -> &mut Self {
        self.indexes.retain(|index| !index.as_any().is::<Index<C, K>>());
        self.indexes.push(Box::new(Index::new(read)));
        self
    }

    /// Returns an index that [`index_by`](Self::index_by) has made. Fails if there is none with these types.
    pub fn index<C: Component, K: Key>(&self) -> Result<&Index<C, K>> {
        self.indexes.iter().find_map(|index| index.as_any().downcast_ref()).ok_or_else(|| {
            let (component, key) = (std::any::type_name::<C>(), std::any::type_name::<K>());
            Error::misuse(format!(
                "there is no index of `{component}` by `{key}`: call `index_by(|component: &{component}| ..)` first"
            ))
        })
    }

    /// Brings the index of stable ids and all others up to date with the world. Loads do it by themselves. Call it after the game
    /// has spawned, changed or despawned entities, and after deltas were applied, before it looks something up.
    pub fn update_indexes(&mut self, world: &World) {
        self.stable_ids.update(world);
        self.indexes.iter_mut().for_each(|index| index.update(world));
    }
}
