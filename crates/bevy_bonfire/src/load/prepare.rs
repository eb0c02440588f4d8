//! A load that is prepared: everything that may fail, before the world is changed.
//!
//! There is one type, [`PreparedLoad`], and two ways to it.
//!
//! | way | ids | columns |
//! |---|---|---|
//! | [`PreparedLoad::new`], on any thread | one by one | copied out of the snapshot; those that need the world wait |
//! | [`PreparedLoad::in_world`], on the thread that has the world | all at once | stay in the snapshot |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{Deferred, EntityMap, LIST_ORDER_KEY, LoadPlan, SavedOrder, Staged};
use bonfire::{EntityId, Error, LoadContext, Result, Snapshot};

use super::commit::CommittedEntities;
use super::completion::{CommittedLoad, complete};
use super::outside::{OutsideEntities, Span};
use super::spawn::{CommonValue, reclaim};
use super::{LoadMode, LoadOptions, Loaded, commit, restore};
use crate::pending::{IdReserve, ReservedIds};
use crate::registry::ComponentRegistry;

/// The steps of a preparation, for its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadPhase {
    /// World migrations run, and the load decides what becomes of each component.
    Migrating,
    /// Rows are decoded: so many of all.
    Decoding,
    /// Columns that lie in the snapshot are copied out of it.
    Copying,
}

/// A load of which only the part is left that changes the world.
pub(crate) struct PreparedLoad<'s> {
    /// After all migrations.
    pub(super) snapshot: Cow<'s, Snapshot>,
    pub(super) registry: Arc<ComponentRegistry>,
    pub(super) mode: LoadMode,
    pub(super) options: bonfire::LoadOptions,
    /// None for a restore, which stages its rows when it has seen the entities that exist.
    pub(super) entities: Option<StagedEntities<'s>>,
}

impl PreparedLoad<'static> {
    /// Does everything that needs no world: on any thread. A restore is prepared only in part.
    pub(crate) fn new(
        snapshot: Snapshot,
        registry: Arc<ComponentRegistry>,
        reserve: &IdReserve,
        options: LoadOptions,
        watch: &dyn Fn(LoadPhase, u64, u64),
    ) -> Result<Self> {
        let (mode, options) = options.split_mode();
        watch(LoadPhase::Migrating, 0, 1);
        let migrated = match snapshot.migrated(&registry.core)? {
            Cow::Owned(migrated) => Some(migrated),
            Cow::Borrowed(_) => None,
        };
        let snapshot = Cow::Owned(migrated.unwrap_or(snapshot));
        let mut load = Self { snapshot, registry, mode, options, entities: None };
        if !load.mode.is_restore() {
            load.entities = Some(StagedEntities::reserve(&load, reserve, watch)?);
        }
        Ok(load)
    }
}

impl<'s> PreparedLoad<'s> {
    /// Prepares a snapshot, after all migrations, for the world that is at hand. Copies no column out of it.
    pub(super) fn in_world(
        world: &World,
        registry: Arc<ComponentRegistry>,
        snapshot: &'s Snapshot,
        options: LoadOptions,
    ) -> Result<Self> {
        let (mode, options) = options.split_mode();
        let mut load = Self { snapshot: Cow::Borrowed(snapshot), registry, mode, options, entities: None };
        if !load.mode.is_restore() {
            let plan = LoadPlan::new(snapshot, &load.registry.core, load.options.clone())?;
            let mut outside = OutsideEntities::read(&plan)?;
            let mut ids = ReservedIds::allocate(world, snapshot.entity_count())?;
            outside.take_places(&plan, &mut ids, Span::AtOnce);
            let map = entity_map(&plan, ids.entities())?;
            outside.find(world, &plan, &mut ids, &map)?;
            let plan = plan.with_outside(outside.map.clone());
            let alive = &|_| false;
            load.entities = Some(StagedEntities::with_world(world, &load, &plan, ids, map, outside, alive)?);
        }
        Ok(load)
    }

    /// Applies the load to the world, all at once. If this fails, the world is as it was.
    pub(crate) fn commit(mut self, world: &mut World) -> Result<Loaded> {
        world.flush();
        reclaim(world);
        let loaded = self.commit_entities(world);
        // A load that failed has given up its ids.
        reclaim(world);
        loaded
    }

