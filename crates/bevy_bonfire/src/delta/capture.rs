//! What has changed in a world since it was last asked, by Bevy's change ticks.

use std::sync::Arc;

use bevy_ecs::change_detection::Tick;
use bevy_ecs::component::ComponentId;
use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{DeltaContents, DeltaSchema, DeltaSeries, DeltaWriter};
use bonfire::{Delta, EntityId, Note, Result, Snapshot};

use super::entity_tracker::EntityChanges;
use super::groups::Groups;
use super::lists::{self, ListChanges};
use super::mark::{Mirrored, MirroredResources, ReplicationRegistry};
use super::row_bits::RowBits;
use super::tracked_world::{Moment, TrackedWorld};
use super::unseen::{UnseenChange, unseen};
use crate::capture::{
    CaptureAdditions, CaptureInput, ChosenArchetype, Epoch, IncrementalCapture, Relationships, SaveOptions,
    Sharing, TickRange, capture, choose, log_once,
};
use crate::registry::{ComponentRegistry, SaveRegistry};
use crate::selection;

/// How changes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeDetection {
    /// By change ticks.
    Touched,
    /// By comparing values that were touched.
    Exact,
    /// By comparing all values.
    Verified,
}

/// Finds out what has changed in a world, at the cost of the change and a look at Bevy's ticks.
///
/// Each call of [`changes`](Self::changes) tells what has changed since the one before; the first tells everything. A value counts as
/// changed if it was touched (`DerefMut`), whatever it is now. [`exact`](Self::exact) compares what was touched with what it was.
/// Values that are written past change detection are not seen: [`verified`](Self::verified) finds them, for tests and debug builds.
///
/// ```
/// # use bevy_ecs::prelude::*;
/// use bevy_bonfire::replication::DeltaCapture;
/// use bevy_bonfire::prelude::*;
/// # #[derive(Component, Persist)]
/// # #[persist(key = "game.health")]
/// # struct Health(f32);
///
/// # let mut world = World::new();
/// # world.persist::<Health>();
/// let mut deltas = DeltaCapture::of_saves();
/// let entity = world.spawn((Health(3.0), Saved)).id();
/// assert!(deltas.changes(&mut world)?.is_whole());
/// world.get_mut::<Health>(entity).unwrap().0 = 2.0;
/// assert_eq!(deltas.changes(&mut world)?.stats().changed_values, 1);
/// # Ok::<(), bonfire::Error>(())
/// ```
pub struct DeltaCapture {
    contents: DeltaContents,
    detection: ChangeDetection,
    tracked: Option<TrackedWorld>,
    /// The world at the last delta, for comparisons.
    shadow: IncrementalCapture,
    series: DeltaSeries,
    unseen: Vec<UnseenChange>,
    notes: Vec<Note>,
    bits: RowBits,
}

impl DeltaCapture {
    fn new(contents: DeltaContents) -> Self {
        Self {
            contents,
            detection: ChangeDetection::Touched,
            tracked: None,
            shadow: IncrementalCapture::new(),
            series: DeltaSeries::default(),
            unseen: Vec::new(),
            notes: Vec::new(),
            bits: RowBits::default(),
        }
    }

    /// Deltas of everything that is saved.
    pub fn of_saves() -> Self {
        Self::new(DeltaContents::Saves)
    }

    /// Deltas of everything that is replicated: entities with [`Replicated`](crate::replication::Replicated) that are not a mirror of somebody
    /// else's, and their replicated components.
    pub fn of_replication() -> Self {
        Self::new(DeltaContents::Replicated)
    }

    /// Deltas of everything that follows another world: entities with [`Mirrored`], and their replicated components. For
    /// those who compare both sides.
    pub fn of_mirror() -> Self {
        Self::new(DeltaContents::Mirror)
    }

    /// Adds mirrored entities: for relays that pass a world on under their own ids.
    pub fn with_mirrored(mut self) -> Self {
        self.contents = self.contents.with_mirrored();
        self
    }

