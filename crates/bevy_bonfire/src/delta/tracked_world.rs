//! The state that a capture of deltas keeps from one delta to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use bevy_ecs::change_detection::{DetectChanges, Tick};
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{DeltaSchema, DeltaWriter, LIST_ORDER_KEY, OUTSIDE_KEY, OutsideTarget};
use bonfire::{DataEntry, Delta, EntityId, Result, Snapshot, Value};

use super::awaited::AwaitedEntities;
use super::entity_tracker::{EntityChanges, EntityTracker, RowOrigin};
use super::mark::MirroredResources;
use super::values;
use crate::capture::{
    CaptureAdditions, CaptureInput, ChosenArchetype, SaveOptions, TickRange, outside_target,
};
use crate::registry::{Carried, ComponentRegistry};
use crate::selection::Selection;

/// A moment in the life of a world, by its change ticks.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) tick: Tick,
    pub(super) epoch: u64,
}

/// The state that is kept from one call to the next.
pub(super) struct TrackedWorld {
    pub(super) since: Moment,
    /// Kept, so that a change of it is noticed.
    pub(super) registry: Arc<ComponentRegistry>,
    pub(super) schema: Arc<DeltaSchema>,
    pub(super) entities: EntityTracker,
    /// For mirrors.
    awaited: AwaitedEntities,
    /// By number in the registry, whether the world had the resource.
    resources: Vec<bool>,
    data: Vec<DataEntry>,
    /// How many entries of the data are carried.
    carried: usize,
    /// The stable ids of entities outside of the save, if it stores them.
    outside: Option<BTreeMap<EntityId, u64>>,
    /// Whether anything is carried.
    carries: bool,
    /// The metadata of the last save.
    metadata: Vec<(String, Value)>,
}

