//! Mistakes of beginners are loud: what a save leaves out without being asked to is in the log, in the report and in
//! `SaveCaptured`, with the line to add.

mod common;

use std::sync::Mutex;

use bevy_app::App;
use bevy_bonfire::core::Note;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots};
use bevy_bonfire::{SaveCaptured, Selection};
use bevy_ecs::prelude::*;
use common::*;

/// Lines of the log that warn.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        if record.level() == log::Level::Warn {
            WARNINGS.lock().unwrap().push(record.args().to_string());
        }
    }
    fn flush(&self) {}
}

/// The warnings that contain a text.
fn warnings(text: &str) -> Vec<String> {
    WARNINGS.lock().unwrap().iter().filter(|line| line.contains(text)).cloned().collect()
}

fn listen() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Logger).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    });
}

#[derive(Resource, Default)]
struct Notes(Vec<Note>);

/// Captures three times. Returns the notes of the last capture, which observers got, too.
fn notes(world: &mut World) -> Vec<Note> {
    listen();
    world.init_resource::<Notes>();
    world.add_observer(|captured: On<SaveCaptured>, mut notes: ResMut<Notes>| {
        notes.0.clone_from(&captured.notes);
    });
    let mut found = Vec::new();
    for _ in 0..3 {
        found = world.capture_with_events(&SaveOptions::new()).unwrap().notes().to_vec();
    }
    assert_eq!(world.resource::<Notes>().0, found);
    found
}

#[test]
fn entities_with_persisted_components_that_lack_the_mark_are_named() {
    #[derive(Component, Persist)]
    #[persist(key = "test.lonely")]
    struct Lonely;
    let mut world = World::new();
    world.persist::<Lonely>();
    world.spawn_batch([Lonely, Lonely]);
    let notes = notes(&mut world);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].key.ends_with("Lonely") && notes[0].count == 2, "{notes:?}");
    let logged = warnings("Lonely");
    assert!(
        logged.len() == 1 && logged[0].contains("#[require(Saved)]"),
        "once, with the line to add: {logged:?}"
    );
}

#[test]
fn entities_that_are_left_out_on_purpose_are_not_named() {
    #[derive(Component)]
    struct Template;
    let mut world = world();
    world.persist_ignore::<Template>();
    let parent = world.spawn(Saved).id();
    world.spawn((Enemy, Template));
    world.spawn((Template, ChildOf(parent)));
    assert_eq!(notes(&mut world), []);
    // A selection leaves out what it leaves out.
    world.spawn(Enemy);
    let selection = SaveOptions::new().selection(Selection::new().matching::<With<Saved>>());
    assert_eq!(world.capture_with_events(&selection).unwrap().notes(), []);
}

#[test]
fn children_of_saved_entities_that_lack_the_mark_are_named() {
    let mut world = world();
    let parent = world.spawn(Saved).id();
    world.spawn((Name::new("child"), ChildOf(parent)));
    let other = world.spawn_empty().id();
    world.spawn((Name::new("not of a saved entity"), ChildOf(other)));
    let notes = notes(&mut world);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].key == "bevy.child_of" && notes[0].count == 1, "{notes:?}");
    assert!(notes[0].remark.contains("SavedTree"), "{notes:?}");
    assert_eq!(warnings("bevy.child_of").len(), 1);
}

#[test]
fn a_forgotten_relationship_is_named_and_its_other_side_is_not() {
    #[derive(Component)]
    #[relationship(relationship_target = Pets)]
    struct OwnedBy(Entity);
    #[derive(Component)]
    #[relationship_target(relationship = OwnedBy)]
    struct Pets(Vec<Entity>);
    let mut world = world();
    let owner = world.spawn(Saved).id();
    world.spawn((Saved, OwnedBy(owner)));
    let notes = notes(&mut world);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].remark.contains("app.persist_relationship::<") && notes[0].key.ends_with("OwnedBy"),
        "{notes:?}"
    );
    assert_eq!(warnings("persist_relationship").len(), 1);
}

