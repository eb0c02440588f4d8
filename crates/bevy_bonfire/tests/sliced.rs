//! Loads in slices: the same as loads in one go, out of sight until the last step, and taken back without a trace.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Descriptor, Index, LoadContext, Loaded, Result, Selection, SlicedLoad, Snapshot};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::lifecycle::HookContext;
use bevy_ecs::prelude::*;
use bevy_ecs::world::DeferredWorld;
use bonfire_testkit::scale;
use bonfire_testkit::script::{Part, ScriptWorld, check, scripts};
use common::script::BevyWorld;
use common::*;
use proptest::prelude::*;

/// Families of four in several archetypes, ships at stations, references, disabled ones, and a resource.
fn fill(world: &mut World, families: u32, from: u32) {
    for number in (0..families).map(|number| number + from) {
        let position = Position { x: number as f32, y: 1.0 };
        let parent = world.spawn((Saved, Name::new(format!("parent {number}")), position)).id();
        if number.is_multiple_of(2) {
            world.entity_mut(parent).insert(StableId::from_bits(u64::from(number) + 7));
        }
        let first = world.spawn((Saved, Name::new(format!("a {number}")), ChildOf(parent), Enemy)).id();
        let items = vec![format!("item {number}")];
        let second = world
            .spawn((
                Saved,
                Name::new(format!("b {number}")),
                Inventory { items, gold: None },
                ChildOf(parent),
            ))
            .id();
        let third = world.spawn((Saved, Team(number as u8), Name::new(format!("c {number}")))).id();
        world.entity_mut(parent).insert_children(0, &[third]);
        world.entity_mut(third).insert((
            Follows { leader: parent, others: vec![first, second], last: Some(third) },
            DockedAt { station: second, berth: number.to_string() },
        ));
        if number.is_multiple_of(3) {
            world.entity_mut(first).insert(Burning("hot".into()));
        }
        if number.is_multiple_of(5) {
            world.entity_mut(second).insert(Disabled);
        }
    }
    let best = world.query_filtered::<Entity, With<Team>>().iter(world).next();
    world.insert_resource(Score { points: u64::from(families) + u64::from(from), best });
}

/// A world with some families in it, by every way of spawning.
fn living(families: u32, from: u32, sets: usize) -> World {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::default().batches_max(sets));
    let mut world = std::mem::take(app.world_mut());
    register(&mut world, false);
    world.index_by(|name: &Name| name.to_string());
    fill(&mut world, families, from);
    world.spawn((Name::new("not saved"), Position::default()));
    world
}

fn sliced(world: &World, snapshot: &Snapshot, mode: LoadMode) -> SlicedLoad {
    SlicedLoad::new(world, snapshot.clone(), mode).unwrap()
}

/// Goes on one part at a time, and looks at the world before each.
fn run(world: &mut World, mut load: SlicedLoad, mut between: impl FnMut(&mut World)) -> Result<Arc<Loaded>> {
    let mut progress = 0.0;
    loop {
        between(world);
        if let Some(loaded) = load.step(world, Duration::ZERO)? {
            assert_eq!(load.progress(), 1.0);
            assert!(load.step(world, Duration::ZERO).unwrap_err().is_misuse());
            return Ok(loaded);
        }
        assert!((progress..=1.0).contains(&load.progress()));
        progress = load.progress();
    }
}

/// What a save of this world says, whatever its ids and rows.
fn saved(world: &World) -> String {
    let json = save(world).canonical_sorted().unwrap().to_json().unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    ["componentTable", "archetypes", "resources"].map(|part| json[part].to_string()).join("\n")
}

/// What the game can see.
#[derive(Debug, PartialEq)]
struct Seen {
    names: Vec<String>,
    entities: Vec<Entity>,
    stable_ids: usize,
    holders: Vec<Option<Entity>>,
    indexed: usize,
}