    /// Tells only what is another value than it was. Costs a copy of the world, and a comparison of what was touched.
    pub fn exact(mut self) -> Self {
        self.detection = ChangeDetection::Exact;
        self
    }

    /// As [`exact`](Self::exact), and compares everything: finds what was written past change detection, and
    /// [tells it](Self::unseen).
    pub fn verified(mut self) -> Self {
        self.detection = ChangeDetection::Verified;
        self.shadow.set_compared(true);
        self
    }

    /// What the last call of [`changes`](Self::changes) found that was written past change detection, if it
    /// [verifies](Self::verified). It is part of the delta.
    pub fn unseen(&self) -> &[UnseenChange] {
        &self.unseen
    }

    /// Losses of the last call of [`changes`](Self::changes), such as values that cannot be encoded.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Forgets the world: the next call tells everything.
    pub fn forget(&mut self) {
        self.tracked = None;
        self.series.forget();
        self.shadow.forget();
    }

    /// The components that deltas are about.
    pub fn schema(&self, world: &mut World) -> Result<Arc<DeltaSchema>> {
        let registry = self.registry(world)?;
        Ok(match &self.tracked {
            Some(tracked) if Arc::ptr_eq(&tracked.registry, &registry) => Arc::clone(&tracked.schema),
            _ => Arc::new(DeltaSchema::new(&registry.core)),
        })
    }

    fn registry(&self, world: &mut World) -> Result<Arc<ComponentRegistry>> {
        match self.contents {
            DeltaContents::Saves => SaveRegistry::of(world),
            DeltaContents::Replicated => Ok(ReplicationRegistry::of(world)),
            DeltaContents::Relayed => Ok(ReplicationRegistry::of_relay(world)),
            DeltaContents::Mirror => Ok(ReplicationRegistry::of_mirror(world)),
        }
    }

    /// Everything, as it is now. The next delta is still one since the last.
    pub fn baseline(&mut self, world: &mut World) -> Result<Delta> {
        world.flush();
        let (registry, schema) = (self.registry(world)?, self.schema(world)?);
        let excluded = self.excluded(world);
        let added = CaptureAdditions { excluded, ..CaptureAdditions::default() };
        let input = CaptureInput { registry: &registry, options: &SaveOptions::new(), added: &added };
        let snapshot = capture(world, input, Sharing::Alone)?.snapshot;
        let mut delta = self.series.baseline(&schema, &snapshot)?;
        if self.contents == DeltaContents::Replicated {
            delta = delta.without_resources(|key| is_mirrored(world, &registry, key));
        }
        Ok(delta)
    }

    fn excluded(&self, world: &mut World) -> Vec<ComponentId> {
        match self.contents {
            DeltaContents::Replicated => vec![world.register_component::<Mirrored>()],
            _ => Vec::new(),
        }
    }

    /// What has changed since the last call, or everything if this is the first, or if it cannot be told.
    pub fn changes(&mut self, world: &mut World) -> Result<Delta> {
        world.flush();
        let excluded = self.excluded(world);
        self.changes_with(
            world,
            &SaveOptions::new(),
            &CaptureAdditions { excluded, ..CaptureAdditions::default() },
        )
    }

