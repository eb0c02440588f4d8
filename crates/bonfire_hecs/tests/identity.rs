//! Entities that are found again: by stable id and by a field, through loads of every kind.

mod common;

use bonfire_hecs::{
    Bonfire, LoadMode, Persist, SaveOptions, SaveScope, Saved, Snapshot, StableId, StableRef, Unresolved,
};
use common::*;
use hecs::{Entity, World};

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.opens")]
struct Opens(StableRef);

/// Through bytes, as between two processes.
fn reopened(snapshot: &Snapshot) -> Snapshot {
    Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
}

fn with_keys() -> Bonfire {
    let mut bonfire = bonfire(false);
    bonfire.persist::<Opens>().unwrap();
    bonfire
}

#[test]
fn references_by_stable_id_wait_for_their_target() {
    let (mut source, mut saving) = (World::new(), with_keys());
    let door = StableId::new();
    let door_entity = source.spawn((Saved, Name("door".into())));
    saving.insert_stable_id(&mut source, door_entity, door).unwrap();
    source.spawn((Saved, Name("key".into()), Opens(door.into())));
    assert_eq!(saving.stable_ids().get(door), Some(door_entity), "known at once");
    let only = |key: &str| {
        let filter = bonfire_hecs::Filter::new().include(key);
        reopened(&saving.capture(&source, &SaveOptions::new().filter(filter)).unwrap())
    };
    let (keys, doors) = (only("test.opens"), only("bonfire.stable_id"));

    let (mut world, mut loading) = (World::new(), with_keys());
    loading.load(&mut world, &keys, LoadMode::Merge).unwrap();
    let opens = *world.query::<&Opens>().iter().next().unwrap();
    assert_eq!(opens.0.id(), door);
    assert_eq!(opens.0.resolve(loading.stable_ids()), Err(Unresolved(door)));
    assert!(Unresolved(door).to_string().contains(&door.to_string()));
    let loaded = loading.load(&mut world, &doors, LoadMode::Merge).unwrap();
    let found = opens.0.resolve(loading.stable_ids()).unwrap();
    assert_eq!(Some(found), loaded.entity(door_entity));
    assert_eq!(world.get::<&Name>(found).unwrap().0, "door");

    // What the game does is seen by the next update, and what is gone finds nothing before it.
    world.despawn(found).unwrap();
    assert_eq!(loading.stable_ids().get(door).map(|entity| world.contains(entity)), Some(false));
    loading.update_indexes(&world);
    assert_eq!(opens.0.resolve(loading.stable_ids()), Err(Unresolved(door)));
    let again = world.spawn((door,));
    loading.update_indexes(&world);
    assert_eq!(opens.0.resolve(loading.stable_ids()), Ok(again));
}

#[test]
fn an_entity_has_one_stable_id_and_the_index_follows_it() {
    let (mut world, mut bonfire) = (World::new(), with_keys());
    let [entity, gone] = [0; 2].map(|_| world.spawn(()));
    let [first, second] = [0; 2].map(|_| StableId::new());
    bonfire.insert_stable_id(&mut world, entity, first).unwrap();
    bonfire.insert_stable_id(&mut world, entity, second).unwrap();
    let ids = bonfire.stable_ids();
    assert_eq!((ids.get(first), ids.get(second), ids.len()), (None, Some(entity), 1));
    assert_eq!(*world.get::<&StableId>(entity).unwrap(), second);
    world.despawn(gone).unwrap();
    let error = bonfire.insert_stable_id(&mut world, gone, first).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains(&first.to_string()), "{error}");
    assert_eq!(bonfire.stable_ids().get(first), None);
    // Another id in place, and no update of the index in between.
    *world.get::<&mut StableId>(entity).unwrap() = first;
    bonfire.update_indexes(&world);
    let ids = bonfire.stable_ids();
    assert_eq!((ids.get(first), ids.get(second), ids.len()), (Some(entity), None, 1));
}

#[test]
fn stable_ids_survive_loads_of_every_kind() {
    let HecsWorld { mut world, mut bonfire } = HecsWorld { world: World::new(), bonfire: bonfire(false) };
    let ids: Vec<StableId> = (0..300).map(|_| StableId::new()).collect();
    for (number, &id) in ids.iter().enumerate() {
        world.spawn((Saved, Team(number as u8), id));
    }
    let snapshot = reopened(&save(&bonfire, &world));
    for mode in [LoadMode::Replace, LoadMode::SameIds, LoadMode::Restore, LoadMode::Replace] {
        let doomed =
            bonfire.stable_ids().get(ids[7]).unwrap_or_else(|| world.iter().next().unwrap().entity());
        world.despawn(doomed).unwrap();
        bonfire.load(&mut world, &snapshot, mode).unwrap();
        assert_eq!(bonfire.stable_ids().len(), 300);
        for (number, &id) in ids.iter().enumerate() {
            let entity = bonfire.stable_ids().get(id).unwrap();
            assert_eq!(*world.get::<&StableId>(entity).unwrap(), id);
            assert_eq!(world.get::<&Team>(entity).unwrap().0, number as u8);
        }
    }
    // What was met is not made again.
    let met = StableId::from_bits(StableId::new().to_bits() + 10);
    world.spawn((met,));
    bonfire.update_indexes(&world);
    assert!(StableId::new() > met);
}

