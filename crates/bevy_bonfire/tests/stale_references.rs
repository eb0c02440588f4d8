//! References whose target was not saved: removed from collections by default, null where a game asks for it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Dangling, EntityId, LoadOptions};
use bevy_ecs::prelude::*;

/// A handle of the game's own.
#[derive(Persist, Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unit(Entity);

#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[require(Saved)]
#[persist(key = "test.squad")]
struct Squad {
    units: Vec<Unit>,
    queue: VecDeque<Entity>,
    seen: HashSet<Entity>,
    grudges: HashMap<Entity, u32>,
    posts: BTreeMap<String, Entity>,
    slots: Vec<Option<Entity>>,
    pair: [Entity; 2],
    gifts: Vec<(Entity, u32)>,
}

#[derive(Component, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
#[require(Saved)]
struct Notes {
    about: Vec<EntityId>,
    last: Option<EntityId>,
    marks: BTreeMap<EntityId, u32>,
}

fn world() -> World {
    let mut world = World::new();
    world.persist::<Squad>().persist_serde::<Notes>("test.notes");
    world
}

/// A squad that knows a friend, who is saved, and two strays, who are not.
fn village() -> (World, Entity, Entity) {
    let mut world = world();
    let friend = world.spawn(Saved).id();
    let [a, b] = [world.spawn_empty().id(), world.spawn_empty().id()];
    let squad = Squad {
        units: vec![Unit(a), Unit(friend), Unit(b)],
        queue: [a, friend].into(),
        seen: [a, b, friend].into(),
        grudges: [(a, 1), (b, 2), (friend, 3)].into(),
        posts: [("gate".to_owned(), a), ("tower".to_owned(), friend)].into(),
        slots: vec![Some(a), None, Some(friend)],
        pair: [a, friend],
        gifts: vec![(b, 5), (friend, 6)],
    };
    let notes = Notes {
        about: vec![a.into(), friend.into()],
        last: Some(b.into()),
        marks: [(a.into(), 1), (friend.into(), 2)].into(),
    };
    let holder = world.spawn((squad, notes)).id();
    (world, holder, friend)
}

#[test]
fn stale_references_are_removed_from_collections() {
    let (source, holder, friend) = village();
    let mut world = world();
    let snapshot = source.capture(&SaveOptions::new()).unwrap();
    let loaded = world.load(&snapshot, LoadMode::Replace).unwrap();
    let friend = loaded.entity(friend).unwrap();
    let holder = loaded.entity(holder).unwrap();
    let expected = Squad {
        units: vec![Unit(friend)],
        queue: [friend].into(),
        seen: [friend].into(),
        grudges: [(friend, 3)].into(),
        posts: [("tower".to_owned(), friend)].into(),
        slots: vec![None, None, Some(friend)],
        // Where an element cannot go, its reference is null.
        pair: [Entity::PLACEHOLDER, friend],
        gifts: vec![(Entity::PLACEHOLDER, 5), (friend, 6)],
    };
    assert_eq!(*world.get::<Squad>(holder).unwrap(), expected);
    let notes = Notes { about: vec![friend.into()], last: None, marks: [(friend.into(), 2)].into() };
    assert_eq!(*world.get::<Notes>(holder).unwrap(), notes);
    assert_eq!(loaded.report.stale_references(), 14);
    assert!(loaded.report.is_complete());
}

#[test]
fn lists_keep_their_length_if_the_game_asks_for_null() {
    let (source, holder, friend) = village();
    let mut world = world();
    let snapshot = source.capture(&SaveOptions::new()).unwrap();
    let options = LoadOptions::new().mode(LoadMode::Replace).dangling(Dangling::Null);
    let loaded = world.load(&snapshot, options).unwrap();
    let friend = loaded.entity(friend).unwrap();
    let squad = world.get::<Squad>(loaded.entity(holder).unwrap()).unwrap();
    let null = Entity::PLACEHOLDER;
    assert_eq!(squad.units, [Unit(null), Unit(friend), Unit(null)]);
    assert_eq!(squad.seen, [null, friend].into());
    assert_eq!((squad.grudges.len(), squad.posts["gate"]), (2, null));
}

#[test]
fn a_reference_that_was_null_when_it_was_saved_stays() {
    let mut source = world();
    let squad = Squad {
        units: vec![Unit(Entity::PLACEHOLDER)],
        queue: VecDeque::new(),
        seen: HashSet::new(),
        grudges: [(Entity::PLACEHOLDER, 1)].into(),
        posts: BTreeMap::new(),
        slots: Vec::new(),
        pair: [Entity::PLACEHOLDER; 2],
        gifts: Vec::new(),
    };
    let holder = source.spawn(squad.clone()).id();
    let mut world = world();
    let snapshot = source.capture(&SaveOptions::new()).unwrap();
    let loaded = world.load(&snapshot, LoadMode::Replace).unwrap();
    assert_eq!(*world.get::<Squad>(loaded.entity(holder).unwrap()).unwrap(), squad);
    assert_eq!(loaded.report.stale_references(), 0);
}
