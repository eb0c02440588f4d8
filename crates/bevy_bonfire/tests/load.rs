//! What a load does to a world that is not empty: modes, hooks, observers, failures, panics.

mod common;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Dangling, Descriptor, EncodeOptions, Error, LoadOptions, Snapshot, Unknown};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::lifecycle::HookContext;
use bevy_ecs::prelude::*;
use bevy_ecs::world::DeferredWorld;
use common::*;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

fn names(world: &mut World) -> Vec<String> {
    let mut query = world.query_filtered::<&Name, Allow<Disabled>>();
    let mut names: Vec<String> = query.iter(world).map(ToString::to_string).collect();
    names.sort();
    names
}

#[test]
fn replace_replaces_what_is_saved_and_merge_adds() {
    let mut world = world();
    world.spawn((Saved, Name::new("a")));
    world.spawn(Name::new("scenery"));
    world.insert_resource(Score { points: 1, best: None });
    let snapshot = save(&world);
    world.spawn((Saved, Name::new("later")));
    world.resource_mut::<Score>().points = 2;
    world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(names(&mut world), ["a", "scenery"]);
    assert_eq!(world.resource::<Score>().points, 1);

    world.resource_mut::<Score>().points = 3;
    world.load(&snapshot, LoadMode::Merge).unwrap();
    assert_eq!(names(&mut world), ["a", "a", "scenery"]);
    assert_eq!(world.resource::<Score>().points, 3, "a merge keeps the resources of the world");
    world.remove_resource::<Score>();
    world.load(&snapshot, LoadMode::Merge).unwrap();
    assert_eq!(world.resource::<Score>().points, 1, "and brings those that it lacks");
}

#[test]
fn a_selection_is_replaced_alone() {
    let mut world = world();
    world.spawn((Saved, Name::new("level"), Enemy));
    world.spawn((Saved, Name::new("player"), Team(1)));
    let level = || bevy_bonfire::Selection::new().matching::<With<Enemy>>();
    let snapshot = world.capture_with_events(&SaveOptions::new().selection(level())).unwrap();
    assert_eq!(snapshot.entity_count(), 1);
    world.spawn((Saved, Name::new("another"), Enemy));
    world.load(&snapshot, LoadMode::ReplaceSelected(level())).unwrap();
    assert_eq!(names(&mut world), ["level", "player"]);
}

#[test]
fn disabled_entities_are_saved_and_stay_disabled() {
    let mut source = world();
    let entity = source.spawn((Saved, Name::new("asleep"), Disabled, Enemy)).id();
    let mut target = world();
    let loaded = target.load(&save(&source), LoadMode::Replace).unwrap();
    assert!(target.entity(loaded.entity(entity).unwrap()).contains::<Disabled>());
    assert_eq!(names(&mut target), ["asleep"]);
    target.load(&save(&source), LoadMode::Replace).unwrap();
    assert_eq!(names(&mut target), ["asleep"], "disabled entities are replaced too");
}

#[derive(Component, Persist, Clone, Default)]
#[require(Engine)]
#[persist(key = "test.ship")]
struct Ship;

#[derive(Component, Clone, Debug, PartialEq)]
struct Engine(u32);
impl Default for Engine {
    fn default() -> Self {
        Engine(7)
    }
}

#[derive(Resource, Default)]
struct Heard {
    added: usize,
    inserted: usize,
    required: usize,
}

static HOOKS: AtomicUsize = AtomicUsize::new(0);

#[derive(Component, Persist, Clone, Default)]
#[component(on_add = count)]
#[persist(key = "test.counted")]
struct Counted(u32);

fn count(_: DeferredWorld, _: HookContext) {
    HOOKS.fetch_add(1, SeqCst);
}