    /// Commits all entities, or restores the world.
    fn take_staged(&mut self, world: &mut World) -> Result<CommittedLoad> {
        match self.entities.take() {
            Some(entities) => Ok(self.commit_staged(world, entities, &[])?.load),
            None => restore::restore(world, self),
        }
    }

    /// Commits all entities of a load that is no restore.
    pub(super) fn commit_staged<'e>(
        &self,
        world: &mut World,
        entities: StagedEntities<'e>,
        common: &[CommonValue<'_>],
    ) -> Result<CommittedEntities<'e>> {
        let mut entities = entities.settle(world, self)?;
        while entities.stage_next_deferred(world, self)? {}
        commit::commit(world, self, entities, common)
    }

    /// Commits all entities, or restores the world, and completes the load.
    pub(super) fn commit_entities(&mut self, world: &mut World) -> Result<Loaded> {
        let committed = self.take_staged(world)?;
        Ok(complete(world, self, committed))
    }

    pub(super) fn plan(&self) -> Result<LoadPlan<'_, '_>> {
        LoadPlan::new(&self.snapshot, &self.registry.core, self.options.clone())
    }
}

/// The entities of a load, decoded, with their ids.
pub(super) struct StagedEntities<'s> {
    /// Ids of new entities, archetype by archetype.
    pub(super) ids: ReservedIds,
    pub(super) map: EntityMap,
    pub(super) staged: Staged<'s>,
    /// Columns that need the world and are not decoded yet.
    deferred: Deferred,
    /// The order of sources that was saved.
    pub(super) order: SavedOrder,
    pub(super) outside: OutsideEntities,
    /// The entities outside of the save are looked for.
    is_settled: bool,
}

#[expect(unsafe_code, reason = "rows without their types")]
// SAFETY: the rows are values of registered components, because `ComponentRegistry::add` asks for a `Component` and checks
// that it is the descriptor's type; components are `Send`. With this lifetime the columns own them and nothing else: they
// are those of `without_world`. `with_world` is called by `load` and `restore` alone, with snapshots that they borrow, and
// what it returns does not leave them. All that is beside the columns is `Send` by itself (`_SEND_PARTS`).
unsafe impl Send for StagedEntities<'static> {}
#[expect(unsafe_code, reason = "rows without their types")]
// SAFETY: as above; components are `Sync`, and a column that is shared is only read.
unsafe impl Sync for StagedEntities<'static> {}

