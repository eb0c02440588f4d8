//! What has changed in a world since it was last asked, by Bevy's change ticks.

mod groups;
mod lists;
mod structure;

use std::sync::Arc;

use bevy_ecs::change_detection::{DetectChanges, Tick};
use bevy_ecs::component::ComponentId;
use bevy_ecs::world::World;
use bonfire::engine::{DeltaOp, DeltaSchema, DeltaWriter, LIST_ORDER_KEY};
use bonfire::{DataEntry, Delta, EntityId, Result, Snapshot, Value};

use self::groups::Groups;
use self::structure::{Arrival, Structure};
use super::changes::{RowBits, TickRange};
use super::incremental::Epoch;
use super::{Chosen, IncrementalCapture, SaveOptions, Sharing, capture, choose, column};
use crate::event::Additions;
use crate::registry::{Carried, Registered, SaveRegistry};
use crate::replication::{Mirrored, MirroredResources, ReplicationRegistry};

/// Which components and entities deltas are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Saves,
    Replication {
        mirrored: bool,
    },
    /// What is mirrored, and nothing else.
    Mirror,
}

/// How it is found out what has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Touched,
    Exact,
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
/// use bevy_bonfire::DeltaCapture;
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
    about: About,
    mode: Mode,
    tracked: Option<Tracked>,
    /// The world as it was told, for those who compare.
    shadow: IncrementalCapture,
    last: Option<Snapshot>,
    unseen: Vec<UnseenChange>,
    tick: u64,
    bits: RowBits,
}

/// What is remembered from one call to the next.
struct Tracked {
    since: Tick,
    epoch: u64,
    /// Kept, so that a change of it is noticed.
    registry: Arc<Registered>,
    schema: Arc<DeltaSchema>,
    structure: Structure,
    /// By number in the registry, whether the world had the resource.
    resources: Vec<bool>,
    data: Vec<DataEntry>,
    /// So many of the data were carried.
    carried: usize,
    /// Whether anything was.
    carries: bool,
    /// What the options of the last save put beside the world.
    metadata: Vec<(String, Value)>,
}

/// A value that was written past change detection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenChange {
    /// The entity; none for a resource.
    pub entity: Option<bevy_ecs::entity::Entity>,
    /// The key of the component.
    pub key: String,
}

impl DeltaCapture {
    fn new(about: About) -> Self {
        Self {
            about,
            mode: Mode::Touched,
            tracked: None,
            shadow: IncrementalCapture::new(),
            last: None,
            unseen: Vec::new(),
            tick: 0,
            bits: RowBits::default(),
        }
    }

    /// Deltas of everything that is saved.
    pub fn of_saves() -> Self {
        Self::new(About::Saves)
    }

    /// Deltas of everything that is replicated: entities with [`Replicated`](crate::Replicated) that are not a mirror of somebody
    /// else's, and their replicated components.
    pub fn of_replication() -> Self {
        Self::new(About::Replication { mirrored: false })
    }

    /// Deltas of everything that follows another world: entities with [`Mirrored`], and their replicated components. For
    /// those who compare both sides.
    pub fn of_mirror() -> Self {
        Self::new(About::Mirror)
    }

    /// Tells of mirrored entities too: for relays that pass a world on under their own ids.
    pub fn with_mirrored(mut self) -> Self {
        if let About::Replication { mirrored } = &mut self.about {
            *mirrored = true;
        }
        self
    }

    /// Tells only what is another value than it was. Costs a copy of the world, and a comparison of what was touched.
    pub fn exact(mut self) -> Self {
        self.mode = Mode::Exact;
        self
    }

    /// As [`exact`](Self::exact), and compares everything: finds what was written past change detection, and
    /// [tells it](Self::unseen).
    pub fn verified(mut self) -> Self {
        self.mode = Mode::Verified;
        self.shadow.set_compared(true);
        self
    }

    /// What the last call of [`changes`](Self::changes) found that was written past change detection, if it
    /// [verifies](Self::verified). It is part of the delta.
    pub fn unseen(&self) -> &[UnseenChange] {
        &self.unseen
    }