#[test]
fn a_stable_id_is_no_reason_to_save_an_entity() {
    let mut world = World::new();
    world.spawn((StableId::new(),));
    world.spawn((StableId::new(), Team(1)));
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Team>().unwrap();
    assert_eq!(save(&bonfire, &world).entity_count(), 1);
    let marked = Bonfire::new().scope(SaveScope::Marked);
    assert_eq!(save(&marked, &world).entity_count(), 0);
}

#[test]
fn a_merge_that_doubles_stable_ids_says_so() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let id = StableId::new();
    let original = world.spawn((Saved, id));
    let snapshot = reopened(&save(&bonfire, &world));
    let replaced = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    assert_eq!(replaced.report.duplicate_stable_ids, [0; 0]);
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = heard.clone();
    bonfire.hooks.on_finish(move |_, finished| {
        tell.lock().unwrap().push(finished.report.duplicate_stable_ids.clone());
    });
    let merged = bonfire.load(&mut world, &snapshot, LoadMode::Merge).unwrap();
    assert_eq!(merged.report.duplicate_stable_ids, [id.to_bits()]);
    assert!(merged.report.to_string().contains(&format!("stable id {id}")), "{}", merged.report);
    let loaded = merged.entity(original).unwrap();
    assert_eq!(bonfire.stable_ids().get(id), Some(loaded));
    bonfire.update_indexes(&world);
    assert_eq!(bonfire.stable_ids().get(id), Some(loaded), "an update changes no leader");
    let replaced = bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    assert_eq!(replaced.report.duplicate_stable_ids, [0; 0]);
    assert_eq!(*heard.lock().unwrap(), [vec![id.to_bits()], vec![]], "hooks see it, too");
}

#[test]
fn a_holder_that_the_game_spawned_unseen_does_not_hide_the_loaded_one() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let id = StableId::new();
    world.spawn((Saved, Team(1), id));
    let snapshot = save(&bonfire, &world);
    // The index has never heard of these, before and after the loaded one in the world's order.
    world.spawn((id,));
    let merged = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    let loaded: Vec<Entity> = merged.entities().map(|(_, entity)| entity).collect();
    assert_eq!(bonfire.stable_ids().get(id), Some(loaded[0]));
    assert_eq!(merged.report.duplicate_stable_ids, [id.to_bits()]);
}

#[test]
fn an_index_over_a_field_follows_loads_and_updates() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    bonfire.index_by(|team: &Team| team.0).index_by(|name: &Name| name.0.clone());
    let [a, b] = [0; 2].map(|_| world.spawn((Saved, Team(1))));
    let c = world.spawn((Saved, Team(2), Name("c".into())));
    assert!(bonfire.index::<Team, u8>().unwrap().is_empty());
    bonfire.update_indexes(&world);
    let teams = |bonfire: &Bonfire, team: u8| -> Vec<Entity> {
        let mut found: Vec<Entity> = bonfire.index::<Team, u8>().unwrap().get(&team).collect();
        found.sort();
        found
    };
    let by_name = |bonfire: &Bonfire, name: &str| bonfire.index::<Name, String>().unwrap().one(&name.into());
    assert_eq!((teams(&bonfire, 1), teams(&bonfire, 2)), (vec![a, b], vec![c]));
    assert_eq!((by_name(&bonfire, "c"), by_name(&bonfire, "d")), (Some(c), None));
    let snapshot = save(&bonfire, &world);

    world.get::<&mut Team>(a).unwrap().0 = 2;
    world.despawn(b).unwrap();
    world.remove_one::<Name>(c).unwrap();
    bonfire.update_indexes(&world);
    assert_eq!((teams(&bonfire, 1), teams(&bonfire, 2)), (vec![], vec![a, c]));
    assert_eq!(by_name(&bonfire, "c"), None);
    assert!(bonfire.index::<Team, u8>().unwrap().require(&2).unwrap_err().to_string().contains("2 entities"));

    for mode in [LoadMode::Restore, LoadMode::Replace, LoadMode::SameIds] {
        let loaded = bonfire.load(&mut world, &snapshot, mode).unwrap();
        let mut expected = [a, b].map(|entity| loaded.entity(entity).unwrap());
        expected.sort();
        assert_eq!(teams(&bonfire, 1), expected);
        assert_eq!(by_name(&bonfire, "c"), loaded.entity(c));
        assert_eq!(bonfire.index::<Team, u8>().unwrap().len(), 3);
    }
    // An index of the same types takes the place of the first.
    bonfire.index_by(|team: &Team| team.0 + 10).update_indexes(&world);
    assert_eq!((teams(&bonfire, 1).len(), teams(&bonfire, 11).len()), (0, 2));
}

#[test]
fn what_hooks_of_a_load_spawn_is_found() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    bonfire.index_by(|team: &Team| team.0);
    let snapshot = save(&bonfire, &world);
    let id = StableId::new();
    bonfire.hooks.on_finish(move |world: &mut World, _| _ = world.spawn((Team(9), id)));
    bonfire.load(&mut world, &snapshot, LoadMode::Replace).unwrap();
    let spawned = world.iter().next().unwrap().entity();
    assert_eq!(bonfire.index::<Team, u8>().unwrap().one(&9), Some(spawned));
    assert_eq!(bonfire.stable_ids().get(id), Some(spawned));
}
