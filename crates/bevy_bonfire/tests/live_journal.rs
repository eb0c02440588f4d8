//! Autosaves of which only what has changed is written.

mod common;

use std::time::Duration;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{Compaction, Keep, MemoryStore, Slots, Wait};
use bevy_bonfire::{SavePolicy, SaveReport, Ticks};
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
    slots.delete_slot("autosave").wait().unwrap();
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

/// What `SaveOptions` put beside the world is what the last save had, as if it were whole.
#[test]
fn metadata_and_data_of_the_last_save_are_there() {
    let slots = slots();
    let mut app = app(&slots);
    register(app.world_mut(), false);
    app.world_mut().spawn((Position::default(), Saved));
    for level in 1..4_u32 {
        let options = SaveOptions::new().metadata("level", level).data("test.level", &level).unwrap();
        let save = app.world_mut().resource_mut::<Saves>().save_with("autosave", options);
        app.update();
        save.wait().unwrap();
        app.update();
        let loaded = slots.load("autosave").wait().unwrap();
        assert_eq!(loaded.journal.is_some(), level > 1, "a delta");
        let said =
            loaded.snapshot.metadata().iter().find(|(name, _)| name == "level").map(|(_, value)| value);
        assert_eq!(said, Some(&bevy_bonfire::Value::from(level)), "level {level}");
        let data = loaded.snapshot.data().iter().find(|entry| entry.key() == "test.level").unwrap();
        assert_eq!(data.get::<u32>().unwrap(), level);
    }
}

/// A mark that comes and goes, entity by entity and tick by tick.
#[test]
fn an_entity_that_loses_and_regains_its_mark_is_where_it_was_last() {
    let slots = slots();
    let mut app = app(&slots);
    register(app.world_mut(), false);
    let keeper = app.world_mut().spawn((Position::default(), Saved)).id();
    let ships: Vec<Entity> = (0..8)
        .map(|n| app.world_mut().spawn((Position { x: n as f32, y: 0.0 }, Saved, ChildOf(keeper))).id())
        .collect();
    let whole = save(&mut app);
    for round in 0..6_usize {
        for (n, ship) in ships.iter().enumerate() {
            let mut ship = app.world_mut().entity_mut(*ship);
            match (n >> (round % 3)) & 1 {
                0 => _ = ship.remove::<Saved>(),
                _ => _ = ship.insert((Saved, Position { x: n as f32, y: round as f32 })),
            }
        }
        assert_eq!(save(&mut app).generation, whole.generation);
        let mut state = loaded(&slots);
        let mut found: Vec<(u32, u32)> = (state.query_filtered::<&Position, With<ChildOf>>().iter(&state))
            .map(|position| (position.x as u32, position.y as u32))
            .collect();
        found.sort_unstable();
        let expected: Vec<(u32, u32)> =
            (0..8).filter(|n| (n >> (round % 3)) & 1 == 1).map(|n| (n, round as u32)).collect();
        assert_eq!(found, expected, "round {round}");
    }
}

type Family = Vec<(u8, String)>;

/// Families in the order of their children, and the score with whether it leads to somebody.
fn state(world: &mut World) -> (Vec<Family>, Option<(u64, bool)>) {
    let mut families: Vec<Family> = (world.query::<&Children>().iter(world))
        .map(|children| {
            let child = |child: Entity| {
                let (team, burning) = (world.get::<Team>(child)?, world.get::<Burning>(child)?);
                Some((team.0, burning.0.clone()))
            };
            children.iter().filter_map(child).collect()
        })
        .collect();
    families.sort();
    let is_there = |best: Entity| world.get_entity(best).is_ok();
    let score = world.get_resource::<Score>();
    (families, score.map(|score| (score.points, score.best.is_some_and(is_there))))
}

/// The world is taken back to a checkpoint, or filled from elsewhere, without a word to the journal.
#[test]
fn restores_and_loads_that_the_game_does_itself_are_followed() {
    let slots = slots();
    let mut app = app(&slots);
    register(app.world_mut(), false);
    let parent = app.world_mut().spawn((Position::default(), Saved)).id();
    for n in 0..100_u8 {
        app.world_mut().spawn((Team(n), Burning(format!("{n}")), Saved, ChildOf(parent)));
    }
    app.world_mut().insert_resource(Score { points: 1, best: Some(parent) });
    let checkpoint = app.world_mut().capture_with_events(&SaveOptions::new()).unwrap();
    let same = |app: &mut App| assert_eq!(state(&mut loaded(&slots)), state(app.world_mut()));
    save(&mut app);
    let world = app.world_mut();
    let all: Vec<Entity> = world.query_filtered::<Entity, With<Team>>().iter(world).collect();
    all.iter().step_by(4).for_each(|entity| assert!(world.despawn(*entity)));
    all.iter().skip(1).step_by(4).for_each(|entity| _ = world.entity_mut(*entity).insert(Team(200)));
    world.remove_resource::<Score>();
    save(&mut app);
    for ticks in [Ticks::Differing, Ticks::All] {
        app.world_mut().load(&checkpoint, LoadMode::Restore(ticks)).unwrap();
        save(&mut app);
        same(&mut app);
    }
    app.world_mut().load(&checkpoint, LoadMode::Merge).unwrap();
    save(&mut app);
    same(&mut app);
    app.world_mut().load(&checkpoint, LoadMode::Replace).unwrap();
    save(&mut app);
    same(&mut app);
}

/// What a load brings that this build does not know is carried into the next save, whatever is appended.
#[test]
fn what_a_load_carries_is_in_the_next_save() {
    let slots = slots();
    let mut app = app(&slots);
    app.world_mut().persist::<Position>();
    app.world_mut().spawn((Position::default(), Saved));
    let mut other = empty_world();
    other.spawn((Position { x: 3.0, y: 0.0 }, Inventory { items: vec!["lamp".into()], gold: None }, Saved));
    let from_elsewhere = other.capture_with_events(&SaveOptions::new()).unwrap();
    save(&mut app);
    app.world_mut().load(&from_elsewhere, LoadMode::Merge).unwrap();
    save(&mut app);
    let mut state = loaded(&slots);
    let items: Vec<String> =
        state.query::<&Inventory>().iter(&state).flat_map(|inventory| inventory.items.clone()).collect();
    assert_eq!(items, ["lamp"]);
    assert_eq!(state.query::<&Position>().iter(&state).count(), 2);
}

#[test]
fn after_the_slot_was_emptied_the_next_save_is_whole() {
    let slots = slots();
    let mut app = app(&slots);
    register(app.world_mut(), false);
    app.world_mut().spawn((Position::default(), Saved));
    save(&mut app);
    save(&mut app);
    let removed = app.world_mut().resource_mut::<Saves>().delete_saves("autosave");
    let next = app.world_mut().resource_mut::<Saves>().save("autosave");
    app.update();
    assert!(removed.wait().unwrap() > 0);
    next.wait().unwrap();
    app.update();
    let mut state = loaded(&slots);
    assert_eq!(state.query::<&Position>().iter(&state).count(), 1);
    // By somebody else, behind our back: the save after the one that fails is whole.
    slots.delete_slot("autosave").wait().unwrap();
    let failed = app.world_mut().resource_mut::<Saves>().save("autosave");
    app.update();
    let failed = failed.wait();
    app.update();
    assert!(failed.is_err_and(|error| error.is_conflict()));
    save(&mut app);
    assert!(slots.load("autosave").wait().is_ok());
}