    /// Forgets the world: the next call tells everything.
    pub fn forget(&mut self) {
        (self.tracked, self.last) = (None, None);
        self.shadow.forget();
    }

    /// The components that deltas are about.
    pub fn schema(&self, world: &mut World) -> Result<Arc<DeltaSchema>> {
        let registry = self.registry(world)?;
        Ok(match &self.tracked {
            Some(tracked) if Arc::ptr_eq(&tracked.registry, &registry) => Arc::clone(&tracked.schema),
            _ => Arc::new(DeltaSchema::new(&registry.registry)),
        })
    }

    fn registry(&self, world: &mut World) -> Result<Arc<Registered>> {
        match self.about {
            About::Saves => SaveRegistry::of(world),
            About::Replication { .. } => Ok(ReplicationRegistry::of(world)),
            About::Mirror => Ok(ReplicationRegistry::of_mirror(world)),
        }
    }

    /// Everything, as it is now. The next delta is still one since the last.
    pub fn baseline(&mut self, world: &mut World) -> Result<Delta> {
        world.flush();
        let (registry, schema) = (self.registry(world)?, self.schema(world)?);
        let excluded = self.excluded(world);
        let added = Additions { excluded, ..Additions::default() };
        let snapshot = capture(world, &registry, &SaveOptions::new(), &added, Sharing::Alone)?.snapshot;
        let mut delta = Delta::whole(&schema, &snapshot, self.tick)?;
        if self.about == (About::Replication { mirrored: false }) {
            delta = delta.without_resources(|key| is_mirrored(world, &registry, key));
        }
        Ok(delta)
    }

    fn excluded(&self, world: &mut World) -> Vec<ComponentId> {
        match self.about {
            About::Replication { mirrored: false } => vec![world.register_component::<Mirrored>()],
            _ => Vec::new(),
        }
    }

    /// What has changed since the last call, or everything if this is the first, or if it cannot be told.
    pub fn changes(&mut self, world: &mut World) -> Result<Delta> {
        world.flush();
        let excluded = self.excluded(world);
        self.changes_with(world, &SaveOptions::new(), &Additions { excluded, ..Additions::default() })
    }

    pub(crate) fn changes_with(
        &mut self,
        world: &mut World,
        options: &SaveOptions,
        added: &Additions,
    ) -> Result<Delta> {
        world.check_change_ticks();
        options.selection.prepare(world);
        self.unseen.clear();
        let registry = self.registry(world)?;
        let (epoch, now) = (Epoch::of(world), world.change_tick());
        let ticks = self.tracked.as_ref().and_then(|tracked| {
            let trusted = Arc::ptr_eq(&tracked.registry, &registry) && epoch - tracked.epoch < Epoch::TRUSTED;
            let ticks = TickRange::new(tracked.since, now).filter(|_| trusted)?;
            (self.about != About::Saves || !carries_others(world, tracked, ticks)).then_some(ticks)
        });
        self.tick += 1;
        let Some(ticks) = ticks else {
            return self.start(world, &registry, options, added, epoch, now);
        };
        let delta = match self.mode {
            Mode::Touched => self.touched(world, &registry, options, added, ticks)?,
            Mode::Exact => self.compared(world, &registry, options, added)?,
            Mode::Verified => {
                let touched = self.touched(world, &registry, options, added, ticks)?;
                let compared = self.compared(world, &registry, options, added)?;
                self.unseen = unseen(&touched, &compared);
                compared
            }
        };
        if let Some(tracked) = &mut self.tracked {
            (tracked.since, tracked.epoch) = (now, epoch);
        }
        // What the world does from here on has a tick of its own.
        world.increment_change_tick();
        Ok(delta)
    }

