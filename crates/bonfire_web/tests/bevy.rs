//! An app of Bevy on a page: ticks do the work of saves, and the browser answers between them.
#![cfg(target_arch = "wasm32")]

mod browser;

use std::time::Duration;

use bevy_app::{App, AppExit, FixedUpdate, Update};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots};
use bevy_bonfire::{Autosave, SaveHandle, SavePolicy};
use bevy_ecs::prelude::*;
use bevy_time::{Real, Time, TimePlugin};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

use crate::browser::{TimerStore, next_frame};

wasm_bindgen_test_configure!(run_in_browser);

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.place")]
#[require(Saved)]
struct Place {
    x: f32,
    y: f32,
}

/// A reference, which a load maps.
#[derive(Component, Persist)]
#[persist(key = "test.follows")]
struct Follows(Entity);

#[derive(Resource, Persist, Clone, Copy, Default)]
#[persist(key = "test.score")]
struct Score(u64);

/// What observers heard.
#[derive(Resource, Default)]
struct Heard(Vec<String>);

fn app(plugin: BonfirePlugin) -> App {
    let mut app = App::new();
    app.add_plugins((TimePlugin, plugin));
    app.persist::<Place>().persist::<Follows>().persist_resource::<Score>();
    app.init_resource::<Heard>().init_resource::<Score>();
    app.add_observer(|done: On<SaveFinished>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("saved {}: {:?}", done.target, done.result.as_ref().err()));
    });
    app.add_observer(|done: On<LoadFinished>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("loaded: {:?}", done.result.as_ref().err()));
    });
    app.add_systems(Update, |mut score: ResMut<Score>| score.0 += 1);
    app.add_systems(FixedUpdate, |mut places: Query<&mut Place>| {
        places.iter_mut().for_each(|mut place| place.y += 1.0);
    });
    app
}

fn plugin() -> BonfirePlugin {
    BonfirePlugin::new().slots(Slots::new(TimerStore::default())).autosave(Autosave::off())
}

fn heard(app: &mut App) -> Vec<String> {
    std::mem::take(&mut app.world_mut().resource_mut::<Heard>().0)
}

/// Runs a tick a frame until nothing is left to do. Returns how many there were.
async fn settle(app: &mut App) -> usize {
    for ticks in 1..5_000 {
        app.update();
        next_frame().await;
        if !app.world().resource::<Saves>().is_busy() {
            return ticks;
        }
    }
    panic!("the work does not end");
}

fn spawn(app: &mut App, count: u32) {
    let leader = app.world_mut().spawn(Place { x: 0.0, y: 0.0 }).id();
    let rows = (1..count).map(|n| (Place { x: n as f32, y: 0.0 }, Follows(leader)));
    app.world_mut().spawn_batch(rows.collect::<Vec<_>>());
    app.world_mut().flush();
}

fn saved(app: &mut App, slot: &str) -> SaveHandle {
    let handle = app.world_mut().commands().save(slot.to_owned());
    app.world_mut().flush();
    handle
}

#[wasm_bindgen_test]
async fn commands_save_and_load() {
    let mut app = app(plugin());
    spawn(&mut app, 10);
    let save = saved(&mut app, "quick");
    app.update();
    assert!(!save.is_complete(), "the game goes on");
    settle(&mut app).await;
    assert_eq!(heard(&mut app), ["saved slot `quick`: None"]);
    let score = app.world().resource::<Score>().0;
    assert_eq!(save.await.unwrap().entities, 10);
    spawn(&mut app, 5);
    app.world_mut().commands().load("quick");
    app.world_mut().flush();
    settle(&mut app).await;
    assert_eq!(heard(&mut app), ["loaded: None"]);
    let world = app.world_mut();
    assert_eq!(world.query::<&Place>().iter(world).count(), 10);
    assert!(world.resource::<Score>().0 <= score + 1, "the score is that of the save");
    let leaders: Vec<Entity> = world.query::<&Follows>().iter(world).map(|follows| follows.0).collect();
    assert!(leaders.iter().all(|&leader| world.get::<Place>(leader).unwrap().x == 0.0));
}

#[wasm_bindgen_test]
async fn a_large_world_is_saved_over_several_ticks() {
    let mut app = app(plugin().work_budget(Duration::ZERO));
    spawn(&mut app, 100_000);
    saved(&mut app, "large");
    assert!(settle(&mut app).await > 5);
    app.world_mut().resource_mut::<Saves>().load("large");
    settle(&mut app).await;
    assert_eq!(heard(&mut app), ["saved slot `large`: None", "loaded: None"]);
}

#[wasm_bindgen_test]
async fn the_game_saves_by_itself_and_writes_what_has_changed() {
    let autosave = Autosave::every(Duration::from_millis(20));
    let mut app = app(plugin().autosave(autosave).policy(SavePolicy::Journal));
    spawn(&mut app, 100);
    for _ in 0..2_000 {
        app.update();
        next_frame().await;
        if app.world().resource::<Saves>().status().appends >= 2 {
            break;
        }
    }
    let status = app.world().resource::<Saves>().status();
    assert!(status.saves >= 1 && status.appends >= 2 && status.failures == 0, "{status:?}");
    assert!(app.world().resource::<Time<Real>>().elapsed() > Duration::ZERO, "Bevy has a clock too");
}

#[wasm_bindgen_test]
async fn an_exit_does_what_needs_no_waiting() {
    let mut app = app(plugin().slots(Slots::new(MemoryStore::new())));
    spawn(&mut app, 10);
    saved(&mut app, "last");
    app.world_mut().write_message(AppExit::Success);
    app.update();
    assert_eq!(heard(&mut app), ["saved slot `last`: None"]);
}

#[wasm_bindgen_test]
fn a_world_without_the_plugin_saves_at_once() {
    let mut world = World::new();
    world.persist::<Place>();
    world.spawn(Place { x: 1.0, y: 2.0 });
    let snapshot = world.capture(&SaveOptions::new()).unwrap();
    world.spawn(Place { x: 3.0, y: 4.0 });
    world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(world.query::<&Place>().iter(&world).count(), 1);
}
