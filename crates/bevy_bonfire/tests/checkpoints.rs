//! Going back to the last moments of a world, and on from there.

mod common;

use std::collections::BTreeMap;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Checkpoints, Snapshot};
use bevy_ecs::prelude::*;
use bonfire_testkit::disk::Random;
use bonfire_testkit::scale;
use common::*;

fn kept(checkpoints: &Checkpoints) -> Vec<u64> {
    checkpoints.ticks().collect()
}

fn bytes(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.canonical_sorted().expect("it can be sorted").to_bytes().expect("it can be encoded")
}

#[test]
fn a_ring_keeps_the_last_ones_and_forgets_a_future_that_will_not_be() {
    let mut world = world();
    let entity = world.spawn((Saved, Position::default())).id();
    let mut checkpoints = Checkpoints::new(4);
    assert!(checkpoints.is_empty() && checkpoints.memory_bytes() == 0);
    let nothing = checkpoints.rewind(&mut world, 3).expect_err("there is none");
    assert!(nothing.is_misuse() && nothing.to_string().contains("none is kept"), "{nothing}");
    for tick in [1, 2, 3, 5, 8, 13] {
        world.get_mut::<Position>(entity).unwrap().x = tick as f32;
        checkpoints.take(&mut world, tick).unwrap();
        assert!(checkpoints.len() <= 4 && checkpoints.ticks().next_back() == Some(tick));
    }
    assert_eq!(kept(&checkpoints), [3, 5, 8, 13]);
    let before = canonical(&world);
    for missing in [2, 4, 14, u64::MAX] {
        assert!(checkpoints.get(missing).is_none());
        let error = checkpoints.rewind(&mut world, missing).expect_err("it is not kept").to_string();
        assert!(error.contains(&format!("tick {missing}")) && error.contains("3 to 13 are kept"), "{error}");
        assert_eq!((kept(&checkpoints), canonical(&world)), (vec![3, 5, 8, 13], before.clone()));
    }
    checkpoints.rewind(&mut world, 8).unwrap();
    assert_eq!((world.get::<Position>(entity).unwrap().x, kept(&checkpoints)), (8.0, vec![3, 5, 8]));
    // The same tick again, and an earlier one: what they replace goes.
    checkpoints.take(&mut world, 8).unwrap();
    assert_eq!(kept(&checkpoints), [3, 5, 8]);
    world.get_mut::<Position>(entity).unwrap().x = 4.0;
    checkpoints.take(&mut world, 4).unwrap();
    assert_eq!(kept(&checkpoints), [3, 4]);
    assert!(bytes(checkpoints.get(4).unwrap()) == bytes(&save(&world)));
    checkpoints.rewind(&mut world, 3).unwrap();
    assert_eq!(world.get::<Position>(entity).unwrap().x, 3.0);
    // The last tick that there is.
    checkpoints.take(&mut world, u64::MAX).unwrap();
    checkpoints.rewind(&mut world, u64::MAX).unwrap();
    assert_eq!(kept(&checkpoints), [3, u64::MAX]);
    checkpoints.clear();
    assert!(checkpoints.is_empty() && checkpoints.get(3).is_none());
    // None is as good as one.
    let mut one = Checkpoints::new(0);
    one.take(&mut world, 1).unwrap();
    one.take(&mut world, 2).unwrap();
    assert_eq!(kept(&one), [2]);
}

#[test]
fn a_checkpoint_that_fails_changes_nothing() {
    let mut world = world();
    world.spawn((Saved, Position::default()));
    let filter = bevy_bonfire::Filter::new().layers([1]).unwrap();
    let mut checkpoints = Checkpoints::new(4).options(SaveOptions::new().filter(filter));
    assert!(checkpoints.take(&mut world, 1).is_err() && checkpoints.is_empty());
}

/// As large as a transform.
#[derive(Component, Persist, Clone, Copy)]
#[persist(key = "test.bones")]
struct Bones([f32; 16]);