    pub(crate) fn changes_with(
        &mut self,
        world: &mut World,
        options: &SaveOptions,
        added: &CaptureAdditions,
    ) -> Result<Delta> {
        world.check_change_ticks();
        selection::prepare(&options.selection, world);
        self.unseen.clear();
        let registry = self.registry(world)?;
        let input = CaptureInput { registry: &registry, options, added };
        let now = Moment { epoch: Epoch::of(world), tick: world.change_tick() };
        let ticks = self.tracked.as_ref().and_then(|tracked| {
            let since = tracked.since;
            let trusted =
                Arc::ptr_eq(&tracked.registry, &registry) && now.epoch - since.epoch < Epoch::TRUSTED;
            let ticks = TickRange::new(since.tick, now.tick).filter(|_| trusted)?;
            let goes_on = self.contents != DeltaContents::Saves
                || !tracked.carries_others(world, ticks) && tracked.knows_outside(options);
            goes_on.then_some(ticks)
        });
        let tick = self.series.tick() + 1;
        let delta = match ticks {
            Some(ticks) => self.since_last(world, input, ticks, now),
            None => self.start(world, input, now),
        };
        // A delta that failed uses up its tick, too: mirrors miss it and ask for everything.
        self.series.advance_to(tick);
        self.notes = delta.as_ref().map_or_else(|_| Vec::new(), |delta| delta.notes().to_vec());
        log_once(&registry, &self.notes);
        delta
    }

    /// The delta since the last call.
    fn since_last(
        &mut self,
        world: &mut World,
        input: CaptureInput<'_>,
        ticks: TickRange,
        now: Moment,
    ) -> Result<Delta> {
        let delta = match self.detection {
            ChangeDetection::Touched => self.touched(world, input, ticks)?,
            ChangeDetection::Exact => self.compared(world, input)?,
            ChangeDetection::Verified => {
                let touched = self.touched(world, input, ticks)?;
                let compared = self.compared(world, input)?;
                self.unseen = unseen(&touched, &compared);
                compared
            }
        };
        if let Some(tracked) = &mut self.tracked {
            tracked.since = now;
        }
        // What the world does from here on has a tick of its own.
        world.increment_change_tick();
        Ok(delta)
    }

    /// Begins to follow a world: the delta is everything.
    fn start(&mut self, world: &mut World, input: CaptureInput<'_>, now: Moment) -> Result<Delta> {
        self.forget();
        let registry = input.registry;
        let schema = Arc::new(DeltaSchema::new(&registry.core));
        let snapshot = match self.detection {
            ChangeDetection::Touched => capture(world, input, Sharing::Alone)?.snapshot,
            _ => self.shadow.capture_in(world, input)?.snapshot,
        };
        self.follow(world, input, &schema, &snapshot, now)?;
        let mut delta = match self.detection {
            ChangeDetection::Touched => Delta::whole(&schema, &snapshot, self.series.tick() + 1)?,
            // It keeps the capture.
            _ => self.series.compare(&schema, snapshot)?,
        };
        if self.contents == DeltaContents::Replicated {
            delta = delta.without_resources(|key| is_mirrored(world, registry, key));
        }
        if let Some(tracked) = &mut self.tracked
            && self.contents != DeltaContents::Saves
        {
            tracked.note_references(world, &delta, &EntityChanges::default())?;
        }
        world.increment_change_tick();
        Ok(delta)
    }

    /// Begins to follow a world at a capture that was just made: the next delta is one since it.
    pub(crate) fn follow_capture(
        &mut self,
        world: &mut World,
        options: &SaveOptions,
        added: &CaptureAdditions,
        snapshot: &Snapshot,
        tick: Tick,
    ) -> Result<()> {
        self.forget();
        let registry = self.registry(world)?;
        let now = Moment { epoch: Epoch::of(world), tick };
        let schema = Arc::new(DeltaSchema::new(&registry.core));
        self.follow(world, CaptureInput { registry: &registry, options, added }, &schema, snapshot, now)
    }

    fn follow(
        &mut self,
        world: &World,
        input: CaptureInput<'_>,
        schema: &Arc<DeltaSchema>,
        snapshot: &Snapshot,
        now: Moment,
    ) -> Result<()> {
        let CaptureInput { registry, options, added } = input;
        let chosen = choose(world, registry, &options.selection, &added.excluded)?;
        let tracked = TrackedWorld::at_capture(world, input, &chosen, schema, snapshot, now);
        self.tracked = Some(tracked);
        Ok(())
    }

