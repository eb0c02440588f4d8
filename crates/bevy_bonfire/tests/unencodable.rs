//! Values that cannot be encoded: left out and noted, refused, or replaced. One of them does not cost the save.

mod common;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::store::{MemoryStore, Slots, Wait};
use bevy_bonfire::{Descriptor, Error, LoadContext, SavePolicy, Unencodable};
use bevy_ecs::prelude::*;
use common::{Health, Inventory};

/// Text that must not contain a zero byte.
#[derive(Component, Clone, Debug, PartialEq)]
#[require(Saved)]
struct Script(String);

fn script() -> Descriptor {
    let save = |script: &Script, _: &bevy_bonfire::core::SaveContext<'_>| match script.0.contains('\0') {
        true => Err(Error::misuse("a script with a zero byte")),
        false => Ok(Some(script.0.clone())),
    };
    let load = |text: String, _: &LoadContext<'_>| Ok(Some(Script(text)));
    Descriptor::custom("test.script", save, load)
}

fn world(descriptor: Descriptor) -> World {
    let mut world = World::new();
    world.persist::<Health>().persist::<Inventory>().persist_as::<Script>(descriptor);
    world
}

/// Three entities; the script of the second cannot be saved.
fn spawn(world: &mut World) -> [Entity; 3] {
    ["first", "bad\0", "third"].map(|text| {
        let health = Health { current: 3, ..Health::default() };
        world.spawn((Script(text.into()), health)).id()
    })
}

fn reload(source: &World, options: &SaveOptions, entities: [Entity; 3]) -> [Option<String>; 3] {
    let snapshot = source.capture(options).unwrap();
    let mut target = world(script());
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    entities.map(|entity| {
        let entity = target.entity(loaded.entity(entity).unwrap());
        assert_eq!(entity.get::<Health>().unwrap().current, 3);
        entity.get::<Script>().map(|script| script.0.clone())
    })
}

#[test]
fn a_value_that_cannot_be_encoded_is_left_out_and_noted() {
    let mut source = world(script());
    let entities = spawn(&mut source);
    let options = SaveOptions::new();
    assert_eq!(reload(&source, &options, entities), [Some("first".into()), None, Some("third".into())]);
    let snapshot = source.capture(&options).unwrap();
    let [note] = snapshot.notes() else { panic!("{:?}", snapshot.notes()) };
    assert_eq!((note.key.as_str(), note.count), ("test.script", 1));
    assert!(note.remark.contains("left out") && note.remark.contains("a script with a zero byte"), "{note}");
    let named = bevy_bonfire::EntityId::from(entities[1]).to_string();
    assert!(note.remark.contains(&named), "{note}");
}

#[test]
fn a_registration_or_a_save_can_refuse_it() {
    let mut source = world(script());
    spawn(&mut source);
    let refuse = SaveOptions::new().unencodable(Unencodable::Refuse);
    let error = source.capture(&refuse).unwrap_err().to_string();
    assert!(error.contains("test.script") && error.contains("zero byte"), "{error}");
    // What the registration says counts.
    source.persist_unencodable::<Script>(Unencodable::Skip);
    source.capture(&refuse).unwrap();
    source.persist_unencodable::<Script>(Unencodable::Refuse);
    source.capture(&SaveOptions::new()).unwrap_err();
}

#[test]
fn a_registration_can_replace_it() {
    let replace = |script: &Script| Script(script.0.replace('\0', "?"));
    let mut source = world(script().replace_unencodable(replace).unwrap());
    let entities = spawn(&mut source);
    let refuse = SaveOptions::new().unencodable(Unencodable::Refuse);
    let expected = [Some("first".into()), Some("bad?".into()), Some("third".into())];
    assert_eq!(reload(&source, &refuse, entities), expected);
    let snapshot = source.capture(&refuse).unwrap();
    let [note] = snapshot.notes() else { panic!("{:?}", snapshot.notes()) };
    assert!(note.remark.contains("replaced"), "{note}");
    // A replacement that cannot be encoded either is treated as the policy says.
    let mut source = world(script().replace_unencodable(|script: &Script| script.clone()).unwrap());
    let entities = spawn(&mut source);
    source.capture(&refuse).unwrap_err();
    assert_eq!(reload(&source, &SaveOptions::new(), entities)[1], None);
    let wrong = script().replace_unencodable(|text: &String| text.clone()).unwrap_err();
    assert!(wrong.to_string().contains("replace_unencodable"), "{wrong}");
}

#[test]
fn siblings_keep_their_order_around_a_value_that_is_left_out() {
    let mut source = world(script());
    let parent = source.spawn(Saved).id();
    let entities = spawn(&mut source);
    source.entity_mut(parent).add_children(&entities);
    let snapshot = source.capture(&SaveOptions::new()).unwrap();
    let mut target = world(script());
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    let children: Vec<Entity> =
        target.get::<Children>(loaded.entity(parent).unwrap()).unwrap().iter().collect();
    assert_eq!(children, entities.map(|entity| loaded.entity(entity).unwrap()));
}

#[test]
fn the_report_of_a_save_and_of_a_journal_has_the_note() {
    let slots = Slots::new(MemoryStore::new());
    let mut app = App::new();
    let autosave = Autosave::off().target("auto");
    app.add_plugins(BonfirePlugin::new().slots(slots.clone()).autosave(autosave).policy(SavePolicy::Journal));
    app.persist::<Health>().persist_as::<Script>(script());
    let entity = app.world_mut().spawn((Script("good".into()), Health::default())).id();
    let save = |app: &mut App| {
        let save = app.world_mut().resource_mut::<Saves>().save("auto");
        app.update();
        save.wait().unwrap()
    };
    assert!(save(&mut app).notes.is_empty());
    app.world_mut().get_mut::<Script>(entity).unwrap().0 = "bad\0".into();
    app.world_mut().get_mut::<Health>(entity).unwrap().current = 9;
    let report = save(&mut app);
    assert_eq!(report.entities, 0, "it is an append");
    assert_eq!(report.notes[0].key, "test.script");
    let loaded = slots.load("auto").wait().unwrap().snapshot;
    let mut target = world(script());
    let loaded = target.load(&loaded, LoadMode::Replace).unwrap();
    let entity = target.entity(loaded.entity(entity).unwrap());
    assert_eq!((entity.get::<Health>().unwrap().current, entity.get::<Script>()), (9, None));
}

#[test]
fn relationships_can_be_left_out() {
    let mut source = world(script());
    let parent = source.spawn((Saved, Health::default())).id();
    let child = source.spawn((Saved, ChildOf(parent), Inventory::default())).id();
    let options = SaveOptions::new().without_relationships();
    let snapshot = source.capture(&options).unwrap();
    assert!(!snapshot.component_rows().contains_key("bevy.child_of"), "{:?}", snapshot.component_rows());
    let mut target = world(script());
    let loaded = target.load(&snapshot, LoadMode::Replace).unwrap();
    assert!(target.get::<ChildOf>(loaded.entity(child).unwrap()).is_none());
    assert!(target.get::<Inventory>(loaded.entity(child).unwrap()).is_some());
    assert!(target.get::<Children>(loaded.entity(parent).unwrap()).is_none());
    let whole = source.capture(&SaveOptions::new()).unwrap();
    assert!(whole.component_rows().contains_key("bevy.child_of"));
}
