//! Choices of entities by list and by value, and the resources that belong to a choice.

mod common;

use bevy_app::{App, AppExit};
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots, Wait};
use bevy_bonfire::{Checkpoints, Filter, Selection};
use bevy_ecs::prelude::*;
use common::*;

fn names(world: &mut World) -> Vec<String> {
    let mut names: Vec<String> = world.query::<&Name>().iter(world).map(ToString::to_string).collect();
    names.sort();
    names
}

fn populated() -> (World, Vec<Entity>) {
    let mut world = world();
    world.insert_resource(Score { points: 7, best: None });
    let entities = ["a", "b", "c"].map(|name| world.spawn((Saved, Name::new(name))).id());
    (world, entities.to_vec())
}

#[test]
fn entities_are_chosen_by_a_list() {
    let (mut world, entities) = populated();
    let stale = world.spawn((Saved, Name::new("gone"))).id();
    world.despawn(stale);
    let unsaved = world.spawn(Name::new("not saved")).id();
    let options = SaveOptions::new().entities([entities[0], entities[2], stale, unsaved]);
    let snapshot = world.capture(&options).unwrap();
    let mut target = common::world();
    target.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(names(&mut target), ["a", "c"]);
}

#[test]
fn entities_are_chosen_by_value() {
    let (world, _) = populated();
    let selection =
        Selection::new().only(|entity| entity.get::<Name>().is_some_and(|name| name.as_str() > "a"));
    let snapshot = world.capture(&SaveOptions::new().selection(selection.clone())).unwrap();
    assert_eq!(snapshot.entity_count(), 2);
    let both = selection.only(|entity| entity.get::<Name>().is_some_and(|name| name.as_str() < "c"));
    assert_eq!(world.capture(&SaveOptions::new().selection(both)).unwrap().entity_count(), 1);
}

#[test]
fn a_choice_has_resources_only_if_it_asks_for_them() {
    let (mut world, entities) = populated();
    let keys = |selection: Selection| {
        let snapshot = world.capture(&SaveOptions::new().selection(selection)).unwrap();
        snapshot.prelude().components.iter().any(|component| component.key == "test.score")
    };
    assert!(keys(Selection::new()), "everything is everything");
    assert!(!keys(Selection::new().matching::<With<Name>>()));
    assert!(!keys(Selection::new().entities([entities[0]])));
    assert!(!keys(Selection::new().filter(Filter::new().include("bevy.name"))));
    assert!(
        keys(Selection::new().filter(Filter::new().exclude("test.enemy"))),
        "who leaves out keeps the rest"
    );
    assert!(!keys(Selection::new().filter(Filter::new().exclude("test.score"))));
    assert!(keys(Selection::new().entities([entities[0]]).resource("test.score")));
    assert!(!keys(Selection::new().entities([entities[0]]).resource("test.other")));
    assert!(keys(Selection::new().entities([entities[0]]).all_resources()));

    // Loading only a part back does not touch them either.
    let whole = save(&world);
    world.resource_mut::<Score>().points = 8;
    for mode in [
        LoadMode::ReplaceSelected(Selection::new().matching::<With<Name>>()),
        LoadMode::RestoreSelected(Selection::new().matching::<With<Name>>(), Ticks::All),
    ] {
        let loaded = world.load(&whole, mode).unwrap();
        assert_eq!(world.resource::<Score>().points, 8);
        assert!(loaded.report.component("test.score").is_none(), "{}", loaded.report);
    }
    world
        .load(&whole, LoadMode::ReplaceSelected(Selection::new().matching::<With<Name>>().all_resources()))
        .unwrap();
    assert_eq!(world.resource::<Score>().points, 7);
}

#[test]
fn a_load_on_the_other_thread_leaves_resources_alone_too() {
    let slots = Slots::new(MemoryStore::new());
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new().slots(slots).autosave(Autosave::off()));
    register(app.world_mut(), false);
    app.world_mut().insert_resource(Score { points: 1, best: None });
    app.world_mut().spawn((Saved, Name::new("player")));
    app.world_mut().resource_mut::<Saves>().save("quick");
    app.update();
    app.world_mut().resource_mut::<Score>().points = 2;
    let selection = Selection::new().matching::<With<Name>>();
    let load =
        app.world_mut().resource_mut::<Saves>().load_with("quick", LoadMode::ReplaceSelected(selection));
    while !load.is_complete() {
        app.update();
    }
    load.result().unwrap().unwrap();
    assert_eq!(app.world().resource::<Score>().points, 2);
}

#[test]
fn an_exit_from_a_menu_saves_no_empty_world() {
    let slots = Slots::new(MemoryStore::new());
    for visit in 0..4 {
        let mut app = App::new();
        let plugin = BonfirePlugin::new().slots(slots.clone()).autosave(Autosave::off());
        app.add_plugins(plugin.on_exit(ExitOptions::save("exit")));
        register(app.world_mut(), false);
        app.world_mut().insert_resource(Score { points: 1, best: None });
        if visit == 0 {
            app.world_mut().spawn((Saved, Name::new("hero")));
        }
        app.world_mut().write_message(AppExit::Success);
        app.update();
    }
    let loaded = slots.load("exit").wait().unwrap();
    assert_eq!((loaded.info.generation, loaded.snapshot.entity_count()), (1, 1));
}

#[derive(Resource, Clone, Copy, PartialEq, Debug)]
struct Weather(u32);

#[derive(Component)]
struct Spark;

#[test]
fn checkpoints_have_the_data_of_plugins() {
    let mut world = world();
    world.persist_ignore::<Spark>();
    world.insert_resource(Weather(0));
    world.add_observer(|mut starting: On<SaveStarting>, weather: Res<Weather>| {
        starting.attach("weather", &weather.0);
        starting.exclude::<Spark>();
    });
    world.add_observer(|mut starting: On<LoadStarting>| {
        starting.on_data("weather", |world, weather: u32| {
            world.insert_resource(Weather(weather));
            Ok(())
        });
    });
    let spark = world.spawn((Saved, Spark)).id();
    let mut checkpoints = Checkpoints::new(10);
    for tick in 0..5 {
        world.insert_resource(Weather(tick as u32));
        checkpoints.take(&mut world, tick).unwrap();
    }
    let loaded = checkpoints.rewind(&mut world, 2).unwrap();
    assert_eq!(*world.resource::<Weather>(), Weather(2));
    assert!(loaded.report.is_complete(), "{}", loaded.report);
    assert!(world.get_entity(spark).is_ok(), "entities that saves leave out are not removed");
}

#[test]
fn a_selection_leaves_out_what_has_any_component() {
    #[derive(Component)]
    struct Nobody;
    let (mut world, entities) = populated();
    world.entity_mut(entities[1]).insert(Spark);
    let selection = Selection::new().exclude::<Spark>().exclude::<Nobody>();
    let snapshot = world.capture(&SaveOptions::new().selection(selection.clone())).unwrap();
    assert_eq!(snapshot.entity_count(), 2);
    assert!(snapshot.component_rows().contains_key("test.score"), "who leaves out keeps the rest");
    assert_eq!(world.capture(&SaveOptions::new().exclude::<Spark>()).unwrap().entity_count(), 2);
    world.load(&snapshot, LoadMode::ReplaceSelected(selection)).unwrap();
    assert_eq!(names(&mut world), ["a", "b", "c"]);
    assert!(world.get_entity(entities[1]).is_ok() && world.get_entity(entities[0]).is_err());
}
