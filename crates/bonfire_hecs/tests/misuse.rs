//! Mistakes are met early, and the message says what to write.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bonfire_hecs::{
    Bonfire, Descriptor, Filter, LoadMode, NonFinite, Persist, SaveOptions, Saved, Selection,
};
use common::*;
use hecs::World;

#[derive(Persist)]
#[persist(key = "test.team")]
struct OtherTeam;

#[test]
fn two_types_under_one_key_are_an_error_that_names_both() {
    let mut bonfire = bonfire(false);
    let message = |result: Result<&mut Bonfire, bonfire_hecs::Error>| {
        let error = result.err().expect("this must be refused");
        assert!(error.is_misuse(), "{error}");
        error.to_string()
    };
    let text = message(bonfire.persist::<OtherTeam>());
    assert!(text.contains("OtherTeam") && text.contains("common::Team"), "{text}");
    let text = message(bonfire.persist_as::<Team>(Descriptor::new::<Team>("test.other")));
    assert!(text.contains("test.team") && text.contains("test.other"), "{text}");
    let text = message(bonfire.persist_serde::<Quest>("test.team"));
    assert!(text.contains("Quest") && text.contains("Team"), "{text}");

    // What was refused left nothing behind.
    let mut world = World::new();
    let entity = world.spawn((Saved, Team(3)));
    let snapshot = save(&bonfire, &world);
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    assert_eq!(world.get::<&Team>(loaded.entity(entity).unwrap()).unwrap().0, 3);
}

#[test]
fn a_descriptor_of_another_type_is_named() {
    let error = Bonfire::new().persist_as::<Enemy>(Descriptor::of::<Team>()).err().unwrap();
    let text = error.to_string();
    assert!(error.is_misuse() && text.contains("test.team"), "{text}");
    assert!(text.contains("common::Team") && text.contains("common::Enemy"), "{text}");
}

#[test]
fn registering_twice_is_fine() {
    let mut once = bonfire(false);
    let mut twice = bonfire(false);
    twice.persist::<Team>().unwrap().persist::<Position>().unwrap().persist::<Team>().unwrap();
    // What is registered afterwards is still taken for what it is.
    once.persist::<Late>().unwrap();
    twice.persist::<Late>().unwrap();
    let mut world = World::new();
    let entity = world.spawn((Saved, Team(1), Position { x: 1.0, y: 2.0 }, Enemy, Late("x".into())));
    let snapshot = save(&twice, &world);
    assert_eq!(snapshot.to_bytes().unwrap(), save(&once, &world).to_bytes().unwrap());
    for bonfire in [&mut once, &mut twice] {
        let mut world = World::new();
        let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
        let entity = loaded.entity(entity).unwrap();
        assert_eq!(world.get::<&Team>(entity).unwrap().0, 1);
        assert_eq!(world.get::<&Late>(entity).unwrap().0, "x");
    }
}

#[derive(Persist)]
#[persist(key = "test.late")]
struct Late(String);

#[test]
fn a_layer_filter_without_a_layer_says_what_to_call() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    world.spawn((Saved, Team(1)));
    let filter = || Filter::new().layers([0]).unwrap();
    let error = bonfire.capture(&world, &SaveOptions::new().filter(filter())).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("save_layer"), "{error}");
    let snapshot = save(&bonfire, &world);
    let selection = Selection::new().filter(filter());
    let error = bonfire.load(&mut world, &snapshot, LoadMode::ReplaceSelected(selection)).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("save_layer"), "{error}");
}

#[test]
fn what_is_not_registered_is_named() {
    struct Nobody;
    let (world, mut bonfire) = (World::new(), bonfire(false));
    let error = bonfire.capture_with_hooks(&world, &SaveOptions::new().resource(Nobody)).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("Nobody"), "{error}");
    let error = bonfire.persist_non_finite::<Nobody>(NonFinite::Refuse).err().unwrap();
    let text = error.to_string();
    assert!(error.is_misuse() && text.contains("Nobody") && text.contains("persist::<"), "{text}");
    let error = bonfire.replicate::<Nobody>().err().unwrap();
    assert!(error.is_misuse() && error.to_string().contains("persist::<"), "{error}");
    let error = bonfire.index::<Nobody, u8>().err().unwrap();
    let text = error.to_string();
    assert!(error.is_misuse() && text.contains("Nobody") && text.contains("index_by"), "{text}");
}

#[test]
fn a_resource_is_saved_once() {
    let twice = SaveOptions::new().resource(Team(1)).resource(Team(2));
    let error = bonfire(false).capture(&World::new(), &twice).unwrap_err();
    assert!(error.is_misuse() && error.key() == Some("test.team"), "{error}");
}

#[test]
fn a_capture_of_what_is_being_changed_panics_as_a_query_does() {
    let mut world = World::new();
    let entity = world.spawn((Saved, Team(1), Sprite));
    let bonfire = bonfire(false);
    let capture = || catch_unwind(AssertUnwindSafe(|| save(&bonfire, &world).entity_count())).ok();
    let held = world.get::<&mut Team>(entity).unwrap();
    assert_eq!(capture(), None);
    drop(held);
    let held = (world.get::<&Team>(entity).unwrap(), world.get::<&mut Sprite>(entity).unwrap());
    assert_eq!(capture(), Some(1), "reading is fine, and so is changing what is not saved");
    drop(held);
}

/// Not registered.
struct Sprite;
