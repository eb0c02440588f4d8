//! A running world back to what it was: what is overwritten in place, what is seen, what comes and goes.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Dangling, Descriptor, EntityId, Filter, LoadOptions, Selection, Snapshot};
use bevy_ecs::change_detection::Tick;
use bevy_ecs::prelude::*;
use common::*;

/// Never registered: what a game hangs on its entities for itself.
#[derive(Component, Debug, PartialEq)]
struct Sprite(u32);

fn restore(world: &mut World, snapshot: &Snapshot, ticks: Ticks) -> Arc<bevy_bonfire::Loaded> {
    world.load(snapshot, LoadMode::Restore(ticks)).unwrap()
}

/// Which entities count as changed since a tick.
fn changed<T: Component>(world: &mut World, since: Tick) -> Vec<Entity> {
    let now = world.change_tick();
    let mut query = world.query::<(Entity, Ref<T>)>();
    let changed = |value: &Ref<T>| value.last_changed().is_newer_than(since, now);
    query.iter(world).filter(|(_, value)| changed(value)).map(|(entity, _)| entity).collect()
}

fn since(world: &mut World) -> Tick {
    let before = world.change_tick();
    world.increment_change_tick();
    before
}

#[test]
fn values_of_every_kind_are_overwritten_in_place() {
    let mut world = world();
    let leader = world.spawn((Saved, Position { x: 1.0, y: 2.0 }, Sprite(1))).id();
    let entity = world
        .spawn((
            Saved,
            Position { x: 3.0, y: 4.0 },
            Health { current: 5, max: 6, flash: 7 },
            Inventory { items: vec!["rope".into()], gold: Some(3) },
            Burning("blue".into()),
            Follows { leader, others: vec![leader], last: Some(leader) },
            Mood::Singing("low".into()),
            Team(4),
            Hover(8),
            Sprite(2),
        ))
        .id();
    world.insert_resource(Score { points: 9, best: Some(leader) });
    let snapshot = save(&world);
    let row = world.entities().get_spawned(entity).unwrap().table_row;

    let mut it = world.entity_mut(entity);
    *it.get_mut::<Position>().unwrap() = Position::default();
    *it.get_mut::<Health>().unwrap() = Health { current: 0, max: 0, flash: 1 };
    *it.get_mut::<Inventory>().unwrap() = Inventory { items: vec!["a".into(), "b".into()], gold: None };
    it.get_mut::<Burning>().unwrap().0 = "red".into();
    it.get_mut::<Follows>().unwrap().others.clear();
    *it.get_mut::<Mood>().unwrap() = Mood::Calm;
    it.insert(Team(1));
    it.get_mut::<Hover>().unwrap().0 = 80;
    it.get_mut::<Sprite>().unwrap().0 = 20;
    world.resource_mut::<Score>().points = 0;

    let loaded = restore(&mut world, &snapshot, Ticks::All);
    assert!(loaded.respawned.is_empty());
    assert_eq!(loaded.entity(entity), Some(entity));
    let it = world.entity(entity);
    assert_eq!(it.get::<Position>(), Some(&Position { x: 3.0, y: 4.0 }));
    assert_eq!(
        it.get::<Health>(),
        Some(&Health { current: 5, max: 6, flash: 0 }),
        "skipped fields as after a load"
    );
    assert_eq!(it.get::<Inventory>().unwrap().items, ["rope"]);
    assert_eq!(it.get::<Burning>().unwrap().0, "blue");
    assert_eq!(it.get::<Follows>().unwrap().others, [leader]);
    assert_eq!(it.get::<Mood>(), Some(&Mood::Singing("low".into())));
    assert_eq!(it.get::<Team>(), Some(&Team(4)));
    assert_eq!(it.get::<Hover>(), Some(&Hover(80)), "never saved, so never restored");
    assert_eq!(it.get::<Sprite>(), Some(&Sprite(20)), "not registered");
    assert_eq!(world.resource::<Score>(), &Score { points: 9, best: Some(leader) });
    assert_eq!(world.entities().get_spawned(entity).unwrap().table_row, row, "nothing moved");
}

