//! Which entities and what else a save holds: scope, filters, layers, query filters, data, files, commands.

mod common;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Compression, Filter, SaveScope, Snapshot, Value};
use bevy_ecs::prelude::*;
use bevy_ecs::system::RunSystemOnce;
use common::*;

#[derive(Component)]
struct OnLayer(u8);

fn names(snapshot: &Snapshot) -> Vec<String> {
    let mut world = world();
    world.load(snapshot, LoadMode::Replace).unwrap();
    let mut names: Vec<String> = world.query::<&Name>().iter(&world).map(ToString::to_string).collect();
    names.sort();
    names
}

fn filled() -> World {
    let mut world = world();
    world.save_layer(|layer: &OnLayer| layer.0).persist_ignore::<OnLayer>();
    world.spawn((Saved, Name::new("a"), Enemy, OnLayer(0)));
    world.spawn((Saved, Name::new("b"), Enemy, Team(1), OnLayer(3)));
    world.spawn((Saved, Name::new("c"), Team(2), Burning("x".into())));
    world.spawn((Saved, Name::new("d"), OnLayer(31)));
    world
}

#[test]
fn filters_by_key_and_layer_compose() {
    let world = filled();
    let save = |filter: Filter| names(&world.capture(&SaveOptions::new().filter(filter)).unwrap());
    assert_eq!(save(Filter::new()), ["a", "b", "c", "d"]);
    assert_eq!(save(Filter::new().include("test.enemy")), ["a", "b"]);
    assert_eq!(save(Filter::new().include("test.enemy").include("test.team")), ["b"]);
    assert_eq!(save(Filter::new().include_any("test.enemy").include_any("test.team")), ["a", "b", "c"]);
    assert_eq!(save(Filter::new().exclude("test.team")), ["a", "d"]);
    assert_eq!(save(Filter::new().exclude("test.burning")), ["a", "b", "d"], "sparse sets count too");
    assert_eq!(save(Filter::new().layers([3, 31]).unwrap()), ["b", "c", "d"], "without a layer: always");
    assert_eq!(save(Filter::new().include("test.enemy").layers([0]).unwrap()), ["a"]);
    let unknown = SaveOptions::new().filter(Filter::new().include("no.such"));
    assert!(world.capture(&unknown).unwrap_err().is_misuse());
    let layers = SaveOptions::new().filter(Filter::new().layers([0]).unwrap());
    let error = common::world().capture(&layers).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("save_layer"), "{error}");
}

#[test]
fn a_layer_out_of_range_is_an_error_that_names_the_entity() {
    let mut world = filled();
    world.spawn((Saved, OnLayer(40)));
    assert!(world.capture(&SaveOptions::new()).is_ok(), "nobody asked for layers");
    let layers = SaveOptions::new().filter(Filter::new().layers([1]).unwrap());
    let error = world.capture(&layers).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("layer 40"), "{error}");
}

#[test]
fn query_filters_choose_rows_and_archetypes() {
    let mut world = filled();
    let chosen =
        |world: &mut World, options: SaveOptions| names(&world.capture_with_events(&options).unwrap());
    assert_eq!(chosen(&mut world, SaveOptions::new().matching::<With<Enemy>>()), ["a", "b"]);
    let both = SaveOptions::new().matching::<With<Enemy>>().matching::<Without<Team>>();
    assert_eq!(chosen(&mut world, both), ["a"]);
    let or = SaveOptions::new().matching::<Or<(With<Burning>, Without<OnLayer>)>>();
    assert_eq!(chosen(&mut world, or), ["c"]);
    // One row of an archetype: by change ticks.
    world.spawn((Saved, Name::new("e"), Enemy, OnLayer(0)));
    world.clear_trackers();
    let mut query = world.query::<(&Name, &mut OnLayer)>();
    query
        .iter_mut(&mut world)
        .filter(|(name, _)| name.as_str() == "e")
        .for_each(|(_, mut layer)| layer.0 = 1);
    assert_eq!(chosen(&mut world, SaveOptions::new().matching::<Changed<OnLayer>>()), ["e"]);
    // A type that the world has never seen.
    #[derive(Component)]
    struct Never;
    let never = SaveOptions::new().matching::<Without<Never>>();
    assert!(world.capture(&never).unwrap_err().to_string().contains("never seen"));
    assert_eq!(chosen(&mut world, never).len(), 5, "a save makes it known");
}

#[test]
fn every_entity_with_a_persisted_component_can_be_saved() {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new().scope(SaveScope::Persisted));
    register(app.world_mut(), false);
    let world = app.world_mut();
    world.spawn((Name::new("camera"), ChildOf(Entity::PLACEHOLDER)).0);
    world.spawn((Name::new("enemy"), Enemy));
    world.spawn((Name::new("hovered"), Hover(1)));
    world.spawn((Name::new("marked"), Saved));
    assert_eq!(names(&save(world)), ["enemy", "hovered", "marked"]);
}

