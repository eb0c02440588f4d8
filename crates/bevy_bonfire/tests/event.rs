//! What observers hear, and what they may do.

mod common;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Error, SaveCaptured, Value};
use bevy_ecs::prelude::*;
use common::*;

#[derive(Resource, Default, Debug, PartialEq)]
struct Heard(Vec<String>);

#[derive(Component)]
struct Particle;

#[derive(Resource, Default)]
struct Wind(f32);

#[test]
fn observers_attach_data_exclude_entities_and_get_their_data_back() {
    let mut source = world();
    source.persist_ignore::<Particle>();
    source.insert_resource(Wind(2.5));
    source.init_resource::<Heard>();
    let target = source.spawn((Saved, Name::new("vane"))).id();
    source.spawn((Saved, Name::new("spark"), Particle));
    source.add_observer(move |mut starting: On<SaveStarting>, wind: Res<Wind>| {
        starting.attach("weather.wind", &wind.0);
        starting.attach("weather.vane", &target);
        starting.exclude::<Particle>();
    });
    source.add_observer(|mut starting: On<SaveStarting>| starting.attach("other.plugin", &7_u8));
    source.add_observer(|captured: On<SaveCaptured>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("captured {}", captured.prelude.entity_count));
    });
    let snapshot =
        source.capture_with_events(&SaveOptions::new().data("caller.data", &true).unwrap()).unwrap();
    assert_eq!(source.resource::<Heard>().0, ["captured 1"]);
    // What one observer attaches keeps its order; which observer comes first is Bevy's business.
    let keys: Vec<&str> = snapshot.data().iter().map(bevy_bonfire::core::DataEntry::key).collect();
    let weather: Vec<&&str> = keys.iter().filter(|key| key.starts_with("weather")).collect();
    assert_eq!(weather, [&"weather.wind", &"weather.vane"]);
    assert!(keys.len() == 4 && keys.contains(&"other.plugin") && keys[3] == "caller.data", "{keys:?}");
    // Exclusions and data are of one save: the next does not repeat them.
    assert_eq!(source.capture_with_events(&SaveOptions::new()).unwrap().data().len(), 3);
    assert_eq!(save(&source).entity_count(), 2, "a capture without observers has everything");

    let mut world = world();
    world.init_resource::<Heard>();
    world.add_observer(|mut starting: On<LoadStarting>, saved: Query<&Name>, mut heard: ResMut<Heard>| {
        heard.0.push(format!("starting with {} entities", saved.iter().count()));
        starting.on_data("weather.wind", |world, wind: f32| {
            world.insert_resource(Wind(wind));
            world.resource_mut::<Heard>().0.push("wind".into());
            Ok(())
        });
        starting.on_data("weather.vane", |world, vane: Entity| {
            let name = world.get::<Name>(vane).map(ToString::to_string);
            world.resource_mut::<Heard>().0.push(format!("vane {name:?}"));
            Ok(())
        });
    });
    world.add_observer(|mut starting: On<LoadStarting>| {
        starting.on_data("weather.wind", |world, _: f32| {
            world.resource_mut::<Heard>().0.push("wind again".into());
            Err(Error::custom("too windy"))
        });
    });
    world.add_observer(|finished: On<LoadFinished>, mut heard: ResMut<Heard>| {
        let loaded = finished.result.as_ref().unwrap();
        heard.0.push(format!("finished with {} entities", loaded.prelude.entity_count));
        heard.0.extend(loaded.report.unclaimed_data.iter().cloned());
        heard.0.extend(loaded.report.callback_errors.iter().map(ToString::to_string));
    });
    world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(world.resource::<Wind>().0, 2.5);
    world.resource_mut::<Heard>().0[1..3].sort();
    assert_eq!(
        world.resource::<Heard>().0,
        [
            "starting with 1 entities",
            "wind",
            "wind again",
            "vane Some(\"vane\")",
            "finished with 1 entities",
            "other.plugin",
            "caller.data",
            "`weather.wind`: too windy",
        ]
    );
    // What nobody asked for is in the next save.
    let again = save(&world);
    let kept: Vec<(&str, Value)> =
        again.data().iter().map(|entry| (entry.key(), entry.value(&Default::default()).unwrap())).collect();
    assert_eq!(kept, [("other.plugin", Value::U64(7)), ("caller.data", Value::Bool(true))]);
}

#[derive(Component, Persist)]
#[persist(key = "mod.laser")]
struct Laser(Entity);

#[derive(Resource, Persist)]
#[persist(key = "mod.settings")]
struct Settings(String);

#[test]
fn what_this_build_does_not_know_comes_back_with_its_mod() {
    let mut with_mod = world();
    with_mod.persist::<Laser>().persist_resource::<Settings>();
    let target = with_mod.spawn((Saved, Name::new("target"))).id();
    with_mod.spawn((Saved, Name::new("turret"), Laser(target)));
    with_mod.insert_resource(Settings("bright".into()));

    let mut without = world();
    let loaded = without.load(&save(&with_mod), LoadMode::Replace).unwrap();
    assert_eq!(loaded.report.component("mod.laser").unwrap().outcome, bevy_bonfire::core::Outcome::Carried);
    let between = save(&without);

    let mut again = world();
    again.persist::<Laser>().persist_resource::<Settings>();
    again.load(&between, LoadMode::Replace).unwrap();
    let (laser, name) = again.query::<(&Laser, &Name)>().single(&again).unwrap();
    assert_eq!(name.as_str(), "turret");
    assert_eq!(again.get::<Name>(laser.0).unwrap().as_str(), "target");
    assert_eq!(again.resource::<Settings>().0, "bright");
}

