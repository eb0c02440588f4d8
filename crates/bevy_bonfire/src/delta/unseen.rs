//! Values that were written past change detection: what a comparison finds and ticks do not.

use std::collections::HashSet;

use bevy_ecs::entity::Entity;
use bonfire::engine::DeltaOp;
use bonfire::{Delta, EntityId};

/// A value that was written past change detection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenChange {
    /// The entity; none for a resource.
    pub entity: Option<Entity>,
    /// The key of the component.
    pub key: String,
}

/// The changes that a comparison finds and ticks do not.
pub(super) fn unseen(touched: &Delta, compared: &Delta) -> Vec<UnseenChange> {
    let mut told: HashSet<(EntityId, String)> = HashSet::new();
    for group in touched.groups() {
        for change in group.changes() {
            told.extend(group.ids().iter().map(|id| (*id, change.component.key.clone())));
        }
    }
    let mut unseen = Vec::new();
    for group in compared.groups().filter(|group| !group.spawned()) {
        for change in group.changes().filter(|change| change.op == DeltaOp::Changed) {
            let missed = |id: &&EntityId| !told.contains(&(**id, change.component.key.clone()));
            unseen.extend(
                group
                    .ids()
                    .iter()
                    .filter(missed)
                    .map(|id| UnseenChange { entity: Some((*id).into()), key: change.component.key.clone() }),
            );
        }
    }
    let resources: HashSet<&str> = touched.resources().map(|(key, _)| key).collect();
    let missed = compared.resources().filter(|(key, _)| !resources.contains(key));
    unseen.extend(missed.map(|(key, _)| UnseenChange { entity: None, key: key.to_owned() }));
    unseen
}
