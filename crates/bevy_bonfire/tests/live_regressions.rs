//! What a review of live saving found.

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bevy_app::{App, AppExit, Update};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::disk::MemoryDisk;
use bevy_bonfire::store::{DirStore, MemoryStore, Slots};
use bevy_bonfire::{Autosave, ExitOptions, IncrementalCapture, SaveTarget, SavedOnExit, SlicedLoad};
use bevy_ecs::change_detection::DetectChangesMut;
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::prelude::*;
use common::*;

#[derive(Resource, Default)]
struct Unfinished(Option<usize>);

fn slots() -> Slots {
    Slots::new(DirStore::on(MemoryDisk::new()).unwrap())
}

fn app_with(plugin: BonfirePlugin) -> App {
    let mut app = App::new();
    app.add_plugins(plugin);
    register(app.world_mut(), false);
    app.init_resource::<Unfinished>();
    app.add_observer(|saved: On<SavedOnExit>, mut heard: ResMut<Unfinished>| {
        heard.0 = Some(saved.unfinished.len());
    });
    app
}

fn plugin() -> BonfirePlugin {
    BonfirePlugin::new().slots(slots()).autosave(Autosave::off())
}

fn saves(app: &mut App) -> Mut<'_, Saves> {
    app.world_mut().resource_mut::<Saves>()
}

fn hold(app: &mut App) -> Sender<()> {
    let (open, closed): (Sender<()>, Receiver<()>) = channel();
    let (begun, waits) = channel();
    saves(app).saver().run(move |_| {
        let _ = begun.send(());
        let _ = closed.recv();
        Ok(())
    });
    waits.recv().unwrap();
    open
}

fn exit(app: &mut App) {
    app.world_mut().write_message(AppExit::Success);
    app.update();
}

/// Runs it on a thread; false if it takes longer.
fn in_time(seconds: u64, work: impl FnOnce() + Send + 'static) -> bool {
    let (done, wait) = channel();
    std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    wait.recv_timeout(Duration::from_secs(seconds)).is_ok()
}

#[test]
fn exit_with_a_load_on_a_disk_that_hangs_ends() {
    let (give, take) = channel();
    let ended = in_time(8, move || {
        let deadline = ExitOptions::default().deadline(Duration::from_millis(200));
        let mut app = app_with(plugin().on_exit(deadline));
        give.send(hold(&mut app)).unwrap();
        saves(&mut app).load("quick");
        app.update();
        exit(&mut app);
        drop(app);
    });
    let held = take.recv().unwrap();
    assert!(ended, "the process does not end");
    drop(held);
}

#[test]
fn a_save_that_was_not_even_captured_at_exit_is_unfinished() {
    let on_exit = ExitOptions::save("exit").deadline(Duration::from_millis(200));
    let mut app = app_with(plugin().on_exit(on_exit));
    let held = hold(&mut app);
    saves(&mut app).load("quick");
    app.update();
    exit(&mut app);
    let unfinished = app.world().resource::<Unfinished>().0;
    drop(held);
    assert_eq!(unfinished, Some(1));
}

#[test]
fn exit_ends_though_an_observer_of_each_save_asks_for_a_copy() {
    let ended = in_time(10, || {
        let on_exit = ExitOptions::save("exit").deadline(Duration::from_millis(200));
        let mut app = app_with(plugin().on_exit(on_exit));
        app.add_observer(|_: On<SaveStarting>, mut saves: ResMut<Saves>| {
            saves.save("copy");
        });
        exit(&mut app);
        drop(app);
    });
    assert!(ended, "the last tick never ends");
}