#[test]
fn change_ticks_are_set_for_all_or_for_what_differs() {
    #[derive(Component, Persist, Clone, Copy, PartialEq, Debug)]
    #[component(summary_tick)]
    #[persist(key = "test.summed")]
    struct Summed(u32);

    let mut world = world();
    world.persist::<Summed>();
    let spawn = |world: &mut World, number: u32| {
        let position = Position { x: number as f32, y: 0.0 };
        let inventory = Inventory { items: vec![number.to_string()], gold: None };
        let burning = Burning(number.to_string());
        world.spawn((Saved, position, Health::default(), inventory, burning, Summed(number))).id()
    };
    let entities: Vec<Entity> = (0..300).map(|number| spawn(&mut world, number)).collect();
    world.insert_resource(Score { points: 1, best: None });
    let snapshot = save(&world);
    let summary = |world: &World| {
        let id = world.components().component_id::<Summed>().unwrap();
        world.storages().tables.iter().find_map(|table| Some(table.get_summary_tick(id)?.get())).unwrap()
    };

    // Everything counts as changed.
    let before = since(&mut world);
    restore(&mut world, &snapshot, Ticks::All);
    assert_eq!(changed::<Position>(&mut world, before).len(), 300);
    assert_eq!(changed::<Inventory>(&mut world, before).len(), 300);
    assert_eq!(changed::<Burning>(&mut world, before).len(), 300);
    assert_eq!(summary(&world), world.change_tick());
    assert_eq!(world.get_resource_ref::<Score>().unwrap().last_changed(), world.change_tick());

    // Nothing differs, so nothing counts as changed.
    let before = since(&mut world);
    restore(&mut world, &snapshot, Ticks::Differing);
    assert!(changed::<Position>(&mut world, before).is_empty());
    assert!(changed::<Health>(&mut world, before).is_empty());
    assert!(changed::<Inventory>(&mut world, before).is_empty());
    assert!(changed::<Burning>(&mut world, before).is_empty());
    assert!(summary(&world) != world.change_tick());
    assert!(world.get_resource_ref::<Score>().unwrap().last_changed() != world.change_tick());

    // Some differ, of each kind; a value that was touched but is the same does not.
    world.get_mut::<Position>(entities[7]).unwrap().x = -1.0;
    world.get_mut::<Position>(entities[8]).unwrap().set_changed();
    world.get_mut::<Health>(entities[150]).unwrap().current = 9;
    world.get_mut::<Health>(entities[151]).unwrap().flash = 9;
    world.get_mut::<Inventory>(entities[299]).unwrap().items.clear();
    world.get_mut::<Burning>(entities[0]).unwrap().0 = "out".into();
    world.get_mut::<Summed>(entities[64]).unwrap().0 = 0;
    world.resource_mut::<Score>().points = 7;
    let before = since(&mut world);
    restore(&mut world, &snapshot, Ticks::Differing);
    assert_eq!(changed::<Position>(&mut world, before), [entities[7]]);
    assert_eq!(changed::<Health>(&mut world, before), [entities[150]]);
    assert_eq!(changed::<Inventory>(&mut world, before), [entities[299]]);
    assert_eq!(changed::<Burning>(&mut world, before), [entities[0]]);
    assert_eq!(changed::<Summed>(&mut world, before), [entities[64]]);
    assert_eq!(summary(&world), world.change_tick());
    assert_eq!(world.resource::<Score>().points, 1);
    assert_eq!(
        world.get::<Health>(entities[151]).unwrap().flash,
        0,
        "also what is not saved is as after a load"
    );
    assert_eq!(canonical(&world), {
        world.load(&snapshot, LoadMode::Replace).unwrap();
        canonical(&world)
    });
}