    /// The tick of the last delta, as its deltas count.
    pub(crate) fn tick(&self) -> u64 {
        self.series.tick()
    }

    /// The delta of all values that were touched.
    fn touched(&mut self, world: &World, input: CaptureInput<'_>, ticks: TickRange) -> Result<Delta> {
        let CaptureInput { registry, options, added } = input;
        let Some(tracked) = &mut self.tracked else { unreachable!("a world is followed before it is asked") };
        let chosen: Vec<ChosenArchetype<'_>> = choose(world, registry, &options.selection, &added.excluded)?;
        let changes = tracked.entities.update(&chosen);
        let schema = Arc::clone(&tracked.schema);
        let last = self.series.tick();
        let mut writer = DeltaWriter::new(&registry.core, &schema, last, last + 1)
            .with_world(world)
            .pool(&registry.pool)
            .unencodable(options.common.unencodable);
        writer.next_entity_id(u64::from(world.entities().len()));
        for &entity in &changes.despawned {
            writer.despawned(entity.into());
        }
        // Saves keep the ids of references as they are, so none is lost.
        let for_mirrors = self.contents != DeltaContents::Saves;
        let all = if for_mirrors { tracked.components_to_repeat(&chosen, &changes) } else { Vec::new() };
        let mut groups = Groups::new(world, input, ticks, &all);
        for (chosen, entered) in chosen.iter().zip(&changes.entered) {
            groups.add(chosen, entered, &mut self.bits);
        }
        groups.write(&mut writer)?;
        let lists = ListChanges { world, registry, chosen: &chosen, changes: &changes, ticks };
        if options.relationships == Relationships::Saved {
            lists::write(&lists, &mut self.bits, &mut writer);
        }
        let mirrored = world.get_resource::<MirroredResources>();
        let skipped = mirrored.filter(|_| self.contents == DeltaContents::Replicated);
        tracked.write_resources(world, &options.selection, ticks, &all, skipped, &mut writer)?;
        if !for_mirrors {
            tracked.write_metadata(options, &mut writer);
            return tracked.add_data(world, options, added, &changes.despawned, writer.finish()?);
        }
        let delta = writer.finish()?.keeping_left_out(&schema, has_component(world, registry))?;
        tracked.note_references(world, &delta, &changes)?;
        Ok(delta)
    }

    /// The delta of all values that are different.
    fn compared(&mut self, world: &mut World, input: CaptureInput<'_>) -> Result<Delta> {
        let snapshot = self.shadow.capture_in(world, input)?.snapshot;
        let Some(tracked) = &self.tracked else { unreachable!("a world is followed before it is asked") };
        if self.contents == DeltaContents::Saves {
            return self.series.compare(&tracked.schema, snapshot);
        }
        let has = has_component(world, input.registry);
        let delta = self.series.compare_for_mirrors(&tracked.schema, snapshot, has)?.for_mirrors();
        Ok(match self.contents {
            DeltaContents::Replicated => {
                delta.without_resources(|key| is_mirrored(world, input.registry, key))
            }
            _ => delta,
        })
    }
}

/// Returns true for components that an entity has, and for resources that the world has.
fn has_component(world: &World, registry: &ComponentRegistry) -> impl Fn(usize, Option<EntityId>) -> bool {
    |number, entity| {
        let id = registry.entries[number].id;
        match entity {
            Some(entity) => {
                let entity: Entity = entity.into();
                world.get_entity(entity).is_ok_and(|entity| entity.contains_id(id))
            }
            None => world.contains_resource_by_id(id),
        }
    }
}

fn is_mirrored(world: &World, registry: &ComponentRegistry, key: &str) -> bool {
    let number = registry.core.index_of_key(key);
    let mirrored = world.get_resource::<MirroredResources>();
    mirrored.zip(number).is_some_and(|(mirrored, number)| mirrored.contains(registry.entries[number].id))
}