#[test]
fn without_the_plugin_what_observers_ask_for_is_done() {
    let mut world = world();
    world.spawn((Saved, Position::default()));
    let store = MemoryStore::new();
    let (first, second) =
        (SaveTarget::blob(store.clone(), "first"), SaveTarget::blob(store.clone(), "second"));
    #[derive(Resource, Default)]
    struct Heard(Vec<String>);
    world.init_resource::<Heard>();
    world.add_observer(move |done: On<SaveFinished>, mut commands: Commands, mut heard: ResMut<Heard>| {
        heard.0.push(done.target.to_string());
        if done.target.to_string().contains("first") {
            commands.save(second.clone());
        }
    });
    world.commands().save(first);
    world.flush();
    world.flush();
    assert_eq!(world.resource::<Heard>().0, ["blob `first`", "blob `second`"]);
}

#[test]
fn systems_see_what_a_load_in_slices_added() {
    #[derive(Resource, Default)]
    struct Seen(usize, usize);
    let load = |sliced: bool| {
        let mut app = app_with(plugin());
        app.init_resource::<Seen>();
        app.add_systems(
            Update,
            |added: Query<(), Added<Position>>,
             changed: Query<(), Changed<Position>>,
             mut seen: ResMut<Seen>| {
                seen.0 += added.iter().count();
                seen.1 += changed.iter().count();
            },
        );
        let mut other = world();
        other.spawn_batch((0..1000).map(|x| (Saved, Position { x: x as f32, y: 0.0 })));
        let snapshot = save(&other);
        app.update();
        if sliced {
            let mut load = SlicedLoad::new(app.world(), snapshot, LoadMode::Replace).unwrap();
            while load.step(app.world_mut(), Duration::ZERO).unwrap().is_none() {
                app.update();
            }
        } else {
            app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
        }
        app.update();
        let seen = app.world().resource::<Seen>();
        (seen.0, seen.1)
    };
    assert_eq!(load(false), (1000, 1000));
    assert_eq!(load(true), (1000, 1000));
}

#[test]
fn ticks_that_have_gone_round_once_are_no_reason_to_share_what_has_changed() {
    let mut world = world();
    let entity = world.spawn((Saved, Position::default())).id();
    let mut captures = IncrementalCapture::new();
    captures.capture(&mut world, &SaveOptions::new()).unwrap();
    world.get_mut::<Position>(entity).unwrap().x = 7.0;
    // As an app does: ticks are checked now and then.
    // Round once at full scale, which takes a minute; else nothing is proven but that it compiles.
    let ticks = if bonfire_testkit::scale() >= 100 { 1_u64 << 32 } else { 1000 };
    for round in 0..ticks {
        world.increment_change_tick();
        if round % 500_000_000 == 0 {
            world.check_change_ticks();
        }
    }
    let incremental = captures.capture(&mut world, &SaveOptions::new()).unwrap();
    assert_eq!(incremental.to_bytes().unwrap(), save(&world).to_bytes().unwrap());
}

#[test]
fn an_order_of_siblings_that_is_carried_is_carried_once() {
    let mut other = world();
    let station = other.spawn((Saved, Position::default())).id();
    let dock = |berth: &str| DockedAt { station, berth: berth.to_owned() };
    other.spawn((Saved, dock("a")));
    let late = other.spawn((Saved, dock("b"), Enemy)).id();
    other.spawn((Saved, dock("c")));
    let _ = late;
    let snapshot = save(&other);
    assert!(!snapshot.data().is_empty());
    // A build that does not know the relationship.
    let mut world = World::new();
    world.persist::<Position>();
    world.load(&snapshot, LoadMode::Replace).unwrap();
    let mut captures = IncrementalCapture::new();
    for _ in 0..3 {
        let incremental = captures.capture(&mut world, &SaveOptions::new()).unwrap();
        assert_eq!(incremental.data().len(), save(&world).data().len());
    }
}

#[test]
fn requests_from_inside_a_scope_of_saves() {
    let mut app = app_with(plugin());
    let handle = app.world_mut().resource_scope(|world, _saves: Mut<Saves>| {
        let handle = world.commands().save("quick");
        world.flush();
        handle
    });
    app.update();
    assert!(app.world().contains_resource::<Saves>());
    let again = saves(&mut app).save("quick");
    app.update();
    again.wait().unwrap();
    let refused = handle.wait().unwrap_err();
    assert!(refused.is_misuse() && refused.to_string().contains("taken `Saves` out"), "{refused}");
}

