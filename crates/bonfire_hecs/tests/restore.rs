//! A running world back to a snapshot of its own past: what stays, what goes, what comes again.

mod common;

use bonfire_hecs::core::engine::SnapshotWriter;
use bonfire_hecs::{Bonfire, EntityId, Filter, LoadMode, SaveOptions, SaveScope, Saved, Selection, Snapshot};
use common::*;
use hecs::{Component, Entity, World};

fn name(name: &str) -> Name {
    Name(name.into())
}

/// A component that nobody registered.
#[derive(Clone, Debug, PartialEq)]
struct Sprite(String);

fn sprite(name: &str) -> Sprite {
    Sprite(name.into())
}

fn address<T: Component>(world: &World, entity: Entity) -> *const T {
    std::ptr::from_ref(&*world.get::<&T>(entity).unwrap())
}

fn bytes(bonfire: &Bonfire, world: &World) -> Vec<u8> {
    save(bonfire, world).to_bytes().unwrap()
}

#[test]
fn entities_that_are_still_there_keep_their_ids_and_what_is_not_saved() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let health = |current, flash| Health { current, max: 100, flash };
    let entities: Vec<Entity> = (0..30)
        .map(|number| {
            let inventory = Inventory { items: vec![number.to_string()], gold: None };
            world.spawn((Saved, health(number, 1), inventory, sprite(&number.to_string()), Hover(1)))
        })
        .collect();
    let snapshot = Snapshot::open(&bytes(&bonfire, &world)).unwrap();
    for &entity in &entities {
        *world.get::<&mut Health>(entity).unwrap() = health(0, 2);
        world.get::<&mut Inventory>(entity).unwrap().items.push("loot".into());
        world.get::<&mut Hover>(entity).unwrap().0 = 2;
        world.get::<&mut Sprite>(entity).unwrap().0.push_str(" now");
    }
    let places: Vec<_> = entities.iter().map(|&entity| address::<Health>(&world, entity)).collect();

    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(loaded.respawned, []);
    assert_eq!(loaded.report.entities, 30);
    for (number, &entity) in entities.iter().enumerate() {
        assert_eq!(loaded.entity(entity), Some(entity));
        let restored = *world.get::<&Health>(entity).unwrap();
        assert_eq!((restored.current, restored.max), (number as u8, 100));
        assert_eq!(world.get::<&Inventory>(entity).unwrap().items, [number.to_string()]);
        assert_eq!(world.get::<&Sprite>(entity).unwrap().0, format!("{number} now"), "not saved: it stays");
        assert_eq!(world.get::<&Hover>(entity).unwrap().0, 2, "transient: it stays");
        assert_eq!(address::<Health>(&world, entity), places[number], "overwritten where it lies");
    }
}

#[test]
fn what_came_since_goes_and_what_is_gone_comes_back_with_references() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let stays = world.spawn((Saved, name("stays")));
    let dies = world.spawn((Saved, name("dies"), sprite("x")));
    let also_dies = world.spawn((Saved, name("also dies"), Enemy));
    let scenery = world.spawn((sprite("tree"),));
    let follows = |leader, others| Follows { leader, others, last: Some(leader) };
    world.insert_one(stays, follows(dies, vec![stays, also_dies])).unwrap();
    world.insert_one(dies, follows(stays, vec![dies])).unwrap();
    let snapshot = save(&bonfire, &world);

    world.despawn(dies).unwrap();
    world.despawn(also_dies).unwrap();
    let came: Vec<Entity> = (0..5).map(|_| world.spawn((Saved, name("came")))).collect();
    let came_unsaved = world.spawn((sprite("cloud"),));
    world.get::<&mut Follows>(stays).unwrap().leader = came[0];

    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    let mut respawned = loaded.respawned.clone();
    respawned.sort();
    let new = |old: Entity| loaded.entity(old).unwrap();
    assert_eq!(respawned.len(), 2);
    assert!(respawned.contains(&(EntityId::from(dies), new(dies))), "{respawned:?}");
    assert!(respawned.contains(&(EntityId::from(also_dies), new(also_dies))), "{respawned:?}");
    assert_eq!(new(stays), stays);
    assert!(!world.contains(dies) && !world.contains(also_dies), "stale handles find nothing");
    assert!(came.iter().all(|&entity| !world.contains(entity)));
    assert!(world.contains(scenery) && world.contains(came_unsaved), "what is not saved stays");
    assert_eq!(*world.get::<&Follows>(stays).unwrap(), follows(new(dies), vec![stays, new(also_dies)]));
    assert_eq!(*world.get::<&Follows>(new(dies)).unwrap(), follows(stays, vec![new(dies)]));
    assert!(world.get::<&Sprite>(new(dies)).is_err(), "what was not saved cannot come back");
    assert_eq!(world.get::<&Name>(new(also_dies)).unwrap().0, "also dies");
    let pairs: Vec<(EntityId, Entity)> = loaded.entities().collect();
    assert!(pairs.len() == 3 && respawned.iter().all(|pair| pairs.contains(pair)), "{pairs:?}");
    // The free ids are in order: whatever is spawned is new to everyone.
    let known = [vec![stays, dies, also_dies, scenery, came_unsaved], came].concat();
    for _ in 0..20 {
        assert!(!known.contains(&world.spawn((Saved, name("new")))));
    }
}