/// Does not compile if a part beside the columns cannot be sent, or a part is added.
const _SEND_PARTS: fn(&StagedEntities<'static>) = |entities| {
    fn assert_send<T: Send + Sync>(_: &T) {}
    let StagedEntities { ids, map, staged, deferred, order, outside, is_settled: _ } = entities;
    let Staged { archetypes: _, resources: _, extras: _, carry, report } = staged;
    assert_send(ids);
    assert_send(map);
    assert_send(deferred);
    assert_send(order);
    assert_send(outside);
    assert_send(carry);
    assert_send(report);
    assert_send(&None::<(Vec<EntityId>, Cow<'_, [EntityId]>, bonfire::engine::Bitmap)>);
};

impl<'s> StagedEntities<'s> {
    /// Decodes all columns. References to entities that are not in the save stay as they are where `alive` is true.
    pub(super) fn with_world(
        world: &World,
        load: &PreparedLoad<'_>,
        plan: &LoadPlan<'s, '_>,
        ids: ReservedIds,
        map: EntityMap,
        outside: OutsideEntities,
        alive: &dyn Fn(EntityId) -> bool,
    ) -> Result<Self> {
        let mut staged = plan.stage_over(&map, Some(world), alive)?;
        let order = saved_order(plan, &map)?;
        choose_resources(&load.registry, &load.mode, &mut staged)?;
        Ok(Self { ids, map, staged, deferred: Deferred::default(), order, outside, is_settled: true })
    }

    /// Finds entities outside of the save, now that the world is at hand. If stand-ins have come or gone since the entities were
    /// staged, stages them again.
    pub(super) fn settle(mut self, world: &World, load: &PreparedLoad<'_>) -> Result<Self> {
        self.ids.check(world)?;
        if self.is_settled || self.outside.is_settled(&self.ids) {
            return Ok(self);
        }
        let plan = load.plan()?;
        if !self.outside.check_places(world, &plan, &mut self.ids) {
            let Self { ids, outside, .. } = self;
            self = StagedEntities::without_world(load, ids, outside, &|_, _, _| {})?;
        }
        self.outside.find(world, &plan, &mut self.ids, &self.map)?;
        self.is_settled = true;
        Ok(self)
    }

    /// Decodes the next column that needs the world. Returns true if there are more.
    pub(super) fn stage_next_deferred(&mut self, world: &World, load: &PreparedLoad<'_>) -> Result<bool> {
        if self.deferred.is_empty() {
            return Ok(false);
        }
        let plan = load.plan()?.with_outside(self.outside.map.clone());
        plan.stage_next(&mut self.staged, &mut self.deferred, &self.map, world)?;
        if self.deferred.is_empty() {
            choose_resources(&load.registry, &load.mode, &mut self.staged)?;
        }
        Ok(!self.deferred.is_empty())
    }
}

impl StagedEntities<'static> {
    /// Reserves ids, takes the places of stand-ins, and stages what needs no world.
    fn reserve(
        load: &PreparedLoad<'_>,
        reserve: &IdReserve,
        watch: &dyn Fn(LoadPhase, u64, u64),
    ) -> Result<Self> {
        let plan = load.plan()?;
        watch(LoadPhase::Migrating, 1, 1);
        let mut ids = reserve.reserve(load.snapshot.entity_count())?;
        let outside = OutsideEntities::read(&plan)?;
        outside.take_places(&plan, &mut ids, Span::Steps);
        Self::without_world(load, ids, outside, watch)
    }

    /// Decodes all columns that need no world, and copies them out of the snapshot.
    fn without_world(
        load: &PreparedLoad<'_>,
        ids: ReservedIds,
        outside: OutsideEntities,
        watch: &dyn Fn(LoadPhase, u64, u64),
    ) -> Result<Self> {
        let plan = load.plan()?.with_outside(outside.map.clone());
        let map = entity_map(&plan, ids.entities())?;
        let decoding = |done, total| watch(LoadPhase::Decoding, done, total);
        let (mut staged, deferred) = plan.stage_without_world(&map, &decoding)?;
        let order = saved_order(&plan, &map)?;
        choose_resources(&load.registry, &load.mode, &mut staged)?;
        watch(LoadPhase::Copying, 0, 1);
        let staged = staged.into_owned();
        watch(LoadPhase::Copying, 1, 1);
        Ok(Self { ids, map, staged, deferred, order, outside, is_settled: false })
    }
}

fn entity_map(plan: &LoadPlan<'_, '_>, entities: &[Entity]) -> Result<EntityMap> {
    plan.entity_map(entities.iter().map(|&entity| entity.into()).collect::<Vec<EntityId>>())
}

/// Leaves out resources that the selection of the mode does not ask for. Fails if a relationship is saved as a resource: it
/// belongs to an entity.
fn choose_resources(registry: &ComponentRegistry, mode: &LoadMode, staged: &mut Staged<'_>) -> Result<()> {
    let descriptors = registry.core.descriptors();
    for (number, _) in &staged.resources {
        if registry.entries[*number].relation.is_some() {
            let key = descriptors[*number].key();
            return Err(Error::custom("it is a relationship, but saved as a resource").in_key(key));
        }
    }
    let Some(selection) = mode.selection() else { return Ok(()) };
    let lines = &mut staged.report.components;
    staged.resources.retain(|(number, _)| {
        let key = descriptors[*number].key();
        let chosen = selection.has_resource(key);
        if !chosen && let Some(line) = lines.iter().position(|line| line.key == key) {
            lines[line].rows = lines[line].rows.saturating_sub(1);
            lines.retain(|line| line.key != key || line.rows > 0);
        }
        chosen
    });
    Ok(())
}

/// Reads the order of sources that was saved.
fn saved_order(plan: &LoadPlan<'_, '_>, map: &EntityMap) -> Result<SavedOrder> {
    let context = LoadContext::new(plan.limits()).entities(map, bonfire::Dangling::Null);
    let mut order: SavedOrder = BTreeMap::new();
    for entry in plan.snapshot().data().iter().filter(|entry| entry.key() == LIST_ORDER_KEY) {
        order.extend(entry.get_in::<SavedOrder>(&context).map_err(|error| error.in_key(LIST_ORDER_KEY))?);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bevy_ecs::name::Name;
    use bevy_ecs::prelude::ChildOf;

    use super::*;
    use crate::capture;
    use crate::registry::SaveRegistry;
    use crate::selection::Selection;
    use crate::{SaveOptions, Saved, Ticks, WorldSaveExt};

    fn world(names: usize) -> World {
        let mut world = World::new();
        SaveRegistry::ensure(&mut world);
        let parent = world.spawn((Saved, Name::new("parent"))).id();
        for number in 0..names {
            world.spawn((Saved, Name::new(number.to_string()), ChildOf(parent)));
        }
        world
    }

    fn save(world: &World) -> Snapshot {
        world.capture(&SaveOptions::new()).unwrap()
    }

    fn canonical(world: &World) -> Vec<u8> {
        save(world).canonical_sorted().unwrap().to_bytes().unwrap()
    }

    /// Prepares on a thread that knows nothing of the world.
    fn prepared(world: &World, snapshot: Snapshot, mode: LoadMode) -> PreparedLoad<'static> {
        let (registry, reserve) = (SaveRegistry::of(world).unwrap(), IdReserve::of(world).unwrap());
        let thread = std::thread::spawn(move || {
            let seen = Mutex::new(Vec::new());
            let watch = |what, done, total| seen.lock().unwrap().push((what, done, total));
            let prepared = PreparedLoad::new(snapshot, registry, &reserve, mode.into(), &watch).unwrap();
            (prepared, seen.into_inner().unwrap())
        });
        let (prepared, seen) = thread.join().unwrap();
        assert_eq!(seen[0], (LoadPhase::Migrating, 0, 1));
        if prepared.entities.is_some() {
            let rows = prepared.snapshot.archetypes().map(|archetype| archetype.ids().len()).max();
            assert!(
                seen.iter()
                    .any(|(what, done, _)| *what == LoadPhase::Decoding && *done >= rows.unwrap() as u64)
            );
            assert_eq!(seen.last(), Some(&(LoadPhase::Copying, 1, 1)));
        }
        prepared
    }

    #[test]
    fn what_another_thread_has_prepared_is_committed_in_one_go() {
        let (source, mut target) = (world(300), world(0));
        prepared(&target, save(&source), LoadMode::Replace).commit(&mut target).unwrap();
        assert_eq!(canonical(&target), canonical(&source));
        prepared(&target, save(&world(7)), LoadMode::Merge).commit(&mut target).unwrap();
        assert_eq!(save(&target).entity_count(), 309);
    }

    #[test]
    fn a_restore_is_prepared_without_its_world_and_keeps_ids() {
        let mut world = world(20);
        let (snapshot, before) = (save(&world), canonical(&world));
        let entities = capture::selected(&world, &Selection::new()).unwrap();
        let mut names = world.query::<&mut Name>();
        names.iter_mut(&mut world).for_each(|mut name| name.set("other"));
        prepared(&world, snapshot, LoadMode::Restore(Ticks::All)).commit(&mut world).unwrap();
        assert_eq!(canonical(&world), before);
        assert_eq!(capture::selected(&world, &Selection::new()).unwrap(), entities);
    }

    #[test]
    fn ids_that_are_dropped_or_not_used_go_back() {
        let snapshot = save(&world(500));
        let mut target = world(5);
        let before = canonical(&target);
        for _ in 0..10 {
            let given_up = prepared(&target, snapshot.clone(), LoadMode::Replace);
            std::thread::spawn(move || drop(given_up)).join().unwrap();
            // Another world has no use for them.
            let mut other = world(5);
            let error = prepared(&target, snapshot.clone(), LoadMode::Replace).commit(&mut other);
            assert!(error.unwrap_err().is_misuse());
            assert_eq!(canonical(&other), before);
            reclaim(&mut target);
        }
        assert!(target.spawn_empty().id().index_u32() < 2000);
        assert_eq!(canonical(&target), before);
    }
}