#[test]
fn a_game_may_remove_saves_in_an_observer() {
    let mut app = app_with(plugin());
    app.add_observer(|_: On<SaveFinished>, mut commands: Commands| commands.remove_resource::<Saves>());
    let handle = saves(&mut app).save("quick");
    app.update();
    handle.wait().unwrap();
    for _ in 0..3 {
        app.update();
    }
}

#[test]
fn an_index_that_panics_when_entities_arrive_leaves_the_world_as_it_was() {
    let mut world = world();
    let armed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let panics = armed.clone();
    world.index_by(move |position: &Position| {
        assert!(!panics.load(std::sync::atomic::Ordering::Relaxed), "boom");
        position.x as u32
    });
    for x in 0..5 {
        world.spawn((Saved, Position { x: x as f32, y: 0.0 }));
    }
    let snapshot = save(&world);
    let mut load = SlicedLoad::new(&world, snapshot, LoadMode::Replace).unwrap();
    armed.store(true, std::sync::atomic::Ordering::Relaxed);
    let before = canonical(&world);
    while let Ok(None) = load.step(&mut world, Duration::ZERO) {}
    armed.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(canonical(&world), before);
}

#[test]
fn a_game_may_remove_saves_in_an_observer_at_the_end_of_the_tick() {
    let mut app = app_with(plugin());
    app.add_observer(|_: On<LoadFinished>, mut commands: Commands| commands.remove_resource::<Saves>());
    saves(&mut app).load("nothing");
    saves(&mut app).save("quick");
    for _ in 0..100 {
        app.update();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[component(summary_tick)]
#[persist(key = "test.mass")]
struct Mass(u32);

#[test]
fn two_names_of_one_file_do_not_change_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (
        directory.path().join("world.save"),
        directory.path().join(".").join("x").join("..").join("world.save"),
    );
    std::fs::create_dir(directory.path().join("x")).unwrap();
    let mut app = app_with(plugin());
    let named = |name: &str| SaveOptions::new().metadata("name", name);
    saves(&mut app).save_with(one.clone(), named("1"));
    saves(&mut app).save_with(other, named("2"));
    let last = saves(&mut app).save_with(one.clone(), named("3"));
    app.update();
    while !last.is_complete() || app.world().resource::<Saves>().is_busy() {
        app.update();
    }
    let snapshot = bevy_bonfire::store::read(&one, &bevy_bonfire::Limits::default()).unwrap();
    assert!(format!("{:?}", snapshot.metadata()).contains("\"3\""), "{:?}", snapshot.metadata());
}

#[test]
fn a_resource_that_was_left_out_of_a_checkpoint_is_there_after_going_back() {
    use bevy_bonfire::{Checkpoints, Descriptor};
    let mut world = World::new();
    let descriptor = Descriptor::of::<Score>().skip_if(|score: &Score| score.points == 0).unwrap();
    world.persist_as::<Score>(descriptor);
    world.insert_resource(Score::default());
    let mut checkpoints = Checkpoints::new(10);
    checkpoints.take(&mut world, 0).unwrap();
    world.resource_mut::<Score>().points = 5;
    checkpoints.take(&mut world, 1).unwrap();
    checkpoints.rewind(&mut world, 0).unwrap();
    assert!(world.contains_resource::<Score>(), "systems with Res<Score> panic from now on");
}

#[test]
fn bytes_are_compared_from_now_on_also_if_an_observer_of_the_save_says_so() {
    let mut app = app_with(plugin());
    app.add_observer(|_: On<SaveStarting>, mut saves: ResMut<Saves>, mut once: Local<bool>| {
        if !std::mem::replace(&mut *once, true) {
            saves.compare_bytes();
        }
    });
    let entity = app.world_mut().spawn((Saved, Position::default())).id();
    let first = saves(&mut app).save("quick");
    app.update();
    first.wait().unwrap();
    app.update();
    app.world_mut().get_mut::<Position>(entity).unwrap().bypass_change_detection().x = 9.0;
    let second = saves(&mut app).save("quick");
    app.update();
    second.wait().unwrap();
    use bevy_bonfire::store::Wait;
    let saved = saves(&mut app).slots().unwrap().clone().load("quick").wait().unwrap().snapshot;
    let mut other = world();
    other.load(&saved, LoadMode::Replace).unwrap();
    assert_eq!(other.query::<&Position>().single(&other).unwrap().x, 9.0);
}

#[test]
fn captures_are_right_after_strange_ways_to_change_a_world() {
    let mut world = world();
    world.persist::<Mass>();
    let mut captures = IncrementalCapture::new();
    let mut check = |world: &mut World, what: &str| {
        let incremental = captures.capture(world, &SaveOptions::new()).unwrap();
        assert!(incremental.to_bytes().unwrap() == save(world).to_bytes().unwrap(), "{what}");
    };
    let many: Vec<Entity> = (0..300)
        .map(|n| {
            world.spawn((Saved, Mass(n), Position::default(), Burning(n.to_string()), Team(n as u8))).id()
        })
        .collect();
    world.insert_resource(Score::default());
    check(&mut world, "first");
    let last = many[299];
    world.entity_mut(last).insert(Enemy);
    world.get_mut::<Mass>(last).unwrap().0 = 77;
    world.entity_mut(last).remove::<Enemy>();
    check(&mut world, "away and back into the same row");
    world.entity_mut(last).remove::<Burning>();
    world.entity_mut(last).insert(Burning("again".into()));
    check(&mut world, "sparse removed and inserted");
    let taken = world.entity_mut(last).take::<Mass>().unwrap();
    world.entity_mut(last).insert(Mass(taken.0 + 1));
    check(&mut world, "taken and put back");
    world.entity_mut(many[5]).insert(Team(200));
    world.entity_mut(many[5]).insert_if_new(Team(201));
    check(&mut world, "immutable");
    world.modify_component(many[6], |team: &mut Mass| team.0 = 5).unwrap();
    check(&mut world, "modified");
    world.resource_scope(|_, mut score: Mut<Score>| score.points = 9);
    check(&mut world, "resource scope");
    let old = world.remove_resource::<Score>().unwrap();
    check(&mut world, "resource gone");
    world.insert_resource(Score { points: old.points + 1, best: None });
    check(&mut world, "resource back");
    let parent = world.spawn((Saved, Position::default())).id();
    let children: Vec<Entity> = (0..5).map(|n| world.spawn((Saved, Mass(n), ChildOf(parent))).id()).collect();
    check(&mut world, "children");
    world.get_mut::<Children>(parent).unwrap().swap(0, 3);
    check(&mut world, "swapped");
    world.entity_mut(parent).insert_children(0, &[children[2]]);
    check(&mut world, "inserted at front");
    world.entity_mut(parent).replace_children(&[children[4], children[0]]);
    check(&mut world, "replaced");
    let mut query = world.query::<&mut Mass>();
    for mut mass in query.contiguous_iter_mut(&mut world).unwrap() {
        mass[0].0 += 1;
    }
    check(&mut world, "contiguous");
    for &entity in many.iter().rev().take(100) {
        world.despawn(entity);
    }
    let again: Vec<Entity> = (0..100)
        .map(|n| {
            world.spawn((Saved, Mass(n), Position::default(), Burning(n.to_string()), Team(n as u8))).id()
        })
        .collect();
    check(&mut world, "despawned and respawned");
    let empty = world.spawn(Saved).id();
    world.entity_mut(again[99]).clone_components::<(Mass, Team)>(empty);
    world.entity_mut(again[98]).move_components::<(Mass, Team)>(empty);
    check(&mut world, "cloned and moved");
    world.entity_mut(again[50]).insert(Disabled);
    world.entity_mut(again[50]).retain::<(Saved, Mass)>();
    check(&mut world, "retained");
    world.resource_mut::<Score>().points = 1;
    world.get_mut::<Mass>(again[3]).unwrap().set_if_neq(Mass(4242));
    check(&mut world, "set if not equal");
}

#[test]
fn a_hook_of_a_load_by_hand_may_wait_for_a_save() {
    let ended = in_time(10, || {
        let mut app = app_with(plugin());
        let mut other = world();
        other.spawn_batch((0..100).map(|x| (Saved, Position { x: x as f32, y: 0.0 })));
        let snapshot = save(&other);
        app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
        let first = saves(&mut app).save("quick");
        app.update();
        first.wait().unwrap();
        let held = std::sync::Mutex::new(Some(hold(&mut app)));
        saves(&mut app).load("quick");
        app.update();
        let later = saves(&mut app).saver().run(|_| Ok(()));
        app.add_observer(move |_: On<Add<Position>>| {
            held.lock().unwrap().take();
            let _ = later.wait();
        });
        app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    });
    assert!(ended, "a deadlock: the batch has the turn, the saver waits for it, the hook for the saver");
}

#[test]
fn a_second_exit_of_an_app_that_went_on_saves_too() {
    let mut app = app_with(plugin().on_exit(ExitOptions::save("exit")));
    app.world_mut().insert_resource(Score { points: 1, best: None });
    app.world_mut().spawn(Saved);
    exit(&mut app);
    // A runner that asks "really?", an editor that stops and starts the game.
    for _ in 0..5 {
        app.update();
    }
    app.world_mut().insert_resource(Score { points: 2, best: None });
    exit(&mut app);
    use bevy_bonfire::store::Wait;
    let saved = saves(&mut app).slots().unwrap().clone().load("exit").wait().unwrap();
    assert_eq!(saved.info.generation, 2);
}

#[test]
fn a_menu_does_not_rotate_the_players_autosaves_away() {
    use bevy_bonfire::store::Wait;
    let slots = slots();
    let plugin =
        || BonfirePlugin::new().slots(slots.clone()).autosave(Autosave::every(Duration::from_millis(1)));
    let mut app = app_with(plugin());
    app.world_mut().spawn((Saved, Position::default()));
    let run = |app: &mut App, count: u64| {
        while app.world().resource::<Saves>().status().saves < count {
            app.update();
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    run(&mut app, 1);
    drop(app);
    // The next day: the player looks at the menu for some minutes; no world is loaded.
    let mut app = app_with(plugin());
    for _ in 0..200 {
        app.update();
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(app);
    let newest = slots.load("autosave").wait().unwrap();
    assert_eq!(newest.snapshot.entity_count(), 1, "what `Continue` loads");
}

static DROPPED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Plain bytes, but with a drop.
#[derive(Component, Persist, Debug, PartialEq)]
#[persist(key = "test.counted")]
struct Counted(u64);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[derive(Component, Persist, Debug, PartialEq)]
#[component(storage = "SparseSet")]
#[persist(key = "test.wide")]
struct Wide([u64; 40]);

// No finding: right.
#[test]
fn values_with_a_drop_in_pages_are_dropped_once() {
    use bevy_bonfire::Ticks;
    for ticks in [Ticks::All, Ticks::Differing] {
        DROPPED.store(0, std::sync::atomic::Ordering::Relaxed);
        let mut world = World::new();
        world.persist::<Counted>().persist::<Wide>().persist::<Enemy>();
        let many: Vec<Entity> =
            (0..5000).map(|n| world.spawn((Saved, Counted(n), Wide([n; 40]), Enemy)).id()).collect();
        let mut captures = IncrementalCapture::new();
        let snapshot = captures.capture(&mut world, &SaveOptions::new()).unwrap();
        let before = snapshot.canonical_sorted().unwrap().to_json().unwrap();
        for (number, &entity) in many.iter().enumerate() {
            match number % 50 {
                3 => _ = world.despawn(entity),
                7 => _ = world.entity_mut(entity).remove::<Counted>(),
                11 => _ = world.entity_mut(entity).remove::<Wide>(),
                13 => _ = world.entity_mut(entity).remove::<Enemy>(),
                17 => world.get_mut::<Counted>(entity).unwrap().0 += 1,
                _ => {}
            }
        }
        world.load(&snapshot, LoadMode::Restore(ticks)).unwrap();
        let after = captures.capture(&mut world, &SaveOptions::new()).unwrap();
        assert_eq!(after.to_bytes().unwrap(), save(&world).to_bytes().unwrap());
        assert_eq!(after.canonical_sorted().unwrap().to_json().unwrap().len(), before.len());
        drop(world);
        let dropped = DROPPED.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(dropped, 10_000, "{ticks:?}");
    }
}

// No finding, or so we hope.
#[test]
fn captures_during_a_load_in_slices_are_right() {
    let mut world = world();
    let mut other = common::world();
    for n in 0..3000 {
        let parent = other.spawn((Saved, Position { x: n as f32, y: 0.0 }, Inventory::default())).id();
        other.spawn((Saved, ChildOf(parent), Burning("x".into())));
    }
    let snapshot = save(&other);
    for n in 0..500 {
        world.spawn((Saved, Position { x: n as f32, y: 0.0 }, Inventory::default()));
    }
    let mut captures = IncrementalCapture::new();
    let mut load = SlicedLoad::new(&world, snapshot, LoadMode::Replace).unwrap();
    let mut number = 0;
    loop {
        let done = load.step(&mut world, Duration::ZERO).unwrap().is_some();
        let incremental = captures.capture(&mut world, &SaveOptions::new()).unwrap();
        assert!(incremental.to_bytes().unwrap() == save(&world).to_bytes().unwrap());
        let mut query = world.query::<&mut Position>();
        query.iter_mut(&mut world).skip(number % 70).step_by(97).for_each(|mut position| position.y += 1.0);
        let entity = world.query_filtered::<Entity, With<Position>>().iter(&world).nth(number % 30).unwrap();
        world.despawn(entity);
        number += 1;
        if done {
            break;
        }
    }
    let incremental = captures.capture(&mut world, &SaveOptions::new()).unwrap();
    assert!(incremental.to_bytes().unwrap() == save(&world).to_bytes().unwrap());
}

#[test]
fn an_older_save_does_not_replace_a_newer_one_that_was_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("world.save");
    let mut app = app_with(plugin());
    let held = hold(&mut app);
    app.world_mut().insert_resource(Score { points: 1, best: None });
    let old = saves(&mut app).save_to(&path);
    app.update();
    app.world_mut().insert_resource(Score { points: 2, best: None });
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
    });
    app.world_mut().save_to(&path, &SaveOptions::new()).unwrap();
    old.wait().unwrap();
    let mut other = world();
    other.load_from(&path, LoadMode::Replace).unwrap();
    assert_eq!(other.resource::<Score>().points, 2);
}

#[test]
fn observers_are_told_of_a_load_that_the_exit_gave_up() {
    #[derive(Resource, Default)]
    struct Told(usize);
    let mut app = app_with(plugin().on_exit(ExitOptions::default().deadline(Duration::from_millis(100))));
    app.init_resource::<Told>();
    app.add_observer(|_: On<LoadFinished>, mut told: ResMut<Told>| told.0 += 1);
    let held = hold(&mut app);
    let load = saves(&mut app).load("quick");
    app.update();
    exit(&mut app);
    let (told, complete) = (app.world().resource::<Told>().0, load.is_complete());
    drop(held);
    assert_eq!((told, complete), (1, true));
}

#[test]
fn an_order_that_is_carried_is_not_lost_when_there_is_one_of_this_build() {
    assert_eq!(berths(false), ["a", "b", "c"]);
    assert_eq!(berths(true), ["a", "b", "c"]);
}

#[test]
fn a_capture_over_another_has_its_data_in_the_same_order() {
    let (mut world, snapshot) = carrying();
    world.load(&snapshot, LoadMode::Replace).unwrap();
    let options = SaveOptions::new().data("game.seed", &7_u32).unwrap();
    let mut captures = IncrementalCapture::new();
    for round in 0..3 {
        let incremental = captures.capture(&mut world, &options).unwrap();
        let keys = |snapshot: &bevy_bonfire::Snapshot| -> Vec<String> {
            snapshot.data().iter().map(|entry| entry.key().to_owned()).collect()
        };
        assert_eq!(keys(&incremental), keys(&world.capture(&options).unwrap()), "{round}");
    }
}

#[test]
fn a_load_that_waits_for_the_end_of_the_game_can_be_cancelled() {
    let mut app = app_with(plugin());
    let held = hold(&mut app);
    let load = saves(&mut app).load("quick");
    app.update();
    let save = saves(&mut app).save("other");
    load.cancel();
    for _ in 0..50 {
        app.update();
        std::thread::sleep(Duration::from_millis(1));
    }
    let done = (load.is_complete(), save.is_complete(), saves(&mut app).loading().is_some());
    drop(held);
    // What was cancelled before its turn came could end at once.
    assert_eq!(done, (true, false, false));
}

#[test]
fn without_the_plugin_a_panic_of_an_observer_is_not_the_end_of_saving() {
    let mut world = world();
    let target = SaveTarget::blob(MemoryStore::new(), "first");
    world.add_observer(|_: On<SaveStarting>, mut once: Local<bool>| {
        assert!(std::mem::replace(&mut *once, true), "boom");
    });
    let handle = world.commands().save(target.clone());
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.flush()));
    assert!(handle.is_complete());
    let handle = world.commands().save(target);
    world.flush();
    assert!(handle.is_complete(), "it waits for a plugin that is not there");
}