    /// Begins to follow a world.
    fn start(
        &mut self,
        world: &mut World,
        registry: &Arc<Registered>,
        options: &SaveOptions,
        added: &Additions,
        epoch: u64,
        now: Tick,
    ) -> Result<Delta> {
        self.forget();
        let schema = Arc::new(DeltaSchema::new(&registry.registry));
        let snapshot = match self.mode {
            Mode::Touched => capture(world, registry, options, added, Sharing::Alone)?.snapshot,
            _ => self.shadow.capture_in(world, registry, options, added)?.snapshot,
        };
        self.follow(world, registry, &schema, options, added, &snapshot, epoch, now)?;
        let mut delta = Delta::whole(&schema, &snapshot, self.tick)?;
        if self.about == (About::Replication { mirrored: false }) {
            delta = delta.without_resources(|key| is_mirrored(world, registry, key));
        }
        if self.mode != Mode::Touched {
            self.last = Some(snapshot);
        }
        world.increment_change_tick();
        Ok(delta)
    }

    /// Takes a capture that was just made for told: the next delta is one since it.
    pub(crate) fn follow_capture(
        &mut self,
        world: &mut World,
        options: &SaveOptions,
        added: &Additions,
        snapshot: &Snapshot,
        now: Tick,
    ) -> Result<()> {
        self.forget();
        let registry = self.registry(world)?;
        let epoch = Epoch::of(world);
        let schema = Arc::new(DeltaSchema::new(&registry.registry));
        self.follow(world, &registry, &schema, options, added, snapshot, epoch, now)
    }

    #[expect(clippy::too_many_arguments, reason = "all that is remembered of a world")]
    fn follow(
        &mut self,
        world: &World,
        registry: &Arc<Registered>,
        schema: &Arc<DeltaSchema>,
        options: &SaveOptions,
        added: &Additions,
        snapshot: &Snapshot,
        epoch: u64,
        now: Tick,
    ) -> Result<()> {
        let chosen = choose(world, registry, &options.selection, &added.excluded)?;
        let data: Vec<DataEntry> =
            snapshot.data().iter().filter(|entry| entry.key() != LIST_ORDER_KEY).cloned().collect();
        let carried = data.len().saturating_sub(added.data.len() + options.data.len());
        let has = |entry: &crate::registry::Entry| world.contains_resource_by_id(entry.id);
        self.tracked = Some(Tracked {
            since: now,
            epoch,
            registry: Arc::clone(registry),
            schema: Arc::clone(schema),
            structure: Structure::of(&chosen),
            resources: registry.entries.iter().map(has).collect(),
            data,
            carried,
            carries: world.get_resource::<Carried>().is_some_and(|carried| !carried.0.is_empty()),
            metadata: options.metadata.clone(),
        });
        Ok(())
    }

    /// The tick of the last delta, as its deltas count.
    pub(crate) fn tick(&self) -> u64 {
        self.tick
    }

    /// What was touched.
    fn touched(
        &mut self,
        world: &World,
        registry: &Registered,
        options: &SaveOptions,
        added: &Additions,
        ticks: TickRange,
    ) -> Result<Delta> {
        let Some(tracked) = &mut self.tracked else { unreachable!("a world is followed before it is asked") };
        let chosen: Vec<Chosen<'_>> = choose(world, registry, &options.selection, &added.excluded)?;
        let changes = tracked.structure.update(&chosen);
        let schema = Arc::clone(&tracked.schema);
        let mut writer =
            DeltaWriter::new(&registry.registry, &schema, self.tick - 1, self.tick).pool(&registry.pool);
        writer.next_entity_id(u64::from(world.entities().len()));
        for &entity in &changes.despawned {
            writer.despawned(entity.into());
        }
        let all =
            if entered(world, &chosen, &changes, ticks) { with_references(registry) } else { Vec::new() };
        let mut groups = Groups::default();
        for (chosen, arrivals) in chosen.iter().zip(&changes.arrivals) {
            groups.add(world, registry, chosen, ticks, arrivals, &all, &mut self.bits);
        }
        groups.write(&mut writer)?;
        lists::write(world, registry, &chosen, &changes, ticks, &mut self.bits, &mut writer);
        let skip_mirrored = self.about == (About::Replication { mirrored: false });
        let mirrored = world.get_resource::<MirroredResources>().filter(|_| skip_mirrored);
        for (number, entry) in registry.entries.iter().enumerate() {
            let is = world.contains_resource_by_id(entry.id);
            let was = std::mem::replace(&mut tracked.resources[number], is);
            if mirrored.is_some_and(|mirrored| mirrored.contains(entry.id)) {
                continue;
            }
            if was && !is {
                writer.resources().removed(number);
            } else if is
                && (!was || entry.unseen || all.contains(&number) || ticks.resource_changed(world, entry.id))
            {
                column::write_changed_resource(&mut writer.resources(), registry, number, world)?;
            }
        }
        if self.about == About::Saves {
            let fixed = tracked.data.len() - tracked.carried.min(tracked.data.len());
            let carried = tracked.data[fixed..].to_vec();
            let now: Vec<DataEntry> =
                added.data.iter().chain(&options.data).cloned().chain(carried).collect();
            writer.data(&tracked.data, &now);
            tracked.data = now;
            if tracked.metadata != options.metadata {
                writer.metadata(options.metadata.clone());
                tracked.metadata.clone_from(&options.metadata);
            }
        }
        Ok(writer.finish())
    }

