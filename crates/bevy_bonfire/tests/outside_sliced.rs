//! Loads in slices and on other threads, with references to entities of other saves: nothing shows before the last step, a load
//! that is given up leaves no trace, and loads that interleave find each other.

mod common;

use std::time::Duration;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{SlicedLoad, Snapshot, StandIn};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::lifecycle::HookContext;
use bevy_ecs::prelude::*;
use bevy_ecs::world::DeferredWorld;
use common::{Follows, Position};

fn id(bits: u64) -> StableId {
    StableId::from_bits(bits)
}

fn follows(leader: Entity) -> Follows {
    Follows { leader, others: vec![leader], last: Some(leader) }
}

fn chunk(world: &World, entities: impl IntoIterator<Item = Entity>) -> Snapshot {
    let snapshot = world.capture(&SaveOptions::new().entities(entities).outside_references()).unwrap();
    Snapshot::open(&snapshot.to_bytes().unwrap()).unwrap()
}

/// Two chunks of `count` entities each: each entity follows one of the other chunk, whose child it is if its number is even.
fn two_chunks(count: u64) -> [Snapshot; 2] {
    let mut world = common::world();
    let spawn = |world: &mut World, from: u64| -> Vec<Entity> {
        (from..from + count)
            .map(|bits| world.spawn((Saved, id(bits), Position { x: bits as f32, y: 0.0 })).id())
            .collect()
    };
    let (a, b) = (spawn(&mut world, 0), spawn(&mut world, 100_000));
    for (number, (&a, &b)) in a.iter().zip(&b).enumerate() {
        world.entity_mut(a).insert(follows(b));
        world.entity_mut(b).insert(follows(a));
        let [child, parent] = if number % 4 == 0 { [a, b] } else { [b, a] };
        if number % 2 == 0 {
            world.entity_mut(child).insert(ChildOf(parent));
        }
    }
    [chunk(&world, a), chunk(&world, b)]
}

fn assert_linked(world: &mut World, count: u64) {
    for number in 0..count {
        let [a, b] =
            [number, number + 100_000].map(|bits| world.resource::<StableIds>().get(id(bits)).unwrap());
        let leaders = [a, b].map(|entity| world.get::<Follows>(entity).unwrap().leader);
        assert_eq!(leaders, [b, a]);
        if number.is_multiple_of(2) {
            let [child, parent] = if number.is_multiple_of(4) { [a, b] } else { [b, a] };
            assert_eq!(world.get::<ChildOf>(child).unwrap().0, parent);
            assert_eq!(world.get::<Children>(parent).unwrap().to_vec(), [child]);
        }
        for entity in [a, b] {
            let entity = world.entity(entity);
            assert!(!entity.contains::<StandIn>() && !entity.contains::<Disabled>());
        }
    }
    assert_eq!(stand_ins(world), 0);
}

fn stand_ins(world: &mut World) -> usize {
    world.query_filtered::<&StandIn, With<Disabled>>().iter(world).count()
}

fn entities(world: &World) -> usize {
    world.archetypes().iter().map(|archetype| archetype.len() as usize).sum()
}

/// Takes so many steps. Returns false if the load is done then.
fn advance(world: &mut World, load: &mut SlicedLoad, steps: usize) -> bool {
    (0..steps).all(|_| load.step(world, Duration::ZERO).unwrap().is_none())
}

fn finish(world: &mut World, mut load: SlicedLoad) {
    while load.step(world, Duration::ZERO).unwrap().is_none() {}
}

#[test]
fn slices_in_either_order() {
    for order in [[0, 1], [1, 0]] {
        let (chunks, mut world) = (two_chunks(700), common::world());
        for number in order {
            let load = SlicedLoad::new(&world, chunks[number].clone(), LoadMode::Merge).unwrap();
            finish(&mut world, load);
        }
        assert_linked(&mut world, 700);
    }
}

#[test]
fn slices_of_two_loads_interleave() {
    // The one is always some steps ahead of the other.
    for lead in [0, 1, 2, 3, 5, 8, 13] {
        let (chunks, mut world) = (two_chunks(600), common::world());
        let mut loads =
            chunks.clone().map(|chunk| Some(SlicedLoad::new(&world, chunk, LoadMode::Merge).unwrap()));
        let mut step = |world: &mut World, number: usize| {
            if let Some(load) = &mut loads[number]
                && load.step(world, Duration::ZERO).unwrap().is_some()
            {
                loads[number] = None;
            }
            loads.iter().any(Option::is_some)
        };
        (0..lead).for_each(|_| _ = step(&mut world, 0));
        while step(&mut world, 0) | step(&mut world, 1) {}
        assert_linked(&mut world, 600);
    }
}

#[test]
fn a_load_in_one_go_between_the_slices_of_another() {
    for steps in [0, 1, 2, 4, 7, 9] {
        let (chunks, mut world) = (two_chunks(600), common::world());
        let mut load = SlicedLoad::new(&world, chunks[0].clone(), LoadMode::Merge).unwrap();
        for _ in 0..steps {
            assert!(load.step(&mut world, Duration::ZERO).unwrap().is_none());
        }
        world.load(&chunks[1], LoadMode::Merge).unwrap();
        finish(&mut world, load);
        assert_linked(&mut world, 600);
    }
}

