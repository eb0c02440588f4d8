//! Saving and loading without a thread, as in browsers: ticks do the work, and the store answers between them.

mod common;

use std::time::Duration;

use bevy_app::{App, AppExit};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots, Store};
use bevy_bonfire::{Autosave, ExitOptions, SavePolicy, SavedOnExit};
use bevy_ecs::prelude::*;
use bonfire_testkit::later_store::LaterStore;
use common::*;

/// What observers heard.
#[derive(Resource, Default)]
struct Heard(Vec<String>);

fn plugin(store: impl Store + 'static) -> BonfirePlugin {
    BonfirePlugin::new().slots(Slots::new(store)).autosave(Autosave::off()).without_thread()
}

fn app_with(plugin: BonfirePlugin) -> App {
    let mut app = App::new();
    app.add_plugins(plugin);
    register(app.world_mut(), false);
    app.init_resource::<Heard>();
    app.add_observer(|done: On<SaveFinished>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("saved {}: {}", done.target, done.result.is_ok()));
    });
    app.add_observer(|done: On<LoadFinished>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("loaded: {}", done.result.is_ok()));
    });
    app
}

fn heard(app: &mut App) -> Vec<String> {
    std::mem::take(&mut app.world_mut().resource_mut::<Heard>().0)
}

/// Runs ticks, and answers the store in between, until nothing is left to do. Returns the number of ticks.
fn settle(app: &mut App, store: &LaterStore) -> usize {
    for ticks in 1..10_000 {
        app.update();
        store.answer();
        if !app.world().resource::<Saves>().is_busy() {
            return ticks;
        }
    }
    panic!("the work does not end");
}

fn spawn(app: &mut App, count: u32) {
    let rows = (0..count).map(|n| (Position { x: n as f32, y: 1.0 }, Saved));
    app.world_mut().spawn_batch(rows.collect::<Vec<_>>());
    app.world_mut().flush();
}

fn places(app: &mut App) -> Vec<f32> {
    let mut query = app.world_mut().query::<&Position>();
    let mut places: Vec<f32> = query.iter(app.world()).map(|position| position.x).collect();
    places.sort_by(f32::total_cmp);
    places
}

#[test]
fn commands_save_and_load_while_the_game_goes_on() {
    let store = LaterStore::new();
    let mut app = app_with(plugin(store.clone()));
    spawn(&mut app, 3);
    app.world_mut().commands().save("quick");
    app.world_mut().flush();
    for _ in 0..5 {
        app.update();
        assert_eq!(heard(&mut app), [""; 0], "the store has not answered");
    }
    assert!(store.is_waiting());
    settle(&mut app, &store);
    assert_eq!(heard(&mut app), ["saved slot `quick`: true"]);
    spawn(&mut app, 2);
    app.world_mut().commands().load("quick");
    app.world_mut().flush();
    settle(&mut app, &store);
    assert_eq!(heard(&mut app), ["loaded: true"]);
    assert_eq!(places(&mut app), [0.0, 1.0, 2.0]);
}

#[test]
fn a_large_world_takes_as_many_ticks_as_the_budget_says() {
    let ticks = |budget| {
        let store = LaterStore::new();
        let mut app = app_with(plugin(store.clone()).work_budget(budget));
        spawn(&mut app, 200_000);
        app.world_mut().resource_mut::<Saves>().save("large");
        let saving = settle(&mut app, &store);
        app.world_mut().resource_mut::<Saves>().load("large");
        let loading = settle(&mut app, &store);
        assert_eq!(heard(&mut app), ["saved slot `large`: true", "loaded: true"]);
        (saving, loading)
    };
    let (one_slice, all) = (ticks(Duration::ZERO), ticks(Duration::MAX));
    // 1.6 MB in slices of 256 KiB, in both directions.
    assert!(one_slice.0 >= all.0 + 5 && one_slice.1 >= all.1 + 5, "{one_slice:?} {all:?}");
}

#[test]
fn journals_and_autosaves_need_no_thread() {
    let store = LaterStore::new();
    let autosave = Autosave::every(Duration::ZERO);
    let mut app = app_with(plugin(store.clone()).autosave(autosave).policy(SavePolicy::Journal));
    spawn(&mut app, 100);
    for _ in 0..60 {
        app.update();
        store.answer();
    }
    let status = app.world().resource::<Saves>().status();
    assert!(status.saves >= 1 && status.appends >= 2 && status.failures == 0, "{status:?}");
}

#[test]
fn other_slots_have_no_thread_either() {
    let mut app = app_with(plugin(MemoryStore::new()));
    let mut saves = app.world_mut().resource_mut::<Saves>();
    saves.set_slots(Slots::new(MemoryStore::new())).unwrap();
    assert!(!saves.saver().has_thread());
}

#[test]
fn an_exit_does_what_can_be_done_in_time() {
    #[derive(Resource, Default)]
    struct Unfinished(Option<usize>);
    let exit = |store: &LaterStore, answers: bool| {
        let on_exit =
            ExitOptions::save("exit").deadline(Duration::from_millis(if answers { 60_000 } else { 1 }));
        let mut app = app_with(plugin(store.clone()).on_exit(on_exit));
        app.init_resource::<Unfinished>();
        app.add_observer(|exit: On<SavedOnExit>, mut unfinished: ResMut<Unfinished>| {
            unfinished.0 = Some(exit.unfinished.len());
        });
        spawn(&mut app, 3);
        app.world_mut().write_message(AppExit::Success);
        app.update();
        app.world().resource::<Unfinished>().0
    };
    let store = LaterStore::new();
    assert_eq!(exit(&store, false), Some(1));
    // Elsewhere than in a browser the exit waits.
    let store = LaterStore::new();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                store.answer();
                std::thread::yield_now();
            }
        });
        assert_eq!(exit(&store, true), Some(0));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