    /// What is another value than it was.
    fn compared(
        &mut self,
        world: &mut World,
        registry: &Arc<Registered>,
        options: &SaveOptions,
        added: &Additions,
    ) -> Result<Delta> {
        let snapshot = self.shadow.capture_in(world, registry, options, added)?.snapshot;
        let Some(tracked) = &self.tracked else { unreachable!("a world is followed before it is asked") };
        let last = self.last.take().unwrap_or_default();
        let mut delta = Delta::between(&tracked.schema, &last, &snapshot, self.tick - 1, self.tick)?;
        if self.about != About::Saves {
            delta = delta.for_mirrors();
            if self.about == (About::Replication { mirrored: false }) {
                delta = delta.without_resources(|key| is_mirrored(world, registry, key));
            }
        }
        self.last = Some(snapshot);
        Ok(delta)
    }
}

/// Whether a load has brought things that this build does not know, or taken some away: they are no part of deltas.
fn carries_others(world: &World, tracked: &Tracked, ticks: TickRange) -> bool {
    let Some(carried) = world.get_resource_ref::<Carried>() else { return tracked.carries };
    ticks.has(carried.last_changed()) && (tracked.carries || !carried.0.is_empty())
}

fn is_mirrored(world: &World, registry: &Registered, key: &str) -> bool {
    let number = registry.registry.index_of_key(key);
    let mirrored = world.get_resource::<MirroredResources>();
    mirrored.zip(number).is_some_and(|(mirrored, number)| mirrored.contains(registry.entries[number].id))
}

/// Whether an entity is told for the first time that was there before. Others may refer to it already, which could not be told.
fn entered(world: &World, chosen: &[Chosen<'_>], changes: &structure::Changes, ticks: TickRange) -> bool {
    chosen.iter().zip(&changes.arrivals).any(|(chosen, arrivals)| {
        let spawned = arrivals.iter().filter(|(_, arrival)| *arrival == Arrival::Spawned);
        { spawned }.any(|(row, _)| {
            let entity = chosen.rows.entities()[*row];
            let tick = world.entities().entity_get_spawn_or_despawn_tick(entity);
            tick.is_none_or(|tick| !ticks.has(tick))
        })
    })
}

/// The numbers of components whose values may refer to entities.
fn with_references(registry: &Registered) -> Vec<usize> {
    let descriptors = registry.registry.descriptors();
    (0..descriptors.len()).filter(|&number| descriptors[number].schema().has_entities()).collect()
}

/// What a comparison tells that ticks do not.
fn unseen(touched: &Delta, compared: &Delta) -> Vec<UnseenChange> {
    let mut told: std::collections::HashSet<(EntityId, String)> = std::collections::HashSet::new();
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
    let resources: std::collections::HashSet<&str> = touched.resources().map(|(key, _)| key).collect();
    let missed = compared.resources().filter(|(key, _)| !resources.contains(key));
    unseen.extend(missed.map(|(key, _)| UnseenChange { entity: None, key: key.to_owned() }));
    unseen
}