#[test]
fn a_load_that_is_given_up_leaves_no_stand_ins() {
    let mut lasts = 0;
    for steps in 0..100 {
        for cancelled in [true, false] {
            let (chunks, mut world) = (two_chunks(600), common::world());
            world.load(&two_chunks(1)[0], LoadMode::Merge).unwrap();
            let before = (stand_ins(&mut world), entities(&world));
            let mut load = SlicedLoad::new(&world, chunks[0].clone(), LoadMode::Merge).unwrap();
            if !advance(&mut world, &mut load, steps) {
                break;
            }
            lasts = steps;
            match cancelled {
                true => load.cancel(&mut world),
                false => drop(load),
            }
            assert_eq!(
                world.sweep_stand_ins().unwrap(),
                0,
                "the load has taken back all that nothing refers to"
            );
            assert_eq!((stand_ins(&mut world), entities(&world)), before);
        }
    }
    assert!((5..99).contains(&lasts), "{lasts}");
}

#[test]
fn a_load_that_is_given_up_leaves_the_stand_ins_that_it_took() {
    for steps in 0..12 {
        let (chunks, mut world) = (two_chunks(600), common::world());
        world.load(&chunks[0], LoadMode::Merge).unwrap();
        assert_eq!(stand_ins(&mut world), 600);
        let mut load = SlicedLoad::new(&world, chunks[1].clone(), LoadMode::Merge).unwrap();
        for _ in 0..steps {
            assert!(load.step(&mut world, Duration::ZERO).unwrap().is_none());
            assert!(world.resource::<StableIds>().get(id(100_000)).is_none());
            assert_eq!(world.capture(&SaveOptions::new()).unwrap().entity_count(), 600);
        }
        load.cancel(&mut world);
        assert_eq!((stand_ins(&mut world), world.query::<&Position>().iter(&world).count()), (600, 600));
        assert_eq!(world.query_filtered::<&Position, With<Disabled>>().iter(&world).count(), 0);
        world.load(&chunks[1], LoadMode::Merge).unwrap();
        assert_linked(&mut world, 600);
    }
}

#[test]
fn a_load_that_others_refer_to_may_be_given_up() {
    for steps in 1..100 {
        let (chunks, mut world) = (two_chunks(600), common::world());
        let mut load = SlicedLoad::new(&world, chunks[0].clone(), LoadMode::Merge).unwrap();
        if !advance(&mut world, &mut load, steps) {
            break;
        }
        world.load(&chunks[1], LoadMode::Merge).unwrap();
        load.cancel(&mut world);
        assert_eq!(stand_ins(&mut world), 600);
        assert_eq!(world.capture(&SaveOptions::new()).unwrap().entity_count(), 600);
        world.load(&chunks[0], LoadMode::Merge).unwrap();
        assert_linked(&mut world, 600);
    }
}

#[test]
fn what_changes_after_the_preparation_is_seen() {
    // The stand-ins come after the load was prepared.
    let (chunks, mut world) = (two_chunks(300), common::world());
    let load = SlicedLoad::new(&world, chunks[1].clone(), LoadMode::Merge).unwrap();
    world.load(&chunks[0], LoadMode::Merge).unwrap();
    finish(&mut world, load);
    assert_linked(&mut world, 300);
    // They go after it.
    let mut world = common::world();
    world.load(&chunks[0], LoadMode::Merge).unwrap();
    let load = SlicedLoad::new(&world, chunks[1].clone(), LoadMode::Merge).unwrap();
    let away: Vec<Entity> =
        world.query_filtered::<Entity, (With<StandIn>, With<Disabled>)>().iter(&world).collect();
    away.into_iter().for_each(|entity| _ = world.despawn(entity));
    finish(&mut world, load);
    assert_eq!(
        world.query::<&Position>().iter(&world).filter(|position| position.x >= 100_000.0).count(),
        300
    );
    assert_eq!(world.query_filtered::<&Position, With<Disabled>>().iter(&world).count(), 0);
}

#[test]
fn a_stand_in_that_the_game_despawns_between_two_slices_costs_one_entity() {
    for steps in 1..6 {
        let (chunks, mut world) = (two_chunks(300), common::world());
        world.load(&chunks[0], LoadMode::Merge).unwrap();
        let mut load = SlicedLoad::new(&world, chunks[1].clone(), LoadMode::Merge).unwrap();
        for _ in 0..steps {
            assert!(load.step(&mut world, Duration::ZERO).unwrap().is_none());
        }
        let first = world.resource::<StableIds>().get(id(1)).unwrap();
        let away = world.get::<Follows>(first).unwrap().leader;
        world.despawn(away);
        finish(&mut world, load);
        let spawned = world.query::<&Position>().iter(&world).count();
        assert!(spawned >= 598, "{spawned}");
        // The allocator of ids is sound.
        let new: bevy_ecs::entity::EntityHashSet = (0..2000).map(|_| world.spawn_empty().id()).collect();
        assert_eq!(new.len(), 2000);
    }
}