#[test]
fn what_has_come_goes_and_what_is_gone_comes_back() {
    let mut world = world();
    let entities: Vec<Entity> = (0..200)
        .map(|number| world.spawn((Saved, Position { x: number as f32, y: 0.0 }, Enemy)).id())
        .collect();
    let watcher = world
        .spawn((Saved, Follows { leader: entities[5], others: vec![entities[6]], last: Some(entities[7]) }))
        .id();
    let stranger = world.spawn(Position { x: 77.0, y: 0.0 }).id();
    let snapshot = save(&world);
    let expected = canonical(&world);

    for number in [5, 6, 40, 199] {
        world.despawn(entities[number]);
    }
    let come: Vec<Entity> = (0..10).map(|_| world.spawn((Saved, Position::default(), Enemy)).id()).collect();
    world.entity_mut(entities[50]).remove::<Enemy>();
    world.entity_mut(entities[51]).remove::<Position>();
    world.entity_mut(entities[52]).insert((Health::default(), Burning("new".into()), Team(3)));
    world.entity_mut(entities[53]).insert(Sprite(5));

    let loaded = restore(&mut world, &snapshot, Ticks::All);
    assert_eq!(canonical(&world), expected);
    let respawned: Vec<EntityId> = loaded.respawned.iter().map(|(was, _)| *was).collect();
    assert_eq!(respawned, [5, 6, 40, 199].map(|number| EntityId::from(entities[number])));
    for &(was, is) in &loaded.respawned {
        assert_eq!(loaded.entity(was), Some(is));
        assert!(EntityId::from(is) != was && world.get_entity(Entity::from(was)).is_err());
    }
    let follows = world.get::<Follows>(watcher).unwrap();
    assert_eq!(follows.leader, loaded.entity(entities[5]).unwrap());
    assert_eq!(follows.others, [loaded.entity(entities[6]).unwrap()]);
    assert_eq!(follows.last, Some(entities[7]));
    assert!(come.iter().all(|&entity| world.get_entity(entity).is_err()));
    assert!(world.get::<Enemy>(entities[50]).is_some() && world.get::<Position>(entities[51]).is_some());
    let changed = world.entity(entities[52]);
    assert!(!changed.contains::<Health>() && !changed.contains::<Burning>() && !changed.contains::<Team>());
    assert_eq!(world.get::<Sprite>(entities[53]), Some(&Sprite(5)));
    assert_eq!(world.get::<Position>(stranger).unwrap().x, 77.0, "what is not saved is left alone");
    let rest = entities.iter().filter(|entity| !respawned.contains(&EntityId::from(**entity)));
    assert!(rest.clone().all(|&entity| world.get_entity(entity).is_ok()), "the others keep their ids");
}

#[test]
fn families_are_as_they_were() {
    let mut world = world();
    let parent = world.spawn((Saved, Name::new("parent"))).id();
    let other = world.spawn((Saved, Name::new("other"))).id();
    let child =
        |world: &mut World, name: &'static str| world.spawn((Saved, Name::new(name), ChildOf(parent))).id();
    let (a, b, c) = (child(&mut world, "a"), child(&mut world, "b"), child(&mut world, "c"));
    let loose = world.spawn((Saved, Name::new("loose"))).id();
    let ship = world.spawn((Saved, DockedAt { station: other, berth: "north".into() })).id();
    let snapshot = save(&world);
    let expected = canonical(&world);

    // Another order, another parent, a parent that has come since, no parent, a parent where there was none.
    world.entity_mut(a).insert(ChildOf(other));
    world.entity_mut(a).insert(ChildOf(parent));
    let late = world.spawn((Saved, Name::new("late"))).id();
    world.entity_mut(b).insert(ChildOf(late));
    world.entity_mut(c).remove::<ChildOf>();
    world.entity_mut(loose).insert(ChildOf(c));
    let effect = world.spawn((Name::new("effect"), ChildOf(parent))).id();
    world.entity_mut(ship).insert(DockedAt { station: other, berth: "south".into() });

    restore(&mut world, &snapshot, Ticks::Differing);
    assert_eq!(canonical(&world), expected);
    let children = world.get::<Children>(parent).unwrap().to_vec();
    let saved: Vec<Entity> = children.iter().copied().filter(|&child| child != effect).collect();
    assert_eq!(saved, [a, b, c]);
    assert!(children.contains(&effect), "a child that is not saved stays with its parent");
    assert!(world.get_entity(late).is_err() && world.get::<ChildOf>(loose).is_none());
    assert_eq!(world.get::<DockedAt>(ship).unwrap().berth, "north");

    // The parent is gone, and its children with it.
    world.despawn(parent);
    let loaded = restore(&mut world, &snapshot, Ticks::All);
    assert_eq!(loaded.respawned.len(), 4);
    assert_eq!(canonical(&world), expected);
}