#[test]
fn hooks_observers_and_required_components_run_as_after_a_spawn() {
    let register = |world: &mut World| {
        world.persist::<Ship>().persist::<Counted>().persist_ignore::<Engine>();
    };
    for batches in [true, false] {
        for count in [3_usize, 500] {
            let mut source = world();
            register(&mut source);
            for i in 0..count {
                source.spawn((Saved, Ship, Counted(i as u32)));
            }
            let snapshot = save(&source);
            let mut app = bevy_app::App::new();
            let plugin = BonfirePlugin::default();
            app.add_plugins(if batches { plugin } else { plugin.spawn_one_by_one() });
            let target = app.world_mut();
            register(target);
            target.init_resource::<Heard>();
            target.add_observer(|_: On<Add<Ship>>, mut heard: ResMut<Heard>| heard.added += 1);
            target.add_observer(|_: On<Insert<Ship>>, mut heard: ResMut<Heard>| heard.inserted += 1);
            target.add_observer(|_: On<Add<Engine>>, mut heard: ResMut<Heard>| heard.required += 1);
            HOOKS.store(0, SeqCst);
            target.load(&snapshot, LoadMode::Replace).unwrap();
            let heard = target.resource::<Heard>();
            assert_eq!((heard.added, heard.inserted, heard.required), (count, count, count));
            assert_eq!(HOOKS.load(SeqCst), count);
            let mut engines = target.query::<(&Engine, &Counted)>();
            assert_eq!(engines.iter(target).filter(|(engine, _)| **engine == Engine(7)).count(), count);
        }
    }
}

#[derive(Component, Persist, Clone)]
#[component(on_insert = look)]
#[persist(key = "test.looks_at")]
struct LooksAt(Entity);

#[derive(Component, Debug, PartialEq)]
struct Seen(Option<u8>);

fn look(mut world: DeferredWorld, context: HookContext) {
    let target = world.get::<LooksAt>(context.entity).unwrap().0;
    let seen = world.get::<Team>(target).map(|team| team.0);
    world.commands().entity(context.entity).insert(Seen(seen));
}

#[test]
fn late_components_find_all_entities_complete() {
    for (late, expected) in [(false, None), (true, Some(9))] {
        let build = || {
            let mut world = world();
            world.persist::<LooksAt>().persist_ignore::<Seen>();
            if late {
                world.load_late::<LooksAt>();
            }
            world
        };
        let mut source = build();
        // The one that looks is in the archetype that comes first.
        let looker = source.spawn((Saved, LooksAt(Entity::PLACEHOLDER))).id();
        let target = source.spawn((Saved, Team(9), Burning("on".into()))).id();
        source.entity_mut(looker).insert(LooksAt(target));
        let mut world = build();
        let loaded = world.load(&save(&source), LoadMode::Replace).unwrap();
        assert_eq!(world.get::<Seen>(loaded.entity(looker).unwrap()), Some(&Seen(expected)), "late: {late}");
    }
}

#[derive(Component, Clone, Debug, PartialEq)]
struct Choosy(u8);

fn choosy() -> Descriptor {
    Descriptor::custom(
        "test.choosy",
        |choosy: &Choosy, _| Ok(Some(choosy.0)),
        |saved: u8, _| match saved {
            13 => Err(Error::custom("thirteen is not allowed")),
            saved => Ok(Some(Choosy(saved))),
        },
    )
}

/// A world that is busy: everything in it must be the same after a load that fails.
fn busy() -> World {
    let mut world = world();
    world.persist_as::<Choosy>(choosy());
    let parent = world.spawn((Saved, Name::new("parent"), Position { x: 1.0, y: 2.0 })).id();
    for i in 0..200 {
        world.spawn((Saved, ChildOf(parent), Health { current: i, max: 200, flash: 1 }));
    }
    world.insert_resource(Score { points: 5, best: Some(parent) });
    world
}