#[test]
fn a_panicking_hook_leaves_the_stand_ins_as_they_were() {
    fn explode(world: DeferredWorld<'_>, _: HookContext) {
        assert!(!world.contains_resource::<Armed>(), "the hook was told to");
    }
    #[derive(Component, Persist)]
    #[component(on_add = explode)]
    #[persist(key = "test.mine")]
    struct Mine;
    #[derive(Resource)]
    struct Armed;
    let world = || {
        let mut world = common::world();
        world.persist::<Mine>();
        world
    };
    let mut source = world();
    let targets: Vec<Entity> =
        (0..40).map(|bits| source.spawn((Saved, id(bits), Position::default())).id()).collect();
    source.entity_mut(targets[20]).insert(Mine);
    let child = source.spawn((Saved, id(100), follows(targets[3]), ChildOf(targets[20]))).id();
    source.entity_mut(targets[5]).insert(ChildOf(child));
    let chunks = [chunk(&source, [child]), chunk(&source, targets)];
    for sliced in [false, true] {
        let mut world = world();
        world.load(&chunks[0], LoadMode::Merge).unwrap();
        let child = world.resource::<StableIds>().get(id(100)).unwrap();
        let (leader, parent) =
            (world.get::<Follows>(child).unwrap().leader, world.get::<ChildOf>(child).unwrap().0);
        world.insert_resource(Armed);
        match sliced {
            false => assert!(world.load(&chunks[1], LoadMode::Merge).is_err()),
            true => {
                let mut load = SlicedLoad::new(&world, chunks[1].clone(), LoadMode::Merge).unwrap();
                let failed = (0..100).any(|_| load.step(&mut world, Duration::ZERO).is_err());
                assert!(failed);
            }
        }
        world.remove_resource::<Armed>();
        let away = [leader, parent].map(|entity| world.get::<StandIn>(entity).unwrap().id());
        assert_eq!((away, stand_ins(&mut world)), ([id(3), id(20)], 2));
        assert_eq!(world.get::<Children>(parent).unwrap().to_vec(), [child]);
        assert!(world.get::<Children>(child).is_none());
        assert_eq!(world.capture(&SaveOptions::new()).unwrap().entity_count(), 1);
        world.load(&chunks[1], LoadMode::Merge).unwrap();
        let found = [3, 20].map(|bits| world.resource::<StableIds>().get(id(bits)).unwrap());
        assert_eq!((found, stand_ins(&mut world)), ([leader, parent], 0));
        assert_eq!(world.get::<Children>(child).unwrap().len(), 1);
    }
}

#[test]
fn a_load_of_a_slot_is_prepared_on_another_thread() {
    for budget in [None, Some(Duration::ZERO)] {
        let mut app = bevy_app::App::new();
        app.add_plugins(BonfirePlugin::new());
        common::register(app.world_mut(), false);
        let dir = tempfile::tempdir().unwrap();
        let chunks = two_chunks(600);
        for (number, chunk) in chunks.iter().enumerate() {
            std::fs::write(dir.path().join(format!("{number}.save")), chunk.to_bytes().unwrap()).unwrap();
        }
        for number in 0..2 {
            let mut options = LoadOptions::new().mode(LoadMode::Merge);
            options.budget = budget;
            let path = dir.path().join(format!("{number}.save"));
            let handle = app.world_mut().resource_mut::<Saves>().load_with(path.as_path(), options);
            while !handle.is_complete() {
                app.update();
                std::thread::yield_now();
            }
            handle.result().unwrap().unwrap();
        }
        assert_linked(app.world_mut(), 600);
    }
}

#[test]
fn two_loads_with_other_components_go_on_side_by_side() {
    let mut world = common::world();
    let many = |world: &mut World, from: u64| -> Vec<Entity> {
        (from..from + 100).map(|bits| world.spawn((Saved, id(bits), Position::default())).id()).collect()
    };
    let (plain, named) = (many(&mut world, 0), many(&mut world, 1000));
    named.iter().for_each(|&entity| _ = world.entity_mut(entity).insert(Name::new("named")));
    let saved = [chunk(&world, plain), chunk(&world, named)];
    // Neither set of components was ever loaded into this world.
    let mut target = common::world();
    let mut loads = saved.map(|saved| Some(SlicedLoad::new(&target, saved, LoadMode::Merge).unwrap()));
    while loads.iter().any(Option::is_some) {
        for load in &mut loads {
            if let Some(going) = load
                && going.step(&mut target, Duration::ZERO).unwrap().is_some()
            {
                *load = None;
            }
        }
    }
    assert_eq!(target.query::<&Position>().iter(&target).count(), 200);
    assert_eq!(target.query::<(&Position, &Name)>().iter(&target).count(), 100);
}
