//! Mistakes are met early, and the message says what to write.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Descriptor, SaveCaptured};
use bevy_ecs::prelude::*;
use common::*;

fn panic_message(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("this must panic");
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap()
}

#[derive(Component, Persist)]
#[persist(key = "test.team")]
struct OtherTeam;

#[test]
fn two_types_under_one_key_panic_at_start_up_naming_both() {
    let message = panic_message(|| _ = world().persist::<OtherTeam>());
    assert!(message.contains("OtherTeam") && message.contains("common::Team"), "{message}");
    // The same again is fine.
    world().persist::<Team>();
    let message = panic_message(|| _ = world().persist_as::<Team>(Descriptor::new::<Team>("test.other")));
    assert!(message.contains("test.team") && message.contains("test.other"), "{message}");
    let message = panic_message(|| _ = World::new().persist_as::<Enemy>(Descriptor::of::<Team>()));
    assert!(message.contains("Enemy") && message.contains("Team"), "{message}");
}

#[test]
fn the_wrong_side_of_a_relationship_is_named() {
    #[derive(Component, Persist)]
    #[relationship(relationship_target = Targets)]
    #[persist(key = "test.source")]
    struct Source(Entity);
    #[derive(Component, Persist)]
    #[relationship_target(relationship = Source)]
    #[persist(key = "test.targets")]
    struct Targets(Vec<Entity>);
    let message = panic_message(|| _ = World::new().persist::<Source>());
    assert!(message.contains("persist_relationship"), "{message}");
    let message = panic_message(|| _ = World::new().persist_relationship::<Source>().persist::<Targets>());
    assert!(message.contains("Targets") && message.contains("other side"), "{message}");
}

#[test]
fn calls_that_need_a_registration_say_so() {
    let message = panic_message(|| _ = World::new().load_late::<Team>());
    assert!(
        message.contains("app.persist::<common::Team>()") || message.contains("app.persist::<misuse"),
        "{message}"
    );
    let error = World::new().capture(&SaveOptions::new()).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("BonfirePlugin"), "{error}");
}

#[derive(Component)]
struct Forgotten;
#[derive(Component)]
struct Unwanted;

#[derive(Resource, Default)]
struct Named(Vec<String>);

#[test]
fn an_unregistered_component_is_named_once_with_the_line_to_add() {
    let mut world = world();
    world.persist_ignore::<Unwanted>();
    world.init_resource::<Named>();
    world.add_observer(|captured: On<SaveCaptured>, mut named: ResMut<Named>| {
        named.0.extend(captured.notes.iter().map(|note| note.key.clone()));
    });
    let parent = world.spawn((Saved, Forgotten, Unwanted)).id();
    world.spawn((Saved, Forgotten, Enemy, ChildOf(parent)));
    world.spawn(Unwanted);
    for _ in 0..3 {
        world.capture_with_events(&SaveOptions::new()).unwrap();
    }
    let named = &world.resource::<Named>().0;
    assert_eq!(named.len(), 3, "once per save: {named:?}");
    assert!(named.iter().all(|name| name.ends_with("Forgotten")), "{named:?}");
}