fn visible(world: &mut World) -> Seen {
    let mut names: Vec<String> = world.query::<&Name>().iter(world).map(ToString::to_string).collect();
    names.sort();
    let mut entities: Vec<Entity> = world.query::<Entity>().iter(world).collect();
    entities.sort();
    let ids = world.resource::<StableIds>();
    let holders = (0..200).map(|bits| ids.get(StableId::from_bits(bits))).collect();
    let indexed = world.resource::<Index<Name, String>>().len();
    Seen { names, entities, stable_ids: ids.len(), holders, indexed }
}

fn entity_count(world: &World) -> usize {
    world.archetypes().iter().map(|archetype| archetype.len() as usize).sum()
}

const WAYS: [usize; 3] = [128, 2, 0];

#[test]
fn a_load_in_slices_is_a_load() {
    for sets in WAYS {
        let snapshot = save(&living(300, 0, sets));
        for mode in [LoadMode::Replace, LoadMode::Merge] {
            let (mut at_once, mut in_slices) = (living(8, 3, sets), living(8, 3, sets));
            let expected = at_once.load(&snapshot, mode.clone()).unwrap();
            let mut steps = 0;
            let load = sliced(&in_slices, &snapshot, mode);
            let loaded = run(&mut in_slices, load, |_| steps += 1).unwrap();
            assert!(steps > 10, "{steps}");
            assert_eq!(canonical(&in_slices), canonical(&at_once));
            assert_eq!(entity_count(&in_slices), entity_count(&at_once));
            assert_eq!(format!("{:#?}", loaded.report), format!("{:#?}", expected.report));
            assert_eq!(loaded.entities().count(), 1200);
            let seen = |world: &mut World| {
                let Seen { names, entities, stable_ids, indexed, .. } = visible(world);
                (names, entities.len(), stable_ids, indexed)
            };
            assert_eq!(seen(&mut in_slices), seen(&mut at_once));
            let ids = in_slices.resource::<StableIds>();
            let holder = ids.get(StableId::from_bits(7)).unwrap();
            assert_eq!(in_slices.get::<Name>(holder).unwrap().as_str(), "parent 0");
            assert!(loaded.entities().any(|(_, entity)| entity == holder));
        }
    }
}

#[test]
fn with_time_enough_the_switch_has_a_step_of_its_own() {
    let snapshot = save(&living(50, 0, 128));
    let mut world = living(5, 3, 128);
    let mut load = sliced(&world, &snapshot, LoadMode::Replace);
    assert_eq!(load.progress(), 0.0);
    assert!(load.step(&mut world, Duration::MAX).unwrap().is_none());
    assert_eq!(saved(&world), saved(&living(5, 3, 128)));
    assert!(load.step(&mut world, Duration::MAX).unwrap().is_some());
    assert_eq!(saved(&world), saved(&living(50, 0, 128)));
}

#[test]
fn before_the_last_step_nothing_has_changed() {
    for sets in WAYS {
        let snapshot = save(&living(60, 0, sets));
        let mut world = living(8, 3, sets);
        let (before, seen, score) = (saved(&world), visible(&mut world), world.resource::<Score>().clone());
        let load = sliced(&world, &snapshot, LoadMode::Replace);
        let loaded = run(&mut world, load, |world| {
            assert_eq!(saved(world), before);
            assert_eq!(visible(world), seen);
            assert_eq!(*world.resource::<Score>(), score);
        });
        assert!(loaded.unwrap().report.is_complete());
        assert_ne!(visible(&mut world), seen);
    }
}