#[test]
fn components_added_since_go_and_removed_ones_come_again() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let entities: Vec<Entity> = (0..12)
        .map(|number| world.spawn((Saved, Team(number), Inventory::default(), sprite("kept"), Hover(3))))
        .collect();
    let before = canonical(&save(&bonfire, &world));
    let snapshot = save(&bonfire, &world);
    for (number, &entity) in entities.iter().enumerate() {
        match number % 6 {
            0 => world.insert(entity, (Burning("added".into()), Enemy)).unwrap(),
            1 => drop(world.remove::<(Team, Inventory)>(entity).unwrap()),
            2 => {
                // Both, and a value that is another.
                world
                    .insert(entity, (Mood::Singing("la".into()), Inventory { gold: Some(1), items: vec![] }))
                    .unwrap();
                world.remove_one::<Team>(entity).unwrap();
            }
            3 => drop(world.remove_one::<Hover>(entity).unwrap()),
            4 => drop(world.remove_one::<Sprite>(entity).unwrap()),
            _ => (),
        }
    }
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert!(loaded.respawned.is_empty());
    assert_eq!(canonical(&save(&bonfire, &world)), before);
    assert_eq!(world.query::<&Burning>().iter().count() + world.query::<&Enemy>().iter().count(), 0);
    for (number, &entity) in entities.iter().enumerate() {
        assert_eq!(world.get::<&Team>(entity).unwrap().0, number as u8);
        assert_eq!(*world.get::<&Inventory>(entity).unwrap(), Inventory::default());
        assert_eq!(world.get::<&Hover>(entity).is_ok(), number % 6 != 3, "transient: as it is now");
        assert_eq!(world.get::<&Sprite>(entity).is_ok(), number % 6 != 4, "not saved: as it is now");
    }
}

#[test]
fn holes_in_a_saved_column_are_holes_again() {
    // The codec leaves odd numbers out, so that half of the rows come without.
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let entities: Vec<Entity> =
        (0..8).map(|number| world.spawn((Saved, Team(number), Even(number)))).collect();
    let snapshot = save(&bonfire, &world);
    for (number, &entity) in entities.iter().enumerate() {
        match number % 4 {
            0 => drop(world.remove_one::<Even>(entity)),
            1 => world.get::<&mut Even>(entity).unwrap().0 = 100,
            2 => world.get::<&mut Even>(entity).unwrap().0 = 102,
            _ => world.insert_one(entity, Enemy).unwrap(),
        }
    }
    world.despawn(entities[5]).unwrap();
    world.despawn(entities[6]).unwrap();
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(loaded.respawned.len(), 2);
    for (number, &entity) in entities.iter().enumerate() {
        let even = world.get::<&Even>(loaded.entity(entity).unwrap()).ok().map(|even| even.0);
        assert_eq!(even, (number % 2 == 0).then_some(number as u8), "{number}");
    }
    assert_eq!(canonical(&save(&bonfire, &world)), canonical(&snapshot));
}

