//! What a delta does to the ids that a mirror knows.
//!
//! References are mapped while values are staged, so the map must have the new ids before that, and be as it was if staging
//! fails.

use std::collections::HashSet;

use super::Delta;
use crate::entity::{EntityId, EntityMap};
use crate::error::{Error, Result};

/// Who comes and who goes with a delta, for front ends that apply it: plan, reserve an id for everybody who is
/// [coming](Self::coming), [enter](Self::enter) them into the map, stage. Then commit, or [undo](Self::undo).
#[derive(Debug)]
pub struct DeltaIds {
    /// Of the sender, and of the mirror.
    gone: Vec<(EntityId, EntityId)>,
    coming: Vec<EntityId>,
    /// What the map had for those who come: entities that the mirror has despawned itself.
    stale: Vec<(EntityId, EntityId)>,
}

impl DeltaIds {
    /// Looks who comes and goes. `is_here` says whether an entity of the mirror is still there. Changes of entities that were never
    /// told of are an error.
    pub fn plan(delta: &Delta, map: &EntityMap, is_here: impl Fn(EntityId) -> bool) -> Result<Self> {
        // An id that goes and comes in one delta is another entity from then on.
        let mut leaving: HashSet<EntityId> = delta.despawned.iter().copied().collect();
        let mut gone: Vec<(EntityId, EntityId)> =
            delta.despawned.iter().filter_map(|id| Some((*id, map.get(*id)?))).collect();
        let is_new = |id: &EntityId| leaving.contains(id) || map.get(*id).is_none_or(|local| !is_here(local));
        let coming: Vec<EntityId> = delta.spawned().filter(is_new).collect();
        if delta.whole {
            let told: HashSet<EntityId> = delta.spawned().collect();
            let untold = map.iter().filter(|(remote, _)| !told.contains(remote) && leaving.insert(*remote));
            gone.extend(untold);
        }
        let distinct: HashSet<EntityId> = coming.iter().copied().collect();
        if distinct.len() < coming.len() {
            return Err(Error::corrupt("an entity has come twice"));
        }
        let changed = delta.groups.iter().filter(|group| !group.spawned).flat_map(|group| &group.ids);
        let is_known = |id: &EntityId| map.get(*id).is_some() && !leaving.contains(id);
        match { changed }.find(|id| !is_known(id)) {
            Some(id) => Err(Error::corrupt(format!("entity {id} has changed, and was never told of"))),
            None => Ok(Self { gone, coming, stale: Vec::new() }),
        }
    }

    /// Those who need an id of the mirror, in the order of the delta.
    pub fn coming(&self) -> &[EntityId] {
        &self.coming
    }

    /// The mirror's ids of those who go, the first ones told first.
    pub fn gone(&self) -> impl DoubleEndedIterator<Item = EntityId> + '_ {
        self.gone.iter().map(|(_, local)| *local)
    }

    /// Gives those who come their ids, and takes those who go out of the map.
    pub fn enter(&mut self, map: &mut EntityMap, ids: impl IntoIterator<Item = EntityId>) -> Result<()> {
        self.gone.iter().for_each(|(remote, _)| _ = map.remove(*remote));
        for (remote, local) in self.coming.iter().zip(ids) {
            if let Some(before) = map.insert(*remote, local)? {
                self.stale.push((*remote, before));
            }
        }
        Ok(())
    }

    /// Makes the map what it was.
    pub fn undo(self, map: &mut EntityMap) {
        self.coming.iter().for_each(|remote| _ = map.remove(*remote));
        for (remote, local) in self.stale.into_iter().chain(self.gone) {
            // It was in the map, so it is no null.
            let _ = map.insert(remote, local);
        }
    }
}
