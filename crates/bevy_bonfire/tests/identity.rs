//! Identity beyond a process: stable ids, references by them, and indexes.

mod common;

use bevy_app::App;
use bevy_bonfire::prelude::*;
use bevy_bonfire::{EncodeOptions, Index, Snapshot, StableId, StableIds, StableRef, Unresolved};
use bevy_ecs::prelude::*;
use common::*;

#[derive(Component, Persist, Clone, Copy)]
#[persist(key = "test.opens")]
struct Opens(StableRef);

fn with_ids() -> World {
    let mut world = world();
    world.persist::<Opens>();
    world
}

#[test]
fn references_by_stable_id_wait_for_their_target() {
    let mut source = with_ids();
    let door = StableId::new();
    let door_entity = source.spawn((Saved, Enemy, door)).id();
    source.spawn((Saved, Team(1), Opens(door.into())));
    assert_eq!(source.resource::<StableIds>().get(door), Some(door_entity));
    let keys = source.capture_with_events(&SaveOptions::new().matching::<With<Team>>()).unwrap();
    let doors = source.capture_with_events(&SaveOptions::new().matching::<With<Enemy>>()).unwrap();
    let reopened = |snapshot: &Snapshot| {
        Snapshot::open(&snapshot.encode(&EncodeOptions::default()).unwrap().to_vec()).unwrap()
    };

    // In either order.
    for keys_first in [true, false] {
        let mut world = with_ids();
        let [first, second] = if keys_first { [&keys, &doors] } else { [&doors, &keys] };
        world.load(&reopened(first), LoadMode::Merge).unwrap();
        if keys_first {
            let opens = *world.query::<&Opens>().single(&world).unwrap();
            assert_eq!(opens.0.resolve(world.resource::<StableIds>()), Err(Unresolved(door)));
        }
        world.load(&reopened(second), LoadMode::Merge).unwrap();
        let opens = *world.query::<&Opens>().single(&world).unwrap();
        let found = opens.0.resolve(world.resource::<StableIds>()).unwrap();
        assert!(world.entity(found).contains::<Enemy>());
        world.despawn(found);
        assert_eq!(opens.0.resolve(world.resource::<StableIds>()), Err(Unresolved(door)));
    }
}

#[derive(Component)]
#[require(StableId)]
struct Tracked;

#[test]
fn stable_ids_are_unique_and_survive_loads() {
    let mut world = with_ids();
    world.persist_ignore::<Tracked>();
    let ids: Vec<StableId> = (0..300)
        .map(|_| {
            let entity = world.spawn((Saved, Tracked)).id();
            *world.get::<StableId>(entity).unwrap()
        })
        .collect();
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 300);
    for _ in 0..5 {
        let snapshot = save(&world);
        world.load(&snapshot, LoadMode::Replace).unwrap();
        let index = world.resource::<StableIds>();
        assert_eq!(index.len(), 300);
        for id in &ids {
            assert_eq!(world.get::<StableId>(index.get(*id).unwrap()), Some(id));
        }
    }
    // An id of another session with the same seed is not made again.
    let next = StableId::from_bits(StableId::new().to_bits() + 10);
    world.spawn(next);
    assert!(StableId::new() > next);
}

#[test]
fn an_index_survives_repeated_loads_and_sees_changes() {
    let mut app = App::new();
    app.add_plugins(BonfirePlugin::default());
    register(app.world_mut(), false);
    app.world_mut().spawn((Saved, Name::new("early")));
    app.index_by(|name: &Name| name.to_string()).index_by(|team: &Team| team.0);
    for i in 0..200_u8 {
        app.world_mut().spawn((Saved, Name::new(format!("n{i}")), Team(i % 10)));
    }
    let check = |world: &World| {
        let names = world.resource::<Index<Name, String>>();
        assert_eq!(names.len(), 201);
        for name in ["early", "n0", "n77"] {
            let entity = names.one(&name.to_owned()).unwrap();
            assert_eq!(world.get::<Name>(entity).unwrap().as_str(), name);
            assert_eq!(names.require(&name.to_owned()).unwrap(), entity);
        }
        assert!(names.require(&"nobody".to_owned()).unwrap_err().to_string().contains("0 entities"));
        assert_eq!(world.resource::<Index<Team, u8>>().get(&3).count(), 20);
        assert!(world.resource::<Index<Team, u8>>().require(&3).is_err());
    };
    check(app.world());
    for _ in 0..5 {
        let snapshot = save(app.world());
        app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
        check(app.world());
    }
    // In the middle of a load, when observers ask for their data, the index is complete.
    app.world_mut()
        .add_observer(|_: On<LoadStarting>, names: Res<Index<Name, String>>| assert_eq!(names.len(), 201));
    let snapshot = save(app.world());
    app.world_mut().load(&snapshot, LoadMode::Replace).unwrap();
    // Changed in place: seen at the end of the frame.
    let world = app.world_mut();
    let entity = world.resource::<Index<Name, String>>().one(&"n5".to_owned()).unwrap();
    world.get_mut::<Name>(entity).unwrap().set("renamed");
    app.update();
    let names = app.world().resource::<Index<Name, String>>();
    assert_eq!((names.one(&"renamed".to_owned()), names.one(&"n5".to_owned())), (Some(entity), None));
}
