//! Autosaves of which only what has changed is written.

mod common;

use std::time::Duration;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{Compaction, Keep, MemoryStore, Slots, Wait};
use bevy_bonfire::{SavePolicy, SaveReport};
use bevy_ecs::prelude::*;
use common::simulation::{add_simulation, empty_world};
use common::*;

fn app(slots: &Slots) -> App {
    let mut app = App::new();
    app.add_plugins(
        BonfirePlugin::new().slots(slots.clone()).autosave(Autosave::off()).policy(SavePolicy::Journal),
    );
    app
}

fn slots() -> Slots {
    Slots::new(MemoryStore::new()).keep(Keep::newest(3))
}

/// Saves into the slot of the autosave.
fn save(app: &mut App) -> SaveReport {
    let save = app.world_mut().resource_mut::<Saves>().save("autosave");
    app.update();
    let report = save.wait().unwrap();
    app.update();
    report
}

/// What a load of the slot gives.
fn loaded(slots: &Slots) -> World {
    let mut world = empty_world();
    let loaded = slots.load("autosave").wait().unwrap();
    world.load(&loaded.snapshot, LoadMode::Replace).unwrap();
    world
}

#[test]
fn every_autosave_leads_to_the_world_as_it_was() {
    let slots = slots();
    let mut app = app(&slots);
    add_simulation(&mut app, 7, 200);
    app.add_observer(|mut starting: On<SaveStarting>| starting.attach("test.frame", &7_u32));
    let first = save(&mut app);
    let mut appended = 0;
    for _ in 0..12 {
        app.update();
        let report = save(&mut app);
        appended += usize::from(report.generation == first.generation);
        // The update after the save is not part of it.
        let state = loaded(&slots);
        let stamp = state.resource::<common::simulation::Stamp>();
        let frames = app.world().resource::<common::simulation::Frames>();
        assert_eq!(frames.states.get(&stamp.frame), Some(&stamp.hash), "a frame that there was");
        assert!(stamp.frame + 2 >= frames.now, "and the last one: {} of {}", stamp.frame, frames.now);
    }
    assert!(appended >= 10, "{appended}");
    let info = slots.load("autosave").wait().unwrap();
    assert!(info.journal.is_some_and(|replay| replay.records >= 1 && replay.lost.is_none()));
}

#[test]
fn what_is_appended_costs_what_has_changed() {
    let slots = slots();
    let mut app = app(&slots);
    register(app.world_mut(), false);
    let all: Vec<Entity> =
        (0..5000).map(|n| app.world_mut().spawn((Position { x: n as f32, y: 0.0 }, Saved)).id()).collect();
    let whole = save(&mut app);
    assert!(whole.bytes > 5000 * 8);
    app.world_mut().get_mut::<Position>(all[17]).unwrap().x = -1.0;
    let delta = save(&mut app);
    assert_eq!(delta.generation, whole.generation);
    // The first one brings the schemas.
    assert!(delta.bytes < 1500, "{delta:?}");
    app.world_mut().get_mut::<Position>(all[17]).unwrap().x = -2.0;
    let delta = save(&mut app);
    assert!(delta.bytes < 200, "{delta:?}");
    // Into other slots, everything.
    let other = app.world_mut().resource_mut::<Saves>().save("quick");
    app.update();
    assert!(other.wait().unwrap().bytes > 5000 * 8);
    app.world_mut().despawn(all[18]);
    let delta = save(&mut app);
    assert!(delta.bytes < 400 && delta.generation == whole.generation, "{delta:?}");
    let mut world = loaded(&slots);
    assert_eq!(world.query::<&Position>().iter(&world).count(), 4999);
    assert_eq!(world.query::<&Position>().iter(&world).filter(|position| position.x == -2.0).count(), 1);
}

#[test]
fn a_large_journal_is_begun_anew() {
    let slots = slots().compaction(Compaction::default().records(3));
    let mut app = app(&slots);
    register(app.world_mut(), false);
    let ship = app.world_mut().spawn((Position { x: 0.0, y: 0.0 }, Saved)).id();
    let generations: Vec<u64> = (0..9)
        .map(|turn| {
            app.world_mut().get_mut::<Position>(ship).unwrap().x = turn as f32;
            save(&mut app).generation.unwrap()
        })
        .collect();
    let first = generations[0];
    assert_eq!(generations, [0, 0, 0, 0, 1, 1, 1, 1, 2].map(|number| first + number));
    let mut world = loaded(&slots);
    assert_eq!(world.query::<&Position>().single(&world).unwrap().x, 8.0);
}

#[test]
fn after_a_load_and_after_a_failure_the_next_save_is_whole() {
    let slots = slots();
    let mut app = app(&slots);
    register(app.world_mut(), false);
    app.world_mut().spawn((Position { x: 1.0, y: 0.0 }, Saved));
    let first = save(&mut app).generation.unwrap();
    assert_eq!(save(&mut app).generation, Some(first));
    let load = app.world_mut().resource_mut::<Saves>().load("autosave");
    for _ in 0..200 {
        app.update();
        if load.is_complete() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    load.wait().unwrap();
    let second = save(&mut app).generation.unwrap();
    assert!(second > first);
    // Somebody removes it: the append fails, and says so; the next one is whole.
    slots.remove("autosave").wait().unwrap();
    let lost = app.world_mut().resource_mut::<Saves>().save("autosave");
    app.update();
    assert!(lost.wait().unwrap_err().is_conflict());
    app.update();
    let third = save(&mut app).generation.unwrap();
    assert_eq!(save(&mut app).generation, Some(third));
    let mut world = loaded(&slots);
    assert_eq!(world.query::<&Position>().iter(&world).count(), 1);
}

#[test]
fn a_component_that_is_registered_later_makes_the_next_save_whole() {
    let slots = slots();
    let mut app = app(&slots);
    register(app.world_mut(), false);
    let ship = app.world_mut().spawn((Position { x: 1.0, y: 0.0 }, Saved)).id();
    let first = save(&mut app).generation;
    app.persist::<Later>();
    app.world_mut().entity_mut(ship).insert(Later(3));
    let second = save(&mut app).generation;
    assert!(second > first);
    assert_eq!(save(&mut app).generation, second);
}

#[derive(Component, Persist)]
#[persist(key = "test.later")]
struct Later(u32);