#[test]
fn an_error_of_an_observer_fails_the_save() {
    struct Unsaveable;
    impl bevy_bonfire::Persist for Unsaveable {
        fn schema(types: &mut bevy_bonfire::core::schema::SchemaBuilder) -> bevy_bonfire::core::schema::Node {
            types.add(bevy_bonfire::core::schema::Type::Unit)
        }
        fn encode(&self, out: &mut bevy_bonfire::core::Writer) {
            out.fail(Error::custom("never"));
        }
        fn decode(_: &mut bevy_bonfire::core::Reader<'_>) -> bevy_bonfire::Result<Self> {
            Ok(Self)
        }
    }
    let mut world = world();
    world.add_observer(|mut starting: On<SaveStarting>| starting.attach("bad.data", &Unsaveable));
    let error = world.capture_with_events(&SaveOptions::new()).unwrap_err();
    assert_eq!(error.key(), Some("bad.data"));
}

#[test]
fn children_that_are_not_saved_are_remarked() {
    let mut world = world();
    let parent = world.spawn((Saved, Name::new("parent"))).id();
    world.spawn((Saved, Name::new("saved"), ChildOf(parent)));
    world.spawn((Name::new("sprite"), ChildOf(parent)));
    world.spawn((Name::new("shadow"), ChildOf(parent)));
    let snapshot = save(&world);
    let notes: Vec<_> = snapshot.notes().iter().map(|note| (note.key.as_str(), note.count)).collect();
    assert_eq!(notes, [("bevy.child_of", 2)]);
    world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(world.query::<&Name>().iter(&world).count(), 2, "they went with their parent");
}

#[test]
fn a_label_of_the_caller_wins_over_those_of_observers() {
    use bevy_bonfire::Details;
    use bevy_bonfire::store::{MemoryStore, Slots, Wait};
    let slots = Slots::new(MemoryStore::new());
    let mut app = bevy_app::App::new();
    app.add_plugins(BonfirePlugin::new().slots(slots.clone()).autosave(Autosave::off()));
    app.world_mut().spawn(Saved);
    app.add_observer(|mut starting: On<SaveStarting>| {
        assert!(starting.target().is_some());
        starting.describe(|details| {
            assert_eq!(details.get_label(), Some("Before the dragon"), "observers can read it");
            details.label("Autosave").game_version("1.4")
        });
    });
    let options = SaveOptions::new().details(Details::new().label("Before the dragon"));
    let save = app.world_mut().resource_mut::<Saves>().save_with("quick", options);
    app.update();
    save.wait().unwrap();
    let info = slots.load("quick").wait().unwrap().info;
    assert_eq!(
        (info.label.as_deref(), info.game_version.as_deref()),
        (Some("Before the dragon"), Some("1.4"))
    );
}

#[derive(Resource, Default, Debug)]
struct Trace(Vec<String>);

#[test]
fn handlers_run_in_the_order_of_their_registration_and_each_part_is_optional() {
    let handled = || {
        let mut world = world();
        world.init_resource::<Trace>();
        for name in ["plugin.z", "plugin.a", "plugin.m"] {
            let handler = DataHandler::new()
                .save(move |_: &World| Some(name.to_owned()))
                .load(move |world: &mut World, value: String| {
                    world.resource_mut::<Trace>().0.push(format!("load {value}"));
                    Ok(())
                })
                .finish(move |world, finished| {
                    assert_eq!(finished.prelude.entity_count, 0);
                    world.resource_mut::<Trace>().0.push(format!("finish {name}"));
                });
            world.persist_data(name, handler);
        }
        // A save without a load, a load without a save, nothing to save, and one that panics.
        world.persist_data("plugin.only_save", DataHandler::new().save(|_: &World| Some(1_u8)));
        let never = DataHandler::new().load(|_: &mut World, _: u8| panic!("there is nothing"));
        world.persist_data("plugin.only_load", never);
        world.persist_data("plugin.nothing", DataHandler::new().save(|_: &World| None::<u8>));
        let broken = DataHandler::new().save(|_: &World| Some(2_u8)).load(|_, _| panic!("broken"));
        world.persist_data("plugin.broken", broken);
        world.add_observer(|mut starting: On<SaveStarting>| starting.attach("observer.data", &3_u8));
        world
    };
    let snapshot = handled().capture_with_events(&SaveOptions::new()).unwrap();
    let keys: Vec<&str> = snapshot.data().iter().map(bevy_bonfire::core::DataEntry::key).collect();
    let expected = ["plugin.z", "plugin.a", "plugin.m", "plugin.only_save", "plugin.broken", "observer.data"];
    assert_eq!(keys, expected);
    let mut target = handled();
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    let expected = ["load plugin.z", "load plugin.a", "load plugin.m"].into_iter().chain([
        "finish plugin.z",
        "finish plugin.a",
        "finish plugin.m",
    ]);
    assert!(target.resource::<Trace>().0.iter().eq(expected), "{:?}", target.resource::<Trace>());
    let [error] = &loaded.report.callback_errors[..] else { panic!("{:?}", loaded.report) };
    assert!(error.key() == Some("plugin.broken") && error.to_string().contains("broken"), "{error}");
    assert_eq!(loaded.report.unclaimed_data, ["plugin.only_save", "observer.data"]);
}