#[test]
fn two_children_change_places_again() {
    let mut world = world();
    let parent = world.spawn((Saved, Name::new("parent"))).id();
    let [a, b] = [0, 1].map(|_| world.spawn((Saved, ChildOf(parent))).id());
    let snapshot = save(&world);
    world.entity_mut(a).remove::<ChildOf>();
    world.entity_mut(a).insert(ChildOf(parent));
    assert_eq!(world.get::<Children>(parent).unwrap().to_vec(), [b, a]);
    restore(&mut world, &snapshot, Ticks::All);
    assert_eq!(world.get::<Children>(parent).unwrap().to_vec(), [a, b]);
}

#[test]
fn relationships_that_are_the_same_are_left_alone() {
    #[derive(Resource, Default)]
    struct Seen(usize);
    let mut world = world();
    let parent = world.spawn(Saved).id();
    let child = world.spawn((Saved, ChildOf(parent), Team(1), Position::default())).id();
    let snapshot = save(&world);
    world.init_resource::<Seen>();
    world.add_observer(|_: On<Insert<ChildOf>>, mut seen: ResMut<Seen>| seen.0 += 1);
    world.add_observer(|_: On<Insert<Team>>, mut seen: ResMut<Seen>| seen.0 += 1);
    world.add_observer(|_: On<Insert<Position>>, mut seen: ResMut<Seen>| seen.0 += 100);
    world.get_mut::<Position>(child).unwrap().x = 3.0;
    restore(&mut world, &snapshot, Ticks::All);
    assert_eq!(world.resource::<Seen>().0, 0);
    world.entity_mut(child).insert(Team(2));
    world.resource_mut::<Seen>().0 = 0;
    restore(&mut world, &snapshot, Ticks::All);
    assert_eq!((world.resource::<Seen>().0, world.get::<Team>(child)), (1, Some(&Team(1))));
}