#[test]
fn a_hundred_checkpoints_take_little_more_than_one() {
    let mut world = world();
    world.persist::<Bones>();
    let entities: Vec<Entity> = (0..10_000_u32)
        .map(|i| {
            let position = Position { x: i as f32, y: 0.0 };
            let health = Health { current: 1, max: i, flash: 0 };
            world.spawn((Saved, position, health, Bones([i as f32; 16]))).id()
        })
        .collect();
    let mut checkpoints = Checkpoints::new(100);
    checkpoints.take(&mut world, 0).unwrap();
    let one = checkpoints.memory_bytes();
    // Ids, positions, the saved fields of health, and bones, at least.
    assert!(one >= 10_000 * (8 + 8 + 5 + 64), "{one}");
    let mut pages = 0;
    for tick in 1..100 {
        // One in a hundred, all in one place.
        for &entity in &entities[4500..4600] {
            world.get_mut::<Position>(entity).unwrap().y = tick as f32;
        }
        let before = checkpoints.memory_bytes();
        checkpoints.take(&mut world, tick).unwrap();
        pages = pages.max(checkpoints.memory_bytes() - before);
    }
    let all = checkpoints.memory_bytes();
    // Each has the page in which something changed, and no more.
    assert_eq!((pages, all), (16 << 10, one + 99 * (16 << 10)));
    assert!(all < 4 * one, "{all} for all, {one} for one");
    for tick in [0, 50, 99] {
        let alone = Snapshot::memory_bytes([checkpoints.get(tick).unwrap()]);
        assert!(alone == one, "each is whole: {alone}");
    }
    // Those that go give back what nobody else has.
    checkpoints.rewind(&mut world, 10).unwrap();
    assert_eq!(checkpoints.memory_bytes(), one + 10 * pages);
    checkpoints.clear();
    assert_eq!(checkpoints.memory_bytes(), 0);
}

/// What a deterministic simulation draws from.
#[derive(Resource, Persist, Clone, Debug, Default)]
#[persist(key = "test.dice")]
struct Dice {
    state: u64,
    next: u32,
}

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Default)]
#[persist(key = "test.velocity")]
struct Velocity {
    x: f32,
    y: f32,
}

#[derive(Component, Persist, Clone, Copy, Debug, PartialEq, Eq)]
#[persist(key = "test.number")]
struct Number(u32);

fn physics_world(seed: u64) -> World {
    let mut world = world();
    world.persist::<Velocity>();
    world.persist::<Number>();
    world.persist_resource::<Dice>();
    world.insert_resource(Dice { state: seed, next: 0 });
    // A resource that comes later would stay: going back overwrites resources and removes none.
    world.insert_resource(Score::default());
    (0..150).for_each(|_| spawn_body(&mut world));
    world
}

fn draw(world: &mut World) -> u64 {
    let mut dice = world.resource_mut::<Dice>();
    let mut random = Random::new(dice.state);
    dice.state = random.number();
    random.number()
}

fn spawn_body(world: &mut World) {
    let drawn = draw(world);
    let mut dice = world.resource_mut::<Dice>();
    let number = dice.next;
    dice.next += 1;
    let position = Position { x: (drawn % 1000) as f32 / 7.0, y: (drawn >> 20 & 0xff) as f32 / 3.0 };
    let velocity = Velocity { x: (drawn >> 30 & 0xff) as f32 / 13.0 - 9.0, y: 0.1 };
    let mut body = world.spawn((Saved, Number(number), position, velocity));
    if drawn.is_multiple_of(3) {
        body.insert(Health { current: 3, max: 3, flash: 0 });
    }
    if drawn.is_multiple_of(5) {
        body.insert(Burning("fuse".to_owned()));
    }
}

/// One tick, of which the outcome follows from what is saved and from the input. Rows may be in any order.
fn step(world: &mut World, input: f32) {
    let mut order: Vec<(Number, Entity)> =
        world.query::<(&Number, Entity)>().iter(world).map(|(number, entity)| (*number, entity)).collect();
    order.sort_by_key(|(number, _)| number.0);
    for &(number, entity) in &order {
        let mut body = world.entity_mut(entity);
        let (Some(velocity), Some(position)) =
            (body.get::<Velocity>().copied(), body.get::<Position>().copied())
        else {
            continue;
        };
        let x = position.x + velocity.x * 0.016;
        let y = position.y + velocity.y * 0.016;
        *body.get_mut::<Position>().unwrap() = Position { x, y };
        // Most stand still: what has not changed is shared.
        if number.0.is_multiple_of(7) {
            let pulled = (velocity.x * 0.99 + input * (x * 0.1).sin(), velocity.y - 9.81 * 0.016);
            *body.get_mut::<Velocity>().unwrap() = Velocity { x: pulled.0, y: pulled.1 };
        }
    }
    for _ in 0..3 {
        let drawn = draw(world);
        let (_, entity) = order[(drawn % order.len() as u64) as usize];
        let Ok(mut body) = world.get_entity_mut(entity) else { continue };
        match drawn >> 40 & 7 {
            0 | 1 => body.despawn(),
            2 => _ = body.insert(Enemy),
            3 => _ = body.remove::<Enemy>(),
            4 => _ = body.insert(Burning(format!("{}", drawn % 10))),
            5 => _ = body.remove::<(Burning, Health)>(),
            6 => _ = body.insert(Inventory { items: vec![format!("{}", drawn % 100)], gold: None }),
            _ => spawn_body(world),
        }
    }
    if draw(world).is_multiple_of(2) {
        spawn_body(world);
    }
    let points = draw(world);
    world.insert_resource(Score { points, best: None });
}