impl TrackedWorld {
    /// The state at a capture that was just made of these archetypes.
    pub(super) fn at_capture(
        world: &World,
        input: CaptureInput<'_>,
        chosen: &[ChosenArchetype<'_>],
        schema: &Arc<DeltaSchema>,
        snapshot: &Snapshot,
        since: Moment,
    ) -> Self {
        let CaptureInput { registry, options, added } = input;
        let data: Vec<DataEntry> =
            snapshot.data().iter().filter(|entry| entry.key() != LIST_ORDER_KEY).cloned().collect();
        let outside = data.iter().find(|entry| entry.key() == OUTSIDE_KEY);
        let own = added.data.len() + options.common.data.len() + usize::from(outside.is_some());
        let carried = data.len().saturating_sub(own);
        let outside = outside.and_then(|entry| entry.get().ok());
        let is_there = |number| registry.has_resource(world, &options.selection, number);
        Self {
            since,
            registry: Arc::clone(registry),
            schema: Arc::clone(schema),
            entities: EntityTracker::of(chosen),
            awaited: AwaitedEntities::default(),
            resources: (0..registry.entries.len()).map(is_there).collect(),
            data,
            carried,
            outside,
            carries: world.get_resource::<Carried>().is_some_and(|carried| !carried.0.is_empty()),
            metadata: options.common.metadata.clone(),
        }
    }

    /// Returns true if a load has changed what is carried for the next save: that is no part of deltas.
    pub(super) fn carries_others(&self, world: &World, ticks: TickRange) -> bool {
        let Some(carried) = world.get_resource_ref::<Carried>() else { return self.carries };
        ticks.has(carried.last_changed()) && (self.carries || !carried.0.is_empty())
    }

    /// For mirrors: returns the components to write in full, because a value of them may refer to an entity that comes only
    /// now. Mirrors could not map that reference before.
    pub(super) fn components_to_repeat(
        &mut self,
        chosen: &[ChosenArchetype<'_>],
        changes: &EntityChanges,
    ) -> Vec<usize> {
        let mut is_awaited = false;
        for (chosen, entered) in chosen.iter().zip(&changes.entered) {
            for (row, origin) in entered {
                if *origin == RowOrigin::Spawned {
                    is_awaited |= self.awaited.take(chosen.rows.entities()[*row]);
                }
            }
        }
        if is_awaited { with_references(&self.registry) } else { Vec::new() }
    }

    /// For mirrors: remembers the entities that a delta refers to and that mirrors do not have.
    pub(super) fn note_references(
        &mut self,
        world: &World,
        delta: &Delta,
        changes: &EntityChanges,
    ) -> Result<()> {
        self.awaited.note(delta, &changes.despawned, &self.entities, world)
    }

    /// Writes resources that have changed, come or gone, except those of `skipped`. Those of `all` are written in any case.
    pub(super) fn write_resources(
        &mut self,
        world: &World,
        selection: &Selection,
        ticks: TickRange,
        all: &[usize],
        skipped: Option<&MirroredResources>,
        writer: &mut DeltaWriter<'_>,
    ) -> Result<()> {
        for (number, entry) in self.registry.entries.iter().enumerate() {
            let is = self.registry.has_resource(world, selection, number);
            let was = std::mem::replace(&mut self.resources[number], is);
            if skipped.is_some_and(|skipped| skipped.contains(entry.id)) {
                continue;
            }
            if was && !is {
                writer.resources().removed(number);
            } else if is
                && (!was || entry.unseen || all.contains(&number) || ticks.resource_changed(world, entry.id))
            {
                values::write_changed_resource(&mut writer.resources(), &self.registry, number, world)?;
            }
        }
        Ok(())
    }

    /// Returns true if the delta of a save can say what is outside of it: if the save before said it, too, or neither does.
    pub(super) fn knows_outside(&self, options: &SaveOptions) -> bool {
        self.outside.is_some() == options.common.outside_references
    }

    /// Writes the metadata of the save, if it is another than before.
    pub(super) fn write_metadata(&mut self, options: &SaveOptions, writer: &mut DeltaWriter<'_>) {
        if self.metadata != options.common.metadata {
            writer.metadata(options.common.metadata.clone());
            self.metadata.clone_from(&options.common.metadata);
        }
    }

    /// Adds the data of the save to its delta, as far as it is other than before.
    pub(super) fn add_data(
        &mut self,
        world: &World,
        options: &SaveOptions,
        added: &CaptureAdditions,
        left: &[Entity],
        delta: Delta,
    ) -> Result<Delta> {
        let fixed = self.data.len() - self.carried.min(self.data.len());
        let carried = self.data[fixed..].to_vec();
        let outside = self.entry_of_outside(world, left, &delta)?;
        let own = added.data.iter().chain(&options.common.data).cloned();
        let now: Vec<DataEntry> = outside.into_iter().chain(own).chain(carried).collect();
        let delta = delta.with_data(&self.data, &now);
        self.data = now;
        Ok(delta)
    }

    /// The entities outside of the save after a delta. Those that have `left` the save are among them.
    fn entry_of_outside(
        &mut self,
        world: &World,
        left: &[Entity],
        delta: &Delta,
    ) -> Result<Option<DataEntry>> {
        let Some(pairs) = &mut self.outside else { return Ok(None) };
        let inside = &self.entities;
        let target = |id: EntityId| (!inside.contains(id.into())).then(|| outside_target(world, id.into()));
        for &entity in left {
            if let Some(OutsideTarget::Stable(id)) = target(entity.into()) {
                pairs.insert(entity.into(), id);
            }
        }
        delta.note_outside(pairs, target)?;
        DataEntry::new(OUTSIDE_KEY, pairs).map(Some)
    }
}

/// The numbers of components whose values may refer to entities.
fn with_references(registry: &ComponentRegistry) -> Vec<usize> {
    let descriptors = registry.core.descriptors();
    (0..descriptors.len()).filter(|&number| descriptors[number].schema().has_entities()).collect()
}