fn assert_unchanged(what: &str, load: impl FnOnce(&mut World) -> bevy_bonfire::Result<()>) -> Error {
    let mut world = busy();
    world.add_observer(|_: On<LoadStarting>| panic!("a load that fails does not get this far"));
    let bytes = |world: &World| save(world).encode(&EncodeOptions::default()).unwrap().to_vec();
    let (before, count) = (bytes(&world), world.entities().count_spawned());
    let error = load(&mut world).expect_err(what);
    assert_eq!(bytes(&world), before, "{what}");
    assert_eq!(world.entities().count_spawned(), count, "{what}");
    // And the world still works: entities can be spawned and loads succeed.
    for _ in 0..300 {
        world.spawn_empty();
    }
    error
}

#[test]
fn a_failed_load_of_every_kind_leaves_the_world_as_it_was() {
    let mut source = busy();
    source.spawn((Saved, Choosy(13)));
    let snapshot = source.capture(&SaveOptions::new()).unwrap();
    let bytes = snapshot.encode(&EncodeOptions::default()).unwrap().to_vec();

    let error =
        assert_unchanged("a custom codec", |world| world.load(&snapshot, LoadMode::Replace).map(drop));
    assert!(error.to_string().contains("thirteen") && error.key() == Some("test.choosy"), "{error}");

    let error = assert_unchanged("damaged bytes", |world| {
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        let snapshot = Snapshot::open(&damaged)?;
        world.load(&snapshot, LoadMode::Replace).map(drop)
    });
    assert!(error.is_corrupt(), "{error}");

    let error = assert_unchanged("a file that is not there", |world| {
        world.load_from("no/such/file.save", LoadMode::Replace).map(drop)
    });
    assert!(error.is_not_found(), "{error}");

    let error = assert_unchanged("another schema", |world| {
        #[derive(Component, bevy_bonfire::Persist)]
        #[persist(key = "test.team")]
        struct OtherTeam(String);
        let mut other = World::new();
        other.persist::<OtherTeam>();
        other.spawn((Saved, OtherTeam("red".into())));
        world.load(&save(&other), LoadMode::Replace).map(drop)
    });
    assert!(error.is_schema(), "{error}");

    let error = assert_unchanged("a dangling reference", |world| {
        let mut other = busy();
        let stray = other.spawn_empty().id();
        other.spawn((Saved, Follows { leader: stray, others: vec![], last: None }));
        let options = LoadOptions { dangling: Dangling::Refuse, ..LoadOptions::default() };
        world.load(&save(&other), options.mode(LoadMode::Replace)).map(drop)
    });
    assert!(error.is_dangling(), "{error}");

    let error = assert_unchanged("an unknown component", |world| {
        #[derive(Component, bevy_bonfire::Persist)]
        #[persist(key = "mod.laser")]
        struct Laser;
        let mut other = World::new();
        other.persist::<Laser>();
        other.spawn((Saved, Laser));
        let options = LoadOptions { unknown: Unknown::Refuse, ..LoadOptions::default() };
        world.load(&save(&other), options.mode(LoadMode::Replace)).map(drop)
    });
    assert!(error.is_unknown(), "{error}");
}

#[test]
fn failed_loads_use_up_no_ids() {
    let mut source = busy();
    source.spawn((Saved, Choosy(13)));
    let snapshot = save(&source);
    let mut world = busy();
    for _ in 0..50 {
        world.load(&snapshot, LoadMode::Replace).unwrap_err();
    }
    assert!(world.spawn_empty().id().index_u32() < 1000);
}

#[test]
fn references_to_nothing_become_placeholders_or_drop_their_component() {
    let mut source = world();
    let stray = source.spawn_empty().id();
    let entity =
        source.spawn((Saved, Follows { leader: stray, others: vec![stray], last: Some(stray) })).id();
    let mut target = world();
    let loaded = target.load(&save(&source), LoadMode::Replace).unwrap();
    let follows = target.get::<Follows>(loaded.entity(entity).unwrap()).unwrap();
    assert_eq!((follows.leader, follows.last), (Entity::PLACEHOLDER, None));
    assert_eq!(loaded.report.component("test.follows").unwrap().dangling, 3);
    let options = LoadOptions { dangling: Dangling::DropComponent, ..LoadOptions::default() };
    let loaded = target.load(&save(&source), options.mode(LoadMode::Replace)).unwrap();
    assert!(target.get::<Follows>(loaded.entity(entity).unwrap()).is_none());
}