#[test]
fn a_load_can_be_cancelled_after_every_step() {
    for sets in WAYS {
        let snapshot = save(&living(60, 0, sets));
        let mut world = living(8, 3, sets);
        world.add_observer(|_: On<LoadFinished>| panic!("nothing is finished"));
        let (before, seen, count) = (saved(&world), visible(&mut world), entity_count(&world));
        let rows: Vec<Position> = world.query::<&Position>().iter(&world).copied().collect();
        for steps in 0.. {
            let mut load = sliced(&world, &snapshot, LoadMode::Replace);
            let mut taken = 0;
            while taken < steps && load.progress() < 1.0 {
                assert!(load.step(&mut world, Duration::ZERO).unwrap().is_none());
                taken += 1;
            }
            let complete = load.progress() == 1.0;
            // Dropping it is as good, once the world looks.
            if steps % 2 == 0 {
                load.cancel(&mut world);
            } else {
                drop(load);
                assert_eq!(saved(&world), before);
                sliced(&world, &snapshot, LoadMode::Merge).cancel(&mut world);
            }
            assert_eq!((saved(&world), entity_count(&world)), (before.clone(), count));
            assert_eq!(visible(&mut world), seen);
            if complete {
                assert!(steps > 10, "{steps}");
                break;
            }
        }
        assert_eq!(world.query::<&Position>().iter(&world).copied().collect::<Vec<_>>(), rows);
        // What was taken back is there to be taken again.
        assert!(world.spawn_empty().id().index_u32() < 5000);
    }
}

#[test]
fn what_is_dropped_before_it_began_uses_up_no_ids() {
    let snapshot = save(&living(100, 0, 128));
    let mut world = living(1, 3, 128);
    for _ in 0..20 {
        drop(sliced(&world, &snapshot, LoadMode::Replace));
        let mut load = sliced(&world, &snapshot, LoadMode::Replace);
        load.step(&mut world, Duration::ZERO).unwrap();
        load.cancel(&mut world);
    }
    assert!(world.spawn_empty().id().index_u32() < 3000);
}

#[test]
fn it_can_be_prepared_on_another_thread_and_go_to_any() {
    fn assert_send<T: Send + Sync + 'static>(value: T) -> T {
        value
    }
    let snapshot = save(&living(100, 0, 128));
    let mut world = living(10, 3, 128);
    let load = std::thread::scope(|scope| {
        let prepare = || sliced(&world, &snapshot, LoadMode::Replace);
        scope.spawn(prepare).join().unwrap()
    });
    run(&mut world, assert_send(load), |_| {}).unwrap();
    assert_eq!(canonical(&world), canonical(&living(100, 0, 128)));
}

#[test]
fn a_load_is_for_the_world_that_it_was_made_for() {
    let snapshot = save(&living(10, 0, 128));
    let (world, mut other) = (living(1, 3, 128), living(1, 3, 128));
    let before = saved(&other);
    let mut load = sliced(&world, &snapshot, LoadMode::Replace);
    let error = load.step(&mut other, Duration::MAX).unwrap_err();
    assert!(error.is_misuse(), "{error}");
    assert_eq!(saved(&other), before);
}

#[test]
fn only_a_part_is_replaced() {
    let mut source = living(50, 0, 128);
    let snapshot = source.capture_with_events(&SaveOptions::new().matching::<With<Team>>()).unwrap();
    let (mut at_once, mut world) = (living(10, 3, 128), living(10, 3, 128));
    let mode = || LoadMode::ReplaceSelected(Selection::new().matching::<With<Team>>());
    at_once.load(&snapshot, mode()).unwrap();
    let load = sliced(&world, &snapshot, mode());
    run(&mut world, load, |_| {}).unwrap();
    assert_eq!(canonical(&world), canonical(&at_once));
    assert_eq!(world.query::<&Team>().iter(&world).count(), 50);
}

#[test]
fn a_restore_is_one_step() {
    let mut world = living(20, 0, 128);
    let (snapshot, before) = (save(&world), canonical(&world));
    let entities = visible(&mut world).entities;
    world.query::<&mut Position>().iter_mut(&mut world).for_each(|mut position| position.x = -1.0);
    let mut load = sliced(&world, &snapshot, LoadMode::Restore(Ticks::All));
    assert!(load.step(&mut world, Duration::ZERO).unwrap().is_some());
    assert_eq!((canonical(&world), visible(&mut world).entities), (before, entities));
}