#[test]
fn values_are_dropped_once() {
    #[derive(Component, Clone)]
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    /// Plain bytes, and a drop all the same.
    #[derive(Component, Persist)]
    #[persist(key = "test.loud")]
    struct Loud(u32);
    static LOUD: AtomicUsize = AtomicUsize::new(0);
    impl Drop for Loud {
        fn drop(&mut self) {
            LOUD.fetch_add(1, Relaxed);
        }
    }
    /// Compared, and inserted only where it differs.
    #[derive(Component)]
    #[component(immutable)]
    struct Still(u8, Arc<AtomicUsize>);
    impl Drop for Still {
        fn drop(&mut self) {
            self.1.fetch_add(1, Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let made = Arc::new(AtomicUsize::new(0));
    let mut world = world();
    let still = Arc::new(AtomicUsize::new(0));
    let load_still = Arc::clone(&still);
    world.persist_as::<Still>(Descriptor::custom(
        "test.still",
        |still: &Still, _| Ok(Some(still.0)),
        move |number: u8, _| Ok(Some(Still(number, Arc::clone(&load_still)))),
    ));
    let statues: Vec<Entity> =
        (0..9).map(|number| world.spawn((Saved, Still(number, Arc::clone(&still)))).id()).collect();
    let snapshot = save(&world);
    world.entity_mut(statues[4]).insert(Still(200, Arc::clone(&still)));
    still.store(0, Relaxed);
    restore(&mut world, &snapshot, Ticks::All);
    assert_eq!(still.load(Relaxed), 9, "eight that were made for nothing, and the one that was replaced");
    assert_eq!(world.get::<Still>(statues[4]).unwrap().0, 4);
    statues.into_iter().for_each(|statue| _ = world.despawn(statue));
    assert_eq!(still.load(Relaxed), 18);
    let (load_dropped, load_made) = (Arc::clone(&dropped), Arc::clone(&made));
    world.persist_as::<Counted>(Descriptor::custom(
        "test.counted",
        |_: &Counted, _| Ok(Some(7_u8)),
        move |_, _| {
            load_made.fetch_add(1, Relaxed);
            Ok(Some(Counted(Arc::clone(&load_dropped))))
        },
    ));
    world.persist::<Loud>();
    let entities: Vec<Entity> = (0..50)
        .map(|number| world.spawn((Saved, Counted(Arc::clone(&dropped)), Loud(number))).id())
        .collect();
    let snapshot = save(&world);
    for ticks in [Ticks::All, Ticks::Differing] {
        [&*dropped, &*made, &LOUD].iter().for_each(|count| count.store(0, Relaxed));
        world.get_mut::<Loud>(entities[3]).unwrap().0 = 99;
        restore(&mut world, &snapshot, ticks);
        assert_eq!(
            (made.load(Relaxed), dropped.load(Relaxed), LOUD.load(Relaxed)),
            (50, 50, 50),
            "{ticks:?}"
        );
        assert_eq!(world.get::<Loud>(entities[3]).unwrap().0, 3);
    }
    // With a difference in structure: 5 are spawned again, 3 get it inserted, 2 go.
    entities[..5].iter().for_each(|&entity| _ = world.despawn(entity));
    entities[5..8].iter().for_each(|&entity| _ = world.entity_mut(entity).remove::<(Counted, Loud)>());
    world.spawn_batch(
        (0..2).map(|_| (Saved, Counted(Arc::new(AtomicUsize::new(0))), Loud(1))).collect::<Vec<_>>(),
    );
    [&*dropped, &*made, &LOUD].iter().for_each(|count| count.store(0, Relaxed));
    restore(&mut world, &snapshot, Ticks::All);
    assert_eq!((made.load(Relaxed), dropped.load(Relaxed), LOUD.load(Relaxed)), (50, 42, 42 + 2));
    drop(world);
    assert_eq!((dropped.load(Relaxed), LOUD.load(Relaxed)), (92, 94));
}

#[test]
fn a_failed_restore_leaves_the_world_as_it_was() {
    let mut world = world();
    let leader = world.spawn((Saved, Position::default())).id();
    let gone = world.spawn((Saved, Position::default())).id();
    world.spawn((Saved, Follows { leader, others: vec![], last: None }));
    world.persist_as::<Sprite>(Descriptor::custom(
        "test.sprite",
        |sprite: &Sprite, _| Ok(Some(sprite.0)),
        |number: u32, _| match number {
            13 => Err(bevy_bonfire::Error::custom("unlucky")),
            number => Ok(Some(Sprite(number))),
        },
    ));
    world.entity_mut(gone).insert(Sprite(13));
    let unlucky = save(&world);
    world.entity_mut(gone).remove::<Sprite>();
    world.entity_mut(leader).remove::<Saved>();
    let dangling = save(&world);
    world.entity_mut(leader).insert(Saved);
    world.despawn(gone);
    world.get_mut::<Position>(leader).unwrap().x = 5.0;

    let bytes = |world: &World| save(world).to_bytes().unwrap();
    let (before, entities) = (bytes(&world), world.entities().count_spawned());
    let error = world.load(&unlucky, LoadMode::Restore(Ticks::All)).unwrap_err();
    assert_eq!(error.key(), Some("test.sprite"));
    let refuse = LoadOptions { dangling: Dangling::Refuse, ..LoadOptions::default() };
    assert!(world.load(&dangling, refuse.mode(LoadMode::Restore(Ticks::All))).unwrap_err().is_dangling());
    assert_eq!((bytes(&world), world.entities().count_spawned()), (before, entities));
}

#[test]
#[should_panic(expected = "not today")]
fn a_panicking_hook_is_passed_on() {
    let mut world = world();
    let entities: Vec<Entity> =
        (0..40).map(|_| world.spawn((Saved, Inventory::default(), Enemy)).id()).collect();
    let snapshot = save(&world);
    entities[..20].iter().for_each(|&entity| _ = world.despawn(entity));
    entities[20..30].iter().for_each(|&entity| _ = world.entity_mut(entity).remove::<Enemy>());
    world.add_observer(|_: On<Add<Enemy>>| panic!("not today"));
    let _ = world.load(&snapshot, LoadMode::Restore(Ticks::All));
}

#[test]
fn a_selection_is_restored_alone() {
    let mut world = world();
    world.save_layer::<Team>(|team| team.0);
    let spawn =
        |world: &mut World, team: u8, x: f32| world.spawn((Saved, Team(team), Position { x, y: 0.0 })).id();
    let (a, b, c) = (spawn(&mut world, 1, 1.0), spawn(&mut world, 2, 2.0), spawn(&mut world, 1, 3.0));
    let first = || Selection::new().filter(Filter::new().layers([1]).unwrap());
    let snapshot = world.capture_with_events(&SaveOptions::new().selection(first())).unwrap();
    assert_eq!(snapshot.entity_count(), 2);
    world.query::<&mut Position>().iter_mut(&mut world).for_each(|mut position| position.x = 0.0);
    let late = spawn(&mut world, 1, 9.0);
    let other = spawn(&mut world, 2, 9.0);
    world.load(&snapshot, LoadMode::RestoreSelected(first(), Ticks::All)).unwrap();
    let x = |entity| world.get::<Position>(entity).map(|position| position.x);
    assert_eq!([a, b, c, late, other].map(x), [Some(1.0), Some(0.0), Some(3.0), None, Some(9.0)]);
}

#[test]
fn an_index_follows_a_restore() {
    let mut app = bevy_app::App::new();
    app.add_plugins(BonfirePlugin::default()).persist::<Position>();
    app.index_by(|position: &Position| position.x as i32);
    let world = app.world_mut();
    let entity = world.spawn((Saved, Position { x: 3.0, y: 0.0 })).id();
    let snapshot = save(world);
    world.get_mut::<Position>(entity).unwrap().x = 8.0;
    app.update();
    let world = app.world_mut();
    let index = |world: &World| world.resource::<bevy_bonfire::Index<Position, i32>>().one(&3);
    assert_eq!(index(world), None);
    restore(world, &snapshot, Ticks::All);
    assert_eq!(index(world), Some(entity), "before any system has run");
}

#[test]
fn an_entity_that_is_no_longer_part_of_saves_is_still_the_same() {
    let mut world = world();
    let (a, b) = (world.spawn((Saved, Position::default())).id(), world.spawn((Saved, Enemy)).id());
    let snapshot = save(&world);
    world.entity_mut(a).remove::<Saved>();
    world.entity_mut(b).remove::<(Saved, Enemy)>().insert(Sprite(3));
    let bystander = world.spawn(Sprite(4)).id();
    let loaded = restore(&mut world, &snapshot, Ticks::All);
    assert!(loaded.respawned.is_empty());
    assert!(world.entity(a).contains::<Saved>() && world.entity(b).contains::<Enemy>());
    assert_eq!(world.get::<Sprite>(b), Some(&Sprite(3)));
    assert!(world.get_entity(bystander).is_ok());
    assert_eq!(world.query::<&Saved>().iter(&world).count(), 2);
}

#[test]
fn a_save_without_marks_brings_them_back() {
    let mut other = bevy_app::App::new();
    other.add_plugins(BonfirePlugin::default().scope(SaveScope::Persisted)).persist::<Position>();
    let source = other.world_mut();
    let first = source.spawn(Position { x: 4.0, y: 0.0 }).id();
    // As a file: where it comes from is not known, and its ids may be those of this world.
    let snapshot = Snapshot::open(&save(source).to_bytes().unwrap()).unwrap();
    for marked in [true, false] {
        let mut world = world();
        let twin = std::iter::repeat_with(|| world.spawn_empty().id()).take(5000).find(|&twin| twin == first);
        let twin = twin.expect("a low id");
        if marked {
            world.entity_mut(twin).insert(Saved);
        }
        restore(&mut world, &snapshot, Ticks::All);
        assert_eq!(
            world.entity(twin).contains::<Position>(),
            marked,
            "what is not part of saves is left alone"
        );
        assert_eq!(save(&world).entity_count(), 1, "but what is loaded is");
    }
}

#[test]
fn a_snapshot_of_another_world_is_loaded_beside_what_is_not_saved() {
    let mut source = world();
    let unsaved = source.spawn_empty().id();
    let follows = Follows { leader: unsaved, others: vec![], last: None };
    let entity = source.spawn((Saved, Position { x: 4.0, y: 0.0 }, follows)).id();
    let mut world = world();
    let bystander = world.spawn(Sprite(2)).id();
    let twin = world.spawn((Saved, Position::default(), Sprite(1))).id();
    assert_eq!((unsaved, entity), (bystander, twin), "both worlds count alike");
    let loaded = restore(&mut world, &save(&source), Ticks::All);
    assert_eq!(loaded.respawned.len(), 1);
    assert!(world.get_entity(twin).is_err(), "an id of another world means nothing here");
    let follows = world.query::<&Follows>().single(&world).unwrap();
    assert_eq!(follows.leader, Entity::PLACEHOLDER, "nor does one in a reference");
    assert!(world.get_entity(bystander).is_ok());
}

#[test]
fn references_to_what_lives_but_is_not_saved_stay() {
    let mut world = world();
    let camera = world.spawn(Sprite(9)).id();
    let gone = world.spawn(Sprite(8)).id();
    let entity =
        world.spawn((Saved, Follows { leader: camera, others: vec![gone], last: Some(camera) })).id();
    let later = world.spawn_empty().id();
    let snapshot =
        world.capture_with_events(&SaveOptions::new().data("game.camera", &camera).unwrap()).unwrap();
    world.despawn(gone);
    world.get_mut::<Follows>(entity).unwrap().leader = later;
    world.entity_mut(later).insert((Saved, Position::default()));
    world.add_observer(|mut starting: On<LoadStarting>| {
        starting.on_data("game.camera", |world: &mut World, camera: Entity| {
            world.insert_resource(Score { points: 1, best: Some(camera) });
            Ok(())
        });
    });
    restore(&mut world, &snapshot, Ticks::All);
    let follows = world.get::<Follows>(entity).unwrap();
    assert_eq!((follows.leader, follows.last), (camera, Some(camera)));
    assert_eq!(follows.others, [], "what is gone is gone");
    assert_eq!(world.resource::<Score>().best, Some(camera), "in data, too");
    assert!(world.get_entity(later).is_err());
}

#[test]
fn restoring_a_selection_again_and_again_carries_unknown_rows_once() {
    #[derive(Component, Persist)]
    #[persist(key = "mod.mana")]
    struct Mana(u32);
    let mut with_mod = world();
    with_mod.persist::<Mana>();
    with_mod.spawn((Saved, Position::default(), Mana(7)));
    let bytes = save(&with_mod).to_bytes().unwrap();

    let mut world = world();
    world.load(&Snapshot::open(&bytes).unwrap(), LoadMode::Replace).unwrap();
    let all = || Selection::new().filter(Filter::new().include("test.position"));
    for _ in 0..3 {
        let snapshot = save(&world);
        world.load(&snapshot, LoadMode::RestoreSelected(all(), Ticks::All)).unwrap();
    }
    with_mod.load(&save(&world), LoadMode::Replace).unwrap();
    assert_eq!(with_mod.query::<&Mana>().single(&with_mod).unwrap().0, 7);
}

#[test]
fn what_is_saved_does_not_go_with_an_unsaved_parent() {
    let mut world = world();
    let unsaved = world.spawn(Name::new("unsaved")).id();
    let entity = world.spawn((Saved, Position { x: 1.0, y: 0.0 }, ChildOf(unsaved))).id();
    let snapshot = save(&world);
    // Something that has come since takes the parent, and would take it along.
    let extra = world.spawn((Saved, Enemy)).id();
    world.entity_mut(unsaved).insert(ChildOf(extra));
    let loaded = restore(&mut world, &snapshot, Ticks::All);
    assert!(world.get_entity(extra).is_err() && world.get_entity(unsaved).is_err());
    assert_eq!(world.get::<Position>(entity).map(|position| position.x), Some(1.0));
    assert_eq!(loaded.entity(entity), Some(entity));
}

#[test]
fn a_restore_of_nothing_leaves_lists_alone() {
    let mut world = world();
    let parent = world.spawn((Saved, Name::new("parent"))).id();
    for number in 0..6 {
        let mut child = world.spawn((Saved, ChildOf(parent)));
        if number % 2 == 0 {
            child.insert(Enemy);
        }
        world.spawn(ChildOf(parent));
    }
    let snapshot = save(&world);
    let children = world.get::<Children>(parent).unwrap().to_vec();
    let before = since(&mut world);
    restore(&mut world, &snapshot, Ticks::Differing);
    assert_eq!(world.get::<Children>(parent).unwrap().to_vec(), children);
    assert!(changed::<Children>(&mut world, before).is_empty());
}

#[test]
fn wide_families_that_change_parents_come_back() {
    let count = 2000;
    let mut world = world();
    let [a, b] = [0, 1].map(|_| world.spawn(Saved).id());
    let children: Vec<Entity> = (0..count).map(|_| world.spawn((Saved, ChildOf(a))).id()).collect();
    let snapshot = save(&world);
    for (number, &child) in children.iter().enumerate().rev() {
        match number % 3 {
            0 => _ = world.entity_mut(child).insert(ChildOf(b)),
            1 => _ = world.entity_mut(child).remove::<ChildOf>(),
            _ => (),
        }
    }
    let loose: Vec<Entity> = (0..count).map(|_| world.spawn((Saved, ChildOf(b))).id()).collect();
    restore(&mut world, &snapshot, Ticks::Differing);
    assert_eq!(world.get::<Children>(a).unwrap().to_vec(), children);
    assert!(world.get::<Children>(b).is_none() && world.get_entity(loose[0]).is_err());
}

#[test]
fn a_state_that_is_about_to_change_does_not() {
    use bevy_state::prelude::*;
    #[derive(States, Persist, Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    #[persist(key = "test.phase")]
    enum Phase {
        #[default]
        Play,
        Dead,
    }
    let mut app = bevy_app::App::new();
    app.add_plugins((bevy_state::app::StatesPlugin, BonfirePlugin::default())).init_state::<Phase>();
    app.persist_state::<Phase>();
    app.update();
    let snapshot = save(app.world());
    app.world_mut().resource_mut::<NextState<Phase>>().set(Phase::Dead);
    restore(app.world_mut(), &snapshot, Ticks::Differing);
    app.update();
    assert_eq!(app.world().resource::<State<Phase>>().get(), &Phase::Play);
}

#[test]
fn an_entity_of_a_mod_is_still_saved_after_a_restore_from_a_file() {
    #[derive(Component, Persist)]
    #[persist(key = "mod.mana")]
    struct Mana(u32);
    let app = || {
        let mut app = bevy_app::App::new();
        app.add_plugins(BonfirePlugin::default().scope(SaveScope::Persisted)).persist::<Position>();
        app
    };
    let mut with_mod = app();
    with_mod.persist::<Mana>();
    let entity = with_mod.world_mut().spawn(Mana(7)).id();
    let file = save(with_mod.world()).to_bytes().unwrap();

    // Here the same id is alive, and known by something that the save does not have.
    let mut without = app();
    let world = without.world_mut();
    let twin = std::iter::repeat_with(|| world.spawn_empty().id()).take(5000).find(|&twin| twin == entity);
    world.entity_mut(twin.expect("a low id")).insert(Position::default());
    restore(world, &Snapshot::open(&file).unwrap(), Ticks::All);
    assert!(world.get::<Position>(entity).is_none());
    let next = save(world);
    assert_eq!(next.entity_count(), 1);
    with_mod.world_mut().load(&next, LoadMode::Replace).unwrap();
    let world = with_mod.world_mut();
    assert_eq!(world.query::<&Mana>().single(world).unwrap().0, 7);
}
