//! Tables of JSON, written by hand or by another program, through the front end.

mod common;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Snapshot, Unknown};
use bevy_ecs::prelude::*;
use common::*;

/// Everything but the names comes from what is registered. `mod.shield` is not.
const BARE: &str = r#"{
    "version": 1,
    "nextEntityId": 3,
    "componentTable": [{"name": "test.position"}, {"name": "bonfire.saved"}, {"name": "mod.shield"}, {"name": "test.inventory"}],
    "archetypes": [
        {"columnIndices": [1, 2], "entities": [[1, {"x": 1.5, "y": 2}, null]]},
        {"columnIndices": [2, 3, 4], "entities": [[2, null, {"power": 7}, {"items": ["rope"], "gold": 5}]]}
    ]
}"#;

#[derive(Component, Persist, Clone, Debug, PartialEq)]
#[persist(key = "mod.shield")]
struct Shield {
    power: u32,
}

#[test]
fn a_table_loads_through_the_front_end_and_comes_back() {
    let mut world = world();
    let table = Snapshot::from_json(BARE, &world.save_registry().unwrap()).unwrap();
    world.load(&table, LoadMode::Replace).unwrap();
    let position = world.query::<&Position>().single(&world).unwrap();
    assert_eq!(*position, Position { x: 1.5, y: 2.0 });
    let inventory = world.query::<&Inventory>().single(&world).unwrap();
    assert_eq!(*inventory, Inventory { items: vec!["rope".into()], gold: Some(5) });
    let json = save(&world).to_json().unwrap();
    let again = Snapshot::from_json(&json, &world.save_registry().unwrap()).unwrap();
    let before = canonical(&world);
    world.load(&again, LoadMode::Replace).unwrap();
    assert_eq!(canonical(&world), before);
}

#[test]
fn what_a_table_has_and_the_game_does_not_know_is_carried_dropped_or_refused() {
    let load = |policy| {
        let mut world = world();
        let table = Snapshot::from_json(BARE, &world.save_registry().unwrap()).unwrap();
        world.load(&table, LoadOptions::new().unknown(policy))?;
        Ok::<_, bevy_bonfire::Error>(save(&world))
    };
    // The mod comes back.
    let shields = |snapshot: &Snapshot| -> Vec<Shield> {
        let mut world = world();
        world.persist::<Shield>();
        world.load(snapshot, LoadMode::Replace).unwrap();
        world.query::<&Shield>().iter(&world).cloned().collect()
    };
    assert_eq!(shields(&load(Unknown::Keep).unwrap()), [Shield { power: 7 }]);
    assert_eq!(shields(&load(Unknown::Drop).unwrap()), []);
    let error = load(Unknown::Refuse).unwrap_err();
    assert!(error.is_unknown() && error.key() == Some("mod.shield"), "{error}");
}