#[test]
fn what_was_disabled_stays_disabled() {
    for sets in WAYS {
        for late in [false, true] {
            let snapshot = save(&living(50, 0, sets));
            let mut world = living(1, 3, sets);
            if late {
                world.load_late::<Disabled>();
            }
            let load = sliced(&world, &snapshot, LoadMode::Replace);
            run(&mut world, load, |_| {}).unwrap();
            let disabled: Vec<_> = world.query_filtered::<&Name, With<Disabled>>().iter(&world).collect();
            assert_eq!(disabled.len(), 10);
            assert!(disabled.iter().all(|name| name.starts_with("b ")));
            assert_eq!(canonical(&world), canonical(&living(50, 0, sets)));
        }
    }
}

#[test]
fn the_game_goes_on_meanwhile() {
    let snapshot = save(&living(200, 0, 128));
    let mut world = living(20, 3, 128);
    let load = sliced(&world, &snapshot, LoadMode::Replace);
    let (mut step, mut strays, mut killed) = (0, Vec::new(), Vec::new());
    let loaded = run(&mut world, load, |world| {
        step += 1;
        // Entities that are saved and such that are not come and go, with stable ids too.
        world.spawn((Saved, Name::new("brief"), StableId::from_bits(1_000_000 + step)));
        strays.push(world.spawn(Position::default()).id());
        let old = world.query_filtered::<Entity, With<Enemy>>().iter(world).next();
        old.map(|old| world.despawn(old));
        let brief = world.resource::<StableIds>().get(StableId::from_bits(1_000_000 + step)).unwrap();
        assert_eq!(world.get::<Name>(brief).unwrap().as_str(), "brief");
        // The game can reach what is arriving, if it wants to.
        let arriving = world.query_filtered::<(Entity, &Name), (With<Disabled>, Without<Children>)>();
        let arriving = { arriving }.iter(world).find(|(_, name)| name.starts_with("c ")).map(|found| found.0);
        if let Some(entity) = arriving {
            killed.push(world.get::<Name>(entity).unwrap().to_string());
            world.despawn(entity);
        }
    });
    loaded.unwrap();
    assert!(killed.len() > 2);
    let mut expected = visible(&mut living(200, 0, 128)).names;
    expected.retain(|name| !killed.contains(name));
    assert_eq!(
        visible(&mut world).names,
        expected,
        "what came meanwhile would be in a save now, so it is replaced"
    );
    assert!(strays.iter().all(|&stray| world.get_entity(stray).is_ok()));
    assert_eq!(world.resource::<StableIds>().len(), 100);
}

#[derive(Component, Persist, Clone)]
#[component(on_add = explode)]
#[persist(key = "test.mine")]
struct Mine(u32);

#[derive(Resource)]
struct Fuse(u32);

fn explode(world: DeferredWorld, context: HookContext) {
    let fuse = world.get_resource::<Fuse>().map(|fuse| fuse.0);
    assert_ne!(world.get::<Mine>(context.entity).map(|mine| mine.0), fuse, "boom");
}

/// A panic somewhere, and what the world is afterwards.
fn panicking(arm: impl Fn(&mut World)) {
    for sets in WAYS {
        let mines = |world: &mut World| {
            world.persist::<Mine>();
        };
        let mut source = living(60, 0, sets);
        mines(&mut source);
        for number in 0..600 {
            source.spawn((Saved, Mine(number), Inventory::default()));
        }
        let snapshot = save(&source);
        let mut world = living(8, 3, sets);
        mines(&mut world);
        world.init_resource::<Failures>();
        world.add_observer(|finished: On<LoadFinished>, mut failures: ResMut<Failures>| {
            failures.0 += usize::from(finished.result.is_err());
        });
        arm(&mut world);
        let (before, seen, count) = (saved(&world), visible(&mut world), entity_count(&world));
        let load = sliced(&world, &snapshot, LoadMode::Replace);
        let error = run(&mut world, load, |_| {}).err().unwrap();
        assert!(error.to_string().contains("boom"), "{error}");
        assert_eq!(world.resource::<Failures>().0, 1);
        assert_eq!((saved(&world), visible(&mut world)), (before, seen));
        assert_eq!(entity_count(&world), count);
        world.remove_resource::<Fuse>();
        // And it can be loaded after all.
        let load = sliced(&world, &snapshot, LoadMode::Replace);
        run(&mut world, load, |_| {}).unwrap();
        assert_eq!(canonical(&world), canonical(&source));
    }
}

