//! Everything of a load that may fail, before the world is touched: on its own thread, or on any other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bevy_ecs::entity::Entity;
use bevy_ecs::world::World;
use bonfire::engine::{Deferred, EntityMap, LIST_ORDER_KEY, LoadPlan, SavedOrder, Staged};
use bonfire::{EntityId, Error, LoadContext, Result, Snapshot};

use super::activate::reclaim;
use super::commit::{self, CommitInput, ExistingResources};
use super::completion::{CommittedLoad, LoadCompletion, unknown_order};
use super::{LoadMode, LoadOptions, Loaded, load_migrated};
use crate::capture;
use crate::pending::{IdReserve, ReservedIds};
use crate::registry::ComponentRegistry;
use crate::selection::{self, Selection};

/// New entities, all decoded.
pub(super) struct StagedEntities<'s> {
    /// Archetype by archetype.
    pub(super) entities: Vec<Entity>,
    pub(super) map: EntityMap,
    pub(super) staged: Staged<'s>,
    pub(super) order: SavedOrder,
}

impl<'s> StagedEntities<'s> {
    /// Gives all entities new ids and decodes them.
    pub(super) fn stage(
        world: &mut World,
        registry: &ComponentRegistry,
        plan: &LoadPlan<'s, '_>,
    ) -> Result<Self> {
        let count = entity_count(plan.snapshot())?;
        let entities: Vec<Entity> = world.entity_allocator().alloc_many(count).collect();
        let staged = entity_map(plan, &entities)
            .and_then(|map| stage(world, plan, &map, &|_| false).map(|staged| (map, staged)))
            .and_then(|(map, (staged, order))| {
                check_resources(registry, &staged).map(|()| (map, staged, order))
            });
        match staged {
            Ok((map, staged, order)) => Ok(Self { entities, map, staged, order }),
            Err(error) => {
                world.entity_allocator_mut().free_many(&entities);
                Err(error)
            }
        }
    }

    pub(super) fn commit(
        self,
        world: &mut World,
        registry: &ComponentRegistry,
        snapshot: &Snapshot,
        replaced: Vec<Entity>,
        existing: ExistingResources,
    ) -> Result<CommittedLoad> {
        let Self { entities, map, staged, order } = self;
        let unknown_order = unknown_order(snapshot, registry, &order);
        let mut report = staged.report.clone();
        let input = CommitInput { entities, map: &map, order, replaced, existing };
        let carry = commit::commit(world, registry, staged, input, &mut report)?;
        Ok(CommittedLoad { map, report, carry, respawned: Vec::new(), unknown_order })
    }
}

fn entity_count(snapshot: &Snapshot) -> Result<u32> {
    u32::try_from(snapshot.entity_count()).map_err(|_| Error::misuse("more entities than Bevy can have"))
}

fn entity_map(plan: &LoadPlan<'_, '_>, entities: &[Entity]) -> Result<EntityMap> {
    plan.entity_map(entities.iter().map(|&entity| entity.into()).collect::<Vec<EntityId>>())
}

/// The entities that a load takes the place of.
pub(super) fn replaced(world: &mut World, mode: &LoadMode) -> Result<Vec<Entity>> {
    match mode {
        LoadMode::Replace => capture::selected(world, &Selection::new()),
        LoadMode::ReplaceSelected(selection) => {
            selection::prepare(selection, world);
            capture::selected(world, selection)
        }
        _ => Ok(Vec::new()),
    }
}

/// A relationship belongs to an entity.
pub(super) fn check_resources(registry: &ComponentRegistry, staged: &Staged<'_>) -> Result<()> {
    for (number, _) in &staged.resources {
        if registry.entries[*number].relation.is_some() {
            let key = registry.core.descriptors()[*number].key();
            return Err(Error::custom("it is a relationship, but saved as a resource").in_key(key));
        }
    }
    Ok(())
}

/// The last step that may fail.
pub(super) fn stage<'s>(
    world: &World,
    plan: &LoadPlan<'s, '_>,
    map: &EntityMap,
    alive: &dyn Fn(EntityId) -> bool,
) -> Result<(Staged<'s>, SavedOrder)> {
    let staged = plan.stage_over(map, Some(world), alive)?;
    Ok((staged, order(plan, map)?))
}

/// The order of sources that was saved.
fn order(plan: &LoadPlan<'_, '_>, map: &EntityMap) -> Result<SavedOrder> {
    let context = LoadContext::new(plan.limits()).entities(map, bonfire::Dangling::Null);
    let mut order: SavedOrder = BTreeMap::new();
    for entry in plan.snapshot().data().iter().filter(|entry| entry.key() == LIST_ORDER_KEY) {
        order.extend(entry.get_in::<SavedOrder>(&context).map_err(|error| error.in_key(LIST_ORDER_KEY))?);
    }
    Ok(order)
}

/// The steps of a preparation, for its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadPhase {
    /// World migrations run, and what becomes of each component is decided.
    Migrating,
    /// Rows are decoded: so many of all.
    Decoding,
    /// What lies in the snapshot is copied out of it.
    Copying,
}

/// A load of which only the part is left that needs the world.
pub(crate) struct PreparedLoad {
    pub(super) input: LoadInput,
    /// None for a restore, which looks at the entities that are there.
    pub(super) entities: Option<PartlyStaged>,
}

