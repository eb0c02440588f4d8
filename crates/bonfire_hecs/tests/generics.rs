//! Generic components: every instance has a key of its own, and two instances under one key are refused.

use bonfire_hecs::core::{Descriptor, Keyed};
use bonfire_hecs::{Bonfire, LoadMode, Persist, SaveOptions, Saved};
use hecs::World;

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.sword")]
struct Sword(u32);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.potion")]
struct Potion(String);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.slot<{T}>")]
struct Slot<T>(Option<T>);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(key = "test.pile")]
struct Pile<T>(Vec<T>);

fn bonfire() -> Bonfire {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Slot<Sword>>().unwrap().persist::<Slot<Potion>>().unwrap();
    bonfire.persist_as::<Pile<u32>>(Descriptor::new::<Pile<u32>>("test.pile.numbers")).unwrap();
    bonfire
}

#[test]
fn every_instance_has_a_key_of_its_own() {
    assert_eq!(Slot::<Sword>::KEY, "test.slot<test.sword>");
    let mut source = World::new();
    let (sword, potion) = (Slot(Some(Sword(3))), Slot(Some(Potion("red".into()))));
    source.spawn((Saved, sword.clone(), potion.clone(), Pile(vec![1_u32])));
    let snapshot = bonfire().capture(&source, &SaveOptions::new()).unwrap();

    let mut target = World::new();
    let loaded = bonfire().load(&mut target, &snapshot, LoadMode::Replace).unwrap();
    assert!(loaded.report.is_complete(), "{:?}", loaded.report);
    let mut found = target.query::<(&Slot<Sword>, &Slot<Potion>, &Pile<u32>)>();
    assert_eq!(found.iter().collect::<Vec<_>>(), [(&sword, &potion, &Pile(vec![1]))]);
}

#[test]
fn two_instances_under_one_key_are_refused_with_the_cure() {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Pile<Sword>>().unwrap();
    let error = bonfire.persist::<Pile<Potion>>().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("#[persist(key = \"test.pile<{T}>\")]"), "{error}");
}