#[derive(Resource, Default)]
struct Failures(usize);

#[test]
fn a_hook_that_panics_in_some_slice_is_as_if_nothing_had_been() {
    for fuse in [0, 256, 599] {
        panicking(|world| world.insert_resource(Fuse(fuse)));
    }
}

#[test]
fn so_is_an_observer_that_panics_when_all_are_there() {
    panicking(|world| {
        world.insert_resource(Fuse(u32::MAX));
        world.add_observer(
            |docked: On<Insert<DockedAt>>,
             all: Query<&DockedAt, Allow<Disabled>>,
             fuse: Option<Res<Fuse>>| {
                assert!(fuse.is_none() || all.get(docked.entity).unwrap().berth != "50", "boom");
            },
        );
    });
}

#[test]
fn so_is_one_that_panics_in_the_last_step() {
    panicking(|world| {
        world.insert_resource(Fuse(u32::MAX));
        let once =
            |removed: On<Remove<Disabled>>, all: Query<&Name, Allow<Disabled>>, mut done: Local<bool>| {
                let name = all.get(removed.entity).map(Name::as_str);
                let again = *done;
                *done |= name == Ok("c 50");
                assert!(again || !*done, "boom");
            };
        world.add_observer(once);
    });
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

#[derive(Component)]
struct Guarded(#[expect(dead_code, reason = "something to drop")] Box<u32>);
#[derive(Resource)]
struct GuardedAlone(#[expect(dead_code, reason = "something to drop")] Guarded);

impl Guarded {
    fn new(value: u32) -> Self {
        ALIVE.fetch_add(1, SeqCst);
        Self(Box::new(value))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        assert!(ALIVE.fetch_sub(1, SeqCst) > 0, "a value was dropped twice");
    }
}

#[test]
fn every_value_is_dropped_once_wherever_it_ends() {
    let register = |world: &mut World, late: bool| {
        let save = |_: &Guarded, _: &bevy_bonfire::core::SaveContext<'_>| Ok(Some(1_u32));
        let load = |saved: u32, _: &LoadContext<'_>| Ok(Some(Guarded::new(saved)));
        world.persist_as::<Guarded>(Descriptor::custom("test.guarded", save, load));
        let save = |_: &GuardedAlone, _: &bevy_bonfire::core::SaveContext<'_>| Ok(Some(1_u32));
        let load = |saved: u32, _: &LoadContext<'_>| Ok(Some(GuardedAlone(Guarded::new(saved))));
        world.persist_as::<GuardedAlone>(Descriptor::custom("test.guarded_alone", save, load));
        if late {
            world.load_late::<Guarded>();
        }
    };
    let snapshot = {
        let mut source = World::new();
        register(&mut source, false);
        (0..600).for_each(|number| _ = source.spawn((Saved, Guarded::new(number))));
        (0..600).for_each(|number| _ = source.spawn((Saved, Name::new("named"), Guarded::new(number))));
        source.insert_resource(GuardedAlone(Guarded::new(0)));
        save(&source)
    };
    assert_eq!(ALIVE.load(SeqCst), 0);
    for late in [false, true] {
        for steps in 0..14 {
            let mut world = World::new();
            register(&mut world, late);
            let mut load = sliced(&world, &snapshot, LoadMode::Replace);
            let mut over = false;
            for _ in 0..steps {
                over = over || load.step(&mut world, Duration::ZERO).unwrap().is_some();
            }
            assert_eq!(ALIVE.load(SeqCst), 1201);
            load.cancel(&mut world);
            assert_eq!(ALIVE.load(SeqCst), if over { 1201 } else { 0 });
            drop(world);
            assert_eq!(ALIVE.load(SeqCst), 0);
        }
    }
}

#[test]
fn what_a_mod_had_comes_back_in_slices() {
    let source = living(60, 0, 128);
    // A build that knows nothing but names, and saves again.
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::default());
    let stranger = app.world_mut();
    stranger.load(&save(&source), LoadMode::Replace).unwrap();
    let snapshot = save(stranger);
    let (mut at_once, mut world) = (living(3, 3, 128), living(3, 3, 128));
    let expected = at_once.load(&snapshot, LoadMode::Replace).unwrap();
    let load = sliced(&world, &snapshot, LoadMode::Replace);
    let loaded = run(&mut world, load, |_| {}).unwrap();
    assert_eq!(format!("{:#?}", loaded.report), format!("{:#?}", expected.report));
    assert_eq!(canonical(&world), canonical(&at_once));
    assert_eq!(canonical(&world), canonical(&source));
}

#[test]
fn sources_of_what_was_not_saved_are_left_out_as_in_one_go() {
    let mut source = living(5, 0, 128);
    let stray = source.spawn(Name::new("stray")).id();
    source.spawn((Saved, Name::new("lost"), DockedAt { station: stray, berth: "x".into() }, ChildOf(stray)));
    let snapshot = save(&source);
    let (mut at_once, mut world) = (living(1, 3, 128), living(1, 3, 128));
    let expected = at_once.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(expected.report.component("test.docked_at").unwrap().left_out, 1);
    let load = sliced(&world, &snapshot, LoadMode::Replace);
    let loaded = run(&mut world, load, |_| {}).unwrap();
    assert_eq!(format!("{:#?}", loaded.report), format!("{:#?}", expected.report));
    assert_eq!(canonical(&world), canonical(&at_once));
}

#[test]
fn entities_without_marks_and_data_come_too() {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::default().scope(SaveScope::Persisted));
    app.persist::<Position>();
    (0..300).for_each(|number| _ = app.world_mut().spawn(Position { x: number as f32, y: 0.0 }));
    let options = SaveOptions::new().data("test.seed", &42_u64).unwrap();
    let snapshot = app.world().capture(&options).unwrap();
    let mut world = world();
    world.insert_resource(Failures(0));
    world.add_observer(|mut starting: On<LoadStarting>| {
        starting.on_data("test.seed", |world: &mut World, seed: u64| {
            world.resource_mut::<Failures>().0 = seed as usize;
            Ok(())
        });
    });
    let load = sliced(&world, &snapshot, LoadMode::Replace);
    let loaded = run(&mut world, load, |_| {}).unwrap();
    assert!(loaded.report.is_complete());
    assert_eq!(world.query_filtered::<&Position, With<Saved>>().iter(&world).count(), 300);
    assert_eq!(world.resource::<Failures>().0, 42);
}

#[test]
fn a_long_chain_of_parents_is_taken_back_too() {
    const LENGTH: u32 = 10_000;
    let mut source = world();
    source.persist::<Mine>();
    let mut above = source.spawn((Saved, Mine(0))).id();
    for number in 1..LENGTH {
        above = source.spawn((Saved, Mine(number), ChildOf(above))).id();
    }
    let snapshot = save(&source);
    let mut world = world();
    world.persist::<Mine>();
    let mut load = sliced(&world, &snapshot, LoadMode::Replace);
    while load.progress() < 1.0 {
        assert!(load.step(&mut world, Duration::ZERO).unwrap().is_none());
    }
    load.cancel(&mut world);
    assert_eq!(world.query_filtered::<&Mine, Allow<Disabled>>().iter(&world).count(), 0);
    // In one go, too: the mark comes when all parents are there.
    world.load_late::<Saved>();
    world.add_observer(|_: On<Insert<Saved>>| panic!("boom"));
    assert!(world.load(&snapshot, LoadMode::Replace).unwrap_err().to_string().contains("boom"));
    assert_eq!(world.query::<&Mine>().iter(&world).count(), 0);
}

#[cfg(all(feature = "asset", feature = "time"))]
#[test]
fn what_looks_at_the_world_is_decoded_where_it_is() {
    use bevy_asset::{Asset, AssetApp, AssetPlugin, AssetServer, Handle};
    use bevy_reflect::TypePath;
    use bevy_time::{Time, Virtual};

    #[derive(Asset, TypePath)]
    struct Image;
    #[derive(Component, Persist)]
    #[persist(key = "test.portrait")]
    struct Portrait {
        #[persist(with = AssetRef)]
        image: Handle<Image>,
    }
    let app = || {
        let mut app = App::new();
        let pools = bevy_app::TaskPoolPlugin::default();
        app.add_plugins((pools, AssetPlugin::default(), BonfirePlugin::default()));
        app.init_asset::<Image>().persist::<Portrait>().persist_time();
        app.insert_resource(Time::<Virtual>::from_max_delta(Duration::from_secs(7)));
        app
    };
    let mut source = app();
    let world = source.world_mut();
    world.resource_mut::<Time<Virtual>>().advance_by(Duration::from_secs(5));
    for number in 0..300 {
        let image = world.resource::<AssetServer>().load::<Image>(format!("face{number}.png"));
        world.spawn((Saved, Portrait { image }));
    }
    let snapshot = save(world);
    let mut target = app();
    let world = target.world_mut();
    let load = std::thread::scope(|scope| {
        scope.spawn(|| sliced(world, &snapshot, LoadMode::Replace)).join().unwrap()
    });
    run(world, load, |world| assert!(world.resource::<Time<Virtual>>().elapsed().is_zero())).unwrap();
    let time = world.resource::<Time<Virtual>>();
    assert_eq!((time.elapsed(), time.max_delta()), (Duration::from_secs(5), Duration::from_secs(7)));
    let mut faces: Vec<String> = (world.query::<&Portrait>().iter(world))
        .map(|portrait| portrait.image.path().unwrap().to_string())
        .collect();
    faces.sort();
    faces.dedup();
    assert_eq!(faces.len(), 300);
}

/// A world that loads in slices, and looks at itself before each.
struct Sliced<const SETS: usize>(BevyWorld<SETS>);

impl<const SETS: usize> ScriptWorld for Sliced<SETS> {
    type Entity = Entity;

    fn fresh(reversed: bool) -> Self {
        Self(BevyWorld::fresh(reversed))
    }
    fn spawn(&mut self, saved: bool) -> Entity {
        self.0.spawn(saved)
    }
    fn is_alive(&self, entity: Entity) -> bool {
        self.0.is_alive(entity)
    }
    fn insert(&mut self, entity: Entity, part: &Part, targets: &[Entity]) {
        self.0.insert(entity, part, targets);
    }
    fn remove(&mut self, entity: Entity, kind: usize) {
        self.0.remove(entity, kind);
    }
    fn adopt(&mut self, child: Entity, parent: Entity) {
        self.0.adopt(child, parent);
    }
    fn orphan(&mut self, child: Entity) {
        self.0.orphan(child);
    }
    fn despawn(&mut self, entity: Entity) {
        self.0.despawn(entity);
    }
    fn save(&self) -> Snapshot {
        self.0.save()
    }
    fn replace(&mut self, snapshot: &Snapshot) {
        let world = &mut self.0.0;
        let (before, count) = (saved(world), entity_count(world));
        let mut steps = 0_u32;
        let mut load = sliced(world, snapshot, LoadMode::Replace);
        while load.step(world, Duration::ZERO).unwrap().is_none() {
            assert_eq!(saved(world), before);
            steps += 1;
            // Some loads are begun and given up.
            if steps.is_multiple_of(3) {
                let mut other = sliced(world, snapshot, LoadMode::Merge);
                other.step(world, Duration::ZERO).unwrap();
                other.step(world, Duration::ZERO).unwrap();
                other.cancel(world);
            }
        }
        assert!(entity_count(world) <= count + snapshot.entity_count());
    }
    fn restore(&mut self, snapshot: &Snapshot) {
        self.0.restore(snapshot);
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24 * scale()) })]

    #[test]
    fn worlds_come_back_in_slices(script in scripts(60)) {
        check::<Sliced<128>>(&script)?;
    }

    #[test]
    fn worlds_come_back_in_slices_one_by_one(script in scripts(60)) {
        check::<Sliced<2>>(&script)?;
    }
}
