//! Tables of JSON, written by hand or by another program, through the front end.

use bonfire_hecs::{Bonfire, LoadMode, LoadOptions, Persist, SaveOptions, Snapshot, Unknown};
use hecs::World;

const BARE: &str = r#"{
    "version": 1,
    "nextEntityId": 3,
    "componentTable": [{"name": "test.health"}, {"name": "mod.shield"}],
    "archetypes": [
        {"columnIndices": [1, 2], "entities": [[1, 3.5, {"power": 7}]]},
        {"columnIndices": [1], "entities": [[2, 4.5]]}
    ]
}"#;

#[derive(Persist, Debug, PartialEq)]
#[persist(key = "test.health")]
struct Health(f32);

#[derive(Persist, Clone, Debug, PartialEq)]
#[persist(key = "mod.shield")]
struct Shield {
    power: u32,
}

fn bonfire() -> Bonfire {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Health>().unwrap();
    bonfire
}

fn load(policy: Unknown) -> bonfire_hecs::Result<(Snapshot, Vec<f32>)> {
    let (mut bonfire, mut world) = (bonfire(), World::new());
    let table = Snapshot::from_json(BARE, bonfire.registry())?;
    bonfire.load(&mut world, &table, LoadOptions::new().unknown(policy))?;
    let mut health: Vec<f32> = world.query::<&Health>().iter().map(|health| health.0).collect();
    health.sort_by(f32::total_cmp);
    Ok((bonfire.capture(&world, &SaveOptions::new())?, health))
}

fn shields(snapshot: &Snapshot) -> Vec<Shield> {
    let (mut bonfire, mut world) = (bonfire(), World::new());
    bonfire.persist::<Shield>().unwrap();
    bonfire.load(&mut world, snapshot, LoadMode::Replace).unwrap();
    world.query::<&Shield>().iter().cloned().collect()
}

#[test]
fn a_table_loads_and_what_is_unknown_is_carried_dropped_or_refused() {
    let (kept, health) = load(Unknown::Keep).unwrap();
    assert_eq!(health, [3.5, 4.5]);
    assert_eq!(shields(&kept), [Shield { power: 7 }]);
    assert_eq!(shields(&load(Unknown::Drop).unwrap().0), []);
    let error = load(Unknown::Refuse).unwrap_err();
    assert!(error.is_unknown() && error.key() == Some("mod.shield"), "{error}");
}