#[cfg(feature = "state")]
#[test]
fn types_of_bevy_are_named_unless_bevy_makes_them_again() {
    let mut world = world();
    world.spawn((Saved, bevy_transform::components::Transform::default()));
    assert_eq!(notes(&mut world), [], "a transform brings caches along");
    #[derive(bevy_state::prelude::States, Clone, PartialEq, Eq, Hash, Debug, Default)]
    struct Level;
    world.spawn((Saved, bevy_state::prelude::DespawnOnExit(Level)));
    let notes = notes(&mut world);
    assert!(notes.len() == 1 && notes[0].key.starts_with("bevy_state::"), "{notes:?}");
}

#[test]
fn the_report_of_a_save_has_them() {
    let slots = Slots::new(MemoryStore::new());
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::new().slots(slots).autosave(Autosave::off()));
    register(app.world_mut(), false);
    app.world_mut().spawn(Enemy);
    let save = app.world_mut().resource_mut::<Saves>().save("quick");
    app.update();
    let report = save.wait().unwrap();
    assert_eq!((report.entities, report.notes.len()), (0, 1), "{report:?}");
    assert!(report.notes[0].to_string().contains("Saved"), "{}", report.notes[0]);
    let directory = tempfile::tempdir().unwrap();
    let report = app.world_mut().save_to(directory.path().join("a.save"), &SaveOptions::new()).unwrap();
    assert_eq!(report.notes.len(), 1);
    let snapshot = report.snapshot.expect("it was at hand");
    assert_eq!((snapshot.notes().len(), snapshot.entity_count()), (1, 0));
}

#[test]
fn a_tree_saves_all_descendants_also_later_ones_and_they_come_back() {
    let mut world = world();
    let ship = world.spawn((SavedTree, Name::new("ship"))).id();
    let cannon = world.spawn((Name::new("cannon"), ChildOf(ship))).id();
    world.spawn((Name::new("alone"), Position::default()));
    assert_eq!(save(&world).entity_count(), 2);
    world.spawn((Name::new("barrel"), Position { x: 1.0, y: 2.0 }, ChildOf(cannon)));
    let snapshot = save(&world);
    assert_eq!(snapshot.entity_count(), 3);

    for mode in [LoadMode::Replace, LoadMode::Restore(Ticks::All)] {
        world.load(&snapshot, mode).unwrap();
        let mut names = world.query::<(&Name, Option<&Saved>)>();
        let mut names: Vec<_> =
            names.iter(&world).map(|(name, saved)| (name.to_string(), saved.is_some())).collect();
        names.sort();
        let expected = [("alone", false), ("barrel", false), ("cannon", false), ("ship", true)];
        assert_eq!(names, expected.map(|(name, saved)| (name.to_owned(), saved)));
        assert_eq!(save(&world).entity_count(), 3, "and are saved again");
    }
}

#[test]
fn deltas_follow_a_tree() {
    let mut world = world();
    let ship = world.spawn((SavedTree, Name::new("ship"))).id();
    let other = world.spawn(Name::new("other")).id();
    let cannon = world.spawn((Name::new("cannon"), ChildOf(other))).id();
    world.spawn((Name::new("barrel"), ChildOf(cannon)));
    let mut deltas = bevy_bonfire::replication::DeltaCapture::of_saves();
    deltas.changes(&mut world).unwrap();
    // The barrel does not move in its table: its ancestor does.
    world.entity_mut(cannon).insert(ChildOf(ship));
    let delta = deltas.changes(&mut world).unwrap();
    assert_eq!(delta.stats().spawned, 2, "{:?}", delta.stats());
    world.entity_mut(cannon).insert(ChildOf(other));
    assert_eq!(deltas.changes(&mut world).unwrap().stats().despawned, 2);
}