/// What is saved, whatever the ids and the order of rows.
fn state(world: &World) -> Vec<u8> {
    bytes(&save(world))
}

#[test]
fn the_same_inputs_from_a_checkpoint_give_the_same_world() {
    for seed in 0..u64::from(2 * scale()) {
        let mut world = physics_world(seed);
        let mut checkpoints =
            if seed % 2 == 0 { Checkpoints::new(20) } else { Checkpoints::new(20).compared() };
        let input = |tick: u64| ((tick * 31 + seed) % 17) as f32 * 0.25;
        let mut states = Vec::new();
        for tick in 0..20 {
            checkpoints.take(&mut world, tick).unwrap();
            states.push(state(&world));
            step(&mut world, input(tick));
        }
        for from in [17, 9, 3, 0] {
            checkpoints.rewind(&mut world, from).unwrap();
            for tick in from..20 {
                assert!(state(&world) == states[tick as usize], "seed {seed}: from {from}, at {tick}");
                step(&mut world, input(tick));
            }
        }
    }
}

#[test]
fn any_way_back_and_forth_is_what_a_list_of_states_would_make_of_it() {
    for seed in 0..u64::from(4 * scale()) {
        let mut random = Random::new(seed);
        let mut world = physics_world(seed);
        let max = 1 + random.below(12);
        let mut checkpoints = Checkpoints::new(max);
        // The model: by tick, what was saved.
        let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut tick = 0;
        for _ in 0..40 {
            if random.chance(25) && !model.is_empty() {
                let ticks: Vec<u64> = model.keys().copied().collect();
                tick = *random.pick(&ticks);
                model.retain(|&kept, _| kept <= tick);
                checkpoints.rewind(&mut world, tick).unwrap();
                // Ids differ where entities came back.
                let mut other = physics_world(0);
                let there = Snapshot::open(&model[&tick]).unwrap();
                other.load(&there, LoadMode::Replace).unwrap();
                assert!(state(&world) == state(&other), "seed {seed}: back at {tick}");
            }
            for _ in 0..random.below(3) {
                step(&mut world, random.below(9) as f32);
            }
            tick += 1 + random.below(3) as u64;
            checkpoints.take(&mut world, tick).unwrap();
            model.insert(tick, save(&world).to_bytes().unwrap());
            while model.len() > max {
                model.pop_first();
            }
            assert_eq!(kept(&checkpoints), model.keys().copied().collect::<Vec<_>>());
            for (tick, bytes) in &model {
                // Not touched by whatever came later, though they share memory with it.
                let snapshot = checkpoints.get(*tick).unwrap();
                assert!(snapshot.to_bytes().unwrap() == *bytes, "seed {seed}: checkpoint {tick}");
            }
            let each = model.keys().map(|tick| Snapshot::memory_bytes([checkpoints.get(*tick).unwrap()]));
            assert!(checkpoints.memory_bytes() <= each.sum(), "what is shared counts once");
        }
    }
}

#[test]
fn a_selection_goes_back_alone() {
    let mut world = world();
    let enemy = world.spawn((Saved, Enemy, Position::default())).id();
    let friend = world.spawn((Saved, Position::default())).id();
    let mut checkpoints = Checkpoints::new(3).options(SaveOptions::new().matching::<With<Enemy>>());
    checkpoints.take(&mut world, 1).unwrap();
    for entity in [enemy, friend] {
        world.get_mut::<Position>(entity).unwrap().x = 5.0;
    }
    checkpoints.rewind(&mut world, 1).unwrap();
    assert_eq!(world.get::<Position>(enemy).unwrap().x, 0.0);
    assert_eq!(world.get::<Position>(friend).unwrap().x, 5.0);
}