#[test]
fn restoring_what_is_there_changes_nothing() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let entities: Vec<Entity> = (0..100).map(|number| world.spawn((Saved, Team(number)))).collect();
    entities.iter().step_by(7).for_each(|&entity| world.despawn(entity).unwrap());
    entities.iter().skip(1).step_by(7).for_each(|&entity| world.insert_one(entity, Enemy).unwrap());
    let free: Vec<Entity> = world.freelist().collect();
    let before = bytes(&bonfire, &world);
    let snapshot = Snapshot::open(&before).unwrap();
    for _ in 0..3 {
        let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
        assert!(loaded.respawned.is_empty());
        assert_eq!(bytes(&bonfire, &world), before);
        assert_eq!(world.freelist().collect::<Vec<_>>(), free);
    }
}

#[test]
fn a_world_that_lost_everything_gets_it_back() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let leader = world.spawn((Saved, name("leader")));
    for number in 0..20 {
        world.spawn((Saved, Follows { leader, others: vec![], last: None }, Even(number)));
    }
    let snapshot = save(&bonfire, &world);
    let before = canonical(&snapshot);
    let entities = world.len() as usize;
    let all: Vec<Entity> = world.iter().map(|entity| entity.entity()).collect();

    // One by one, all at once, and in a world that never had any of it.
    all.iter().for_each(|&entity| world.despawn(entity).unwrap());
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(loaded.respawned.len(), entities);
    assert!(all.iter().all(|&entity| !world.contains(entity)), "handles from before find nothing");
    assert_eq!(canonical(&save(&bonfire, &world)), before);
    world.clear();
    bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(canonical(&save(&bonfire, &world)), before);
    let (mut fresh, mut other) = (World::new(), common::bonfire(true));
    fresh.spawn((sprite("scenery"),));
    let loaded = other.load(&mut fresh, &snapshot, LoadMode::Restore).unwrap();
    let new = loaded.entity(leader).unwrap();
    assert!(fresh.query::<&Follows>().iter().all(|follows| follows.leader == new));
    assert_eq!((canonical(&save(&other, &fresh)), fresh.len() as usize), (before, entities + 1));
}

#[test]
fn an_empty_snapshot_takes_everything_that_is_saved_away() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let scenery = world.spawn((sprite("scenery"),));
    let snapshot = save(&bonfire, &world);
    (0..10).for_each(|number| _ = world.spawn((Saved, Team(number))));
    bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert!(world.len() == 1 && world.contains(scenery));
}

#[test]
fn a_selection_is_restored_alone() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let enemies: Vec<Entity> = (0..4).map(|number| world.spawn((Saved, Team(number), Enemy))).collect();
    let player = world.spawn((Saved, Team(9)));
    let selection = || Selection::new().matching::<&Enemy>();
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new().selection(selection())).unwrap();
    world.despawn(enemies[1]).unwrap();
    let came = world.spawn((Saved, Team(50), Enemy));
    let came_beside = world.spawn((Saved, Team(51)));
    for entity in [enemies[0], enemies[2], player] {
        world.get::<&mut Team>(entity).unwrap().0 = 77;
    }
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::RestoreSelected(selection())).unwrap();
    assert_eq!(loaded.respawned.len(), 1);
    for (number, &entity) in enemies.iter().enumerate() {
        assert_eq!(world.get::<&Team>(loaded.entity(entity).unwrap()).unwrap().0, number as u8);
    }
    assert!(!world.contains(came), "it is selected and was not there");
    assert_eq!(world.get::<&Team>(player).unwrap().0, 77, "it is not selected");
    assert_eq!(world.get::<&Team>(came_beside).unwrap().0, 51);
}

#[test]
fn a_selection_by_layer_restores_some_rows_of_an_archetype() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    bonfire.save_layer(|layer: &Layer| layer.0);
    let entities: Vec<Entity> =
        (0..12).map(|number| world.spawn((Saved, Layer(number % 3), Team(number), sprite("kept")))).collect();
    let layer = |number| Filter::new().layers([number]).unwrap();
    let selection = || Selection::new().filter(layer(1));
    let snapshot = bonfire.capture_with_hooks(&world, &SaveOptions::new().filter(layer(1))).unwrap();
    assert_eq!(snapshot.entity_count(), 4);
    for &entity in &entities {
        world.get::<&mut Team>(entity).unwrap().0 = 99;
    }
    world.insert_one(entities[1], Enemy).unwrap();
    world.remove_one::<Team>(entities[4]).unwrap();
    world.despawn(entities[7]).unwrap();
    let came = world.spawn((Saved, Layer(1)));
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::RestoreSelected(selection())).unwrap();
    assert!(!world.contains(came));
    for (number, &entity) in entities.iter().enumerate() {
        if number % 3 == 1 {
            let now = loaded.entity(entity).unwrap();
            assert_eq!(now == entity, number != 7);
            assert_eq!(world.get::<&Team>(now).unwrap().0, number as u8);
            assert!(world.get::<&Enemy>(now).is_err());
            assert_eq!(world.get::<&Sprite>(now).is_ok(), number != 7);
        } else {
            assert_eq!(world.get::<&Team>(entity).unwrap().0, 99, "{number} is on another layer");
            assert_eq!(loaded.entity(entity), None);
        }
    }
}