/// Ships in the order of their list, after a build that does not know of them.
fn berths(own_order: bool) -> Vec<String> {
    let (mut world, snapshot) = carrying();
    world.load(&snapshot, LoadMode::Replace).unwrap();
    // Children of this build's own whose order is not that of rows.
    let parent = world.spawn((Saved, Position::default())).id();
    for _ in 0..3 {
        world.spawn((Saved, ChildOf(parent)));
    }
    if own_order {
        world.get_mut::<Children>(parent).unwrap().swap(0, 2);
    }
    let again = save(&world);
    let mut back = common::world();
    back.load(&again, LoadMode::Replace).unwrap();
    let docked = back.query::<&DockedShips>().single(&back).unwrap();
    docked.ships().iter().map(|&ship| back.get::<DockedAt>(ship).unwrap().berth.clone()).collect()
}

/// A world that does not know a relationship, and a save that has it.
fn carrying() -> (World, bevy_bonfire::Snapshot) {
    let mut other = world();
    let station = other.spawn((Saved, Position::default())).id();
    let dock = |berth: &str| DockedAt { station, berth: berth.to_owned() };
    other.spawn((Saved, dock("a")));
    other.spawn((Saved, dock("b"), Enemy));
    other.spawn((Saved, dock("c")));
    let mut world = World::new();
    world.persist::<Position>();
    (world, save(&other))
}

#[test]
fn a_game_may_remove_saves_in_an_observer_at_the_exit() {
    let mut app = app_with(plugin().on_exit(ExitOptions::save("exit")));
    app.add_observer(|_: On<SaveFinished>, mut commands: Commands| commands.remove_resource::<Saves>());
    saves(&mut app).save("quick");
    exit(&mut app);
    assert!(!app.world().contains_resource::<Saves>());
}
