//! Generic components: every instance has a key of its own, and two instances under one key are refused.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bevy_app::App;
use bevy_bonfire::core::{Keyed, SchemaLock};
use bevy_bonfire::prelude::*;
use bevy_bonfire::{Descriptor, EncodeOptions, Snapshot};
use bevy_ecs::prelude::*;

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.sword")]
struct Sword {
    damage: u32,
}

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.potion")]
struct Potion(String);

/// A key per instance.
#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[require(Saved)]
#[persist(key = "test.slot<{T}>")]
struct Slot<T: Send + Sync + 'static> {
    content: Option<T>,
}

/// One key for all instances.
#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[require(Saved)]
#[persist(key = "test.pile")]
struct Pile<T: Send + Sync + 'static>(Vec<T>);

fn reopened(app: &App) -> Snapshot {
    Snapshot::open(&common::save(app.world()).encode(&EncodeOptions::default()).unwrap().to_vec()).unwrap()
}

#[test]
fn every_instance_has_a_key_of_its_own() {
    let app = || {
        let mut app = App::new();
        app.persist::<Slot<Sword>>().persist::<Slot<Potion>>().persist::<Slot<Slot<Sword>>>();
        app
    };
    assert_eq!(Slot::<Sword>::KEY, "test.slot<test.sword>");
    assert_eq!(Slot::<Slot<Sword>>::KEY, "test.slot<test.slot<test.sword>>");
    let sword = || Slot { content: Some(Sword { damage: 7 }) };
    let potion = Slot { content: Some(Potion("red".into())) };
    let nested = Slot { content: Some(sword()) };
    let mut source = app();
    let entity = source.world_mut().spawn((sword(), potion.clone(), nested.clone())).id();
    let snapshot = reopened(&source);

    let mut target = app();
    let loaded = target.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    assert!(loaded.report.is_complete(), "{:?}", loaded.report);
    let loaded = target.world().entity(loaded.entity(entity).unwrap());
    assert_eq!(loaded.get::<Slot<Sword>>(), Some(&sword()));
    assert_eq!(loaded.get::<Slot<Potion>>(), Some(&potion));
    assert_eq!(loaded.get::<Slot<Slot<Sword>>>(), Some(&nested));

    // The schema lock keeps such keys too.
    let registry = target.world().save_registry().unwrap();
    let mut lock = SchemaLock::default();
    lock.add(&registry).unwrap();
    let lock = SchemaLock::parse(&lock.to_string()).unwrap();
    assert!(lock.keys().any(|key| key == "test.slot<test.sword>"));
    lock.check(&registry).unwrap();
}

#[test]
fn instances_follow_when_a_parameter_is_renamed() {
    /// What `Sword` is called now.
    #[derive(Persist, Clone, Debug, PartialEq)]
    #[persist(key = "test.blade", alias = "test.sword")]
    struct Blade {
        damage: u32,
    }
    #[derive(Component, Persist, Clone, Debug, PartialEq)]
    #[require(Saved)]
    #[persist(key = "test.pocket<{T}>", alias = "test.slot<{T}>")]
    struct Pocket<T: Send + Sync + 'static> {
        content: Option<T>,
    }
    let mut old = App::new();
    old.persist::<Slot<Sword>>();
    let entity = old.world_mut().spawn(Slot { content: Some(Sword { damage: 3 }) }).id();
    let snapshot = reopened(&old);

    let mut renamed = App::new();
    renamed.persist::<Slot<Blade>>();
    let loaded = renamed.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    let slot = renamed.world().get::<Slot<Blade>>(loaded.entity(entity).unwrap());
    assert_eq!(slot, Some(&Slot { content: Some(Blade { damage: 3 }) }));

    let mut both = App::new();
    both.persist::<Pocket<Blade>>();
    let loaded = both.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    let pocket = both.world().get::<Pocket<Blade>>(loaded.entity(entity).unwrap());
    assert_eq!(pocket, Some(&Pocket { content: Some(Blade { damage: 3 }) }));
}

#[test]
fn two_instances_under_one_key_are_refused_with_the_cure() {
    let mut app = App::new();
    app.persist::<Pile<Sword>>().persist::<Pile<Sword>>();
    let panic = catch_unwind(AssertUnwindSafe(|| _ = app.persist::<Pile<Potion>>())).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    for part in [
        "`test.pile`",
        "Pile<generics::Sword>`",
        "Pile<generics::Potion>`",
        "#[persist(key = \"test.pile<{T}>\")]",
        "persist_as(Descriptor::new::<generics::Pile<generics::Potion>>(\"another.key\"))",
    ] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
}

#[test]
fn an_instance_can_be_given_a_key_when_it_is_registered() {
    // A parameter without a key of its own.
    let app = || {
        let mut app = App::new();
        app.persist::<Pile<Sword>>();
        app.persist_as::<Pile<u32>>(Descriptor::new::<Pile<u32>>("test.pile.numbers"));
        app
    };
    let mut source = app();
    let entity = source.world_mut().spawn((Pile(vec![Sword { damage: 1 }]), Pile(vec![1_u32, 2]))).id();
    let snapshot = reopened(&source);
    let mut target = app();
    let loaded = target.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    let loaded = target.world().entity(loaded.entity(entity).unwrap());
    assert_eq!(loaded.get::<Pile<Sword>>(), Some(&Pile(vec![Sword { damage: 1 }])));
    assert_eq!(loaded.get::<Pile<u32>>(), Some(&Pile(vec![1, 2])));
}
