//! A rewind that a simulation can trust: the order of rows, and ids of entities that were despawned.

mod common;

use bevy_bonfire::prelude::*;
use bevy_bonfire::{Checkpoints, Index, Snapshot};
use bevy_ecs::entity_disabling::Disabled;
use bevy_ecs::prelude::*;
use common::*;

/// A generator of numbers that is part of the save.
#[derive(Resource, Persist, Clone, Debug, PartialEq)]
#[persist(key = "test.dice")]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as u32
    }
}

/// The order in which a query visits entities.
fn order(world: &mut World) -> Vec<Entity> {
    world.query_filtered::<Entity, With<Position>>().iter(world).collect()
}

fn simulation() -> World {
    let mut world = world();
    world.persist_resource::<Dice>();
    world.insert_resource(Dice(7));
    for number in 0..64 {
        let position = Position { x: number as f32, y: 0.0 };
        match number % 3 {
            0 => world.spawn((Saved, position)),
            1 => world.spawn((Saved, position, Enemy)),
            _ => world.spawn((Saved, position, Burning("a".into()))),
        };
    }
    world
}

/// One step: entities roll dice in the order of the query, move, change their archetypes, die and are born.
fn step(world: &mut World) {
    for entity in order(world) {
        let roll = world.resource_mut::<Dice>().roll();
        let mut entity = world.entity_mut(entity);
        entity.get_mut::<Position>().unwrap().y += roll as f32;
        match roll % 17 {
            0 => entity.despawn(),
            1 => _ = entity.insert(Enemy),
            2 => _ = entity.remove::<Enemy>(),
            3 => _ = entity.insert(Burning(roll.to_string())),
            4 => _ = entity.remove::<Burning>(),
            5 => _ = world.spawn((Saved, Position { x: roll as f32, y: 1.0 })),
            _ => {}
        }
    }
}

/// Positions in the order of the query, and the dice.
fn state(world: &mut World) -> (Vec<[u32; 2]>, u64) {
    let positions: Vec<[u32; 2]> = world
        .query::<&Position>()
        .iter(world)
        .map(|position| [position.x.to_bits(), position.y.to_bits()])
        .collect();
    (positions, world.resource::<Dice>().0)
}

/// Plays 30 steps, goes back 20, plays them again. Returns the states of both times.
fn play_twice(row_order: RowOrder) -> [Vec<(Vec<[u32; 2]>, u64)>; 2] {
    let mut world = simulation();
    let mut checkpoints = Checkpoints::new(40).row_order(row_order);
    let play = |world: &mut World, checkpoints: &mut Checkpoints, from: u64| {
        let mut states = Vec::new();
        for tick in from..30 {
            checkpoints.take(world, tick).unwrap();
            states.push(state(world));
            step(world);
        }
        states.split_off(states.len() - 20)
    };
    let first = play(&mut world, &mut checkpoints, 0);
    checkpoints.rewind(&mut world, 10).unwrap();
    let second = play(&mut world, &mut checkpoints, 10);
    [first, second]
}

#[test]
fn a_simulation_that_depends_on_order_goes_on_as_it_did() {
    let [first, second] = play_twice(RowOrder::Restore);
    assert!(first == second);
    // Without it, the same steps lead elsewhere: the simulation depends on order indeed.
    let [first, second] = play_twice(RowOrder::Keep);
    assert!(first != second);
}