/// Not registered: it only tells layers.
struct Layer(u8);

#[test]
fn a_mark_stays_where_marks_count() {
    // Saved when every entity with a registered component was, without a mark.
    let mut world = World::new();
    let mut unmarked = bonfire(false).scope(SaveScope::Persisted);
    let entity = world.spawn((Team(1), Enemy));
    let snapshot = Snapshot::open(&save(&unmarked, &world).to_bytes().unwrap()).unwrap();
    assert!(!snapshot.component_rows().contains_key("bonfire.saved"));
    world.insert_one(entity, Saved).unwrap();
    world.get::<&mut Team>(entity).unwrap().0 = 2;
    let mut marked = bonfire(false);
    marked.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(world.get::<&Team>(entity).unwrap().0, 1);
    assert!(world.get::<&Saved>(entity).is_ok(), "without it the next save would lose the entity");
    assert_eq!(save(&marked, &world).entity_count(), 1);

    // Where it is one component among others it goes like the others.
    unmarked.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert!(world.get::<&Saved>(entity).is_err());
}

#[test]
fn rows_in_another_order_and_in_other_archetypes_find_their_values() {
    let (mut world, mut bonfire) = (World::new(), bonfire(false));
    let entities: Vec<Entity> = (0..60)
        .map(|number| {
            world.spawn((Saved, Team(number), Inventory { gold: Some(u64::from(number)), items: vec![] }))
        })
        .collect();
    let snapshot = save(&bonfire, &world);
    // Rows are swapped whenever one leaves its archetype.
    for &entity in entities.iter().step_by(4) {
        world.insert_one(entity, Enemy).unwrap();
    }
    for &entity in entities.iter().step_by(8) {
        world.remove_one::<Enemy>(entity).unwrap();
    }
    for &entity in entities.iter().skip(1).step_by(5) {
        world.insert_one(entity, sprite("x")).unwrap();
    }
    for &entity in &entities {
        world.get::<&mut Team>(entity).unwrap().0 = 200;
        world.get::<&mut Inventory>(entity).unwrap().gold = None;
    }
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert!(loaded.respawned.is_empty());
    for (number, &entity) in entities.iter().enumerate() {
        assert_eq!(usize::from(world.get::<&Team>(entity).unwrap().0), number);
        assert_eq!(world.get::<&Inventory>(entity).unwrap().gold, Some(number as u64));
        assert!(world.get::<&Enemy>(entity).is_err());
        assert_eq!(world.get::<&Sprite>(entity).is_ok(), number % 5 == 1);
    }
}

#[test]
fn ids_that_no_world_has_given_out_are_spawned_anew() {
    let bonfire = bonfire(false);
    let mut writer = SnapshotWriter::new(bonfire.registry());
    let ids =
        [EntityId::new(4_000_000_000, 7), EntityId::new(0, 0), EntityId::new(0, 1), EntityId::new(9, 1)];
    writer.archetype(&ids).unwrap().column(&[Team(0), Team(1), Team(2), Team(3)]).unwrap();
    let snapshot = writer.finish().unwrap();
    let (mut world, mut bonfire) = (World::new(), bonfire);
    let here = world.spawn((Saved, Team(8)));
    assert_eq!(EntityId::from(here), ids[2]);
    let loaded = bonfire.load(&mut world, &snapshot, LoadMode::Restore).unwrap();
    assert_eq!(loaded.respawned.len(), 3);
    assert_eq!(loaded.entity(here), Some(here));
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(usize::from(world.get::<&Team>(loaded.entity(id).unwrap()).unwrap().0), number);
    }
    assert_eq!(world.len(), 4);
}