/// What is loaded, and how.
pub(super) struct LoadInput {
    /// After all migrations.
    pub(super) snapshot: Snapshot,
    pub(super) registry: Arc<ComponentRegistry>,
    pub(super) mode: LoadMode,
    pub(super) options: bonfire::LoadOptions,
}

/// New entities, decoded except for columns that need the world.
pub(super) struct PartlyStaged {
    pub(super) ids: ReservedIds,
    pub(super) map: EntityMap,
    staged: SendStaged,
    deferred: Deferred,
    pub(super) order: SavedOrder,
}

/// Staged rows that may be sent to another thread.
struct SendStaged(Staged<'static>);

#[expect(unsafe_code, reason = "rows without their types")]
// SAFETY: the rows are values of registered components, because `ComponentRegistry::add` asks for a `Component` and checks that it
// is the descriptor's type; components are `Send`. The columns own them and nothing else. All that is beside the columns
// is `Send` by itself (`assert_rest`).
unsafe impl Send for SendStaged {}
#[expect(unsafe_code, reason = "rows without their types")]
// SAFETY: as above; components are `Sync`, and a column that is shared is only read.
unsafe impl Sync for SendStaged {}

/// Asserts that the parts of a staged load beside its columns can be sent.
const fn assert_rest<T: Send + Sync>() {}
const _: () =
    assert_rest::<(Vec<EntityId>, Cow<'_, [EntityId]>, bonfire::engine::Carry, bonfire::LoadReport)>();
const _: () = assert_rest::<bonfire::engine::Bitmap>();

impl PreparedLoad {
    /// Does everything that needs no world: on any thread. A mode that restores is prepared only in part.
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
        let snapshot = migrated.unwrap_or(snapshot);
        let input = LoadInput { snapshot, registry, mode, options };
        let entities = match input.mode.is_restore() {
            true => None,
            false => Some(PartlyStaged::new(&input, reserve, watch)?),
        };
        Ok(Self { input, entities })
    }

    /// Applies the load to the world, all at once. If this fails, the world is as it was.
    pub(crate) fn commit(self, world: &mut World) -> Result<Loaded> {
        world.flush();
        reclaim(world);
        let Self { input, entities } = self;
        let Some(entities) = entities else {
            let LoadInput { snapshot, registry, mode, options } = input;
            return load_migrated(world, &registry, &snapshot, mode, options);
        };
        let loaded = entities.into_staged(world, &input).and_then(|staged| {
            let LoadInput { snapshot, registry, mode, options } = &input;
            let replaced = match replaced(world, mode) {
                Ok(replaced) => replaced,
                Err(error) => {
                    world.entity_allocator_mut().free_many(&staged.entities);
                    return Err(error);
                }
            };
            let existing = ExistingResources::of(mode);
            let committed = staged.commit(world, registry, snapshot, replaced, existing)?;
            Ok(LoadCompletion::new(mode, options).run(world, registry, snapshot, committed))
        });
        reclaim(world);
        loaded
    }
}

impl LoadInput {
    fn plan(&self) -> Result<LoadPlan<'_, '_>> {
        LoadPlan::new(&self.snapshot, &self.registry.core, self.options.clone())
    }
}

impl PartlyStaged {
    fn new(input: &LoadInput, reserve: &IdReserve, watch: &dyn Fn(LoadPhase, u64, u64)) -> Result<Self> {
        let plan = input.plan()?;
        watch(LoadPhase::Migrating, 1, 1);
        let ids = reserve.reserve(entity_count(&input.snapshot)? as usize);
        let map = entity_map(&plan, ids.entities())?;
        let decoding = |done, total| watch(LoadPhase::Decoding, done, total);
        let (staged, deferred) = plan.stage_without_world(&map, &decoding)?;
        let order = order(&plan, &map)?;
        check_resources(&input.registry, &staged)?;
        watch(LoadPhase::Copying, 0, 1);
        let staged = SendStaged(staged.into_owned());
        watch(LoadPhase::Copying, 1, 1);
        Ok(Self { ids, map, staged, deferred, order })
    }

    /// Decodes the next column that needs the world. Returns true if there are more.
    pub(super) fn stage_next_deferred(&mut self, world: &World, input: &LoadInput) -> Result<bool> {
        if !self.deferred.is_empty() {
            input.plan()?.stage_next(&mut self.staged.0, &mut self.deferred, &self.map, world)?;
        }
        if !self.deferred.is_empty() {
            return Ok(true);
        }
        check_resources(&input.registry, &self.staged.0)?;
        Ok(false)
    }

    /// All parts, once everything is decoded.
    pub(super) fn into_parts(self) -> (ReservedIds, EntityMap, Staged<'static>, SavedOrder) {
        (self.ids, self.map, self.staged.0, self.order)
    }

    fn into_staged(mut self, world: &World, input: &LoadInput) -> Result<StagedEntities<'static>> {
        self.ids.check(world)?;
        while self.stage_next_deferred(world, input)? {}
        let (ids, map, staged, order) = self.into_parts();
        Ok(StagedEntities { entities: ids.into_entities(), map, staged, order })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bevy_ecs::name::Name;
    use bevy_ecs::prelude::ChildOf;

    use super::*;
    use crate::registry::SaveRegistry;
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
    fn prepared(world: &World, snapshot: Snapshot, mode: LoadMode) -> PreparedLoad {
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
            let rows = prepared.input.snapshot.archetypes().map(|archetype| archetype.ids().len()).max();
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