/// Counts how often values are made and dropped.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

#[derive(Component, Debug)]
struct Guarded(#[expect(dead_code, reason = "something to drop")] Box<u32>);

impl Guarded {
    fn new(value: u32) -> Self {
        ALIVE.fetch_add(1, SeqCst);
        Self(Box::new(value))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let before = ALIVE.fetch_sub(1, SeqCst);
        assert!(before > 0, "a value was dropped twice");
    }
}

#[derive(Component, Persist, Clone)]
#[component(on_add = explode)]
#[persist(key = "test.mine")]
struct Mine(u32);

fn explode(world: DeferredWorld, context: HookContext) {
    if world.get::<Mine>(context.entity).unwrap().0 == 300 {
        panic!("boom");
    }
}

#[test]
fn a_panicking_hook_is_reported_and_nothing_is_dropped_twice() {
    let register = |world: &mut World| {
        let save = |_: &Guarded, _: &bevy_bonfire::core::SaveContext<'_>| Ok(Some(1_u32));
        let load = |saved: u32, _: &bevy_bonfire::LoadContext<'_>| Ok(Some(Guarded::new(saved)));
        world.persist_as::<Guarded>(Descriptor::custom("test.guarded", save, load)).persist::<Mine>();
    };
    let mut source = world();
    register(&mut source);
    let parent = source.spawn((Saved, Name::new("parent"))).id();
    for i in 0..600 {
        source.spawn((Saved, Mine(if i == 300 { 0 } else { i }), Guarded::new(i), ChildOf(parent)));
    }
    let (entity, _) = source.query::<(Entity, &Mine)>().iter(&source).find(|(_, mine)| mine.0 == 0).unwrap();
    let mut query = source.query::<&mut Mine>();
    query.get_mut(&mut source, entity).unwrap().0 = 300;
    let snapshot = save(&source);
    drop(source);
    assert_eq!(ALIVE.load(SeqCst), 0);

    for merge in [true, false] {
        let mut target = world();
        register(&mut target);
        let before = target.spawn((Saved, Name::new("before"))).id();
        target.init_resource::<Failure>();
        target.add_observer(|finished: On<LoadFinished>, mut failure: ResMut<Failure>| {
            failure.0 = finished.result.as_ref().err().map(ToString::to_string);
        });
        let mode = if merge { LoadMode::Merge } else { LoadMode::Replace };
        let error = target.load(&snapshot, mode).unwrap_err();
        assert!(error.to_string().contains("boom"), "{error}");
        assert!(error.to_string().contains("insert_by_ids"), "it says what not to do from now on: {error}");
        assert!(target.resource::<Failure>().0.as_ref().unwrap().contains("boom"));
        assert!(target.get_entity(before).is_ok(), "nothing is replaced before the load is complete");
        assert_eq!(names(&mut target), ["before"], "what was spawned is undone");
        // The world works on: queued commands find what they are about, new entities can be spawned.
        for _ in 0..1000 {
            target.spawn(Name::new("x"));
        }
        target.flush();
        drop(target);
        // Rows that were not spawned yet are leaked, never dropped twice: `Guarded::drop` would have panicked.
    }
}

#[derive(Resource, Default)]
struct Failure(Option<String>);

#[test]
fn observers_may_spawn_and_despawn_during_a_load() {
    let mut source = world();
    let parent = source.spawn((Saved, Name::new("root"))).id();
    for i in 0..300_u32 {
        let mut entity = source.spawn((Saved, ChildOf(parent), Position { x: i as f32, y: 0.0 }));
        if i % 3 == 0 {
            entity.insert(Enemy);
        }
        if i % 5 == 0 {
            entity.insert(Burning(format!("{i}")));
        }
    }
    let snapshot = save(&source);
    for _ in 0..3 {
        let mut target = world();
        target.load_late::<Burning>();
        target.add_observer(|_: On<Add<Position>>, mut commands: Commands| {
            commands.spawn(Name::new("spark"));
            let doomed = commands.spawn(Name::new("doomed")).id();
            commands.entity(doomed).despawn();
        });
        target.add_observer(|added: On<Add<Enemy>>, mut commands: Commands| {
            commands.entity(added.entity).despawn();
        });
        for _ in 0..5 {
            let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
            let mut left = target.query_filtered::<Entity, With<Position>>();
            assert_eq!(left.iter(&target).count(), 200);
            let root = loaded.entity(parent).unwrap();
            // An observer that despawns what was just added leaves its id in `Children`, with or without a load.
            let children = target.get::<Children>(root).unwrap();
            assert_eq!(children.iter().filter(|&child| target.get_entity(child).is_ok()).count(), 200);
            for (saved, new) in loaded.entities() {
                if let Some(position) = target.get::<Position>(new) {
                    assert_eq!(source.get::<Position>(saved.into()), Some(position));
                }
            }
        }
    }
}

#[test]
fn a_hundred_cycles_leave_no_orphans() {
    let mut world = world();
    let root = world.spawn((Saved, Name::new("root"))).id();
    let mut previous = root;
    for i in 0..150 {
        previous = world.spawn((Saved, ChildOf(if i % 4 == 0 { root } else { previous }), Team(i))).id();
    }
    let first = canonical(&world);
    let entities = world.entities().count_spawned();
    for cycle in 0..100 {
        let snapshot = save(&world);
        // Mutate: despawn a subtree, add entities, change values, reparent.
        let mut teams = world.query_filtered::<Entity, With<Team>>();
        let some: Vec<Entity> = teams.iter(&world).skip(cycle % 50).step_by(7).collect();
        for (i, entity) in some.into_iter().enumerate() {
            if let Ok(mut entity) = world.get_entity_mut(entity) {
                match i % 3 {
                    0 => entity.despawn(),
                    1 => drop(entity.insert((Burning("x".into()), Position::default()))),
                    _ => drop(entity.remove::<ChildOf>()),
                }
            }
        }
        world.spawn((Saved, Name::new("new")));
        world.load(&snapshot, LoadMode::Replace).unwrap();
        assert_eq!(world.entities().count_spawned(), entities, "cycle {cycle}");
    }
    assert_eq!(canonical(&world), first);
}

#[test]
fn what_is_loaded_after_a_panic_is_whole() {
    #[derive(Component, Persist, Clone)]
    #[persist(key = "test.touchy")]
    struct Touchy(u8);
    let mut app = bevy_app::App::new();
    app.add_plugins(BonfirePlugin::default().spawn_one_by_one()).persist::<Inventory>().persist::<Touchy>();
    let world = app.world_mut();
    let items = vec!["a long name that lies on the heap".to_owned()];
    world.spawn((Saved, Inventory { items: items.clone(), gold: Some(7) }, Touchy(1)));
    let snapshot = save(world);
    let observer = world.add_observer(|_: On<Insert<Touchy>>| panic!("once")).id();
    assert!(world.load(&snapshot, LoadMode::Replace).unwrap_err().to_string().contains("once"));
    world.despawn(observer);
    for mode in [LoadMode::Replace, LoadMode::Merge, LoadMode::Replace] {
        world.load(&snapshot, mode).unwrap();
        assert!(world.query::<(&Inventory, &Touchy)>().iter(world).all(|(bag, _)| bag.items == items));
    }
    assert_eq!(world.query::<(&Inventory, &Touchy)>().iter(world).count(), 1);
}
