//! The order of rows after a restore, for simulations that depend on it.

use bonfire_hecs::{Bonfire, Checkpoints, LoadMode, LoadOptions, Persist, RowOrder, SaveOptions};
use hecs::{Entity, World};

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(key = "test.number")]
struct Number(u32);

fn numbers(world: &World) -> Vec<u32> {
    world.query::<&Number>().iter().map(|number| number.0).collect()
}

#[test]
fn rows_come_back_where_they_were() {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Number>().unwrap();
    let mut world = World::new();
    let entities: Vec<Entity> = (0..6).map(|number| world.spawn((Number(number),))).collect();
    let snapshot = bonfire.capture(&world, &SaveOptions::new()).unwrap();
    world.despawn(entities[1]).unwrap();
    world.spawn((Number(9),));
    assert_eq!(numbers(&world), [0, 5, 2, 3, 4, 9]);
    let options = |order| LoadOptions::from(LoadMode::Restore).row_order(order);
    bonfire.load(&mut world, &snapshot, options(RowOrder::Keep)).unwrap();
    assert_ne!(numbers(&world), [0, 1, 2, 3, 4, 5]);
    let loaded = bonfire.load(&mut world, &snapshot, options(RowOrder::Restore)).unwrap();
    assert_eq!(numbers(&world), [0, 1, 2, 3, 4, 5]);
    assert_eq!(loaded.entity(entities[3]), Some(entities[3]));
}

/// Each entity adds its number to a running hash, so the result depends on the order in which the query visits them. Entities
/// that the hash picks are despawned, and new ones come.
fn step(world: &mut World, hash: &mut u64) {
    let mut visited: Vec<Entity> = Vec::new();
    for (entity, number) in world.query_mut::<(Entity, &mut Number)>() {
        *hash = hash.wrapping_mul(31).wrapping_add(u64::from(number.0));
        number.0 = number.0.wrapping_add(*hash as u32 % 7);
        visited.push(entity);
    }
    world.despawn(visited[*hash as usize % visited.len()]).unwrap();
    (0..*hash % 3).for_each(|_| _ = world.spawn((Number(*hash as u32 % 100),)));
}

#[test]
fn a_simulation_that_depends_on_order_goes_on_as_it_did() {
    let mut bonfire = Bonfire::new();
    bonfire.persist::<Number>().unwrap();
    let mut world = World::new();
    (0..40).for_each(|number| _ = world.spawn((Number(number),)));
    let mut checkpoints = Checkpoints::new(100).row_order(RowOrder::Restore);
    let mut hash = 7;
    let mut states = Vec::new();
    for tick in 0..30 {
        checkpoints.take(&mut bonfire, &world, tick).unwrap();
        states.push((hash, numbers(&world)));
        step(&mut world, &mut hash);
    }
    for tick in [29, 11, 3] {
        checkpoints.rewind(&mut bonfire, &mut world, tick).unwrap();
        hash = states[tick as usize].0;
        for state in &states[tick as usize..] {
            assert_eq!((hash, numbers(&world)), *state, "from tick {tick}");
            step(&mut world, &mut hash);
        }
    }
}