#[test]
fn rows_are_exactly_where_they_were_and_nothing_else_changes() {
    let mut world = world();
    let spawn = |world: &mut World, x: f32| world.spawn((Saved, Position { x, y: 0.0 })).id();
    let entities: Vec<Entity> = (0..6).map(|number| spawn(&mut world, number as f32)).collect();
    let snapshot = save(&world);
    world.despawn(entities[1]);
    let late = spawn(&mut world, 9.0);
    world.clear_trackers();
    let options = |order| LoadOptions::from(LoadMode::Restore(Ticks::Differing)).row_order(order);
    let values =
        |world: &mut World| -> Vec<f32> { world.query::<&Position>().iter(world).map(|at| at.x).collect() };
    assert_eq!(values(&mut world), [0.0, 5.0, 2.0, 3.0, 4.0, 9.0]);
    world.load(&snapshot, options(RowOrder::Keep)).unwrap();
    assert_eq!(values(&mut world), [0.0, 5.0, 2.0, 3.0, 4.0, 1.0]);
    let loaded = world.load(&snapshot, options(RowOrder::Restore)).unwrap();
    assert_eq!(values(&mut world), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert!(world.get_entity(late).is_err());
    let here: Vec<Entity> = entities.iter().map(|&entity| loaded.entity(entity).unwrap()).collect();
    assert_eq!(order(&mut world), here);
    let changed = world.query_filtered::<Entity, Changed<Position>>().iter(&world).count();
    assert_eq!(changed, 1, "only the one that was spawned again");
    // Entities that the snapshot does not have come after those that it has.
    let selected = SaveOptions::new().entities(here[3..].iter().copied());
    let half = world.capture(&selected).unwrap();
    world.entity_mut(here[4]).insert(Enemy).remove::<Enemy>();
    assert_eq!(values(&mut world), [0.0, 1.0, 2.0, 3.0, 5.0, 4.0]);
    let selection = bevy_bonfire::Selection::new().entities(here[3..].iter().copied());
    let mode = LoadMode::RestoreSelected(selection, Ticks::All);
    world.load(&half, LoadOptions::from(mode).row_order(RowOrder::Restore)).unwrap();
    assert_eq!(values(&mut world), [3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
}

fn is_hidden(world: &World, entity: Entity) -> bool {
    let entity = world.entity(entity);
    entity.contains::<Disabled>() && !entity.contains::<Saved>() && !entity.contains::<Position>()
}

#[test]
fn an_entity_that_is_despawned_rewindably_comes_back_under_its_id() {
    let mut world = world();
    let parent = world.spawn((Saved, Position::default())).id();
    let [first, second] =
        ["first", "second"].map(|name| world.spawn((Saved, Name::new(name), ChildOf(parent))).id());
    let grandchild = world.spawn((Saved, Position { x: 5.0, y: 5.0 }, ChildOf(first))).id();
    let plain = world.spawn((Saved, Position::default())).id();
    let mut checkpoints = Checkpoints::new(10);
    checkpoints.take(&mut world, 1).unwrap();
    let before = canonical(&world);
    world.entity_mut(first).despawn_rewindable();
    world.commands().entity(plain).despawn();
    world.flush();
    // As far as the game and its saves can see, both are gone.
    assert_eq!(world.get::<Children>(parent).unwrap().iter().collect::<Vec<_>>(), [second]);
    assert!(is_hidden(&world, first) && is_hidden(&world, grandchild));
    assert_eq!(world.query::<&Position>().iter(&world).count(), 1);
    assert_eq!(save(&world).entity_count(), 2);
    checkpoints.take(&mut world, 2).unwrap();

    let loaded = checkpoints.rewind(&mut world, 1).unwrap();
    assert_eq!(canonical(&world), before);
    assert_eq!(world.get::<Children>(parent).unwrap().iter().collect::<Vec<_>>(), [first, second]);
    assert_eq!(world.get::<Position>(grandchild).unwrap().x, 5.0);
    assert!(!world.entity(first).contains::<Disabled>());
    // A plain despawn comes back, too, under another id, and is reported.
    let [(saved, new)] = loaded.respawned[..] else { panic!("{:?}", loaded.respawned) };
    assert!(saved == plain.into() && new != plain && world.get_entity(plain).is_err());
}

#[test]
fn a_hidden_entity_goes_when_no_checkpoint_knows_it() {
    let mut world = world();
    let spawn = |world: &mut World| world.spawn((Saved, Position::default())).id();
    let early = spawn(&mut world);
    world.entity_mut(early).despawn_rewindable();
    assert!(world.get_entity(early).is_err(), "there is no checkpoint");

    let old = spawn(&mut world);
    let mut checkpoints = Checkpoints::new(2);
    checkpoints.take(&mut world, 1).unwrap();
    world.entity_mut(old).despawn_rewindable();
    checkpoints.take(&mut world, 2).unwrap();
    assert!(is_hidden(&world, old));
    checkpoints.take(&mut world, 3).unwrap();
    assert!(world.get_entity(old).is_err(), "checkpoints 2 and 3 do not know it");

    // One that has come after the moment of a rewind goes with it.
    let young = spawn(&mut world);
    checkpoints.take(&mut world, 4).unwrap();
    world.entity_mut(young).despawn_rewindable();
    checkpoints.rewind(&mut world, 3).unwrap();
    assert!(world.get_entity(young).is_err());
}

#[test]
fn stable_ids_and_indexes_do_not_lead_to_a_hidden_entity() {
    let mut world = world();
    world.index_by(|at: &Position| at.x as u32);
    let stable = StableId::new();
    let entity = world.spawn((Saved, stable, Position { x: 7.0, y: 0.0 })).id();
    let find = |world: &World| {
        (world.resource::<StableIds>().get(stable), world.resource::<Index<Position, u32>>().one(&7))
    };
    let mut checkpoints = Checkpoints::new(10);
    checkpoints.take(&mut world, 1).unwrap();
    world.commands().entity(entity).despawn_rewindable();
    world.flush();
    assert_eq!(find(&world), (None, None));
    checkpoints.rewind(&mut world, 1).unwrap();
    assert_eq!(find(&world), (Some(entity), Some(entity)));
}

/// The snapshot is the same whatever was hidden since.
#[test]
fn hidden_entities_leave_no_trace_in_checkpoints() {
    let bytes = |snapshot: &Snapshot| snapshot.canonical_sorted().unwrap().to_bytes().unwrap();
    let mut worlds = [world(), world()];
    let snapshots = [true, false].map(|rewindable| {
        let world = &mut worlds[usize::from(rewindable)];
        let mut checkpoints = Checkpoints::new(10);
        let entities: Vec<Entity> =
            (0..10).map(|number| world.spawn((Saved, Position { x: number as f32, y: 0.0 })).id()).collect();
        checkpoints.take(world, 1).unwrap();
        for &entity in &entities[2..5] {
            match rewindable {
                true => world.entity_mut(entity).despawn_rewindable(),
                false => world.entity_mut(entity).despawn(),
            }
        }
        checkpoints.take(world, 2).unwrap();
        bytes(checkpoints.get(2).unwrap())
    });
    assert!(snapshots[0] == snapshots[1]);
}