#[derive(Component, Persist)]
#[require(Saved)]
#[persist(key = "test.hero")]
struct Hero;

#[test]
fn a_component_can_bring_the_mark_along() {
    let mut world = world();
    world.persist::<Hero>();
    world.spawn((Hero, Name::new("hero")));
    world.spawn(Name::new("nobody"));
    assert_eq!(names(&save(&world)), ["hero"]);
}

#[test]
fn data_and_metadata_are_kept_in_order() {
    let mut world = filled();
    let options = SaveOptions::new()
        .data("b.second", &1_u8)
        .unwrap()
        .data("a.first", &"text".to_owned())
        .unwrap()
        .metadata("name", "Before the dragon");
    let snapshot = world.capture_with_events(&options).unwrap();
    let keys: Vec<&str> = snapshot.data().iter().map(bevy_bonfire::core::DataEntry::key).collect();
    assert_eq!(keys, ["b.second", "a.first"]);
    assert_eq!(snapshot.metadata(), [("name".to_owned(), Value::from("Before the dragon"))]);
}

#[test]
fn files_are_replaced_as_a_whole_and_errors_name_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slot.save");
    let mut world = filled();
    let saved = world.save_to(&path, &SaveOptions::new()).unwrap();
    assert_eq!(saved.bytes, std::fs::metadata(&path).unwrap().len());
    assert_eq!(saved.entities, 4);
    let compressed = SaveOptions::new().compression(Compression::Lz4);
    for i in 0..2000 {
        world.spawn((Saved, Name::new("z"), Position { x: i as f32, y: 0.0 }));
    }
    let plain = world.save_to(&path, &SaveOptions::new()).unwrap();
    assert!(world.save_to(&path, &compressed).unwrap().bytes < plain.bytes);
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "no litter: {files:?}");

    let missing = directory.path().join("no").join("slot.save");
    let error = world.save_to(&missing, &SaveOptions::new()).unwrap_err();
    assert!(error.is_io() && error.is_not_found() && error.to_string().contains("slot.save"), "{error}");
    // A directory in the place of the file: the save fails and leaves nothing behind.
    let taken = directory.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(world.save_to(&taken, &SaveOptions::new()).unwrap_err().is_io());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    let loaded = world.load_from(&path, LoadMode::Replace).unwrap();
    assert_eq!(loaded.prelude.entity_count, 2004);
}

#[test]
fn a_file_beyond_the_limits_is_refused_before_memory_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.save");
    let mut world = filled();
    let size = world.save_to(&path, &SaveOptions::new()).unwrap().bytes;
    let limits = bevy_bonfire::Limits { raw_bytes_max: 1 << 20, ..Default::default() };
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(size + (4 << 20)).unwrap();
    let options = bevy_bonfire::LoadOptions::new().limits(limits);
    let error = world.load_from(&path, options).unwrap_err();
    assert!(error.is_limit() && error.to_string().contains("large.save"), "{error}");
}

#[derive(Resource, Default)]
struct Heard(Vec<String>);

#[test]
fn commands_save_and_load_and_tell_how_it_went() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("quick.save");
    let mut world = filled();
    world.init_resource::<Heard>();
    world.add_observer(|done: On<SaveFinished>, mut heard: ResMut<Heard>| {
        let what = match &done.result {
            Ok(saved) => format!("saved {} entities", saved.entities),
            Err(error) => format!("not saved: {}", error.is_io()),
        };
        heard.0.push(what);
    });
    world.add_observer(|done: On<LoadFinished>, mut heard: ResMut<Heard>| {
        let what = match &done.result {
            Ok(loaded) => {
                format!("loaded {} from a path: {}", loaded.prelude.entity_count, done.source.is_some())
            }
            Err(error) => format!("not loaded: {}", error.is_not_found()),
        };
        heard.0.push(what);
    });
    let bad = directory.path().join("none").join("x");
    let (saved, loaded) = (path.clone(), path.clone());
    world.run_system_once(move |mut commands: Commands| commands.save_to(saved.clone())).unwrap();
    let mut all = world.query_filtered::<Entity, With<Saved>>();
    let first = all.iter(&world).next().unwrap();
    world.despawn(first);
    world.run_system_once(move |mut commands: Commands| commands.load_from(loaded.clone())).unwrap();
    assert_eq!(all.iter(&world).count(), 4);
    let bad_load = bad.clone();
    world.run_system_once(move |mut commands: Commands| commands.save_to(bad.clone())).unwrap();
    world.run_system_once(move |mut commands: Commands| commands.load_from(bad_load.clone())).unwrap();
    let heard = &world.resource::<Heard>().0;
    assert_eq!(
        heard,
        &["saved 4 entities", "loaded 4 from a path: true", "not saved: true", "not loaded: true"]
    );
}
